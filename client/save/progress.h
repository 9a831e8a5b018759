/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - how far the workers are: lines between a worker and its front, and the line that
 * the user sees.
 */
#ifndef DDICT_SAVE_PROGRESS_H
#define DDICT_SAVE_PROGRESS_H

#include "save.h"

void progress_begin(uint64_t total_bytes, bool shown, const char *verb);
/* Set what a worker has done so far, all together. */
void progress_put(unsigned worker, uint64_t items, uint64_t bytes);
void progress_line(char *line); /* of a worker's stderr: progress, or something to be shown */
void progress_tell(const struct save_run *run); /* a worker's line for its front */
void progress_clear(void);                      /* before another line is printed on stderr */

#endif
