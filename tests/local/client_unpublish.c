/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_unpublish.c - the ends of what is published. Invariants: nothing is left of what is taken back,
 * of publishers that died, nor of followers that did; who published is told the truth; nobody waits
 * without a deadline.
 */
#include "client_dict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MIB   (1u << 20)
#define NODES 4
#define WAIT  30000
#define MOST  (8u * MIB)
#define LEFT  (256u << 10) /* of all managers: indexes of keys, what counts them */

static struct dict x;
static ddict_t *d[NODES];
static char *buf; /* shared by forks */

static void begin(uint64_t mem) {
    buf = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(buf != MAP_FAILED);
    dict_begin_all(&x, d, NODES, 1, mem);
}

static void end(void) {
    dict_end_all(&x, d);
    munmap(buf, MOST);
}

static uint64_t used(void) {
    struct ddict_manager_stats *s;
    uint64_t sum = 0;
    int n = ddict_stats(d[0], &s, sizeof *s, -1);
    ok(n);
    for (int m = 0; m < n; m++)
        sum += s[m].total_used_bytes - s[m].retired_bytes;
    free(s);
    return sum;
}

static int64_t hidden(void) {
    struct ddict_manager_stats *s;
    int64_t sum = 0;
    int n = ddict_stats(d[0], &s, sizeof *s, -1);
    ok(n);
    for (int m = 0; m < n; m++)
        sum += (int64_t)s[m].hidden_keys;
    free(s);
    return sum;
}

/* What is used comes back to this, with the next turns of the managers. */
static void nothing_left(uint64_t before) {
    for (int i = 0; i < 400 && (hidden() > 0 || used() > before + LEFT); i++)
        usleep(25000);
    ck_assert_msg(hidden() == 0, "%lld items are left", (long long)hidden());
    ck_assert_msg(used() <= before + LEFT, "%llu bytes are left",
                  (unsigned long long)(used() - before));
}

static int publish_in(ddict_t *h, size_t len, uint64_t seed, uint64_t *version, int ms) {
    struct iovec iov = {buf, len};
    value_fill(buf, len, seed);
    return ddict_publish(h, "w", 1, &iov, 1, DDICT_TAG(9), version, ms);
}

static int publish(ddict_t *h, size_t len, uint64_t seed, uint64_t *version) {
    return publish_in(h, len, seed, version, WAIT);
}

static int unpublish(ddict_t *h) {
    return ddict_unpublish(h, "w", 1, WAIT);
}

START_TEST(followers_are_told_once_and_memory_comes_back) {
    static const size_t lens[] = {0, 1000, 3 * MIB + 5};
    ddict_follow_t *f[NODES];
    struct ddict_view v, kept;
    begin(128 * MIB);
    uint64_t version, before = used();
    fails(DDICT_ENOKEY, unpublish(d[0]));
    for (unsigned k = 0; k < 3; k++) {
        for (int i = 0; i < NODES; i++)
            ok(ddict_follow_open(d[i], "w", 1, &f[i], WAIT));
        for (uint64_t n = 1; n < 4; n++) {
            ok(publish(d[k], lens[k], n, &version));
            ck_assert_uint_eq(version, n);
            for (int i = 0; i < NODES; i++) {
                ck_assert_int_eq(ddict_follow_next(f[i], &v, &version, WAIT), 1);
                ck_assert(version == n && v.len == lens[k] && v.tag == 9);
                ck_assert(v.len == 0 || value_is(v.data, v.len, n));
                ddict_release(&v);
            }
        }
        ok(ddict_bget(d[2], "w", 1, &kept, 0, WAIT));
        ok(unpublish(d[(k + 1) % NODES]));
        nothing_left(before);
        for (int i = 0; i < NODES; i++) {
            fails(DDICT_ENOKEY, ddict_bget(d[i], "w", 1, &v, 0, WAIT));
            fails(DDICT_ENOKEY, unpublish(d[i]));
            fails(DDICT_ENOKEY, ddict_follow_next(f[i], &v, NULL, WAIT));
            ck_assert_int_eq(ddict_follow_next(f[i], &v, NULL, 10), 0);
        }
        ck_assert(kept.len == 0 || value_is(kept.data, kept.len, 3));
        ddict_release(&kept);
        ok(publish(d[3], 5000, 7, &version));
        ck_assert_uint_eq(version, 1);
        for (int i = 0; i < NODES; i++) {
            ck_assert_int_eq(ddict_follow_next(f[i], &v, &version, WAIT), 1);
            ck_assert(version == 1 && value_is(v.data, v.len, 7));
            ddict_release(&v);
            ddict_follow_close(f[i]);
        }
        ok(unpublish(d[0]));
    }
    nothing_left(before);
    end();
}
END_TEST

START_TEST(a_follower_that_waits_is_woken) {
    struct ddict_view v;
    ddict_follow_t *f;
    begin(64 * MIB);
    ok(publish(d[0], 100, 1, NULL));
    pid_t p = fork();
    if (p == 0) {
        usleep(100000);
        _exit(unpublish(d[1]) != 0);
    }
    ok(ddict_follow_open(d[3], "w", 1, &f, WAIT));
    ck_assert_int_eq(ddict_follow_next(f, &v, NULL, WAIT), 1);
    ddict_release(&v);
    fails(DDICT_ENOKEY, ddict_follow_next(f, &v, NULL, WAIT));
    expect_exit(p, 0);
    ddict_follow_close(f);
    end();
}
END_TEST

START_TEST(a_timeout_of_0_looks) {
    struct ddict_view v;
    begin(64 * MIB);
    for (int i = 0; i < NODES; i++) {
        ddict_follow_t *f;
        ok(ddict_follow_open(d[i], "w", 1, &f, WAIT));
        ck_assert_int_eq(ddict_follow_next(f, &v, NULL, 0), 0);
        for (uint64_t n = 1; n < 4; n++) {
            ok(publish(d[1], n == 2 ? MIB : 100, n, NULL));
            ck_assert_int_eq(ddict_follow_next(f, &v, NULL, 0), 1);
            ck_assert(value_is(v.data, v.len, n));
            ddict_release(&v);
            ck_assert_int_eq(ddict_follow_next(f, &v, NULL, 0), 0);
        }
        ok(unpublish(d[0]));
        fails(DDICT_ENOKEY, ddict_follow_next(f, &v, NULL, 0));
        ddict_follow_close(f);
    }
    end();
}
END_TEST

/* Until it is killed or all is done: whole versions alone. */
static pid_t follows(int node, int stop) {
    pid_t p = fork();
    if (p != 0)
        return p;
    ddict_follow_t *f;
    struct ddict_view v;
    char c;
    if (ddict_follow_open(d[node], "w", 1, &f, WAIT) < 0)
        _exit(1);
    while (recv(stop, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0) {
        int rc = ddict_follow_next(f, &v, NULL, 20);
        if (rc < 0 && rc != DDICT_ENOKEY) {
            fprintf(stderr, "next on node %d: %d %s\n", node, rc, ddict_errmsg());
            _exit(2);
        }
        if (rc != 1)
            continue;
        bool good = false;
        for (uint64_t s = 1; s < 200 && !good; s++)
            good = value_is(v.data, 64, s) && value_is(v.data, v.len, s);
        if (!good)
            _exit(3);
        ddict_release(&v);
    }
    _exit(0);
}

START_TEST(it_is_taken_back_while_it_is_published_and_followed) {
    enum { EACH = 12 };
    int stop[2];
    pid_t pub[2], p[NODES];
    begin(256 * MIB);
    uint64_t before = used();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, stop), 0);
    for (int i = 0; i < NODES; i++)
        p[i] = follows(i, stop[0]);
    for (int k = 0; k < 2; k++)
        if ((pub[k] = fork()) == 0) {
            static char mine[2 * MIB];
            for (unsigned i = 0; i < EACH; i++) {
                struct iovec iov = {mine, i % 3 ? 900000u + i : 3000u};
                value_fill(mine, iov.iov_len, (uint64_t)k * EACH + i + 1);
                if (ddict_publish(d[k], "w", 1, &iov, 1, DDICT_TAG(9), NULL, WAIT) < 0) {
                    fprintf(stderr, "publish: %s\n", ddict_errmsg());
                    _exit(1);
                }
            }
            _exit(0);
        }
    int taken = 0, ended = 0;
    while (ended < 2) {
        int rc = unpublish(d[3]), status;
        ck_assert_msg(rc == 0 || rc == DDICT_ENOKEY, "%d %s", rc, ddict_errmsg());
        taken += rc == 0;
        while (ended < 2 && waitpid(pub[ended], &status, WNOHANG) > 0) {
            ck_assert_int_eq(status, 0);
            ended++;
        }
        usleep(2000);
    }
    ck_assert_int_gt(taken, 0);
    ck_assert_int_eq(write(stop[1], "x", 1), 1);
    for (int i = 0; i < NODES; i++)
        expect_exit(p[i], 0);
    int rc = unpublish(d[0]);
    ck_assert(rc == 0 || rc == DDICT_ENOKEY);
    nothing_left(before);
    close(stop[0]);
    close(stop[1]);
    end();
}
END_TEST

START_TEST(forty_publishers_at_once) {
    enum { N = 40, EACH = 2 };
    pid_t p[N];
    uint64_t version;
    begin(256 * MIB);
    uint64_t before = used();
    for (int k = 0; k < N; k++)
        if ((p[k] = fork()) == 0) {
            static char mine[200000];
            struct iovec iov = {mine, sizeof mine};
            for (int i = 0; i < EACH; i++)
                if (ddict_publish(d[k % NODES], "w", 1, &iov, 1, DDICT_TAG(9), NULL, 4 * WAIT) <
                    0) {
                    fprintf(stderr, "publisher %d: %s\n", k, ddict_errmsg());
                    _exit(1);
                }
            _exit(0);
        }
    for (int k = 0; k < N; k++)
        expect_exit(p[k], 0);
    ok(publish(d[0], 100, 1, &version));
    ck_assert_uint_eq(version, N * EACH + 1);
    ok(unpublish(d[0]));
    nothing_left(before);
    end();
}
END_TEST

/* An index as FORMAT 8 has it, full of values that this client is making. */
static void index_full(uint64_t node, uint64_t client) {
    enum { HEAD = 64, ENTRY = 64, N = 32 };
    static uint8_t at[HEAD + N * ENTRY];
    memset(at, 0, sizeof at);
    memcpy(at, &(uint32_t){1}, 4);
    memcpy(at + 4, &(uint32_t){N}, 4);
    for (uint64_t i = 2; i < N; i++) {
        uint64_t e[6] = {0, node, client, i, 1 << 20, 1 << 16};
        uint16_t making = 2;
        memcpy(at + HEAD + i * ENTRY, e, sizeof e);
        memcpy(at + HEAD + i * ENTRY + sizeof e + 4, &making, 2);
    }
    ok(ddict_put(d[0], "\0ddict.pub/iw", 13, at, sizeof at, 0, WAIT));
}

START_TEST(without_room_in_the_index_a_publisher_waits) {
    struct ddict_client me;
    struct ddict_view v;
    begin(64 * MIB);
    ok(ddict_self(d[0], &me, WAIT));
    index_full(me.node, me.id);
    double t = now_s();
    fails(-ETIMEDOUT, publish_in(d[1], MIB, 1, NULL, 300));
    ck_assert(strstr(ddict_errmsg(), "at once") != NULL);
    ck_assert(now_s() - t > 0.25 && now_s() - t < 20);
    fails(DDICT_ENOKEY, ddict_bget(d[1], "w", 1, &v, 0, WAIT));
    pid_t p = fork();
    if (p == 0) {
        usleep(200000);
        _exit(ddict_del(d[2], "\0ddict.pub/iw", 13, WAIT) != 0);
    }
    ok(publish(d[1], MIB, 2, NULL));
    expect_exit(p, 0);
    ok(unpublish(d[2]));
    index_full(me.node, me.id + 1000); /* of the dead nothing is waited for */
    ok(publish(d[1], MIB, 3, NULL));
    ok(ddict_bget(d[3], "w", 1, &v, 0, WAIT));
    ck_assert(value_is(v.data, v.len, 3));
    ddict_release(&v);
    ok(unpublish(d[3]));
    ck_assert_int_eq(hidden(), 0);
    end();
}
END_TEST

START_TEST(names_and_values_of_all_lengths) {
    enum { LONGEST = DDICT_KEY_MAX - 80 };
    static char name[LONGEST + 1];
    struct ddict_view v;
    begin(128 * MIB);
    uint64_t before = used();
    memset(name, 'n', sizeof name);
    fails(DDICT_EKEYSIZE, ddict_unpublish(d[0], name, 0, WAIT));
    fails(DDICT_EKEYSIZE, ddict_unpublish(d[0], name, sizeof name, WAIT));
    fails(DDICT_EKEYSIZE, ddict_bput(d[0], name, sizeof name, "", 0, 0, WAIT));
    static const size_t nlens[] = {1, LONGEST}, lens[] = {0, 1, 65536, 65537, 2 * MIB};
    for (unsigned i = 0; i < 10; i++) {
        size_t nlen = nlens[i % 2], len = lens[i / 2];
        value_fill(buf, len, i + 1);
        ok(ddict_bput(d[1], name, nlen, buf, len, DDICT_TAG(3), WAIT));
        for (int k = 0; k < NODES; k++) {
            ok(ddict_bget(d[k], name, nlen, &v, 0, WAIT));
            ck_assert(v.len == len && v.tag == 3 && value_is(v.data, len, i + 1));
            ddict_release(&v);
        }
    }
    for (int i = 0; i < 2; i++)
        ok(ddict_unpublish(d[2], name, nlens[i], WAIT));
    nothing_left(before);
    end();
}
END_TEST

START_TEST(in_a_full_dictionary) {
    struct ddict_view v;
    ddict_follow_t *f;
    static char fill[MIB];
    begin(64 * MIB); /* 16 on each node */
    uint64_t before = used();
    ok(publish(d[0], MIB, 1, NULL));
    ok(ddict_follow_open(d[1], "w", 1, &f, WAIT));
    ck_assert_int_eq(ddict_follow_next(f, &v, NULL, WAIT), 1);
    ddict_release(&v);
    for (unsigned m = 0; m < NODES; m++) {
        unsigned i = 0;
        for (size_t len = sizeof fill; len > 0; len /= 4) {
            char key[32];
            while (ddict_put(d[m], key, key_of(d[0], m, i++, key, sizeof key), fill, len, 0,
                             WAIT) == 0) {
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        fails(DDICT_EFULL, publish(d[i], 3 * MIB, 2, NULL));
        fails(DDICT_EFULL, publish(d[i], 60000, 2, NULL));
        ok(ddict_bget(d[1], "w", 1, &v, 0, WAIT));
        ck_assert(v.version == 1 && v.len == MIB);
        ddict_release(&v);
        ck_assert_int_eq(ddict_follow_next(f, &v, NULL, 20), 0);
    }
    ok(ddict_bget(d[2], "w", 1, &v, 0, WAIT)); /* a copy of its own */
    ddict_release(&v);
    ok(unpublish(d[3]));
    fails(DDICT_ENOKEY, ddict_follow_next(f, &v, NULL, WAIT));
    ddict_follow_close(f);
    ok(ddict_clear(d[0], WAIT));
    nothing_left(before);
    end();
}
END_TEST

START_TEST(a_frozen_one_is_not_taken_back) {
    struct ddict_view v;
    begin(64 * MIB);
    ok(publish(d[0], 2 * MIB, 1, NULL));
    ok(ddict_freeze(d[0], WAIT));
    fails(DDICT_EFROZEN, unpublish(d[1]));
    ok(ddict_bget(d[2], "w", 1, &v, 0, WAIT));
    ck_assert(value_is(v.data, v.len, 1));
    ddict_release(&v);
    ok(ddict_unfreeze(d[0], WAIT));
    ok(unpublish(d[1]));
    ck_assert_int_eq(hidden(), 0);
    end();
}
END_TEST

START_TEST(followers_that_are_killed_leave_nothing) {
    begin(256 * MIB);
    uint64_t before = used();
    for (int turn = 0; turn < 8; turn++) {
        pid_t p[NODES];
        int said[2];
        char c;
        ok(publish(d[turn % NODES], MOST, 1, NULL));
        ck_assert_int_eq(pipe(said), 0);
        for (int i = 0; i < NODES; i++)
            if ((p[i] = fork()) == 0) {
                struct ddict_view v;
                if (turn < 2 && ddict_bget(d[i], "w", 1, &v, 0, WAIT) < 0)
                    _exit(1);
                tell(said[1]); /* it holds it, or is about to fetch it */
                if (turn >= 2)
                    ddict_bget(d[i], "w", 1, &v, 0, WAIT);
                pause();
            }
        for (int i = 0; i < NODES; i++)
            ck_assert_int_eq(read(said[0], &c, 1), 1);
        if (turn >= 2)
            usleep((useconds_t)(500 << turn));
        for (int i = 0; i < NODES; i++) {
            kill(p[i], SIGKILL);
            waitpid(p[i], NULL, 0);
        }
        close(said[0]);
        close(said[1]);
        ok(unpublish(d[0]));
        nothing_left(before);
    }
    end();
}
END_TEST

START_TEST(one_that_stands_still_holds_one_version) {
    struct ddict_view v;
    uint64_t most = 0, version;
    begin(256 * MIB);
    uint64_t before = used();
    ok(publish(d[0], MOST, 1, NULL));
    pid_t p = fork();
    if (p == 0) {
        ddict_follow_t *f;
        ddict_follow_open(d[2], "w", 1, &f, WAIT);
        do
            if (ddict_follow_next(f, &v, &version, WAIT) != 1)
                _exit(1);
            else
                ddict_release(&v);
        while (version < 21);
        _exit(0);
    }
    usleep(4000);
    kill(p, SIGSTOP);
    for (uint64_t n = 2; n <= 21; n++) {
        ok(publish(d[0], MOST, n, NULL));
        most = used() - before > most ? used() - before : most;
    }
    /* two versions and that one, and what it has itself */
    ck_assert_msg(most < 5 * (MOST + MIB), "%llu MiB", (unsigned long long)(most / MIB));
    kill(p, SIGCONT);
    expect_exit(p, 0);
    ok(unpublish(d[1]));
    nothing_left(before);
    end();
}
END_TEST

/* Unpublish while a process is stopped that fetches the value. */
static int unpublish_under_way(useconds_t after) {
    struct ddict_view v;
    ok(publish(d[0], MOST, 1, NULL));
    pid_t p = fork();
    if (p == 0)
        _exit(ddict_bget(d[2], "w", 1, &v, 0, WAIT) < 0);
    usleep(after);
    kill(p, SIGSTOP);
    int rc = ddict_unpublish(d[1], "w", 1, 100);
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
    return rc;
}

START_TEST(what_could_not_be_removed_in_time_is_later) {
    begin(256 * MIB);
    uint64_t before = used();
    int rc = 0;
    for (useconds_t i = 0; i < 400 && (rc = unpublish_under_way(1000 + i % 20 * 500)) == 0; i++) {
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    fails(DDICT_ENOKEY, unpublish(d[3]));
    nothing_left(before);
    end();
}
END_TEST

START_TEST(a_publisher_that_is_killed_under_way_disturbs_nobody) {
    int stop[2];
    pid_t p[NODES];
    begin(256 * MIB);
    uint64_t before = used(), version = 0;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, stop), 0);
    for (int i = 0; i < NODES; i++)
        p[i] = follows(i, stop[0]);
    value_fill(buf, MOST, 1);
    for (int turn = 0; turn < 24; turn++) {
        pid_t pub = fork();
        if (pub == 0) {
            struct iovec iov = {buf, turn % 4 ? MOST : 9000};
            for (;;)
                ddict_publish(d[turn % NODES], "w", 1, &iov, 1, DDICT_TAG(9), NULL, WAIT);
        }
        usleep((useconds_t)(500 + 1700 * turn));
        kill(pub, SIGKILL);
        waitpid(pub, NULL, 0);
        struct ddict_view v;
        int rc = ddict_bget(d[(turn + 1) % NODES], "w", 1, &v, 0, WAIT);
        ck_assert_msg(rc == 0 || (rc == DDICT_ENOKEY && version == 0), "%s", ddict_errmsg());
        if (rc == 0) {
            ck_assert(v.version >= version && value_is(v.data, v.len, 1));
            version = v.version;
            ddict_release(&v);
        }
    }
    ck_assert_uint_gt(version, 0);
    ck_assert_int_eq(write(stop[1], "x", 1), 1);
    for (int i = 0; i < NODES; i++)
        expect_exit(p[i], 0);
    ok(publish(d[0], 100, 2, NULL)); /* settles what the dead left */
    ok(unpublish(d[0]));
    nothing_left(before);
    close(stop[0]);
    close(stop[1]);
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {followers_are_told_once_and_memory_comes_back,
                                  a_follower_that_waits_is_woken,
                                  a_timeout_of_0_looks,
                                  it_is_taken_back_while_it_is_published_and_followed,
                                  forty_publishers_at_once,
                                  without_room_in_the_index_a_publisher_waits,
                                  names_and_values_of_all_lengths,
                                  in_a_full_dictionary,
                                  a_frozen_one_is_not_taken_back,
                                  followers_that_are_killed_leave_nothing,
                                  one_that_stands_still_holds_one_version,
                                  what_could_not_be_removed_in_time_is_later,
                                  a_publisher_that_is_killed_under_way_disturbs_nobody};
    return tests_main("client_unpublish", argc, argv, tests, sizeof tests / sizeof tests[0]);
}
