/* SPDX-License-Identifier: Apache-2.0 */
/*
 * persist.h - the front of `ddict save --persist=ID` and `ddict restore --persist=ID`: the folder of
 * a state, and the turns of those who save and restore (SAVE 4). Functions that return int give 0 or
 * a negative code with the sentence set.
 */
#ifndef DDICT_SAVE_PERSIST_H
#define DDICT_SAVE_PERSIST_H

#include "save.h"
#include <base/persist_text.h>

#include <limits.h>

struct persist {
    struct ddict_persistence is;
    char path[PATH_MAX]; /* of the state */
    uint64_t id;
    bool restore, retires;    /* retires: of a checkpoint that is being retired */
    struct persist_item item; /* as it is in the dictionary while it is our turn */
    uint64_t version;         /* of the item; 0: it is not our turn */
};

/* The item with the window of a working set, and the begin of the names of its others (FORMAT 8). */
#define SAVE_WINDOW     "\0ddict.window"
#define SAVE_WINDOW_LEN (sizeof SAVE_WINDOW - 1)

/* Find the folder, wait for our turn, and remove what dead ones left. turn: the version of the item
 * with which who started us has the turn, for the checkpoint `id`: it becomes ours; 0: take one. */
int persist_begin(struct persist *p, struct save_run *run, uint64_t id, bool restore,
                  uint64_t turn);
/* Give the new state its name, in place of an earlier one, and remove those that are too many. */
int persist_name(struct persist *p, struct save_run *run, const char *aside);
/* Restored: remove the states of later numbers, and note which one the dictionary has. */
int persist_restored(struct persist *p, struct save_run *run);
/* Our turn is over; what is read-only is frozen again. Not without persist_begin(). */
void persist_end(struct persist *p, struct save_run *run);

/* 1: the dictionary has nothing that a state would have; 0 or a negative code. */
int persist_is_empty(struct save_run *run);
/* With a working set, after all was removed: its oldest checkpoint is `id`, and so is ours. */
int persist_window(struct save_run *run, uint64_t id);
/* Remove what a save would save, of this worker's managers. 0; -1: run->why says why. */
int persist_clear(struct save_run *run);

#endif
