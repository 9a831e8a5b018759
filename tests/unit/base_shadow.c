/* SPDX-License-Identifier: Apache-2.0 */
/* base_shadow.c - where the shadow of an owner is. Invariant: each owner has one, on another keyed
 * node, with a number that nobody else has. */
#include "unit.h"
#include <base/shadow.h>

#include <string.h>

/* Also what ddictd relies on to find the shadows of its node without asking for each owner: those
 * of a node at the start are of the owners of the keyed node before it. */
static void deal_judge(const struct deal *d) {
    static uint8_t used[65536];
    uint32_t managers = deal_managers(d);
    ck_assert_uint_lt(shadow_end(d), sizeof used);
    memset(used, 0, sizeof used);
    for (uint32_t m = 0; m < managers; m++) {
        ck_assert(!is_shadow(d, m));
        ck_assert_uint_eq(shadow_owner(d, m), m);
        ck_assert_uint_eq(shadow_slot(d, m), m);
        used[m] = 1;
    }
    for (uint32_t m = 0; m < managers; m++) {
        for (uint32_t node = 0; node < d->nodes; node++) {
            uint32_t n = shadow_on(d, m, node);
            ck_assert(is_shadow(d, n));
            ck_assert_uint_lt(n, shadow_end(d));
            ck_assert(!used[n]);
            used[n] = 1;
            ck_assert_uint_eq(n % d->nodes, node);
            ck_assert_uint_eq(shadow_owner(d, n), m);
        }
        if (!deal_owns(d, m))
            continue;
        uint32_t node = shadow_of(d, m) % d->nodes;
        ck_assert_uint_eq(shadow_of(d, m), shadow_on(d, m, node));
        ck_assert_uint_eq(shadow_slot(d, shadow_of(d, m)), managers + m);
        ck_assert_uint_lt(node, d->keyed);
        ck_assert_uint_ne(node, m % d->nodes);
        ck_assert_uint_eq(shadowed_node(d, node), m % d->nodes);
    }
}

START_TEST(each_owner_has_a_shadow_of_its_own_on_another_node) {
    for (uint32_t nodes = 2; nodes <= 17; nodes++)
        for (uint32_t keyed = 2; keyed <= nodes; keyed++)
            for (uint32_t owners = keyed; owners <= 5 * keyed + 1; owners++)
                deal_judge(&(struct deal){.owners = owners, .nodes = nodes, .keyed = keyed});
}
END_TEST

START_TEST(the_picture_is_true) {
    struct deal d = {.owners = 4, .nodes = 3, .keyed = 3};
    ck_assert_uint_eq(shadow_of(&d, 0), 7);
    ck_assert_uint_eq(shadow_of(&d, 1), 11);
    ck_assert_uint_eq(shadow_of(&d, 2), 12);
    ck_assert_uint_eq(shadow_of(&d, 3), 16);
    ck_assert_uint_eq(shadow_end(&d), 18);
}
END_TEST

UNIT_MAIN("base_shadow", each_owner_has_a_shadow_of_its_own_on_another_node, the_picture_is_true)
