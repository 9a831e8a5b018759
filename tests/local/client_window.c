/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_window.c - working sets: checkpoints of all keys, on two nodes with four managers. Each case
 * is made with a key of every manager. W1 .. W7: the invariants of window.h.
 */
#include "client_dict.h"

#include <errno.h>
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

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        a_handle_moves_its_checkpoint,
        without_a_working_set_there_are_none,
        a_later_checkpoint_has_what_was_put_before,
        what_leaves_the_window_is_retired,
        new_and_existing_judge_what_the_checkpoint_has,
        a_removal_holds_from_its_checkpoint_on,
        a_pop_gives_what_it_removes,
    };
    return tests_main("client_window", argc, argv, tests, sizeof tests / sizeof *tests);
}
