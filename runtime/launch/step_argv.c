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

#include "command.h"
#include "sruns.h"
#include "step.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_ROOM  64
#define COUNT_CHARS "00000000000" /* as many as an int has at most */

struct args {
    char **argv;
    int n, room, failed;
};

static void args_add(struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void args_add(struct args *a, const char *fmt, ...) {
    va_list ap;

    if (a->n + 2 > a->room) {
        char **more = realloc(a->argv, (size_t)(a->room + WORDS_ROOM) * sizeof *more);

        if (!more) {
            a->failed = 1;
            return;
        }
        a->argv = more;
        a->room += WORDS_ROOM;
    }
    va_start(ap, fmt);
    if (vasprintf(&a->argv[a->n], fmt, ap) < 0)
        a->failed = 1;
    else
        a->n++;
    va_end(ap);
    a->argv[a->n] = NULL;
}

/* The managers' addresses travel by srun's stdin and stdout. Always where there are several steps:
 * PMIx knows those of one. */
static int by_srun(const struct hidden *h) {
    return h->nparts > 1 || strcmp(h->mpi, "none") == 0 || strcmp(h->mpi, "auto") == 0;
}

static void step_args(struct args *a, const struct hidden *h, const struct part *part) {
    args_add(a, "%s", h->srun);
    args_add(a, "--jobid=%s", h->job);
    args_add(a, "--nodelist=%s", part->nodelist);
    args_add(a, "--nodes=%u", part->nodes);
    args_add(a, "--ntasks=%u", part->nodes);
    if (part->group >= 0)
        args_add(a, "--het-group=%d", part->group);
    args_add(a, "--ntasks-per-node=1");
    args_add(a, "--overlap");
    args_add(a, "--mem=0");
    args_add(a, "--gres=none");
    args_add(a, "--cpu-bind=none");
    args_add(a, "--mem-bind=none");
    args_add(a, "--distribution=block");
    if (part->job != 0) /* Slurm's variables name the first component alone */
        args_add(a, "--export=ALL,DDICT_COMPONENT=%u", part->job);
    else
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

/* base: the node id of the first node of this step. */
static void ddictd_args(struct args *a, const struct hidden *h, uint32_t base) {
    char number[24];

    args_add(a, "%s", h->ddictd);
    for (enum option_id o = 0; o < OPTS; o++) {
        const char *value;

        if ((option_rows[o].of & OF_DDICTD) == 0 || !is_said(h->told, o))
            continue;
        value = settings_write(h->told, o, number, sizeof number);
        if (value && option_rows[o].bare) { /* in a word of its own it would not be the value */
            args_add(a, "%s=%s", option_rows[o].option, value);
            continue;
        }
        args_add(a, "%s", option_rows[o].option);
        if (value)
            args_add(a, "%s", value);
    }
    if (base > 0) {
        args_add(a, "%s", option_rows[OPT_NODE_BASE].option);
        args_add(a, "%u", base);
    }
}

/* One program and its words; part NULL: without srun. */
static void part_args(struct args *a, const struct hidden *h, const struct part *part,
                      uint32_t base) {
    int i;

    if (part)
        step_args(a, h, part);
    if (h->program)
        for (i = 0; h->program[i]; i++)
            args_add(a, "%s", h->program[i]);
    else
        ddictd_args(a, h, base);
}

/* Before the words of each srun, how many they are. */
static void sruns_args(struct args *a, const struct hidden *h) {
    char self[PATH_MAX], ddict[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    uint32_t base = 0;
    size_t i;

    self[len > 0 ? len : 0] = '\0'; /* ddict, or ddict-load beside it */
    args_add(a, "%s",
             command_beside(self, "ddict", ddict, sizeof ddict) == 0 ? ddict
                                                                     : DDICT_BINDIR "/ddict");
    args_add(a, SRUNS_VERB);
    args_add(a, h->together ? SRUNS_TOGETHER : SRUNS_APART);
    for (i = 0; i < h->nparts; base += h->parts[i++].nodes) {
        int at = a->n;

        args_add(a, COUNT_CHARS);
        part_args(a, h, &h->parts[i], base);
        if (!a->failed)
            snprintf(a->argv[at], sizeof COUNT_CHARS, "%d", a->n - at - 1);
    }
}

char **hidden_argv(const struct hidden *h) {
    struct args a = {0};

    if (h->srun && h->nparts > 1)
        sruns_args(&a, h);
    else
        part_args(&a, h, h->srun ? h->parts : NULL, 0);
    if (a.failed) {
        argv_free(a.argv);
        return NULL;
    }
    return a.argv;
}

int argv_has_sruns(char *const *argv) {
    return argv[0] && argv[1] && strcmp(argv[1], SRUNS_VERB) == 0;
}

void argv_free(char **argv) {
    int i;

    for (i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}
