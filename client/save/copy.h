/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h - put the items of a dictionary into others of the same job, or compare them. */
#ifndef DDICT_SAVE_COPY_H
#define DDICT_SAVE_COPY_H

#include "save.h"

#define COPY_MOST 8u /* dictionaries that are copied to at once */

struct copy_run {
    struct save_run *run; /* d: what is copied; keep: leave keys that are there as they are */
    bool compare;         /* change nothing; items that are not so there are run->left_out */
    /* Items that are read at a time. Fewer where values come from other nodes and take memory. */
    unsigned some;
    unsigned n;
    struct copy_to {
        ddict_t *d;
        const char *name;
    } to[COPY_MOST];
};

/* Copy the items of every run->workers-th manager from run->worker on. Tags and hidden keys are
 * copied, too; words between processes (save_word()) and queues of Python are not. 0; -1: run->why
 * says why. */
int copy_items(struct copy_run *copy);

#endif
