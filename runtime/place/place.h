/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h - where am I, who else is there. PMIx first, else Slurm's variables, else a single process. The only
 * folder that includes pmix.h or hwloc.h. One thread; call place_finalize() before exit always (a PMIx client that ends without it is taken for a crash
 * by Slurm), it is also registered with atexit().
 */
#ifndef DDICT_PLACE_PLACE_H
#define DDICT_PLACE_PLACE_H

#include <stddef.h>
#include <stdint.h>

enum place_how { PLACE_SINGLE, PLACE_SLURM, PLACE_PMIX };
struct place {
    enum place_how how;
    int rank, size;             /* of the tasks of this step */
    int local_rank, local_size;
    int node_id, nodes;
    char node[64];              /* $SLURMD_NODENAME, else host name */
};

/* Find out. use_pmix: 0 leaves PMIx alone. 0 or a negative code with the sentence set (PMIx is there but fails). */
int place_init(struct place *p, int use_pmix);
/*
 * All ranks give a card and get all cards, in order of rank: cards[r] malloc'ed by us, lens[r]. A collecting fence. Only with PLACE_PMIX or
 * size 1; else -ENOTSUP. -ETIMEDOUT.
 */
int place_exchange(struct place *p, const void *card, size_t len, void **cards, size_t *lens, int timeout_ms);
int place_fence(struct place *p, int timeout_ms);
void place_finalize(struct place *p);

#endif
