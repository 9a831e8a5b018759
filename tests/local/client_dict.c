/* SPDX-License-Identifier: Apache-2.0 */
/* client_dict.c - start and stop a dictionary for a test. */
#include "client_dict.h"

#include "gather_line.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void tell(int fd) {
    ck_assert(write(fd, "x", 1) == 1);
}

void await(int fd) {
    char c;
    if (read(fd, &c, 1) != 1)
        _exit(99);
}

void expect_exit(pid_t p, int code) {
    int status;
    ck_assert(waitpid(p, &status, 0) == p);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == code, "child: status %x", status);
}

int open_fds(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

int mappings(void) {
    int n = 0, c;
    FILE *f = fopen("/proc/self/maps", "r");
    while ((c = getc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

/* One line of ddictd's stdout, without its end. */
static void line_read(int fd, char *line, size_t cap) {
    size_t n = 0;
    double end = now_s() + 60;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ck_assert_msg(now_s() < end && poll(&p, 1, 20000) == 1, "ddictd says nothing");
        char c;
        ssize_t k = read(fd, &c, 1);
        ck_assert_msg(k == 1, "ddictd ended: %.*s", (int)n, line);
        if (c == '\n')
            break;
        if (n + 1 < cap)
            line[n++] = c;
    }
    line[n] = 0;
}

static void line_await(int fd, const char *start, char *line, size_t cap) {
    do {
        line_read(fd, line, cap);
        ck_assert_msg(strncmp(line, "ddict1 error", 12) != 0, "%s", line);
    } while (strncmp(line, start, strlen(start)) != 0);
}

static void daemon_start(struct dict *x, int i, int managers, uint64_t mem) {
    int in[2], out[2];
    char n[16], k[16], id[16], m[32];
    const char *path = getenv("DDICTD"), *transport = getenv("DDICT_TEST_TRANSPORT"),
               *rma = getenv("DDICT_TEST_RMA"), *keyed = getenv("DDICT_TEST_KEYED"),
               *window = getenv("DDICT_TEST_WORKING_SET");
    const char *more = window ? "--working-set" : NULL; /* ends the words if there is none */
    ck_assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    snprintf(n, sizeof n, "%d", managers);
    snprintf(k, sizeof k, "%d", x->nodes);
    snprintf(id, sizeof id, "%d", i);
    snprintf(m, sizeof m, "%llu", (unsigned long long)mem);
    x->pid[i] = fork();
    ck_assert(x->pid[i] >= 0);
    if (x->pid[i] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* when the test is killed */
        dup2(in[0], 0);
        dup2(out[1], 1);
        setenv("DDICT_NODE", x->node[i], 1);
        setpgid(0, 0);
        if (x->nodes == 1)
            execl(path ? path : "./ddictd", "ddictd", "--name", x->name, "--managers", n, "--mem",
                  m, "--wireup", "none", "--drain-ms", "1000", more, window, (char *)NULL);
        else
            execl(path ? path : "./ddictd", "ddictd", "--name", x->name, "--managers", n, "--mem",
                  m, "--wireup", "stdio", "--nodes", k, "--keyed-nodes", keyed ? keyed : k,
                  "--node-id", id, "--drain-ms", "1000", "--transport",
                  transport ? transport : "auto", "--rma", rma ? rma : "auto", more, window,
                  (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    x->in[i] = in[1];
    x->out[i] = out[0];
}

void dict_start(struct dict *x, int nodes, int managers, uint64_t mem) {
    static char line[65536], cards[65536];
    static int count;
    memset(x, 0, sizeof *x);
    x->nodes = nodes;
    signal(SIGPIPE, SIG_IGN);
    snprintf(x->name, sizeof x->name, "%u.local.t%d_%d", (unsigned)geteuid(), (int)getpid(),
             count++);
    for (int i = 0; i < nodes; i++) {
        snprintf(x->node[i], sizeof x->node[i], "t%d-%d", (int)getpid(), i);
        daemon_start(x, i, managers, mem);
    }
    if (nodes > 1) {
        size_t at = 0;
        uint8_t secret[32];
        for (int i = 0; i < nodes; i++) {
            int id, skip = 0;
            line_await(x->out[i], "ddict1 card ", line, sizeof line);
            ck_assert(sscanf(line, "ddict1 card %d %n", &id, &skip) == 1 && id == i && skip > 0);
            at += (size_t)snprintf(cards + at, sizeof cards - at, "%s%s", i > 0 ? " " : "",
                                   line + skip);
        }
        ck_assert_int_ge(sodium_init(), 0);
        randombytes_buf(secret, sizeof secret);
        for (int i = 0; i < nodes; i++)
            gather_line_write(x->in[i], cards, secret);
    }
    line_await(x->out[0], "ddict1 ready", line, sizeof line);
}

void dict_stop(struct dict *x) {
    double end = now_s() + 60; /* 5 are much, where nothing else runs */
    for (int i = 0; i < x->nodes; i++)
        close(x->in[i]);
    for (int i = 0; i < x->nodes; i++) {
        int status = 0;
        pid_t p = 0;
        while (x->pid[i] > 0 && (p = waitpid(x->pid[i], &status, WNOHANG)) == 0 && now_s() < end)
            usleep(5000);
        if (x->pid[i] > 0 && p == 0) {
            kill(x->pid[i], SIGKILL);
            waitpid(x->pid[i], &status, 0);
            ck_abort_msg("ddictd of node %d did not end", i);
        }
        if (x->pid[i] > 0 && !x->broken)
            ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                          "ddictd of node %d: status %x", i, status);
        close(x->out[i]);
    }
    /* managers are not our children: they must be gone all the same */
    for (int i = 0; i < 16; i++)
        while (x->manager[i] > 0 && kill(x->manager[i], 0) == 0) {
            ck_assert_msg(now_s() < end, "manager process %d is left", (int)x->manager[i]);
            usleep(5000);
        }
}

void dict_end(struct dict *x, ddict_t *d) {
    ddict_detach(d);
    dict_stop(x);
}

ddict_t *dict_attach(struct dict *x, int node) {
    ddict_t *d = NULL;
    setenv("DDICT_NAME", x->name, 1);
    setenv("DDICT_NODE", x->node[node], 1);
    ok(ddict_attach(&d, NULL, 20000));
    if (x->manager[0] == 0)
        dict_managers(x, d);
    return d;
}

ddict_t *dict_begin(struct dict *x, int nodes, int managers, uint64_t mem) {
    dict_start(x, nodes, managers, mem);
    return dict_attach(x, 0);
}

void dict_begin_all(struct dict *x, ddict_t **d, int nodes, int managers, uint64_t mem) {
    dict_start(x, nodes, managers, mem);
    for (int i = 0; i < nodes; i++)
        d[i] = dict_attach(x, i);
}

void dict_end_all(struct dict *x, ddict_t **d) {
    for (int i = 0; i < x->nodes; i++)
        ddict_detach(d[i]);
    dict_stop(x);
}

uint64_t dict_retired(ddict_t *d) {
    struct ddict_manager_stats *s;
    uint64_t sum = 0;
    int n = ddict_stats(d, &s, sizeof *s, -1);
    ok(n);
    for (int m = 0; m < n; m++)
        sum += s[m].retired_bytes;
    free(s);
    return sum;
}

void dict_managers(struct dict *x, ddict_t *d) {
    struct ddict_manager_stats *s;
    int n = ddict_stats(d, &s, sizeof *s, 20000);
    ok(n);
    for (int i = 0; i < n && i < 16; i++)
        x->manager[i] = (pid_t)s[i].pid;
    free(s);
}

size_t key_of(ddict_t *d, unsigned m, unsigned i, char *key, size_t cap) {
    for (unsigned k = 0, found = 0;; k++) {
        int n = snprintf(key, cap, "k%u", k);
        if (ddict_owner(d, key, (size_t)n) == m && found++ == i)
            return (size_t)n;
    }
}

static uint64_t word_of(uint64_t seed, uint64_t i) {
    return (seed << 40 ^ i) * 0x9E3779B97F4A7C15ull;
}

void value_fill(void *buf, size_t len, uint64_t seed) {
    for (size_t at = 0; at < len; at += 8) {
        uint64_t w = word_of(seed, at);
        memcpy((char *)buf + at, &w, len - at < 8 ? len - at : 8);
    }
}

bool value_is(const void *buf, size_t len, uint64_t seed) {
    for (size_t at = 0; at < len; at += 8) {
        uint64_t w = word_of(seed, at);
        if (memcmp((const char *)buf + at, &w, len - at < 8 ? len - at : 8) != 0)
            return false;
    }
    return true;
}

static bool is_named(const char *test, int argc, char **argv) {
    bool found = argc < 2;
    for (int i = 1; i < argc; i++)
        found |= strcmp(argv[i], test) == 0;
    return found;
}

int tests_main_with(const char *name, void (*before)(void), void (*after)(void), int argc,
                    char **argv, const TTest *const *tests, size_t n) {
    Suite *s = suite_create(name);
    TCase *t = tcase_create(name);
    tcase_set_timeout(t, 120);
    if (before)
        tcase_add_checked_fixture(t, before, after);
    int wanted = argc < 2 ? (int)n : argc - 1;
    for (size_t i = 0; i < n; i++)
        if (is_named(tests[i]->name, argc, argv))
            tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    bool good = srunner_ntests_failed(r) == 0 && srunner_ntests_run(r) == wanted;
    srunner_free(r);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int tests_main(const char *name, int argc, char **argv, const TTest *const *tests, size_t n) {
    return tests_main_with(name, NULL, NULL, argc, argv, tests, n);
}
