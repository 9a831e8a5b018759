/* SPDX-License-Identifier: Apache-2.0 */
/* spill_fill.c - a value that goes to the spill at once. */
#include "spill_fill.h"

#include "lease.h"
#include "spill_away.h"
#include "spill_error.h"
#include "state.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/page.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

struct spill_fill {
    struct spill_job job; /* first */
    struct spill_fill *next;
    struct store *s;
    uint64_t off, len;              /* of the item; of the value */
    uint8_t *bytes;                 /* [len], as far as it is not written */
    uint64_t filled, written, upto; /* upto: the job's */
    bool grew, dropped;
};

int spill_reserve(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag,
                  struct store_ref *ref) {
    uint64_t off;
    if (s->spill.failed)
        return spill_failed(s);
    if (!spill_pays(key_len, val_len))
        return spill_no_room(s, val_len);
    int rc = head_make(s, key_len, val_len, tag, &off);
    if (rc < 0)
        return rc == DDICT_EFULL ? spill_no_room(s, val_len) : rc;
    struct spill_fill *f = calloc(1, sizeof *f);
    if (f)
        f->bytes = room_map(val_len);
    if (!f || !f->bytes) {
        free(f);
        retired_free(s, off);
        return dd_error(-ENOMEM, "no memory to pass on a value to the spill");
    }
    f->s = s;
    f->off = off;
    f->len = val_len;
    f->next = s->spill.fills;
    s->spill.fills = f;
    *ref = (struct store_ref){.off = off, .item = arena_at(s, off), .value = f->bytes, .fill = f};
    return 0;
}

static void fill_free(struct store *s, struct spill_fill *f) {
    struct spill_fill **at = &s->spill.fills;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    munmap(f->bytes, f->len);
    if (f->dropped)
        retired_free(s, f->off);
    free(f);
}

void spill_drop(struct store *s, struct store_ref *ref) {
    struct spill_fill *f = ref->fill;
    ref->fill = NULL;
    f->dropped = true;
    if (!f->job.busy)
        fill_free(s, f); /* else when its job is done */
}

static void fill_run(struct spill_job *j) {
    struct spill_fill *f = (struct spill_fill *)(void *)j;
    struct store *s = f->s;
    struct item *item = arena_at(s, f->off);
    struct item_away *away =
        (struct item_away *)(void *)(item->key + item->key_len + item_pad(item));
    uint64_t n = f->upto - f->written, page = page_size(), done = f->written & ~(page - 1);
    j->rc = file_prepare(s, away->off - s->header->file_size + f->len);
    f->grew = j->rc < 0;
    if (j->rc == 0)
        j->rc = write_summed(s, away, f->bytes + f->written, f->written, n);
    if (j->rc == 0)
        begin_writeback(s);
    if (j->rc == 0 && f->upto == f->len)
        j->rc = file_flush(s);
    if (j->rc == 0)
        madvise(f->bytes + done, (f->upto - done) & ~(page - 1), MADV_DONTNEED);
}

/* Take the result of its job, and begin the next one. */
static void fill_go(struct store *s, struct spill_fill *f) {
    struct spill *p = &s->spill;
    if (job_done(&f->job)) {
        p->since = clock_ns();
        p->progress++;
        if (f->job.rc == 0)
            f->written = f->upto;
        else if (f->grew)
            p->no_space = f->job.rc, p->no_space_need = f->len;
        else
            spill_fail(s, f->job.rc, "a value could not be written");
    }
    if (f->job.busy || f->job.rc < 0 || f->dropped || f->written == f->len)
        return;
    uint64_t to = f->filled == f->len ? f->len : f->filled & ~(uint64_t)(DD_SPILL_CHUNK - 1);
    if (to - f->written > DD_SPILL_AHEAD)
        to = f->written + DD_SPILL_AHEAD;
    if (to == f->written)
        return;
    f->upto = to;
    f->job.run = fill_run;
    p->since = clock_ns();
    job_give(&p->writer, &f->job);
}

int store_fill(struct store *s, struct store_ref *ref, uint64_t got) {
    struct spill_fill *f = ref->fill;
    if (!f)
        return 0;
    f->filled = got;
    do
        fill_go(s, f);
    while (!s->spill.writer.runs && f->job.busy);
    if (f->job.rc < 0 && !f->job.busy)
        return f->grew ? spill_no_space(s)
                       : dd_error(-EIO, "the spill of manager %u failed: %s", s->header->manager_id,
                                  dd_strerror(f->job.rc));
    return got == f->len                           ? f->written == f->len ? 0 : -EAGAIN
           : got - f->written > 2 * DD_SPILL_AHEAD ? -EAGAIN
                                                   : 0;
}

int store_filled(struct store *s, struct store_ref *ref) {
    return ref->fill ? spill_finish(s, ref) : 0;
}

int spill_finish(struct store *s, struct store_ref *ref) {
    int rc = store_fill(s, ref, ref->fill->len);
    if (rc < 0)
        return rc;
    fill_free(s, ref->fill);
    ref->fill = NULL;
    ref->value = NULL;
    return 0;
}

void fills_turn(struct store *s) {
    for (struct spill_fill *f = s->spill.fills, *next; f; f = next) {
        next = f->next;
        fill_go(s, f);
        if (f->dropped && !f->job.busy)
            fill_free(s, f);
    }
}

void fills_close(struct store *s) {
    struct spill *p = &s->spill;
    while (p->fills) {
        struct spill_fill *f = p->fills;
        p->fills = f->next;
        munmap(f->bytes, f->len);
        free(f);
    }
}
