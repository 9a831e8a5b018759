/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - decide what is started where. */
#include "launch/plan.h"

#include "base/defaults.h"
#include "base/error.h"
#include "base/size.h"
#include "launch/command.h"
#include "launch/hidden.h"
#include "launch/record.h"
#include "launch/step.h"
#include "store/store.h"

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

    if (given != NULL)
        return command_find(given, path, cap) == 0
                   ? 0
                   : dd_error(-ENOENT, "--ddictd=%s: no such program", given);
    n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        if (command_beside(self, "ddictd", path, cap) == 0 ||
            command_beside(self, "../ddictd", path, cap) ==
                0) /* in a build folder ours is in .libs */
            return 0;
    }
    if (command_find(DDICT_BINDIR "/ddictd", path, cap) == 0)
        return 0;
    return dd_error(-ENOENT, "ddictd not found, neither beside %s nor in %s",
                    n > 0 ? self : "ddict", DDICT_BINDIR);
}

static int name_make(struct plan *p, const struct options *o) {
    int run = strcmp(o->verb, "ddict run") == 0;
    uint64_t random;

    if (o->name != NULL) {
        snprintf(p->name, sizeof p->name, "%s", o->name);
        return 0;
    }
    if (p->srun[0] != '\0' && !run) {
        snprintf(p->name, sizeof p->name, "%u.%s.%s", geteuid(), o->job,
                 o->step != NULL ? o->step : "job");
        return 0;
    }
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return dd_error(-errno, "no random numbers: %s", strerror(errno));
    snprintf(p->name, sizeof p->name, "%u.%s.r%016" PRIx64, geteuid(),
             p->srun[0] != '\0' ? o->job : "local", random);
    return 0;
}

/* Managers and memory against the nodes; whole: the memory that a share is of, 0: not known. */
static int numbers_judge(struct plan *p, const struct options *o, uint64_t whole) {
    char why[ASK_WHY], text[16];

    p->managers = o->managers;
    p->mem = amount_bytes(&o->mem, whole);
    if (o->mem.share != 0 && whole == 0)
        return dd_error(-EINVAL,
                        "%s=%s: Slurm does not say how much memory this job has on its nodes; give "
                        "a size, such as %s=16G",
                        o->mem_name, amount_format(text, sizeof text, &o->mem), o->mem_name);
    if (p->managers == 0)
        p->managers = p->nodes;
    if (p->managers < p->nodes) {
        snprintf(p->note, sizeof p->note, "%s=%u raised to %u: one for each node", o->managers_name,
                 p->managers, p->nodes);
        p->managers = p->nodes;
    }
    if (site_judge(&o->site, o->managers_name, p->managers, o->mem_name, p->mem, why, sizeof why) <
        0)
        return dd_error(-EINVAL, "%s", why);
    if (ask_fits(o->mem_name, p->mem, o->managers_name, p->managers, p->nodes, why, sizeof why) < 0)
        return dd_error(-EINVAL, "%s", why);
    return 0;
}

static int rooms_judge(const struct plan *p, const struct options *o, const struct step *step) {
    char why[ASK_WHY];
    uint32_t i;

    for (i = 0; i < p->nodes; i++) {
        uint64_t share = ask_share(p->mem, p->managers, p->nodes, i);

        if (ask_room(o->mem_name, p->mem, share, step->nodes.names[i], step->mb[i], step->per_cpu,
                     why, sizeof why) < 0 ||
            site_judge_share(&o->site, o->mem_name, p->mem, share, step->nodes.names[i],
                             step->mb[i] << 20, why, sizeof why) < 0)
            return dd_error(-EINVAL, "%s", why);
    }
    return 0;
}

/* "slurm 22.05.8": ddictd writes it into the record. */
static void version_tell(char **envp, const char *text) {
    static char entry[64];
    const char *at = strpbrk(text, "0123456789");

    if (at == NULL)
        return;
    snprintf(entry, sizeof entry, "DDICT_SLURM_VERSION=%.*s", (int)strcspn(at, " \t\r\n"), at);
    command_environment_add(envp, entry);
}

static int slurm_plan(struct plan *p, const struct options *o, struct hidden *h,
                      struct step *step) {
    char scontrol[PATH_MAX], *text;
    char *version[] = {p->srun, (char *)(uintptr_t) "--version", NULL};
    int rc;

    if (command_find(o->srun != NULL ? o->srun : "srun", p->srun, sizeof p->srun) < 0)
        return dd_error(-ENOENT,
                        "srun not found, but this is Slurm job %s; --local starts the managers on "
                        "this node alone",
                        o->job);
    if (command_beside(p->srun, "scontrol", scontrol, sizeof scontrol) < 0 &&
        command_find("scontrol", scontrol, sizeof scontrol) < 0)
        return dd_error(-ENOENT, "scontrol not found beside %s", p->srun);
    rc = step_look(step, scontrol, p->envp, o->job, o->step);
    if (rc < 0)
        return rc;
    p->nodes = (uint32_t)step->nodes.count;
    p->stay = o->tasks > 0 || (o->step == NULL && strcmp(o->verb, "ddict run") != 0);
    if (p->stay && o->tasks == 0 && step->batch && step->stdout_path != NULL &&
        step->stdout_path[0] == '/' && strchr(step->stdout_path, '%') == NULL &&
        strcmp(step->stdout_path, "/dev/null") != 0)
        snprintf(p->summary, sizeof p->summary, "%s", step->stdout_path);
    if (o->mem.share != 0)
        rc = step_look_real_memory(step, scontrol, p->envp);
    if (rc == 0)
        rc = numbers_judge(p, o, step_memory(step));
    if (rc == 0)
        rc = rooms_judge(p, o, step);
    if (rc < 0)
        return rc;
    if (command_read(version, p->envp, DD_SCONTROL_MS, &text) == 0) {
        h->external = hidden_knows_external(text);
        version_tell(p->envp, text);
        free(text);
    }
    h->srun = p->srun;
    h->job = o->job;
    h->nodelist = step->nodelist;
    h->mpi = o->mpi;
    return 0;
}

static int local_plan(struct plan *p, const struct options *o, struct hidden *h) {
    uint64_t have = memlimit_total();
    char all[16], machine[16];
    int rc;

    p->nodes = 1;
    p->stay = o->tasks > 0 || (strcmp(o->verb, "ddict run") != 0 && !o->foreground);
    rc = numbers_judge(p, o, have);
    if (rc == 0 && p->mem > have)
        rc = dd_error(-EINVAL, "%s of %s: this machine has %s", o->mem_name,
                      size_format(all, sizeof all, p->mem),
                      size_format(machine, sizeof machine, have));
    if (rc < 0)
        return rc;
    if (gethostname(p->node, sizeof p->node) < 0)
        snprintf(p->node, sizeof p->node, "localhost");
    p->node[sizeof p->node - 1] = '\0';
    p->node[strcspn(p->node, ".")] = '\0';
    h->node = p->node;
    return 0;
}

static int record_find(struct plan *p, const struct options *o) {
    struct passwd *user = getpwuid(geteuid());
    char folder[PATH_MAX], number[16], why[ASK_WHY];

    snprintf(number, sizeof number, "%u", geteuid());
    if (getcwd(folder, sizeof folder) == NULL)
        strcpy(folder, "/");
    if (record_path(p->log, sizeof p->log, o, folder, user != NULL ? user->pw_name : number, why,
                    sizeof why) < 0 ||
        results_path(p->results, sizeof p->results, o, folder,
                     user != NULL ? user->pw_name : number, why, sizeof why) < 0 ||
        save_path(p->save, sizeof p->save, &p->save_prefix, o, folder,
                  user != NULL ? user->pw_name : number, why, sizeof why) < 0 ||
        spill_path(p->spill, sizeof p->spill, &p->spill_size, o,
                   user != NULL ? user->pw_name : number, why, sizeof why) < 0)
        return dd_error(-EINVAL, "%s", why);
    return 0;
}

/* How long before its end the dictionary is saved, and after SIGTERM at the latest. */
static void save_times(struct hidden *h, const struct plan *p, const struct options *o,
                       const struct step *step) {
    char scontrol[PATH_MAX], *text;
    char *argv[] = {scontrol, (char *)(uintptr_t) "show", (char *)(uintptr_t) "config", NULL};

    h->save = p->save;
    h->save_prefix = p->save_prefix;
    h->save_lead = o->site.has_save_lead ? o->site.save_lead : DD_SAVE_LEAD_S;
    h->save_end = p->end;
    h->save_after_load = o->load != NULL || o->restore != NULL;
    if (p->save[0] == '\0' || p->srun[0] == '\0' ||
        command_beside(p->srun, "scontrol", scontrol, sizeof scontrol) < 0 ||
        command_read(argv, p->envp, DD_SCONTROL_MS, &text) < 0)
        return;
    h->kill_wait = (uint32_t)step_parse_kill_wait(text);
    free(text);
}

int plan_make(struct plan *p, const struct options *o) {
    struct hidden h = {.drain_ms = o->drain_ms};
    struct step step = {0};
    char ddictd[PATH_MAX];
    int slurm = o->job != NULL && !o->local, rc;

    memset(p, 0, sizeof *p);
    p->envp = command_environment(environ, !slurm);
    if (p->envp == NULL)
        return -ENOMEM;
    rc = slurm ? slurm_plan(p, o, &h, &step) : local_plan(p, o, &h);
    if (rc == 0)
        rc = name_make(p, o);
    if (rc == 0)
        rc = record_find(p, o);
    if (rc == 0)
        rc = ddictd_find(o->ddictd, ddictd, sizeof ddictd);
    if (rc == 0) {
        h.ddictd = ddictd;
        h.name = p->name;
        h.stay = p->stay;
        h.tasks = o->tasks;
        h.log = p->log;
        h.summary = p->summary;
        h.asked = o->asked;
        h.results = p->results;
        p->end = step.left > 0 ? (uint64_t)time(NULL) + step.left : 0;
        save_times(&h, p, o, &step);
        h.spill = p->spill;
        h.spill_size = p->spill_size;
        h.script = p->stay ? o->script : NULL;
        h.connections = o->site.connections;
        h.transport = o->transport;
        h.rma = o->site.rma[0] != '\0' ? o->site.rma : NULL;
        h.port_low = o->site.port_low;
        h.port_high = o->site.port_high;
        h.hugepages = o->site.hugepages;
        h.has_cache = o->site.no_cache || o->site.cache.bytes || o->site.cache.share;
        h.cache = amount_bytes(&o->site.cache, p->mem);
        h.managers = p->managers;
        h.nodes = p->nodes;
        h.mem = p->mem;
        p->argv = hidden_argv(&h);
        rc = p->argv == NULL ? -ENOMEM : 0;
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
        fprintf(stderr,
                "ddict: this cluster counts shared memory in every task and kills by it "
                "(JobAcctGatherParams has OverMemoryKill "
                "without NoShared or UsePss): ask for more memory, or tell the administrator\n");
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
