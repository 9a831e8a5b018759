/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - the lines of the record (RECORD). */
#ifndef DDICT_SUPERVISOR_RECORD_H
#define DDICT_SUPERVISOR_RECORD_H

#include "supervisor.h"

void record_start(struct supervisor *s);
void record_lost(struct supervisor *s);
void record_freeze(struct supervisor *s, bool frozen, uint64_t epoch);
void record_note(struct supervisor *s, const struct note *n);
/* Begin a line: "{" and the fields that all have; NULL without memory. record_done() ends it and
 * gives it to the record writer. */
FILE *record_line(struct supervisor *s, const char *event, char **text, size_t *len);
void record_done(struct supervisor *s, FILE *f, char **text, size_t *len);
void json_text(FILE *f, const char *text); /* quoted */

#endif
