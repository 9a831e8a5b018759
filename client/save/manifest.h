/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - manifest.json of a saved dictionary, and what each worker gives to it. */
#ifndef DDICT_SAVE_MANIFEST_H
#define DDICT_SAVE_MANIFEST_H

#include "save.h"

/* A worker's parts, for the front: FOLDER/worker-W.json. Codes with the sentence set. */
int manifest_worker_write(const struct save_run *run);
/* All workers' together into FOLDER/manifest.json; the workers' files are removed. With a tag it
 * takes the place of an earlier one, whose parts are removed. */
int manifest_write(struct save_run *run, const char *prefix);
/* Nobody needs these parts any more: those that were not published are removed. The sentence stays
 * as it was. */
void manifest_drop(const struct save_run *run, const json_t *parts);
/* Are all these files there, with their sizes? */
bool manifest_parts_there(const struct save_run *run, const json_t *parts);
/* A manifest.json that no saved dictionary has: -EEXIST with the sentence, which does not name the
 * folder; 0: none, or of one. */
int manifest_foreign(const char *folder);
/* Of a saved folder or file into run->parts, id; *items and *bytes are what it says. */
int manifest_read(struct save_run *run, uint64_t *items, uint64_t *bytes);
int folder_sync(const char *path);
void folder_remove(const char *path); /* one of ours: with the files in it */

#endif
