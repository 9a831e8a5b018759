/* SPDX-License-Identifier: Apache-2.0 */
/*
 * submit.c - submit a batch job with a job id of our own, as root for another user. Clusters of a
 * federation give ids with their number in the bits from 26 on; sbatch has no option for it.
 *
 *     submit ID UID NAME OUTPUT <SCRIPT
 */
#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
#define JOB_ID step_id.job_id
#else
#define JOB_ID job_id
#endif

extern char **environ;

int main(int argc, char **argv) {
    static char script[65536], cwd[4096];
    job_desc_msg_t job;
    submit_response_msg_t *answer = NULL;
    if (argc != 5 || !getcwd(cwd, sizeof cwd) || fread(script, 1, sizeof script - 1, stdin) == 0)
        return 2;
    slurm_init(NULL);
    slurm_init_job_desc_msg(&job);
    job.JOB_ID = (uint32_t)strtoul(argv[1], NULL, 10);
    job.user_id = job.group_id = (uint32_t)strtoul(argv[2], NULL, 10);
    job.name = argv[3];
    job.std_out = argv[4];
    job.std_in = "/dev/null";
    job.script = script;
    job.work_dir = cwd;
    job.min_nodes = job.max_nodes = job.num_tasks = 2;
    job.pn_min_memory = 200;
    job.environment = environ;
    for (job.env_size = 0; environ[job.env_size];)
        job.env_size++;
    if (slurm_submit_batch_job(&job, &answer) != SLURM_SUCCESS) {
        fprintf(stderr, "submit: %s\n", slurm_strerror(errno));
        return 1;
    }
    printf("Submitted batch job %u\n", answer->JOB_ID);
    return 0;
}
