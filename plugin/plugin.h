/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.h - the parts of ddict.so. Which process runs what:
 *
 *     srun                  options (all), local_begin before the tasks are launched, local_end when srun ends; of the managers' step alone: leave_prepare
 *     salloc, sbatch        options (all); the request goes into the job's environment
 *     slurmstepd (root)     options_register; of the managers' step alone: note_prepare, and note_log when its task has ended; of a batch script that asked for a
 *                           dictionary: script_prepare, and script_end when it has ended
 *     the task (root)       task_prepare
 *     the task (the user)   remote_task; of a batch script: batch_task
 *
 * As root no file but those of /proc, no fork, socket, or allocation of a size that a user chose, and no wait but that of script_end: for a process of the user's that
 * the plugin has looked at, at most DD_SCRIPT_END_MS; only where Slurm kills that process with the batch step DD_SCRIPT_SAVE_MS, with --ddict-save. note_log reads at most 400 bytes, once and without waiting, from another one: nothing else of slurmd's writes what a user's process says into slurmd's log, and the task itself cannot be given that
 * log, which is root's. libc and spank.h only; libslurm is the host process's. Nothing is drained by us: no callback of slurmstepd, slurmd, prolog or epilog
 * can fail. In srun, salloc and sbatch, errors end the process (exit 1), in the task they end the task, because a plugin that is listed
 * as optional cannot fail otherwise.
 *
 * A dictionary belongs to a step, or to the whole job when salloc or sbatch asked for it. Slurm hands the options of a job on to each srun in it as
 * if they were its own; the job control variable DDICT_SCOPE=job tells which they are. HANDSHAKE 5.
 */
#ifndef DDICT_PLUGIN_H
#define DDICT_PLUGIN_H

#include "launch/site.h"

#include <slurm/spank.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    ASK_MANAGERS,
    ASK_MEM,
    ASK_LOG,
    ASK_SCOPE,
    ASK_GPU,
    ASK_TORCH,
    ASK_RESULTS,
    ASK_TRANSPORT,
    ASK_LOAD,
    ASK_RESTORE,
    ASK_SAVE,
    ASK_SPILL,
    ASKS
};

/* Of what is asked for: texts as they were typed, NULL: not said. */
struct ask_options {
    const char *value[ASKS];
};

enum scope { SCOPE_NONE, SCOPE_STEP, SCOPE_JOB };

#define NAME_CAP   64
#define STEP_MAX   0xfffffff0u /* above: batch script, interactive, extern */
#define STEP_BATCH 0xfffffffbu
/* Tells the tasks of a step which dictionary is theirs. The name begins with SLURM_ so that --export=NONE keeps it. */
#define STEP_VARIABLE "SLURM_DDICT_STEP"
#define STEP_NONE     "none"
/* What srun has decided for its tasks: "closest default yes": --ddict-gpu-bind, who said so (user, site, default), --ddict-torch-env. */
#define TASKS_VARIABLE "SLURM_DDICT_TASKS"
/* The request of a job, for its batch script. */
#define JOB_VARIABLE "SLURM_DDICT_JOB"
/*
 * An srun that ends between the creation of its step and the launch leaves the step behind until the job ends; in an
 * allocation of its own that is at once, in a longer one the step would block the nodes. There the launch goes on, and
 * the tasks end before their program begins by this variable. Its value is the dictionary's name: what the user
 * exports stays in the tasks' environment whatever is unset in srun.
 */
#define REFUSED_VARIABLE "SLURM_DDICT_REFUSED"

/* Every context that knows options. client: srun, salloc, sbatch; then the variables of the options count as if they were typed. */
void options_register(spank_t sp, int client);
/* srun, salloc, sbatch, when all options are read: judge them; does not return when they are wrong. */
void options_judge(spank_t sp, int ac, char **av);
/* salloc and sbatch, then: pass the request on to the job. */
void options_pass_on(spank_t sp);
/* srun, when the step is there: what its tasks and their own sruns shall not see leaves the environment. */
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
const char *options_value(spank_t sp, int option);
/* In the task of a step that has one of its own: take the options out of its environment, where what srun unset is still there. */
void options_forget(spank_t sp);

/* The administrator's words, from the file and this line; 0, or -EINVAL with why set. Not in slurmstepd. */
int site_collect(struct site *site, int ac, char **av, char *why, size_t cap);

/* `ddict up` as a child: up.c. */
struct up_args {
    const char *argv[64];
    int n;
    char text[32768]; /* of those that are made here */
    size_t used;
    int full; /* one had no room */
};
/* Where there is no room it is left to up_spawn to refuse. */
void up_arg(struct up_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What every start has: the options asked for, the folder of relative paths, and the administrator's words. */
void up_args_begin(struct up_args *a, const struct site *site, const char *name, unsigned job,
                   const char *folder);
void up_args_asked(struct up_args *a, const struct ask_options *ask);
void up_args_site(struct up_args *a, int ac, char **av);
/*
 * Start it; own_stderr: what it prints there comes through us, so that it holds no descriptor of ours.
 * 0 or a negative code (-E2BIG: the arguments had no room); up_wait says why.
 */
int up_spawn(const struct up_args *a, char *const *envp, int own_stderr);
/* Wait until it is ready: NULL, else the sentence that says why not, and nothing of it is left. say: lines for the user, meanwhile. */
const char *up_wait(const struct site *site, void (*say)(const char *line));
/* Where the managers watch the batch script: their srun, "PID/TICKS"; else NULL. */
const char *up_watches(void);
/* srun ends: end it, if there is one; its last sentence and what went wrong go to say and complain. */
void up_end(void (*say)(const char *line), void (*complain)(const char *line));
/* Whether --ddict-save could not keep all; known when it has ended. */
int up_unsaved(void);
/* The dictionary is ready and the job's: wait for the end of `ddict up`, which leaves it alone. */
void up_leave(void);

/* srun: start the managers, or find the job's, and wait until they are ready. When they cannot start srun ends, or its tasks do before their program begins. */
void local_begin(spank_t sp, int ac, char **av);
/* srun: end those of the step and tell the user when they ended badly. Where not all was saved srun's exit code is 1 instead of 0. */
void local_end(void);

/* The managers' own srun: be ready to be left alone, see leave.c. */
void leave_prepare(void);

/* The task, as the user: its environment; ends the task when its node has no dictionary. */
void remote_task(spank_t sp, int ac, char **av);
/* The task of a batch script, as the user: start the job's dictionary when it asked for one; ends the task when it cannot start. */
void batch_task(spank_t sp, uint32_t job, int ac, char **av);

/*
 * The task of a step that has a dictionary, as the user: its GPUs in order and the variables of torch (tasks.c, gpu.c, torch.c). It asks its node's ddictd; nothing here
 * ends a task, and what went wrong the first task of a node says.
 */
void tasks_prepare(spank_t sp, const char *name, uint32_t job, uint32_t step);
void gpu_prepare(spank_t sp, const char *how, int by_user);
void torch_prepare(spank_t sp, int wanted, const char *name, uint32_t job, uint32_t step);
/* "" where it is not set; longer values are cut. */
const char *task_variable(spank_t sp, const char *name, char *buf, int cap);
/* Code that reads getenv() sees the task's environment between the two, not slurmstepd's. 0 or -1: Slurm does not give it. */
int task_environ_enter(spank_t sp, char ***before);
void task_environ_leave(char **before);
/*
 * The kernel ends this task before the managers when the job has no memory left (base/oom.h). task_prepare: in the task, as root; the file belongs to root until the program runs.
 * task_first: as the user, so that the user may take it back.
 */
void task_prepare(void);
void task_first(void);
/* For the user, by the first task of a node alone. */
void task_say(spank_t sp, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line for the administrator when a dictionary starts and ends: note.c. */
void note_prepare(spank_t sp);
void note_hand_over(spank_t sp);
void note_log(void);

/* The end of a batch script, whose managers watch it: script.c. script_asked: in the task, whether somebody will want to know of their srun. */
void script_prepare(spank_t sp);
int script_asked(void);
void script_watched(const char *srun, int saves);
void script_end(void);

/* A process as a user names it: its pid, and when it began (process_began). */
struct named {
    pid_t pid;
    uint64_t began;
};
/* What script_watched says, "PID/TICKS w" or "... s". 0 or -EINVAL. */
int script_word(const char *text, struct named *who, int *saves);
/* In slurmstepd: it lives, began then, and is the user's alone. */
int belongs_to_user(const struct named *who, uid_t uid);
/* In slurmstepd of the job's batch step: Slurm kills that process when it kills the step. */
int belongs_to_step(const struct named *who, uint32_t job);
/* Whether it is in that step, by what /proc/PID/cgroup says of slurmstepd and of it. */
int belongs_by_cgroup(const char *mine, const char *its, uint32_t job);

/* "uid.job.step" or "uid.job.job". */
void step_name(char name[NAME_CAP], unsigned job, unsigned step);
void job_name(char name[NAME_CAP], unsigned job);
/* Whether a process of this user listens under the name on this node: wire/PROTOCOL 4. */
int dictionary_is_here(const char *name, const char *node);

/* Words of `ddict up`, separated by blanks, %-escaped: request.c. cap counts the final 0. The length or -ENOSPC. */
int request_write(char *text, size_t cap, const struct ask_options *ask);
/* text is cut up; values point into it. 0 or -EINVAL. */
int request_read(char *text, struct ask_options *ask);

/* One line to the user, then exit(1). Only in srun, salloc and sbatch. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
