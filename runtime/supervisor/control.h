/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the ddictds of a dictionary and the messages between them (PROTOCOL 6). Who may send
 * which message, and what it does: control_messages.c.
 *
 *     node r > 0                                node 0                       all nodes r > 0
 *     READY, its managers are    ------------>  waits for those of all nodes
 *                                               READY                        ------------>
 *     DRAIN, where it heard      ------------>  DRAIN, also when the time    ------------>
 *     first of the end                          gets shorter
 *     DRAINED, clients are left  ------------>  waits for those of all nodes
 *                                               END                          ------------>
 *     STATS ..., STEP ..., END   ------------>  waits for those of all nodes
 *                                               DONE, the record is written  ------------>
 *     hangs up
 *
 *     all the time               <- BEAT, LOST, MEET, FREEZE, SAVE, ROUND ->
 *                                   NOTE, TASKS, DROP, HELD  ->
 *                                   <- HOLD_MAP, MAP
 *
 *     with --replicas=2 a node that has lost who decides, another node (election.h):
 *     VOTE                       ------------>
 *                                <------------  VOTED
 *     HOLD_MAP, if it won        ------------>  is below it from now on, by this connection
 *
 *     node r, an orphan:         another node:
 *     its parent is gone
 *     LOST, STATS ..., STEP ..., NOTE, END  ->  passes them on to its own parent, or is the head
 *                                           <-  DONE
 */
#ifndef DDICT_SUPERVISOR_CONTROL_H
#define DDICT_SUPERVISOR_CONTROL_H

#include "supervisor.h"

int control_listen(struct supervisor *s);
/* In the tree of nodes; id > 0. */
static inline uint32_t node_above(uint32_t id) {
    return (id - 1) / DD_TREE_CHILDREN;
}

enum control_from {
    FROM_PARENT = 1,
    FROM_CHILD = 2,  /* we decide (control_decides()) */
    FROM_ORPHAN = 4, /* we do not: its parent is gone */
    FROM_VOTER = 8,  /* by a connection for votes */
};
struct ctl_conn;
struct control_said { /* a message of another ddictd */
    enum control_from from;
    uint32_t node; /* who says it */
    unsigned type; /* enum msg_type */
    uint32_t manager;
    uint64_t aux, tag;
    const char *payload;
    size_t len;
    struct ctl_conn *by;
};
/* 0; 1: it is for our parent, too; or a negative code: the connection is closed. */
typedef int control_heard(struct supervisor *s, const struct control_said *said);
/* heard gets the messages of all others. */
int control_start(struct supervisor *s, control_heard *heard);

/* --- what was heard of a node, or of our parent --- */
void control_node_ready(struct supervisor *s, uint32_t node);
void control_node_drained(struct supervisor *s, uint32_t node, bool drained);
void control_node_ended(struct supervisor *s, uint32_t node); /* no more comes from it */
/* A child lost it. If it is our parent, and silent here, too, it is lost. */
void control_node_silent(struct supervisor *s, uint32_t node);
void control_done(struct supervisor *s); /* our parent needs us no more */

/* --- what is said --- */
void control_ready(struct supervisor *s); /* our managers are ready */
/* takeover.h: READY to who decides now: it has been told all; or to a node below, that may not have heard it. */
void control_told(struct supervisor *s);
void control_ready_tell(struct supervisor *s, uint32_t node);
/* Likewise: what it may have missed of the end. */
void control_stage_tell(struct supervisor *s, uint32_t node);
/* tell the others, also when the time gets shorter */
void control_drain(struct supervisor *s, int wait_ms);
void control_drained(struct supervisor *s); /* so many clients are left here, to who decides */
void control_lost(struct supervisor *s);
void control_end(struct supervisor *s);        /* who decides: all shall end */
void control_stats_send(struct supervisor *s); /* node > 0: all figures that we have, then END */
/* For the record: to who writes it. */
void control_note(struct supervisor *s, const struct note *n);
/* Note that ddictd itself refused a connection; true: the first for DD_NOTE_MS. */
bool control_note_stranger(struct supervisor *s, const char *why);
/* Where a step meets, or (port 0) the question, to a node that is connected to us, or to our parent
 * (UINT32_MAX). */
void control_rendezvous(struct supervisor *s, uint32_t to, uint32_t node, uint16_t port,
                        const char *step);
/* node > 0: of this node */
void control_tasks(struct supervisor *s, uint32_t came, uint32_t here);
#define CONTROL_PARENT   UINT32_MAX
#define CONTROL_CHILDREN (UINT32_MAX - 1)
/* as control_freeze() */
void control_save(struct supervisor *s, uint32_t to, const void *word, size_t len);
/* To our parent, to all nodes below us, or to one of them. */
void control_freeze(struct supervisor *s, uint32_t to, const void *word, size_t len);
/* --replicas=2: its backup is to be dropped. */
void control_drop(struct supervisor *s, uint32_t owner, uint64_t epoch, const char *why);
/* To who decides, of this owner's keys (decider.h). */
void control_copy(struct supervisor *s, unsigned type, uint32_t owner, uint64_t epoch,
                  const void *word, size_t len);
/* DONE: the record is being written, nodes that gave their figures may go */
void control_release(struct supervisor *s);
/* An orphan, or one that was asked for its vote, says that the dictionary is lost: that is not to be
 * taken from it, as it may be the one that is cut off (--replicas=2). If it is right we find out by ourselves. */
bool control_orphan_errs(const struct supervisor *s);
void control_parent_late(struct supervisor *s); /* it should have said DONE */
/* We decide for all nodes: node 0, until it is lost and another takes its place (--replicas=2). */
bool control_decides(const struct supervisor *s);
/* We write the record: we are node 0, or the lowest node that lives. */
bool control_is_head(const struct supervisor *s);
bool control_has_parent(const struct supervisor *s); /* and it is up */
bool control_released(const struct supervisor *s);
bool control_alone(const struct supervisor *s); /* nobody is connected to us any more */
bool control_all_drained(const struct supervisor *s);
/* The others gave their figures or are gone. */
bool control_all_ended(const struct supervisor *s);
/* --- --replicas=2: held_map.h, grants.h, election.h --- */
/* Who decides: to all below us, or to one. */
void control_map(struct supervisor *s, uint32_t to, unsigned type, const void *bytes, size_t len);
void control_grant(struct supervisor *s, uint32_t node, uint32_t number); /* the answer to a beat */
/* Open a connection for votes, where there is none; by it, when it is up. */
void control_ask(struct supervisor *s, uint32_t node);
void control_ask_send(struct supervisor *s, uint32_t node, unsigned type, uint64_t aux);
/* By the connection by which that was said. */
void control_answer(struct supervisor *s, const struct control_said *to, unsigned type,
                    uint32_t manager, uint64_t aux, const void *bytes, size_t len);
/* We decide: who was asked is below us. control_undecide(): not any more, nobody is below us. */
void control_decide(struct supervisor *s);
void control_undecide(struct supervisor *s);
void control_parent_undecides(struct supervisor *s);          /* our parent says so */
void control_child_take(struct supervisor *s, uint32_t node); /* we decide: who was asked */
/* Who says that decides: it is our parent. Connections that we have opened for votes end. */
void control_parent_take(struct supervisor *s, const struct control_said *m);
bool control_has_child(const struct supervisor *s, uint32_t node);
bool control_parent_heard(struct supervisor *s); /* it is not silent */
/* We decide: a node without a connection is lost. */
void control_node_lost(struct supervisor *s, uint32_t node, uint64_t heard, const char *how);
/* Nobody decides any more: who is below, and who writes the record, is found as without replicas. */
void control_orphan(struct supervisor *s);
void control_close(struct supervisor *s);
const char *node_name(const struct supervisor *s, uint32_t id);

#endif
