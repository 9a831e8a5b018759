/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - from what is asked for to what is started: nodes and memory are looked up and judged,
 * command line and environment built. */
#ifndef DDICT_LAUNCH_PLAN_H
#define DDICT_LAUNCH_PLAN_H

#include "options.h"
#include <base/persist_text.h>
#include <wire/attach.h>

struct plan {
    char name[DICT_NAME_MAX];
    unsigned component;       /* the job's component that it is of, by its own id; 0: of all */
    char node[NODE_NAME_MAX]; /* without Slurm: name of this node; else "" */
    uint32_t nodes, managers; /* managers: those that own keys */
    uint32_t keyed;           /* so many of the nodes have keys, the first ones */
    unsigned replicas;        /* copies of each value */
    int refill;               /* lost items of sets are read again */
    uint64_t mem;             /* without the second copies */
    uint64_t forward_mem;     /* bytes on each of the others */
    int stay;                 /* it is the whole job's */
    char record[4096];        /* path of the record, or "" */
    char summary[4096];       /* file that gets the summary, or "" */
    char results[4096];       /* folder of the results, or "" */
    char save[4096];          /* folder of what is saved, or "" */
    char persist[4096 + PERSIST_TEXT]; /* --persist with its folder's whole path, or "" */
    /* seconds since 1970: the job's time is over; 0: no limit, or not known */
    uint64_t end;
    char spill[4096];    /* folder of the spill, or "" */
    char note[ASK_WHY];  /* one line for the user, or "" */
    char srun[4096];     /* "" when ddictd is started directly */
    char **argv, **envp; /* ours */
};

/* 0, or a negative code with the sentence set. p is to be freed always. */
int plan_make(struct plan *p, const struct options *o);
/* What the user should know of this cluster: one line on stderr, or nothing. Waits at most a
 * second; to be called while the managers start. */
void plan_warn(const struct plan *p);
/* Why there is nothing to load into any more: it ended while it was being loaded. */
const char *plan_ended(const struct plan *p);
void plan_free(struct plan *p);

#endif
