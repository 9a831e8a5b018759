/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command line of ddictd (STARTUP 1). */
#ifndef DDICT_SUPERVISOR_OPTIONS_H
#define DDICT_SUPERVISOR_OPTIONS_H

#include <wire/attach.h>
#include <wire/seal.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum wireup_how { WIREUP_NONE, WIREUP_STDIO, WIREUP_PMIX };
struct options {
    char name[DICT_NAME_MAX];
    uint32_t managers; /* that own keys; 0: one for each node that has keys */
    uint64_t mem;      /* of the whole dictionary */
    /* the first so many nodes have keys, 0: all; forward_mem: bytes of the managers of a node
     * without */
    uint32_t keyed_nodes;
    uint64_t forward_mem;
    unsigned replicas;      /* copies of each value, on different nodes: 1 or 2 */
    bool refill;            /* what a lost node had of loaded sets is read again */
    uint32_t working_set;   /* checkpoints that it keeps; 0: it has none */
    unsigned working_flags; /* DDICT_WAIT_FOR_* */
    enum wireup_how wireup;
    uint32_t nodes, node_id; /* stdio; pmix finds them */
    char node[NODE_NAME_MAX];
    int drain_ms;
    /* to become ready; for a taken name; for the node infos of all; for the part of it between the
     * nodes; for libfabric */
    int ready_ms, elect_ms, fence_ms, gather_ms, fabric_ms;
    bool stay;
    /* the dictionary ends when so many processes have come and gone; 0: otherwise */
    uint32_t tasks;
    /* of argv, NULL when not given; the first two are absolute paths */
    const char *record, *summary, *asked;
    const char *results; /* an absolute path; NULL: none */
    const char *save;    /* an absolute path; NULL: nothing is saved */
    /* NULL: all as a dump; else the values of str keys that begin so as files */
    const char *save_prefix;
    bool save_after_load; /* not before the key "ddict.loaded" is there */
    /* seconds since 1970: the job's time is over then; 0: never */
    uint64_t save_end;
    const char *persist; /* of argv, DIR with the words behind it; NULL: none */
    uint64_t save_lead;  /* seconds before that, and before what writing takes */
    int kill_wait_ms;    /* from SIGTERM to SIGKILL */
    unsigned restarts;   /* deaths of a manager that are made good in DD_RESTARTS_MS; 0: none */
    char script_node[NODE_NAME_MAX]; /* where a process is watched, "": nowhere */
    pid_t script_pid;
    uint64_t script_began;        /* ticks, /proc/PID/stat */
    uint16_t port_low, port_high; /* 0: any */
    unsigned connections;         /* from a manager to another */
    const char *transport;        /* auto, tcp, ofi or ofi:PROVIDER */
    const char *rma;              /* yes, no or auto */
    bool has_wire;                /* it was asked for: a transport that cannot do it is refused */
    enum seal_mode wire;          /* protection of messages between nodes */
    uint64_t huge_page;           /* HUGE_NO, HUGE_ADVISE, or the size of a pool's pages */
    bool has_cache;
    /* bytes of the whole dictionary that values of other nodes may take while frozen */
    uint64_t cache;
    const char *spill;   /* of argv, an absolute path; NULL: none */
    uint64_t spill_size; /* of the whole dictionary; 0: what is free there */
    bool has_id;
    uint8_t dict_id[16];
};

/* 0; 1: --help or --version was answered; -EINVAL with the sentence set. */
int options_parse(struct options *o, int argc, char **argv);

#endif
