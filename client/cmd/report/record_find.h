/* SPDX-License-Identifier: Apache-2.0 */
/* record_find.h - find the files of the records that a user asks for. */
#ifndef DDICT_CMD_REPORT_RECORD_FIND_H
#define DDICT_CMD_REPORT_RECORD_FIND_H

#include <stdbool.h>
#include <stddef.h>

struct paths {
    char **path; /* owned */
    size_t count;
};
void paths_free(struct paths *p);

/* ddict-*.jsonl of the working folder, oldest first; files only. 0, or a negative code with the
 * sentence set (there is none: -ENOENT). */
int records_here(struct paths *p);
/* "12", or "12_3" of an array. */
bool is_job(const char *text);
/*
 * Add ddict-JOB.jsonl: of the working folder, else of the site's record_dir (ddict.conf), else of
 * the job's own working folder if Slurm still knows the job. 0, or a negative code with a sentence
 * that names the folders that were searched.
 */
int record_of_job(const char *job, struct paths *p);

#endif
