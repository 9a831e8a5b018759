/* SPDX-License-Identifier: Apache-2.0 */
/* startup_output.h - lines on stdout for the process that started ddictd. */
#ifndef DDICT_SUPERVISOR_STARTUP_OUTPUT_H
#define DDICT_SUPERVISOR_STARTUP_OUTPUT_H

#include "supervisor.h"

void startup_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void startup_print_text(const char *head,
                        const char *text); /* "ddict1 HEAD TEXT", text of any length */

/* The job by whose id Slurm finds the managers' step; NULL: none. */
const char *managers_job(void);
const char *hex_format(char text[33], const uint8_t id[16]); /* returns text */

#endif
