/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor.h - inside ddictd, the parent of the managers of one node: it owns the arenas, the
 * lease pages, the lanes, the clients' sockets and the status page, and knows the other nodes. One
 * thread, one loop (main.c).
 *
 *     main.c        parse, become ready, serve, end
 *     wireup.c      which node are we, the node infos of all (node_info.c); gather.c: brings them
 *                   together where the starter does not
 *     transport.c   what carries the managers' messages
 *     elect.c       --stay: is the name ours, or is there another dictionary of it
 *     managers.c    the managers: processes and sockets; manager_events.c: what they say, their
 *                   death; lives.c: starts one again; watch.c: whether they still answer;
 *                   shadows.c: those that are backups alone may be lost;
 *                   places.c: their NUMA nodes, the GPUs; backtrace.c: where a fault was
 *     clients.c     the clients; client_attach.c: how one attaches; fork_leases.c: pages of forked
 *                   children; socket_files.c: socket files for containers
 *     status_page.c the page that clients look at
 *     rendezvous.c  where the ranks of a step meet; tasks.c: --tasks: the end with the last task
 *     freeze.c      all managers read-only, and back
 *     control.c     the ddictds of all nodes, and who takes the place of node 0; control_links.c:
 *                   their connections; control_messages.c: what they say to each other
 *     lifecycle.c   the stages from start to over; life_events.c: what others tell it; report.c: what
 *                   is said at the end; figures.c: the statistics of all managers
 *     owner_map.c   --replicas: who serves the keys of each owner, and who has their second copy;
 *                   coordinator.c: changes that when a node is lost; held_map.c: what of it
 *                   counts; election.c: who decides; decider.c: what it is told of a row;
 *                   takeover.c: what else goes on there; grants.c: leases
 *     owner_steps.c what is done after a loss, until the map has it; give_up.c: a process here has
 *                   no next life; new_backup.c: a second copy in place of one that is lost;
 *                   new_primary.c: --refill: keys without a copy begin anew; shadow_tries.c: on
 *                   which node; refill.c, refill_child.c: --refill: lost items are read again
 *     record.c      the lines of the record; record_writer.c: writes them; attach_counts.c: who
 *                   was attached
 *     results.c     --results: the child that writes them; save_passes.c, save_child.c: --save
 *     signals.c     signals, stdin, the batch script; startup_output.c: lines for the starter
 */
#ifndef DDICT_SUPERVISOR_SUPERVISOR_H
#define DDICT_SUPERVISOR_SUPERVISOR_H

#include "options.h"
#include <base/timers.h>
#include <manager/manager.h>
#include <manager/supmsg.h>
#include <wire/attach.h>
#include <wire/conn.h>
#include <wire/fabric/fabric_types.h>
#include <wire/loop.h>
#include <wire/status_page.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define RESTARTS_MAX 16 /* --restarts */
struct supervisor;
struct local_manager { /* one manager or shadow of this node, as ddictd sees it */
    struct supervisor *s;
    uint32_t id;     /* of a shadow: its owner's */
    uint32_t number; /* base/shadow.h; of a manager its id */
    bool shadow;
    char name[40]; /* for sentences: "manager 3", "the shadow of manager 3" */
    pid_t pid;     /* 0: not started, or ended and waited for */
    bool ready, gone, has_stats;
    bool given_up; /* a shadow that is lost or not needed any more: it is not started again */
    bool late;     /* a shadow that was started behind the start */
    bool filling;  /* such a one, and the map does not say yet that it has all */
    bool freezes;  /* it has not answered the last FREEZE */
    /* shared with the manager; outlives it */
    struct manager_page *page;
    struct ledger *ledger;   /* likewise; NULL without --restarts */
    struct results *results; /* likewise; NULL on one node, too */
    int arena_fd, arena_ro_fd, spill_fd, spill_ro_fd, listen_fd; /* spill: -1 without --spill */
    uint16_t port;
    uint64_t budget;                     /* of its arena */
    struct io_handler sock;              /* our end of the pair; fd -1: closed */
    struct unsent *unsent, **unsent_end; /* messages that did not fit into the socket */
    struct manager_stats stats;          /* the last answer to SUP_STATS */
    /* lives.c: the last deaths that were made good, a ring, and their number; the text of the last
     * one */
    uint64_t died_ns[RESTARTS_MAX];
    uint64_t deaths;
    char death[128];
    bool no_memory; /* for want of it the kernel killed the last one */
    /* watch.c: turns of its loop at our last look, and when they last moved, by our timers */
    uint64_t turns, turned_ns;
    bool pinged, silent; /* since they last moved; silent: we have logged it */
};

/* why it was drained; travels with DRAIN */
enum end_reason { REASON_DRAINED, REASON_DOWN, REASON_SIGNAL, REASON_ALONE };
#define REASON_ALONE_TEXT \
    "who started it went without a word (srun, `ddict up` or slurmstepd was killed)"
enum note_kind { NOTE_FULL = 1, NOTE_REFUSED, NOTE_RESTART, NOTE_NODE, NOTE_COPIES, NOTE_REFILL };
struct note {               /* an event for the record; travels to node 0 */
    uint32_t kind, manager; /* enum note_kind */
    uint64_t count, used_bytes, total_bytes;
    char node[NODE_NAME_MAX];
    char text[512];
};

/* lifecycle.h has the picture; they come in this order, and some are left out */
enum stage {
    STAGE_STARTING,
    STAGE_READY,
    STAGE_DRAINING,
    STAGE_SAVING,
    STAGE_ENDING,
    STAGE_REPORTED,
    STAGE_GATHERING,
    STAGE_RECORDING,
    STAGE_OVER
};

struct standing { /* a dictionary of our name that was there before this start (--stay) */
    uint8_t id[16];
    uint32_t managers, nodes; /* managers 0: there is none */
    uint64_t bytes;
};
struct node_address { /* of a node's ddictd */
    struct sockaddr_storage addr[ADDRS_MAX];
    int naddr;
};

struct transport {             /* between managers; provider "": TCP */
    char own[FABRIC_NAME_MAX]; /* what this node has */
    char all[FABRIC_NAME_MAX]; /* decided from the node infos of all */
    char why[512];             /* a sentence for it */
    bool rma;                  /* it also reads large values out of their owner's memory */
    /* the first node that has something else than node 0; 0: none */
    uint32_t differs;
    char other[FABRIC_NAME_MAX];
};

struct supervisor {
    struct options opt;
    char node[NODE_NAME_MAX];
    uint32_t node_id, nodes, managers;
    struct deal deal; /* of the keys over managers and nodes */
    uint64_t budget;  /* of each manager of this node */
    /* of the managers that own keys; spill_bytes: if each of their nodes has as much as this one,
     * or, where this one has no keys, as node 0 */
    uint64_t total_bytes, spill_bytes;
    struct conn_identity identity;
    /* of this node; the secret one until the wire-up is done */
    uint8_t secret_key[KEY_SIZE], public_key[KEY_SIZE];
    /* [nodes]: public keys until all node infos are in, then the secret shared with each node; NULL
     * on one node */
    uint8_t (*keys)[KEY_SIZE];
    struct transport transport;
    struct standing other;
    int epoll_fd;
    struct timers timers;
    enum stage stage;
    bool was_ready, lost;
    bool leaves; /* lost here alone: the others have all, and go on */
    /* the wire-up over PMIx went well, but the node infos say that this start ends here */
    bool ends_after_wireup;
    char text[512];                   /* why it is lost */
    uint32_t lost_manager, lost_node; /* who was; UINT32_MAX: not one of these */
    bool lost_memory;                 /* for want of memory: Slurm cancels the step then */
    bool cut_off;                     /* lost to this node; others may go on (--replicas=2) */
    enum end_reason reason;
    uint64_t began, ready_at;
    int exit_code;
    struct timer start_timer;
    struct timer watch;
    /* by our timers: when memory went above memory.high, and when it was last seen there; 0: not */
    uint64_t slowed_from, slowed_to;
    bool slowed_said;

    struct status_page *status_page;
    int status_page_ro_fd;

    struct local_manager *local; /* the managers of this node, by local index */
    unsigned local_n;
    /* the shadows of this node, those of the start in the order of their numbers, behind the managers in the memory of
     * `local`; without --replicas none */
    struct local_manager *shadows;
    unsigned shadows_n, shadows_max; /* those of later come behind; max: there is memory for */
    struct numa_map places;          /* of the managers */
    /* memlimit_kills() before there were managers, and the managers among those since */
    uint64_t memory_kills;
    /* map of this node's GPUs, once somebody asked; 0: not yet, or a negative code */
    int gpus_fd;
    /* by shadow_slot(): managers, with --replicas the shadows of the start; NULL on one node */
    struct peer_address *peers;
    char (*node_names)[NODE_NAME_MAX]; /* [nodes] */

    struct io_handler attach; /* the listening socket */
    struct sup_client *clients;
    unsigned attached; /* those that hold the dictionary's life during a drain */
    uint64_t next_id;  /* of clients and holds */
    struct fork_lease *fork_leases;
    struct rendezvous *rendezvous;
    struct tasks *tasks; /* --tasks; NULL: it ends otherwise */

    struct freezes *freezes;

    /* --replicas=2, else NULL: who serves which keys, [managers], as it counts, and as it is held; who
     * decides; what it does about nodes that are lost; our lease (of node 0 not with two nodes) */
    struct owner_place *owner_map;
    struct held_map *held;
    struct election *election;
    struct coordinator *coordinator;
    struct owner_steps *owner_steps;
    struct shadow_tries *shadow_tries;
    struct second_copy *second_copies;   /* [managers], new_backup.c */
    struct lost_primary *lost_primaries; /* [managers], give_up.c */
    unsigned *anew_deaths;               /* [managers], new_primary.c */
    struct refills *refills;             /* --refill, else NULL: keys that began anew here */
    struct grants *grants;

    struct control *control; /* NULL on one node */
    int control_fd;          /* listening; -1 on one node */
    uint16_t control_port;
    struct node_address *control_at; /* [nodes]; NULL on one node */

    struct io_handler signals, input;
    struct io_handler script; /* of --script; fd -1: not watched */
    char *line;               /* what came on stdin and is not a whole line yet */
    size_t line_len, line_cap;

    struct lifecycle *lifecycle;
    struct figures *figures; /* [managers] */
    struct record_writer *record_writer;
    struct attach_counts *attach_counts;
    struct note_pace strangers; /* refused by ddictd itself */
};
/* The dictionary goes on when a node is lost: there are leases, votes and a map of owners (PROTOCOL 13). */
static inline bool survives_nodes(const struct supervisor *s) {
    return s->opt.replicas > 1 || s->opt.refill;
}
/* ... as there are two copies of each value. */
static inline bool has_copies(const struct supervisor *s) {
    return s->opt.replicas > 1;
}
/* local[0 .. processes_n() - 1] are the managers and shadows of this node. */
static inline unsigned processes_n(const struct supervisor *s) {
    return s->local_n + s->shadows_n;
}
static inline bool node_has_keys(const struct supervisor *s) {
    return s->node_id < s->deal.keyed;
}

#endif
