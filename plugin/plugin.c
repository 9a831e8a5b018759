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
 * ROOT. As root the plugin opens no file but those of /proc, makes a pipe, forks nothing, opens no
 * socket, and allocates nothing of a size that a user chose. It waits in one place, batch_end_wait, for a
 * process of the user's that it has looked at: at most DD_SCRIPT_END_MS, or DD_SCRIPT_SAVE_MS with
 * --ddict-save and if Slurm kills that process with the batch step. slurmd_log_write reads at most
 * 400 bytes of a user's process, once and without waiting, and logs them as text: slurmd's log is
 * root's, so a task cannot write there itself.
 *
 * ERRORS. No callback of slurmstepd, slurmd, prolog or epilog fails, so no node is ever drained. In
 * srun, salloc and sbatch an error ends the process (exit 1), in a task it ends the task: a plugin
 * that is listed as optional cannot fail in another way.
 *
 * LIBRARIES. The plugin needs libc and spank.h alone; libslurm is the host process's.
 *
 * SCOPE. A dictionary belongs to a step, or to the whole job if salloc or sbatch asked for it.
 * Slurm hands the options of a job on to each srun in it as if they were the srun's own; the job
 * control variable DDICT_SCOPE=job tells that they are the job's. ELECTION 5.
 */
#include "batch_end.h"
#include "options.h"
#include "slurmd_log.h"
#include "srun.h"
#include "srun_detach.h"
#include "task.h"
#include "task_env.h"
#include <base/defaults.h>

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
    case S_CTX_REMOTE:
        slurmd_log_prepare(sp);
        batch_end_prepare(sp);
        return 0;
    default:
        return 0;
    }
}

int slurm_spank_local_user_init(spank_t sp, int ac, char **av) {
    if (options_inert())
        srun_detach_prepare(DD_LEFT_ALONE_MS);
    srun_step_begin(sp, ac, av);
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
