/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - manifest.json of a saved dictionary, and what each worker adds to it. Functions that
 * return int give 0 or a negative code with the sentence set. */
#ifndef DDICT_SAVE_MANIFEST_H
#define DDICT_SAVE_MANIFEST_H

#include "save.h"

/* Write a worker's parts for the front: FOLDER/worker-W.json. */
int manifest_worker_write(const struct save_run *run);
/*
 * Write the parts of all workers into FOLDER/manifest.json and remove the workers' files. prefix:
 * of the keys, NULL: all. With run->tag it replaces an earlier manifest, whose parts are removed.
 */
int manifest_write(struct save_run *run, const char *prefix);
/* Remove those of the parts that were not published. dd_errmsg() stays as it was. */
void manifest_drop(const struct save_run *run, const json_t *parts);
/* Whether all these files are there, with their sizes. */
bool manifest_parts_there(const struct save_run *run, const json_t *parts);
/* -EEXIST if the folder has a manifest.json that is not of a saved dictionary; the sentence does
 * not name the folder. 0: it has none, or that of a saved dictionary. */
int manifest_foreign(const char *folder);
/* Read the manifest of run->folder, a saved folder or file, into run->parts and run->id, and its
 * sums into *items and *bytes. */
int manifest_read(struct save_run *run, uint64_t *items, uint64_t *bytes);
/* What a manifest says of itself. */
struct manifest_about {
    int64_t saved;               /* seconds since 1970; 0: it does not say */
    uint64_t items, bytes, size; /* size: of its parts, on disk */
    unsigned nodes, managers;
    bool lost;
};
/* Of a saved folder. Negative also where a part is not there, or has another size than it had. */
int manifest_about(const char *folder, struct manifest_about *about);
int folder_sync(const char *path);    /* so that the names in it are on disk */
void folder_remove(const char *path); /* of a save that failed, with the files in it */

#endif
