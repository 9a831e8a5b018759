/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cached_read.c - read values of other nodes in place: while the dictionary is frozen, their proxy
 * may have them in its arena (LAYOUT 9). On a miss the proxy is asked as usual; so a miss sets no
 * sentence and is not counted.
 */
#include "cached_read.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Report the read to the manager, whose clock algorithm then keeps the item longer. It is only a
 * hint: a ring without locks, with one writer. */
static void cache_hint(struct lease_thread *t, struct node_manager *m, uint64_t off) {
    struct lease_chunk *c =
        (struct lease_chunk *)(void *)((uint8_t *)t->row - offsetof(struct lease_chunk, counters));
    uint64_t n = __atomic_load_n(&c->hints, __ATOMIC_RELAXED); /* only this thread writes it */
    __atomic_store_n(&c->hint[n % LEASE_HINTS], LEASE_WORD(m->arena.local_index, off),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&c->hints, n + 1, __ATOMIC_RELEASE); /* pairs with leases_hints() */
}

static void cached_count(struct lease_thread *t, struct node_manager *m, const struct found *f) {
    local_count(t, m, f->val_len);
    counter_add(&t->row[m->arena.local_index].cached, 1);
    cache_hint(t, m, f->off);
}

/* The proxy, if what it has may be read in place. */
static struct node_manager *cache_readable(struct session *s, const void *key, size_t klen,
                                           uint64_t h) {
    return status_page_reads(s->status_page) ? session_cache(s, deal_owner(&s->deal, key, klen, h))
                                             : NULL;
}

int cached_view(struct session *s, uint64_t h, const void *key, size_t klen, struct ddict_view *v) {
    struct node_manager *m = cache_readable(s, key, klen, h);
    struct lease_thread *t = m ? lease_thread(s) : NULL;
    struct found f;
    uint32_t n;
    if (!t || lease_take(t, &n) < 0)
        return -EAGAIN;
    if (reader_find(&m->arena, h, key, klen, lease_slot(t->page, n), &f) < 0) {
        lease_return(t, n);
        return -EAGAIN;
    }
    fork_gate();
    cached_count(t, m, &f);
    view_set(v, s, &f);
    v->slot_ = n;
    return 0;
}

int cached_copy(struct session *s, uint64_t h, const void *key, size_t klen, void *buf, size_t cap,
                size_t *vlen, unsigned *tag) {
    struct node_manager *m = cache_readable(s, key, klen, h);
    struct lease_thread *t = m ? lease_thread(s) : NULL;
    struct found f;
    if (!t || !t->scratch || reader_find(&m->arena, h, key, klen, t->scratch, &f) < 0)
        return -EAGAIN;
    int rc = f.val_len <= cap ? 0 : DDICT_ESMALL;
    if (rc == 0 && f.val_len > 0)
        memcpy(buf, f.value, f.val_len);
    if (vlen)
        *vlen = f.val_len;
    if (tag)
        *tag = f.item->tag;
    if (rc == 0)
        cached_count(t, m, &f);
    reader_release(t->scratch);
    return rc;
}

int cached_head(struct session *s, uint64_t h, const void *key, size_t klen, size_t *vlen,
                uint64_t *version) {
    struct node_manager *m = cache_readable(s, key, klen, h);
    struct lease_thread *t = m ? lease_thread(s) : NULL;
    struct found f;
    if (!t || !t->scratch || reader_find(&m->arena, h, key, klen, t->scratch, &f) < 0)
        return -EAGAIN;
    if (vlen)
        *vlen = f.val_len;
    if (version)
        *version = f.item->version & ~ITEM_CACHED;
    reader_release(t->scratch);
    return 0;
}
