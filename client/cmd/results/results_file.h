/* SPDX-License-Identifier: Apache-2.0 */
/* results_file.h - files below a folder, each whole or not at all. */
#ifndef DDICT_CMD_RESULTS_RESULTS_FILE_H
#define DDICT_CMD_RESULTS_RESULTS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* Whether path stays below a folder: relative, no component that is empty, ".", ".." or begins with
 * ".ddict-", none longer than a file name can be. */
bool results_path_ok(const char *path, size_t len);
/*
 * Make path below folder (a descriptor) hold the n pieces: written aside, synced, and renamed, so
 * that the file is always a whole one. Folders are made; no symbolic link is followed. 1 written, 0
 * it held just that before, or a negated errno.
 */
int results_file_write(int folder, const char *path, const struct iovec *pieces, size_t n);
/* Whether the pieces have all that the file has, in its order, each behind it what is new; also true
 * if there is none that can be read. False may be wrong: where what is new of a piece is as the next
 * one begins. */
bool results_file_is_within(int folder, const char *path, const struct iovec *pieces, size_t n);
/* Keep the file under the name path.before-loss, or path.before-loss-2 and so on: the next write leaves
 * that. 0, also if it is kept already, or a negated errno. */
int results_file_keep(int folder, const char *path);

#endif
