/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_place.c - values that are built in place. Invariants: what is stored is what stood there
 * at commit, whole; nobody sees it before, nor after an abort; memory is given back, whatever
 * happens to the place, the handle, the manager or the process; a place is not used again while a
 * manager may still read it.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct dict x;
static ddict_t *d;

static void begin(int nodes) {
    dict_start(&x, nodes, 2, 256 * MIB);
    d = dict_attach(&x, 0);
}

static void end(void) {
    ddict_detach(d);
    dict_stop(&x);
}

static void check(const char *key, size_t klen, size_t len, uint64_t seed, unsigned tag) {
    struct ddict_view v;
    ok(ddict_view(d, key, klen, &v, 0, -1));
    ck_assert_uint_eq(v.len, len);
    ck_assert_uint_eq(v.tag, tag);
    ck_assert(value_is(v.data, v.len, seed));
    ddict_release(&v);
}

START_TEST(what_is_built_is_stored) {
    static const size_t len[] = {0,      1,      100,    4096,         16384,   16385,
                                 131008, 131009, 500000, 5 * MIB + 77, 40 * MIB};
    begin(2);
    for (unsigned m = 0; m < 2; m++)
        for (unsigned i = 0; i < sizeof len / sizeof len[0]; i++) {
            char key[32];
            size_t klen = key_of(d, m, i, key, 32);
            struct ddict_place p;
            ok(ddict_reserve(d, key, klen, len[i], DDICT_TAG(i), &p));
            ck_assert(p.len == len[i] && ((uintptr_t)p.data & 63) == 0);
            value_fill(p.data, len[i], i + 1);
            ck_assert_int_eq(ddict_contains(d, key, klen, NULL, -1), 0);
            ok(ddict_commit(&p, -1));
            ck_assert_ptr_null(p.data);
            fails(-EINVAL, ddict_commit(&p, -1));
            ddict_abort(&p);
            check(key, klen, len[i], i + 1, i);
            ok(ddict_del(d, key, klen, -1));
        }
    end();
}
END_TEST

START_TEST(modes_and_refusals) {
    struct ddict_place p;
    begin(1);
    ok(ddict_put(d, "k", 1, "old", 3, 0, -1));
    ok(ddict_reserve(d, "k", 1, 100000, DDICT_NEW, &p));
    fails(DDICT_EEXISTS, ddict_commit(&p, -1));
    ok(ddict_reserve(d, "none", 4, 10, DDICT_EXISTING, &p));
    fails(DDICT_ENOKEY, ddict_commit(&p, -1));
    ok(ddict_reserve(d, "k", 1, 100000, 0, &p));
    ddict_abort(&p);
    ddict_abort(&p);
    struct ddict_view v;
    ok(ddict_view(d, "k", 1, &v, 0, -1));
    ck_assert(v.len == 3 && memcmp(v.data, "old", 3) == 0);
    ddict_release(&v);
    fails(DDICT_EKEYSIZE, ddict_reserve(d, "", 0, 1, 0, &p));
    fails(-EINVAL, ddict_reserve(d, "k", 1, 1, DDICT_NEW | DDICT_EXISTING, &p));
    fails(DDICT_EVALSIZE, ddict_reserve(d, "k", 1, (size_t)1 << 40, 0, &p));
    ck_assert_ptr_null(p.own_);
    ok(ddict_reserve(d, "k", 1, 100000, 0, &p));
    fails(-ETIMEDOUT, ddict_commit(&p, 0));
    /* It does not fit beside what is there: said at commit, and the lane goes on. */
    static char big[100 * MIB];
    ok(ddict_put(d, "a", 1, big, sizeof big, 0, -1));
    char key[32];
    for (unsigned m = 0; m < 2; m++) {
        size_t klen = key_of(d, m, 3, key, 32);
        ok(ddict_reserve(d, key, klen, 100 * MIB, 0, &p));
        int rc = ddict_commit(&p, -1);
        ck_assert(rc == (ddict_owner(d, "a", 1) == m ? DDICT_EFULL : 0));
    }
    ok(ddict_reserve(d, "k", 1, 100000, 0, &p));
    value_fill(p.data, p.len, 5);
    ok(ddict_commit(&p, -1));
    check("k", 1, 100000, 5, 0);
    end();
}
END_TEST

START_TEST(many_places_at_once) {
    enum { N = 60 };
    struct ddict_place p[N];
    char key[N][32];
    begin(2);
    for (int turn = 0; turn < 4; turn++) {
        for (unsigned i = 0; i < N; i++) {
            size_t klen = key_of(d, i % 2, i, key[i], 32),
                   len = 100 + (i * 77777u + (unsigned)turn * 5555u) % (2 * MIB);
            ok(ddict_reserve(d, key[i], klen, len, 0, &p[i]));
            value_fill(p[i].data, len, i * 10 + (unsigned)turn);
        }
        for (unsigned i = 0; i < N; i++) {
            unsigned k = i * 7 % N;
            size_t len = p[k].len;
            if ((k + (unsigned)turn) % 5 == 0) {
                ddict_abort(&p[k]);
                continue;
            }
            ok(ddict_commit_keep(&p[k], -1));
            check(key[k], strlen(key[k]), len, k * 10 + (unsigned)turn, 0);
            memset(p[k].data, 0xee, len); /* the value is stored */
            check(key[k], strlen(key[k]), len, k * 10 + (unsigned)turn, 0);
            ddict_abort(&p[k]);
        }
    }
    end();
}
END_TEST

/* Bytes of shared memory of this process: what it has written in areas. */
static long shmem_kib(void) {
    char line[200];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "RssShmem: %ld kB", &kib) == 1)
            break;
    fclose(f);
    return kib;
}

START_TEST(memory_comes_back) {
    struct ddict_place p;
    char key[32];
    begin(1);
    size_t klen = key_of(d, 0, 0, key, 32);
    for (int i = 0; i < 6; i++) {
        ok(ddict_reserve(d, key, klen, 120 * MIB, 0, &p));
        memset(p.data, i, p.len);
        ck_assert_int_ge(shmem_kib(), 120 << 10);
        if (i % 2)
            ddict_abort(&p);
        else
            ok(ddict_commit(&p, -1));
        ck_assert_int_lt(shmem_kib(), 80 << 10);
        ok(ddict_clear(d, -1));
    }
    end();
}
END_TEST

/* The manager may read a place after its commit has run out of time: it is not given to another. */
START_TEST(a_place_is_not_used_again_while_it_is_read) {
    char key[32], other[32];
    struct ddict_place p;
    begin(1);
    size_t klen = key_of(d, 0, 0, key, 32), olen = key_of(d, 0, 1, other, 32);
    for (int turn = 0; turn < 3; turn++) {
        ok(ddict_reserve(d, key, klen, 3 * MIB, 0, &p));
        value_fill(p.data, p.len, 7);
        kill(x.manager[0], SIGSTOP);
        usleep(20000);
        fails(-ETIMEDOUT, ddict_commit(&p, 100));
        ok(ddict_reserve(d, other, olen, 3 * MIB, 0, &p));
        value_fill(p.data, p.len, 8);
        kill(x.manager[0], SIGCONT);
        ok(ddict_commit(&p, 20000));
        check(other, olen, 3 * MIB, 8, 0);
        int there = ddict_contains(d, key, klen, NULL, -1);
        ok(there);
        if (there)
            check(key, klen, 3 * MIB, 7, 0);
    }
    end();
}
END_TEST

START_TEST(fork_and_detach_end_places) {
    struct ddict_place p, kept;
    begin(2);
    ok(ddict_reserve(d, "k", 1, MIB, 0, &p));
    value_fill(p.data, p.len, 3);
    pid_t pid = fork();
    if (pid == 0) {
        kept = p;
        int rc = ddict_commit(&kept, -1) == -ECANCELED ? 0 : 1;
        if (rc == 0 && (ddict_reserve(d, "child", 5, MIB, 0, &kept) < 0 ||
                        (value_fill(kept.data, MIB, 9), ddict_commit(&kept, -1) < 0)))
            rc = 2;
        _exit(rc);
    }
    int status;
    ck_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ok(ddict_commit(&p, -1));
    check("k", 1, MIB, 3, 0);
    check("child", 5, MIB, 9, 0);
    ok(ddict_reserve(d, "k", 1, MIB, 0, &p));
    ok(ddict_reserve(d, "k", 1, 10, 0, &kept));
    ddict_detach(d);
    fails(-ECANCELED, ddict_commit(&p, -1));
    ddict_abort(&kept);
    d = dict_attach(&x, 1);
    end();
}
END_TEST

static void *commit_later(void *arg) {
    struct ddict_place *p = arg;
    for (;;) {
        int rc = ddict_commit_keep(p, 5000);
        if (rc < 0)
            return rc == DDICT_ELOST || rc == DDICT_EGONE ? arg : NULL;
    }
}

START_TEST(deaths_leave_nothing) {
    int fd[2];
    setenv("DDICT_RESTARTS", "0", 1); /* a manager that dies is not started again */
    begin(2);
    /* A process dies with places, one of them on its way. */
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pipe(fd), 0);
        pid_t pid = fork();
        if (pid == 0) {
            struct ddict_place p, q;
            char key[32];
            size_t klen = key_of(d, i % 2, 0, key, 32);
            if (ddict_reserve(d, key, klen, 20 * MIB, 0, &p) < 0 ||
                ddict_reserve(d, "k", 1, MIB, 0, &q) < 0)
                _exit(1);
            value_fill(p.data, p.len, 1);
            if (write(fd[1], "x", 1) != 1)
                _exit(1);
            for (;;)
                ddict_commit_keep(&p, -1);
        }
        char c;
        close(fd[1]);
        ck_assert_int_eq(read(fd[0], &c, 1), 1);
        close(fd[0]);
        usleep((useconds_t)i * 15000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    char key[32];
    for (unsigned m = 0; m < 2; m++) { /* whole or not there */
        size_t klen = key_of(d, m, 0, key, 32);
        int there = ddict_contains(d, key, klen, NULL, -1);
        ok(there);
        if (there)
            check(key, klen, 20 * MIB, 1, 0);
    }
    ok(ddict_clear(d, -1));
    struct ddict_manager_stats *s;
    double end_s = now_s() + 20;
    uint64_t used;
    do {
        ck_assert(now_s() < end_s);
        usleep(10000);
        ok(ddict_put(d, "t", 1, "t", 1, 0, -1));
        ok(ddict_stats(d, &s, sizeof *s, -1));
        used = s[0].total_used_bytes > s[1].total_used_bytes ? s[0].total_used_bytes
                                                             : s[1].total_used_bytes;
        free(s);
    } while (used > 8 * MIB);
    /* The manager dies under a commit. */
    struct ddict_place p;
    pthread_t t;
    void *good;
    size_t klen = key_of(d, 0, 0, key, 32);
    ok(ddict_reserve(d, key, klen, 20 * MIB, 0, &p));
    value_fill(p.data, p.len, 1);
    x.broken = true;
    ck_assert_int_eq(pthread_create(&t, NULL, commit_later, &p), 0);
    usleep(30000);
    kill(x.manager[0], SIGKILL);
    pthread_join(t, &good);
    ck_assert_ptr_nonnull(good);
    ddict_abort(&p);
    end();
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_place");
    TCase *t = tcase_create("places");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_is_built_is_stored);
    tcase_add_test(t, modes_and_refusals);
    tcase_add_test(t, many_places_at_once);
    tcase_add_test(t, memory_comes_back);
    suite_add_tcase(s, t);
    t = tcase_create("ends");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_place_is_not_used_again_while_it_is_read);
    tcase_add_test(t, fork_and_detach_end_places);
    tcase_add_test(t, deaths_leave_nothing);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
