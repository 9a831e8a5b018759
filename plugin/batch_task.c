/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_task.c - in the task of a batch script, as the user, before the script: start the job's
 * dictionary and wait until it is ready. The script inherits no child and no descriptor: `ddict up`
 * has ended by then, and the srun that it leaves has no descriptor of the task, otherwise the step
 * could not end with the script.
 */
#include "batch_task.h"

#include "batch_end.h"
#include "ddict_up.h"
#include "dictionary.h"
#include "options.h"
#include "task_env.h"
#include <base/process.h>
#include <wire/attach.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void stderr_say(const char *line) {
    dprintf(STDERR_FILENO, "ddict: %s\n", line);
}

static void give_up(const char *why) {
    dprintf(STDERR_FILENO, "ddict: %s; the script is not started\n", why);
    _exit(1);
}

/* Read the job's request. 1, or 0: there is none. If Slurm cannot say, the job's environment tells,
 * so that a job without a request does not suffer. */
static int request_get(spank_t sp, char *request, size_t cap, char *const *env) {
    static const char head[] = JOB_VARIABLE "=";
    spank_err_t rc = spank_getenv(sp, JOB_VARIABLE, request, (int)cap);

    if (rc == ESPANK_SUCCESS || rc == ESPANK_ENV_NOEXIST)
        return rc == ESPANK_SUCCESS;
    for (; env && *env; env++)
        if (strncmp(*env, head, sizeof head - 1) == 0) {
            if (strlen(*env) - sizeof head + 1 >= cap)
                give_up("the job's request for a dictionary is too long");
            strcpy(request, *env + sizeof head - 1);
            return 1;
        }
    return 0;
}

/*
 * The job's environment, and what `ddict up` cannot do without if --export=NONE left it out (a
 * script's shell finds a PATH itself). A malloc'ed array of borrowed strings.
 */
static char **environment_of_up(char **env) {
    static const char *const needed[] = {"PATH", "SLURM_CONF", "SLURM_CONF_SERVER",
                                         "SLURM_SACK_SOCKET"};
    static char made[sizeof needed / sizeof *needed][4096];
    size_t n = 0, i, e;
    char **copy;

    while (env[n])
        n++;
    copy = calloc(n + sizeof needed / sizeof *needed + 1, sizeof *copy);
    if (!copy)
        give_up("out of memory");
    memcpy(copy, env, n * sizeof *copy);
    for (i = 0; i < sizeof needed / sizeof *needed; i++) {
        const char *value = getenv(needed[i]);
        size_t len = strlen(needed[i]);

        if (!value && i == 0)
            value = "/usr/local/bin:/usr/bin:/bin";
        for (e = 0; env[e]; e++)
            if (strncmp(env[e], needed[i], len) == 0 && env[e][len] == '=')
                break;
        if (!env[e] && value &&
            snprintf(made[i], sizeof made[i], "%s=%s", needed[i], value) < (int)sizeof made[i])
            copy[n++] = made[i];
    }
    return copy;
}

/* Have the managers watch the script, which this process becomes. */
static void script_arg(spank_t sp, struct up_args *args) {
    char node[128];

    if (batch_end_is_asked() &&
        spank_getenv(sp, "SLURMD_NODENAME", node, sizeof node) == ESPANK_SUCCESS)
        up_arg(args, "--script=%s/%d/%" PRIu64, node, (int)getpid(), process_began(getpid()));
}

void batch_task(spank_t sp, uint32_t job, int ac, char **av) {
    char request[REQUEST_MAX], name[NAME_CAP], cwd[PATH_MAX], text[ASK_WHY], **env = NULL;
    struct ask_options ask;
    struct up_args args;
    struct settings site;
    const char *why;
    size_t i;

    if (spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS)
        env = NULL;
    if (!request_get(sp, request, sizeof request, env))
        return;
    if (request_read(request, &ask) < 0)
        give_up("the job's request for a dictionary (" JOB_VARIABLE ") cannot be read");
    if (site_collect(&site, ac, av, text, sizeof text) < 0)
        give_up(text);
    spank_unsetenv(sp, JOB_VARIABLE);
    spank_unsetenv(sp, "DDICT_NODE");
    /* The request has these options. Those that say how steps use a dictionary stay, for the sruns
     * of the script. */
    for (i = 0; i < OPTS; i++)
        if ((option_rows[i].of & OF_SRUN) != 0 && (option_rows[i].of & OF_UP) != 0)
            spank_unsetenv(sp, option_rows[i].variable);
    if (!env)
        give_up("Slurm does not give the job's environment");
    job_name(name, job);
    up_args_begin(&args, &site, name, job, getcwd(cwd, sizeof cwd));
    up_args_asked(&args, &ask);
    up_args_site(&args, ac, av);
    env = environment_of_up(env);
    script_arg(sp, &args);
    up_spawn(&args, env, 1);
    free(env);
    why = up_wait(&site, stderr_say);
    if (why)
        give_up(why);
    up_leave();
    if (up_watches())
        batch_end_tell_watch(up_watches(), ask.value[OPT_SAVE] != NULL);
    if (spank_setenv(sp, "DDICT_NAME", name, 1) != ESPANK_SUCCESS)
        give_up("Slurm does not take the name of the dictionary");
    task_first();
}
