/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - read the command lines of `ddict up` and `ddict run`; wrong words are named with what is allowed. */
#include "launch/options.h"

#include "base/defaults.h"
#include "base/size.h"
#include "launch/intake.h"
#include "wire/attach.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum {
    OPT_MANAGERS = 256,
    OPT_MEM,
    OPT_NAME,
    OPT_JOB,
    OPT_STEP,
    OPT_MPI,
    OPT_SRUN,
    OPT_DDICTD,
    OPT_DRAIN,
    OPT_START,
    OPT_FOREGROUND,
    OPT_PLUGIN,
    OPT_LOCAL,
    OPT_LOG,
    OPT_RESULTS,
    OPT_CHDIR,
    OPT_SITE,
    OPT_ASKED,
    OPT_SCRIPT,
    OPT_TRANSPORT,
    OPT_LOAD,
    OPT_RESTORE,
    OPT_SAVE,
    OPT_SPILL
};

static const struct option words[] = {{"managers", required_argument, NULL, OPT_MANAGERS},
                                      {"mem", required_argument, NULL, OPT_MEM},
                                      {"name", required_argument, NULL, OPT_NAME},
                                      {"jobid", required_argument, NULL, OPT_JOB},
                                      {"step", required_argument, NULL, OPT_STEP},
                                      {"mpi", required_argument, NULL, OPT_MPI},
                                      {"srun", required_argument, NULL, OPT_SRUN},
                                      {"ddictd", required_argument, NULL, OPT_DDICTD},
                                      {"drain-ms", required_argument, NULL, OPT_DRAIN},
                                      {"start-timeout", required_argument, NULL, OPT_START},
                                      {"foreground", no_argument, NULL, OPT_FOREGROUND},
                                      {"plugin", no_argument, NULL, OPT_PLUGIN},
                                      {"local", no_argument, NULL, OPT_LOCAL},
                                      {"verbose", no_argument, NULL, 'v'},
                                      {"results", required_argument, NULL, OPT_RESULTS},
                                      {"log", required_argument, NULL, OPT_LOG},
                                      {"chdir", required_argument, NULL, OPT_CHDIR},
                                      {"site", required_argument, NULL, OPT_SITE},
                                      {"asked", required_argument, NULL, OPT_ASKED},
                                      {"load", required_argument, NULL, OPT_LOAD},
                                      {"restore", required_argument, NULL, OPT_RESTORE},
                                      {"save", required_argument, NULL, OPT_SAVE},
                                      {"script", required_argument, NULL, OPT_SCRIPT},
                                      {"ranks", required_argument, NULL, 'n'},
                                      {"transport", required_argument, NULL, OPT_TRANSPORT},
                                      {"spill", required_argument, NULL, OPT_SPILL},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

#define MORE_USAGE                                                                                \
    "  --mpi=TYPE     how managers find each other: auto (default), none: through srun; pmix, "   \
    "pmix_v4, ...: through Slurm's PMIx\n"                                                        \
    "  --transport=WHICH  what carries messages between nodes: auto (default), tcp, ofi or "      \
    "ofi:PROVIDER: libfabric (DDICT_TRANSPORT)\n"                                                 \
    "  --restore=PATH[,PATH...]    put what was saved there into it before anybody uses it; "     \
    "-PATH: where it is there (DDICT_RESTORE)\n"                                                  \
    "  --spill=DIR[:SIZE]  what memory has no room for goes to files in DIR, a folder on a disk " \
    "of each node, gone at the end; %j job, %s step, %u user; none (DDICT_SPILL)\n"               \
    "  --load=SOURCE[,SOURCE...]   put these into it before anybody uses it: ddict load, "        \
    "ddict(1) (DDICT_LOAD sets it, too)\n"                                                        \
    "  --save=[PREFIX:]DIR         write it to DIR at its end and before the time limit: for "    \
    "--restore, or what begins with PREFIX as files (DDICT_SAVE)\n"                               \
    "  --log=FILE     the record of what happened; %j job, %s step, %u user; none: no record "    \
    "(default in a job: ddict-%j.jsonl)\n"                                                        \
    "  --results=DIR  what Python's ddict.results submits is written below DIR while the job "    \
    "runs; %j job, %s step, %u user\n"                                                            \
    "  --site=WORD    a word of ddict.conf(5) for this dictionary: rma=, hugepages=, cache=, "    \
    "connections=, save_lead= ...\n"                                                              \
    "  --start-timeout=SECONDS, --drain-ms=MS, --srun=PATH, --ddictd=PATH, --chdir=DIR: see "     \
    "ddict(1)\n"

const char *options_usage(const char *verb) {
    if (strcmp(verb, "ddict run") == 0)
        return "usage: ddict run [--managers=N] [--mem=SIZE] [-n RANKS] [-v] [--local] [--] "
               "COMMAND [ARGUMENT...]\n"
               "Start a dictionary, run COMMAND with it, end it; the exit code is COMMAND's.\n"
               "  --managers=N   managers in the whole dictionary (default: one for each node)\n"
               "  --mem=SIZE     memory of the whole dictionary, such as 512M, 16G, or 40% of the "
               "job's (default: 1G)\n"
               "  -n, --ranks=N  run COMMAND N times on this machine, as ranks of each other; "
               "RANK, WORLD_SIZE and the like are set\n"
               "  --local        on this machine alone, also within a Slurm job\n"
               "  -v             say at the end what the dictionary held and did\n" MORE_USAGE
               "Within a Slurm job the managers run on all nodes of the job. Tasks of a step and "
               "of mpirun that all call it share one. DDICT_MANAGERS and DDICT_MEM set the "
               "defaults.\n";
    return "usage: ddict up [--managers=N] [--mem=SIZE] [--name=NAME] [--jobid=J [--step=S]] "
           "[--local] [--foreground]\n"
           "Start a dictionary and print the variable that names it: eval $(ddict up --managers=4 "
           "--mem=16G).\n"
           "It ends by `ddict down` or with the job.\n"
           "  --managers=N   managers in the whole dictionary (default: one for each node)\n"
           "  --mem=SIZE     memory of the whole dictionary, such as 512M, 16G, or 40% of the "
           "job's (default: 1G)\n"
           "  --jobid=J      on the nodes of this Slurm job (default: $SLURM_JOB_ID), or of its "
           "step S\n"
           "  --local        on this machine alone, also within a Slurm job\n"
           "  --name=NAME    call it so (default: <uid>.<job>.job)\n"
           "  --foreground   stay, until stdin ends\n" MORE_USAGE
           "DDICT_MANAGERS and DDICT_MEM set the defaults.\n";
}

static int name_check(const char *name) {
    return strlen(name) < DICT_NAME_MAX &&
           strspn(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") ==
               strlen(name) &&
           *name != '\0';
}

static int digits_check(const char *text) {
    return *text != '\0' && strlen(text) < 16 && strspn(text, "0123456789") == strlen(text);
}

/* One option; 0, -EINVAL with why set. */
static int option_take(struct options *o, int which, const char *value, const char **managers,
                       const char **mem, char *why, size_t cap) {
    uint64_t n;

    switch (which) {
    case OPT_MANAGERS:
        *managers = value;
        o->managers_name = o->plugin ? "--ddict-managers" : "--managers";
        return 0;
    case OPT_MEM:
        *mem = value;
        o->mem_name = o->plugin ? "--ddict-mem" : "--mem";
        return 0;
    case OPT_MPI:
        o->mpi = value;
        return 0;
    case OPT_SRUN:
        o->srun = value;
        return 0;
    case OPT_DDICTD:
        o->ddictd = value;
        return 0;
    case OPT_FOREGROUND:
        o->foreground = 1;
        return 0;
    case OPT_PLUGIN:
        o->plugin = 1;
        return 0;
    case OPT_LOAD:
        o->load = value;
        return 0;
    case OPT_RESTORE:
        o->restore = value;
        return 0;
    case OPT_SAVE:
        o->save = value;
        return 0;
    case OPT_LOG:
        o->log = value;
        return 0;
    case OPT_RESULTS:
        o->results = value;
        return 0;
    case OPT_ASKED:
        o->asked = value;
        return 0;
    case OPT_SCRIPT:
        o->script = value;
        return 0;
    case OPT_TRANSPORT:
        o->transport = value;
        return site_transport(o->plugin ? "--ddict-transport" : "--transport", value, why, cap);
    case OPT_SPILL:
        o->spill = value;
        return 0;
    case OPT_SITE:
        return site_word(&o->site, value, o->plugin ? "plugstack.conf" : "--site", why,
                         cap); /* --plugin comes first */
    case OPT_CHDIR:
        o->chdir = value;
        if (*value == '/')
            return 0;
        snprintf(why, cap, "--chdir=%.60s: want an absolute path", value);
        return -EINVAL;
    case OPT_LOCAL:
        o->local = 1;
        return 0;
    case 'v':
        o->verbose = 1;
        return 0;
    case 'n':
        if (strcmp(o->verb, "ddict run") != 0 || count_parse(value, 1, DD_RANKS_MAX, &n) < 0) {
            snprintf(why, cap, "-n %.40s: want 1 to %u, and only with run", value, DD_RANKS_MAX);
            return -EINVAL;
        }
        o->ranks = (int)n;
        return 0;
    case 'h':
        o->help = 1;
        return 0;
    case OPT_NAME:
        o->name = value;
        if (name_check(value))
            return 0;
        snprintf(why, cap, "--name=%.40s: want at most %d letters, digits, '.', '_' and '-'", value,
                 DICT_NAME_MAX - 1);
        return -EINVAL;
    case OPT_JOB:
    case OPT_STEP:
        *(which == OPT_JOB ? &o->job : &o->step) = value;
        if (digits_check(value))
            return 0;
        snprintf(why, cap, "--%s=%.40s: want a number", which == OPT_JOB ? "jobid" : "step", value);
        return -EINVAL;
    case OPT_DRAIN:
        if (count_parse(value, 0, 86400000, &n) < 0) {
            snprintf(why, cap, "--drain-ms=%.40s: want milliseconds, at most a day", value);
            return -EINVAL;
        }
        o->drain_ms = (int)n;
        return 0;
    case OPT_START:
        if (count_parse(value, 1, 86400, &n) < 0) {
            snprintf(why, cap, "--start-timeout=%.40s: want seconds, at most a day", value);
            return -EINVAL;
        }
        o->start_s = (int)n;
        return 0;
    default:
        return -EINVAL;
    }
}

/* What the user did not say is the site's, or ours. */
static void defaults_set(struct options *o) {
    const struct site *site = &o->site;

    if (o->managers == 0)
        o->managers = site->managers;
    if (!o->mem_given) {
        o->mem = (struct amount){.bytes = DD_MEM_DEFAULT};
        if (site->mem.bytes != 0 || site->mem.share != 0)
            o->mem = site->mem;
        if (o->mem.share == 0 && site->max_mem != 0 && o->mem.bytes > site->max_mem)
            o->mem.bytes = site->max_mem;
    }
    if (o->mpi == NULL)
        o->mpi = site->mpi[0] != '\0' ? site->mpi : "auto";
    if (o->transport == NULL)
        o->transport = site->transport[0] != '\0' ? site->transport : "auto";
    if (o->spill == NULL && site->spill[0] != '\0')
        o->spill = site->spill;
    if (o->srun == NULL && site->srun[0] != '\0')
        o->srun = site->srun;
    if (o->ddictd == NULL && site->ddictd[0] != '\0')
        o->ddictd = site->ddictd;
    if (o->drain_ms < 0)
        o->drain_ms = site->has_drain ? site->drain_ms : DD_DRAIN_MS;
    if (o->start_s == 0)
        o->start_s = site->start_s != 0 ? (int)site->start_s : DD_STEP_CREATE_MS / 1000;
}

int options_parse(struct options *o, int argc, char **argv, const char *(*env)(const char *),
                  char *why, size_t cap) {
    const char *managers = env("DDICT_MANAGERS"), *mem = env("DDICT_MEM"),
               *transport = env("DDICT_TRANSPORT");
    int run = strcmp(o->verb, "ddict run") == 0, c, rc;
    size_t dir_len;
    uint64_t spill;

    o->managers_name = "DDICT_MANAGERS";
    o->mem_name = "DDICT_MEM";
    o->log = env("DDICT_LOG_FILE");
    o->results = env("DDICT_RESULTS");
    o->load = env("DDICT_LOAD");
    o->spill = env("DDICT_SPILL");
    o->restore = env("DDICT_RESTORE");
    o->save = env("DDICT_SAVE");
    o->drain_ms = -1;
    optind = 0; /* glibc: begin anew */
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:n:vh", words, NULL)) != -1) {
        if (c == ':' || c == '?') {
            snprintf(why, cap, c == ':' ? "%.60s: needs a value" : "unknown option %.60s",
                     argv[optind - 1]);
            return -EINVAL;
        }
        if (option_take(o, c, optarg, &managers, &mem, why, cap) < 0)
            return -EINVAL;
    }
    if (o->help)
        return 0;
    if ((o->load != NULL &&
         intake_judge_load(o->plugin ? "--ddict-load" : "--load", o->load, why, cap) < 0) ||
        (o->restore != NULL && intake_judge_restore(o->plugin ? "--ddict-restore" : "--restore",
                                                    o->restore, why, cap) < 0))
        return -EINVAL;
    if (o->transport == NULL && transport != NULL && *transport != '\0') {
        if (site_transport("DDICT_TRANSPORT", transport, why, cap) < 0)
            return -EINVAL;
        o->transport = transport;
    }
    if (mem == NULL)
        o->mem_name =
            o->plugin ? "--ddict-mem" : "--mem"; /* to name it in refusals of the default */
    if (managers != NULL &&
        (rc = ask_managers(o->managers_name, managers, &o->managers, why, cap)) < 0)
        return rc;
    if (mem != NULL && (rc = ask_amount(o->mem_name, mem, &o->mem, why, cap)) < 0)
        return rc;
    if (managers == NULL)
        o->managers_name = o->plugin ? "--ddict-managers" : "--managers";
    if (o->spill != NULL && *o->spill == '\0')
        o->spill = NULL;
    if (o->spill != NULL && (rc = ask_spill(o->plugin ? "--ddict-spill" : "--spill", o->spill,
                                            &dir_len, &spill, why, cap)) < 0)
        return rc;
    o->mem_given = mem != NULL;
    o->managers_text = managers;
    o->mem_text = mem;
    o->foreground |= o->plugin && o->step != NULL;
    defaults_set(o);
    o->cmd = run && optind < argc ? argv + optind : NULL;
    if (run && o->cmd == NULL)
        snprintf(why, cap, "no command: ddict run --managers=2 --mem=1G -- COMMAND");
    else if (!run && optind < argc)
        snprintf(why, cap, "unknown word %.60s", argv[optind]);
    else if (o->step != NULL && o->job == NULL)
        snprintf(why, cap, "--step=%s: needs --jobid", o->step);
    else
        return 0;
    return -EINVAL;
}
