/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - `ddict save --files`: each value a file. */
#ifndef DDICT_SAVE_FILES_H
#define DDICT_SAVE_FILES_H

#include "save.h"

/* Write this worker's share. 0; -1: run->why says why. */
int save_files(struct save_run *run);

#endif
