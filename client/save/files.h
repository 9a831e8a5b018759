/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - `ddict save --files`: each value a file. */
#ifndef DDICT_SAVE_FILES_H
#define DDICT_SAVE_FILES_H

#include "save.h"

/* In this process. 0, or -1: run->why. */
int save_files(struct save_run *run);

#endif
