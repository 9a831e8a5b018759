/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - requests that wait, in memory that outlives the manager. */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

static void entry_number(struct ledger_entry *e, uint64_t seq) {
    __atomic_store_n(&e->seq, seq, __ATOMIC_RELEASE);
}

void ledger_open(struct ledger *l) {
    l->free = 0;
    for (uint64_t i = l->top; i > 0; i--)
        if (l->entry[i - 1].seq == 0) {
            l->entry[i - 1].at = l->free;
            l->free = i;
        }
}

struct ledger_entry *ledger_add(struct ledger *l, uint64_t client, uint64_t at, uint64_t deadline,
                                const struct msg *req, const void *key) {
    uint64_t i = l->free;
    if (req->key_len > LEDGER_KEY || (i == 0 && l->top == LEDGER_ENTRIES))
        return NULL;
    struct ledger_entry *e = &l->entry[i ? i - 1 : l->top];
    if (i)
        l->free = e->at;
    else
        l->top++;
    e->client = client;
    e->at = at;
    e->deadline = deadline;
    e->req = *req;
    memcpy(e->key, key, req->key_len);
    entry_number(e, ++l->seq);
    return e;
}

void ledger_end(struct ledger *l, struct ledger_entry *e) {
    entry_number(e, 0);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* free before its place is used */
    e->at = l->free;
    l->free = (uint64_t)(e - l->entry) + 1;
}

struct ledger_entry *ledger_find(struct ledger *l, uint64_t seq) {
    for (uint64_t i = 0; i < l->top; i++)
        if (seq && l->entry[i].seq == seq)
            return &l->entry[i];
    return NULL;
}

static int by_number(const void *a, const void *b) {
    const struct ledger_entry *const *x = a, *const *y = b;
    return (*x)->seq < (*y)->seq ? -1 : (*x)->seq > (*y)->seq;
}

struct ledger_entry **ledger_list(struct ledger *l, size_t *n) {
    struct ledger_entry **list = malloc((l->top + 1) * sizeof(struct ledger_entry *));
    *n = 0;
    for (uint64_t i = 0; list && i < l->top; i++)
        if (l->entry[i].seq)
            list[(*n)++] = &l->entry[i];
    if (list)
        qsort(list, *n, sizeof(struct ledger_entry *), by_number);
    return list;
}
