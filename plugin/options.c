/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - the options of srun, salloc and sbatch. The environment forms are made into the options themselves before these programs read them, so
 * that they travel with the step like typed ones; the command line comes later and wins.
 */
#include "base/defaults.h"
#include "base/size.h"
#include "launch/intake.h"
#include "place/torch_env.h"
#include "plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTION_VARIABLE "SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_"
#define SCOPE_CONTROL   "DDICT_SCOPE"
#define SCOPE_VARIABLE  "SLURM_SPANK_" SCOPE_CONTROL
#define REQUEST_MAX     8192

static int on_option(int val, const char *optarg, int remote);

static struct spank_option options[ASKS] = {
    [ASK_MANAGERS] = {(char *)"ddict-managers", (char *)"N",
                      (char *)"give the step, or the job, a dictionary with N managers (default: "
                              "one for each node)",
                      1, ASK_MANAGERS, on_option},
    [ASK_MEM] =
        {(char *)"ddict-mem", (char *)"SIZE",
         (char
              *)"memory of the whole dictionary, such as 512M, 16G or 40%; out of the job's memory",
         1, ASK_MEM, on_option},
    [ASK_LOG] =
        {(char *)"ddict-log", (char *)"FILE",
         (char *)"the record of the dictionary; %j is the job, %s the step; none for no record", 1,
         ASK_LOG, on_option},
    [ASK_SCOPE] = {(char *)"ddict-scope", (char *)"job|step",
                   (char *)"with salloc and sbatch: one dictionary for the job, or one for each "
                           "srun that asks (default: job); with srun "
                           "in such a job: step gives it one of its own",
                   1, ASK_SCOPE, on_option},
    [ASK_GPU] = {(char *)"ddict-gpu-bind", (char *)"closest|rotate|none",
                 (char *)"GPUs of the tasks of a node: closest puts them in an order in which "
                         "device LOCAL_RANK is near the task, rotate makes "
                         "the near one device 0 (default: closest)",
                 1, ASK_GPU, on_option},
    [ASK_TORCH] = {(char *)"ddict-torch-env", (char *)"yes|no",
                   (char *)"set MASTER_ADDR, MASTER_PORT, RANK, LOCAL_RANK, WORLD_SIZE, "
                           "LOCAL_WORLD_SIZE and GROUP_RANK where they are not set "
                           "(default: yes)",
                   1, ASK_TORCH, on_option},
    [ASK_RESULTS] = {(char *)"ddict-results", (char *)"DIR",
                     (char *)"write what tasks submit with ddict.results below DIR while the job "
                             "runs; %j is the job, %s the step",
                     1, ASK_RESULTS, on_option},
    [ASK_TRANSPORT] = {(char *)"ddict-transport", (char *)"auto|tcp|ofi[:PROVIDER]",
                       (char *)"what carries the dictionary's messages between nodes: TCP or "
                               "libfabric (default: auto)",
                       1, ASK_TRANSPORT, on_option},
    [ASK_SPILL] = {(char *)"ddict-spill", (char *)"DIR[:SIZE]",
                   (char *)"values beyond the memory go to files in DIR, a folder on a disk of "
                           "each node; gone with the dictionary",
                   1, ASK_SPILL, on_option},
    [ASK_LOAD] = {(char *)"ddict-load", (char *)"SOURCE[,SOURCE...]",
                  (char *)"put tar, zip, folders, IDX, .npy, text, FASTA or s3:// into the "
                          "dictionary before the first task starts",
                  1, ASK_LOAD, on_option},
    [ASK_RESTORE] = {(char *)"ddict-restore", (char *)"PATH[,PATH...]",
                     (char *)"put what `ddict save` or --ddict-save wrote into the dictionary "
                             "before the first task starts; -PATH: where it is there",
                     1, ASK_RESTORE, on_option},
    [ASK_SAVE] = {(char *)"ddict-save", (char *)"[PREFIX:]DIR",
                  (char *)"write the dictionary to DIR at its end, and before the time limit: for "
                          "--ddict-restore, or with PREFIX what begins so as files; "
                          "%j is the job, %s the step",
                  1, ASK_SAVE, on_option},
};
static const char *const variables[ASKS] = {
    [ASK_MANAGERS] = "DDICT_MANAGERS", [ASK_MEM] = "DDICT_MEM",
    [ASK_LOG] = "DDICT_LOG_FILE",      [ASK_SCOPE] = "DDICT_SCOPE",
    [ASK_GPU] = "DDICT_GPU_BIND",      [ASK_TORCH] = "DDICT_TORCH_ENV",
    [ASK_RESULTS] = "DDICT_RESULTS",   [ASK_TRANSPORT] = "DDICT_TRANSPORT",
    [ASK_LOAD] = "DDICT_LOAD",         [ASK_RESTORE] = "DDICT_RESTORE",
    [ASK_SAVE] = "DDICT_SAVE",         [ASK_SPILL] = "DDICT_SPILL"};
static const char *const option_variables[ASKS] = {
    [ASK_MANAGERS] = OPTION_VARIABLE "managers", [ASK_MEM] = OPTION_VARIABLE "mem",
    [ASK_LOG] = OPTION_VARIABLE "log",           [ASK_SCOPE] = OPTION_VARIABLE "scope",
    [ASK_GPU] = OPTION_VARIABLE "gpu_bind",      [ASK_TORCH] = OPTION_VARIABLE "torch_env",
    [ASK_RESULTS] = OPTION_VARIABLE "results",   [ASK_TRANSPORT] = OPTION_VARIABLE "transport",
    [ASK_LOAD] = OPTION_VARIABLE "load",         [ASK_RESTORE] = OPTION_VARIABLE "restore",
    [ASK_SAVE] = OPTION_VARIABLE "save",         [ASK_SPILL] = OPTION_VARIABLE "spill"};
static const char *const names[ASKS] = {
    "--ddict-managers", "--ddict-mem",       "--ddict-log",     "--ddict-scope",
    "--ddict-gpu-bind", "--ddict-torch-env", "--ddict-results", "--ddict-transport",
    "--ddict-load",     "--ddict-restore",   "--ddict-save",    "--ddict-spill"};

static struct ask_options given, inherited; /* inherited: from salloc or sbatch, as srun sees it */
static int inert;                           /* the hidden srun: nothing of ours may start */
static int of_job;      /* srun: the job asked for a dictionary of all its steps */
static int in_job;      /* srun was started in a job, or for one */
static char job_id[16]; /* the job that we were started in */
static char tasks[32];  /* srun: what its tasks are told */
static int judged;      /* calls of options_judge: one for each component of a het job or step */

/* Slurm can call us twice with the same value, and first with the environment's. In slurmstepd the value is not looked at. */
static int on_option(int val, const char *optarg, int remote) {
    char *copy;

    if (remote || val < 0 || val >= ASKS)
        return 0;
    copy = optarg != NULL ? strdup(optarg) : NULL;
    free((void *)(uintptr_t)given.value[val]);
    given.value[val] = copy;
    return 0;
}

/* SLURM_JOB_ID is set by srun itself later, so it is looked at first of all; --jobid is nowhere to be asked for. */
static void job_look(void) {
    const char *id =
        getenv("SLURM_JOB_ID") != NULL ? getenv("SLURM_JOB_ID") : getenv("SLURM_JOBID");
    FILE *f = fopen("/proc/self/cmdline", "re");
    char *word = NULL;
    size_t room = 0;

    snprintf(job_id, sizeof job_id, "%s", id != NULL ? id : "");
    in_job = id != NULL;
    while (f != NULL && !in_job && getdelim(&word, &room, '\0', f) > 0)
        in_job = strncmp(word, "--jobid", 7) == 0;
    free(word);
    if (f != NULL)
        fclose(f);
}

/* The dictionary of the job that we were started in is not that of the job which is submitted. */
static void outer_forget(void) {
    const char *name = getenv("DDICT_NAME");
    char head[NAME_CAP];

    snprintf(head, sizeof head, "%u.%s.", geteuid(), job_id);
    if (name != NULL && job_id[0] != '\0' && strncmp(name, head, strlen(head)) == 0)
        unsetenv("DDICT_NAME");
}

/* DDICT_MEM=1G is --ddict-mem=1G. What an outer job asked for is no business of a job that is submitted from within. */
static void variables_adopt(int allocator) {
    int i;

    for (i = 0; i < ASKS; i++) {
        const char *value = getenv(variables[i]), *outer = getenv(option_variables[i]);

        if (allocator && job_id[0] != '\0')
            unsetenv(option_variables[i]);
        else if (outer != NULL)
            inherited.value[i] = strdup(outer);
        if (value != NULL && *value != '\0')
            setenv(option_variables[i], value, 1);
    }
    if (allocator) {
        torch_env_forget();
        unsetenv(JOB_VARIABLE);
        unsetenv(SCOPE_VARIABLE);
        outer_forget();
    }
}

void options_register(spank_t sp, int client) {
    const char *starter = getenv("DDICT_INTERNAL");
    int i;

    for (i = 0; i < ASKS; i++)
        spank_option_register(sp, &options[i]);
    inert = client && starter != NULL &&
            strtol(starter, NULL, 10) == getppid(); /* the user's own variable means nothing */
    if (client && !inert) {
        job_look();
        variables_adopt(spank_context() == S_CTX_ALLOCATOR);
    }
}

int options_inert(void) {
    return inert;
}

const char *options_in_job(void) {
    return in_job ? job_id : NULL;
}

static int asked(const struct ask_options *ask) {
    return ask->value[ASK_MANAGERS] != NULL || ask->value[ASK_MEM] != NULL;
}

static int scope_is(const char *value, const char *word) {
    return value != NULL && strcmp(value, word) == 0;
}

enum scope options_scope(void) {
    if (inert || (!asked(&given) && !of_job))
        return SCOPE_NONE;
    return of_job && !scope_is(given.value[ASK_SCOPE], "step") ? SCOPE_JOB : SCOPE_STEP;
}

const struct ask_options *options_of(enum scope scope) {
    return scope == SCOPE_JOB ? &inherited : &given;
}

static int differs(int i) {
    const char *a = given.value[i], *b = inherited.value[i];

    return a != NULL && (b == NULL || strcmp(a, b) != 0);
}

/* The name under which the user gave it. */
static const char *name_of(int i) {
    const char *v = getenv(variables[i]);

    return v != NULL && scope_is(given.value[i], v) ? variables[i] : names[i];
}

int site_collect(struct site *site, int ac, char **av, char *why, size_t cap) {
    int i, rc;

    memset(site, 0, sizeof *site);
    rc = site_read(site, why, cap);
    for (i = 0; i < ac && rc == 0; i++)
        rc = site_word(site, av[i], "plugstack.conf", why, cap);
    if (site->ddict[0] == '\0')
        snprintf(site->ddict, sizeof site->ddict, "%s", DDICT_BINDIR "/ddict");
    return rc;
}

/* What the tasks of a step get besides the dictionary: the user's word, else the site's, else ours. */
static void tasks_judge(const struct site *site) {
    const char *gpu = given.value[ASK_GPU], *torch = given.value[ASK_TORCH];
    char why[ASK_WHY];

    if ((gpu != NULL && site_choice(name_of(ASK_GPU), gpu, SITE_GPU_BIND, why, sizeof why) < 0) ||
        (torch != NULL &&
         site_choice(name_of(ASK_TORCH), torch, SITE_TORCH_ENV, why, sizeof why) < 0))
        fail("%s", why);
    snprintf(tasks, sizeof tasks, "%s %s %s",
             gpu != NULL                 ? gpu
             : site->gpu_bind[0] != '\0' ? site->gpu_bind
                                         : "closest",
             gpu != NULL                 ? "user"
             : site->gpu_bind[0] != '\0' ? "site"
                                         : "default",
             torch != NULL                ? torch
             : site->torch_env[0] != '\0' ? site->torch_env
                                          : "yes");
}

/* What can be judged before nodes and memory of the job are known. */
static void numbers_judge(int ac, char **av) {
    char why[ASK_WHY];
    struct site site;
    struct amount mem = {.bytes = DD_MEM_DEFAULT};
    uint32_t managers = 0;
    size_t dir_len;
    uint64_t spill;

    if (site_collect(&site, ac, av, why, sizeof why) < 0)
        fail("%s", why);
    tasks_judge(&site);
    if (given.value[ASK_TRANSPORT] != NULL &&
        site_transport(name_of(ASK_TRANSPORT), given.value[ASK_TRANSPORT], why, sizeof why) < 0)
        fail("%s", why);
    if (given.value[ASK_SPILL] != NULL && ask_spill(name_of(ASK_SPILL), given.value[ASK_SPILL],
                                                    &dir_len, &spill, why, sizeof why) < 0)
        fail("%s", why);
    managers = site.managers;
    if (site.mem.bytes > 0 || site.mem.share > 0)
        mem = site.mem;
    else if (site.max_mem > 0 && mem.bytes > site.max_mem)
        mem.bytes = site.max_mem;
    if (given.value[ASK_MANAGERS] != NULL &&
        ask_managers(name_of(ASK_MANAGERS), given.value[ASK_MANAGERS], &managers, why, sizeof why) <
            0)
        fail("%s", why);
    if (given.value[ASK_MEM] != NULL &&
        ask_amount(name_of(ASK_MEM), given.value[ASK_MEM], &mem, why, sizeof why) < 0)
        fail("%s", why);
    if (site_judge(&site, name_of(ASK_MANAGERS), managers, name_of(ASK_MEM), mem.bytes, why,
                   sizeof why) < 0)
        fail("%s", why);
    /* The largest number of nodes is not known yet: one manager a node at most, so that only what can never fit is refused here. */
    if (managers > 0 && mem.share == 0 && mem.bytes / managers < DD_MANAGER_MEM_MIN &&
        ask_fits(name_of(ASK_MEM), mem.bytes, name_of(ASK_MANAGERS), managers, managers, why,
                 sizeof why) < 0)
        fail("%s", why);
}

/* A variable without use is no error: it may be set for other commands. */
static void lonely_judge(int i) {
    if (given.value[i] != NULL && name_of(i) == names[i] &&
        !scope_is(inherited.value[i], given.value[i]))
        fail("%s=%.60s: also ask for a dictionary, with --ddict-managers or --ddict-mem", names[i],
             given.value[i]);
}

static void scope_judge(int allocator) {
    const char *scope = given.value[ASK_SCOPE];

    if (scope == NULL)
        return;
    if (strcmp(scope, "job") != 0 && strcmp(scope, "step") != 0)
        fail("%s=%.60s: want job or step", name_of(ASK_SCOPE), scope);
    if (!allocator && strcmp(scope, "job") == 0 && !of_job &&
        name_of(ASK_SCOPE) == names[ASK_SCOPE])
        fail("--ddict-scope=job: say it to salloc or sbatch; srun gives a dictionary to its step");
}

static void others_warn(void) {
    int i;

    for (i = ASK_MANAGERS; i <= ASK_MEM; i++)
        if (differs(i)) {
            slurm_spank_log("ddict: %s=%.60s: this step uses the job's dictionary; "
                            "--ddict-scope=step would give it one of its own",
                            name_of(i), given.value[i]);
            return;
        }
}

/* Within a step that has a dictionary an srun must not ask again. What the whole job has goes on to the last srun in it. */
static void variables_drop(int all) {
    int i;

    for (i = 0; i < ASKS; i++) {
        unsetenv(variables[i]);
        if (all)
            unsetenv(option_variables[i]);
        else if (inherited.value[i] != NULL)
            setenv(option_variables[i], inherited.value[i], 1);
        else
            unsetenv(option_variables[i]);
    }
    if (all)
        unsetenv(SCOPE_VARIABLE);
}

/* Whether salloc or sbatch asked for the whole job. The variable behind it is looked at where SPANK cannot say. */
static int job_asked(spank_t sp) {
    char scope[8] = "";
    spank_err_t rc = spank_job_control_getenv(sp, SCOPE_CONTROL, scope, sizeof scope);

    return scope_is(rc == ESPANK_SUCCESS ? scope : getenv(SCOPE_VARIABLE), "job");
}

static void intake_judge(void) {
    const char *load = given.value[ASK_LOAD], *restore = given.value[ASK_RESTORE],
               *save = given.value[ASK_SAVE], *dir;
    char why[ASK_WHY], prefix[INTAKE_MAX];
    int files;

    if ((load != NULL && intake_judge_load(name_of(ASK_LOAD), load, why, sizeof why) < 0) ||
        (restore != NULL &&
         intake_judge_restore(name_of(ASK_RESTORE), restore, why, sizeof why) < 0) ||
        (save != NULL && intake_save(name_of(ASK_SAVE), save, &dir, prefix, sizeof prefix, &files,
                                     why, sizeof why) < 0))
        fail("%s", why);
}

void options_judge(spank_t sp, int ac, char **av) {
    int allocator = spank_context() == S_CTX_ALLOCATOR;

    if (inert)
        return;
    of_job = !allocator && job_id[0] != '\0' && job_asked(sp);
    judged++;
    scope_judge(allocator);
    if (options_scope() == SCOPE_NONE) {
        lonely_judge(ASK_LOG);
        lonely_judge(ASK_SCOPE);
        lonely_judge(ASK_GPU);
        lonely_judge(ASK_TORCH);
        lonely_judge(ASK_RESULTS);
        lonely_judge(ASK_TRANSPORT);
        lonely_judge(ASK_LOAD);
        lonely_judge(ASK_SPILL);
        lonely_judge(ASK_RESTORE);
        lonely_judge(ASK_SAVE);
        return;
    }
    if (judged > 1 || (in_job && !allocator && getenv("SLURM_HET_SIZE") != NULL))
        fail("--ddict-managers and --ddict-mem do not work with heterogeneous jobs and steps");
    numbers_judge(ac, av);
    intake_judge();
    if (options_scope() == SCOPE_JOB)
        others_warn();
}

void options_launch(void) {
    if (setenv(TASKS_VARIABLE, tasks, 1) < 0)
        fail("out of memory");
    variables_drop(options_scope() == SCOPE_STEP);
}

void options_pass_on(spank_t sp) {
    char request[REQUEST_MAX];
    int i;

    if (options_scope() == SCOPE_NONE)
        return;
    for (i = 0; i < ASKS; i++)
        unsetenv(variables[i]); /* they are options now */
    if (scope_is(given.value[ASK_SCOPE], "step"))
        return;
    if (request_write(request, sizeof request, &given) < 0)
        fail("the options of --ddict-* are too long together");
    if (setenv(JOB_VARIABLE, request, 1) < 0 ||
        spank_job_control_setenv(sp, SCOPE_CONTROL, "job", 1) != ESPANK_SUCCESS)
        fail("the request for a dictionary cannot be passed on to the job");
}

void options_forget(spank_t sp) {
    int i;

    for (i = 0; i < ASKS; i++)
        spank_unsetenv(sp, option_variables[i]);
}

const char *options_value(spank_t sp, int option) {
    char *value = NULL;

    return spank_option_getopt(sp, &options[option], &value) == ESPANK_SUCCESS
               ? value != NULL ? value : ""
               : NULL;
}

int options_of_step(spank_t sp) {
    return options_value(sp, ASK_MANAGERS) != NULL || options_value(sp, ASK_MEM) != NULL;
}
