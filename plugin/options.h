/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of srun, salloc and sbatch, as SPANK and the environment give them. */
#ifndef DDICT_PLUGIN_OPTIONS_H
#define DDICT_PLUGIN_OPTIONS_H

#include "request.h"
#include <launch/site.h>

#include <slurm/spank.h>
#include <stddef.h>

enum scope { SCOPE_NONE, SCOPE_STEP, SCOPE_JOB };

/* Every context that knows options. client: srun, salloc, sbatch; then the variables of the options
 * count as if they were typed. */
void options_register(spank_t sp, int client);
/* srun, salloc, sbatch, when all options are read: judge them; does not return when they are wrong.
 * */
void options_judge(spank_t sp, int ac, char **av);
/* salloc and sbatch, then: pass the request on to the job. */
void options_pass_on(spank_t sp);
/* srun, when the step is there: what its tasks and their own sruns shall not see leaves the
 * environment. */
void options_launch(void);
/* srun: whose dictionary the step uses, and for job: what the whole job asked for. */
enum scope options_scope(void);
/* srun: whether `ddict up` started it. */
int options_inert(void);
/* srun: the job that it was started in, "" when only --jobid says one, NULL for none. */
const char *options_in_job(void);
const struct ask_options *options_of(enum scope scope);
/* In the task: whether its step asked for a dictionary. */
int options_of_step(spank_t sp);
/* In the task: what its step was given for the option, NULL for nothing. */
const char *options_value(spank_t sp, enum option_id o);
/* In the task of a step that has one of its own: take the options out of its environment, where
 * what srun unset is still there. */
void options_forget(spank_t sp);

/* The administrator's words, from the file and this line, and ours of where ddict is; 0, or -EINVAL
 * with why set. Not in slurmstepd. */
int site_collect(struct settings *site, int ac, char **av, char *why, size_t cap);

#endif
