/* SPDX-License-Identifier: Apache-2.0 */
/* ls_sets.h - the data sets in a dictionary: doc/SETS.md */
#ifndef DDICT_CMD_LS_SETS_H
#define DDICT_CMD_LS_SETS_H

#include <ddict.h>

#include <stdbool.h>

/* A table of them, or an array of objects, on stdout. The exit code. */
int sets_show(ddict_t *d, bool json);

#endif
