/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h - a file of text, line by line. */
#ifndef DDICT_LOAD_FORMAT_LINES_H
#define DDICT_LOAD_FORMAT_LINES_H

#include "source.h"

/*
 * Call take() for each line in bytes begin to end of the file (UINT64_MAX: to its end), without the
 * line's end. take() returns 0 or a negative code. before: number of lines before the first one,
 * for sentences. Returns 0; 1: the file is cut short, with --on-error=skip, and the lines before
 * that were given; or a negative code.
 */
int lines_each(struct sink *s, const char *text, uint64_t begin, uint64_t end, uint64_t before,
               int (*take)(void *arg, const uint8_t *line, size_t len), void *arg);

#endif
