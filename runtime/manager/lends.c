/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lends.c - values that another manager reads out of our arena itself (RMA; PROTOCOL 6): pinned, and told where they are, until it says that it has all, or ends, or is
 * silent for DD_STREAM_MS. Only what we then answer makes its copy good: so what it read of a block whose time was over is never given to anybody.
 */
#include <base/error.h>
#include <base/log.h>
#include <manager/faults.h>
#include <manager/manager.h>

#include <errno.h>
#include <stdlib.h>

#define PLACES_MAX \
    4096u /* of one value: 64 MiB each and a little more where the arena was registered while it grew */
_Static_assert(PLACES_MAX * sizeof(struct fabric_place) <= DD_MSG_INLINE,
               "they travel in one message");
#define REFUSED_LOG_NS 60000000000u

struct lend {
    struct lend *next, **prev;         /* of the asker */
    struct lend *all_next, **all_prev; /* of the manager */
    struct asker *asker;
    uint64_t id, off, from, len; /* off: the item's; from: the value's */
    struct timer timer;
};

static bool may_forget(void *arg, uint64_t off, uint64_t len) {
    struct manager *m = arg;
    if (len == 0)
        return m->lent == NULL;
    uint64_t first = off / DD_RMA_GRANULE, last = (off + len - 1) / DD_RMA_GRANULE;
    for (const struct lend *l = m->lent; l; l = l->all_next)
        if (l->from / DD_RMA_GRANULE <= last && first <= (l->from + l->len - 1) / DD_RMA_GRANULE)
            return false;
    fabric_forget(m->fabric, off, len);
    return true;
}

int lends_init(struct manager *m) {
    if (!m->fabric || !m->setup->rma)
        return 0;
    int e = fabric_share(m->fabric, (uint8_t *)m->header, m->header->heap_off,
                         m->header->heap_off + m->header->heap_len);
    if (e == 0)
        store_watch_memory(m->store, may_forget, m);
    return e;
}

static void lend_free(struct lend *l) {
    struct manager *m = l->asker->m;
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

/* Its last word: the reader's copy is good, or not. */
static void lend_end(struct lend *l, int status) {
    struct msg r = {.type = MSG_DATA,
                    .flags = MSGF_LAST,
                    .id = l->id,
                    .aux = status < 0 ? 0 : l->len,
                    .status = status,
                    .val_len = l->len,
                    .manager = l->asker->m->setup->id};
    struct asker *a = l->asker;
    lend_free(l);
    asker_send(a, &r, NULL, 0);
}

static int lend_extend(struct lend *l) {
    return timer_after(&l->asker->m->timers, &l->timer,
                       (faults.lend_ms ? faults.lend_ms : DD_STREAM_MS) * 1000000ull);
}

static void lend_late(struct timer *t) {
    lend_end((struct lend *)(void *)((char *)t - offsetof(struct lend, timer)), -ETIMEDOUT);
}

/* Counts values that go by messages and could be read, and says once a minute why. */
static void refused(struct manager *m, int code) {
    static uint64_t said;
    m->count->rma_refused++;
    if (said && m->now - said < REFUSED_LOG_NS)
        return;
    said = m->now;
    log_warn("values are sent that could be read by their askers: %s",
             *dd_errmsg() ? dd_errmsg() : dd_strerror(code));
}

bool lend_begin(struct asker *a, struct msg *r, const struct store_ref *ref) {
    static struct fabric_place place[PLACES_MAX];
    struct manager *m = a->m;
    const struct arena_header *h = m->header;
    uint64_t len = ref->item->val_len, off = (uint64_t)(ref->value - (const uint8_t *)h),
             heap = h->heap_top * ARENA_PAGE;
    uint64_t populated = __atomic_load_n(
        &h->populated,
        __ATOMIC_RELAXED); /* a moment old is good enough: more is registered later */
    if (a->kind != ASKER_PEER || len < DD_RMA_MIN || off >= h->heap_off + h->heap_len ||
        !link_reads(inbound_link(a)))
        return false; /* nor what is in the spill */
    int n = faults_rma() ? dd_error(-ENOMEM, "DDICT_TEST_RMA_REFUSED")
                         : fabric_places(m->fabric, off, len,
                                         h->heap_off + (heap > populated ? heap : populated), place,
                                         PLACES_MAX);
    struct lend *l = n > 0 ? calloc(1, sizeof *l) : NULL;
    if (l) {
        l->timer.fire = lend_late;
        l->asker = a;
    }
    if (!l || lend_extend(l) < 0) {
        refused(m, n < 0 ? n : -ENOMEM);
        free(l);
        return false;
    }
    l->id = r->id;
    l->off = ref->off;
    l->from = off;
    l->len = len;
    l->next = a->lends;
    l->prev = &a->lends;
    if (l->next)
        l->next->prev = &l->next;
    a->lends = l;
    l->all_next = m->lent;
    l->all_prev = &m->lent;
    if (l->all_next)
        l->all_next->all_prev = &l->all_next;
    m->lent = l;
    r->flags = MSGF_STREAM | MSGF_REMOTE;
    asker_send(a, r, place, (size_t)n * sizeof *place);
    return true;
}

static struct lend *lend_find(struct asker *a, uint64_t id) {
    struct lend *l = a->lends;
    while (l && l->id != id)
        l = l->next;
    return l;
}

bool lend_more(struct asker *a, uint64_t id, uint64_t read) {
    struct lend *l = lend_find(a, id);
    if (!l)
        return false;
    if (read >= l->len)
        lend_end(l, 0);
    else
        lend_extend(l);
    return true;
}

bool lend_cancel(struct asker *a, uint64_t id, int status) {
    struct lend *l = lend_find(a, id);
    if (l)
        lend_end(l, status);
    return l != NULL;
}

void lends_end(struct asker *a) {
    while (a->lends)
        lend_free(a->lends);
}
