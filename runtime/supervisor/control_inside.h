/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_inside.h - shared by the files of control.h: control.c, what is known and said of the
 * nodes; control_links.c, the connections to other ddictds. Both ends of one send a beat every
 * DD_PEER_BEAT_MS. A node that is silent for DD_PEER_LOST_MS, for DD_PEER_SLOWED_MS where its last
 * beat said that the kernel slows it, for DD_LEASE_WAIT_MS where others have all that it has
 * (coordinator.h), or whose connection ends without being announced, is lost. One thread.
 */
#ifndef DDICT_SUPERVISOR_CONTROL_INSIDE_H
#define DDICT_SUPERVISOR_CONTROL_INSIDE_H

#include "supervisor.h"

struct control_said;
struct ctl_conn { /* a connection to another ddictd */
    struct supervisor *s;
    struct ctl_conn *next;
    struct conn *conn;
    uint32_t node;  /* at the other end; of a child known from `up` on */
    bool up, dead;  /* dead: freed by the beat */
    bool probes;    /* opened because our parent is quiet; it only has to come up */
    bool votes;     /* for votes (election.h): its node is neither above nor below us by it */
    uint64_t began; /* of a child: when it was up */
    /* the last silence that was longer than DD_PEER_QUIET_MS, and when it ended */
    uint64_t quiet, quiet_at;
    /* by the clock of our timers: what comes late because we were stopped is not late */
    uint64_t heard;
    bool slowed; /* as its beats say: it is above memory.high, and may be late */
};
struct node_state {
    struct ctl_conn *child; /* a child */
    struct ctl_conn *asks;  /* opened by us, for votes */
    bool ready, drained;    /* node 0 only */
    bool ended;             /* it gave its statistics, or is gone */
    bool dead;              /* cannot be our parent */
};
struct control {
    struct supervisor *s;
    int (*heard)(struct supervisor *s, const struct control_said *said); /* control_heard */
    struct io_handler listener;
    struct ctl_conn *probe;          /* of conns; NULL: none */
    struct ctl_conn *conns, *parent; /* parent: of these; NULL: we are the head, or look for one */
    struct node_state *nodes;        /* [nodes] */
    uint32_t ready_n, drained_n, ended_n; /* so many of the other nodes are */
    struct timer beat, attempt;
    uint64_t search_until;        /* while we look for a parent; 0: we do not */
    bool ready;                   /* our own managers are */
    struct io_deferred all_ready; /* node 0: all are; run is NULL before */
    bool gave;                    /* our own figures */
    bool head, released;          /* released: the parent said DONE */
    bool asked_again;             /* a parent that was lost to us */
    uint32_t decides;             /* the node that decides for all (control_decides()) */
};

/* --- control_links.c --- */
int ctl_conns_listen(struct control *c); /* accept nodes, and send beats */
/* Connect to that node as our parent. Negative: no connection could be made. */
int parent_open(struct supervisor *s, uint32_t node);
/* Nothing is sent to NULL, and to one that is dead. */
void ctl_conn_send(struct ctl_conn *cc, unsigned type, uint32_t manager, uint64_t aux,
                   const void *payload, size_t len);
/* To our parent and all that are up. */
void ctl_conns_send(struct supervisor *s, unsigned type, uint32_t manager, uint64_t aux,
                    const char *text);
void lost_send(struct ctl_conn *cc); /* what is lost, of which s->text tells */
/* It was given up, and others have taken its place. Also by a connection that is about to be closed:
 * what it does not take from us now, it may take later. */
void cut_off_tell(struct ctl_conn *cc, uint32_t node);
/* We decide no more: its node is told so, and the connection ends. */
void undecide_tell(struct ctl_conn *cc);
/* Not within a callback of a connection. */
void ctl_conns_free_dead(struct control *c);

/* Its node is below us. */
static inline bool is_below(const struct ctl_conn *cc, const struct ctl_conn *parent) {
    return cc->up && cc != parent && !cc->votes;
}

/* --- control.c, for control_links.c --- */
/* The connection to our parent has ended, or it is silent (closed: false); how: for the sentence. */
void parent_lost(struct supervisor *s, const char *how, bool closed);
void child_lost(struct supervisor *s, uint32_t node, const char *how);
/* Each beat, of each connection: an orphan that is cut off is told so. */
void orphan_check(struct supervisor *s, struct ctl_conn *cc);

#endif
