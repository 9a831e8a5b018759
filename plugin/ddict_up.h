/* SPDX-License-Identifier: Apache-2.0 */
/* ddict_up.h - `ddict up` as our child. */
#ifndef DDICT_PLUGIN_DDICT_UP_H
#define DDICT_PLUGIN_DDICT_UP_H

#include "request.h"
#include <launch/site.h>

#include <stddef.h>

/* Its command line. */
struct up_args {
    const char *argv[64];
    int n;
    char text[32768]; /* of those that are made here */
    size_t used;
    int full; /* one had no room */
};
/* Where there is no room it is left to up_spawn to refuse. */
void up_arg(struct up_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What every start has: the options asked for, the folder of relative paths, and the
 * administrator's words. */
void up_args_begin(struct up_args *a, const struct settings *site, const char *name, unsigned job,
                   const char *folder);
void up_args_asked(struct up_args *a, const struct ask_options *ask);
void up_args_site(struct up_args *a, int ac, char **av);
/*
 * Start it; own_stderr: what it prints there comes through us, so that it holds no descriptor of
 * ours. 0 or a negative code (-E2BIG: the arguments had no room); up_wait says why.
 */
int up_spawn(const struct up_args *a, char *const *envp, int own_stderr);
/* Wait until it is ready: NULL, else the sentence that says why not, and nothing of it is left.
 * say: lines for the user, meanwhile. */
const char *up_wait(const struct settings *site, void (*say)(const char *line));
/* Where the managers watch the batch script: their srun, "PID/TICKS"; else NULL. */
const char *up_watches(void);
/* srun ends: end it, if there is one; its last sentence and what went wrong go to say and complain.
 * */
void up_end(void (*say)(const char *line), void (*complain)(const char *line));
/* Whether --ddict-save could not keep all; known when it has ended. */
int up_unsaved(void);
/* The dictionary is ready and the job's: wait for the end of `ddict up`, which leaves it alone. */
void up_leave(void);

#endif
