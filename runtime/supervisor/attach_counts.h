/* SPDX-License-Identifier: Apache-2.0 */
/* attach_counts.h - how many processes of which steps were attached. */
#ifndef DDICT_SUPERVISOR_ATTACH_COUNTS_H
#define DDICT_SUPERVISOR_ATTACH_COUNTS_H

#include "supervisor.h"

int attach_counts_init(struct supervisor *s);
void attach_counts_add(struct supervisor *s, const char *step, pid_t pid);
/* the count of another node */
void attach_counts_set(struct supervisor *s, uint32_t node, const char *step, uint64_t processes);
void attach_counts_each(const struct supervisor *s,
                        void (*fn)(void *arg, uint32_t node, const char *step, uint64_t processes),
                        void *arg);
void attach_counts_json(const struct supervisor *s, FILE *f);
void attach_counts_end(struct supervisor *s);

#endif
