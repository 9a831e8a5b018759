/* SPDX-License-Identifier: Apache-2.0 */
/* spill_batch.c - values on their way from memory to the spill (I18). */
#include "spill_batch.h"

#include "budget.h"
#include "heap.h"
#include "index.h"
#include "lease.h"
#include "pages.h"
#include "scan.h"
#include "spill_away.h"
#include "spill_error.h"
#include "state.h"
#include <base/clock.h>
#include <base/vec.h>

#include <stdlib.h>
#include <string.h>

struct move {
    uint64_t from, to;
}; /* items */

struct batch {
    struct spill_job job; /* first */
    struct store *s;
    enum { CHOOSING, WRITING, SWINGING } state;
    struct move *move;
    size_t n, cap, swung;
    uint64_t bytes, target, looked, gain;
    uint64_t scan;   /* number of the scan that frees their blocks in memory */
    bool grew, full; /* the file could not grow; the spill has no room for more */
};

bool batch_begin(struct store *s) {
    struct batch *b = calloc(1, sizeof *b);
    if (!b)
        return false;
    uint64_t some = s->header->budget / 16;
    b->s = s;
    b->target = some < DD_SPILL_MOVE ? some : DD_SPILL_MOVE;
    s->spill.batch = b;
    return true;
}

static bool batch_add(struct batch *b, uint64_t from, uint64_t to) {
    if (VEC_ROOM(&b->move, &b->cap, b->n + 1, 64) < 0)
        return false;
    b->move[b->n++] = (struct move){from, to};
    return true;
}

/* May the item at off move, and does it pay? */
static bool item_is_movable(struct store *s, uint64_t off) {
    const struct item *item = arena_at(s, off);
    struct index_place p;
    if (!item->key_len || item->check != item_check(item) || item->version & ITEM_CACHED ||
        item->version == ITEM_QUEUE || item->val_len & ITEM_AWAY ||
        !spill_pays(item->key_len, item->val_len) || pin_held(s, off) ||
        table_find(&s->leases.held, off))
        return false;
    index_find(s, item->hash, item->key, item->key_len, &p);
    return p.slot && WORD_OFFSET(p.word) == off; /* else no word names it yet, or any more */
}

static bool block_choose(struct store *s, struct batch *b, uint64_t off) {
    const struct item *item = arena_at(s, off);
    uint64_t to;
    if (!item_is_movable(s, off))
        return false;
    if (head_make(s, item->key_len, item->val_len, item->tag, &to) < 0) {
        b->full = true;
        return false;
    }
    struct item *head = arena_at(s, to);
    head->version = item->version;
    head->hash = item->hash;
    head->pad |= item->pad & (ITEM_LOADED | ITEM_LINK);
    memcpy(head->key, item->key, item->key_len);
    head->check = item_check(head);
    if (store_pin(s, off) < 0) { /* the block must not be freed while it is read */
        retired_free(s, to);
        return false;
    }
    if (!batch_add(b, off, to)) {
        store_unpin(s, off);
        retired_free(s, to);
        return false;
    }
    STRESS_POINT(STRESS_W_CHOSEN);
    b->bytes += item->val_len;
    b->gain += block_bytes(s, off);
    return true;
}

/* Choose values from the run or extent that begins at page; *pages is its length. Returns how many
 * values it looked at. */
static unsigned stretch_choose(struct store *s, struct batch *b, uint64_t page, uint64_t *pages) {
    struct heap *h = &s->heap;
    uint64_t e = h->pagemap[page], off = s->header->heap_off + page * ARENA_PAGE;
    unsigned kind = PAGEMAP_KIND(e);
    *pages = kind == PAGE_FREE
                 ? h->span[h->ref[page]].first == page ? h->span[h->ref[page]].pages : 1
                 : PAGEMAP_VALUE(e);
    if (kind == PAGE_LARGE_HEAD)
        return block_choose(s, b, off), 1;
    if (kind != PAGE_SLAB_HEAD)
        return 0;
    uint32_t r = h->ref[page], size = h->class[PAGEMAP_CLASS(e)].size, blocks = h->run[r].blocks,
             looked = 0;
    for (unsigned i = 0; i < blocks && b->bytes < b->target && !b->full; i++)
        if (!(h->run[r].idle[i / 64] >> i % 64 & 1))
            looked++, block_choose(s, b, off + (uint64_t)i * size);
    return looked;
}

static void batch_run(struct spill_job *j) {
    struct batch *b = (struct batch *)(void *)j;
    struct store *s = b->s;
    uint64_t end = 0, since = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct item *head = arena_at(s, b->move[i].to);
        uint64_t to = item_away(head)->off - s->header->file_size + item_len(head);
        if (to > end)
            end = to;
    }
    j->rc = file_prepare(s, end);
    b->grew = j->rc < 0;
    for (size_t i = 0; i < b->n && j->rc == 0; i++) {
        const struct item *item = arena_at(s, b->move[i].from);
        struct item *head = arena_at(s, b->move[i].to);
        struct item_away *away =
            (struct item_away *)(void *)(head->key + head->key_len + item_pad(head));
        for (uint64_t at = 0, n; at < item->val_len && j->rc == 0; at += n) {
            n = item->val_len - at < DD_SPILL_STEP ? item->val_len - at : DD_SPILL_STEP;
            j->rc = write_summed(s, away, (const uint8_t *)item_value(item) + at, at, n);
            if ((since += n) < DD_SPILL_STEP)
                continue;
            begin_writeback(s);
            since = 0;
        }
    }
    if (j->rc == 0)
        j->rc = file_flush(s);
}

/* Make the item's word name its copy. False: the item was replaced or removed meanwhile. */
static bool move_swing(struct store *s, const struct move *m) {
    const struct item *item = arena_at(s, m->from);
    struct index_place p;
    store_unpin(s, m->from);
    index_find(s, item->hash, item->key, item->key_len, &p);
    /* replaced or removed meanwhile */
    if (!p.slot || WORD_OFFSET(p.word) != m->from || retire_reserve(s, 1) < 0) {
        retired_free(s, m->to);
        return false;
    }
    struct item *head = arena_at(s, m->to);
    head->hash = item->hash; /* a value of a queue may have become the first of its key */
    head->version = item->version;
    head->check = item_check(head);
    word_store(p.slot, WORD_MOVE(p.word, m->to)); /* I3 */
    STRESS_POINT(STRESS_W_SWUNG);
    retire(s, m->from);
    return true;
}

static void batch_end(struct store *s) {
    struct spill *p = &s->spill;
    struct batch *b = p->batch;
    for (; b->swung < b->n; b->swung++) { /* those that were not written */
        store_unpin(s, b->move[b->swung].from);
        retired_free(s, b->move[b->swung].to);
    }
    free(b->move);
    free(b);
    p->batch = NULL;
    p->progress++;
}

/* Nothing could be moved: a request that comes soon is told so at once. */
static void batch_give_up(struct store *s) {
    s->spill.want = 0;
    s->spill.gave_up_until = clock_ns() + DD_SPILL_LOOK_MS * 1000000ull;
    s->spill.gave_up_freed = s->spill.freed;
    batch_end(s);
}

/* Choose values for the batch. False: there is nothing more to do for it in this turn. */
static bool batch_choose(struct store *s, struct batch *b) {
    struct spill *p = &s->spill;
    uint64_t top = s->header->heap_top;
    unsigned looked = 0;
    for (uint64_t n, steps = 0; b->looked < top && b->bytes < b->target && !b->full &&
                                looked < DD_SPILL_CHOOSE && steps < 16 * DD_SPILL_CHOOSE;
         b->looked += n, steps++) {
        if (p->hand >= top)
            p->hand = 0;
        looked += stretch_choose(s, b, p->hand, &n);
        if (b->bytes < b->target && !b->full)
            p->hand += (uint32_t)n;
        else
            n = 0; /* there may be more in it */
    }
    if (b->looked < top && b->bytes < b->target && !b->full)
        return true;
    if (b->n == 0) {
        batch_give_up(s);
        return false;
    }
    b->state = WRITING;
    b->job.run = batch_run;
    p->since = clock_ns();
    job_give(&p->writer, &b->job);
    return false;
}

static void batch_written(struct store *s, struct batch *b) {
    struct spill *p = &s->spill;
    int rc = b->job.rc;
    p->since = clock_ns();
    p->no_space = 0;
    if (rc == 0) {
        STRESS_POINT(STRESS_W_WRITTEN);
        b->state = SWINGING;
        return;
    }
    if (b->grew) {
        p->no_space = rc;
        p->no_space_need = b->bytes;
    } else {
        spill_fail(s, rc, "values could not be written");
    }
    batch_give_up(s);
}

/* Items of moved values and the page map grew into the part that is kept from values: give back
 * memory that the moved values left, so that this part is free again. */
static void spare_restore(struct store *s) {
    uint64_t taken = budget_resident(s) + budget_spare(s),
             over = taken > s->header->budget ? taken - s->header->budget : 0;
    if (over)
        s->granted +=
            pages_punch(s, over < DD_SPILL_BACK ? over : DD_SPILL_BACK, (struct stretch){0, 0});
}

static bool batch_swing(struct store *s, struct batch *b) {
    struct spill *p = &s->spill;
    size_t to = b->n - b->swung > DD_SPILL_CHOOSE ? b->swung + DD_SPILL_CHOOSE : b->n;
    while (b->swung < to)
        move_swing(s, &b->move[b->swung++]);
    if (b->swung < b->n)
        return true;
    if (!p->writer.runs)
        store_reclaim(s); /* without threads everything is done at once */
    else if (!scan_over(s, &b->scan, false))
        return true;
    p->want -= b->gain < p->want ? b->gain : p->want;
    p->tight_until = 0; /* memory may be looked at again */
    spare_restore(s);
    batch_end(s);
    return true;
}

bool batch_turn(struct store *s) {
    struct spill *p = &s->spill;
    if (!p->batch && (!p->want || p->failed || !batch_begin(s)))
        return false;
    struct batch *b = p->batch;
    if (b->state == CHOOSING && batch_choose(s, b))
        return true;
    if (p->batch && b->state == WRITING && job_done(&b->job))
        batch_written(s, b);
    return p->batch && b->state == SWINGING && batch_swing(s, b);
}

bool batch_writes(const struct store *s) {
    return s->spill.batch && s->spill.batch->state == WRITING;
}

void batch_close(struct store *s) {
    struct spill *p = &s->spill;
    if (p->batch)
        free(p->batch->move);
    free(p->batch);
    p->batch = NULL;
}
