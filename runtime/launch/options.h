/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command lines of `ddict up` and `ddict run`. */
#ifndef DDICT_LAUNCH_OPTIONS_H
#define DDICT_LAUNCH_OPTIONS_H

#include "launch/ask.h"
#include "launch/site.h"

#include <stdint.h>

/* Strings are borrowed from argv or the environment. */
struct options {
    const char *verb;  /* "ddict up" */
    struct site site;  /* the file's words and, over them, those of --site */
    uint32_t managers; /* 0: one per node */
    struct amount mem;
    const char *managers_name,
        *mem_name;          /* the option as the user typed it: --mem, --ddict-mem, DDICT_MEM */
    const char *name;       /* NULL: make one */
    const char *job, *step; /* NULL: no Slurm; the whole job */
    const char *mpi, *srun, *ddictd; /* NULL: look for it */
    const char *load, *restore;      /* what it has at its start: intake.h; NULL: nothing */
    const char *log, *chdir,
        *asked; /* of the record; NULL: the default, the working folder, the command line */
    const char *results;                  /* folder; NULL or "": none */
    const char *save;                     /* [PREFIX:]DIR, intake.h; NULL, "" or "none": nothing */
    const char *script;                   /* for ddictd; NULL: none */
    const char *transport;                /* auto, tcp, ofi, ofi:PROVIDER */
    const char *spill;                    /* DIR[:SIZE], or "none" */
    const char *managers_text, *mem_text; /* as they were asked for, NULL: not */
    int drain_ms;
    int start_s; /* limit on Slurm's creating the hidden step */
    int foreground, plugin, local, verbose, help;
    uint32_t tasks; /* run: of the step that shares the dictionary; 0: it is ours alone */
    int ranks;      /* run: 0: one command that is no rank */
    int mem_given;  /* by the user */
    char **cmd;     /* run: behind the options */
};

/* o has verb and the site's file; env is getenv-like, so that tests need no environment. 0, or -EINVAL with one sentence in why. */
int options_parse(struct options *o, int argc, char **argv, const char *(*env)(const char *),
                  char *why, size_t cap);
const char *options_usage(const char *verb);

#endif
