/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h - what the user is told of a load that is complete. */
#ifndef DDICT_LOAD_SUMMARY_H
#define DDICT_LOAD_SUMMARY_H

#include "set.h"

struct summary {
    bool already; /* the set was there: nothing was loaded */
    uint64_t items, bytes;
    double seconds;
    uint64_t there;    /* items that were there already */
    uint64_t repaired; /* items of a set that was there, lost with a node and read again */
    const struct set_result *result;
    const char *once;     /* why the set is not read again after a loss; "" or NULL: it is */
    struct json_t *units; /* with --json: number of units that each worker read; taken */
};
/* Print what was left out on stderr and the rest, or with --json an object, on stdout. 0, or 1: it
 * could not be written. */
int summary_print(const struct summary *s);

#endif
