/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - options as one text, which a job carries to its sruns. */
#ifndef DDICT_PLUGIN_REQUEST_H
#define DDICT_PLUGIN_REQUEST_H

#include <launch/option_table.h>

#include <stddef.h>

#define REQUEST_MAX 8192 /* bytes of a request as text */

/* What is asked for: for each option of srun the text as it was typed, NULL: not said. */
struct ask_options {
    const char *value[OPTS];
};

/* Words of `ddict up`, separated by blanks, %-escaped: request.c. cap counts the final 0. The
 * length or -ENOSPC. */
int request_write(char *text, size_t cap, const struct ask_options *ask);
/* text is cut up; values point into it. 0 or -EINVAL. */
int request_read(char *text, struct ask_options *ask);

#endif
