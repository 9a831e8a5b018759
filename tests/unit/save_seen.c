/* SPDX-License-Identifier: Apache-2.0 */
/* save_seen.c - which versions an earlier pass has written: never more than were noted, also when
 * the table grows. */
#include "unit.h"

#include <save/seen.h>
#include <stdio.h>
#include <string.h>

#define KEYS 5000u

START_TEST(only_the_version_that_was_noted_is_known) {
    struct save_seen s = {0};
    ck_assert(!save_seen_has(&s, "k", 1, 1));
    save_seen_note(&s, "k", 1, 1);
    ck_assert(save_seen_has(&s, "k", 1, 1) && !save_seen_has(&s, "k", 1, 2) &&
              !save_seen_has(&s, "l", 1, 1) && !save_seen_has(&s, "k", 1, 0));
    save_seen_note(&s, "k", 1, 7);
    ck_assert(save_seen_has(&s, "k", 1, 7) && !save_seen_has(&s, "k", 1, 1));
    ck_assert_uint_eq(s.keys.n, 1);
    save_seen_note(&s, "zero", 4, 0);
    ck_assert_uint_eq(s.keys.n, 1);
    save_seen_free(&s);
    ck_assert(!s.keys.element && s.keys.cap == 0);
}
END_TEST

START_TEST(growth_loses_and_invents_nothing) {
    struct save_seen s = {0};
    char key[16];
    for (unsigned round = 1; round <= 2; round++)
        for (unsigned i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "key %u", i);
            save_seen_note(&s, key, strlen(key), round * KEYS + i);
        }
    ck_assert_uint_eq(s.keys.n, KEYS);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key %u", i);
        ck_assert(save_seen_has(&s, key, strlen(key), 2 * KEYS + i));
        ck_assert(!save_seen_has(&s, key, strlen(key), KEYS + i));
        snprintf(key, sizeof key, "yek %u", i);
        ck_assert(!save_seen_has(&s, key, strlen(key), 2 * KEYS + i));
    }
    save_seen_free(&s);
}
END_TEST

UNIT_MAIN("save_seen", only_the_version_that_was_noted_is_known, growth_loses_and_invents_nothing)
