/* SPDX-License-Identifier: Apache-2.0 */
/* record_path.h - which file gets the record of a dictionary (RECORD), by what user and site say.
 * */
#ifndef DDICT_LAUNCH_RECORD_PATH_H
#define DDICT_LAUNCH_RECORD_PATH_H

#include "option_table.h"

#include <stddef.h>

/*
 * The absolute path into path, or "" for no record. s: --record, the site's record_dir, --chdir;
 * folder: the working folder where --chdir is not given; user: name for %u. Names of folders that
 * come from --chdir and the working folder are taken as they are, % too. 0 or -EINVAL with why set.
 */
int record_path(char *path, size_t cap, const struct settings *s, const char *folder,
                const char *user, char *why, size_t why_cap);

/* The folder of --spill into path, "" for none, and its size, 0: unsaid. */
int spill_path(char *path, size_t cap, uint64_t *size, const struct settings *s, const char *user,
               char *why, size_t why_cap);

/* The same of --results into path, "" for none. */
int results_path(char *path, size_t cap, const struct settings *s, const char *folder,
                 const char *user, char *why, size_t why_cap);

/* --persist, its folder with the whole path, "" for none. 0, or -EINVAL with why set. */
int persist_path(char *path, size_t cap, const struct settings *s, const char *folder,
                 const char *user, char *why, size_t why_cap);

/* The folder of --save, "" for none; *prefix NULL: a dump, else what keys begin with, which lives
 * as long as the process. 0, or -EINVAL with why set. */
int save_path(char *path, size_t cap, const char **prefix, const struct settings *s,
              const char *folder, const char *user, char *why, size_t why_cap);

#endif
