/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backlog.h - the answers that wait for room in a client's lane, first in, first out. They stand one
 * behind the other in blocks. A large backlog has blocks that malloc() maps one by one, so that
 * its memory goes back to the kernel a block at a time: memory of the heap would go back all at
 * once, with the last answer, and keep the manager for 10 ms and more. One thread.
 */
#ifndef DDICT_MANAGER_BACKLOG_H
#define DDICT_MANAGER_BACKLOG_H

#include <wire/msg.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backlog_block;
struct ledger_entry;
struct backlog { /* all zero: empty */
    struct backlog_block *first, *last;
    size_t at;        /* bytes of the first block that are done with */
    unsigned n;       /* answers */
    unsigned pins;    /* of them with MSGF_PLACED: each has a pin in the store */
    unsigned entries; /* of them with an entry in the ledger */
};
struct backlog_answer {
    struct msg msg;             /* msg.len counts header and payload */
    const uint8_t *payload;     /* in the backlog, until it changes */
    uint64_t off;               /* MSGF_PLACED: the item's offset in the arena */
    struct ledger_entry *entry; /* of its request, in the ledger; NULL: there is none */
    bool passes;                /* it is a part of a value, which the entry notes */
};
/* The entry ends with the answer. */
static inline bool backlog_ends(const struct backlog_answer *a) {
    return a->entry && (!a->passes || (a->msg.type == MSG_DATA && a->msg.flags & MSGF_LAST));
}

/* A copy of the answer, whose msg.len is set, and of its payload. 0 or -ENOMEM. */
int backlog_add(struct backlog *b, const struct backlog_answer *a);
/* The one that came first; false: there is none. */
bool backlog_first(const struct backlog *b, struct backlog_answer *a);
/* The one that came first is sent: there must be one. */
void backlog_drop(struct backlog *b);
/* None of them will be sent: calls drop() for each that has a pin or with which an entry ends, and
 * leaves the memory. */
void backlog_end(struct backlog *b, void (*drop)(void *arg, const struct backlog_answer *a),
                 void *arg);
/* Answers with an entry for which is_over() says so have none from now on: calls drop() for each. */
void backlog_forget(struct backlog *b, bool (*is_over)(void *arg, const struct ledger_entry *e),
                    void (*drop)(void *arg, const struct backlog_answer *a), void *arg);
/* Frees all memory. Pins and entries are the caller's (backlog_end()). Any thread, if no other uses
 * b. */
void backlog_free(struct backlog *b);

#endif
