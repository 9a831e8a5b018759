/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - the statistics of a manager. */
#ifndef DDICT_MANAGER_STATS_H
#define DDICT_MANAGER_STATS_H

#include "manager.h"

/* Add the reads of one client's lease page for local manager `index`. The page is untrusted. */
void lease_reads(const struct lease_chunk *leases, unsigned index, struct lease_counters *sum);
/* For a manager that does not answer any more: from memory that outlives it. leases: [n], lease
 * pages of its clients. */
void figures_of_page(const struct manager_page *page, const struct arena_header *header,
                     const struct lease_chunk *const *leases, unsigned n, unsigned index,
                     struct manager_stats *out);
void manager_figures(struct manager *m, struct manager_stats *out);
/* Of a manager that is gone with its node: who it was; its state is DDICT_ELOST. */
void figures_of_gone(const struct manager *m, uint32_t manager, struct manager_stats *out);

#endif
