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
 *     all the time               <- BEAT, LOST, MEET, FREEZE, SAVE ->
 *                                   NOTE, TASKS, DROP  ->
 *                                   <- MAP
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
    FROM_CHILD = 2,  /* we are node 0 */
    FROM_ORPHAN = 4, /* we are another node: its parent is gone */
};
struct control_said { /* a message of another ddictd */
    enum control_from from;
    uint32_t node; /* who says it */
    unsigned type; /* enum msg_type */
    uint32_t manager;
    uint64_t aux, tag;
    const char *payload;
    size_t len;
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
/* tell the others, also when the time gets shorter */
void control_drain(struct supervisor *s, int wait_ms);
void control_drained(struct supervisor *s); /* node > 0: so many clients are left */
void control_lost(struct supervisor *s);
void control_end(struct supervisor *s);        /* node 0: all shall end */
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
/* --replicas=2. Node 0: the row of an owner, to all; others: its backup is to be dropped. */
void control_map(struct supervisor *s, uint32_t owner, uint64_t epoch, const void *word,
                 size_t len);
void control_drop(struct supervisor *s, uint32_t owner, uint64_t epoch, const char *why);
/* To who decides, of a copy of this owner's keys (new_backup.h). */
void control_copy(struct supervisor *s, unsigned type, uint32_t owner, uint64_t epoch,
                  const void *word, size_t len);
/* DONE: the record is being written, nodes that gave their figures may go */
void control_release(struct supervisor *s);
/* An orphan says that the dictionary is lost: that is not to be taken from it, as it may be the one
 * that is cut off (--replicas=2). If it is right we find out by ourselves. */
bool control_orphan_errs(const struct supervisor *s);
void control_parent_late(struct supervisor *s); /* it should have said DONE */
/* We decide for all nodes: node 0, until it is lost and another takes its place (--replicas=2). */
bool control_decides(const struct supervisor *s);
/* We write the record: we are node 0, or the lowest node that lives. */
bool control_is_head(const struct supervisor *s);
bool control_released(const struct supervisor *s);
bool control_alone(const struct supervisor *s); /* nobody is connected to us any more */
bool control_all_drained(const struct supervisor *s);
/* The others gave their figures or are gone. */
bool control_all_ended(const struct supervisor *s);
void control_close(struct supervisor *s);
const char *node_name(const struct supervisor *s, uint32_t id);

#endif
