/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command lines of `ddict up` and `ddict run`. */
#ifndef DDICT_LAUNCH_OPTIONS_H
#define DDICT_LAUNCH_OPTIONS_H

#include "option_table.h"

#include <stdint.h>
#include <string.h>

struct options {
    const char *verb;    /* "ddict up" */
    struct settings set; /* the site's words first, then the user's over them */
    uint32_t tasks;      /* run: of the step that shares the dictionary; 0: it is ours alone */
    char **cmd;          /* run: behind the options */
};

/* o has verb and what the site's file says; env is getenv-like, so that tests need no environment.
 * 0, or -EINVAL with one sentence in why. */
int options_parse(struct options *o, int argc, char **argv, const char *(*env)(const char *),
                  char *why, size_t cap);
void options_usage(const char *verb);

static inline int is_run(const struct options *o) {
    return strcmp(o->verb, "ddict run") == 0;
}
/* A program's own dictionary: it ends with its starter, and has a name that no other has. */
static inline int is_own(const struct options *o) {
    return is_said(&o->set, OPT_PROGRAM) && !is_said(&o->set, OPT_KEEP);
}
/* The Slurm job that it is for; NULL: none. */
static inline const char *options_job(const struct options *o) {
    return is_said(&o->set, OPT_LOCAL) ? NULL : text_of(&o->set, OPT_JOBID);
}

#endif
