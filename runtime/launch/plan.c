/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - decide what is started where. */
#include "plan.h"

#include "command.h"
#include "record_path.h"
#include "site.h"
#include "step.h"
#include "step_argv.h"
#include "text_keep.h"
#include <base/deal.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/process.h>
#include <base/size.h>
#include <base/verb.h>
#include <store/store.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int ddictd_find(const char *given, char *path, size_t cap) {
    char self[PATH_MAX];
    ssize_t n;

    if (given)
        return command_find(given, path, cap) == 0
                   ? 0
                   : dd_error(-ENOENT, "--ddictd=%s: no such program", given);
    n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        if (command_beside(self, "ddictd", path, cap) == 0 ||
            /* in a build folder ours is in .libs */
            command_beside(self, "../ddictd", path, cap) == 0)
            return 0;
    }
    if (command_find(DDICT_BINDIR "/ddictd", path, cap) == 0)
        return 0;
    return dd_error(-ENOENT, "ddictd not found, neither beside %s nor in %s",
                    n > 0 ? self : "ddict", DDICT_BINDIR);
}

static int name_make(struct plan *p, const struct options *o) {
    const struct settings *s = &o->set;
    uint64_t random;

    if (is_said(s, OPT_NAME)) {
        snprintf(p->name, sizeof p->name, "%s", text_of(s, OPT_NAME));
        return 0;
    }
    if (p->srun[0] != '\0' && !is_run(o) && !is_own(o)) {
        int n = snprintf(p->name, sizeof p->name, "%u.%s.%s", geteuid(), options_job(o),
                         is_said(s, OPT_STEP) ? text_of(s, OPT_STEP) : "job");

        if (p->component != 0)
            snprintf(p->name + n, sizeof p->name - (size_t)n, ".%u", p->component);
        return 0;
    }
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return dd_error(-errno, "no random numbers: %s", strerror(errno));
    snprintf(p->name, sizeof p->name, "%u.%s.r%016" PRIx64, geteuid(),
             p->srun[0] != '\0' ? options_job(o) : "local", random);
    return 0;
}

/* The components whose nodes shall have keys come first; how many nodes they have, or a negative
 * code. */
static int components_first(const char *name, const struct key_nodes *want, struct step *step) {
    size_t i, found = 0;
    uint32_t nodes = 0;

    if (!step || step->nparts == 0 || step->parts[0].group < 0)
        return dd_error(-EINVAL, "%s=het:%d: this is no heterogeneous job", name, want->group[0]);
    for (i = 0; i < want->groups; i++) {
        int rc = step_put_first(step, want->group[i], found);

        if (rc < 0)
            return rc == -ENOENT
                       ? dd_error(-EINVAL,
                                  "%s=het:%d: the dictionary has no node of that component alone",
                                  name, want->group[i])
                       : dd_error(rc, "no memory");
        if (found < step->nparts && step->parts[found].group == want->group[i])
            nodes += step->parts[found++].nodes;
    }
    return (int)nodes;
}

/* Whether lost items are read again; which nodes have keys is known. A site's word is for
 * dictionaries of which a node can be lost. */
static int refill_find(struct plan *p, const struct settings *s) {
    p->refill = is_yes(s, OPT_REFILL) && p->keyed > 1;
    if (p->refill || !is_yes(s, OPT_REFILL) || !is_by_user(s, OPT_REFILL))
        return 0;
    return dd_error(-EINVAL,
                    "%s: what a node loses can be read again by another one, and here one has "
                    "all keys",
                    settings_name(s, OPT_REFILL));
}

/* Copies of each value; which nodes have keys is known. A site's word is for dictionaries that can
 * have two. */
static int replicas_find(struct plan *p, const struct settings *s) {
    p->replicas = (unsigned)number_of(s, OPT_REPLICAS);
    if (p->replicas < 2 || p->keyed > 1)
        return 0;
    if (!is_by_user(s, OPT_REPLICAS)) {
        p->replicas = 1;
        return 0;
    }
    return dd_error(-EINVAL,
                    "%s=%u: two copies of a value need two nodes, and here one has all keys",
                    settings_name(s, OPT_REPLICAS), p->replicas);
}

/* Which nodes have keys, and how many copies; step NULL: this machine alone. */
static int key_nodes_find(struct plan *p, const struct settings *s, struct step *step) {
    const char *name = settings_name(s, OPT_KEY_NODES);
    struct key_nodes want = {.first = p->nodes};
    char why[ASK_WHY];
    int rc;

    if (is_said(s, OPT_KEY_NODES) &&
        ask_key_nodes(name, text_of(s, OPT_KEY_NODES), &want, why, sizeof why) < 0)
        return dd_error(-EINVAL, "%s", why);
    if (want.groups > 0 && is_said(s, OPT_COMPONENT))
        return dd_error(-EINVAL, "%s=%s: with %s=component each component has its own", name,
                        text_of(s, OPT_KEY_NODES), option_rows[OPT_SCOPE].of_srun);
    if (want.first > p->nodes)
        return dd_error(-EINVAL, "%s=%u: the dictionary is on %u node%s", name, want.first,
                        p->nodes, p->nodes == 1 ? "" : "s");
    rc = want.groups > 0 ? components_first(name, &want, step) : (int)want.first;
    if (rc < 0)
        return rc;
    p->keyed = (uint32_t)rc;
    p->forward_mem = want.forward_mem;
    rc = replicas_find(p, s);
    return rc < 0 ? rc : refill_find(p, s);
}

/* What the nodes without keys need for their managers; all of p else is known. */
static int forward_judge(struct plan *p, const struct settings *s) {
    struct deal deal = {.owners = p->managers, .nodes = p->nodes, .keyed = p->keyed};
    uint32_t rounds = (p->managers - 1) / p->keyed, each = rounds > 1 ? rounds : 1;
    char have[16], want[16];

    if (p->keyed == p->nodes)
        return 0;
    if (p->forward_mem == 0)
        p->forward_mem =
            each * DD_FORWARDER_MEM > DD_FORWARD_MEM ? each * DD_FORWARDER_MEM : DD_FORWARD_MEM;
    if (p->forward_mem < each * DD_MANAGER_MEM_MIN)
        return dd_error(-EINVAL, "%s: %s is too little for %u managers on a node without keys: %s",
                        settings_name(s, OPT_KEY_NODES),
                        size_format(have, sizeof have, p->forward_mem), each,
                        size_format(want, sizeof want, each * DD_MANAGER_MEM_MIN));
    if (deal_managers(&deal) > DD_MANAGERS_MAX)
        return dd_error(-EINVAL, "%s=%u: with those that forward these are %u managers; at most %u",
                        settings_name(s, OPT_MANAGERS), p->managers, deal_managers(&deal),
                        DD_MANAGERS_MAX);
    return 0;
}

/* Managers and memory against the nodes that have keys; whole: the memory that a share is of, 0: not known. */
static int numbers_judge(struct plan *p, const struct settings *s, uint64_t whole) {
    const char *mem_name = settings_name(s, OPT_MEM),
               *managers_name = settings_name(s, OPT_MANAGERS);
    const struct amount *mem = &s->of[OPT_MEM].amount;
    char why[ASK_WHY], text[16];

    p->managers = (uint32_t)number_of(s, OPT_MANAGERS);
    p->mem = amount_bytes(mem, whole);
    if (mem->share != 0 && whole == 0)
        return dd_error(-EINVAL,
                        "%s=%s: Slurm does not say how much memory this job has on its nodes; give "
                        "a size, such as %s=16G",
                        mem_name, amount_format(text, sizeof text, mem), mem_name);
    if (p->managers == 0)
        p->managers = p->keyed;
    if (p->managers < p->keyed) {
        snprintf(p->note, sizeof p->note, "%s=%u raised to %u: one for each node%s", managers_name,
                 p->managers, p->keyed, p->keyed < p->nodes ? " that has keys" : "");
        p->managers = p->keyed;
    }
    if (site_judge(s, p->managers, p->mem, why, sizeof why) < 0 ||
        ask_fits(mem_name, p->mem, managers_name, p->managers, p->keyed, why, sizeof why) < 0)
        return dd_error(-EINVAL, "%s", why);
    return forward_judge(p, s);
}

static int rooms_judge(const struct plan *p, const struct settings *s, const struct step *step) {
    char why[ASK_WHY];
    uint32_t i;

    for (i = 0; i < p->nodes; i++) {
        int has_keys = i < p->keyed;
        enum option_id asked = has_keys ? OPT_MEM : OPT_KEY_NODES;
        unsigned copies = has_keys ? p->replicas : 1;
        uint64_t all = has_keys ? p->mem : p->forward_mem,
                 share = has_keys ? ask_share(all, p->managers, p->keyed, i, copies) : all;

        if (ask_room(settings_name(s, asked), all, copies, share, step->nodes.names[i], step->mb[i],
                     step->per_cpu[i], why, sizeof why) < 0 ||
            site_judge_share(s, asked, all, copies, share, step->nodes.names[i], step->mb[i] << 20,
                             why, sizeof why) < 0)
            return dd_error(-EINVAL, "%s", why);
    }
    return 0;
}

/* "slurm 22.05.8": ddictd writes it into the record. */
static void version_tell(char **envp, const char *text) {
    static char entry[64];
    const char *at = strpbrk(text, "0123456789");

    if (!at)
        return;
    snprintf(entry, sizeof entry, "DDICT_SLURM_VERSION=%.*s", (int)strcspn(at, " \t\r\n"), at);
    command_environment_add(envp, entry);
}

static int slurm_plan(struct plan *p, const struct options *o, struct hidden *h,
                      struct step *step) {
    const struct settings *s = &o->set;
    struct component only = {.index = (int)number_of(s, OPT_COMPONENT)};
    char scontrol[PATH_MAX], *text;
    char *version[] = {p->srun, (char *)(uintptr_t) "--version", NULL};
    int rc;

    if (command_find(is_said(s, OPT_SRUN) ? text_of(s, OPT_SRUN) : "srun", p->srun,
                     sizeof p->srun) < 0)
        return dd_error(-ENOENT,
                        "srun not found, but this is Slurm job %s; --local starts the managers on "
                        "this node alone",
                        options_job(o));
    if (command_beside(p->srun, "scontrol", scontrol, sizeof scontrol) < 0 &&
        command_find("scontrol", scontrol, sizeof scontrol) < 0)
        return dd_error(-ENOENT, "scontrol not found beside %s", p->srun);
    rc = step_look(step, scontrol, p->envp, options_job(o), text_of(s, OPT_STEP),
                   is_said(s, OPT_COMPONENT) ? &only : NULL);
    if (rc < 0)
        return rc;
    if (is_said(s, OPT_COMPONENT))
        p->component = step->parts[0].job != 0 ? step->parts[0].job /* a job without components: */
                                               : (uint32_t)strtoul(options_job(o), NULL, 10);
    p->nodes = (uint32_t)step->nodes.count;
    p->stay = o->tasks > 0 || (!is_said(s, OPT_STEP) && !is_run(o) && !is_own(o));
    if (p->stay && o->tasks == 0 && step->batch && step->stdout_path &&
        step->stdout_path[0] == '/' && !strchr(step->stdout_path, '%') &&
        strcmp(step->stdout_path, "/dev/null") != 0)
        snprintf(p->summary, sizeof p->summary, "%s", step->stdout_path);
    if (s->of[OPT_MEM].amount.share != 0)
        rc = step_look_real_memory(step, scontrol, p->envp);
    if (rc == 0)
        rc = key_nodes_find(p, s, step);
    if (rc == 0)
        rc = numbers_judge(p, s, step_memory(step, p->keyed));
    if (rc == 0)
        rc = rooms_judge(p, s, step);
    if (rc < 0)
        return rc;
    if (command_read(version, p->envp, DD_SCONTROL_MS, &text) == 0) {
        version_tell(p->envp, text);
        free(text);
    }
    h->srun = p->srun;
    h->job = options_job(o);
    h->parts = step->parts;
    h->nparts = step->nparts;
    h->mpi = text_of(s, OPT_MPI);
    return 0;
}

static int local_plan(struct plan *p, const struct options *o) {
    uint64_t have = memlimit_total();
    char all[16], machine[16];
    int rc;

    p->nodes = 1;
    p->stay = o->tasks > 0 || (!is_run(o) && !is_own(o) && !is_said(&o->set, OPT_FOREGROUND));
    rc = key_nodes_find(p, &o->set, NULL);
    if (rc == 0)
        rc = numbers_judge(p, &o->set, have);
    if (rc == 0 && p->mem > have)
        rc = dd_error(-EINVAL, "%s of %s: this machine has %s", settings_name(&o->set, OPT_MEM),
                      size_format(all, sizeof all, p->mem),
                      size_format(machine, sizeof machine, have));
    if (rc < 0)
        return rc;
    if (is_said(&o->set, OPT_PROGRAM)) { /* which is to find it without $DDICT_NODE */
        attach_node_name(p->node, sizeof p->node);
        return 0;
    }
    if (gethostname(p->node, sizeof p->node) < 0)
        snprintf(p->node, sizeof p->node, "localhost");
    p->node[sizeof p->node - 1] = '\0';
    p->node[strcspn(p->node, ".")] = '\0';
    return 0;
}

static int record_find(struct plan *p, const struct settings *s, uint64_t *spill_size,
                       const char **save_prefix) {
    struct passwd *user = getpwuid(geteuid());
    char folder[PATH_MAX], number[16], why[ASK_WHY];
    const char *who = user ? user->pw_name : number;

    snprintf(number, sizeof number, "%u", geteuid());
    if (!getcwd(folder, sizeof folder))
        strcpy(folder, "/");
    if (record_path(p->record, sizeof p->record, s, folder, who, why, sizeof why) < 0 ||
        results_path(p->results, sizeof p->results, s, folder, who, why, sizeof why) < 0 ||
        save_path(p->save, sizeof p->save, save_prefix, s, folder, who, why, sizeof why) < 0 ||
        persist_path(p->persist, sizeof p->persist, s, folder, who, why, sizeof why) < 0 ||
        spill_path(p->spill, sizeof p->spill, spill_size, s, who, why, sizeof why) < 0)
        return dd_error(-EINVAL, "%s", why);
    return 0;
}

/* Of a job in Slurm: from SIGTERM to SIGKILL. 0: not known. */
static uint64_t kill_wait(const struct plan *p) {
    char scontrol[PATH_MAX], *text;
    char *argv[] = {scontrol, (char *)(uintptr_t) "show", (char *)(uintptr_t) "config", NULL};
    uint64_t seconds;

    if (p->srun[0] == '\0' || command_beside(p->srun, "scontrol", scontrol, sizeof scontrol) < 0 ||
        command_read(argv, p->envp, DD_SCONTROL_MS, &text) < 0)
        return 0;
    seconds = step_parse_kill_wait(text);
    free(text);
    return seconds;
}

/* When the dictionary is saved. */
static void save_times(struct settings *told, const struct plan *p) {
    uint64_t wait = kill_wait(p);

    if (is_said(told, OPT_LOAD) || is_said(told, OPT_RESTORE))
        settings_put(told, OPT_SAVE_AFTER_LOAD, 1);
    if (p->end != 0)
        settings_put(told, OPT_SAVE_END, p->end);
    if (wait != 0)
        settings_put(told, OPT_KILL_WAIT, wait);
}

/* This process, for the ddictd of its node: who kills all processes of a step at once kills srun with
 * us, and then nobody ends the managers' step. NULL: it is not watched. */
static const char *self_name(const struct plan *p) {
    const char *node = getenv("SLURMD_NODENAME");
    char text[NODE_NAME_MAX + 40];

    if (p->srun[0] == '\0' || !node || strlen(node) >= NODE_NAME_MAX)
        return NULL;
    snprintf(text, sizeof text, "%s/%d/%" PRIu64, node, (int)getpid(), process_began(getpid()));
    return text_keep(text);
}

/* ddictd is told what we were told, but values that had to be worked out are replaced. */
static int told_find(struct settings *told, struct plan *p, const struct options *o,
                     const struct hidden *h) {
    struct start_times times;
    const char *save_prefix;
    uint64_t spill_size;
    int rc = record_find(p, told, &spill_size, &save_prefix);

    if (rc < 0)
        return rc;
    settings_put_text(told, OPT_NAME, p->name);
    settings_put(told, OPT_MANAGERS, p->managers);
    settings_put(told, OPT_MEM, p->mem);
    settings_put(told, OPT_REPLICAS, p->replicas);
    settings_put_text(told, OPT_REFILL, p->refill ? "yes" : "no");
    if (p->keyed < p->nodes) {
        settings_put(told, OPT_KEYED_NODES, p->keyed);
        settings_put(told, OPT_FORWARD_MEM, p->forward_mem);
    } else {
        settings_put_text(told, OPT_FORWARD_MEM, NULL);
    }
    settings_put_text(told, OPT_RECORD, p->record);
    settings_put_text(told, OPT_RESULTS, p->results);
    settings_put_text(told, OPT_SAVE, p->save);
    settings_put_text(told, OPT_PERSIST, p->persist);
    settings_put_text(told, OPT_SAVE_PREFIX, save_prefix);
    if (save_prefix)
        /* "": all */
        told->of[OPT_SAVE_PREFIX] = (struct setting){.by = BY_STARTER, .text = save_prefix};
    if (p->save[0] != '\0')
        save_times(told, p);
    start_times(&o->set, &times);
    settings_put(told, OPT_READY_MS, (uint64_t)times.ready_ms);
    settings_put_text(told, OPT_SPILL, p->spill);
    if (spill_size != 0)
        settings_put(told, OPT_SPILL_SIZE, spill_size);
    settings_put_text(told, OPT_SUMMARY, p->summary);
    if (is_said(told, OPT_CACHE))
        settings_put(told, OPT_CACHE, amount_bytes(&told->of[OPT_CACHE].amount, p->mem));
    if (p->stay)
        settings_put(told, OPT_STAY, 1);
    else
        settings_put_text(told, OPT_SCRIPT, is_own(o) ? self_name(p) : NULL);
    if (o->tasks > 0)
        settings_put(told, OPT_TASKS, o->tasks);
    settings_put_text(told, OPT_NODE, p->node);
    settings_put_text(told, OPT_WIREUP, hidden_wireup(h));
    if (strcmp(hidden_wireup(h), "stdio") == 0)
        settings_put(told, OPT_NODES, p->nodes);
    return 0;
}

int plan_make(struct plan *p, const struct options *o) {
    struct settings told = o->set;
    struct hidden h = {.told = &told};
    struct step step = {0};
    char ddictd[PATH_MAX];
    int slurm = options_job(o) != NULL, rc;

    memset(p, 0, sizeof *p);
    p->envp = command_environment(environ, !slurm);
    if (!p->envp)
        return -ENOMEM;
    rc = slurm ? slurm_plan(p, o, &h, &step) : local_plan(p, o);
    p->end = step.left > 0 ? (uint64_t)time(NULL) + step.left : 0;
    if (rc == 0 && slurm && p->refill &&
        !(p->envp = command_environment_more(p->envp, environ, source_variables)))
        rc = -ENOMEM;
    if (rc == 0)
        rc = name_make(p, o);
    if (rc == 0)
        rc = told_find(&told, p, o, &h);
    if (rc == 0)
        rc = ddictd_find(text_of(&o->set, OPT_DDICTD), ddictd, sizeof ddictd);
    if (rc == 0) {
        h.ddictd = ddictd;
        p->argv = hidden_argv(&h);
        rc = !p->argv ? -ENOMEM : 0;
    }
    step_free(&step);
    return rc;
}

void plan_warn(const struct plan *p) {
    char scontrol[PATH_MAX], *text;
    char *argv[] = {scontrol, (char *)(uintptr_t) "show", (char *)(uintptr_t) "config", NULL};

    if (p->srun[0] == '\0' || command_beside(p->srun, "scontrol", scontrol, sizeof scontrol) < 0 ||
        command_read(argv, p->envp, 1000, &text) < 0)
        return;
    if (step_parse_overcounts(text))
        verb_say("this cluster counts shared memory in every task and kills by it "
                 "(JobAcctGatherParams has OverMemoryKill "
                 "without NoShared or UsePss): ask for more memory, or tell the administrator");
    free(text);
}

const char *plan_ended(const struct plan *p) {
    if (p->end != 0 && (uint64_t)time(NULL) + 1 >= p->end)
        return "the job's time limit came before all data was in the dictionary; loading counts "
               "against it: ask for more by --time, or load less";
    return "the job, or the dictionary, was ended before all data was in it";
}

void plan_free(struct plan *p) {
    argv_free(p->argv);
    free(p->envp);
    p->argv = p->envp = NULL;
}
