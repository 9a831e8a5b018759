/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_fork.c - fork, views and handles. Invariants: a view that the child inherited keeps its
 * bytes although the parent released it and the key was replaced many times; when the child has
 * released it, or is dead, or has exec'ed, the memory can be used again; a child and its parent do
 * not disturb each other.
 */
#include "client_dict.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MIB   (1u << 20)
#define VIEWS 60
#define LEN   100000

static struct dict x;
static ddict_t *d;
static struct ddict_view v[VIEWS];
static unsigned char val[LEN];
static int to_child[2], to_parent[2];

static void begin(int nodes) {
    d = dict_begin(&x, nodes, 2, 64 * MIB);
    ck_assert(pipe(to_child) == 0 && pipe(to_parent) == 0);
}

static void end(void) {
    dict_end(&x, d);
}

static void views_take(void) {
    for (unsigned i = 0; i < VIEWS; i++) {
        char k[16];
        size_t n = (size_t)sprintf(k, "v%u", i);
        value_fill(val, LEN, i);
        ok(ddict_put(d, k, n, val, LEN, 0, -1));
        ok(ddict_view(d, k, n, &v[i], 0, -1));
    }
}

/* Replace and delete until the memory of all retired items would have been used again. */
static void churn(void) {
    for (unsigned r = 0; r < 3000; r++) {
        char k[16];
        size_t n = (size_t)sprintf(k, "v%u", r % VIEWS);
        value_fill(val, LEN, 1000 + r);
        ok(ddict_put(d, k, n, val, LEN, 0, 5000));
    }
    ok(ddict_clear(d, -1));
}

/* What in both managers is retired and can not be used again because somebody holds it. */
static void leased_falls_below(uint64_t limit) {
    double until = now_s() + 5;
    uint64_t n;
    do { /* a scan runs when enough is retired: make some */
        for (int i = 0; i < 400; i++)
            ok(ddict_put(d, "scan", 4, val, 8192, 0, -1));
        usleep(10000);
    } while ((n = dict_retired(d)) > limit && now_s() < until);
    ck_assert_msg(n <= limit, "%llu bytes are still held", (unsigned long long)n);
}

static bool all_whole(void) {
    for (unsigned i = 0; i < VIEWS; i++)
        if (!value_is(v[i].data, v[i].len, i))
            return false;
    return true;
}

START_TEST(views_of_the_child_outlive_those_of_the_parent) {
    begin(1);
    views_take();
    pid_t p = fork();
    if (p == 0) {
        await(to_child[0]);
        int rc = all_whole() ? 0 : 1;
        for (unsigned i = 0; i < VIEWS / 2; i++)
            ddict_release(&v[i]);
        tell(to_parent[1]);
        await(to_child[0]);
        for (unsigned i = VIEWS / 2; i < VIEWS; i++)
            if (!value_is(v[i].data, v[i].len, i))
                rc = 2;
        for (unsigned i = VIEWS / 2; i < VIEWS; i++)
            ddict_release(&v[i]);
        tell(to_parent[1]);
        await(to_child[0]);
        _exit(rc);
    }
    for (unsigned i = 0; i < VIEWS; i++)
        ddict_release(&v[i]);
    churn();
    tell(to_child[1]);
    await(to_parent[0]);
    leased_falls_below(VIEWS / 2 * (LEN + 20000ull) + 3 * MIB);
    ck_assert(dict_retired(d) >= VIEWS / 2 * (uint64_t)LEN);
    churn();
    tell(to_child[1]);
    await(to_parent[0]);
    leased_falls_below(3 * MIB); /* the child lives on, but holds nothing */
    tell(to_child[1]);
    expect_exit(p, 0);
    end();
}
END_TEST

START_TEST(views_of_the_parent_outlive_those_of_the_child) {
    begin(1);
    views_take();
    pid_t p = fork();
    if (p == 0) {
        for (unsigned i = 0; i < VIEWS; i++)
            ddict_release(&v[i]);
        _exit(0);
    }
    expect_exit(p, 0);
    churn();
    ck_assert(all_whole());
    for (unsigned i = 0; i < VIEWS; i++)
        ddict_release(&v[i]);
    leased_falls_below(3 * MIB);
    end();
}
END_TEST

static void child_ends_how(void (*how)(void)) {
    begin(1);
    views_take();
    pid_t p = fork();
    if (p == 0) {
        await(to_child[0]);
        if (!all_whole())
            _exit(1);
        how();
        _exit(98);
    }
    for (unsigned i = 0; i < VIEWS; i++)
        ddict_release(&v[i]);
    churn();
    ck_assert(dict_retired(d) >= VIEWS * (uint64_t)LEN);
    tell(to_child[1]);
    int status;
    usleep(100000);
    leased_falls_below(3 * MIB);
    kill(p, SIGKILL);
    ck_assert(waitpid(p, &status, 0) == p);
    ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%x", status);
    end();
}
static void by_kill(void) {
    kill(getpid(), SIGKILL);
}
static void by_exit(void) {
    _exit(0);
}
static void by_exec(void) {
    execlp("sleep", "sleep", "20", (char *)NULL);
}

START_TEST(a_child_that_is_killed_holds_nothing) {
    child_ends_how(by_kill);
}
END_TEST
START_TEST(a_child_that_ends_holds_nothing) {
    child_ends_how(by_exit);
}
END_TEST
START_TEST(a_child_that_execs_holds_nothing) {
    child_ends_how(by_exec);
}
END_TEST

static int child_uses_handle(unsigned me) {
    for (unsigned i = 0; i < 300; i++) {
        char k[24];
        unsigned char b[2000], c[2000];
        size_t n = (size_t)sprintf(k, "c%u.%u", me, i), got;
        value_fill(b, sizeof b, me * 1000 + i);
        if (ddict_put(d, k, n, b, sizeof b, 0, 5000) < 0 ||
            ddict_get(d, k, n, c, sizeof c, &got, NULL, 0, 5000) < 0 || got != sizeof b ||
            memcmp(b, c, got) != 0)
            return 1;
        struct ddict_view w;
        if (ddict_view(d, k, n, &w, 0, 5000) < 0 || !value_is(w.data, w.len, me * 1000 + i))
            return 2;
        ddict_release(&w);
    }
    return 0;
}

START_TEST(a_child_uses_the_handle_of_its_parent) {
    begin(2);
    pid_t p[5];
    ok(ddict_put(d, "a", 1, "b", 1, 0, -1));
    int fds = open_fds();
    for (unsigned i = 0; i < 5; i++) {
        p[i] = fork();
        if (p[i] == 0) {
            int rc = child_uses_handle(i);
            if (rc == 0 && i % 2)
                rc = ddict_detach(d);
            _exit(rc);
        }
    }
    ck_assert_int_eq(child_uses_handle(9), 0);
    for (unsigned i = 0; i < 5; i++)
        expect_exit(p[i], 0);
    ck_assert_int_eq(ddict_len(d, -1), 6 * 300 + 1);
    ck_assert_int_eq(open_fds(), fds);
    struct ddict_manager_stats *s;
    double until = now_s() + 3;
    uint64_t n = 9;
    while (n != 1 && now_s() < until) {
        ok(ddict_stats(d, &s, sizeof *s, -1));
        n = s[0].clients_now;
        free(s);
    }
    ck_assert_uint_eq(n, 1);
    end();
}
END_TEST

START_TEST(a_grandchild_shares_what_its_parent_inherited) {
    begin(1);
    views_take();
    pid_t p = fork();
    if (p == 0) {
        pid_t q = fork();
        if (q == 0) {
            await(to_child[0]);
            int rc = all_whole() ? 0 : 1;
            for (unsigned i = 0; i < VIEWS; i++)
                ddict_release(&v[i]);
            _exit(rc != 0 ? rc : child_uses_handle(3));
        }
        for (unsigned i = 0; i < VIEWS; i++) /* ours, not the grandchild's */
            ddict_release(&v[i]);
        if (child_uses_handle(2) != 0)
            _exit(2);
        tell(to_parent[1]);
        int status;
        waitpid(q, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 77);
    }
    for (unsigned i = 0; i < VIEWS; i++)
        ddict_release(&v[i]);
    await(to_parent[0]);
    churn();
    ck_assert(dict_retired(d) >= VIEWS * (uint64_t)LEN);
    tell(to_child[1]);
    expect_exit(p, 0);
    leased_falls_below(3 * MIB);
    end();
}
END_TEST

START_TEST(remote_views_are_inherited_too) {
    begin(2);
    struct ddict_view far[20];
    for (unsigned i = 0; i < 20; i++) {
        char k[32];
        size_t n = key_of(d, 1, i, k, sizeof k);
        value_fill(val, LEN, i);
        ok(ddict_put(d, k, n, val, i % 2 ? LEN : 500, 0, -1)); /* placed, and private memory */
        ok(ddict_view(d, k, n, &far[i], 0, -1));
    }
    pid_t p = fork();
    if (p == 0) {
        await(to_child[0]);
        int rc = 0;
        for (unsigned i = 0; i < 20; i++) {
            if (!value_is(far[i].data, far[i].len, i))
                rc = 1;
            ddict_release(&far[i]);
        }
        _exit(rc);
    }
    for (unsigned i = 0; i < 20; i++)
        ddict_release(&far[i]);
    for (unsigned i = 0; i < 500; i++) { /* transit blocks are used again and again */
        char k[32];
        size_t n = key_of(d, 1, 1 + i % 2 * 2, k, sizeof k);
        struct ddict_view w;
        ok(ddict_view(d, k, n, &w, 0, -1));
        ddict_release(&w);
    }
    tell(to_child[1]);
    expect_exit(p, 0);
    end();
}
END_TEST

static int stop;
static void *busy(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
        char k[16];
        struct ddict_view w;
        size_t n = (size_t)sprintf(k, "v%u", i % VIEWS);
        if (me == 0) {
            unsigned char b[3000];
            value_fill(b, sizeof b, i % VIEWS);
            ok(ddict_put(d, k, n, b, sizeof b, 0, -1));
        } else if (ddict_view(d, k, n, &w, 0, -1) == 0) {
            ck_assert(value_is(w.data, w.len, i % VIEWS));
            ddict_release(&w);
        }
    }
    return NULL;
}

START_TEST(forks_amid_busy_threads) {
    begin(1);
    views_take();
    pthread_t t[3];
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, busy, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < 60; i++) {
        pid_t p = fork();
        if (p == 0) {
            if (!all_whole())
                _exit(1);
            for (unsigned k = 0; k < VIEWS; k++)
                ddict_release(&v[k]);
            _exit(child_uses_handle(i));
        }
        expect_exit(p, 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    ck_assert(all_whole());
    for (unsigned i = 0; i < VIEWS; i++)
        ddict_release(&v[i]);
    leased_falls_below(3 * MIB);
    end();
}
END_TEST

static void *attach_again(void *arg) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        ddict_t *own;
        ok(ddict_attach(&own, arg, -1));
        ddict_detach(own);
    }
    return NULL;
}

static int sockets_connected(void) {
    int n = 0;
    for (int fd = 0; fd < 200; fd++) {
        struct sockaddr_un a;
        socklen_t len = sizeof a;
        n += getpeername(fd, (struct sockaddr *)&a, &len) == 0 && a.sun_family == AF_UNIX;
    }
    return n;
}

/* While it has the socket of an attach of its parent, ddictd does not see that the parent ends. */
START_TEST(a_child_has_no_socket_of_an_attach_that_is_under_way) {
    begin(1);
    char name[100];
    struct ddict_info info;
    ok(ddict_get_info(d, &info));
    snprintf(name, sizeof name, "%s", info.name);
    int before = sockets_connected() - 1; /* the child closes that of d */
    pthread_t t;
    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
    pthread_create(&t, NULL, attach_again, name);
    for (unsigned i = 0; i < 300; i++) {
        usleep(i * 7 % 1000);
        pid_t p = fork();
        if (p == 0)
            _exit(sockets_connected() - before);
        expect_exit(p, 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(t, NULL);
    end();
}
END_TEST

START_TEST(vfork_and_spawn_need_nothing) {
    extern char **environ;
    begin(1);
    views_take();
    int fds = open_fds();
    pid_t p;
    char *argv[] = {"true", NULL};
    ck_assert(posix_spawnp(&p, "true", NULL, NULL, argv, environ) == 0);
    expect_exit(p, 0);
    ck_assert(all_whole());
    ck_assert_int_eq(open_fds(), fds);
    ck_assert_int_eq(child_uses_handle(1), 0);
    for (unsigned i = 0; i < VIEWS; i++)
        ddict_release(&v[i]);
    end();
}
END_TEST

static double fork_time(void) {
    double best = 1;
    for (int i = 0; i < 50; i++) {
        double t = now_s();
        pid_t p = fork();
        if (p == 0)
            _exit(0);
        t = now_s() - t;
        expect_exit(p, 0);
        best = t < best ? t : best;
    }
    return best;
}

START_TEST(a_fork_without_views_costs_little) {
    double before = fork_time();
    begin(1);
    ok(ddict_put(d, "k", 1, "v", 1, 0, -1));
    double after = fork_time();
    /* without membarriers it waits for a millisecond */
    ck_assert_msg(after < 3 * before + 0.003, "%.2f ms a fork, %.2f without a dictionary",
                  after * 1e3, before * 1e3);
    ck_assert_int_eq(child_uses_handle(1), 0);
    end();
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_fork");
    TCase *t = tcase_create("fork");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, views_of_the_child_outlive_those_of_the_parent);
    tcase_add_test(t, views_of_the_parent_outlive_those_of_the_child);
    tcase_add_test(t, a_child_that_is_killed_holds_nothing);
    tcase_add_test(t, a_child_that_ends_holds_nothing);
    tcase_add_test(t, a_child_that_execs_holds_nothing);
    tcase_add_test(t, a_child_uses_the_handle_of_its_parent);
    tcase_add_test(t, a_grandchild_shares_what_its_parent_inherited);
    tcase_add_test(t, remote_views_are_inherited_too);
    tcase_add_test(t, forks_amid_busy_threads);
    tcase_add_test(t, a_child_has_no_socket_of_an_attach_that_is_under_way);
    tcase_add_test(t, vfork_and_spawn_need_nothing);
    tcase_add_test(t, a_fork_without_views_costs_little);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
