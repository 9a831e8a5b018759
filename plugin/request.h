/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - what is asked for, as a struct and as one line of text, which a job carries to its
 * batch script in JOB_VARIABLE. */
#ifndef DDICT_PLUGIN_REQUEST_H
#define DDICT_PLUGIN_REQUEST_H

#include <launch/option_table.h>

#include <stddef.h>

#define REQUEST_MAX 8192 /* bytes of a request as text */

/* For each option of srun the text as it was typed; NULL: not said. */
struct ask_options {
    const char *value[OPTS];
};

/* Write ask to text as words of `ddict up`, separated by blanks, %-escaped. cap counts the final 0.
 * Returns the length, or -ENOSPC. */
int request_write(char *text, size_t cap, const struct ask_options *ask);
/* Read ask out of text, which is cut up: the values point into it. 0 or -EINVAL. */
int request_read(char *text, struct ask_options *ask);

#endif
