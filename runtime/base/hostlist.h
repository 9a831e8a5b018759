/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.h - Slurm's lists of node names, "n[1-3,07],gpu-a[1-2]x[0-1]". */
#ifndef DDICT_BASE_HOSTLIST_H
#define DDICT_BASE_HOSTLIST_H

#include <stddef.h>

#define HOSTLIST_MAX 65536 /* names: Slurm's own limit on the nodes of a cluster */

struct hostlist {
    char **names; /* ours */
    size_t count, room;
};

/* All names of text in its order, added to what list has (start with zeroes). 0, -EINVAL, -E2BIG,
 * -ENOMEM; list is still to be freed. */
int hostlist_add(struct hostlist *list, const char *text);
/* Index of name or -1. */
long hostlist_find(const struct hostlist *list, const char *name);
void hostlist_free(struct hostlist *list);

#endif
