/* SPDX-License-Identifier: Apache-2.0 */
/* restore.h - put the parts of a saved dictionary into one that runs. */
#ifndef DDICT_SAVE_RESTORE_H
#define DDICT_SAVE_RESTORE_H

#include "save.h"

/* Put this worker's share; run->verify: check it alone. 0; -1: run->why says why. */
int restore_parts(struct save_run *run);

#endif
