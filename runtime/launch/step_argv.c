/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_argv.c - build the command line of the hidden step. Everything that has a default is said,
 * because the site's and the user's defaults are meant for the user's steps. What is less than
 * obvious:
 *
 *     --overlap, --mem=0,      it runs beside the user's step, in the job's memory, and takes no
 *     --gres=none              GPU away. Not --external-launcher (from 23.11): that drops --no-kill
 *                              and forgets whom to tell of a lost node, so Slurm kills the managers
 *                              of healthy nodes
 *     --unbuffered             else slurmstepd cuts lines at 1 KiB; the report is longer. Not for a
 *                              verb: its stdout would be a terminal
 *     --input=all              EOF must reach every node, also when the first one is dead
 *     --no-kill, --wait=0,     a lost node or manager is ours to report; Slurm must not end the
 *     --kill-on-bad-exit=0     others first
 *     --propagate=NONE         the user's ulimits (file size, address space) are not the managers'
 *     no -c                    it would imply --exact: one CPU for all managers of a node
 */
#include "step_argv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGV_ROOM (48 + 2 * OPTS)

struct args {
    char **argv;
    int n, failed;
};

static void args_add(struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void args_add(struct args *a, const char *fmt, ...) {
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
    args_add(a, "%s", h->srun);
    args_add(a, "--jobid=%s", h->job);
    args_add(a, "--nodelist=%s", h->nodelist);
    args_add(a, "--nodes=%u", h->nodes);
    args_add(a, "--ntasks=%u", h->nodes);
    args_add(a, "--ntasks-per-node=1");
    args_add(a, "--overlap");
    args_add(a, "--mem=0");
    args_add(a, "--gres=none");
    args_add(a, "--cpu-bind=none");
    args_add(a, "--mem-bind=none");
    args_add(a, "--distribution=block");
    args_add(a, "--export=ALL");
    args_add(a, "--chdir=/");
    if (!h->program)
        args_add(a, "--unbuffered");
    args_add(a, "--input=all");
    args_add(a, "--output=all");
    args_add(a, "--error=all");
    args_add(a, "--wait=0");
    args_add(a, "--kill-on-bad-exit=%d", h->together);
    args_add(a, "--no-kill");
    args_add(a, "--propagate=NONE");
    args_add(a, "--mpi=%s", by_srun(h) ? "none" : h->mpi);
    args_add(a, "--job-name=ddict");
    args_add(a, "--");
}

const char *hidden_wireup(const struct hidden *h) {
    return !h->srun ? "none" : by_srun(h) ? "stdio" : "pmix";
}

static void ddictd_args(struct args *a, const struct hidden *h) {
    char number[24];

    args_add(a, "%s", h->ddictd);
    for (enum option_id o = 0; o < OPTS; o++) {
        const char *value;

        if ((option_rows[o].of & OF_DDICTD) == 0 || !is_said(h->told, o))
            continue;
        args_add(a, "%s", option_rows[o].option);
        value = settings_write(h->told, o, number, sizeof number);
        if (value)
            args_add(a, "%s", value);
    }
}

char **hidden_argv(const struct hidden *h) {
    struct args a = {.argv = calloc(ARGV_ROOM, sizeof(char *))};
    int i;

    if (!a.argv)
        return NULL;
    if (h->srun)
        step_args(&a, h);
    if (h->program)
        for (i = 0; h->program[i]; i++)
            args_add(&a, "%s", h->program[i]);
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

    for (i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}
