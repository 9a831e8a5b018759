/* SPDX-License-Identifier: Apache-2.0 */
/* near_link.h - what a link says: where the value of its key is (FORMAT 10). */
#ifndef DDICT_LIB_NEAR_LINK_H
#define DDICT_LIB_NEAR_LINK_H

#include <stdint.h>

struct near_link {
    uint64_t length;         /* of the value; managers tell it, too (LAYOUT, ITEM_LINK) */
    uint64_t client, number; /* with node, the name of the value: it never comes again */
    uint32_t node, manager;  /* manager: on which it lies */
};
_Static_assert(sizeof(struct near_link) == 32, "FORMAT 10");

/* The item of a key as it was found. */
struct near_item {
    uint64_t version;
    uint64_t len; /* bytes of the link; 0: it is none */
    struct near_link link;
    unsigned tag;
};

#endif
