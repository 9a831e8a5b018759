/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - a file of text, line by line. */
#ifndef DDICT_LOAD_FORMAT_LINES_H
#define DDICT_LOAD_FORMAT_LINES_H

#include "source.h"

/*
 * Give each line of bytes begin to end of the file (UINT64_MAX: its end), without its end, to
 * take(), which returns 0 or a negative code. before: lines before the first, for sentences. 0; 1
 * when the file is cut and --on-error=skip: what came before was given; or negative.
 */
int lines_each(struct sink *s, const char *text, uint64_t begin, uint64_t end, uint64_t before,
               int (*take)(void *arg, const uint8_t *line, size_t len), void *arg);

#endif
