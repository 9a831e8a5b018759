/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c - segments of the index: made, split (I9, I13), found again after a crash; and the
 * directory (I11). */
#include "segment.h"

#include "budget.h"
#include "compact.h"
#include "heap.h"
#include "index.h"
#include "pool.h"
#include "spill.h"
#include <base/error.h>
#include <base/page.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GIVE_BACK 64u /* segments at a time, some 100 us */

static int index_full(struct store *s, const char *what) {
    return dd_error(DDICT_EFULL, "manager %u is full: the index has no %s left",
                    s->header->manager_id, what);
}

/* Take memory for the index, from offset `at` on. opening: the heap is not settled yet, so nothing
 * can be freed for it. -EINPROGRESS only if the request can wait, as in block_alloc(). */
static int index_take(struct store *s, uint64_t at, uint64_t fresh, bool opening) {
    uint64_t n = round_up(fresh, ARENA_PAGE) / ARENA_PAGE;
    bool waits = s->leases.wait;
    int rc;
    s->compact.punching = false;
    for (int step = -1;
         (rc = budget_take(s, fresh, FOR_INDEX, step > 0, (struct stretch){0, 0})) < 0 ||
         (rc = pool_index(s, at, fresh)) < 0;) {
        if (rc != DDICT_EFULL || opening)
            break;
        if (waits && s->compact.punching)
            return -EINPROGRESS;
        int more = heap_relieve(s, ++step);
        if (more > 0)
            continue;
        if (more == 0)
            more = waits ? compact_for(s, n) : compact_for_index(s, n);
        if (more == -EINPROGRESS)
            return more;
        if (more < 0 && spill_make_room(s, fresh + budget_spare(s)) < 0)
            break;
    }
    /* Nothing could be moved away for it: take the last memory that there is. */
    if (rc == DDICT_EFULL && s->spill.fd >= 0)
        rc = budget_take(s, fresh, FOR_MOVES, !opening, (struct stretch){0, 0});
    return rc;
}

/* The first segment whose memory was given back gets memory again. */
static int hole_fill(struct store *s, bool opening) {
    struct index *x = &s->index;
    uint64_t n = 0;
    while (x->state[n] != SEGMENT_HOLE)
        n++;
    int rc = index_take(s, s->header->seg_off + n * DD_SEGMENT_SIZE, DD_SEGMENT_SIZE, opening);
    if (rc < 0)
        return rc;
    memset(segment_at(s, n), 0, DD_SEGMENT_SIZE); /* touched by us */
    x->holes--;
    segment_drop(s, n);
    s->header->used_bytes += DD_SEGMENT_SIZE;
    budget_publish(s);
    return 0;
}

bool segments_give_back(struct store *s) {
    struct index *x = &s->index;
    /* where a page of the machine has several segments they keep their memory */
    if (x->sweeps || x->idle <= 1 || huge_page(s->header) || page_size() > DD_SEGMENT_SIZE)
        return false;
    unsigned most = GIVE_BACK;
    for (uint64_t n = s->header->segments; n-- > 0 && x->idle > 1 && most > 0;) {
        if (x->state[n] != SEGMENT_FREE)
            continue;
        if (madvise(segment_at(s, n), DD_SEGMENT_SIZE, MADV_REMOVE) < 0)
            return false;
        x->state[n] = SEGMENT_HOLE;
        x->holes++;
        x->idle--;
        s->header->used_bytes -= DD_SEGMENT_SIZE;
        most--;
    }
    budget_publish(s);
    return x->idle > 1;
}

/* Does not read the segment, which would take memory. One of which only a part has memory counts as
 * whole. */
bool segment_hole(struct store *s, uint64_t number) {
    off_t from = (off_t)(s->header->seg_off + number * DD_SEGMENT_SIZE),
          data = huge_page(s->header) ? from : lseek(s->fd, from, SEEK_DATA);
    return data >= from + DD_SEGMENT_SIZE || (data < 0 && errno == ENXIO);
}

/* Another segment of the region, idle. */
int segment_hand_out(struct store *s, bool opening) {
    struct arena_header *h = s->header;
    if (s->index.holes)
        return hole_fill(s, opening);
    if (h->segments == s->index.segments_max)
        return index_full(s, "segments");
    int rc = index_take(s, h->seg_off + h->segments * DD_SEGMENT_SIZE, DD_SEGMENT_SIZE, opening);
    if (rc < 0)
        return rc;
    struct segment *g = segment_at(s, h->segments);
    memset(g, 0, sizeof *g); /* touched by us, not by the first reader */
    s->index.state[h->segments] = SEGMENT_FREE;
    s->index.idle++;
    __atomic_store_n(&h->segments, h->segments + 1, __ATOMIC_RELEASE);
    h->used_bytes += DD_SEGMENT_SIZE;
    budget_publish(s);
    return 0;
}

void segment_drop(struct store *s, uint64_t number) {
    s->index.state[number] = SEGMENT_FREE;
    s->index.idle++;
    if (number < s->index.idle_hint)
        s->index.idle_hint = number;
}

int segment_make(struct store *s, bool last, uint64_t *off) {
    struct index *x = &s->index;
    uint64_t n, keep = last ? 0 : 1;
    while (x->idle <= keep) {
        int rc = segment_hand_out(s, false); /* may also have swept some free */
        if (rc < 0 && x->idle <= keep)
            return rc;
    }
    for (n = x->idle_hint; x->state[n] != SEGMENT_FREE; n++) {
    }
    x->idle_hint = n + 1;
    x->idle--;
    x->state[n] = SEGMENT_LIVE;
    struct segment *g = segment_at(s, n); /* `moves` stays as it is (I10) */
    word_store(&g->sibling, 0);
    g->live = 0;
    for (unsigned b = 0; b < SEGMENT_BUCKETS; b++) {
        word_store(&g->bucket[b].reach, 0);
        for (unsigned i = 0; i < BUCKET_SLOTS; i++)
            word_store(&g->bucket[b].slot[i], WORD_EMPTY);
    }
    *off = s->header->seg_off + n * DD_SEGMENT_SIZE;
    return 0;
}

int dir_grow(struct store *s) {
    struct arena_header *h = s->header;
    uint32_t depth = ROOT_DEPTH(h->root);
    uint64_t had = (2ull << depth) * sizeof(uint64_t), need = 2 * had,
             fresh = round_up(need, ARENA_PAGE) - round_up(had, ARENA_PAGE);
    if (need > h->dir_len)
        return index_full(s, "directory");
    int rc;
    /* Within a page that it has, the directory grows without memory. */
    if (fresh && (rc = index_take(s, h->dir_off + had, fresh, false)) < 0)
        return rc;
    uint64_t *from = s->index.dir + (1ull << depth), *to = s->index.dir + (2ull << depth);
    for (uint64_t i = 0; i < 2ull << depth; i++)
        word_store(&to[i], from[i / 2]);
    STRESS_POINT(STRESS_W_GROWN);
    h->used_bytes += fresh;
    word_store(&h->root, ROOT_MAKE(ROOT_GENERATION(h->root), depth + 1));
    budget_publish(s);
    return 0;
}

/* Store off in all words of the directory that stand for g's part of the hashes. */
static void dir_point(struct store *s, const struct segment *g, uint64_t off) {
    unsigned wide = ROOT_DEPTH(s->header->root) - g->depth;
    uint64_t *w = s->index.dir + (1ull << ROOT_DEPTH(s->header->root)) + (g->prefix << wide);
    for (uint64_t i = 0; i < 1ull << wide; i++)
        word_store(&w[i], off);
}

static bool segment_has(const struct segment *g, unsigned home, uint64_t word) {
    for (unsigned d = 0; d < DD_BUCKET_REACH; d++)
        for (unsigned i = 0; i < BUCKET_SLOTS; i++)
            if (g->bucket[(home + d) % SEGMENT_BUCKETS].slot[i] == word)
                return true;
    return false;
}

/*
 * Put word into a bucket of `to` between its home and bucket b, in which it stood in the old
 * segment; into b itself if b lies behind the wrap. There is always room: so far bucket b of `to`
 * holds only words from b.
 */
static void segment_take(struct segment *to, uint64_t word, unsigned home, unsigned b) {
    unsigned d = b >= home ? 0 : b + SEGMENT_BUCKETS - home;
    for (;; d++) {
        struct bucket *k = &to->bucket[(home + d) % SEGMENT_BUCKETS];
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            if (k->slot[i] != WORD_EMPTY)
                continue;
            if (to->bucket[home].reach < d)
                word_store(&to->bucket[home].reach, d); /* I13 */
            word_store(&k->slot[i], word);
            to->live++;
            return;
        }
    }
}

static void prefetch_bucket(struct store *s, const struct segment *g, unsigned b) {
    if (b >= SEGMENT_BUCKETS)
        return;
    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        if (WORD_LIVE(g->bucket[b].slot[i]))
            __builtin_prefetch(arena_at(s, WORD_OFFSET(g->bucket[b].slot[i])));
}

/* again: some words may have been copied before a crash (I16). */
static void segment_move(struct store *s, struct segment *old, struct segment *to, bool again) {
    for (unsigned b = 0; b < 4; b++)
        prefetch_bucket(s, old, b);
    for (unsigned b = 0; b < SEGMENT_BUCKETS; b++) {
        prefetch_bucket(s, old, b + 4);
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            uint64_t *slot = &old->bucket[b].slot[i], word = *slot;
            if (!WORD_LIVE(word))
                continue;
            const struct item *item = arena_at(s, WORD_OFFSET(word));
            if (DIR_INDEX(item->hash, to->depth) != to->prefix)
                continue;
            unsigned home = HASH_BUCKET(item->hash);
            if (MUTANT(MUTANT_EARLY_MOVED)) {
                word_store(slot, WORD_MOVED);
                STRESS_POINT(STRESS_W_COPIED);
            }
            if (!again || MUTANT(MUTANT_BLIND_REPEAT) || !segment_has(to, home, word))
                segment_take(to, word, home, b);
            if (MUTANT(MUTANT_NO_MOVED))
                continue;
            STRESS_POINT(STRESS_W_COPIED);
            word_store(slot, WORD_MOVED);
            old->live--;
        }
    }
}

/* The part of a split with an odd counter. It may be repeated from its start after a crash. */
static void split_finish(struct store *s, struct segment *old, uint64_t to_off, bool again) {
    struct segment *to = arena_at(s, to_off);
    segment_move(s, old, to, again);
    STRESS_POINT(STRESS_W_MOVED);
    dir_point(s, to, to_off);
    segment_cover(old, to->prefix & ~1ull, to->depth);
    word_store(&old->moves, old->moves + 1);
}

int segment_split(struct store *s, uint64_t hash) {
    uint64_t off;
    int rc = segment_make(s, false, &off);
    if (rc < 0)
        return rc;
    struct segment *old = index_segment(s, hash);
    if (old->depth == ROOT_DEPTH(s->header->root) && (rc = dir_grow(s)) < 0) {
        segment_drop(s, segment_number(s, off));
        return rc;
    }
    struct segment *to = arena_at(s, off);
    segment_cover(to, old->prefix << 1 | 1, old->depth + 1);
    word_store(&old->sibling, off);
    STRESS_POINT(STRESS_W_NAMED);
    word_store(&old->moves, old->moves + 1);
    split_finish(s, old, off, false);
    return 0;
}

static void live_count(struct segment *g) {
    g->live = 0;
    for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
        for (unsigned i = 0; i < BUCKET_SLOTS; i++)
            g->live += WORD_LIVE(g->bucket[b].slot[i]);
}

static int dir_damaged(struct store *s) {
    return dd_error(DDICT_EPROTO, "the arena of manager %u is damaged: its directory",
                    s->header->manager_id);
}

int segments_recover(struct store *s) {
    struct arena_header *h = s->header;
    struct index *x = &s->index;
    uint32_t depth = ROOT_DEPTH(h->root);
    if (depth > DIR_DEPTH_MAX || (2ull << depth) * sizeof(uint64_t) > h->dir_len ||
        h->segments > x->segments_max)
        return dir_damaged(s);
    for (uint64_t n = 0; n < h->segments; n++)
        if (!segment_hole(s, n))
            live_count(segment_at(s, n));
        else {
            x->state[n] = SEGMENT_HOLE;
            x->holes++;
        }
    for (uint64_t i = 0; i < 1ull << depth; i++) {
        uint64_t off = x->dir[(1ull << depth) + i];
        if (off < h->seg_off || off - h->seg_off >= h->segments * DD_SEGMENT_SIZE)
            return dir_damaged(s);
        struct segment *g = arena_at(s, off);
        x->state[segment_number(s, off)] = SEGMENT_LIVE;
        if (!(g->moves & 1))
            continue;
        if (g->sibling < h->seg_off || g->sibling - h->seg_off >= h->segments * DD_SEGMENT_SIZE)
            return dir_damaged(s);
        struct segment *to = arena_at(s, g->sibling);
        if (!to->depth || to->depth > depth)
            return dir_damaged(s);
        x->state[segment_number(s, g->sibling)] = SEGMENT_LIVE;
        live_count(g);
        live_count(to);
        split_finish(s, g, g->sibling, true);
    }
    x->idle = x->sweeps = 0;
    x->idle_hint = x->sweep_hint = h->segments;
    for (uint64_t n = h->segments; n-- > 0;) {
        if (x->state[n] == SEGMENT_LIVE || x->state[n] == SEGMENT_HOLE)
            continue;
        if (!segment_at(s, n)->live) {
            segment_drop(s, n);
            continue;
        }
        x->state[n] = SEGMENT_SWEEP; /* a clear was under way */
        x->sweeps++;
        x->sweep_hint = n;
    }
    return 0;
}
