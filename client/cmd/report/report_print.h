/* SPDX-License-Identifier: Apache-2.0 */
/* report_print.h - a record as people read it, and as scripts do. */
#ifndef DDICT_CMD_REPORT_REPORT_PRINT_H
#define DDICT_CMD_REPORT_REPORT_PRINT_H

#include "record_read.h"

#include <stdio.h>

/* columns: of the terminal, 0 for any number. Both return 0 or -ENOMEM. */
int report_print(const struct record *r, FILE *out, int columns);
int report_json(const struct record *r, FILE *out);

#endif
