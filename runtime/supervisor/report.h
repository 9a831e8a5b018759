/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - the figures of all managers at the end. */
#ifndef DDICT_SUPERVISOR_REPORT_H
#define DDICT_SUPERVISOR_REPORT_H

#include "supervisor.h"

int report_init(struct supervisor *s);
void report_add(struct supervisor *s, const struct manager_stats *st);
void report_each(const struct supervisor *s, void (*fn)(void *arg, const struct manager_stats *st),
                 void *arg);
void report_print(struct supervisor *s);   /* the line for who started us */
void report_record(struct supervisor *s);  /* job_end, and the summary into its file */
void report_summary(struct supervisor *s); /* the sentence for people */

#endif
