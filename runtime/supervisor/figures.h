/* SPDX-License-Identifier: Apache-2.0 */
/* figures.h - the last statistics of all managers that this node knows of. */
#ifndef DDICT_SUPERVISOR_FIGURES_H
#define DDICT_SUPERVISOR_FIGURES_H

#include "supervisor.h"

int figures_init(struct supervisor *s);
void figures_add(struct supervisor *s, const struct manager_stats *stats);
/* NULL: nobody has them. */
const struct manager_stats *figures_of(const struct supervisor *s, uint32_t manager);
/* The sum; returns how many managers it lacks. */
uint32_t figures_total(const struct supervisor *s, struct manager_stats *total);
void figures_end(struct supervisor *s);

#endif
