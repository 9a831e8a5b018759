/* SPDX-License-Identifier: Apache-2.0 */
/* record_rate.h - events that a manager reports for the record. */
#ifndef DDICT_MANAGER_RECORD_RATE_H
#define DDICT_MANAGER_RECORD_RATE_H

#include "manager.h"

void note_full(struct manager *m, const char *text);
/* A single event: to the log, and for the record as note_full(). */
void note_trouble(struct manager *m, const char *text);
/* A connection ended with this code: count it if it failed the handshake or a check of its
 * bytes. */
void note_refused(struct manager *m, int code);

#endif
