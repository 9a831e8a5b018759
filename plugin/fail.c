/* SPDX-License-Identifier: Apache-2.0 */
/* fail.c - one line to the user, and exit(1): an optional plugin cannot fail otherwise. */
#include "fail.h"

#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void plugin_fail(const char *fmt, ...) {
    char text[768];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    slurm_error("ddict: %s", text);
    exit(1);
}
