/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_publish.c - one value on every node. Invariants: a version is seen whole or not at all, and
 * none after a newer one; what fails or dies half-way leaves the version before; who dies while it
 * fetches for its node is replaced; not more than two versions stay.
 */
#include "client_dict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB   (1u << 20)
#define NODES 4
#define WAIT  30000
#define BIG   (24u * MIB + 77)

static struct dict x;
static ddict_t *d[NODES];
static char *buf; /* shared by forks */

static void begin(uint64_t mem) {
    buf = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(buf != MAP_FAILED);
    dict_begin_all(&x, d, NODES, 1, mem);
}

static int publish(ddict_t *h, size_t len, uint64_t seed, uint64_t *version) {
    /* of uneven parts, as an array and its head */
    struct iovec iov[3] = {{buf, len / 3}, {buf + len / 3, 0}, {buf + len / 3, len - len / 3}};
    value_fill(buf, len, seed);
    return ddict_publish(h, "w", 1, iov, 3, DDICT_TAG(9), version, WAIT);
}

static bool is_whole(const struct ddict_view *v, size_t len, uint64_t seed) {
    return v->len == len && v->tag == 9 && ((uintptr_t)v->data & 63) == 0 &&
           value_is(v->data, len, seed);
}

static void next_is(ddict_follow_t *f, size_t len, uint64_t seed, uint64_t version) {
    struct ddict_view v;
    uint64_t got = 0;
    ck_assert_msg(ddict_follow_next(f, &v, &got, WAIT) == 1, "%s", ddict_errmsg());
    ck_assert_uint_eq(got, version);
    ck_assert_uint_eq(v.version, version);
    ck_assert_uint_eq(v.len, len);
    ck_assert(is_whole(&v, len, seed));
    ddict_release(&v);
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

START_TEST(each_node_sees_each_version) {
    static const size_t lens[] = {1000, 65536, 65537, 3 * MIB + 5, 1000, BIG};
    enum { N = sizeof lens / sizeof lens[0] };
    ddict_follow_t *f[NODES];
    uint64_t version;
    struct ddict_view v;
    begin(256 * MIB);
    for (int i = 0; i < NODES; i++) {
        ok(ddict_follow_open(d[i], "w", 1, &f[i], WAIT));
        ck_assert_int_eq(ddict_follow_next(f[i], &v, NULL, 50), 0);
    }
    fails(DDICT_ENOKEY, ddict_bget(d[1], "w", 1, &v, 0, WAIT));
    fails(DDICT_ENOKEY, ddict_bget(d[1], "w", 1, &v, DDICT_WAIT, 50));
    for (unsigned k = 0; k < N; k++) {
        ok(publish(d[k % NODES], lens[k], k + 1, &version));
        ck_assert_uint_eq(version, k + 1);
        for (int i = 0; i < NODES; i++) {
            next_is(f[i], lens[k], k + 1, k + 1);
            ck_assert_int_eq(ddict_follow_next(f[i], &v, NULL, 20), 0);
        }
        ok(ddict_bget(d[3], "w", 1, &v, DDICT_WAIT, WAIT));
        ck_assert(is_whole(&v, lens[k], k + 1));
        ddict_release(&v);
    }
    /* an ordinary key of that name is another thing, and no item is seen */
    ck_assert_int_eq(ddict_contains(d[0], "w", 1, NULL, -1), 0);
    ck_assert_int_eq(ddict_len(d[0], -1), 0);
    ok(ddict_bput(d[2], "b", 1, "text", 4, DDICT_TAG(4), WAIT));
    ok(ddict_bget(d[0], "b", 1, &v, 0, WAIT));
    ck_assert(v.len == 4 && memcmp(v.data, "text", 4) == 0 && v.tag == 4 && v.version == 1);
    ddict_release(&v);
    fails(-EINVAL, ddict_bput(d[2], "b", 1, "text", 4, DDICT_NEW, WAIT));
    fails(DDICT_EKEYSIZE, ddict_bput(d[2], "", 0, "text", 4, 0, WAIT));
    /* with the whole dictionary what is published goes, and followers are told, and see what comes then */
    ok(ddict_clear(d[0], -1));
    fails(DDICT_ENOKEY, ddict_follow_next(f[1], &v, NULL, 50));
    ck_assert_int_eq(ddict_follow_next(f[1], &v, NULL, 50), 0);
    ok(publish(d[1], 2 * MIB, 77, &version));
    ck_assert_uint_eq(version, 1);
    next_is(f[1], 2 * MIB, 77, 1);
    for (int i = 0; i < NODES; i++)
        ddict_follow_close(f[i]);
    dict_end_all(&x, d);
}
END_TEST

START_TEST(old_versions_go_and_views_stay) {
    ddict_follow_t *f[NODES];
    struct ddict_view v, kept;
    uint64_t most = 0;
    begin(256 * MIB);
    for (int i = 0; i < NODES; i++)
        ok(ddict_follow_open(d[i], "w", 1, &f[i], WAIT));
    for (uint64_t k = 1; k <= 12; k++) {
        ok(publish(d[0], 8 * MIB, k, NULL));
        for (int i = 0; i < NODES; i++)
            if (i != 3 || k % 5 == 0) /* a slow one misses some */
                next_is(f[i], 8 * MIB, k, k);
        if (k == 2)
            ok(ddict_bget(d[2], "w", 1, &kept, 0, WAIT));
        if (k > 3 && used() > most)
            most = used();
    }
    /* two versions: the pieces, and on at most 4 nodes the whole; and the view */
    ck_assert_msg(most < (2 * 5 + 1) * 9 * MIB, "%llu MiB are used",
                  (unsigned long long)(most / MIB));
    ck_assert(is_whole(&kept, 8 * MIB, 2));
    ddict_release(&kept);
    /* a late one gets the newest alone */
    ddict_follow_t *late;
    ok(ddict_follow_open(d[1], "w", 1, &late, WAIT));
    next_is(late, 8 * MIB, 12, 12);
    ck_assert_int_eq(ddict_follow_next(late, &v, NULL, 20), 0);
    ddict_follow_close(late);
    /* small ones take the large ones' memory back */
    ok(publish(d[0], 100, 13, NULL));
    ok(publish(d[0], 100, 14, NULL));
    ok(publish(d[0], 100, 15, NULL));
    ck_assert_msg(used() < 12 * MIB, "%llu MiB are used", (unsigned long long)(used() / MIB));
    for (int i = 0; i < NODES; i++)
        ddict_follow_close(f[i]);
    dict_end_all(&x, d);
}
END_TEST

/* A process that follows on a node until version `last`: it ends with 0, or says what was wrong. */
static pid_t follower(int node, size_t len, uint64_t last) {
    pid_t p = fork();
    if (p != 0)
        return p;
    ddict_follow_t *f;
    uint64_t version = 0, before = 0;
    struct ddict_view v;
    if (ddict_follow_open(d[node], "w", 1, &f, WAIT) < 0)
        _exit(1);
    while (version < last) {
        int rc = ddict_follow_next(f, &v, &version, WAIT);
        if (rc != 1) {
            fprintf(stderr, "next on node %d: %d %s\n", node, rc, ddict_errmsg());
            _exit(2);
        }
        uint64_t seed = 0;
        memcpy(&seed, (const char *)v.data + 8, 8); /* which of all seeds it is */
        bool found = false;
        for (uint64_t s = 1; s < 200 && !found; s++)
            found = v.len > 100 && value_is(v.data, 64, s) && (v.len == len || len == 0) &&
                    is_whole(&v, v.len, s);
        if (!found || version <= before)
            _exit(3);
        if (len != 0 && v.kind_ != 1) /* the node has it, not this process alone */
            _exit(4);
        before = version;
        ddict_release(&v);
    }
    _exit(0);
}

START_TEST(who_dies_while_it_fetches_is_replaced) {
    begin(640 * MIB);
    for (int turn = 0; turn < 6; turn++) {
        uint64_t version;
        pid_t p[NODES], killed[NODES];
        ok(publish(d[0], BIG, (uint64_t)turn + 1, &version));
        for (int i = 1; i < NODES; i++)
            killed[i] = follower(i, BIG, version);
        usleep((useconds_t)(3000 << turn)); /* 3 to 96 ms: in each part of it */
        for (int i = 1; i < NODES; i++)
            p[i] = follower(i, BIG, version);
        for (int i = 1; i < 3; i++)
            kill(killed[i], SIGKILL);
        for (int i = 1; i < NODES; i++) {
            waitpid(killed[i], NULL, 0);
            expect_exit(p[i], 0);
        }
    }
    dict_end_all(&x, d);
}
END_TEST

START_TEST(a_publisher_that_dies_leaves_the_version_before) {
    begin(256 * MIB);
    ddict_follow_t *f;
    struct ddict_view v;
    uint64_t version, at_end = 0;
    ok(ddict_follow_open(d[1], "w", 1, &f, WAIT));
    ok(publish(d[0], 4 * MIB, 1, &version));
    next_is(f, 4 * MIB, 1, 1);
    int died = 0;
    for (int turn = 0; turn < 8; turn++) {
        value_fill(buf, BIG, 99);
        pid_t p = fork();
        if (p == 0) {
            struct iovec iov = {buf, BIG};
            _exit(ddict_publish(d[2], "w", 1, &iov, 1, DDICT_TAG(9), NULL, WAIT) < 0);
        }
        usleep((useconds_t)(1000 + 4000 * turn));
        kill(p, SIGKILL);
        waitpid(p, NULL, 0);
        /* it was published as a whole, or not at all */
        ok(ddict_bget(d[3], "w", 1, &v, 0, WAIT));
        bool old = v.version == version;
        died += old;
        ck_assert(is_whole(&v, old ? 4 * MIB : BIG, old ? (uint64_t)turn + 1 : 99));
        version = v.version;
        ddict_release(&v);
        ok(publish(d[turn % NODES], 4 * MIB, (uint64_t)turn + 2, &at_end));
        ck_assert_uint_eq(at_end, version + 1);
        version = at_end;
        next_is(f, 4 * MIB, (uint64_t)turn + 2, version);
    }
    ck_assert_int_gt(died, 0);
    for (int i = 0; i < 4; i++) /* what the dead left is removed */
        ok(publish(d[0], 100, 5, NULL));
    ck_assert_msg(used() < 12 * MIB, "%llu MiB are used", (unsigned long long)(used() / MIB));
    ddict_follow_close(f);
    dict_end_all(&x, d);
}
END_TEST

START_TEST(publications_at_once_are_in_an_order) {
    enum { EACH = 15 };
    begin(256 * MIB);
    pid_t pub[2], p[NODES];
    for (int i = 0; i < NODES; i++)
        p[i] = follower(i, 0, 2 * EACH);
    for (int k = 0; k < 2; k++)
        if ((pub[k] = fork()) == 0) {
            uint64_t before = 0, version;
            static char mine[MIB];
            for (unsigned i = 0; i < EACH; i++) {
                struct iovec iov = {mine, i % 3 ? 200000u + i : 3000u};
                value_fill(mine, iov.iov_len, (uint64_t)k * EACH + i + 1);
                if (ddict_publish(d[k], "w", 1, &iov, 1, DDICT_TAG(9), &version, WAIT) < 0 ||
                    version <= before)
                    _exit(1);
                before = version;
            }
            _exit(0);
        }
    expect_exit(pub[0], 0);
    expect_exit(pub[1], 0);
    for (int i = 0; i < NODES; i++)
        expect_exit(p[i], 0);
    dict_end_all(&x, d);
}
END_TEST

START_TEST(without_room_the_version_before_stays) {
    begin(256 * MIB); /* 64 on each node */
    static char big[50 * MIB];
    ddict_follow_t *f;
    struct ddict_view v;
    uint64_t version;
    ok(ddict_follow_open(d[1], "w", 1, &f, WAIT));
    ok(publish(d[0], 20 * MIB, 1, &version));
    next_is(f, 20 * MIB, 1, 1);
    for (int i = 0; i < 3; i++) {
        struct iovec iov = {big, sizeof big};
        fails(DDICT_EFULL, ddict_publish(d[0], "w", 1, &iov, 1, 0, NULL, WAIT));
        ok(ddict_bget(d[2], "w", 1, &v, 0, WAIT));
        ck_assert(v.version == 1 && is_whole(&v, 20 * MIB, 1));
        ddict_release(&v);
    }
    ck_assert_int_eq(ddict_follow_next(f, &v, NULL, 50), 0);
    ok(publish(d[0], 20 * MIB, 2, &version));
    ck_assert_uint_eq(version, 2);
    next_is(f, 20 * MIB, 2, 2);
    /* a node without room: each process has it in its own memory */
    char key[32];
    size_t klen = key_of(d[0], 3, 0, key, sizeof key);
    ok(ddict_put(d[0], key, klen, big, 45 * MIB, 0, WAIT));
    ok(ddict_bget(d[3], "w", 1, &v, 0, WAIT));
    ck_assert(v.kind_ == 2 && is_whole(&v, 20 * MIB, 2));
    ddict_release(&v);
    ddict_follow_close(f);
    dict_end_all(&x, d);
}
END_TEST

START_TEST(a_frozen_dictionary_is_followed_and_not_published_to) {
    begin(128 * MIB);
    struct ddict_view v;
    uint64_t version = 0;
    ok(publish(d[0], 5 * MIB, 1, &version));
    ok(ddict_bget(d[1], "w", 1, &v, 0, WAIT));
    ddict_release(&v);
    ok(ddict_freeze(d[0], WAIT));
    fails(DDICT_EFROZEN, publish(d[0], 5 * MIB, 2, &version));
    fails(DDICT_EFROZEN, publish(d[0], 5, 2, &version));
    for (int i = 0; i < NODES; i++) {
        ok(ddict_bget(d[i], "w", 1, &v, 0, WAIT));
        ck_assert(v.version == 1 && is_whole(&v, 5 * MIB, 1));
        ddict_release(&v);
    }
    ok(ddict_unfreeze(d[0], WAIT));
    ok(publish(d[0], 5 * MIB, 2, &version));
    ck_assert_uint_eq(version, 2);
    dict_end_all(&x, d);
}
END_TEST

START_TEST(on_one_node_it_is_read_where_it_lies) {
    struct ddict_view v, w;
    buf = malloc(BIG);
    d[0] = dict_begin(&x, 1, 2, 128 * MIB);
    for (uint64_t k = 1; k < 8; k++) {
        ok(publish(d[0], BIG, k, NULL));
        ok(ddict_bget(d[0], "w", 1, &v, 0, WAIT));
        ok(ddict_bget(d[0], "w", 1, &w, 0, WAIT));
        ck_assert(v.data == w.data && v.kind_ == 1 && is_whole(&v, BIG, k));
        ddict_release(&v);
        ddict_release(&w);
    }
    free(buf);
    dict_end(&x, d[0]);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {each_node_sees_each_version,
                                  old_versions_go_and_views_stay,
                                  who_dies_while_it_fetches_is_replaced,
                                  a_publisher_that_dies_leaves_the_version_before,
                                  publications_at_once_are_in_an_order,
                                  without_room_the_version_before_stays,
                                  a_frozen_dictionary_is_followed_and_not_published_to,
                                  on_one_node_it_is_read_where_it_lies};
    return tests_main("client_publish", argc, argv, tests, sizeof tests / sizeof tests[0]);
}
