/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of srun, salloc and sbatch, as SPANK and the environment give them. */
#ifndef DDICT_PLUGIN_OPTIONS_H
#define DDICT_PLUGIN_OPTIONS_H

#include "request.h"
#include <launch/site.h>

#include <slurm/spank.h>
#include <stddef.h>

enum scope { SCOPE_NONE, SCOPE_STEP, SCOPE_JOB };

/* Register the options, in every context that knows options. client: we are srun, salloc or sbatch,
 * where a variable of an option counts as if the option was typed. */
void options_register(spank_t sp, int client);
/* srun, salloc, sbatch, when all options are read: judge them. Does not return if they are wrong.
 * ac, av: words of the plugin's line in plugstack.conf, here as everywhere. */
void options_judge(spank_t sp, int ac, char **av);
/* salloc, sbatch, after that: pass the request on to the job. */
void options_pass_on(spank_t sp);
/* srun, when its step is there: take out of the environment what neither its tasks nor their own
 * sruns may see. */
void options_launch(void);
/* srun: whose dictionary the step uses. */
enum scope options_scope(void);
/* srun, when its step is there: the components of the step if each has a dictionary of its own,
 * else 0. */
unsigned options_components(void);
/* srun: whether `ddict up` started it. */
int options_inert(void);
/* srun: the id of the job that it was started in, "" if only --jobid names one, NULL for none. */
const char *options_in_job(void);
/* srun, salloc, sbatch: the options of the step, or those that the whole job asked for. */
const struct ask_options *options_of(enum scope scope);
/* In the task: whether its step asked for a dictionary. */
int options_of_step(spank_t sp);
/* In the task: the value that its step has for the option, NULL for none. */
const char *options_value(spank_t sp, enum option_id o);
/* In the task of a step with a dictionary of its own: take the options out of the task's
 * environment, which still has what srun unset. */
void options_forget(spank_t sp);

/* Read into *site what the administrator says in ddict.conf and in plugstack.conf (ac, av, which
 * win), and where the program ddict is. 0, or -EINVAL with a sentence in why. Not in slurmstepd. */
int site_collect(struct settings *site, int ac, char **av, char *why, size_t cap);

#endif
