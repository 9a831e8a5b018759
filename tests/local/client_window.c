/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_window.c - working sets: checkpoints of all keys, on two nodes with four managers. Each case
 * is made with a key of every manager. W1 .. W7: the invariants of window.h.
 */
#include "client_dict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB      (1ull << 20)
#define NODES    2
#define MANAGERS 4u /* in all */
#define WAIT     20000

static struct dict x;
static ddict_t *d[NODES];
static char key[32];
static size_t klen;

/* A dictionary with a working set, attached to on both nodes. */
static void begin(const char *working_set) {
    setenv("DDICT_TEST_WORKING_SET", working_set, 1);
    dict_begin_all(&x, d, NODES, MANAGERS, 96 * MIB);
    unsetenv("DDICT_TEST_WORKING_SET");
}
static void end(void) {
    dict_end_all(&x, d);
}

/* With the i-th key of each manager. */
#define EACH(i) \
    for (unsigned m_ = 0; m_ < MANAGERS && (klen = key_of(d[0], m_, i, key, sizeof key)) > 0; m_++)

static void at(ddict_t *of, uint64_t id) {
    ok(ddict_set_checkpoint_id(of, id));
}
static int put(ddict_t *of, uint64_t id, const char *text) {
    at(of, id);
    return ddict_put(of, key, klen, text, strlen(text), DDICT_TAG(4), WAIT);
}
static void has(ddict_t *of, uint64_t id, const char *text) {
    struct ddict_view v;
    char got[64];
    size_t len;
    unsigned tag;
    at(of, id);
    ok(ddict_view(of, key, klen, &v, 0, WAIT));
    ck_assert_msg(v.len == strlen(text) && memcmp(v.data, text, v.len) == 0,
                  "%s at %d: %.*s, not %s", key, (int)id, (int)v.len, (const char *)v.data, text);
    ck_assert_uint_eq(v.tag, 4);
    ddict_release(&v);
    ok(ddict_get(of, key, klen, got, sizeof got, &len, &tag, 0, WAIT));
    ck_assert(len == strlen(text) && memcmp(got, text, len) == 0 && tag == 4);
    ck_assert_int_eq(ddict_contains(of, key, klen, &len, WAIT), 1);
    ck_assert_uint_eq(len, strlen(text));
}
static void has_none(ddict_t *of, uint64_t id) {
    struct ddict_view v;
    char got[8];
    at(of, id);
    fails(DDICT_ENOKEY, ddict_view(of, key, klen, &v, 0, WAIT));
    fails(DDICT_ENOKEY, ddict_get(of, key, klen, got, sizeof got, NULL, NULL, 0, WAIT));
    ck_assert_int_eq(ddict_contains(of, key, klen, NULL, WAIT), 0);
}
static void is_retired(ddict_t *of, uint64_t id) {
    struct ddict_view v;
    at(of, id);
    fails(DDICT_ERETIRED, ddict_view(of, key, klen, &v, 0, WAIT));
    fails(DDICT_ERETIRED, ddict_contains(of, key, klen, NULL, WAIT));
    fails(DDICT_ERETIRED, ddict_put(of, key, klen, "late", 4, 0, WAIT));
    fails(DDICT_ERETIRED, ddict_del(of, key, klen, WAIT));
}

/* --- the checkpoint of a handle --- */
START_TEST(a_handle_moves_its_checkpoint) {
    begin("3");
    unsigned flags = 9;
    ck_assert_int_eq(ddict_working_set(d[0], &flags), 3);
    ck_assert_uint_eq(flags, 0);
    ck_assert_int_eq(ddict_checkpoint_id(d[0]), 0);
    ok(ddict_checkpoint(d[0]));
    ok(ddict_checkpoint(d[0]));
    ck_assert_int_eq(ddict_checkpoint_id(d[0]), 2);
    ck_assert_int_eq(ddict_checkpoint_id(d[1]), 0);
    ok(ddict_rollback(d[0]));
    ck_assert_int_eq(ddict_checkpoint_id(d[0]), 1);
    ok(ddict_rollback(d[0]));
    ok(ddict_rollback(d[0]));
    ck_assert_int_eq(ddict_checkpoint_id(d[0]), 0);
    fails(-EINVAL, ddict_set_checkpoint_id(d[0], UINT64_MAX));
    ok(ddict_set_checkpoint_id(d[0], 7));
    ck_assert_int_eq(ddict_checkpoint_id(d[0]), 7);
    ck_assert_int_eq(ddict_sync_to_newest_checkpoint(d[0], WAIT), 2);
    ck_assert_int_eq(ddict_checkpoint_id(d[0]), 2);
    klen = key_of(d[0], 0, 0, key, sizeof key);
    ok(put(d[1], 5, "five"));
    ck_assert_int_eq(ddict_sync_to_newest_checkpoint(d[0], WAIT), 5);
    has(d[0], 5, "five");
    end();
}
END_TEST

START_TEST(without_a_working_set_there_are_none) {
    dict_begin_all(&x, d, NODES, 1, 96 * MIB);
    ck_assert_int_eq(ddict_working_set(d[0], NULL), 0);
    fails(-EINVAL, ddict_checkpoint(d[0]));
    ck_assert(strstr(ddict_errmsg(), "--ddict-working-set"));
    fails(-EINVAL, ddict_rollback(d[0]));
    fails(-EINVAL, ddict_checkpoint_id(d[0]));
    fails(-EINVAL, ddict_set_checkpoint_id(d[0], 1));
    fails(-EINVAL, ddict_sync_to_newest_checkpoint(d[0], WAIT));
    ok(ddict_put(d[0], "k", 1, "v", 1, DDICT_PERSISTENT, WAIT));
    ck_assert_int_eq(ddict_contains(d[1], "k", 1, NULL, WAIT), 1);
    end();
}
END_TEST

/* --- what a checkpoint has --- */
START_TEST(a_later_checkpoint_has_what_was_put_before) {
    begin("4");
    EACH(0) {
        has_none(d[0], 0);
        has_none(d[1], 9);
        ok(put(d[0], 1, "one"));
        has_none(d[1], 0);
        has(d[1], 1, "one");
        has(d[1], 2, "one");
        has(d[1], 100, "one"); /* newer than the newest: as the newest */
        ok(put(d[1], 3, "three"));
        has(d[0], 2, "one");
        has(d[0], 3, "three");
        ok(put(d[0], 2, "two"));
        has(d[1], 1, "one");
        has(d[1], 2, "two");
        has(d[1], 3, "three");
        ok(put(d[0], 2, "two again"));
        has(d[1], 2, "two again");
    }
    end();
}
END_TEST

START_TEST(what_leaves_the_window_is_retired) {
    begin("2");
    EACH(0) {
        unsigned from = m_ * 10;
        ok(put(d[0], from, "zero"));
        ok(put(d[0], from + 1, "one"));
        ok(put(d[1], from + 2, "two")); /* makes the checkpoint, and retires the first */
        is_retired(d[0], from);
        is_retired(d[1], from);
        has(d[0], from + 1, "one");
        has(d[1], from + 2, "two");
        ck_assert_int_eq(ddict_sync_to_newest_checkpoint(d[1], WAIT), from + 2);
        ok(put(d[1], from + 9, "nine"));
        is_retired(d[0], from + 2);
        has(d[0], from + 8, "two"); /* what was retired stays where nothing took its place: W2 */
        has(d[0], from + 9, "nine");
    }
    end();
}
END_TEST

START_TEST(new_and_existing_judge_what_the_checkpoint_has) {
    begin("3");
    EACH(0) {
        at(d[0], 1);
        fails(DDICT_ENOKEY, ddict_put(d[0], key, klen, "x", 1, DDICT_EXISTING, WAIT));
        ok(ddict_put(d[0], key, klen, "one", 3, DDICT_NEW | DDICT_TAG(4), WAIT));
        fails(DDICT_EEXISTS, ddict_put(d[0], key, klen, "x", 1, DDICT_NEW, WAIT));
        at(d[0], 2);
        fails(DDICT_EEXISTS, ddict_put(d[0], key, klen, "x", 1, DDICT_NEW, WAIT));
        ok(ddict_put(d[0], key, klen, "two", 3, DDICT_EXISTING | DDICT_TAG(4), WAIT));
        at(d[0], 0);
        ok(ddict_put(d[0], key, klen, "zero", 4, DDICT_NEW | DDICT_TAG(4), WAIT));
        has(d[1], 0, "zero");
        has(d[1], 1, "one");
        has(d[1], 2, "two");
        fails(-EINVAL, ddict_put(d[0], key, klen, "x", 1, DDICT_NEW | DDICT_EXISTING, WAIT));
    }
    end();
}
END_TEST

/* --- removal --- */
START_TEST(a_removal_holds_from_its_checkpoint_on) {
    begin("4");
    EACH(0) {
        ok(put(d[0], 0, "zero"));
        at(d[1], 2);
        ok(ddict_del(d[1], key, klen, WAIT));
        has(d[0], 0, "zero");
        has(d[0], 1, "zero");
        has_none(d[0], 2);
        has_none(d[1], 3);
        fails(DDICT_ENOKEY, ddict_del(d[0], key, klen, WAIT));
        ok(put(d[0], 3, "three"));
        has_none(d[1], 2);
        ok(put(d[0], 2, "two"));
        has(d[1], 2, "two");
        has(d[1], 1, "zero");
        at(d[0], 0);
        ok(ddict_del(d[0], key, klen, WAIT)); /* at the oldest */
        has_none(d[1], 1);
        has(d[1], 2, "two");
        has(d[1], 3, "three");
    }
    end();
}
END_TEST

START_TEST(a_pop_gives_what_it_removes) {
    begin("3");
    struct ddict_view v;
    EACH(0) {
        ok(put(d[0], 0, "zero"));
        ok(put(d[0], 1, "one"));
        at(d[1], 2);
        ok(ddict_pop(d[1], key, klen, &v, 0, WAIT));
        ck_assert(v.len == 3 && memcmp(v.data, "one", 3) == 0 && v.tag == 4);
        ddict_release(&v);
        has(d[0], 1, "one");
        has_none(d[0], 2);
        at(d[1], 1);
        ok(ddict_pop(d[1], key, klen, &v, 0, WAIT));
        ck_assert(v.len == 3 && memcmp(v.data, "one", 3) == 0);
        has_none(d[0], 1);
        has(d[0], 0, "zero");
        at(d[1], 1);
        struct ddict_view none;
        fails(DDICT_ENOKEY, ddict_pop(d[1], key, klen, &none, 0, WAIT));
        fails(-ETIMEDOUT, ddict_pop(d[1], key, klen, &none, DDICT_WAIT, 50));
        ck_assert(memcmp(v.data, "one", 3) == 0); /* the view holds */
        ddict_release(&v);
    }
    end();
}
END_TEST

/* --- many keys --- */
static size_t count(ddict_t *of, const char *prefix, unsigned flags, const char *begins) {
    ddict_iter_t *it;
    const void *k;
    size_t n = 0, len;
    int rc;
    ok(ddict_iter_open_flags(of, -1, prefix, strlen(prefix), flags, &it, WAIT));
    while ((rc = ddict_iter_next(it, &k, &len)) > 0)
        n += len >= strlen(begins) && memcmp(k, begins, strlen(begins)) == 0;
    ok(rc);
    ddict_iter_close(it);
    return n;
}

#define LOTS 700u

START_TEST(keys_are_those_of_the_checkpoint) {
    begin("3");
    char name[16];
    for (unsigned i = 0; i < LOTS; i++) {
        at(d[0], i % 3);
        int n = snprintf(name, sizeof name, "%s%u", i % 2 ? "odd" : "even", i);
        ok(ddict_put(d[0], name, (size_t)n, name, (size_t)n, 0, WAIT));
    }
    ok(ddict_put(d[0], "\0ddict.test", 11, "h", 1, 0, WAIT)); /* hidden: it has no checkpoints */
    for (unsigned c = 0; c < 3; c++) {
        size_t expected = 0;
        for (unsigned i = 0; i < LOTS; i++)
            expected += i % 3 <= c;
        at(d[0], c);
        at(d[1], c);
        ck_assert_int_eq(ddict_len(d[0], WAIT), (int64_t)expected);
        ck_assert_int_eq(ddict_local_len(d[0], WAIT) + ddict_local_len(d[1], WAIT),
                         (int64_t)expected);
        ck_assert_uint_eq(count(d[1], "", 0, ""), expected);
        ck_assert_uint_eq(count(d[1], "odd", 0, "odd") + count(d[1], "even", 0, "even"), expected);
        ck_assert_uint_eq(count(d[1], "", DDICT_ITER_HIDDEN, ""), expected + 1);
    }
    at(d[1], 1);
    ok(ddict_clear(d[1], WAIT));
    ck_assert_int_eq(ddict_len(d[1], WAIT), 0);
    ck_assert_int_eq(ddict_contains(d[1], "\0ddict.test", 11, NULL, WAIT), 1);
    at(d[0], 0);
    ck_assert_int_eq(ddict_len(d[0], WAIT), (LOTS + 2) / 3);
    at(d[0], 2);
    ck_assert_int_eq(ddict_len(d[0], WAIT), LOTS / 3);
    ok(ddict_put(d[0], "new", 3, "v", 1, 0, WAIT));
    at(d[1], 4);
    ok(ddict_put(d[1], "new", 3, "v", 1, 0, WAIT)); /* retires 0 and 1 */
    at(d[0], 1);
    ddict_iter_t *it;
    fails(DDICT_ERETIRED, ddict_len(d[0], WAIT));
    fails(DDICT_ERETIRED, ddict_clear(d[0], WAIT));
    fails(DDICT_ERETIRED, ddict_iter_open(d[0], -1, &it, WAIT));
    end();
}
END_TEST

START_TEST(many_are_put_and_read_at_the_checkpoint) {
    begin("2");
    static struct ddict_pair pair[LOTS];
    static struct ddict_want want[LOTS + 2];
    static char name[LOTS][16];
    for (unsigned i = 0; i < LOTS; i++) {
        pair[i].key = want[i].key = name[i];
        pair[i].klen = want[i].klen = (size_t)snprintf(name[i], sizeof name[i], "m%u", i);
        pair[i].val = name[i];
        pair[i].vlen = pair[i].klen;
    }
    want[LOTS] = (struct ddict_want){.key = "none", .klen = 4};
    want[LOTS + 1] = (struct ddict_want){.key = "\0ddict.test", .klen = 11};
    ok(ddict_put(d[0], "\0ddict.test", 11, "h", 1, 0, WAIT));
    at(d[0], 1);
    ck_assert_int_eq(ddict_put_many(d[0], pair, LOTS, WAIT), LOTS);
    at(d[1], 1);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert_int_eq(ddict_get_many(d[1], want, LOTS + 2, 0, WAIT), LOTS + 1);
        for (unsigned i = 0; i < LOTS; i++) {
            ck_assert_int_eq(want[i].status, 0);
            ck_assert(want[i].view.len == pair[i].klen &&
                      memcmp(want[i].view.data, name[i], pair[i].klen) == 0);
            ddict_release(&want[i].view);
        }
        ck_assert_int_eq(want[LOTS].status, DDICT_ENOKEY);
        ck_assert_int_eq(want[LOTS + 1].status, 0);
        ddict_release(&want[LOTS + 1].view);
        at(d[0], 3); /* in the second round their indexes are older than the window */
        ok(ddict_put(d[0], "next", 4, "v", 1, 0, WAIT));
        at(d[1], 3);
    }
    at(d[1], 0);
    fails(DDICT_ERETIRED, ddict_get_many(d[1], want, LOTS, 0, WAIT));
    ck_assert_int_eq(want[0].status, DDICT_ERETIRED);
    fails(DDICT_ERETIRED, ddict_put_many(d[1], pair, 3, WAIT));
    ck_assert_int_eq(pair[2].status, DDICT_ERETIRED);
    end();
}
END_TEST

/* --- by the version --- */
START_TEST(versions_are_those_of_the_checkpoint) {
    begin("3");
    uint64_t v1, v2, now;
    EACH(0) {
        at(d[0], 1);
        ok(ddict_key_version(d[0], key, klen, &v1, WAIT));
        ck_assert_uint_eq(v1, 0);
        ok(ddict_put_if(d[0], key, klen, "one", 3, DDICT_TAG(4), 0, &v1, WAIT));
        at(d[1], 0);
        ok(ddict_put_if(d[1], key, klen, "x", 1, 0, 0, &now, WAIT)); /* there it is absent */
        ok(ddict_del(d[1], key, klen, WAIT));
        at(d[1], 1);
        fails(DDICT_ECHANGED, ddict_put_if(d[1], key, klen, "x", 1, 0, 0, &now, WAIT));
        ck_assert_uint_eq(now, v1);
        ok(put(d[1], 2, "two")); /* W7: the version at 1 stays */
        at(d[1], 1);
        ok(ddict_key_version(d[1], key, klen, &now, WAIT));
        ck_assert_uint_eq(now, v1);
        ok(ddict_put_if(d[1], key, klen, "again", 5, DDICT_TAG(4), v1, &v2, WAIT));
        ck_assert(v2 != v1);
        has(d[0], 1, "again");
        has(d[0], 2, "two");
        at(d[0], 1);
        fails(DDICT_ECHANGED, ddict_del_if(d[0], key, klen, v1, WAIT));
        fails(-ETIMEDOUT, ddict_wait_change(d[0], key, klen, v2, &now, 30));
        ok(ddict_wait_change(d[0], key, klen, v1, &now, 30));
        ck_assert_uint_eq(now, v2);
        ok(ddict_del_if(d[0], key, klen, v2, WAIT));
        has_none(d[1], 1);
        ok(put(d[1], 1, "third"));
        ok(ddict_key_version(d[1], key, klen, &now, WAIT));
        ck_assert(now != 0 && now != v1 && now != v2);
    }
    end();
}
END_TEST

START_TEST(sums_and_growing_values_are_of_the_checkpoint) {
    begin("3");
    int64_t sum;
    size_t total;
    EACH(0) {
        at(d[0], 0);
        ok(ddict_add(d[0], key, klen, 5, &sum, WAIT));
        at(d[0], 1);
        ok(ddict_add(d[0], key, klen, -7, &sum, WAIT));
        ck_assert_int_eq(sum, -2);
        at(d[1], 0);
        ok(ddict_add(d[1], key, klen, 0, &sum, WAIT));
        ck_assert_int_eq(sum, 5);
        at(d[1], 2);
        ok(ddict_add(d[1], key, klen, INT64_MAX, &sum, WAIT));
        ck_assert(sum == INT64_MAX - 2);
        fails(-ERANGE, ddict_add(d[1], key, klen, 3, &sum, WAIT));
        ok(put(d[1], 2, "a"));
        fails(DDICT_ENOTINT, ddict_add(d[1], key, klen, 3, &sum, WAIT));
        ok(ddict_append(d[1], key, klen, "bc", 2, 0, &total, WAIT));
        ck_assert_uint_eq(total, 3);
        has(d[0], 2, "abc");
        at(d[0], 1);
        fails(-EINVAL, ddict_append(d[0], key, klen, "x", 1, 0, &total, WAIT)); /* an integer */
    }
    end();
}
END_TEST

/* --- other calls --- */
START_TEST(places_and_asynchronous_calls_work_and_queues_do_not) {
    begin("2");
    struct ddict_place p;
    klen = key_of(d[0], 3, 0, key, sizeof key);
    at(d[0], 1);
    ok(ddict_reserve(d[0], key, klen, 5, DDICT_TAG(4), &p));
    ck_assert((uintptr_t)p.data % 64 == 0);
    memcpy(p.data, "place", 5);
    ok(ddict_commit_keep(&p, WAIT));
    has(d[1], 1, "place");
    memcpy(p.data, "PLACE", 5);
    ok(ddict_commit(&p, WAIT));
    has(d[1], 1, "PLACE");
    has_none(d[1], 0);
    ok(ddict_reserve(d[0], key, klen, 5, 0, &p));
    ddict_abort(&p);
    ok(ddict_reserve(d[0], key, klen, 5, 0, &p));
    ddict_detach(d[0]);
    fails(-ECANCELED, ddict_commit(&p, WAIT));
    d[0] = dict_attach(&x, 0);
    at(d[0], 1);

    ddict_async_t *q;
    struct ddict_op op[3] = {
        {.what = DDICT_OP_PUT,
         .key = key,
         .klen = klen,
         .buf = (void *)(uintptr_t) "async",
         .len = 5,
         .flags = DDICT_TAG(4),
         .timeout_ms = WAIT},
        {.what = DDICT_OP_VIEW, .key = key, .klen = klen, .timeout_ms = WAIT},
        {.what = DDICT_OP_VIEW, .key = key, .klen = klen, .flags = DDICT_WAIT, .timeout_ms = WAIT}};
    ok(ddict_async_open(d[0], &q));
    ck_assert_int_eq(ddict_async_submit(q, op, 3), 0);
    ck_assert_int_eq(op[0].status, 0);
    ck_assert_int_eq(op[1].status, 0);
    ck_assert(op[1].view.len == 5 && memcmp(op[1].view.data, "async", 5) == 0);
    ddict_release(&op[1].view);
    ck_assert_int_eq(op[2].status, -EOPNOTSUPP);
    free(op[2].text);
    ddict_async_close(q);
    has(d[1], 1, "async");

    ddict_sub_t *sub;
    fails(-EOPNOTSUPP, ddict_push(d[0], key, klen, "x", 1, 0, 0, WAIT));
    fails(-EOPNOTSUPP, ddict_queued(d[0], key, klen, WAIT));
    fails(-EOPNOTSUPP, ddict_queue_open(d[0], key, klen, 4, NULL, WAIT));
    fails(-EOPNOTSUPP, ddict_subscribe(d[0], "", 0, 0, &sub, WAIT));
    ok(ddict_push(d[0], "\0ddict.q", 8, "x", 1, 0, 0, WAIT));
    ok(ddict_subscribe(d[0], "\0ddict.q", 8, 0, &sub, WAIT));
    ddict_unsubscribe(sub);
    end();
}
END_TEST

/* --- waiting for keys --- */
static void persistent(ddict_t *of, uint64_t id, const char *text) {
    at(of, id);
    ok(ddict_put(of, key, klen, text, strlen(text), DDICT_TAG(4) | DDICT_PERSISTENT, WAIT));
}
static void is_awaited(ddict_t *of, uint64_t id) {
    struct ddict_view v;
    at(of, id);
    fails(-ETIMEDOUT, ddict_view(of, key, klen, &v, 0, 20));
    fails(-ETIMEDOUT, ddict_view(of, key, klen, &v, 0, 0));
    ck_assert_int_eq(ddict_contains(of, key, klen, NULL, WAIT), 0); /* never waits */
}

START_TEST(keys_are_awaited_at_each_checkpoint) {
    begin("3,wait-for-keys");
    EACH(0) {
        is_awaited(d[0], 0);
        ok(put(d[0], 0, "zero"));
        has(d[1], 0, "zero");
        is_awaited(d[1], 1);
        ck_assert_int_eq(ddict_len(d[1], WAIT), m_); /* of each key the persistent one */
        ok(put(d[1], 1, "one"));
        has(d[0], 1, "one");
        persistent(d[0], 1, "kept");
        has(d[1], 2, "kept");
        ck_assert_int_eq(ddict_contains(d[1], key, klen, NULL, WAIT), 1);
        at(d[1], 3); /* does not exist yet, and what is persistent in the oldest one is read */
        struct ddict_view v;
        fails(-ETIMEDOUT, ddict_view(d[1], key, klen, &v, 0, 20));
        persistent(d[0], 0, "first");
        has(d[1], 3, "kept");
        has(d[1], 0, "first");
    }
    end();
}
END_TEST

/* A put at the checkpoint is not over in time, because of what the sentence says. (With little time it
 * may be because of a machine that is busy.) */
static void put_awaits(ddict_t *of, uint64_t id, const char *k, size_t len, const char *what) {
    int ms = 50;
    at(of, id);
    do
        fails(-ETIMEDOUT, ddict_put(of, k, len, "v", 1, 0, ms *= 2));
    while (!strstr(ddict_errmsg(), what) && ms < 8000);
    ck_assert_msg(strstr(ddict_errmsg(), what), "%s", ddict_errmsg());
}

START_TEST(a_checkpoint_is_retired_when_the_next_has_its_keys) {
    begin("2,wait-for-keys");
    char other[32];
    size_t olen = key_of(d[0], 1, 7, other, sizeof other);
    klen = key_of(d[0], 2, 7, key, sizeof key);
    persistent(d[0], 0, "kept");
    klen = key_of(d[0], 0, 7, key, sizeof key);
    ok(put(d[0], 0, "zero"));
    put_awaits(d[0], 2, other, olen, key);
    has(d[1], 0, "zero");
    pid_t p = fork();
    if (p == 0) {
        at(d[0], 2);
        ok(ddict_put(d[0], other, olen, "v", 1, 0, WAIT));
        _exit(0);
    }
    usleep(150000);
    ck_assert_int_eq(waitpid(p, NULL, WNOHANG), 0);
    ok(put(d[1], 1, "one"));
    expect_exit(p, 0);
    is_retired(d[1], 0);
    has(d[1], 1, "one");
    is_awaited(d[1], 2);
    klen = key_of(d[0], 2, 7, key, sizeof key);
    has(d[1], 2, "kept");
    end();
}
END_TEST

START_TEST(a_waiting_read_ends_when_its_key_comes) {
    begin("2,wait-for-keys");
    klen = key_of(d[0], 1, 0, key, sizeof key);
    int up[2];
    ck_assert(pipe(up) == 0);
    pid_t p = fork();
    if (p == 0) {
        tell(up[1]);
        has(d[1], 0, "came");
        _exit(0);
    }
    await(up[0]);
    usleep(50000);
    ok(put(d[0], 0, "came"));
    expect_exit(p, 0);
    end();
}
END_TEST

/* --- waiting for writers --- */
START_TEST(a_checkpoint_is_retired_when_its_writers_have_gone_on) {
    begin("2,wait-for-writers");
    klen = key_of(d[0], 1, 0, key, sizeof key);
    ok(put(d[0], 0, "mine"));
    ok(put(d[1], 0, "yours"));
    put_awaits(d[0], 2, key, klen, "client");
    ok(put(d[0], 1, "one"));
    put_awaits(d[0], 2, key, klen, "client"); /* d[1] has not gone on */
    has(d[1], 0, "yours");
    has(d[1], 2, "one"); /* reads at a later one: it has */
    ok(put(d[0], 2, "two"));
    is_retired(d[1], 0);
    end();
}
END_TEST

START_TEST(a_dead_writer_is_not_awaited) {
    begin("2,wait-for-writers");
    klen = key_of(d[0], 1, 0, key, sizeof key);
    int up[2];
    ck_assert(pipe(up) == 0);
    pid_t p = fork();
    if (p == 0) {
        ok(put(d[1], 0, "dead"));
        tell(up[1]);
        pause();
    }
    await(up[0]);
    put_awaits(d[0], 2, key, klen, "client");
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
    ok(put(d[0], 2, "two"));
    has(d[0], 1, "dead");
    end();
}
END_TEST

/* --- memory --- */
static uint64_t items(void) {
    struct ddict_manager_stats *s;
    uint64_t n = 0;
    int k = ddict_stats(d[0], &s, sizeof *s, WAIT);
    for (int i = 0; i < k; i++)
        n += s[i].num_keys;
    free(s);
    return n;
}

START_TEST(values_that_no_checkpoint_sees_are_removed) {
    begin("3");
    EACH(0)
    for (unsigned c = 0; c < 40; c++)
        ok(put(d[c % 2], m_ * 100 + c, "value"));
    /* W6: of each key an index and at most K + 1 values; and W */
    ck_assert_uint_le(items(), MANAGERS * (1 + 4) + 1);
    EACH(0) {
        at(d[0], 400);
        ok(ddict_del(d[0], key, klen, WAIT));
        at(d[0], 402);
        fails(DDICT_ENOKEY, ddict_del(d[0], key, klen, WAIT));
    }
    klen = key_of(d[0], 0, 1, key, sizeof key);
    ok(put(d[0], 500, "x"));
    EACH(0)
    has_none(d[0], 500); /* takes what is left out: W4 */
    ck_assert_uint_eq(items(), 3);
    end();
}
END_TEST

START_TEST(a_view_outlives_its_checkpoint) {
    begin("1");
    struct ddict_view v[MANAGERS];
    EACH(0) {
        ok(put(d[0], 0, "the first"));
        ok(ddict_view(d[0], key, klen, &v[m_], 0, WAIT));
    }
    for (unsigned c = 1; c < 30; c++)
        EACH(0)
    ok(put(d[1], c, "a later one"));
    for (unsigned m = 0; m < MANAGERS; m++) {
        ck_assert(v[m].len == 9 && memcmp(v[m].data, "the first", 9) == 0);
        ddict_release(&v[m]);
    }
    end();
}
END_TEST

START_TEST(a_forked_child_begins_with_its_parents_checkpoint) {
    begin("3");
    klen = key_of(d[0], 2, 0, key, sizeof key);
    ok(put(d[0], 1, "parent"));
    pid_t p = fork();
    if (p == 0) {
        ck_assert_int_eq(ddict_checkpoint_id(d[0]), 1);
        has(d[0], 1, "parent");
        ok(put(d[0], 2, "child"));
        _exit(0);
    }
    expect_exit(p, 0);
    ck_assert_int_eq(ddict_checkpoint_id(d[0]), 1);
    has(d[0], 2, "child");
    has(d[0], 1, "parent");
    end();
}
END_TEST

/* --- races --- */
#define RACES 400u

static void late_writer(int in, int out) {
    uint64_t c;
    while (read(in, &c, sizeof c) == sizeof c) {
        int rc = put(d[1], c, "late");
        if (write(out, &rc, sizeof rc) != sizeof rc)
            break;
    }
    _exit(0);
}
static bool has_late(ddict_t *of, uint64_t id) {
    struct ddict_view v;
    at(of, id);
    int rc = ddict_view(of, key, klen, &v, 0, WAIT);
    ck_assert_msg(rc == 0 || rc == DDICT_ENOKEY, "%d %s", rc, ddict_errmsg());
    bool late = rc == 0 && v.len == 4 && memcmp(v.data, "late", 4) == 0;
    ddict_release(&v);
    return late;
}

/* W3, W4: whoever saw that an older checkpoint had no such value never sees it later. */
static void race(bool with_old) {
    begin("1");
    int in[2], out[2], rc;
    klen = key_of(d[0], 3, 0, key, sizeof key);
    ck_assert(pipe(in) == 0 && pipe(out) == 0);
    pid_t p = fork();
    if (p == 0) {
        close(in[1]);
        late_writer(in[0], out[1]);
    }
    char other[32];
    size_t olen = key_of(d[0], 0, 1, other, sizeof other);
    unsigned stored = 0, retired = 0;
    for (uint64_t c = 0; c < RACES; c++) {
        at(d[0], c);
        if (with_old)
            ok(put(d[0], c, "old"));
        else if ((rc = ddict_del(d[0], key, klen, WAIT)) != DDICT_ENOKEY)
            ok(rc);
        ck_assert(write(in[1], &c, sizeof c) == sizeof c);
        for (volatile unsigned i = 0; i < c % 40 * 4000; i++)
            ;
        at(d[0], c + 1);
        ok(ddict_put(d[0], other, olen, "v", 1, 0, WAIT)); /* retires c */
        bool first = has_late(d[0], c + 1);
        ck_assert(read(out[0], &rc, sizeof rc) == sizeof rc);
        ck_assert_msg(rc == 0 || rc == DDICT_ERETIRED, "%d", rc);
        ck_assert_msg(has_late(d[0], c + 1) == first, "at %d it came later: %d", (int)c, rc);
        ck_assert_int_eq(first, rc == 0);
        stored += rc == 0;
        retired += rc != 0;
    }
    close(in[1]);
    expect_exit(p, 0);
    ck_assert_msg(stored > 0 && retired > 0, "no race: %u, %u", stored, retired);
    end();
}

START_TEST(a_put_that_is_overtaken_is_seen_by_all_or_none) {
    race(true);
}
END_TEST
START_TEST(a_first_put_that_is_overtaken_is_seen_by_all_or_none) {
    race(false);
}
END_TEST

#define KILLS 60u
#define CREW  4u

static void crew_work(unsigned seed) {
    char text[64];
    for (;;) {
        klen = key_of(d[seed % NODES], (unsigned)rand_r(&seed) % MANAGERS, 0, key, sizeof key);
        ddict_t *of = d[rand_r(&seed) % NODES];
        int64_t newest = ddict_sync_to_newest_checkpoint(of, WAIT);
        int64_t c = newest + rand_r(&seed) % 5 - 3;
        at(of, c < 0 ? 0 : (uint64_t)c);
        snprintf(text, sizeof text, "%s %llu", key, (unsigned long long)(c < 0 ? 0 : c));
        int rc = rand_r(&seed) % 4 == 0 ? ddict_del(of, key, klen, WAIT)
                                        : ddict_put(of, key, klen, text, strlen(text), 0, WAIT);
        if (rc < 0 && rc != DDICT_ERETIRED && rc != DDICT_ENOKEY)
            _exit(1);
    }
}

START_TEST(clients_may_be_killed_at_any_moment) {
    begin("3");
    pid_t crew[CREW] = {0};
    unsigned seed = 5;
    for (unsigned i = 0; i < KILLS + CREW; i++) {
        pid_t *p = &crew[i % CREW];
        int status;
        if (*p > 0) {
            usleep((unsigned)rand_r(&seed) % 30000);
            kill(*p, SIGKILL);
            ck_assert(waitpid(*p, &status, 0) == *p);
            ck_assert_msg(WIFSIGNALED(status), "a client gave up: %x", status);
        }
        if (i < KILLS && (*p = fork()) == 0)
            crew_work(i * 7919);
    }
    int64_t newest = ddict_sync_to_newest_checkpoint(d[0], WAIT);
    ck_assert_int_gt(newest, 10);
    EACH(0)
    for (int64_t c = newest - 2; c <= newest; c++) {
        struct ddict_view v;
        char text[64];
        unsigned long long of;
        at(d[0], (uint64_t)c);
        int rc = ddict_view(d[0], key, klen, &v, 0, WAIT);
        ck_assert_msg(rc == 0 || rc == DDICT_ENOKEY, "%d %s", rc, ddict_errmsg());
        ck_assert_int_eq(ddict_contains(d[0], key, klen, NULL, WAIT), rc == 0);
        if (rc < 0)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)v.len, (const char *)v.data);
        ck_assert(strncmp(text, key, klen) == 0 && sscanf(text + klen, "%llu", &of) == 1);
        ck_assert_int_le((int64_t)of, c);
        ddict_release(&v);
    }
    /* all that is there still changes */
    EACH(0) {
        ok(put(d[1], (uint64_t)newest + 9, "end"));
        has(d[0], (uint64_t)newest + 9, "end");
    }
    /* each may have left two values: one that no index named yet, and one that none named any more */
    ck_assert_uint_le(items(), 2 * KILLS + MANAGERS * 5 + 1);
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        a_handle_moves_its_checkpoint,
        without_a_working_set_there_are_none,
        a_later_checkpoint_has_what_was_put_before,
        what_leaves_the_window_is_retired,
        new_and_existing_judge_what_the_checkpoint_has,
        a_removal_holds_from_its_checkpoint_on,
        a_pop_gives_what_it_removes,
        keys_are_those_of_the_checkpoint,
        many_are_put_and_read_at_the_checkpoint,
        versions_are_those_of_the_checkpoint,
        sums_and_growing_values_are_of_the_checkpoint,
        places_and_asynchronous_calls_work_and_queues_do_not,
        keys_are_awaited_at_each_checkpoint,
        a_checkpoint_is_retired_when_the_next_has_its_keys,
        a_waiting_read_ends_when_its_key_comes,
        a_checkpoint_is_retired_when_its_writers_have_gone_on,
        a_dead_writer_is_not_awaited,
        values_that_no_checkpoint_sees_are_removed,
        a_view_outlives_its_checkpoint,
        a_forked_child_begins_with_its_parents_checkpoint,
        a_put_that_is_overtaken_is_seen_by_all_or_none,
        a_first_put_that_is_overtaken_is_seen_by_all_or_none,
        clients_may_be_killed_at_any_moment,
    };
    return tests_main("client_window", argc, argv, tests, sizeof tests / sizeof *tests);
}
