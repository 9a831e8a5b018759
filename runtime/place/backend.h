/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - the ways to find out where we are; private to this folder. */
#ifndef DDICT_PLACE_BACKEND_H
#define DDICT_PLACE_BACKEND_H

#include "place/place.h"

/* 0; -ENOENT: no PMIx server here (use another way); else a negative code with the sentence set. */
int pmix_init(struct place *p);
int pmix_exchange(struct place *p, const void *card, size_t len, void **cards, size_t *lens, int timeout_ms);
int pmix_fence(int timeout_ms);
/* PMIx_Finalize by the process that initialised, once. Does nothing in a forked child. */
void pmix_finalize(void);

/* 0; -ENOENT: not a task of a step. The batch script and salloc's shell are none, though they have some of the variables. */
int slurm_env_init(struct place *p);
/* Tasks of node `node_id` by a text like "2(x3),1"; -EINVAL when it does not say. */
int slurm_tasks_on(const char *tasks_per_node, int node_id);

#endif
