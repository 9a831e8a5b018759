/* SPDX-License-Identifier: Apache-2.0 */
/* hidden.h - the command line of what is started: ddictd alone, or the hidden srun that starts one on each node. */
#ifndef DDICT_LAUNCH_HIDDEN_H
#define DDICT_LAUNCH_HIDDEN_H

#include <signal.h>
#include <stdint.h>

/* The starter leaves the hidden srun alone, and our plugin in it makes it harmless: HANDSHAKE 3. Nothing happens where it is not caught. */
#define LEAVE_SIGNAL SIGURG

struct hidden {
    const char *ddictd;      /* absolute path, the same on all nodes */
    const char *name, *node; /* the dictionary; node: name of this node, NULL within Slurm */
    uint32_t managers, nodes;
    uint64_t mem; /* bytes of the whole dictionary */
    int drain_ms;
    int stay;       /* the dictionary of a job: EOF is nothing, one of several starts wins */
    uint32_t tasks; /* it ends with so many tasks (HANDSHAKE 6); 0: with none */
    const char *log, *summary, *asked, *script, *results, *spill; /* NULL or "": none */
    const char *save, *save_prefix; /* save "": nothing; prefix NULL: a dump */
    uint64_t spill_size;            /* bytes of the whole dictionary; 0: unsaid */
    int save_after_load;            /* not before loading.h says that all was loaded */
    uint64_t save_end;              /* seconds since 1970; 0: never */
    uint32_t save_lead, kill_wait;  /* seconds; kill_wait 0: not known */
    uint32_t connections;           /* between two managers; 0: as ddictd will */
    uint32_t port_low, port_high;   /* 0: any */
    const char *transport;          /* NULL: ddictd's default */
    const char *rma;                /* NULL: ddictd's default */
    const char *hugepages;          /* NULL or "": ddictd's default */
    int has_cache;
    uint64_t cache; /* bytes of the whole dictionary for values of other nodes while frozen */
    /* The rest only for the hidden step; srun NULL: ddictd is started directly. */
    const char *srun, *job, *nodelist;
    const char *mpi; /* "none" or "auto": the addresses travel by stdin and stdout (HANDSHAKE 2) */
    int external;    /* srun knows --external-launcher (from 23.11) */
    int together;    /* program: when one ends badly all are ended */
    const char *const
        *program; /* run this instead of ddictd; the fields above srun mean nothing then */
};

/* malloc'ed array of malloc'ed strings, for execve; NULL without memory. */
char **hidden_argv(const struct hidden *h);
void argv_free(char **argv);
/* Whether "slurm 23.11.4" (srun --version) is 23.11 or later. */
int hidden_knows_external(const char *version);

#endif
