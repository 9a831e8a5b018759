/* SPDX-License-Identifier: Apache-2.0 */
/* backlog.c - the answers that wait for room in a client's lane. */
#include "backlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_FIRST (32u << 10) /* bytes of the first block: a moment's answers, kept in the heap */
#define BLOCK       (1u << 20)  /* of each block behind it: malloc() maps it (main_loop.c) */

struct backlog_block {
    struct backlog_block *next;
    size_t fill, room; /* bytes of data */
    unsigned owning;   /* answers that were added with a pin, or with which an entry ends */
    _Alignas(16) uint8_t data[];
};
struct record {
    uint64_t off;
    struct ledger_entry *entry;
    bool passes;
    struct msg msg;
};

static size_t record_len(const struct msg *m) {
    return (sizeof(struct record) + m->len - MSG_HEADER + 15) & ~(size_t)15;
}

static bool owns(const struct backlog_answer *a) {
    return a->msg.flags & MSGF_PLACED || backlog_ends(a);
}

static bool block_add(struct backlog *b, size_t need) {
    size_t room = b->last ? BLOCK : BLOCK_FIRST;
    struct backlog_block *k;
    if (room < need)
        room = need;
    if (!(k = malloc(sizeof *k + room)))
        return false;
    k->next = NULL;
    k->fill = 0;
    k->owning = 0;
    k->room = room;
    *(b->last ? &b->last->next : &b->first) = k;
    b->last = k;
    return true;
}

int backlog_add(struct backlog *b, const struct backlog_answer *a) {
    const struct msg *m = &a->msg;
    size_t need = record_len(m);
    if ((!b->last || b->last->room - b->last->fill < need) && !block_add(b, need))
        return -ENOMEM;
    struct record r = {.off = a->off, .entry = a->entry, .passes = a->passes, .msg = *m};
    uint8_t *at = b->last->data + b->last->fill;
    memcpy(at, &r, sizeof r);
    if (m->len > MSG_HEADER)
        memcpy(at + sizeof r, a->payload, m->len - MSG_HEADER);
    b->last->fill += need;
    b->n++;
    b->pins += (m->flags & MSGF_PLACED) != 0;
    b->entries += a->entry != NULL;
    b->last->owning += owns(a);
    return 0;
}

bool backlog_first(const struct backlog *b, struct backlog_answer *a) {
    struct record r;
    if (b->n == 0)
        return false;
    memcpy(&r, b->first->data + b->at, sizeof r);
    *a = (struct backlog_answer){.msg = r.msg,
                                 .payload = b->first->data + b->at + sizeof r,
                                 .off = r.off,
                                 .entry = r.entry,
                                 .passes = r.passes};
    return true;
}

static void block_drop(struct backlog *b) {
    struct backlog_block *k = b->first;
    b->first = k->next;
    if (!b->first)
        b->last = NULL;
    b->at = 0;
    free(k);
}

void backlog_drop(struct backlog *b) {
    struct record r;
    memcpy(&r, b->first->data + b->at, sizeof r);
    b->at += record_len(&r.msg);
    b->n--;
    b->pins -= (r.msg.flags & MSGF_PLACED) != 0;
    b->entries -= r.entry != NULL;
    if (b->at == b->first->fill)
        block_drop(b);
}

void backlog_end(struct backlog *b, void (*drop)(void *arg, const struct backlog_answer *a),
                 void *arg) {
    struct backlog_block *k = b->pins + b->entries > 0 ? b->first : NULL;
    for (size_t at = b->at; k; k = k->next, at = 0)
        for (struct record r; k->owning > 0 && at < k->fill; at += record_len(&r.msg)) {
            memcpy(&r, k->data + at, sizeof r);
            struct backlog_answer a = {
                .msg = r.msg, .off = r.off, .entry = r.entry, .passes = r.passes};
            if (owns(&a))
                drop(arg, &a);
        }
    b->n = b->pins = b->entries = 0;
}

void backlog_forget(struct backlog *b, bool (*is_over)(void *arg, const struct ledger_entry *e),
                    void (*drop)(void *arg, const struct backlog_answer *a), void *arg) {
    struct backlog_block *k = b->entries > 0 ? b->first : NULL;
    for (size_t at = b->at; k; k = k->next, at = 0)
        for (struct record r; at < k->fill; at += record_len(&r.msg)) {
            memcpy(&r, k->data + at, sizeof r);
            struct backlog_answer a = {
                .msg = r.msg, .off = r.off, .entry = r.entry, .passes = r.passes};
            if (!r.entry || !is_over(arg, r.entry))
                continue;
            k->owning -= owns(&a) && !(r.msg.flags & MSGF_PLACED);
            b->entries--;
            r.entry = NULL;
            memcpy(k->data + at, &r, sizeof r);
            drop(arg, &a);
        }
}

void backlog_free(struct backlog *b) {
    while (b->first)
        block_drop(b);
    *b = (struct backlog){0};
}
