/* SPDX-License-Identifier: Apache-2.0 */
/* record_rate.h - for the record. */
#ifndef DDICT_MANAGER_RECORD_RATE_H
#define DDICT_MANAGER_RECORD_RATE_H

#include "manager.h"

void note_full(struct manager *m, const char *text);
/* once: to the log, and for the record as note_full() */
void note_trouble(struct manager *m, const char *text);
/* a connection ended: was it one that failed the checks? */
void note_refused(struct manager *m, int code);

#endif
