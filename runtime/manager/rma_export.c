/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rma_export.c - values that another manager reads out of our arena by itself (RMA; PROTOCOL 10).
 * The item is pinned and its place told, until the reader says that it has all, ends, or is silent
 * for DD_STREAM_MS. The reader uses its copy only after our last answer, so bytes that it read of a
 * block whose time was over are never used.
 */
#include "rma_export.h"

#include "faults.h"
#include "manager.h"
#include "requester.h"
#include <base/error.h>
#include <base/log.h>
#include <wire/fabric/fabric_memory.h>

#include <errno.h>
#include <stdlib.h>

/* places of one value: 64 MiB each, and a few more where the arena was registered while it grew */
#define PLACES_MAX 4096u
_Static_assert(PLACES_MAX * sizeof(struct fabric_place) <= DD_MSG_INLINE,
               "they travel in one message");
#define REFUSED_LOG_NS 60000000000u

struct rma_export {
    struct rma_export *next, **prev;         /* of the requester */
    struct rma_export *all_next, **all_prev; /* of the manager */
    struct requester *requester;
    uint64_t id, off, from, len; /* off: the item's; from: the value's */
    struct timer timer;
};

static bool may_forget(void *arg, uint64_t off, uint64_t len) {
    struct manager *m = arg;
    if (len == 0)
        return !m->lent;
    uint64_t first = off / DD_RMA_GRANULE, last = (off + len - 1) / DD_RMA_GRANULE;
    for (const struct rma_export *l = m->lent; l; l = l->all_next)
        if (l->from / DD_RMA_GRANULE <= last && first <= (l->from + l->len - 1) / DD_RMA_GRANULE)
            return false;
    fabric_forget(m->fabric, off, len);
    return true;
}

int rma_exports_init(struct manager *m) {
    if (!m->fabric || !m->setup->rma)
        return 0;
    int e = fabric_share(m->fabric, (uint8_t *)m->header, m->header->heap_off,
                         m->header->heap_off + m->header->heap_len);
    if (e == 0)
        store_watch_memory(m->store, may_forget, m);
    return e;
}

static void rma_export_free(struct rma_export *l) {
    struct manager *m = l->requester->m;
    *l->prev = l->next;
    if (l->next)
        l->next->prev = l->prev;
    *l->all_prev = l->all_next;
    if (l->all_next)
        l->all_next->all_prev = l->all_prev;
    timer_clear(&m->timers, &l->timer);
    store_unpin(m->store, l->off);
    free(l);
}

/* The last answer: the reader's copy is good, or not. */
static void rma_export_end(struct rma_export *l, int status) {
    struct msg r = {.type = MSG_DATA,
                    .flags = MSGF_LAST,
                    .id = l->id,
                    .aux = status < 0 ? 0 : l->len,
                    .status = status,
                    .val_len = l->len,
                    .manager = l->requester->m->setup->id};
    struct requester *a = l->requester;
    rma_export_free(l);
    requester_send(a, &r, NULL, 0);
}

static int rma_export_extend(struct rma_export *l) {
    return timer_after(&l->requester->m->timers, &l->timer,
                       (faults.lend_ms ? faults.lend_ms : DD_STREAM_MS) * 1000000ull);
}

static void rma_export_late(struct timer *t) {
    rma_export_end((struct rma_export *)(void *)((char *)t - offsetof(struct rma_export, timer)),
                   -ETIMEDOUT);
}

/* Count a value that goes in messages although it could be read; the reason is logged once a
 * minute. */
static void rma_refusal_count(struct manager *m, int code) {
    static uint64_t said;
    m->count->rma_refused++;
    if (said && m->now - said < REFUSED_LOG_NS)
        return;
    said = m->now;
    log_warn("values are sent that could be read by their requesters: %s",
             *dd_errmsg() ? dd_errmsg() : dd_strerror(code));
}

bool rma_export_begin(struct requester *a, struct msg *r, const struct store_ref *ref) {
    static struct fabric_place place[PLACES_MAX];
    struct manager *m = a->m;
    const struct arena_header *h = m->header;
    uint64_t len = ref->item->val_len, off = (uint64_t)(ref->value - (const uint8_t *)h),
             heap = h->heap_top * ARENA_PAGE;
    /* an older figure will do: the rest is registered later */
    uint64_t populated = __atomic_load_n(&h->populated, __ATOMIC_RELAXED);
    /* nor a value in the spill */
    const struct link *link = requester_link(a);
    if (!link || len < DD_RMA_MIN || off >= h->heap_off + h->heap_len || !link_reads(link))
        return false;
    int n = faults_rma() ? dd_error(-ENOMEM, "DDICT_TEST_RMA_REFUSED")
                         : fabric_places(m->fabric, off, len,
                                         h->heap_off + (heap > populated ? heap : populated), place,
                                         PLACES_MAX);
    struct rma_export *l = n > 0 ? calloc(1, sizeof *l) : NULL;
    if (l) {
        l->timer.fire = rma_export_late;
        l->requester = a;
    }
    if (!l || rma_export_extend(l) < 0) {
        rma_refusal_count(m, n < 0 ? n : -ENOMEM);
        free(l);
        return false;
    }
    l->id = r->id;
    l->off = ref->off;
    l->from = off;
    l->len = len;
    l->next = a->rma_exports;
    l->prev = &a->rma_exports;
    if (l->next)
        l->next->prev = &l->next;
    a->rma_exports = l;
    l->all_next = m->lent;
    l->all_prev = &m->lent;
    if (l->all_next)
        l->all_next->all_prev = &l->all_next;
    m->lent = l;
    r->flags = MSGF_STREAM | MSGF_REMOTE;
    requester_send(a, r, place, (size_t)n * sizeof *place);
    return true;
}

static struct rma_export *rma_export_find(struct requester *a, uint64_t id) {
    struct rma_export *l = a->rma_exports;
    while (l && l->id != id)
        l = l->next;
    return l;
}

bool rma_export_more(struct requester *a, uint64_t id, uint64_t read) {
    struct rma_export *l = rma_export_find(a, id);
    if (!l)
        return false;
    if (read >= l->len)
        rma_export_end(l, 0);
    else
        rma_export_extend(l);
    return true;
}

bool rma_export_cancel(struct requester *a, uint64_t id, int status) {
    struct rma_export *l = rma_export_find(a, id);
    if (l)
        rma_export_end(l, status);
    return l != NULL;
}

void rma_exports_end(struct requester *a) {
    while (a->rma_exports)
        rma_export_free(a->rma_exports);
}
