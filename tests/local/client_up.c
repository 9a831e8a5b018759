/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_up.c - dictionaries that a program makes by ddict_up(), and what is left of them. The command
 * `ddict` is the one beside the library, or a script that does something else.
 */
#include <ddict.h>

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ok(call)                                                           \
    do {                                                                   \
        int rc_ = (call);                                                  \
        ck_assert_msg(rc_ >= 0, "%s: %d, %s", #call, rc_, ddict_errmsg()); \
    } while (0)
#define fails(code, call)                                                       \
    do {                                                                        \
        int rc_ = (call);                                                       \
        ck_assert_msg(rc_ == (code), "%s: %d, %s", #call, rc_, ddict_errmsg()); \
    } while (0)
#define says(text) \
    ck_assert_msg(strstr(ddict_errmsg(), text), "\"%s\" in: %s", text, ddict_errmsg())

static char name[64], named[80], script[64];
static const char *options[] = {named, "--mem=32M", "--managers=2", NULL, NULL};

static void name_make(void) {
    snprintf(name, sizeof name, "client_up%d", getpid());
    snprintf(named, sizeof named, "--name=%s", name);
    options[3] = NULL;
    unsetenv("DDICT_COMMAND");
    unsetenv("DDICT_NAME");
}

static int is_there(void) {
    ddict_t *d;
    int rc = ddict_attach(&d, name, 5000);
    if (rc == 0)
        ddict_detach(d);
    return rc == 0;
}

/* Within 30 s nobody listens under the name. */
static void gone_soon(void) {
    ddict_t *d;
    for (int i = 0; i < 600; i++) {
        int rc = ddict_attach(&d, name, 5000);
        if (rc == 0)
            ddict_detach(d);
        if (rc == DDICT_ENODICT)
            return;
        usleep(50000);
    }
    ck_abort_msg("%s is still there: %s", name, ddict_errmsg());
}

/* `ddict` is this script from now on. */
static void command_is(const char *text) {
    snprintf(script, sizeof script, "/tmp/client_up.XXXXXX");
    int fd = mkstemp(script);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(dprintf(fd, "#!/bin/sh\n%s\n", text), 0);
    fchmod(fd, 0700);
    close(fd);
    setenv("DDICT_COMMAND", script, 1);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

START_TEST(up_and_down) {
    struct ddict_info info;
    ddict_t *d;
    name_make();
    ok(ddict_up(&d, options, -1));
    ok(ddict_get_info(d, &info));
    ck_assert_str_eq(info.name, name);
    ck_assert_uint_eq(info.managers, 2);
    ck_assert_uint_eq(info.total_bytes, 32 << 20);
    ok(ddict_put(d, "k", 1, "v", 1, 0, -1));
    fails(DDICT_ENODICT, ddict_up(&(ddict_t *){NULL}, options, -1));
    says("already");
    ok(ddict_detach(d));
    ok(ddict_down(name, -1));
    ck_assert(!is_there());
    fails(DDICT_ENODICT, ddict_down(name, 1000));
    fails(DDICT_ENODICT, ddict_down(NULL, 1000)); /* none is ours any more */
}
END_TEST

START_TEST(without_a_name_each_has_its_own) {
    const char *plain[] = {"--mem=32M", NULL};
    struct ddict_info a, b;
    ddict_t *d, *e;
    name_make();
    ok(ddict_up(&d, plain, -1));
    ok(ddict_up(&e, plain, -1));
    ok(ddict_get_info(d, &a));
    ok(ddict_get_info(e, &b));
    ck_assert_str_ne(a.name, b.name);
    strcpy(name, b.name);
    ok(ddict_detach(e));
    ok(ddict_down(NULL, -1)); /* the last one */
    ck_assert(!is_there());
    ok(ddict_put(d, "k", 1, "v", 1, 0, -1));
    strcpy(name, a.name);
    ok(ddict_detach(d));
    ok(ddict_down(NULL, -1));
    ck_assert(!is_there());
}
END_TEST

START_TEST(in_parts) {
    ddict_start_t *s;
    ddict_t *d = NULL;
    int rc, turns = 0;
    name_make();
    ok(ddict_up_begin(&s, options));
    while ((rc = ddict_up_wait(s, &d, 1)) == -ETIMEDOUT)
        turns++;
    ok(rc);
    ck_assert_int_gt(turns, 0);
    ok(ddict_put(d, "k", 1, "v", 1, 0, -1));
    fails(-ETIMEDOUT, ddict_down(name, 0)); /* we are attached */
    ok(ddict_detach(d));
    ok(ddict_down(name, -1));
    ck_assert(!is_there());
    ok(ddict_up_begin(&s, options));
    ok(ddict_up_cancel(s));
    ck_assert(!is_there());
}
END_TEST

START_TEST(refusals) {
    const char *bad[] = {"--mem=8X", NULL}, *word[] = {"mem=8G", NULL},
               *none[] = {"--no-such", NULL};
    ddict_t *d = (ddict_t *)&bad;
    name_make();
    fails(DDICT_ENODICT, ddict_up(&d, bad, -1));
    says("--mem=8X: want a size such as 512M");
    ck_assert_ptr_null(d);
    fails(-EINVAL, ddict_up(&d, word, -1));
    says("\"mem=8G\" is no option");
    fails(DDICT_ENODICT, ddict_up(&d, none, -1));
    says("--no-such");
    setenv("DDICT_COMMAND", "/nothing/ddict", 1);
    fails(-ENOENT, ddict_up(&d, options, -1));
    says("DDICT_COMMAND=/nothing/ddict: no such program");
}
END_TEST

START_TEST(a_command_that_hangs) {
    ddict_t *d;
    name_make();
    command_is("read all; exit 0");
    double begin = now_s();
    fails(-ETIMEDOUT, ddict_up(&d, options, 300));
    says("not ready within 300 ms");
    ck_assert(now_s() - begin < 20);
    unlink(script);
    command_is("exec sleep 1000"); /* not even the end of its stdin ends it */
    fails(-ETIMEDOUT, ddict_up(&d, options, 300));
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    unlink(script);
    command_is("echo ddict1 ready name=nobody.here; read all; echo ddict1 end");
    fails(DDICT_ENODICT, ddict_up(&d, options, -1));
    says("the dictionary nobody.here began, but none of its nodes is");
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    unlink(script);
}
END_TEST

/* Somebody listens under the name and never says a word. Whatever comes of it, the start is gone:
 * -ETIMEDOUT would say that it can be waited for again. */
START_TEST(a_dictionary_that_hangs) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char text[160];
    ddict_t *d;
    name_make();
    setenv("DDICT_NODE", "here", 1);
    setenv("DDICT_TIMEOUT", "0.3", 1);
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "ddict/%s/here", name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a,
                          (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + (socklen_t)n),
                     0);
    ck_assert_int_eq(listen(fd, 5), 0);
    for (int kept = 0; kept < 2; kept++) {
        snprintf(text, sizeof text, "echo ddict1 ready name=%s%s; %sexit 0", name,
                 kept ? " kept=yes" : "", kept ? "" : "read all; ");
        command_is(text);
        fails(DDICT_ENODICT, ddict_up(&d, options, -1));
        says("was not ready in time");
        ck_assert_ptr_null(d);
        ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
        unlink(script);
    }
    close(fd);
    unsetenv("DDICT_NODE");
    unsetenv("DDICT_TIMEOUT");
}
END_TEST

/* --- the maker in a process of its own --- */

enum end { EXIT, UNDERSCORE_EXIT, KILLED, KEPT };

/* A line comes when the dictionary is up. */
static pid_t maker_start(enum end how, int *line) {
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        ddict_t *d;
        options[3] = how == KEPT ? "--keep" : NULL;
        if (ddict_up(&d, options, -1) < 0 || ddict_put(d, "k", 1, "v", 1, 0, -1) < 0)
            _exit(9);
        if (write(ends[1], "\n", 1) != 1 || how == UNDERSCORE_EXIT)
            _exit(0);
        if (how == KILLED)
            pause();
        exit(0);
    }
    close(ends[1]);
    *line = ends[0];
    return pid;
}

static void maker_ends(enum end how, bool at_once) {
    char c;
    int line, status;
    name_make();
    pid_t pid = maker_start(how, &line);
    ck_assert_int_eq(read(line, &c, 1), 1);
    close(line);
    if (how == KILLED)
        kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, how == KILLED ? SIGKILL : 0);
    if (at_once)
        ck_assert(!is_there());
    else
        gone_soon();
}

START_TEST(exit_ends_it_and_waits) {
    maker_ends(EXIT, true);
}
END_TEST
START_TEST(underscore_exit_ends_it) {
    maker_ends(UNDERSCORE_EXIT, false);
}
END_TEST
START_TEST(kill_ends_it) {
    maker_ends(KILLED, false);
}
END_TEST

START_TEST(a_kept_one_stays) {
    int line, status;
    ddict_t *d;
    char c;
    name_make();
    pid_t pid = maker_start(KEPT, &line);
    ck_assert_int_eq(read(line, &c, 1), 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    options[3] = "--keep";
    ok(ddict_up(&d, options, -1)); /* finds it */
    ck_assert_int_eq(ddict_contains(d, "k", 1, NULL, -1), 1);
    ok(ddict_detach(d));
    ok(ddict_down(name, -1));
    gone_soon();
}
END_TEST

/* --- forks --- */

static volatile int forking = 1;
static pid_t forked[64];
static int nforked;

static void *fork_on(void *unused) {
    while (forking && nforked < 64) {
        pid_t pid = fork();
        if (pid == 0) {
            pause();
            _exit(0);
        }
        forked[nforked++] = pid;
        usleep(3000);
    }
    return NULL;
}

/* Children that are forked at any moment and live on do not keep it alive. */
START_TEST(children_of_other_threads) {
    pthread_t thread;
    ddict_t *d;
    name_make();
    ck_assert_int_eq(pthread_create(&thread, NULL, fork_on, NULL), 0);
    ok(ddict_up(&d, options, -1));
    forking = 0;
    pthread_join(thread, NULL);
    ck_assert_int_gt(nforked, 2);
    pid_t pid = fork();
    if (pid == 0) /* a child may exit, and detach */
        exit(ddict_detach(d) == 0 ? 0 : 9);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ok(ddict_put(d, "k", 1, "v", 1, 0, -1));
    ok(ddict_detach(d));
    ok(ddict_down(name, 20000));
    ck_assert(!is_there());
    for (int i = 0; i < nforked; i++)
        kill(forked[i], SIGKILL);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_up");
    TCase *c = tcase_create("up");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, up_and_down);
    tcase_add_test(c, without_a_name_each_has_its_own);
    tcase_add_test(c, in_parts);
    tcase_add_test(c, refusals);
    tcase_add_test(c, a_command_that_hangs);
    tcase_add_test(c, a_dictionary_that_hangs);
    tcase_add_test(c, exit_ends_it_and_waits);
    tcase_add_test(c, underscore_exit_ends_it);
    tcase_add_test(c, kill_ends_it);
    tcase_add_test(c, a_kept_one_stays);
    tcase_add_test(c, children_of_other_threads);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
