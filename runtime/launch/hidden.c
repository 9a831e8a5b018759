/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hidden.c - build the command line of the hidden step. Everything that has a default is said, because the site's and the user's
 * defaults are meant for the user's steps. What is less than obvious:
 *
 *   --overlap, --mem=0, --gres=none   it runs beside the user's step, in the job's memory, and takes no GPU away
 *   --unbuffered                      else slurmstepd cuts lines at 1 KiB; the report is longer. Not for a verb: its stdout would be a terminal
 *   --input=all                       EOF must reach every node, also when the first one is dead
 *   --no-kill, --kill-on-bad-exit=0, --wait=0    a lost node or manager is ours to report; Slurm must not end the others first
 *   --propagate=NONE                  the user's ulimits (file size, address space) are not the managers'
 *   no -c                             it would imply --exact: one CPU for all managers of a node
 */
#include "launch/hidden.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGV_ROOM 96

struct args {
    char **argv;
    int n, failed;
};

static void add(struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct args *a, const char *fmt, ...) {
    va_list ap;

    va_start(ap, fmt);
    if (a->n >= ARGV_ROOM - 1 || vasprintf(&a->argv[a->n], fmt, ap) < 0) {
        a->failed = 1;
        if (a->n < ARGV_ROOM)
            a->argv[a->n] = NULL;
    } else {
        a->n++;
    }
    va_end(ap);
}

/* The managers' addresses travel by srun's stdin and stdout. */
static int by_srun(const struct hidden *h) {
    return strcmp(h->mpi, "none") == 0 || strcmp(h->mpi, "auto") == 0;
}

static void step_args(struct args *a, const struct hidden *h) {
    add(a, "%s", h->srun);
    add(a, "--jobid=%s", h->job);
    add(a, "--nodelist=%s", h->nodelist);
    add(a, "--nodes=%u", h->nodes);
    add(a, "--ntasks=%u", h->nodes);
    add(a, "--ntasks-per-node=1");
    add(a, h->external ? "--external-launcher" : "--overlap");
    add(a, "--mem=0");
    add(a, "--gres=none");
    add(a, "--cpu-bind=none");
    add(a, "--mem-bind=none");
    add(a, "--distribution=block");
    add(a, "--export=ALL");
    add(a, "--chdir=/");
    if (h->program == NULL)
        add(a, "--unbuffered");
    add(a, "--input=all");
    add(a, "--output=all");
    add(a, "--error=all");
    add(a, "--wait=0");
    add(a, "--kill-on-bad-exit=%d", h->together);
    add(a, "--no-kill");
    add(a, "--propagate=NONE");
    add(a, "--mpi=%s", by_srun(h) ? "none" : h->mpi);
    add(a, "--job-name=ddict");
    add(a, "--");
}

static void text_arg(struct args *a, const char *option, const char *value) {
    if (value != NULL && *value != '\0') {
        add(a, "%s", option);
        add(a, "%s", value);
    }
}

static void save_args(struct args *a, const struct hidden *h) {
    text_arg(a, "--save", h->save);
    if (h->save_prefix != NULL) {
        add(a, "--save-prefix");
        add(a, "%s", h->save_prefix);
    }
    if (h->save_after_load)
        add(a, "--save-after-load");
    if (h->save_end != 0) {
        add(a, "--save-end");
        add(a, "%" PRIu64, h->save_end);
    }
    add(a, "--save-lead");
    add(a, "%u", h->save_lead);
    if (h->kill_wait != 0) {
        add(a, "--kill-wait");
        add(a, "%u", h->kill_wait);
    }
}

static void ddictd_args(struct args *a, const struct hidden *h) {
    add(a, "%s", h->ddictd);
    add(a, "--name");
    add(a, "%s", h->name);
    add(a, "--managers");
    add(a, "%u", h->managers);
    add(a, "--mem");
    add(a, "%" PRIu64, h->mem);
    add(a, "--wireup");
    if (h->srun != NULL && by_srun(h)) {
        add(a, "stdio");
        add(a, "--nodes");
        add(a, "%u", h->nodes);
    } else {
        add(a, "%s", h->srun != NULL ? "pmix" : "none");
    }
    add(a, "--drain-ms");
    add(a, "%d", h->drain_ms);
    if (h->stay)
        add(a, "--stay");
    if (h->tasks > 0) {
        add(a, "--tasks");
        add(a, "%u", h->tasks);
    }
    text_arg(a, "--node", h->node);
    text_arg(a, "--log", h->log);
    text_arg(a, "--summary", h->summary);
    text_arg(a, "--asked", h->asked);
    text_arg(a, "--script", h->script);
    if (h->connections != 0) {
        add(a, "--connections");
        add(a, "%u", h->connections);
    }
    text_arg(a, "--results", h->results);
    if (h->save != NULL && *h->save != '\0')
        save_args(a, h);
    text_arg(a, "--spill", h->spill);
    if (h->spill != NULL && *h->spill != '\0' && h->spill_size != 0) {
        add(a, "--spill-size");
        add(a, "%" PRIu64, h->spill_size);
    }
    text_arg(a, "--transport", h->transport);
    text_arg(a, "--rma", h->rma);
    if (h->port_low != 0) {
        add(a, "--ports");
        add(a, "%u-%u", h->port_low, h->port_high);
    }
    text_arg(a, "--hugepages", h->hugepages);
    if (h->has_cache) {
        add(a, "--cache");
        add(a, "%llu", (unsigned long long)h->cache);
    }
}

char **hidden_argv(const struct hidden *h) {
    struct args a = {.argv = calloc(ARGV_ROOM, sizeof(char *))};
    int i;

    if (a.argv == NULL)
        return NULL;
    if (h->srun != NULL)
        step_args(&a, h);
    if (h->program != NULL)
        for (i = 0; h->program[i] != NULL; i++)
            add(&a, "%s", h->program[i]);
    else
        ddictd_args(&a, h);
    if (a.failed) {
        argv_free(a.argv);
        return NULL;
    }
    return a.argv;
}

void argv_free(char **argv) {
    int i;

    for (i = 0; argv != NULL && argv[i] != NULL; i++)
        free(argv[i]);
    free(argv);
}

int hidden_knows_external(const char *version) {
    int major = 0, minor = 0;
    const char *digit = strpbrk(version, "0123456789");

    if (digit == NULL || sscanf(digit, "%d.%d", &major, &minor) != 2)
        return 0;
    return major > 23 || (major == 23 && minor >= 11);
}
