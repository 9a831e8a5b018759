/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what is said at the end: the figures of all managers, and a sentence for people. */
#ifndef DDICT_SUPERVISOR_REPORT_H
#define DDICT_SUPERVISOR_REPORT_H

#include "supervisor.h"

#define REPORT_SUMMARY_MAX 2000 /* bytes of the sentence with the final 0 */

void report_print(struct supervisor *s);  /* the line for who started us */
void report_record(struct supervisor *s); /* job_end, and the summary into its file */
/* The sentence, and tells it to the administrator. */
void report_summary(struct supervisor *s, char text[REPORT_SUMMARY_MAX]);

#endif
