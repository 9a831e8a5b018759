/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_spec.h - the words of --load and --restore, --ddict-load and --ddict-restore. libc only: the
 * plugin judges them where the job is submitted.
 *
 *     --load=SOURCE[,SOURCE...][;WORD...][,SOURCE...[;WORD...]]...
 *         WORD: prefix=P, set=NAME, as=KIND, on-error=stop|skip, threads=N, replace
 *     --restore=[-]PATH[,[-]PATH...]
 *
 *     --save=[PREFIX:]DIR
 *         PREFIX:DIR  the values of str keys that begin with PREFIX (":DIR": of all) as files; DIR
 *                     alone: a dump for --restore. What begins with "/", "./" or "../" is a DIR
 *                     alone; else the last colon is between the two, and "://" is refused: nothing
 *                     is saved to an address
 *
 * Sources up to one with words are one set, and the words are its; those behind the last one with
 * words are one set more. A word has neither comma nor semicolon. A PATH behind a minus sign need
 * not be there.
 */
#ifndef DDICT_LAUNCH_LOAD_SPEC_H
#define DDICT_LAUNCH_LOAD_SPEC_H

#include <stddef.h>

#define INTAKE_SETS  16
#define INTAKE_WORDS 8
/* bytes of one of these options: it passes through the request of a job and a command line */
#define INTAKE_MAX 2000

struct intake_set {
    char *sources;             /* separated by commas */
    char *words[INTAKE_WORDS]; /* "prefix=P", "replace" */
    int nwords;
};

/* text is cut up, sets point into it. The number of sets, or -EINVAL with what is wrong with
 * name=text in why. */
int intake_sets(char *text, struct intake_set sets[INTAKE_SETS], const char *name, char *why,
                size_t cap);
/* Whether it can be read; text is left as it is. 0 or -EINVAL with why set. */
int intake_judge_load(const char *name, const char *text, char *why, size_t cap);
int intake_judge_restore(const char *name, const char *text, char *why, size_t cap);

/* *dir points into text, *prefix is a copy, cap bytes; "" with *files 0 or 1. 0 or -EINVAL with why
 * set. */
int intake_save(const char *name, const char *text, const char **dir, char *prefix,
                size_t prefix_cap, int *files, char *why, size_t cap);

#endif
