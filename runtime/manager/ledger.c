/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - requests that wait, in memory that outlives the manager. */
#include "ledger.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void entry_number(struct ledger_entry *e, uint64_t seq) {
    __atomic_store_n(&e->seq, seq, __ATOMIC_RELEASE);
}

/* --- places --- */
static struct ledger_entry *entry_at(struct ledger *l, uint64_t place) {
    return &l->entry[place - 1];
}

static uint64_t place_take(struct ledger *l) {
    uint64_t place = l->free;
    if (place)
        l->free = entry_at(l, place)->at;
    else if (l->top < LEDGER_ENTRIES)
        place = ++l->top;
    return place;
}

static void place_give(struct ledger *l, uint64_t place) {
    struct ledger_entry *e = entry_at(l, place);
    entry_number(e, 0);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* free before its place is used */
    e->at = l->free;
    l->free = place;
}

/* A part without its request is of one that was about to come, or about to end. */
static bool is_free(struct ledger *l, const struct ledger_entry *e) {
    return e->seq == 0 ||
           (e->seq & LEDGER_PART && entry_at(l, e->at)->seq != (e->seq & ~LEDGER_PART));
}

void ledger_open(struct ledger *l) {
    l->free = 0;
    for (uint64_t place = l->top; place > 0; place--)
        if (is_free(l, entry_at(l, place)))
            place_give(l, place);
}

/* --- requests --- */
static void parts_give(struct ledger *l, uint64_t part) {
    while (part) {
        uint64_t next = entry_at(l, part)->more;
        place_give(l, part);
        part = next;
    }
}

/* The rest of the key of the request in place `of`. */
static bool parts_add(struct ledger *l, uint64_t of, const uint8_t *key, uint32_t len) {
    struct ledger_entry *e = entry_at(l, of);
    uint64_t *more = &e->more;
    *more = 0;
    for (uint32_t done = LEDGER_KEY, n; done < len; done += n) {
        uint64_t part = place_take(l);
        if (!part) {
            parts_give(l, e->more);
            return false;
        }
        struct ledger_entry *p = entry_at(l, part);
        n = len - done < LEDGER_KEY ? len - done : LEDGER_KEY;
        memcpy(p->key, key + done, n);
        p->at = of;
        p->more = 0;
        entry_number(p, LEDGER_PART | (l->seq + 1));
        *more = part;
        more = &p->more;
    }
    return true;
}

struct ledger_entry *ledger_add(struct ledger *l, uint64_t client, uint64_t at, uint64_t deadline,
                                const struct msg *req, const void *key) {
    uint64_t place = place_take(l);
    if (!place)
        return NULL;
    if (!parts_add(l, place, key, req->key_len)) {
        place_give(l, place);
        return NULL;
    }
    struct ledger_entry *e = entry_at(l, place);
    e->client = client;
    e->at = at;
    e->deadline = deadline;
    e->value = e->got = e->end = 0;
    e->req = *req;
    memcpy(e->key, key, req->key_len < LEDGER_KEY ? req->key_len : LEDGER_KEY);
    entry_number(e, ++l->seq);
    return e;
}

void ledger_end(struct ledger *l, struct ledger_entry *e) {
    uint64_t more = e->more;
    place_give(l, (uint64_t)(e - l->entry) + 1);
    parts_give(l, more);
}

void ledger_key(const struct ledger *l, const struct ledger_entry *e, uint8_t *key) {
    uint32_t left = e->req.key_len;
    for (; left > LEDGER_KEY; left -= LEDGER_KEY) {
        memcpy(key, e->key, LEDGER_KEY);
        key += LEDGER_KEY;
        e = &l->entry[e->more - 1];
    }
    memcpy(key, e->key, left);
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
        if (l->entry[i].seq && !(l->entry[i].seq & LEDGER_PART))
            list[(*n)++] = &l->entry[i];
    if (list)
        qsort(list, *n, sizeof(struct ledger_entry *), by_number);
    return list;
}
