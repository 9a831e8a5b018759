/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun.c - in srun, after its step is created and before its tasks are launched: start a dictionary
 * of the step, which ends with srun, or start or find the job's, which stays.
 */

#include "srun.h"

#include "ddict_up.h"
#include "dictionary.h"
#include "fail.h"
#include "options.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static void user_say(const char *line) {
    slurm_spank_log("ddict: %s", line);
}

static void user_complain(const char *line) {
    slurm_error("ddict: %s", line);
}

/* Outside of a job srun ends; within one the tasks will (REFUSED_VARIABLE). */
static void give_up(const char *name, const char *why) {
    if (!options_in_job() || setenv(REFUSED_VARIABLE, name, 1) < 0)
        plugin_fail("%s", why);
    slurm_error("ddict: %s", why);
}

static void name_set(const char *name) {
    if (setenv("DDICT_NAME", name, 1) < 0 || setenv(STEP_VARIABLE, name, 1) < 0)
        plugin_fail("out of memory");
    unsetenv("DDICT_NODE");
}

/* Each task finds its own, by its component. */
static void components_set(const char *name) {
    char text[NAME_CAP + sizeof STEP_COMPONENTS];

    snprintf(text, sizeof text, "%s" STEP_COMPONENTS, name);
    if (setenv(STEP_VARIABLE, text, 1) < 0)
        plugin_fail("out of memory");
    unsetenv("DDICT_NAME");
    unsetenv("DDICT_NODE");
}

/* The folder that relative paths begin at: for a job where it was submitted, since srun may be
 * anywhere. */
static const char *folder_of(enum scope scope, char cwd[PATH_MAX]) {
    const char *submit = getenv("SLURM_SUBMIT_DIR");

    return scope == SCOPE_JOB && submit && *submit == '/' ? submit : getcwd(cwd, PATH_MAX);
}

/* component: -1, or which one of the step. */
static void child_start(enum scope scope, const char *name, uint32_t job, uint32_t step,
                        int component, const struct settings *site, int ac, char **av) {
    char path[PATH_MAX], cwd[PATH_MAX];
    struct up_args args;
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);

    up_args_begin(&args, site, component < 0 ? name : NULL, job, folder_of(scope, cwd));
    if (scope == SCOPE_STEP)
        up_arg(&args, "--step=%" PRIu32, step);
    if (component >= 0)
        up_arg(&args, "%s=%d", option_rows[OPT_COMPONENT].option, component);
    up_arg(&args, "--srun=%.*s", len > 0 ? (int)len : 4, len > 0 ? path : "srun");
    up_args_asked(&args, options_of(scope));
    up_args_site(&args, ac, av);
    up_spawn(&args, environ, 0);
}

static int is_asked(enum scope scope, enum option_id o) {
    const char *value = options_of(scope)->value[o];

    return value && strcmp(value, "none") != 0;
}

static void dictionary_start(enum scope scope, const char *name, uint32_t job, uint32_t step,
                             int ac, char **av) {
    unsigned n = scope == SCOPE_STEP ? options_components() : 0, i;
    char text[ASK_WHY];
    const char *why;
    struct settings site;

    if (n > 1 && (is_asked(scope, OPT_SAVE) || is_asked(scope, OPT_PERSIST))) {
        snprintf(text, sizeof text,
                 "%s with --ddict-scope=component: all would save into the same folder; use `ddict "
                 "save` in a task of each",
                 option_rows[is_asked(scope, OPT_SAVE) ? OPT_SAVE : OPT_PERSIST].of_srun);
        give_up(name, text);
        return;
    }
    if (site_collect(&site, ac, av, text, sizeof text) < 0) {
        give_up(name, text);
        return;
    }
    if (n == 0)
        child_start(scope, name, job, step, -1, &site, ac, av);
    for (i = 0; i < n; i++)
        child_start(scope, name, job, step, (int)i, &site, ac, av);
    why = up_wait(&site, user_say);
    if (why) {
        give_up(name, why);
        return;
    }
    if (scope == SCOPE_JOB)
        up_leave();
    if (n == 0)
        name_set(name);
    else
        components_set(name);
}

/*
 * Whether the job's dictionary needs no start: 1 if it is there, or if it is gone. srun on a node
 * of the job finds out by a look. If the script's DDICT_NAME says that the dictionary was there
 * once, it is not started a second time: nobody would notice that it is empty.
 */
static int job_look(const char *name) {
    const char *node = getenv("SLURMD_NODENAME"), *mine = getenv("DDICT_NAME");

    if (!node)
        return 0;
    if (dictionary_is_here(name, node)) {
        if ((options_of(SCOPE_JOB)->value[OPT_LOAD] || options_of(SCOPE_JOB)->value[OPT_RESTORE]) &&
            (!mine || strcmp(mine, name) != 0))
            return 0; /* another srun may still be loading: `ddict up` waits for that */
        name_set(name);
        return 1;
    }
    if (!mine || strcmp(mine, name) != 0)
        return 0;
    give_up(name,
            "the job's dictionary is gone; --ddict-scope=step would give this step one of its own");
    return 1;
}

/* slurm_spank_exit does not know srun's exit code, so this is an on_exit handler; it may run before
 * or after that. */
static void on_srun_exit(int code, void *arg) {
    srun_step_end();
    if (code != 0 || !up_unsaved())
        return;
    fflush(NULL);
    _exit(1);
}

void srun_step_begin(spank_t sp, int ac, char **av) {
    enum scope scope = options_scope();
    const char *in_job = options_in_job();
    char name[NAME_CAP], id[16];
    uint32_t job, step;

    if (scope == SCOPE_NONE)
        return;
    if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        plugin_fail("Slurm does not say which step this is");
    job = job_of_component(job, getenv("SLURM_HET_SIZE"), getenv("SLURM_JOB_ID"));
    snprintf(id, sizeof id, "%" PRIu32, job);
    if (scope == SCOPE_JOB && (!in_job || strcmp(in_job, id) != 0)) {
        /* --jobid: our job's dictionary is not for another job */
        setenv(STEP_VARIABLE, STEP_NONE, 1);
        return;
    }
    if (scope == SCOPE_STEP && step > STEP_MAX)
        /* salloc's own srun for an interactive step: the options are for the user's steps in it */
        return;
    options_launch();
    if (scope == SCOPE_STEP) {
        step_name(name, job, step);
        if (options_of(scope)->value[OPT_SAVE])
            on_exit(on_srun_exit, NULL); /* the plugin stays mapped: -z nodelete */
        dictionary_start(scope, name, job, step, ac, av);
    } else {
        job_name(name, job);
        if (!job_look(name))
            dictionary_start(scope, name, job, step, ac, av);
    }
}

void srun_step_end(void) {
    up_end(user_say, user_complain);
}
