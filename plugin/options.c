/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - the options of srun, salloc and sbatch. The variable of an option is made into the
 * option itself before these programs read it, so that it travels with the step like a typed one;
 * the command line comes later and wins.
 */
#include "options.h"

#include "dictionary.h"
#include "fail.h"
#include <base/defaults.h>
#include <place/torch_env.h>
#include <wire/attach.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTION_VARIABLE "SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_"
#define SCOPE_CONTROL   "DDICT_SCOPE"
#define SCOPE_VARIABLE  "SLURM_SPANK_" SCOPE_CONTROL

/* given: to this program; inherited: by srun from salloc or sbatch */
static struct ask_options given, inherited;
static int inert;       /* the hidden srun: nothing of ours may start */
static int of_job;      /* srun: the job asked for a dictionary of all its steps */
static int in_job;      /* srun was started in a job, or for one */
static char job_id[16]; /* the job that we were started in */
static char tasks[32];  /* srun: what its tasks are told */
/* calls of options_judge: one for each component of a heterogeneous job or step; what was given for
 * the first one */
static int judged;
static struct ask_options of_first;

/* What an option says: Slurm hands one without a value on as nothing, "" or "(null)". */
static const char *value_of(int i, const char *text) {
    int none = !text || *text == '\0' || strcmp(text, "(null)") == 0;

    return none && option_rows[i].bare ? option_rows[i].bare : text;
}

/* Slurm calls this for the environment first, and maybe twice with one value. In slurmstepd the
 * value is not looked at. */
static int on_option(int val, const char *optarg, int remote) {
    char *copy;

    if (remote || val < 0 || val >= OPTS)
        return 0;
    optarg = value_of(val, optarg);
    copy = optarg ? strdup(optarg) : NULL;
    free((void *)(uintptr_t)given.value[val]);
    given.value[val] = copy;
    return 0;
}

static int of_srun(int i) {
    return (option_rows[i].of & OF_SRUN) != 0;
}

/* A row of the table as SPANK wants it. */
static struct spank_option *spank_option_of(int i) {
    static struct spank_option all[OPTS];
    const struct option_row *row = &option_rows[i];

    all[i] = (struct spank_option){(char *)(uintptr_t)(row->of_srun + strlen("--")),
                                   (char *)(uintptr_t)row->argument,
                                   (char *)(uintptr_t)row->help,
                                   row->bare ? 2 : 1,
                                   i,
                                   on_option};
    return &all[i];
}

/* The variable by which Slurm hands the option on; static text until the next call. */
static const char *option_variable(int i) {
    static char text[sizeof OPTION_VARIABLE + 32];
    char *c;

    snprintf(text, sizeof text, OPTION_VARIABLE "%s", option_rows[i].name);
    for (c = text; *c != '\0'; c++)
        if (*c == '-')
            *c = '_';
    return text;
}

/* Find out which job we were started in. To be called first of all: srun sets SLURM_JOB_ID itself
 * later. SPANK does not tell --jobid, so the command line is searched for it. */
static void job_look(void) {
    const char *id = getenv("SLURM_JOB_ID") ? getenv("SLURM_JOB_ID") : getenv("SLURM_JOBID");
    FILE *f = fopen("/proc/self/cmdline", "re");
    char *word = NULL;
    size_t room = 0;

    snprintf(job_id, sizeof job_id, "%s", id ? id : "");
    in_job = id != NULL;
    while (f && !in_job && getdelim(&word, &room, '\0', f) > 0)
        in_job = strncmp(word, "--jobid", 7) == 0;
    free(word);
    if (f)
        fclose(f);
}

/* Whether `srun --async` (Slurm 26.05) was typed, or an abbreviation. SPANK does not tell, and the
 * program may have a word that looks the same: getopt knows where srun's own words end. */
static int is_async(void) {
    FILE *f = fopen("/proc/self/cmdline", "re");
    char *word = NULL;
    size_t room = 0;
    int is = 0, i;

    for (i = 0; f && !is && i < optind && getdelim(&word, &room, '\0', f) > 0; i++)
        is = i > 0 && strlen(word) >= strlen("--as") && strncmp("--async", word, strlen(word)) == 0;
    free(word);
    if (f)
        fclose(f);
    return is;
}

/* Unset DDICT_NAME if it is of the job that we were started in: the job that is submitted has
 * another dictionary. */
static void outer_forget(void) {
    const char *name = getenv("DDICT_NAME");
    char head[NAME_CAP];

    snprintf(head, sizeof head, "%u.%s.", geteuid(), job_id);
    if (name && job_id[0] != '\0' && strncmp(name, head, strlen(head)) == 0)
        unsetenv("DDICT_NAME");
}

/* Make DDICT_MEM=1G into --ddict-mem=1G. A job that is submitted from within another one does not
 * inherit what that one asked for. */
static void variables_adopt(int allocator) {
    int i;

    for (i = 0; i < OPTS; i++) {
        const char *value, *outer;

        if (!of_srun(i))
            continue;
        value = getenv(option_rows[i].variable);
        outer = getenv(option_variable(i));
        if (allocator && job_id[0] != '\0')
            unsetenv(option_variable(i));
        else if (outer)
            inherited.value[i] = strdup(value_of(i, outer));
        if (value && *value != '\0')
            setenv(option_variable(i), value, 1);
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

    for (i = 0; i < OPTS; i++)
        if (of_srun(i))
            spank_option_register(sp, spank_option_of(i));
    /* a variable that the user set means nothing */
    inert = client && starter && strtol(starter, NULL, 10) == getppid();
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

static int anything_asked(const struct ask_options *ask) {
    int i;

    for (i = 0; i < OPTS; i++)
        if ((option_rows[i].of & ASKS) != 0 && ask->value[i])
            return 1;
    return 0;
}

static int scope_is(const char *value, const char *word) {
    return value && strcmp(value, word) == 0;
}

/* Whether each srun that asks has a dictionary of its own, or several. */
static int of_steps(void) {
    return scope_is(given.value[OPT_SCOPE], "step") ||
           scope_is(given.value[OPT_SCOPE], "component");
}

enum scope options_scope(void) {
    if (inert || (!anything_asked(&given) && !of_job))
        return SCOPE_NONE;
    return of_job && !of_steps() ? SCOPE_JOB : SCOPE_STEP;
}

unsigned options_components(void) {
    const char *size = getenv("SLURM_HET_SIZE");

    return scope_is(given.value[OPT_SCOPE], "component") && size && *size != '\0' ? (unsigned)judged
                                                                                  : 0;
}

const struct ask_options *options_of(enum scope scope) {
    return scope == SCOPE_JOB ? &inherited : &given;
}

static int option_differs(int i) {
    const char *a = given.value[i], *b = inherited.value[i];

    return a && (!b || strcmp(a, b) != 0);
}

static enum said_by given_by(int i) {
    const char *v = getenv(option_rows[i].variable);

    return v && scope_is(given.value[i], v) ? BY_VARIABLE : BY_OPTION;
}

/* The name under which the user gave it. */
static const char *name_of(int i) {
    return given_by(i) == BY_VARIABLE ? option_rows[i].variable : option_rows[i].of_srun;
}

int site_collect(struct settings *site, int ac, char **av, char *why, size_t cap) {
    int i, rc;

    memset(site, 0, sizeof *site);
    settings_put(site, OPT_PLUGIN, 1);
    rc = site_read(site, why, cap);
    for (i = 0; i < ac && rc == 0; i++)
        rc = settings_take_word(site, av[i], "plugstack.conf", why, cap);
    if (!is_said(site, OPT_DDICT))
        settings_put_text(site, OPT_DDICT, DDICT_BINDIR "/ddict");
    return rc;
}

/* Judge what can be judged before nodes and memory of the job are known. */
static void given_judge(int ac, char **av) {
    const struct amount *mem;
    char why[ASK_WHY];
    struct settings s;
    uint32_t managers;
    int i;

    if (site_collect(&s, ac, av, why, sizeof why) < 0)
        plugin_fail("%s", why);
    for (i = 0; i < OPTS; i++)
        if (given.value[i] &&
            settings_take(&s, i, given_by(i), given.value[i], why, sizeof why) < 0)
            plugin_fail("%s", why);
    if (settings_complete(&s, why, sizeof why) < 0)
        plugin_fail("%s", why);
    mem = &s.of[OPT_MEM].amount;
    managers = (uint32_t)number_of(&s, OPT_MANAGERS);
    if (site_judge(&s, managers, mem->bytes, why, sizeof why) < 0)
        plugin_fail("%s", why);
    /* The number of nodes is not known yet: assume one manager on each, so that only what can never
     * fit is refused here. */
    if (managers > 0 && mem->share == 0 && mem->bytes / managers < DD_MANAGER_MEM_MIN &&
        ask_fits(name_of(OPT_MEM), mem->bytes, name_of(OPT_MANAGERS), managers, managers, why,
                 sizeof why) < 0)
        plugin_fail("%s", why);
    snprintf(tasks, sizeof tasks, "%s %s %s", text_of(&s, OPT_GPU_BIND),
             is_by_user(&s, OPT_GPU_BIND)       ? "user"
             : s.of[OPT_GPU_BIND].by == BY_SITE ? "site"
                                                : "default",
             text_of(&s, OPT_TORCH_ENV));
}

/* Refuse an option that was typed without asking for a dictionary. A variable without use is no
 * error: it may be set for other commands. */
static void lonely_judge(int i) {
    if (given.value[i] && given_by(i) == BY_OPTION && !scope_is(inherited.value[i], given.value[i]))
        plugin_fail("%s=%.60s: also ask for a dictionary, with --ddict-managers or --ddict-mem",
                    name_of(i), given.value[i]);
}

static void scope_judge(int allocator) {
    const char *scope = given.value[OPT_SCOPE];
    struct settings s = {.of[OPT_PLUGIN].by = BY_OPTION};
    char why[ASK_WHY];

    if (!scope)
        return;
    if (settings_take(&s, OPT_SCOPE, given_by(OPT_SCOPE), scope, why, sizeof why) < 0)
        plugin_fail("%s", why);
    if (!allocator && strcmp(scope, "job") == 0 && !of_job && given_by(OPT_SCOPE) == BY_OPTION)
        plugin_fail(
            "--ddict-scope=job: say it to salloc or sbatch; srun gives a dictionary to its step");
}

static void others_warn(void) {
    int i;

    for (i = 0; i < OPTS; i++)
        if ((option_rows[i].of & ASKS) != 0 && option_differs(i)) {
            slurm_spank_log("ddict: %s=%.60s: this step uses the job's dictionary; "
                            "--ddict-scope=step would give it one of its own",
                            name_of(i), given.value[i]);
            return;
        }
}

/* Within a step that has a dictionary (all) an srun must not ask for another one. What the whole
 * job asked for goes on to every srun in it. */
static void variables_drop(int all) {
    int i;

    for (i = 0; i < OPTS; i++) {
        if (!of_srun(i))
            continue;
        unsetenv(option_rows[i].variable);
        if (all || !inherited.value[i])
            unsetenv(option_variable(i));
        else
            setenv(option_variable(i), inherited.value[i], 1);
    }
    if (all)
        unsetenv(SCOPE_VARIABLE);
}

/* Whether salloc or sbatch asked for the whole job. Where SPANK cannot say, the variable behind its
 * word is looked at. */
static int job_asked(spank_t sp) {
    char scope[8] = "";
    spank_err_t rc = spank_job_control_getenv(sp, SCOPE_CONTROL, scope, sizeof scope);

    return scope_is(rc == ESPANK_SUCCESS ? scope : getenv(SCOPE_VARIABLE), "job");
}

/* There is one request, which goes on with the first component: an option may be said again, but
 * not anew. */
static void components_judge(void) {
    int is_component = scope_is(of_first.value[OPT_SCOPE], "component"), i;

    for (i = 0; i < OPTS; i++) {
        const char *first = of_first.value[i], *now = given.value[i];

        if (now && (!first || strcmp(first, now) != 0))
            plugin_fail("%s=%.60s: %s; ask for %s before the first \":\"", option_rows[i].of_srun,
                        now,
                        is_component ? "all components of a heterogeneous step ask alike"
                                     : "all components of a heterogeneous job have one dictionary",
                        is_component ? "theirs" : "it");
    }
}

void options_judge(spank_t sp, int ac, char **av) {
    int allocator = spank_context() == S_CTX_ALLOCATOR, i;

    if (inert)
        return;
    if (judged++ > 0) {
        components_judge();
        return;
    }
    of_first = given;
    for (i = 0; i < OPTS; i++) { /* an option that is given again frees its text */
        of_first.value[i] = given.value[i] ? strdup(given.value[i]) : NULL;
        /* Slurm reads the variables once more for each component. What was typed for the first one
         * wins over them, so that all that differs from it is typed. */
        if (given.value[i] && getenv(option_variable(i)))
            setenv(option_variable(i), given.value[i], 1);
    }
    of_job = !allocator && job_id[0] != '\0' && job_asked(sp);
    scope_judge(allocator);
    if (options_scope() == SCOPE_NONE) {
        for (i = 0; i < OPTS; i++)
            lonely_judge(i);
        return;
    }
    given_judge(ac, av);
    if (options_scope() == SCOPE_JOB)
        others_warn();
    else if (!allocator && is_async())
        plugin_fail(
            "srun --async does not wait for its step, so it cannot have a dictionary of the "
            "step; ask sbatch or salloc for one of the job");
}

void options_launch(void) {
    if (setenv(TASKS_VARIABLE, tasks, 1) < 0)
        plugin_fail("out of memory");
    variables_drop(options_scope() == SCOPE_STEP);
}

void options_pass_on(spank_t sp) {
    char request[REQUEST_MAX];
    int i;

    if (options_scope() == SCOPE_NONE)
        return;
    for (i = 0; i < OPTS; i++)
        if (of_srun(i))
            unsetenv(option_rows[i].variable); /* they are options now */
    if (of_steps())
        return;
    if (request_write(request, sizeof request, &given) < 0)
        plugin_fail("the options of --ddict-* are too long together");
    if (setenv(JOB_VARIABLE, request, 1) < 0 ||
        spank_job_control_setenv(sp, SCOPE_CONTROL, "job", 1) != ESPANK_SUCCESS)
        plugin_fail("the request for a dictionary cannot be passed on to the job");
}

void options_forget(spank_t sp) {
    int i;

    for (i = 0; i < OPTS; i++)
        if (of_srun(i))
            spank_unsetenv(sp, option_variable(i));
}

const char *options_value(spank_t sp, enum option_id o) {
    char *value = NULL;

    return spank_option_getopt(sp, spank_option_of(o), &value) == ESPANK_SUCCESS
               ? value ? value : ""
               : NULL;
}

int options_of_step(spank_t sp) {
    int i;

    for (i = 0; i < OPTS; i++)
        if ((option_rows[i].of & ASKS) != 0 && options_value(sp, i))
            return 1;
    return 0;
}
