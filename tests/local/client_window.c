/* SPDX-License-Identifier: Apache-2.0 */
/* client_window.c - working sets: what each call finds and changes at a checkpoint. */
#include "client_window.h"

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

/* Each checkpoint has a key of its own, which the next one removes. */
static void keys_come_and_go(ddict_t *of, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++) {
        at(of, i);
        klen = (size_t)snprintf(key, sizeof key, "key %d", (int)i);
        ok(ddict_put(of, key, klen, "value", 5, 0, WAIT));
        klen = (size_t)snprintf(key, sizeof key, "key %d", (int)i - 1);
        if (i > from)
            ok(ddict_del(of, key, klen, WAIT));
    }
}
START_TEST(keys_that_were_removed_leave_nothing) {
    begin("2");
    keys_come_and_go(d[0], 0, 40);
    items_are_at_most(9); /* the window; of the last four keys index and value */
    keys_come_and_go(d[1], 40, 60);
    items_are_at_most(9 + 7);
    /* what the handles have yet is due, and they change nothing any more */
    klen = (size_t)snprintf(key, sizeof key, "another");
    ok(put(d[0], 63, "on"));
    ck_assert_int_eq(ddict_len(d[0], WAIT), 3); /* the last keys of both, and this */
    items_become(1 + 2 * 3);
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

#define LOTS          700u
#define WORKING_LARGE (1u << 20)

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

static void pair_of(struct ddict_pair *p, const char *k, const char *text, unsigned flags) {
    *p = (struct ddict_pair){.key = k,
                             .klen = strlen(k),
                             .val = text,
                             .vlen = strlen(text),
                             .flags = flags | DDICT_TAG(4)};
}

START_TEST(a_put_of_many_judges_each_pair) {
    begin("2");
    struct ddict_pair pair[8];
    static char large[WORKING_LARGE];
    char none[] = "";
    ok(ddict_put(d[0], "old", 3, "v", 1, DDICT_TAG(4), WAIT));
    for (unsigned round = 0; round < 3;
         round++) { /* the second one replaces, the third makes a checkpoint */
        at(d[1], round == 2 ? 5 : 1);
        pair_of(&pair[0], "old", "o", DDICT_EXISTING);
        pair_of(&pair[1], "old", "never", DDICT_NEW);
        pair_of(&pair[2], "twice", "first", 0);
        pair_of(&pair[3], "twice", "second", 0);
        pair_of(&pair[4], "no", "never", DDICT_EXISTING);
        pair_of(&pair[5], none, "no key", 0);
        pair_of(&pair[6], "large", "", 0);
        pair[6].val = large;
        pair[6].vlen = sizeof large;
        pair_of(&pair[7], "x", "x", DDICT_NEW | DDICT_EXISTING);
        ck_assert_int_eq(ddict_put_many(d[1], pair, 8, WAIT), 4);
        ck_assert_int_eq(pair[0].status, 0);
        ck_assert_int_eq(pair[1].status, DDICT_EEXISTS);
        ck_assert_int_eq(pair[2].status, 0);
        ck_assert_int_eq(pair[3].status, 0);
        ck_assert_int_eq(pair[4].status, DDICT_ENOKEY);
        ck_assert_int_lt(pair[5].status, 0);
        ck_assert_int_eq(pair[6].status, 0);
        ck_assert_int_eq(pair[7].status, -EINVAL);
        size_t len;
        ck_assert_int_eq(ddict_contains(d[1], "large", 5, &len, WAIT), 1);
        ck_assert_uint_eq(len, sizeof large);
        klen = (size_t)snprintf(key, sizeof key, "twice");
        has(d[1], round == 2 ? 5 : 1, "second");
        ck_assert_int_eq(ddict_len(d[1], WAIT), 3);
    }
    at(d[0], 4);
    has(d[0], 4, "second");
    klen = (size_t)snprintf(key, sizeof key, "old");
    has(d[0], 5, "o");
    items_become(3 * (1 + 2) + 1); /* what 4 and 5 have, and W */
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

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        a_handle_moves_its_checkpoint,
        without_a_working_set_there_are_none,
        a_later_checkpoint_has_what_was_put_before,
        what_leaves_the_window_is_retired,
        new_and_existing_judge_what_the_checkpoint_has,
        a_removal_holds_from_its_checkpoint_on,
        keys_that_were_removed_leave_nothing,
        a_pop_gives_what_it_removes,
        keys_are_those_of_the_checkpoint,
        many_are_put_and_read_at_the_checkpoint,
        a_put_of_many_judges_each_pair,
        versions_are_those_of_the_checkpoint,
        sums_and_growing_values_are_of_the_checkpoint,
        places_and_asynchronous_calls_work_and_queues_do_not,
    };
    return tests_main("client_window", argc, argv, tests, sizeof tests / sizeof *tests);
}
