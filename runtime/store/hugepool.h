/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hugepool.h - the node's pools of huge pages (hugetlbfs), one for each size. The administrator
 * fills them (vm.nr_hugepages); their pages are nobody's page cache, are never swapped or split,
 * and are charged to no memory cgroup, only to a hugetlb one.
 */
#ifndef DDICT_STORE_HUGEPOOL_H
#define DDICT_STORE_HUGEPOOL_H

#include "layout.h"

#include <stdint.h>

/* of an arena: one for the beginning of the index, one that it grows into, and some for values */
#define HUGEPOOL_PAGES_MIN 4u

struct hugepool {
    uint64_t pages;     /* of the pool, in use or not */
    uint64_t available; /* neither in use nor reserved, with those that the kernel may add */
};
/* The pool of this page size. -ENOENT: the machine has none of it, with those that it has in the
 * sentence. */
int hugepool_look(uint64_t page, struct hugepool *out);
/* Bytes of an arena that shall have `want`: whole pages. */
uint64_t hugepool_budget(uint64_t page, uint64_t want);
/* Are there so many pages? Else DDICT_EFULL with a sentence for the administrator; who: "2 managers
 * on node n1". */
int hugepool_fit(uint64_t page, uint64_t pages, const char *who);

/* For arena_create(): the file; and its first pages, with the header, and a reservation for all
 * others. */
int hugepool_memfd(const struct arena_header *h);
int hugepool_reserve(int fd, struct arena_header *h);

/* bytes from `at` on that the kernel put into huge pages without a pool */
uint64_t huge_mapped(const void *at, uint64_t len);

#endif
