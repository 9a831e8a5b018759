/* SPDX-License-Identifier: Apache-2.0 */
/* stats_public.h - a manager's statistics as they travel (base/stats.h), and as programs see them,
 * whose struct may be of another version of ddict.h. */
#ifndef DDICT_LIB_STATS_PUBLIC_H
#define DDICT_LIB_STATS_PUBLIC_H

#include <base/stats.h>
#include <ddict.h>

#include <stdbool.h>

/* Whether struct ddict_manager_stats of some version may have that size. */
bool stats_size_known(size_t size);
/* Write size bytes to out: the beginning of s as a struct ddict_manager_stats, and zeros behind the
 * fields that we know. */
void stats_to_public(void *out, size_t size, const struct manager_stats *s);
/* The way back; fields behind size are as after stats_init(). */
void stats_from_public(struct manager_stats *s, const struct ddict_manager_stats *in, size_t size);

#endif
