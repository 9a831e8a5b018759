/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - what a manager does with its arena; the order of the stores in a change is the contract
 * of LAYOUT 5. */
#include "budget.h"
#include "cache.h"
#include "compact.h"
#include "heap.h"
#include "hugepool.h"
#include "index.h"
#include "intent.h"
#include "lease.h"
#include "operation.h"
#include "pages.h"
#include "queue.h"
#include "reader.h"
#include "rebuild.h"
#include "scan.h"
#include "segment.h"
#include "spill.h"
#include "spill_fill.h"
#include "state.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <base/hidden_key.h>
#include <base/page.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int store_open(struct store **out, int fd, int spill_fd, unsigned local_index) {
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return dd_error(-ENOMEM, "no memory for a store");
    pthread_mutex_init(&s->populate.busy, NULL);
    s->compact.left_ns = DD_COMPACT_NS;
    s->compact.round = 1;
    s->local_index = local_index;
    s->fd = fd;
    void *map;
    int rc = arena_map(&map, &s->map_len, fd, spill_fd, PROT_READ | PROT_WRITE);
    if (rc < 0)
        goto fail;
    struct arena_header *h = s->header = map;
    s->map = map;
    spill_open(s, spill_fd);
    s->populate.claimed = h->populated;
    heap_classes(&s->heap);
    bool fresh = ROOT_GENERATION(h->root) == 0;
    cache_open(s);
    if ((rc = pages_open(s)) < 0)
        goto fail;
    if (fresh)
        h->used_bytes = budget_fixed(s);
    if ((rc = index_open(s, fresh)) < 0)
        goto fail;
    if (fresh)
        s->settled = true;
    else {
        intent_finish(s);
        operation_open(s);
        if ((rc = cache_forget(s)) < 0 || (rc = queues_recover(s)) < 0 ||
            (rc = heap_rebuild(s)) < 0)
            goto fail;
    }
    if ((rc = barriers_open(s)) < 0)
        goto fail;
    budget_publish(s);
    *out = s;
    return 0;
fail:
    store_close(s);
    return rc;
}

void store_close(struct store *s) {
    if (!s)
        return;
    spill_close(s);
    cache_close(s);
    queues_close(s);
    leases_close(s);
    index_close(s);
    pages_close(s);
    if (s->map)
        munmap(s->map, s->map_len);
    pthread_mutex_destroy(&s->populate.busy);
    free(s);
}

struct arena_header *store_header(struct store *s) {
    return s->header;
}

static void ref_fill(struct store *s, uint64_t off, struct store_ref *ref) {
    ref->off = off;
    ref->item = arena_at(s, off);
    ref->value = ref->item->val_len & ITEM_AWAY
                     ? NULL
                     : ref->item->key + ref->item->key_len + item_pad(ref->item);
    ref->fill = NULL;
}

int store_item_at(struct store *s, uint64_t off, struct store_ref *ref) {
    const struct item *item = arena_at(s, off);
    if (item->check != item_check(item) || item_bytes(item) > block_bytes(s, off))
        return DDICT_EPROTO;
    ref_fill(s, off, ref);
    return 0;
}

/* A block with a header that is complete but for key, hash and check. */
static int item_alloc(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag, bool spill,
                      struct store_ref *ref) {
    uint64_t off, budget = s->header->budget,
                  largest = spill && s->header->spill_len > budget ? s->header->spill_len : budget;
    bool aligned = val_len >= DD_VALUE_ALIGN_MIN;
    uint64_t head = round_up(sizeof(struct item) + key_len, aligned ? 64 : ARENA_GRANULE);
    if (val_len > largest || head + val_len + ARENA_PAGE + 3 * DD_SEGMENT_SIZE > largest)
        return dd_error(
            DDICT_EVALSIZE, "a value of %llu bytes is larger than manager %u, which has %llu bytes",
            (unsigned long long)val_len, s->header->manager_id, (unsigned long long)largest);
    if (!s->leases.later && scan_wanted(s) && (!scan_small(s) || !scan_at_once(s)))
        s->leases.later = true;
    /* the spill does not empty half of memory for one value */
    bool most = head + val_len > budget / 2;
    int rc = spill && !most ? block_alloc_any(s, head + val_len, aligned, &off)
                            : block_alloc(s, head + val_len, aligned, &off);
    if ((rc == DDICT_EFULL || rc == -EINPROGRESS) && spill && s->spill.fd >= 0) {
        int there = spill_reserve(s, key_len, val_len, tag, ref);
        return there == DDICT_EFULL && rc == -EINPROGRESS ? rc : there;
    }
    if (rc < 0)
        return rc;
    struct item *item = arena_at(s, off);
    *item = (struct item){
        .val_len = val_len,
        .key_len = key_len,
        .tag = tag,
        .pad = (uint8_t)(item_value_at(off, key_len, val_len) - sizeof *item - key_len)};
    ref_fill(s, off, ref);
    return 0;
}

static int item_reserve(struct store *s, const void *key, uint32_t key_len, uint64_t val_len,
                        uint8_t tag, bool spill, struct store_ref *ref) {
    if (key_len == 0 || key_len > DDICT_KEY_MAX)
        return dd_error(DDICT_EKEYSIZE, "a key of %u bytes: 1 to %u are allowed", key_len,
                        DDICT_KEY_MAX);
    int rc = item_alloc(s, key_len, val_len, tag, spill, ref);
    if (rc < 0)
        return rc;
    memcpy(ref->item->key, key, key_len);
    ref->item->hash = key_hash(ref->item->key, key_len);
    ref->item->check = item_check(ref->item);
    index_prefetch(s, ref->item->hash);
    return 0;
}

int store_reserve(struct store *s, const void *key, uint32_t key_len, uint64_t val_len, uint8_t tag,
                  struct store_ref *ref) {
    s->leases.whole = true;
    int rc = item_reserve(s, key, key_len, val_len, tag, true, ref);
    s->leases.whole = false;
    return rc;
}

/* p is where index_find() has found the item's key, or room for it. */
static int place_make(struct store *s, const struct item *item, struct index_place *p) {
    while (!p->slot && !p->vacant) {
        int rc = segment_split(s, item->hash);
        if (rc < 0)
            return rc;
        index_find(s, item->hash, item->key, item->key_len, p);
    }
    return 0;
}

/* Can a split find no memory? With a spill it always finds some. */
static bool index_tight(struct store *s) {
    const struct arena_header *h = s->header;
    uint64_t page = huge_page(h), dir = (2ull << ROOT_DEPTH(h->root)) * sizeof(uint64_t);
    if (s->spill.fd >= 0)
        return false;
    return page ? h->heap_top * ARENA_PAGE + 2 * page > h->heap_limit
                : budget_resident(s) + DD_SEGMENT_SIZE + dir > h->budget;
}

/* Split now, while the request can wait. -EINPROGRESS; other failures come from store_commit(). */
static int index_ready(struct store *s, const struct item *item) {
    struct index_place p;
    if (!index_tight(s))
        return 0;
    index_find(s, item->hash, item->key, item->key_len, &p);
    return place_make(s, item, &p) == -EINPROGRESS ? -EINPROGRESS : 0;
}

int store_reserve_again(struct store *s, const void *key, uint32_t key_len, uint64_t val_len,
                        uint8_t tag, struct store_ref *ref, uint64_t *scan) {
    s->leases.wait = scan;
    int rc = item_reserve(s, key, key_len, val_len, tag, true, ref);
    if (rc == 0 && (rc = index_ready(s, ref->item)) < 0)
        store_abort(s, ref);
    s->leases.wait = NULL;
    return rc;
}

void store_mark_loaded(struct store_ref *ref) {
    ref->item->pad |= ITEM_LOADED;
    ref->item->check = item_check(ref->item);
}

void store_mark_link(struct store_ref *ref) {
    ref->item->pad |= ITEM_LINK;
    ref->item->check = item_check(ref->item);
}

void store_shorten(struct store_ref *ref, uint64_t len) {
    ref->item->val_len = len;
    ref->item->check = item_check(ref->item);
}

uint64_t store_room_made(const struct store *s) {
    return s->compact.punched;
}

int store_reserve_memory(struct store *s, const void *key, uint32_t key_len, uint64_t val_len,
                         uint8_t tag, struct store_ref *ref) {
    return item_reserve(s, key, key_len, val_len, tag, false, ref);
}

int store_reserve_transit(struct store *s, uint64_t val_len, uint8_t tag, uint64_t version,
                          struct store_ref *ref) {
    struct leases *l = &s->leases;
    int rc = item_alloc(s, 0, val_len, tag, false, ref);
    if (rc < 0)
        return rc;
    if (retire_reserve(s, 2) < 0 || !table_add(&l->transit, ref->off)) {
        block_free(s, ref->off);
        return dd_error(-ENOMEM, "no memory to note a block");
    }
    l->transit_bytes += block_bytes(s, ref->off);
    ref->item->version = version;
    ref->item->check = item_check(ref->item);
    return 0;
}

void store_abort(struct store *s, struct store_ref *ref) {
    heap_ensure_settled(s);
    if (ref->fill) {
        spill_drop(s, ref);
        return;
    }
    if (pin_held(s, ref->off))
        store_retire(s, ref->off);
    else
        retired_free(s, ref->off); /* its offset was given to nobody */
}

/* Keys are counted by their words: listed ones and hidden ones apart. */
static void key_count(struct arena_header *h, uint64_t word, int64_t by) {
    uint64_t *n = word & WORD_DOT ? &h->hidden_keys : &h->num_keys;
    __atomic_store_n(n, *n + (uint64_t)by, __ATOMIC_RELAXED);
}

int store_commit(struct store *s, struct store_ref *ref, enum store_mode mode, uint64_t *version) {
    struct item *item = ref->item;
    struct arena_header *h = s->header;
    struct index_place p;
    int rc;
    heap_ensure_settled(s);
    if (ref->fill && (rc = spill_finish(s, ref)) < 0)
        return rc;
    index_find(s, item->hash, item->key, item->key_len, &p);
    if (p.slot && mode == STORE_NEW)
        return DDICT_EEXISTS;
    if (!p.slot && mode == STORE_EXISTING)
        return DDICT_ENOKEY;
    if (p.slot && (rc = retire_reserve(s, 1)) < 0)
        return rc;
    if ((rc = place_make(s, item, &p)) < 0)
        return rc;
    uint64_t word = WORD_MAKE(item->hash, ref->off);
    if (key_is_hidden(item->key, item->key_len))
        word |= WORD_DOT;
    h->version++;
    item->version = h->version;
    item->check = item_check(item);
    if (p.slot) {
        if (MUTANT(MUTANT_FRESH_RETIRE)) {
            retire(s, WORD_OFFSET(p.word));
            store_reclaim(s);
        }
        operation_word(s, p.slot, word, 0);
        STRESS_POINT(STRESS_W_READY);
        word_store(p.slot, word); /* I3; pairs with the loads of the word in reader.c */
        STRESS_POINT(STRESS_W_SWUNG);
        if (!MUTANT(MUTANT_FRESH_RETIRE))
            retire(s, WORD_OFFSET(p.word));
    } else {
        if (p.home->reach < p.distance)
            word_store(&p.home->reach, p.distance); /* I13 */
        operation_word(s, p.vacant, word, 0);
        STRESS_POINT(STRESS_W_READY);
        word_store(p.vacant, word);
        p.segment->live++;
        key_count(h, word, 1);
    }
    if (version)
        *version = h->version;
    return 0;
}

void store_version_reach(struct store *s, uint64_t version) {
    if (s->header->version < version)
        s->header->version = version;
}

void store_expect(struct store *s, uint64_t soon, uint64_t sooner) {
    index_prefetch(s, soon);
    index_prefetch_item(s, sooner);
}

int store_find(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref) {
    struct index_place p;
    index_find(s, key_hash(key, key_len), key, key_len, &p);
    if (!p.slot)
        return DDICT_ENOKEY;
    ref_fill(s, WORD_OFFSET(p.word), ref);
    return 0;
}

int store_remove(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref) {
    return store_pop(s, key, key_len, ref, NULL);
}

int store_pop(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref,
              struct store_ref *next) {
    struct arena_header *h = s->header;
    struct index_place p;
    int rc;
    heap_ensure_settled(s);
    index_find(s, key_hash(key, key_len), key, key_len, &p);
    if (!p.slot)
        return DDICT_ENOKEY;
    uint64_t off = WORD_OFFSET(p.word);
    if (next)
        next->item = NULL;
    if ((rc = retire_reserve(s, 2)) < 0)
        return rc; /* two: the record of a queue, too */
    if (h->hidden && !ref && (rc = queue_delete_begin(s, p.hash, key, key_len)) < 0)
        return rc;
    if (ref && (rc = store_pin(s, off)) < 0)
        return rc;
    h->version++;
    if (h->hidden && ref && queue_swing(s, &p, key, key_len, next)) {
        retire(s, off);
        ref_fill(s, off, ref);
        return 0;
    }
    operation_word(s, p.slot, WORD_EMPTY, ref ? off : 0);
    STRESS_POINT(STRESS_W_READY);
    word_store(p.slot, WORD_EMPTY);
    STRESS_POINT(STRESS_W_SWUNG);
    p.segment->live--;
    key_count(h, p.word, -1);
    retire(s, off);
    if (h->hidden)
        queue_emptied(s, p.hash, key, key_len, !ref);
    if (ref)
        ref_fill(s, off, ref);
    return 0;
}

int store_clear(struct store *s) {
    heap_ensure_settled(s);
    s->header->version++;
    s->leases.whole = true;
    int rc = index_clear(s);
    s->leases.whole = false;
    if (rc == 0)
        queues_cleared(s);
    return rc;
}

/* A limit, of a key that has no value. */
static bool is_bare_limit(struct store *s, const struct item *item) {
    const struct queue_record *r = (const void *)item_value(item);
    struct store_ref first;
    return item->version == ITEM_QUEUE && r->most && r->head == r->tail &&
           store_find(s, item->key, item->key_len, &first) < 0;
}

static int keys_walk(struct store *s, uint64_t *cursor, bool limits,
                     int (*fn)(void *arg, const void *key, uint32_t key_len), void *arg) {
    struct segment *g = index_segment(s, *cursor);
    int n = 0, rc;
    for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            uint64_t word = g->bucket[b].slot[i];
            if (!WORD_LIVE(word) || (word & WORD_HIDDEN && !limits))
                continue;
            const struct item *item = arena_at(s, WORD_OFFSET(word));
            if (word & WORD_HIDDEN ? !is_bare_limit(s, item) : (item->version & ITEM_CACHED) != 0)
                continue;
            if ((rc = fn(arg, item->key, item->key_len)) != 0)
                return rc;
            n++;
        }
    *cursor = segment_next(g->prefix, g->depth);
    return n;
}

int store_keys(struct store *s, uint64_t *cursor,
               int (*fn)(void *arg, const void *key, uint32_t key_len), void *arg) {
    return keys_walk(s, cursor, false, fn, arg);
}

int store_keys_and_limits(struct store *s, uint64_t *cursor,
                          int (*fn)(void *arg, const void *key, uint32_t key_len), void *arg) {
    return keys_walk(s, cursor, true, fn, arg);
}

int store_commit_as(struct store *s, struct store_ref *ref, uint64_t version) {
    struct arena_header *h = s->header;
    uint64_t was = h->version;
    h->version = version - 1;
    int rc = store_commit(s, ref, STORE_ANY, NULL);
    if (rc < 0 || h->version < was)
        h->version = was;
    return rc;
}

int store_queue_push_as(struct store *s, struct store_ref *ref) {
    uint64_t was = s->header->version;
    int rc = store_queue_push(s, ref);
    s->header->version = was;
    return rc;
}

bool store_work(struct store *s) {
    heap_ensure_settled(s);
    compact_turn(s);
    bool more = index_sweep(s) | spill_turn(s);
    more |= queue_sweep(s, DD_QUEUE_SWEEP);
    if (s->leases.scan.on || scan_wanted(s))
        more |= store_reclaim_some(s);
    return more;
}

static unsigned log2_of(uint64_t n) {
    return 63u - (unsigned)__builtin_clzll(n);
}

void store_room(struct store *s, struct store_room *out) {
    const struct leases *l = &s->leases;
    uint64_t scattered = heap_scattered(s);
    *out = (struct store_room){.free_bytes = s->header->budget > s->header->used_bytes
                                                 ? s->header->budget - s->header->used_bytes
                                                 : 0,
                               .held_bytes = l->leased_bytes};
    uint64_t row = pages_row(s), available = pages_available(s);
    out->row_bytes = (row < available ? row : available) * ARENA_PAGE;
    if (clock_ns() < s->compact.stuck_end)
        out->stuck_bytes = s->compact.stuck_bytes < scattered ? s->compact.stuck_bytes : scattered;
    if (out->stuck_bytes > out->free_bytes)
        out->stuck_bytes = out->free_bytes;
    for (size_t i = 0, most = 0; i < l->pages; i++)
        if (l->page[i].held > most) {
            most = l->page[i].held;
            out->holder_pid = l->page[i].pid;
        }
}

void store_stats(struct store *s, struct manager_stats *out) {
    struct arena_header *h = s->header;
    const struct leases *l = &s->leases;
    /* scans first, if that does not take long, so that figures do not depend on the last scan */
    store_reclaim_some(s);
    out->manager_id = h->manager_id;
    out->total_bytes = h->budget;
    out->total_used_bytes = h->used_bytes;
    struct store_room room;
    store_room(s, &room);
    out->pool_free_space = room.free_bytes - room.stuck_bytes;
    out->scattered_bytes = heap_scattered(s);
    out->moved_bytes = s->compact.moved_bytes;
    out->pool_utilization = 100.0 * (double)h->used_bytes / (double)h->budget;
    out->num_keys = h->num_keys + h->hidden_keys;
    out->hidden_keys = h->hidden_keys;
    memset(out->free_blocks, 0, sizeof out->free_blocks);
    pages_histogram(s, out->free_blocks);
    for (unsigned c = 0; c < CLASSES; c++)
        out->free_blocks[log2_of(s->heap.class[c].size)] += s->heap.zone[ZONE_MEMORY].class_free[c];
    out->frozen = FREEZE_STATE(h->freeze) == FREEZE_FROZEN;
    out->cached_items = h->cached_items;
    out->cached_bytes = h->cached_bytes;
    out->spill_total_bytes = h->spill_len;
    out->spill_used_bytes = h->spill_used;
    out->spill_items = h->spill_items;
    out->spilled_bytes = h->spilled_bytes;
    out->retired_bytes = l->retired_bytes;
    out->leased_bytes = l->leased_bytes;
    out->populated_bytes = figure_get(&s->populate.bytes);
    out->populate_us = figure_get(&s->populate.ns) / 1000;
    out->page_bytes = huge_page(h) ? huge_page(h) : page_size();
    out->huge_bytes = huge_page(h) ? h->budget - h->heap_limit + figure_get(&h->populated)
                      : h->page_shift == ARENA_PAGES_ADVISED ? huge_mapped(h, h->file_size)
                                                             : 0;
    out->largest_holder_pid = 0;
    out->largest_holder_bytes = 0;
    for (size_t i = 0; i < l->pages; i++)
        if (l->page[i].held > out->largest_holder_bytes) {
            out->largest_holder_bytes = l->page[i].held;
            out->largest_holder_pid = l->page[i].pid;
        }
}
