/* SPDX-License-Identifier: Apache-2.0 */
/* persist_ids.h - which states are in a folder of --persist (SAVE 4). */
#ifndef DDICT_BASE_PERSIST_IDS_H
#define DDICT_BASE_PERSIST_IDS_H

#include <stdint.h>
#include <sys/types.h>

/* The numbers of the complete states in dir, ascending, malloc'ed; their number. A dir that is not there
 * has none. A negative code with the sentence set: it cannot be read. */
ssize_t persist_ids_read(const char *dir, uint64_t **ids);
/* Of qsort() and bsearch(). */
int persist_ids_compare(const void *a, const void *b);

#endif
