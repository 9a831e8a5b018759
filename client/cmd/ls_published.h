/* SPDX-License-Identifier: Apache-2.0 */
/* ls_published.h - what is published: ddict_publish() */
#ifndef DDICT_CMD_LS_PUBLISHED_H
#define DDICT_CMD_LS_PUBLISHED_H

#include <ddict.h>

#include <stdbool.h>

/* A table of the names and their newest versions, or an array of objects, on stdout. The exit code. */
int published_show(ddict_t *d, bool json);

#endif
