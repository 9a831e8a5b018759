/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.c - the callbacks of ddict.so, a plugin of Slurm (SPANK). Which process runs what:
 *
 *     srun                  options (all), srun_step_begin before the tasks are launched,
 *                           srun_step_end when srun ends; of the managers' step alone:
 *                           srun_detach_prepare
 *     salloc, sbatch        options (all); the request goes into the job's environment
 *     slurmstepd (root)     options_register; of the managers' step alone: slurmd_log_prepare, and
 *                           slurmd_log_write when its task has ended; of a batch script that
 *                           asked for a dictionary: batch_end_prepare, and batch_end_wait when it
 *                           has ended
 *     the task (root)       task_prepare
 *     the task (the user)   task_begin; of a batch script: batch_task
 *
 * As root no file but those of /proc, no fork, socket, or allocation of a size that a user chose,
 * and no wait but that of batch_end_wait: for a process of the user's that the plugin has looked
 * at, at most DD_SCRIPT_END_MS; only where Slurm kills that process with the batch step
 * DD_SCRIPT_SAVE_MS, with --ddict-save. slurmd_log_write reads at most 400 bytes, once and without
 * waiting, from another one: nothing else of slurmd's writes what a user's process says into
 * slurmd's log, and the task itself cannot be given that log, which is root's. libc and spank.h
 * only; libslurm is the host process's.
 * Nothing is drained by us: no callback of slurmstepd, slurmd, prolog or epilog can fail. In srun,
 * salloc and sbatch, errors end the process (exit 1), in the task they end the task, because a
 * plugin that is listed as optional cannot fail otherwise.
 *
 * A dictionary belongs to a step, or to the whole job when salloc or sbatch asked for it. Slurm
 * hands the options of a job on to each srun in it as if they were its own; the job control
 * variable DDICT_SCOPE=job tells which they are. ELECTION 5.
 */
#include "batch_end.h"
#include "options.h"
#include "slurmd_log.h"
#include "srun.h"
#include "srun_detach.h"
#include "task.h"
#include "task_env.h"

#include <slurm/spank.h>

SPANK_PLUGIN(ddict, 1)

int slurm_spank_init(spank_t sp, int ac, char **av) {
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
        options_register(sp, 1);
        return 0;
    case S_CTX_REMOTE:
        options_register(sp, 0);
        return 0;
    default:
        return 0;
    }
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av) {
    switch (spank_context()) {
    case S_CTX_LOCAL:
        options_judge(sp, ac, av);
        return 0;
    case S_CTX_ALLOCATOR:
        options_judge(sp, ac, av);
        options_pass_on(sp);
        return 0;
    default:
        return 0;
    }
}

int slurm_spank_local_user_init(spank_t sp, int ac, char **av) {
    if (options_inert())
        srun_detach_prepare();
    srun_step_begin(sp, ac, av);
    return 0;
}

int slurm_spank_user_init(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_REMOTE) {
        slurmd_log_prepare(sp);
        batch_end_prepare(sp);
    }
    return 0;
}

int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_REMOTE)
        task_prepare();
    return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_REMOTE) {
        slurmd_log_hand_over(sp);
        task_begin(sp, ac, av);
    }
    return 0;
}

int slurm_spank_task_exit(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_REMOTE) {
        slurmd_log_write();
        batch_end_wait();
    }
    return 0;
}

int slurm_spank_exit(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_LOCAL)
        srun_step_end();
    return 0;
}
