/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h - where this process runs, and which others there are: the ways of ddict_runtime.h, for
 * ddictd and for the runtime library. The only folder that includes pmix.h or hwloc.h. For one
 * thread. Call place_finalize() before every exit: Slurm takes a PMIx client that ends without it
 * for a crash. It is registered with atexit() as well.
 */
#ifndef DDICT_PLACE_PLACE_H
#define DDICT_PLACE_PLACE_H

#include <stddef.h>
#include <stdint.h>

/* as DDICT_RT_* */
enum place_how { PLACE_SINGLE, PLACE_SLURM, PLACE_PMIX, PLACE_MPIRUN, PLACE_TORCHRUN, PLACE_RUN };
struct place {
    enum place_how how;
    int rank, size; /* of those started together */
    int local_rank, local_size;
    int node_id, nodes; /* node_id -1: not known (PLACE_MPIRUN on several nodes) */
    char node[64];      /* $SLURMD_NODENAME, else host name */
    char group[256];    /* names those started together, the same in all of them */
    /* another process of this rank has PMIx: this one is none of its own */
    int doubled;
    char trouble[256]; /* why PMIx, which seemed to be there, was passed over; "" */
    /* By place_maps(), ours: */
    char **names; /* of the nodes; NULL: not known */
    int *node_of; /* of each rank; NULL: not certain */
    /* the local_size ranks of this node, rising; NULL: not certain */
    int *locals;
};

#define PLACE_WITH_PMIX 1u
/*
 * Also what starts tasks inside a step or without one: torchrun, `ddict run -n`, mpirun. PMIx is
 * then taken by one process of a rank only, and passed over when it fails.
 */
#define PLACE_AS_TASK 2u

/* Find out. 0 or a negative code with the sentence set (PMIx is there but fails). */
int place_init(struct place *p, unsigned with);
/* Names and maps, as far as they are certain. 0 or -ENOMEM. */
int place_maps(struct place *p);
/*
 * Each rank gives its info and gets those of all, in order of rank: infos[r] malloc'ed by us,
 * lens[r]. A collecting fence. Only with PLACE_PMIX or size 1; else -ENOTSUP. -ETIMEDOUT.
 */
int place_exchange(struct place *p, const void *info, size_t len, void **infos, size_t *lens,
                   int timeout_ms);
/*
 * The same, but when enough() says so of rank 0's info (not NULL) no other one is fetched, and
 * those are NULL. Slurm's PMIx lets nobody wait in a fence (PMIxFenceBarrier of its mpi.conf is
 * off): an info is fetched from the node of its rank when it is asked for, and only as long as that
 * rank's process lives. So a rank whose info others need must not end before they have it.
 */
int place_exchange_until(struct place *p, const void *info, size_t len, void **infos, size_t *lens,
                         int (*enough)(const void *info, size_t len), int timeout_ms);
/* 0 when all ranks have come. */
int place_fence(struct place *p, int timeout_ms);
/* Free names and maps. PMIx stays, and a later place_init() uses it. */
void place_drop(struct place *p);
/* The same, and leave PMIx. It can be had once in a process: a later place_init() finds another
 * way. */
void place_finalize(struct place *p);

#endif
