/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.c - values behind the first of their key, and the record that says which there are (LAYOUT
 * 12). A record may be moved by whatever makes room, so it is looked up again after each step that
 * may do so.
 */
#include "queue.h"

#include "compact.h"
#include "index.h"
#include "intent.h"
#include "lease.h"
#include "operation.h"
#include "rebuild.h"
#include "segment.h"
#include "spill_fill.h"
#include <base/error.h>
#include <base/hash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct queue_drop { /* a key whose queue was deleted */
    struct queue_drop *next;
    uint64_t hash;
    uint32_t key_len;
    uint8_t key[];
};

static struct queue_record *record_at(struct store *s, uint64_t off) {
    struct item *item = arena_at(s, off);
    return (struct queue_record *)(void *)(uintptr_t)item_value(item);
}

static struct queue_record *record_find(struct store *s, uint64_t hash, const void *key,
                                        uint32_t key_len, struct index_place *p) {
    if (!s->header->hidden)
        return NULL;
    index_find(s, QUEUE_RECORD_HASH(hash), key, key_len, p);
    return p->slot ? record_at(s, WORD_OFFSET(p->word)) : NULL;
}

/* Add ref's item under a hash of its own. DDICT_EFULL: nothing has changed, not even the item. */
static int hidden_add(struct store *s, struct store_ref *ref, uint64_t hash, uint64_t version) {
    struct item *item = ref->item;
    struct index_place p;
    int rc;
    index_find(s, hash, item->key, item->key_len, &p);
    while (!p.vacant) {
        if ((rc = segment_split(s, hash)) < 0)
            return rc;
        index_find(s, hash, item->key, item->key_len, &p);
    }
    uint64_t word = WORD_MAKE(hash, ref->off) | WORD_HIDDEN;
    item->hash = hash;
    item->version = version;
    item->check = item_check(item);
    if (p.home->reach < p.distance)
        word_store(&p.home->reach, p.distance); /* I13 */
    word_store(&s->header->hidden, s->header->hidden + 1);
    if (version & ITEM_QUEUED) /* not a record */
        operation_word(s, p.vacant, word, 0);
    word_store(p.vacant, word);
    p.segment->live++;
    STRESS_POINT(STRESS_W_HIDDEN);
    return 0;
}

static void hidden_remove(struct store *s, const struct index_place *p) {
    word_store(p->slot, WORD_EMPTY);
    p->segment->live--;
    word_store(&s->header->hidden, s->header->hidden - 1);
}

/* The caller has made room for one retired block. */
static void record_remove(struct store *s, const struct index_place *p) {
    hidden_remove(s, p);
    retire(s, WORD_OFFSET(p->word));
}

static bool record_unused(const struct queue_record *r) {
    return !r->most && r->drop == r->tail;
}

/* Make the record of a queue. */
static int record_make(struct store *s, uint64_t hash, const void *key, uint32_t key_len,
                       uint64_t most) {
    struct store_ref ref;
    /* with a spill: takes the last memory, and does not wait for room */
    s->spill.moving = s->spill.fd >= 0;
    int rc = store_reserve_memory(s, key, key_len, sizeof(struct queue_record), 0, &ref);
    /* a push does not wait */
    if (rc == -EINPROGRESS && compact_for_index(s, RUN_PAGES_MIN) == 0)
        rc = store_reserve_memory(s, key, key_len, sizeof(struct queue_record), 0, &ref);
    s->spill.moving = false;
    if (rc == -EINPROGRESS)
        rc = dd_error(DDICT_EFULL, "manager %u is full: no room for the record of a queue",
                      s->header->manager_id);
    if (rc < 0)
        return rc;
    *(struct queue_record *)(void *)ref.value = (struct queue_record){.most = most};
    if ((rc = hidden_add(s, &ref, QUEUE_RECORD_HASH(hash), ITEM_QUEUE)) < 0)
        store_abort(s, &ref);
    return rc;
}

bool store_queue_look(struct store *s, const void *key, uint32_t key_len, uint64_t hash,
                      struct store_queue *out) {
    struct index_place p;
    const struct queue_record *r = record_find(s, hash, key, key_len, &p);
    *out = (struct store_queue){0};
    if (!r)
        return false;
    *out = (struct store_queue){.most = r->most, .more = r->tail - r->head};
    return true;
}

int store_queue_limit(struct store *s, const void *key, uint32_t key_len, uint64_t most) {
    struct index_place p;
    uint64_t hash = key_hash(key, key_len);
    heap_ensure_settled(s);
    struct queue_record *r = record_find(s, hash, key, key_len, &p);
    if (!r)
        return record_make(s, hash, key, key_len, most);
    r->most = most;
    return 0;
}

int store_queue_push(struct store *s, struct store_ref *ref) {
    const struct item *item = ref->item;
    struct index_place p;
    uint64_t hash = item->hash;
    int rc;
    heap_ensure_settled(s);
    if (ref->fill && (rc = spill_finish(s, ref)) < 0)
        return rc;
    struct queue_record *r = record_find(s, hash, item->key, item->key_len, &p);
    if (!r && (rc = record_make(s, hash, item->key, item->key_len, 0)) < 0)
        return rc;
    if (!r)
        r = record_find(s, hash, item->key, item->key_len, &p);
    uint64_t n = r->tail;
    s->header->version++;
    if ((rc = hidden_add(s, ref, queue_value_hash(hash, n), ITEM_QUEUED | n)) < 0)
        return rc;
    r = record_find(s, hash, item->key, item->key_len, &p);
    r->tail = n + 1;
    return 0;
}

int store_queue_value(struct store *s, const void *key, uint32_t key_len, uint64_t hash, uint64_t n,
                      struct store_ref *ref) {
    struct index_place p;
    const struct queue_record *r = record_find(s, hash, key, key_len, &p);
    if (!r || n >= r->tail - r->head)
        return DDICT_ENOKEY;
    index_find(s, queue_value_hash(hash, r->head + n), key, key_len, &p);
    if (!p.slot)
        return DDICT_ENOKEY;
    uint64_t off = WORD_OFFSET(p.word);
    struct item *item = arena_at(s, off);
    *ref = (struct store_ref){.off = off,
                              .item = item,
                              .value =
                                  item_away(item) ? NULL : (uint8_t *)(uintptr_t)item_value(item)};
    return 0;
}

bool queue_swing(struct store *s, const struct index_place *first, const void *key,
                 uint32_t key_len, struct store_ref *next) {
    struct arena_header *h = s->header;
    struct index_place at, p;
    struct queue_record *r = record_find(s, first->hash, key, key_len, &at);
    if (!r || r->head == r->tail)
        return false;
    index_find(s, queue_value_hash(first->hash, r->head), key, key_len, &p);
    uint64_t off = WORD_OFFSET(p.word),
             word = WORD_MAKE(first->hash, off) | (first->word & WORD_DOT);
    struct item *item = arena_at(s, off);
    intent_begin(s, first, word, &p, item->version);
    operation_word(s, first->slot, word, WORD_OFFSET(first->word));
    item->hash = first->hash;
    STRESS_POINT(STRESS_W_HIDDEN);
    item->version = h->version;
    item->check = item_check(item);
    word_store(first->slot, word); /* I3 */
    STRESS_POINT(STRESS_W_SWUNG);
    hidden_remove(s, &p);
    STRESS_POINT(STRESS_W_HIDDEN);
    if (r->drop == r->head++)
        r->drop = r->head;
    intent_done(s);
    if (next)
        *next = (struct store_ref){
            .off = off,
            .item = item,
            .value = item_away(item) ? NULL : (uint8_t *)(uintptr_t)item_value(item)};
    return true;
}

int queue_delete_begin(struct store *s, uint64_t hash, const void *key, uint32_t key_len) {
    struct index_place p;
    const struct queue_record *r = record_find(s, hash, key, key_len, &p);
    /* no value behind the first, or the key is in the list already */
    if (!r || r->drop == r->tail || r->drop != r->head)
        return 0;
    struct queue_drop *d = malloc(sizeof *d + key_len);
    if (!d)
        return dd_error(-ENOMEM, "no memory to note a deleted queue");
    d->next = s->drops;
    d->hash = hash;
    d->key_len = key_len;
    memcpy(d->key, key, key_len);
    s->drops = d;
    return 0;
}

void queue_emptied(struct store *s, uint64_t hash, const void *key, uint32_t key_len,
                   bool deleted) {
    struct index_place p;
    struct queue_record *r = record_find(s, hash, key, key_len, &p);
    if (!r)
        return;
    if (deleted) {
        r->head = r->tail;
        STRESS_POINT(STRESS_W_HIDDEN);
        r->most = 0;
    }
    if (record_unused(r))
        record_remove(s, &p);
}

static void drop_end(struct store *s) {
    struct queue_drop *d = s->drops;
    s->drops = d->next;
    free(d);
}

bool queue_sweep(struct store *s, unsigned n) {
    while (s->drops && n > 0) {
        struct queue_drop *d = s->drops;
        struct index_place at, p;
        struct queue_record *r = record_find(s, d->hash, d->key, d->key_len, &at);
        if (!r) {
            drop_end(s);
            continue;
        }
        if (retire_reserve(s, n + 1) < 0)
            return false;
        for (; r->drop != r->head && n > 0; n--) {
            index_find(s, queue_value_hash(d->hash, r->drop), d->key, d->key_len, &p);
            /* else it was popped after a deletion before it */
            if (p.slot)
                hidden_remove(s, &p);
            STRESS_POINT(STRESS_W_HIDDEN);
            r->drop++;
            if (p.slot)
                retire(s, WORD_OFFSET(p.word));
        }
        if (r->drop != r->head)
            break;
        index_find(s, d->hash, d->key, d->key_len, &p);
        if (!p.slot && record_unused(r))
            record_remove(s, &at);
        drop_end(s);
    }
    return s->drops != NULL;
}

void queues_cleared(struct store *s) {
    while (s->drops)
        drop_end(s);
    word_store(&s->header->hidden, 0);
}

void queues_close(struct store *s) {
    while (s->drops)
        drop_end(s);
}

/* --- an arena that was in use; the heap is rebuilt later, so a block without a word is free --- */
static bool value_place(struct store *s, uint64_t hash, const struct item *record, uint64_t n,
                        struct index_place *p) {
    index_find(s, queue_value_hash(hash, n), record->key, record->key_len, p);
    return p->slot != NULL;
}

static void word_remove(const struct index_place *p) {
    word_store(p->slot, WORD_EMPTY);
    p->segment->live--;
}

static void record_recover(struct store *s, const struct item *item, struct queue_record *r) {
    uint64_t hash = QUEUE_RECORD_HASH(item->hash);
    struct index_place p;
    if (r->head != r->tail && !value_place(s, hash, item, r->head, &p))
        r->head++; /* popped */
    if (value_place(s, hash, item, r->tail, &p))
        r->tail++; /* pushed */
    index_find(s, hash, item->key, item->key_len, &p);
    bool present = p.slot != NULL;
    if (!present && r->head != r->tail) {
        r->head = r->tail;
        r->most = 0;
    }
    for (; r->drop != r->head; r->drop++)
        if (value_place(s, hash, item, r->drop, &p))
            word_remove(&p);
    if (present || !record_unused(r))
        return;
    index_find(s, item->hash, item->key, item->key_len, &p);
    word_remove(&p);
}

static bool off_bad(const struct arena_header *h, uint64_t off) {
    return off < h->heap_off || off - h->heap_off >= h->heap_len + h->spill_len;
}

int queues_recover(struct store *s) {
    struct arena_header *h = s->header;
    uint64_t hidden = 0;
    if (!h->hidden)
        return 0;
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint64_t n = 0; n < h->segments; n++) {
            struct segment *g = segment_at(s, n);
            if (s->index.state[n] != SEGMENT_LIVE)
                continue;
            for (unsigned i = 0; i < SEGMENT_BUCKETS * BUCKET_SLOTS; i++) {
                uint64_t word = g->bucket[i / BUCKET_SLOTS].slot[i % BUCKET_SLOTS],
                         off = WORD_OFFSET(word);
                if (!WORD_LIVE(word) || !(word & WORD_HIDDEN))
                    continue;
                if (off_bad(h, off))
                    return dd_error(DDICT_EPROTO,
                                    "the arena of manager %u is damaged: a word names %llx",
                                    h->manager_id, (unsigned long long)off);
                const struct item *item = arena_at(s, off);
                if (pass)
                    hidden++;
                else if (item->version == ITEM_QUEUE)
                    record_recover(s, item, record_at(s, off));
            }
        }
    word_store(&h->hidden, hidden);
    return 0;
}
