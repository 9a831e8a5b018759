/* SPDX-License-Identifier: Apache-2.0 */
/* ddict_up.h - `ddict up` as a child of this process: one, or one for each component of a
 * heterogeneous step. */
#ifndef DDICT_PLUGIN_DDICT_UP_H
#define DDICT_PLUGIN_DDICT_UP_H

#include "request.h"
#include <launch/site.h>

#include <stddef.h>

/* Its command line. */
struct up_args {
    const char *argv[64];
    int n;
    char text[32768]; /* of the arguments that are made here */
    size_t used;
    int full; /* an argument had no room */
};
/* Add an argument. If it has no room, up_spawn will refuse. */
void up_arg(struct up_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What every start has, in this order: program, name (NULL: `ddict up` finds it), job and the folder
 * at which relative paths begin; the options asked for; the administrator's words. */
void up_args_begin(struct up_args *a, const struct settings *site, const char *name, unsigned job,
                   const char *folder);
void up_args_asked(struct up_args *a, const struct ask_options *ask);
void up_args_site(struct up_args *a, int ac, char **av);
/*
 * Start one, or one more. envp: its environment. own_stderr: it prints into a pipe and we pass that on, so that
 * it holds no descriptor of ours. 0 or a negative code (-E2BIG: an argument had no room), of which
 * up_wait says why.
 */
int up_spawn(const struct up_args *a, char *const *envp, int own_stderr);
/* Wait until the dictionaries are ready. NULL; else a sentence that says why one is not, and all
 * children are gone. say: called with lines for the user meanwhile. */
const char *up_wait(const struct settings *site, void (*say)(const char *line));
/* The managers' srun, "PID/TICKS", if the managers watch the batch script; else NULL. */
const char *up_watches(void);
/* srun ends: end the children, if there are any. Their summaries go to say, what went wrong to
 * complain; with the dictionary's name, if there are several. */
void up_end(void (*say)(const char *line), void (*complain)(const char *line));
/* Whether --ddict-save could not save all; known after up_end. */
int up_unsaved(void);
/* The dictionary is ready and the job's: wait until `ddict up` has ended, which leaves the managers
 * alone. */
void up_leave(void);

#endif
