/* SPDX-License-Identifier: Apache-2.0 */
/* client_linked.c - keys whose values lie near who put them (DDICT_NEAR): each call finds and changes
 * them as any other key, and nothing is left of what was replaced. near.h has the invariants, N1.. */
#include "client_dict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB  1048576u
#define BIG  300000u
#define ADDS 150

static struct dict x;
static ddict_t *d[2];
static char key[64]; /* manager 0, of node 0, owns it */
static size_t klen;
static char big[BIG];

static void before(void) {
    dict_begin_all(&x, d, 2, 4, 64 * MIB);
    klen = key_of(d[0], 0, 0, key, sizeof key);
    value_fill(big, BIG, 1);
}
static void after(void) {
    dict_end_all(&x, d);
}

/* Bytes and hidden keys of the managers of a node. */
static uint64_t used(int node) {
    struct ddict_manager_stats *s;
    uint64_t n = 0;
    ok(ddict_stats(d[0], &s, sizeof *s, -1));
    for (int m = 0; m < 4; m++)
        n += m % 2 == node ? s[m].total_used_bytes : 0;
    free(s);
    return n;
}
static uint64_t hidden(void) {
    struct ddict_manager_stats *s;
    uint64_t n = 0;
    ok(ddict_stats(d[0], &s, sizeof *s, -1));
    for (int m = 0; m < 4; m++)
        n += s[m].hidden_keys;
    free(s);
    return n;
}

/* Values that managers gave to other nodes. */
static uint64_t sent(void) {
    struct ddict_manager_stats *s;
    uint64_t n = 0;
    ok(ddict_stats(d[0], &s, sizeof *s, -1));
    for (int m = 0; m < 4; m++)
        n += s[m].gets_remote;
    free(s);
    return n;
}

static void put_near(int node, const void *val, size_t len) {
    ok(ddict_put(d[node], key, klen, val, len, DDICT_NEAR | DDICT_TAG(4), -1));
}

static void has(const char *text) {
    for (int at = 0; at < 2; at++) {
        char buf[64];
        size_t len, n = strlen(text);
        unsigned tag;
        struct ddict_view v;
        struct ddict_want w = {.key = key, .klen = klen};
        ok(ddict_get(d[at], key, klen, buf, sizeof buf, &len, &tag, 0, -1));
        ck_assert(len == n && memcmp(buf, text, n) == 0);
        ok(ddict_view(d[at], key, klen, &v, 0, -1));
        ck_assert(v.len == n && memcmp(v.data, text, n) == 0 && v.tag == tag);
        uint64_t version;
        ok(ddict_key_version(d[at], key, klen, &version, -1));
        ck_assert_uint_eq(v.version, version);
        ddict_release(&v);
        ck_assert_int_eq(ddict_get_many(d[at], &w, 1, 0, -1), 1);
        ck_assert(w.view.len == n && memcmp(w.view.data, text, n) == 0);
        ddict_release(&w.view);
        ck_assert_int_eq(ddict_contains(d[at], key, klen, &len, -1), 1);
        ck_assert_uint_eq(len, n);
        ok(ddict_get(d[at], key, klen, NULL, 0, &len, NULL, 0, -1) == DDICT_ESMALL ? 0 : -1);
        ck_assert_uint_eq(len, n);
    }
}
static void absent(void) {
    struct ddict_view v;
    for (int at = 0; at < 2; at++) {
        ck_assert_int_eq(ddict_contains(d[at], key, klen, NULL, -1), 0);
        fails(DDICT_ENOKEY, ddict_view(d[at], key, klen, &v, 0, -1));
    }
    ck_assert_uint_eq(hidden(), 0);
    ck_assert_int_eq(ddict_len(d[0], -1), 0);
}

START_TEST(it_lies_on_the_node_that_put_it_and_is_found_by_each) {
    uint64_t was[2] = {used(0), used(1)};
    put_near(1, big, BIG);
    ck_assert_uint_ge(used(1), was[1] + BIG);
    ck_assert_uint_lt(used(0), was[0] + BIG / 10);
    ck_assert_uint_eq(sent(), 0);
    for (int at = 1; at >= 0; at--) {
        struct ddict_view v;
        ok(ddict_view(d[at], key, klen, &v, 0, -1));
        ck_assert(v.len == BIG && memcmp(v.data, big, BIG) == 0 && v.tag == 4);
        ddict_release(&v);
        ck_assert_uint_eq(sent(), at == 0); /* on its node it is read in place */
    }
    put_near(1, "short", 5);
    has("short");
    put_near(0, "here", 4); /* its owner is here: plain */
    has("here");
    ck_assert_uint_eq(hidden(), 0);
    ok(ddict_del(d[1], key, klen, -1));
    absent();
}
END_TEST

START_TEST(it_is_listed_once_under_its_key) {
    for (int at = 0; at < 2; at++)
        put_near(1, at ? "one" : "two", 3);
    ddict_iter_t *it;
    const void *k;
    size_t n;
    ok(ddict_iter_open(d[0], -1, &it, -1));
    ck_assert_int_eq(ddict_iter_next(it, &k, &n), 1);
    ck_assert(n == klen && memcmp(k, key, n) == 0);
    ck_assert_int_eq(ddict_iter_next(it, &k, &n), 0);
    ddict_iter_close(it);
    ck_assert_int_eq(ddict_len(d[1], -1), 1);
    ck_assert_uint_eq(hidden(), 1);
}
END_TEST

/* Each change, from each node, leaves what a plain key would have, and no value behind. */
static void changes(int at) {
    struct ddict_view v;
    uint64_t version, now;
    int64_t sum;
    size_t total;
    put_near(1, "near", 4);
    ok(ddict_put(d[at], key, klen, "plain", 5, 0, -1));
    has("plain");
    ck_assert_uint_eq(hidden(), 0);
    put_near(1, "near", 4);
    fails(DDICT_EEXISTS, ddict_put(d[at], key, klen, "new", 3, DDICT_NEW, -1));
    fails(DDICT_EEXISTS, ddict_put(d[at], key, klen, "new", 3, DDICT_NEW | DDICT_NEAR, -1));
    ok(ddict_put(d[at], key, klen, "other", 5, DDICT_EXISTING, -1));
    has("other");
    put_near(1, "near", 4);
    ok(ddict_key_version(d[at], key, klen, &version, -1));
    fails(DDICT_ECHANGED, ddict_put_if(d[at], key, klen, "if", 2, 0, version + 1, &now, -1));
    ck_assert_uint_eq(now, version);
    ok(ddict_put_if(d[at], key, klen, "if", 2, 0, version, &now, -1));
    ck_assert_uint_gt(now, version);
    has("if");
    put_near(1, "near", 4);
    fails(DDICT_ECHANGED, ddict_del_if(d[at], key, klen, version, -1));
    ok(ddict_key_version(d[at], key, klen, &version, -1));
    ok(ddict_del_if(d[at], key, klen, version, -1));
    absent();
    put_near(1, "near", 4);
    ok(ddict_append(d[at], key, klen, "+end", 4, DDICT_TAG(4), &total, -1));
    ck_assert_uint_eq(total, 8);
    has("near+end");
    put_near(1, "near", 4);
    ok(ddict_pop(d[at], key, klen, &v, 0, -1));
    ck_assert(v.len == 4 && memcmp(v.data, "near", 4) == 0);
    ddict_release(&v);
    absent();
    fails(DDICT_ENOKEY, ddict_pop(d[at], key, klen, &v, 0, -1));
    fails(DDICT_ENOKEY, ddict_put(d[1], key, klen, "x", 1, DDICT_EXISTING | DDICT_NEAR, -1));
    ok(ddict_put(d[1], key, klen, "41", 2, DDICT_NEAR | DDICT_NEW | DDICT_TAG(5), -1));
    ok(ddict_add(d[at], key, klen, 1, &sum, -1));
    ck_assert_int_eq(sum, 42);
    has("42");
    put_near(1, "text", 4);
    fails(DDICT_ENOTINT, ddict_add(d[at], key, klen, 1, &sum, -1));
    has("text");
    ok(ddict_del(d[at], key, klen, -1));
    absent();
    fails(DDICT_ENOKEY, ddict_del(d[at], key, klen, -1));
}
START_TEST(calls_change_it_as_any_key_from_its_owners_node) {
    changes(0);
}
END_TEST
START_TEST(calls_change_it_as_any_key_from_the_node_of_its_value) {
    changes(1);
}
END_TEST

START_TEST(many_at_once_are_put_and_read) {
    char keys[40][64];
    struct ddict_pair p[40];
    struct ddict_want w[40];
    for (unsigned i = 0; i < 40; i++)
        p[i] = (struct ddict_pair){.key = keys[i],
                                   .klen = key_of(d[0], i % 4, i, keys[i], 64),
                                   .val = "near",
                                   .vlen = 4,
                                   .flags = i % 3 ? DDICT_NEAR : 0};
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(ddict_put_many(d[round], p, 40, -1), 40);
        for (int at = 0; at < 2; at++) {
            for (unsigned i = 0; i < 40; i++)
                w[i] = (struct ddict_want){.key = p[i].key, .klen = p[i].klen};
            ck_assert_int_eq(ddict_get_many(d[at], w, 40, 0, -1), 40);
            for (unsigned i = 0; i < 40; i++) {
                ck_assert(w[i].status == 0 && w[i].view.len == 4);
                ddict_release(&w[i].view);
            }
        }
        ck_assert_uint_gt(hidden(), 0);
        for (unsigned i = 0; i < 40; i++)
            p[i].flags = 0;
        ck_assert_int_eq(ddict_put_many(d[!round], p, 40, -1), 40);
        ck_assert_uint_eq(hidden(), 0);
        for (unsigned i = 0; i < 40; i++)
            p[i].flags = i % 3 ? DDICT_NEAR : 0;
    }
}
END_TEST

static struct ddict_op asked(ddict_async_t *q, struct ddict_op o) {
    struct ddict_op done;
    ssize_t n = ddict_async_submit(q, &o, 1);
    ok(n);
    if (n == 0)
        return o;
    ck_assert_int_eq(ddict_async_poll(q, &done, 1, -1), 1);
    return done;
}

START_TEST(asynchronous_calls_and_places_find_it) {
    for (int at = 0; at < 2; at++) {
        ddict_async_t *q;
        char buf[8];
        ok(ddict_async_open(d[at], &q));
        put_near(1, "near", 4);
        struct ddict_op o = {.what = DDICT_OP_VIEW, .key = key, .klen = klen, .timeout_ms = -1};
        struct ddict_op r = asked(q, o);
        ck_assert(r.status == 0 && r.view.len == 4 && memcmp(r.view.data, "near", 4) == 0);
        ddict_release(&r.view);
        o.what = DDICT_OP_GET;
        o.buf = buf;
        o.len = sizeof buf;
        r = asked(q, o);
        ck_assert(r.status == 0 && r.vlen == 4 && r.tag == 4 && memcmp(buf, "near", 4) == 0);
        o.what = DDICT_OP_POP;
        r = asked(q, o);
        ck_assert(r.status == 0 && r.view.len == 4);
        ddict_release(&r.view);
        absent();
        put_near(1, "near", 4);
        o.what = DDICT_OP_PUT;
        o.buf = (void *)"put";
        o.len = 3;
        ck_assert_int_eq(asked(q, o).status, 0);
        has("put");
        o.flags = DDICT_NEAR;
        ck_assert_int_eq(asked(q, o).status, -EINVAL);
        o.flags = 0;
        put_near(1, "near", 4);
        o.what = DDICT_OP_DEL;
        ck_assert_int_eq(asked(q, o).status, 0);
        absent();
        ddict_async_close(q);
        struct ddict_place p;
        for (unsigned near = 0; near < 2; near++) {
            put_near(1, "near", 4);
            ok(ddict_reserve(d[at], key, klen, 5, near ? DDICT_NEAR : 0, &p));
            memcpy(p.data, "place", 5);
            ok(ddict_commit(&p, -1));
            has("place");
            ck_assert_uint_eq(hidden(), near && at == 1);
        }
        ok(ddict_del(d[at], key, klen, -1));
    }
}
END_TEST

START_TEST(it_is_waited_for) {
    for (int at = 0; at < 2; at++)
        for (int pop = 0; pop < 2; pop++) {
            pid_t p = fork();
            if (p == 0) {
                usleep(100000);
                _exit(ddict_put(d[1], key, klen, "near", 4, DDICT_NEAR, -1) != 0);
            }
            struct ddict_view v;
            ok(pop ? ddict_pop(d[at], key, klen, &v, DDICT_WAIT, -1)
                   : ddict_view(d[at], key, klen, &v, DDICT_WAIT, -1));
            ck_assert(v.len == 4 && memcmp(v.data, "near", 4) == 0);
            ddict_release(&v);
            expect_exit(p, 0);
            if (!pop)
                ok(ddict_del(d[at], key, klen, -1));
            absent();
        }
}
END_TEST

START_TEST(events_tell_its_length_and_not_its_link) {
    for (int at = 0; at < 2; at++) {
        ddict_sub_t *sub;
        struct ddict_event e;
        ok(ddict_subscribe(d[at], "", 0, DDICT_SUB_VALUES, &sub, -1));
        put_near(1, big, 700);
        ck_assert_int_eq(ddict_next_event(sub, &e, -1), 1);
        ck_assert(e.kind == DDICT_EVENT_PUT && e.klen == klen && e.vlen == 700 && e.tag == 4);
        ck_assert(!e.val);
        ddict_unsubscribe(sub);
        ok(ddict_del(d[at], key, klen, -1));
    }
}
END_TEST

START_TEST(what_can_not_be_near_is_refused) {
    fails(-EINVAL, ddict_put(d[1], "sddict.x", 8, "v", 1, DDICT_NEAR, -1));
    fails(-EINVAL, ddict_put(d[1], key, klen, "v", 1, DDICT_NEAR | DDICT_LOADED, -1));
    fails(-EINVAL, ddict_put(d[1], key, klen, "v", 1, DDICT_NEAR | DDICT_NEW | DDICT_EXISTING, -1));
    fails(-EINVAL, ddict_push(d[1], key, klen, "v", 1, DDICT_NEAR, 0, -1));
    fails(-ETIMEDOUT, ddict_put(d[1], key, klen, "v", 1, DDICT_NEAR, 0));
    absent();
    ok(ddict_push(d[0], key, klen, "one", 3, 0, 0, -1)); /* N4 */
    ok(ddict_push(d[0], key, klen, "two", 3, 0, 0, -1));
    fails(-EINVAL, ddict_put(d[1], key, klen, "v", 1, DDICT_NEAR, -1));
    ck_assert_int_eq(ddict_queued(d[1], key, klen, -1), 2);
    ck_assert_uint_eq(hidden(), 0);
    ok(ddict_del(d[0], key, klen, -1));
    put_near(1, "near", 4);
    for (int at = 0; at < 2; at++)
        fails(-EINVAL, ddict_push(d[at], key, klen, "v", 1, 0, 0, -1));
    has("near");
}
END_TEST

START_TEST(a_frozen_dictionary_has_it_and_takes_none) {
    put_near(1, "near", 4);
    ok(ddict_freeze(d[0], -1));
    struct iovec ahead = {.iov_base = key, .iov_len = klen};
    for (int at = 0; at < 2; at++)
        ok(ddict_prefetch(d[at], &ahead, 1, -1)); /* not a link: nothing comes of it */
    for (int i = 0; i < 3; i++)
        has("near");
    fails(DDICT_EFROZEN, ddict_put(d[1], key, klen, "other", 5, DDICT_NEAR, -1));
    fails(DDICT_EFROZEN, ddict_del(d[0], key, klen, -1));
    has("near");
    ok(ddict_unfreeze(d[0], -1));
    ck_assert_uint_eq(hidden(), 1);
    ok(ddict_del(d[0], key, klen, -1));
    absent();
}
END_TEST

/* N2: as a clear() that has come to the manager of the value alone. */
START_TEST(a_link_whose_value_was_cleared_counts_as_cleared) {
    for (int at = 0; at < 2; at++) {
        ddict_iter_t *it;
        const void *k;
        size_t n;
        struct ddict_view v;
        put_near(1, "near", 4);
        ok(ddict_iter_open_flags(d[at], -1, NULL, 0, DDICT_ITER_HIDDEN, &it, -1));
        while (ddict_iter_next(it, &k, &n) == 1)
            if (n != klen)
                ok(ddict_del(d[at], k, n, -1));
        ddict_iter_close(it);
        fails(DDICT_ENOKEY, ddict_view(d[at], key, klen, &v, 0, -1));
        absent();
    }
    put_near(1, "near", 4);
    ok(ddict_clear(d[0], -1));
    absent();
}
END_TEST

/* --- races --- */

static pid_t adder(int at) {
    pid_t p = fork();
    if (p != 0)
        return p;
    for (int i = 0; i < ADDS; i++) {
        int64_t sum;
        if (ddict_add(d[at], key, klen, 1, &sum, -1) != 0)
            _exit(1);
    }
    _exit(0);
}

START_TEST(sums_of_both_nodes_are_right) {
    pid_t p[4];
    int64_t sum;
    ok(ddict_put(d[1], key, klen, "0", 1, DDICT_NEAR | DDICT_TAG(5), -1));
    for (int i = 0; i < 4; i++)
        p[i] = adder(i % 2);
    for (int i = 0; i < 4; i++)
        expect_exit(p[i], 0);
    ok(ddict_add(d[0], key, klen, 0, &sum, -1));
    ck_assert_int_eq(sum, 4 * ADDS);
    ck_assert_uint_eq(hidden(), 0);
}
END_TEST

/* Putters of both nodes; who reads sees whole values, whose versions never go back (N1, N2). */
static void value_race(int at, int who) {
    char val[2000];
    uint64_t seen = 0;
    for (int i = 0; i < 200; i++) {
        struct ddict_view v;
        value_fill(val, sizeof val, (uint64_t)who * 1000 + (uint64_t)i);
        if (who < 3 &&
            ddict_put(d[at], key, klen, val, sizeof val, who == 2 ? 0 : DDICT_NEAR, -1) != 0)
            _exit(1);
        if (ddict_view(d[at], key, klen, &v, 0, -1) != 0)
            _exit(2);
        uint64_t seed;
        memcpy(&seed, v.data, sizeof seed);
        if (v.len != sizeof val || v.version < seen)
            _exit(3);
        seen = v.version;
        bool whole = false;
        for (uint64_t s = 0; s < 3200 && !whole; s++)
            whole = value_is(v.data, v.len, s);
        if (!whole)
            _exit(4);
        ddict_release(&v);
    }
    _exit(0);
}

START_TEST(racing_puts_leave_one_value) {
    pid_t p[5];
    char val[2000];
    value_fill(val, sizeof val, 0);
    put_near(1, val, sizeof val);
    uint64_t was = used(0) + used(1);
    for (int i = 0; i < 5; i++)
        if ((p[i] = fork()) == 0)
            value_race(i == 0 || i == 3 ? 1 : i % 2, i);
    for (int i = 0; i < 5; i++)
        expect_exit(p[i], 0);
    ck_assert_uint_le(hidden(), 1);
    ok(ddict_del(d[0], key, klen, -1));
    absent();
    double end = now_s() + 10; /* what was replaced is reclaimed soon */
    while (used(0) + used(1) > was + 64 * 1024 && now_s() < end)
        usleep(20000);
    ck_assert_uint_le(used(0) + used(1), was + 64 * 1024);
}
END_TEST

/* N5 */
START_TEST(a_client_that_is_killed_leaves_a_value_at_most) {
    for (int round = 0; round < 20; round++) {
        pid_t p = fork();
        if (p == 0)
            for (int i = 0;; i++)
                if (ddict_put(d[1], key, klen, big, 1000 + (unsigned)i % 100, DDICT_NEAR, -1) != 0)
                    _exit(1);
        usleep(3000 + (unsigned)round * 700);
        kill(p, SIGKILL);
        waitpid(p, NULL, 0);
    }
    struct ddict_view v;
    for (int at = 0; at < 2; at++) {
        ok(ddict_view(d[at], key, klen, &v, 0, -1));
        ck_assert(v.len >= 1000 && memcmp(v.data, big, v.len) == 0);
        ddict_release(&v);
    }
    ck_assert_uint_le(hidden(), 21);
    put_near(1, "near", 4);
    has("near");
}
END_TEST

START_TEST(a_manager_that_is_killed_has_its_links_and_values) {
    x.broken = true;
    put_near(1, "near", 4);
    for (int m = 0; m < 4; m++) {
        dict_managers(&x, d[0]);
        kill(x.manager[m], SIGKILL);
        has("near");
        /* the life after refuses what does not know links, too */
        ok(ddict_put(d[m % 2], key, klen, "plain", 5, 0, -1));
        has("plain");
        ck_assert_uint_eq(hidden(), 0);
        put_near(1, "near", 4);
        dict_managers(&x, d[0]);
        kill(x.manager[m], SIGKILL);
        ok(ddict_put(d[0], key, klen, "plain", 5, 0, -1));
        ck_assert_uint_eq(hidden(), 0);
        put_near(1, "near", 4);
    }
    has("near");
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        it_lies_on_the_node_that_put_it_and_is_found_by_each,
        it_is_listed_once_under_its_key,
        calls_change_it_as_any_key_from_its_owners_node,
        calls_change_it_as_any_key_from_the_node_of_its_value,
        many_at_once_are_put_and_read,
        asynchronous_calls_and_places_find_it,
        it_is_waited_for,
        events_tell_its_length_and_not_its_link,
        what_can_not_be_near_is_refused,
        a_frozen_dictionary_has_it_and_takes_none,
        a_link_whose_value_was_cleared_counts_as_cleared,
        sums_of_both_nodes_are_right,
        racing_puts_leave_one_value,
        a_client_that_is_killed_leaves_a_value_at_most,
        a_manager_that_is_killed_has_its_links_and_values,
    };
    return tests_main_with("client_linked", before, after, argc, argv, tests,
                           sizeof tests / sizeof *tests);
}
