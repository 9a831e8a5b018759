/* SPDX-License-Identifier: Apache-2.0 */
/* set.h - the set that a load makes: its items, in parts. existing_set.h: one that is there. */
#ifndef DDICT_LOAD_SET_H
#define DDICT_LOAD_SET_H

#include "load.h"

#define SET_PART 65536u /* items of a part, SETS */

struct set_result {
    uint64_t items, bytes, failed, left_out, links, classes, twice;
    uint64_t refused;     /* of failed: their keys were there */
    struct pack failures; /* texts */
    struct pack left;     /* texts */
};
/* Put the set, when all units are read. 0 or a negative code with the sentence set. */
int set_write(const struct load_plan *p, struct set_result *r);
/* Of a set that is put: why it can be read once only (SETS 4), or NULL. */
const char *set_why_once(const struct load_plan *p, const struct set_result *r);

#endif
