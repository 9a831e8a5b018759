/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_frozen.c - the node cache, step by step (LAYOUT 9). As store_steps.c: at each step of a
 * reader the manager does each thing that freezing and evicting can do, at each step of the manager
 * readers look at everything, and no chance is involved. What must hold:
 *
 *  1. A reader that sees FROZEN finds a cached key in a version that its owner had at some moment
 *     of the look-up, or misses it, and then asks the owner.
 *  2. No byte changes under a view, whatever is evicted, unfrozen and put into the same place.
 *  3. What the manager owns itself is found throughout, and only that when the arena is open again.
 *
 * The right build must never err; each mutant must.
 */
#include "store_test.h"
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
#define OURS 16u /* keys below it are the manager's own */
#define KEYS 40u /* the others are another manager's */
#define LOTS 1000000u
/* what the owner has; of ours, and of the others, which are always there */
static uint64_t version[KEYS];
static uint64_t epoch, last;
static char failure[200];

static bool frozen(void) {
    return FREEZE_STATE(find_load(&box.view.header->freeze)) == FREEZE_FROZEN;
}

static void cache(uint64_t k) {
    char key[32];
    struct store_ref ref;
    if (store_cache_reserve(box.s, key, key_name(key, k), LEN, 9, version[k], &ref) < 0)
        abort();
    value_fill(ref.value, LEN, version[k]);
    if (store_cache_add(box.s, &ref) < 0)
        store_abort(box.s, &ref);
}
static void freeze(void) {
    store_freeze(box.s, ++epoch, FREEZE_CLOSED);
    store_freeze(box.s, epoch, FREEZE_FROZEN);
}
static void unfreeze(void) {
    store_freeze(box.s, epoch, FREEZE_CLOSED);
    while (store_cache_drop(box.s, 3)) {
    }
    store_freeze(box.s, epoch, FREEZE_OPEN);
}
/* Open again, all owners put other values, frozen again. */
static void another_epoch(void) {
    unfreeze();
    for (uint64_t k = 0; k < KEYS; k++)
        version[k] = ++last;
    for (uint64_t k = 0; k < OURS; k++)
        put(k, LEN, version[k]);
    freeze();
}
static void evict_all(void) {
    uint64_t evicted = 0;
    store_cache_evict(box.s, UINT64_MAX, 4 * KEYS, &evicted);
}
static uint64_t target;
/* Free what can be freed, and use every free block of the size of our values again, for another
 * value under the same key: who reads on takes it for the old one. */
static void reuse(void) {
    char key[32];
    struct store_ref ref[60];
    uint32_t n = key_name(key, target);
    store_reclaim(box.s);
    for (unsigned i = 0; i < 60; i++) {
        if (store_cache_reserve(box.s, key, n, LEN, 9, LOTS, &ref[i]) < 0)
            abort();
        value_fill(ref[i].value, LEN, LOTS);
    }
    for (unsigned i = 0; i < 60; i++)
        store_abort(box.s, &ref[i]);
}

/* --- the reader is stopped --- */
enum act {
    ACT_NONE,
    ACT_EVICT,
    ACT_EVICT_AND_CACHE,
    ACT_CACHE,
    ACT_UNFREEZE,
    ACT_EPOCH,
    ACT_EPOCH_AND_CACHE,
    ACT_SPLIT,
    ACT_REOPEN,
    ACTS
};
static const char *const act_name[ACTS] = {"nothing",
                                           "evict",
                                           "evict and cache",
                                           "cache",
                                           "unfreeze",
                                           "unfreeze and freeze",
                                           "unfreeze, freeze and cache",
                                           "split",
                                           "another manager"};

static void act(enum act a, uint64_t k) {
    char name[32];
    if (a == ACT_UNFREEZE)
        unfreeze();
    if (!frozen())
        return;
    switch (a) {
    case ACT_EVICT:
        evict_all();
        break;
    case ACT_EVICT_AND_CACHE:
        evict_all();
        cache(k);
        break;
    case ACT_CACHE:
        cache(k);
        break;
    case ACT_EPOCH:
        another_epoch();
        break;
    case ACT_EPOCH_AND_CACHE:
        another_epoch();
        cache(k);
        break;
    case ACT_SPLIT:
        if (segment_split(box.s, hash_of(name, key_name(name, k))) < 0)
            abort();
        break;
    case ACT_REOPEN:
        box_reopen();
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
static uint64_t allowed[4];
static unsigned allowed_n;
static void reader_hook(enum stress_place where) {
    for (int i = 0; i < 2; i++)
        if (!todo[i].done && where == todo[i].at && (i == 0 || todo[0].done)) {
            todo[i].done = true;
            act(todo[i].what, target);
            if (todo[i].again)
                reuse();
            allowed[allowed_n++] = version[target];
            return;
        }
}

/* The versions that a look-up may give; NULL or what is wrong. */
static const char *judge(int rc, const struct found *f, uint64_t *got) {
    *got = 0;
    if (rc == -EAGAIN)
        return "gave up";
    if (rc && rc != DDICT_ENOKEY)
        return "damaged";
    if (rc)
        return NULL; /* the owner is asked */
    if (f->val_len != LEN)
        return "wrong length";
    for (unsigned i = 0; i < allowed_n; i++)
        if (value_right(f->value, LEN, allowed[i]))
            *got = allowed[i];
    if (!*got)
        return "torn or stale";
    return f->item->version == (*got | ITEM_CACHED) ? NULL : "not the owner's version";
}

static const char *one_look(uint64_t k, enum look_way by) {
    struct found f;
    uint64_t got, none;
    const char *wrong;
    target = k;
    allowed_n = 0;
    allowed[allowed_n++] = version[k];
    todo[0].done = todo[1].done = false;
    hook = reader_hook;
    int rc = look_by(by, k, OURS + (k + 1) % (KEYS - OURS), 5, &f);
    hook = NULL;
    if ((wrong = judge(rc, &f, &got)))
        return wrong;
    if (rc && box.page->slot[5])
        return "a lease stayed";
    if (rc && todo[0].what == ACT_NONE && todo[1].what == ACT_NONE)
        return "what stayed cached was missed";
    /* A look-up that begins now sees what the owner has now. */
    struct found now;
    allowed_n = 0;
    allowed[allowed_n++] = version[k];
    if (frozen()) {
        int again = look_slot(k, 8, &now);
        if ((wrong = judge(again, &now, &none)))
            return wrong;
        reader_release(&box.page->slot[8]);
    } else if (look_slot(k, 8, &now) != DDICT_ENOKEY)
        return "cached while the arena is open";
    if (rc)
        return NULL;
    if (!frozen())
        freeze();
    evict_all();
    reuse();
    if (!value_right(f.value, LEN, got))
        return "reused under a view";
    reader_release(&box.page->slot[5]);
    return NULL;
}

static bool ours_are_there(void) {
    for (uint64_t k = 0; k < OURS; k++) {
        struct found f;
        int rc = look_slot(k, 9, &f);
        if (rc || f.val_len != LEN || !value_right(f.value, LEN, version[k]))
            return false;
        reader_release(&box.page->slot[9]);
    }
    return true;
}

static void all_begin(void) {
    box_open(16 * MIB);
    epoch = last = 0;
    for (uint64_t k = 0; k < KEYS; k++)
        version[k] = ++last;
    for (uint64_t k = 0; k < OURS; k++)
        put(k, LEN, version[k]);
    freeze();
}

static bool all_looks(void) {
    static const enum stress_place places[] = {STRESS_R_DIR,    STRESS_R_PROBE,  STRESS_R_FOUND,
                                               STRESS_R_LEASED, STRESS_R_FENCED, STRESS_R_CHECKED,
                                               STRESS_R_MISSED};
    const unsigned n = sizeof places / sizeof *places;
    all_begin();
    for (unsigned p = 0; p < n; p++)
        for (unsigned q = 0; q < n; q++)
            for (unsigned a = 0; a < ACTS; a++)
                for (unsigned b = 0; b < ACTS; b++)
                    for (unsigned way = 0; way < 4 * LOOK_WAYS; way++) {
                        uint64_t k = OURS + (p * 3 + q + a * 7 + b) % (KEYS - OURS);
                        if (!frozen())
                            freeze();
                        if (ROOT_DEPTH(box.s->header->root) > 5) {
                            box_close();
                            all_begin();
                        }
                        cache(k);
                        todo[0].at = places[p], todo[0].what = a, todo[0].again = way & 1;
                        todo[1].at = places[q], todo[1].what = b, todo[1].again = way >> 1 & 1;
                        const char *wrong = one_look(k, way / 4);
                        if (!wrong && !ours_are_there())
                            wrong = "an own key is gone";
                        if (!wrong)
                            continue;
                        snprintf(failure, sizeof failure,
                                 "%s: way %u, %s at point %u, then %s at point %u", wrong, way / 4,
                                 act_name[a], places[p], act_name[b], places[q]);
                        return false;
                    }
    return true;
}

START_TEST(a_reader_stopped_anywhere_sees_what_an_owner_had_or_nothing) {
    ck_assert_msg(all_looks(), "%s", failure);
}
END_TEST

/* --- the manager is stopped --- */
static const char *seen_wrong;
static unsigned looks, evicting;
/* a view of each cached key, taken at the step before its word is EMPTY */
static struct found kept[KEYS];
static uint64_t kept_version[KEYS];

static void look_at_all(enum stress_place where) {
    looks++;
    evicting += where == STRESS_W_EVICTING;
    for (uint64_t k = 0; k < KEYS && !seen_wrong; k++) {
        struct found f;
        int rc = look_slot(k, 9, &f);
        if (rc == -EAGAIN || (rc && rc != DDICT_ENOKEY))
            seen_wrong = "an error";
        else if (rc == 0 && (f.val_len != LEN || !value_right(f.value, LEN, version[k])))
            seen_wrong = "a wrong value";
        else if (rc && k < OURS)
            seen_wrong = "an own key is gone";
        else if (rc == 0 && k >= OURS && !kept_version[k]) { /* held from this moment on */
            kept[k] = f;
            kept_version[k] = version[k];
            box.page->slot[20 + k] = box.page->slot[9];
        }
        reader_release(&box.page->slot[9]);
    }
}

static void check_kept(void) {
    for (uint64_t k = OURS; k < KEYS; k++) {
        if (kept_version[k] && !value_right(kept[k].value, LEN, kept_version[k]))
            seen_wrong = "a view changed";
        kept_version[k] = 0;
        reader_release(&box.page->slot[20 + k]);
    }
}

static bool all_changes(void) {
    uint64_t rng = 5, evicted = 0;
    all_begin();
    seen_wrong = NULL;
    looks = evicting = 0;
    memset(kept_version, 0, sizeof kept_version);
    for (unsigned step = 0; step < 400 && !seen_wrong; step++) {
        for (uint64_t k = OURS; k < KEYS; k++)
            if (unit_random(&rng) % 2)
                cache(k);
        /* Some were read: the clock passes over them. */
        for (uint64_t k = OURS; k < KEYS; k++) {
            struct found f;
            if (unit_random(&rng) % 3 || look_slot(k, 9, &f) != 0)
                continue;
            box.page->hint[box.page->hints++ % LEASE_HINTS] = box.page->slot[9];
            reader_release(&box.page->slot[9]);
        }
        store_cache_hints(box.s);
        hook = look_at_all;
        if (step % 4 == 0)
            evict_all();
        else if (step % 4 == 1)
            store_cache_evict(box.s, 3 * LEN, 7, &evicted);
        else if (step % 4 == 2)
            unfreeze();
        else {
            while (ROOT_DEPTH(box.s->header->root) < 4 &&
                   segment_split(box.s, unit_random(&rng)) == 0) {
            }
            store_cache_evict(box.s, UINT64_MAX, 2, &evicted);
        }
        hook = NULL;
        if (step % 4 == 2) {
            struct found f;
            for (uint64_t k = OURS; k < KEYS && !seen_wrong; k++)
                if (look_slot(k, 9, &f) != DDICT_ENOKEY)
                    seen_wrong = "cached while the arena is open";
            if (stats().cached_items)
                seen_wrong = "counted while the arena is open";
            if (keys_count() != OURS)
                seen_wrong = "not as many keys as it owns";
            for (uint64_t k = 0; k < KEYS; k++)
                version[k] = ++last;
            for (uint64_t k = 0; k < OURS; k++)
                put(k, LEN, version[k]);
            reuse();
            freeze();
        }
        reuse();
        check_kept();
        if (!ours_are_there())
            seen_wrong = "an own key is gone";
        if (step % 50 == 49) { /* a small index again */
            box_close();
            all_begin();
        }
    }
    if (seen_wrong)
        snprintf(failure, sizeof failure, "%s", seen_wrong);
    return !seen_wrong;
}

START_TEST(a_manager_stopped_anywhere_shows_nothing_stale_and_tears_no_view) {
    ck_assert_msg(all_changes(), "%s", failure);
    ck_assert_uint_gt(looks, 5000);
    ck_assert_uint_gt(evicting, 1000);
}
END_TEST

/* --- the mutants --- */
START_TEST(each_mutant_is_caught_while_frozen) {
    static const int mutants[] = {MUTANT_NO_LEASE,  MUTANT_NO_RECHECK, MUTANT_NO_SCAN,
                                  MUTANT_LATE_SLOT, MUTANT_FIRST_ONLY, MUTANT_FRESH_EVICT,
                                  MUTANT_KEEP_READ, MUTANT_KEEP_CACHED};
    stress_mutant = mutants[_i];
    bool right = all_changes();
    if (right) {
        box_close();
        right = all_looks();
    }
    ck_assert_msg(!right, "mutant %d", stress_mutant);
    printf("mutant %d: %s\n", stress_mutant, failure);
}
END_TEST

int main(void) {
    Suite *s = suite_create("store_frozen");
    TCase *c = tcase_create("store_frozen");
    tcase_set_timeout(c, 4 * UNIT_SECONDS);
    tcase_add_checked_fixture(c, unit_fds_count, unit_fds_check);
    tcase_add_checked_fixture(c, nothing, after);
    tcase_add_test(c, a_reader_stopped_anywhere_sees_what_an_owner_had_or_nothing);
    tcase_add_test(c, a_manager_stopped_anywhere_shows_nothing_stale_and_tears_no_view);
    tcase_add_loop_test(c, each_mutant_is_caught_while_frozen, 0, 8);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
