/* SPDX-License-Identifier: Apache-2.0 */
/* get_files.h - `ddict get --prefix`: values as files below a folder. */
#ifndef DDICT_CMD_GET_FILES_H
#define DDICT_CMD_GET_FILES_H

#include <ddict.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * Write the values of at most limit str keys that begin with prefix to files below the folder dir,
 * which is made if it is missing. The path of a file is its key without what prefix has up to its
 * last slash, and without slashes in front; folders are made, no symbolic link is followed. A key
 * that gives no path below dir is left out; the user is told, and of errors. Returns the exit code
 * (cmd.h): EXIT_NO_KEY if no key begins so.
 */
int get_files(ddict_t *d, const char *prefix, uint64_t limit, bool raw, const char *dir);

#endif
