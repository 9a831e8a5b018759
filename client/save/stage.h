/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.h - `ddict save --stage`: a child of each ddictd that has --save, as long as the dictionary
 * lives. Whenever ddictd says so, it saves what its node's managers hold: first all, then what has
 * changed since. SAVE 3 has the lines between them.
 */
#ifndef DDICT_SAVE_STAGE_H
#define DDICT_SAVE_STAGE_H

#include "save.h"

/* run has the folder, the prefix and `workers` 1. files: each value a file of its own. name: of the
 * dictionary, NULL: as for ddict_attach(). The exit code. */
int stage_run(struct save_run *run, bool files, const char *name);

#endif
