/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - which file gets the record of a dictionary (manager/RECORD), by what user and site say. */
#ifndef DDICT_LAUNCH_RECORD_H
#define DDICT_LAUNCH_RECORD_H

#include "launch/options.h"

#include <stddef.h>

/*
 * The absolute path into path, or "" for no record. o: --log (name: it, for the sentence), the site's log_dir, --chdir; folder: the working folder where
 * --chdir is not given; user: name for %u. Names of folders that come from --chdir and the working folder are taken as they are, % too. 0 or -EINVAL with why set.
 */
int record_path(char *path, size_t cap, const struct options *o, const char *folder,
                const char *user, char *why, size_t why_cap);

/* The folder of --spill into path, "" for none, and its size, 0: unsaid. */
int spill_path(char *path, size_t cap, uint64_t *size, const struct options *o, const char *user,
               char *why, size_t why_cap);

/* The same of --results into path, "" for none. */
int results_path(char *path, size_t cap, const struct options *o, const char *folder,
                 const char *user, char *why, size_t why_cap);

/* The folder of --save, "" for none; *prefix NULL: a dump, else what keys begin with, which lives as long as the process. 0, or -EINVAL with why set. */
int save_path(char *path, size_t cap, const char **prefix, const struct options *o,
              const char *folder, const char *user, char *why, size_t why_cap);

#endif
