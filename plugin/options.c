/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - the options of srun. The environment forms are made into the options themselves before srun reads them, so
 * that they travel with the step like typed ones; the command line comes later and wins.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/ask.h"
#include "base/defaults.h"
#include "base/size.h"
#include "plugin.h"

#define OPTION_VARIABLE "SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_"

static struct ask_options given = { .managers_name = "--ddict-managers", .mem_name = "--ddict-mem" };
static struct site site = { .ddict = DDICT_BINDIR "/ddict" };
static int inert;    /* the hidden srun: nothing of ours may start */
static int in_job;   /* srun was started in a job, or for one */
static int judged;   /* calls of options_judge: one for each component of a het step */

/* Slurm can call us twice with the same value, and first with the environment's. */
static int take(const char **at, const char *text) {
    char *copy = text != NULL ? strdup(text) : NULL;

    free((void *)(uintptr_t)*at);
    *at = copy;
    return 0;
}

static int on_managers(int val, const char *optarg, int remote) {
    return remote ? 0 : take(&given.managers, optarg);
}

static int on_mem(int val, const char *optarg, int remote) {
    return remote ? 0 : take(&given.mem, optarg);
}

static struct spank_option options[] = {
    { (char *)"ddict-managers", (char *)"N",
      (char *)"give the step a dictionary with N managers (default: one for each node)", 1, 0, on_managers },
    { (char *)"ddict-mem", (char *)"SIZE",
      (char *)"memory of the whole dictionary, such as 512M or 16G; out of the job's memory", 1, 0, on_mem },
};
#define OPTIONS (sizeof options / sizeof *options)

/* DDICT_MEM=1G is --ddict-mem=1G. */
static void variable_adopt(const char *variable, const char *option_variable) {
    const char *value = getenv(variable);

    if (value != NULL && *value != '\0')
        setenv(option_variable, value, 1);
}

/* SLURM_JOB_ID is set by srun itself later, so it is looked at first of all; --jobid is nowhere to be asked for. */
static void job_look(void) {
    FILE *f = fopen("/proc/self/cmdline", "re");
    char *word = NULL;
    size_t room = 0;

    in_job = getenv("SLURM_JOB_ID") != NULL || getenv("SLURM_JOBID") != NULL;
    while (f != NULL && !in_job && getdelim(&word, &room, '\0', f) > 0)
        in_job = strncmp(word, "--jobid", 7) == 0;
    free(word);
    if (f != NULL)
        fclose(f);
}

int options_in_job(void) {
    return in_job;
}

int options_register(spank_t sp, int local) {
    const char *starter = getenv("DDICT_INTERNAL");
    size_t i;

    for (i = 0; i < OPTIONS; i++)
        spank_option_register(sp, &options[i]);
    inert = local && starter != NULL && strtol(starter, NULL, 10) == getppid(); /* the user's own variable means nothing */
    if (local && !inert) {
        job_look();
        variable_adopt("DDICT_MANAGERS", OPTION_VARIABLE "managers");
        variable_adopt("DDICT_MEM", OPTION_VARIABLE "mem");
    }
    return 0;
}

int options_given(void) {
    return !inert && (given.managers != NULL || given.mem != NULL);
}

const struct ask_options *options_get(void) {
    return &given;
}

const struct site *options_site(void) {
    return &site;
}

/* The name under which the user gave it. */
static const char *name_of(const char *variable, const char *option, const char *value) {
    const char *v = getenv(variable);

    return v != NULL && value != NULL && strcmp(v, value) == 0 ? variable : option;
}

/* Words of the plugstack line. A wrong word is the administrator's; it must not stop users who ask for nothing. */
static void site_read(int ac, char **av) {
    static const struct {
        const char *word;
        size_t at;
    } words[] = { { "ddict=", offsetof(struct site, ddict) },
                  { "managers=", offsetof(struct site, managers) },
                  { "mem=", offsetof(struct site, mem) },
                  { "max_managers=", offsetof(struct site, max_managers) },
                  { "max_mem=", offsetof(struct site, max_mem) },
                  { "mpi=", offsetof(struct site, mpi) },
                  { "start_timeout=", offsetof(struct site, start_timeout) } };
    size_t w;
    int i;

    for (i = 0; i < ac; i++) {
        for (w = 0; w < sizeof words / sizeof *words; w++)
            if (strncmp(av[i], words[w].word, strlen(words[w].word)) == 0) {
                *(const char **)((char *)&site + words[w].at) = av[i] + strlen(words[w].word);
                break;
            }
        if (w == sizeof words / sizeof *words)
            slurm_error("ddict: unknown word '%.60s' on the plugin's line in plugstack.conf", av[i]);
    }
}

static void limits_judge(uint32_t managers, uint64_t *mem) {
    char why[ASK_WHY];
    uint32_t most;
    uint64_t max;

    if (site.start_timeout != NULL && count_parse(site.start_timeout, 1, 86400, &max) < 0)
        fail("plugstack.conf: start_timeout=%.40s: want seconds, at most a day", site.start_timeout);
    if (site.max_managers != NULL) {
        if (ask_managers("max_managers", site.max_managers, &most, why, sizeof why) < 0)
            fail("plugstack.conf: %s", why);
        if (managers > most)
            fail("%s=%u: at most %u on this cluster", given.managers_name, managers, most);
    }
    if (site.max_mem != NULL) {
        if (ask_mem("max_mem", site.max_mem, &max, why, sizeof why) < 0)
            fail("plugstack.conf: %s", why);
        if (*mem > max && given.mem != NULL)
            fail("%s=%s: at most %s on this cluster", given.mem_name, given.mem, site.max_mem);
        if (*mem > max) { /* our own default is too much for this cluster */
            given.mem = site.max_mem;
            *mem = max;
        }
    }
}

void options_judge(int ac, char **av) {
    char why[ASK_WHY];
    uint32_t managers = 0;
    uint64_t mem = DD_MEM_DEFAULT;

    if (inert)
        return;
    unsetenv(OPTION_VARIABLE "managers"); /* or a task's own srun would ask again */
    unsetenv(OPTION_VARIABLE "mem");
    if (!options_given())
        return;
    if (++judged > 1 || (in_job && getenv("SLURM_HET_SIZE") != NULL))
        fail("--ddict-managers and --ddict-mem do not work with heterogeneous jobs and steps");
    site_read(ac, av);
    given.managers_name = name_of("DDICT_MANAGERS", given.managers_name, given.managers);
    given.mem_name = name_of("DDICT_MEM", given.mem_name, given.mem);
    if (given.managers != NULL && ask_managers(given.managers_name, given.managers, &managers, why, sizeof why) < 0)
        fail("%s", why);
    if (given.managers == NULL && site.managers != NULL &&
        ask_managers("managers", given.managers = site.managers, &managers, why, sizeof why) < 0)
        fail("plugstack.conf: %s", why);
    if (given.mem != NULL && ask_mem(given.mem_name, given.mem, &mem, why, sizeof why) < 0)
        fail("%s", why);
    if (given.mem == NULL && site.mem != NULL && ask_mem("mem", given.mem = site.mem, &mem, why, sizeof why) < 0)
        fail("plugstack.conf: %s", why);
    limits_judge(managers, &mem);
    /* The largest number of nodes is not known yet: one manager a node at most, so that only what can never fit is refused here. */
    if (managers > 0 && mem / managers < DD_MANAGER_MEM_MIN &&
        ask_fits(given.mem_name, mem, given.managers_name, managers, managers, why, sizeof why) < 0)
        fail("%s", why);
}

void options_refuse(void) {
    if (given.managers != NULL || given.mem != NULL)
        fail("--ddict-managers and --ddict-mem are options of srun; for a batch job or salloc give them to the srun commands in it");
}

int options_of_step(spank_t sp) {
    size_t i;

    for (i = 0; i < OPTIONS; i++) {
        char *value = NULL;

        if (spank_option_getopt(sp, &options[i], &value) == ESPANK_SUCCESS)
            return 1;
    }
    return 0;
}
