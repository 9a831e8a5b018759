/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - the ways to find out where this process is; private to this folder. The ways that use
 * the environment change *p only when they return 0. */
#ifndef DDICT_PLACE_BACKEND_H
#define DDICT_PLACE_BACKEND_H

#include <stddef.h>

struct place;

/*
 * 0; -ENOENT: no PMIx server here, or no library, or PMIx was left before (use another way); else a
 * negative code with the sentence set. A process that is in PMIx already stays in it.
 */
int pmix_init(struct place *p);
int pmix_joined(void); /* this process is */
int pmix_maps(struct place *p);
int pmix_exchange(struct place *p, const void *info, size_t len, void **infos, size_t *lens,
                  int (*enough)(const void *info, size_t len), int timeout_ms);
int pmix_fence(const struct place *p, int timeout_ms);
/* PMIx_Finalize by the process that initialised, once. Does nothing in a forked child. */
void pmix_finalize(void);
/* $PMIX_NAMESPACE, where it is of this step and not of one in which this one was started; NULL. */
const char *pmix_namespace(void);
int pmix_of_slurm(const char *name); /* a namespace of srun --mpi=pmix */

/*
 * Where Slurm's variables tell all that PMIx would, the places of all ranks too: 0, as
 * slurm_env_init(). Else -ENOENT, also for a heterogeneous step, of which they tell one component.
 */
int slurm_env_init_whole(struct place *p);
/* 0; -ENOENT: not a task of a step. The batch script and salloc's shell are none, though they have
 * some of the variables. */
int slurm_env_init(struct place *p);
int slurm_env_maps(struct place *p);
/* Tasks of node `node_id` by a text like "2(x3),1"; -EINVAL when it does not say. */
int slurm_tasks_on(const char *tasks_per_node, int node_id);
/* All of them; -EINVAL unless the text says `nodes` of them. */
int slurm_task_counts(const char *tasks_per_node, int *counts, int nodes);
/*
 * The node of each of `size` ranks when `counts` of them run on the nodes: a node takes `plane` of
 * them at its turn until it has its count. cyclic is 1, block more than any count. -EINVAL when the
 * counts do not sum up to size.
 */
int slurm_layout(const int *counts, int nodes, int plane, int *node_of, int size);

/* 0; -ENOENT: not started by it. */
int torchrun_env_init(struct place *p);
/* $DDICT_RUN_ID, $DDICT_RUN_RANK, $DDICT_RUN_SIZE: `ddict run -n`, all on this node */
int run_env_init(struct place *p);
int mpirun_env_init(struct place *p);

/* The variable as a number from lo on; -ENOENT. */
int env_count(const char *name, int lo, int *out);

/* 1: a PMIx server can accept us; 0: we are in a user namespace that makes us somebody else */
int same_user(void);

/*
 * One process of a rank may be a PMIx client. The name is an abstract socket, so it goes with the
 * process however it ends. 0; -EBUSY: another one has it; any other trouble counts as 0.
 */
int rank_take(const char *group, const char *rank);
int rank_taken(void);  /* by this process */
void rank_leave(void); /* also in a forked child */

#endif
