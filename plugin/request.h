/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - options as one text, which a job carries to its sruns. */
#ifndef DDICT_PLUGIN_REQUEST_H
#define DDICT_PLUGIN_REQUEST_H

#include "plugin.h"

/* Words of `ddict up`, separated by blanks, %-escaped: request.c. cap counts the final 0. The
 * length or -ENOSPC. */
int request_write(char *text, size_t cap, const struct ask_options *ask);
/* text is cut up; values point into it. 0 or -EINVAL. */
int request_read(char *text, struct ask_options *ask);

#endif
