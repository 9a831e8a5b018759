/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_steps.c - the two sides stopped at every step of LAYOUT 5, one after the other: at each
 * step of a reader the writer does each thing it can do, twice in every combination, and at each
 * step of a writer a reader looks at everything. No chance is involved. The right build must never
 * err; each mutant must, here too.
 */
#include "store_test.h"
#include <store/index.h>
#include <store/segment.h>

#include <errno.h>

int stress_mutant;
static void (*hook)(enum stress_place where);
static bool inside; /* the hook's own calls pass the points freely */
void stress_point(enum stress_place where) {
    if (!hook || inside)
        return;
    inside = true;
    hook(where);
    inside = false;
}

static void nothing(void) {
}
static void after(void) {
    hook = NULL;
    stress_mutant = MUTANT_NONE;
    box_close();
}

#define LEN  200u
#define KEYS 24u
static uint64_t version[KEYS]; /* of each key, 0: absent */
static uint64_t last;

static int put_next(uint64_t k) {
    int rc = put(k, LEN, ++last);
    if (rc == 0)
        version[k] = last;
    return rc;
}
static void del_key(uint64_t k) {
    if (del(k) == 0)
        version[k] = 0;
}

/* --- the reader is stopped --- */
enum act {
    ACT_NONE,
    ACT_OVERWRITE,
    ACT_DELETE,
    ACT_MOVE,
    ACT_CLEAR,
    ACT_CLEAR_AND_PUT,
    ACT_SPLIT,
    ACTS
};
static const char *const act_name[ACTS] = {"nothing", "overwrite",     "delete", "delete and put",
                                           "clear",   "clear and put", "split"};

/* Free what can be freed. */
static void release_all(void) {
    while (store_work(box.s)) {
    }
    store_reclaim(box.s);
}
/* And use every free block of the size of our values again, as another key's value. */
static void reuse(void) {
    release_all();
    for (uint64_t i = 0; i < 40; i++)
        put(1000 + i, LEN, 1 << 20);
    for (uint64_t i = 0; i < 40; i++)
        del(1000 + i);
}

static void act(enum act a, uint64_t k) {
    char name[32];
    uint64_t h = hash_of(name, key_name(name, k));
    const struct segment *stood = index_segment(box.s, h);
    switch (a) {
    case ACT_OVERWRITE:
        put_next(k);
        break;
    case ACT_DELETE:
        del_key(k);
        break;
    case ACT_MOVE:
        del_key(k);
        put_next(k);
        break;
    case ACT_CLEAR:
    case ACT_CLEAR_AND_PUT:
        store_clear(box.s);
        memset(version, 0, sizeof version);
        if (a == ACT_CLEAR_AND_PUT)
            put_next(k);
        break;
    /* the key's own segment, until the key has moved; four in a row stay with a chance of 1/16 */
    case ACT_SPLIT:
        for (int i = 0; i < 4 && index_segment(box.s, h) == stood; i++)
            if (segment_split(box.s, h) < 0)
                abort();
        break;
    default:
        break;
    }
}

/* again: blocks are used again at once */
static struct {
    enum stress_place at;
    enum act what;
    bool again, done;
} todo[2];
static uint64_t target;
static uint64_t allowed[8]; /* versions that the key had while it was sought; 0: absent */
static unsigned allowed_n;
static void note_allowed(void) {
    allowed[allowed_n++] = version[target];
}

static void reader_hook(enum stress_place where) {
    for (int i = 0; i < 2; i++)
        if (!todo[i].done && where == todo[i].at && (i == 0 || todo[0].done)) {
            todo[i].done = true;
            /* Delete-and-put passes through absence. */
            if (todo[i].what == ACT_MOVE || todo[i].what == ACT_CLEAR_AND_PUT)
                allowed[allowed_n++] = 0;
            act(todo[i].what, target);
            if (todo[i].again)
                reuse();
            else
                release_all();
            note_allowed();
            return;
        }
}

/* One look-up with the writer's acts in between; NULL or what is wrong. */
static const char *one_look(uint64_t k, enum look_way by) {
    struct found f;
    target = k;
    allowed_n = 0;
    note_allowed();
    todo[0].done = todo[1].done = false;
    hook = reader_hook;
    int rc = look_by(by, k, (k + 1) % KEYS, 5, &f);
    hook = NULL;
    if (rc == -EAGAIN)
        return "gave up";
    if (rc && rc != DDICT_ENOKEY)
        return "damaged";
    uint64_t got = 0;
    if (rc == 0 && f.val_len != LEN)
        return "wrong length";
    for (unsigned i = 0; i < allowed_n; i++)
        if (rc == 0 && allowed[i] && value_right(f.value, LEN, allowed[i]))
            got = allowed[i];
    if (rc == 0 && !got)
        return "torn or stale";
    bool may_miss = false;
    for (unsigned i = 0; i < allowed_n; i++)
        may_miss |= allowed[i] == 0;
    if (rc && !may_miss)
        return "missed";
    if (rc && box.page->slot[5])
        return "a lease stayed";
    if (rc == 0) {
        del_key(k);
        reuse();
        if (!value_right(f.value, LEN, got))
            return "reused under a view";
        reader_release(&box.page->slot[5]);
    }
    return NULL;
}

static char failure[200];
static bool all_looks(void) {
    static const enum stress_place places[] = {STRESS_R_ROOT,    STRESS_R_DIR,    STRESS_R_PROBE,
                                               STRESS_R_FOUND,   STRESS_R_LEASED, STRESS_R_FENCED,
                                               STRESS_R_CHECKED, STRESS_R_MISSED};
    const unsigned n = sizeof places / sizeof *places;
    box_open(16 * MIB);
    memset(version, 0, sizeof version);
    last = 0;
    for (unsigned p = 0; p < n; p++)
        for (unsigned q = 0; q < n; q++)
            for (unsigned a = 0; a < ACTS; a++)
                for (unsigned b = 0; b < ACTS; b++)
                    for (unsigned way = 0; way < 8 * LOOK_WAYS; way++) {
                        uint64_t k = (p * 3 + q + a * 7 + b) % KEYS;
                        bool there = way & 1;
                        if (ROOT_DEPTH(box.s->header->root) > 4)
                            act(ACT_CLEAR, 0);
                        release_all();
                        if (there)
                            put_next(k);
                        else
                            del_key(k);
                        todo[0].at = places[p], todo[0].what = a, todo[0].again = way >> 1 & 1;
                        todo[1].at = places[q], todo[1].what = b, todo[1].again = way >> 2 & 1;
                        const char *wrong = one_look(k, way / 8);
                        if (!wrong)
                            continue;
                        snprintf(failure, sizeof failure,
                                 "%s: way %u, %s at point %u, then %s at point %u, the key was %s",
                                 wrong, way / 8, act_name[a], places[p], act_name[b], places[q],
                                 there ? "there" : "absent");
                        return false;
                    }
    return true;
}

START_TEST(a_reader_stopped_anywhere_sees_what_was_there_at_some_moment) {
    ck_assert_msg(all_looks(), "%s", failure);
}
END_TEST

/* --- the writer is stopped --- */
static uint64_t busy;      /* key under way; KEYS: none */
static uint64_t busy_next; /* the version it gets */
static bool busy_all;      /* clear: any key may be there or gone */
static const char *seen_wrong;
static char wrong_text[100];
static unsigned looks;
static uint8_t counted[KEYS];
/* a view taken in the middle of a change of its key, and kept a while */
static struct found kept;
static uint64_t kept_version;

static int count_stable(void *arg, const void *key, uint32_t len) {
    char name[32];
    for (uint64_t k = 0; k < KEYS; k++)
        if (key_name(name, k) == len && memcmp(name, key, len) == 0)
            counted[k]++;
    return 0;
}

static void look_at_all(enum stress_place where) {
    uint64_t cursor = 0;
    if (seen_wrong)
        return;
    looks++;
    for (uint64_t k = 0; k < KEYS && !seen_wrong; k++) {
        struct found f;
        int rc = look_slot(k, 9, &f);
        bool may_be_old =
            rc == 0 && version[k] && f.val_len == LEN && value_right(f.value, LEN, version[k]);
        bool may_be_new = rc == 0 && k == busy && busy_next && f.val_len == LEN &&
                          value_right(f.value, LEN, busy_next);
        bool may_miss =
            rc == DDICT_ENOKEY && (!version[k] || busy_all || (k == busy && !busy_next));
        if (!may_be_old && !may_be_new && !may_miss)
            seen_wrong = rc == DDICT_ENOKEY ? "missed" : rc ? "an error" : "a wrong value";
        reader_release(&box.page->slot[9]);
    }
    if (where == STRESS_W_READY && busy < KEYS && !kept_version && look_slot(busy, 20, &kept) == 0)
        kept_version = version[busy];
    /* once a word: not each time the long walk */
    if (where == STRESS_W_COPIED && looks % 97)
        return;
    memset(counted, 0, sizeof counted);
    do {
        int rc = reader_keys(&box.view, &cursor, &box.page->slot[9], count_stable, NULL);
        if (rc == -EAGAIN)
            return; /* a split is under way, and stands still */
        if (rc < 0)
            seen_wrong = "a walk that failed";
    } while (cursor && !seen_wrong);
    for (uint64_t k = 0; k < KEYS && !busy_all && !seen_wrong; k++)
        if (k != busy && counted[k] != !!version[k]) {
            snprintf(wrong_text, sizeof wrong_text,
                     "a walk at point %d saw key %d %d times instead of %d", (int)where, (int)k,
                     counted[k], version[k] != 0);
            seen_wrong = wrong_text;
        }
}

static bool all_writes(void) {
    uint64_t rng = 77;
    box_open(16 * MIB);
    memset(version, 0, sizeof version);
    last = 0;
    seen_wrong = NULL;
    looks = 0;
    kept_version = 0;
    for (unsigned step = 0; step < 600 && !seen_wrong; step++) {
        uint64_t r = unit_random(&rng), k = (r >> 8) % KEYS;
        if (box.s->header->num_keys < 300) /* so that a split has something to move */
            for (uint64_t i = 0; i < 600; i++)
                put(50000 + i, 8, 0);
        hook = look_at_all;
        busy = k;
        busy_next = last + 1;
        busy_all = false;
        if (r % 8 < 4)
            put_next(k);
        else if (r % 8 == 4) {
            busy_next = 0;
            del_key(k);
        } else if (step % 100 == 99) {
            busy_all = true;
            act(ACT_CLEAR, 0);
        } else {
            busy = KEYS;
            if (ROOT_DEPTH(box.s->header->root) > 6) {
                busy_all = true;
                act(ACT_CLEAR, 0);
            } else if (r >> 40 & 1)
                act(ACT_SPLIT, k);
            else
                release_all();
        }
        busy = KEYS;
        busy_all = false;
        hook = NULL;
        look_at_all(STRESS_PLACES);
        if (step % 3)
            continue;
        reuse();
        if (kept_version && !value_right(kept.value, LEN, kept_version))
            seen_wrong = "a view changed";
        reader_release(&box.page->slot[20]);
        kept_version = 0;
    }
    if (seen_wrong)
        snprintf(failure, sizeof failure, "%s", seen_wrong);
    return !seen_wrong;
}

START_TEST(a_writer_stopped_anywhere_leaves_every_other_key_as_it_was) {
    ck_assert_msg(all_writes(), "%s", failure);
    ck_assert_uint_gt(looks, 5000);
}
END_TEST

/* --- the mutants --- */
START_TEST(each_mutant_of_the_reader_is_caught) {
    static const int mutants[] = {MUTANT_NO_LEASE, MUTANT_NO_RECHECK, MUTANT_LATE_SLOT,
                                  MUTANT_BLIND_MISS, MUTANT_FIRST_ONLY};
    stress_mutant = mutants[_i];
    ck_assert_msg(!all_looks(), "mutant %d", stress_mutant);
    printf("mutant %d: %s\n", stress_mutant, failure);
}
END_TEST

START_TEST(each_mutant_of_the_writer_is_caught) {
    static const int mutants[] = {MUTANT_NO_SCAN, MUTANT_NO_MOVED, MUTANT_EARLY_MOVED,
                                  MUTANT_FRESH_RETIRE};
    stress_mutant = mutants[_i];
    bool right = all_writes();
    if (right) {
        box_close();
        right = all_looks();
    }
    ck_assert_msg(!right, "mutant %d", stress_mutant);
    printf("mutant %d: %s\n", stress_mutant, failure);
}
END_TEST

static unsigned turns;
static void turn_counter(enum stress_place where) {
    if (where != STRESS_R_MISSED)
        return;
    turns++;
    index_segment(box.s, hash_of("k1", 2))->moves += 2;
}
START_TEST(a_miss_is_not_reported_while_the_segment_does_not_stand_still) {
    struct found f;
    box_open(16 * MIB);
    hook = turn_counter;
    ck_assert_int_eq(look_slot(1, 5, &f), -EAGAIN);
    ck_assert_uint_eq(turns, DD_READ_RETRIES);
    hook = NULL;
    ck_assert_int_eq(look_slot(1, 5, &f), DDICT_ENOKEY);
}
END_TEST

static void swing_word(enum stress_place where) {
    if (where != STRESS_R_FENCED)
        return;
    turns++;
    put(1, LEN, turns + 100);
}
START_TEST(a_word_that_is_replaced_every_time_is_given_up) {
    struct found f;
    box_open(16 * MIB);
    put(1, LEN, 1);
    turns = 0;
    hook = swing_word;
    ck_assert_int_eq(look_slot(1, 5, &f), -EAGAIN);
    ck_assert_uint_eq(turns, DD_READ_RETRIES);
    ck_assert_uint_eq(box.page->slot[5], 0);
    hook = NULL;
    ck_assert(seen(1, LEN, turns + 100));
}
END_TEST

int main(void) {
    Suite *s = suite_create("store_steps");
    TCase *c = tcase_create("store_steps");
    tcase_set_timeout(c, 4 * UNIT_SECONDS);
    tcase_add_checked_fixture(c, unit_fds_count, unit_fds_check);
    tcase_add_checked_fixture(c, nothing, after);
    tcase_add_test(c, a_reader_stopped_anywhere_sees_what_was_there_at_some_moment);
    tcase_add_test(c, a_writer_stopped_anywhere_leaves_every_other_key_as_it_was);
    tcase_add_loop_test(c, each_mutant_of_the_reader_is_caught, 0, 5);
    tcase_add_loop_test(c, each_mutant_of_the_writer_is_caught, 0, 4);
    tcase_add_test(c, a_miss_is_not_reported_while_the_segment_does_not_stand_still);
    tcase_add_test(c, a_word_that_is_replaced_every_time_is_given_up);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
