/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.h - `ddict save --stage`: a child of each node's ddictd that has --save, as long as the
 * dictionary lives. It saves what its node's managers hold whenever ddictd says so, first all and
 * then what has changed since. Lines, SAVE 3.
 */
#ifndef DDICT_SAVE_STAGE_H
#define DDICT_SAVE_STAGE_H

#include "save.h"

/* run has the folder, the prefix and `workers` 1; files: each value a file. The exit code. */
int stage_run(struct save_run *run, bool files, const char *name);

#endif
