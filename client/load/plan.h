/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - the sources of a load, cut into units. */
#ifndef DDICT_LOAD_PLAN_H
#define DDICT_LOAD_PLAN_H

#include "load.h"

struct load_plan {
    const struct source_kind *kind;
    uint64_t units;
    size_t unit_cap;
    struct pack *unit; /* [units]: source, facts, work */
    unsigned source;   /* being planned */
    uint64_t number;
    uint64_t read, need;  /* sums of what is known */
    int64_t items, bytes; /* -1: not known */
    int64_t largest;
    struct pack notes; /* texts: failures */
    uint64_t failures;
    char dtype[12];
    uint64_t shape[32];
    unsigned ndim;
    bool array, mixed; /* array: of the above shape; mixed: of several */
    int64_t *labels;   /* numbered: of each record, or NULL; ours */
    uint64_t nlabels;
    /* of folders, in a dictionary with --refill: when the last of their files, links and folders was
     * changed, ns; hashes of which folders they are, and which are in them */
    int64_t newest;
    uint64_t tops, folders;
};
/* Cut all sources into units. 0 or a negative code with the sentence set; load_plan_free() in
 * either case. */
int load_plan_make(struct load_plan *p);
/* Put the plan into the dictionary, and fetch it from there (without the units' work). 0 or a
 * negative code with the sentence set. */
int load_plan_store(const struct load_plan *p);
int load_plan_fetch(struct load_plan *p);
void load_plan_free(struct load_plan *p);
/* Labels of numbered records, which a file beside them has (IDX). labels: n of them, malloc'ed; the
 * plan's from now on. Returns 0. */
int load_plan_labels(struct load_plan *p, int64_t *labels, uint64_t n);

struct unit { /* as it is read from the dictionary */
    unsigned source;
    struct unit_facts facts;
    const void *work;
    size_t len;
    uint8_t *value; /* ours */
};
/* Read unit n of the plan. 0, and the caller frees u->value, into which u->work points; or a
 * negative code with the sentence set, and there is nothing to free. */
int unit_fetch(struct unit *u, uint64_t n);

#endif
