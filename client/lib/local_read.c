/* SPDX-License-Identifier: Apache-2.0 */
/* local_read.c - reads in place: find, lease, use. */
#include "local_read.h"

#include "near_link.h"
#include "view.h"
#include <base/copy.h>
#include <base/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find_failed(struct lease_thread *t, struct node_manager *m, int rc) {
    if (rc == DDICT_ENOKEY)
        counter_add(&t->row[m->arena.local_index].misses, 1);
    else if (rc == DDICT_EPROTO)
        dd_error(rc, "the arena of manager %u is damaged", m->id);
    return rc;
}

static int spill_failed(struct node_manager *m, int rc) {
    char why[DD_ERRMSG_MAX];
    snprintf(why, sizeof why, "%s", dd_errmsg());
    return dd_error(rc, "manager %u: %s", m->id, why);
}

/* -EIO is not final: the key may have another value by now, in memory, or a later read may
 * succeed. */
static int view_of_spill(struct node_manager *m, const struct found *f, struct ddict_view *v) {
    void *buf = f->val_len <= DD_SPILL_COPY ? view_memory(f->val_len) : NULL;
    if (!buf)
        return away_check(&m->arena, f);
    int rc = away_read(&m->arena, f, buf, 0, f->val_len);
    if (rc < 0) {
        free(buf);
        return rc;
    }
    *v = (struct ddict_view){.data = buf,
                             .len = f->val_len,
                             .version = f->item->version,
                             .tag = f->item->tag,
                             .kind_ = 2};
    return 0;
}

int view_take(struct session *s, struct node_manager *m, uint32_t n, const struct found *f,
              struct ddict_view *v) {
    int rc = 0;
    if (unlikely(f->away != NULL)) {
        v->kind_ = 0;
        rc = view_of_spill(m, f, v);
        if (rc < 0)
            spill_failed(m, rc);
        if (rc < 0 || v->kind_ == 2) {
            lease_release(s, n);
            return rc;
        }
    }
    view_set(v, s, f);
    v->slot_ = n;
    return 0;
}

int local_view(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               struct ddict_view *v) {
    struct lease_thread *t = lease_thread(s);
    struct found f;
    uint32_t n;
    if (unlikely(!status_page_reads(s->status_page)))
        return -EAGAIN;
    if (unlikely(!t))
        return dd_error(-ENOMEM, "no memory for a thread's leases");
    int rc = lease_take(t, &n);
    if (unlikely(rc < 0))
        return rc;
    rc = reader_find(&m->arena, h, key, klen, lease_slot(t->page, n), &f);
    if (unlikely(rc < 0)) {
        lease_return(t, n);
        return find_failed(t, m, rc);
    }
    if (unlikely(item_is_link(f.item))) {
        lease_release(s, n);
        return DDICT_ELINK;
    }
    fork_gate();
    local_count(t, m, f.val_len);
    return view_take(s, m, n, &f, v);
}

int local_copy(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               void *buf, size_t cap, size_t *vlen, unsigned *tag) {
    struct lease_thread *t = lease_thread(s);
    struct found f;
    if (unlikely(!t || !t->scratch || !status_page_reads(s->status_page)))
        return -EAGAIN;
    int rc = reader_find(&m->arena, h, key, klen, t->scratch, &f);
    if (unlikely(rc < 0))
        return find_failed(t, m, rc);
    if (unlikely(item_is_link(f.item))) {
        reader_release(t->scratch);
        return DDICT_ELINK;
    }
    if (likely(f.val_len <= cap)) {
        if (unlikely(f.away != NULL)) {
            rc = away_read(&m->arena, &f, buf, 0, f.val_len);
            if (rc < 0)
                spill_failed(m, rc);
        } else {
            copy_value(buf, f.value, f.val_len, f.val_len);
        }
    } else {
        rc = DDICT_ESMALL;
    }
    if (vlen)
        *vlen = f.val_len;
    if (tag)
        *tag = f.item->tag;
    reader_release(t->scratch);
    if (likely(rc == 0))
        local_count(t, m, f.val_len);
    return rc;
}

int local_head(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               size_t *vlen, uint64_t *version) {
    struct lease_thread *t = lease_thread(s);
    struct found f;
    if (unlikely(!t || !t->scratch || !status_page_reads(s->status_page)))
        return -EAGAIN;
    int rc = reader_find(&m->arena, h, key, klen, t->scratch, &f);
    if (rc < 0)
        return find_failed(t, m, rc);
    if (vlen)
        *vlen = item_read_len(f.item);
    if (version)
        *version = f.item->version;
    reader_release(t->scratch);
    return 0;
}

int local_link(struct session *s, struct node_manager *m, uint64_t h, const void *key, size_t klen,
               struct near_item *is) {
    struct lease_thread *t = lease_thread(s);
    struct found f;
    if (!t || !t->scratch || !status_page_reads(s->status_page))
        return -EAGAIN;
    int rc = reader_find(&m->arena, h, key, klen, t->scratch, &f);
    if (rc < 0)
        return find_failed(t, m, rc);
    is->version = f.item->version;
    is->tag = f.item->tag;
    is->len = item_is_link(f.item) ? f.val_len : 0;
    if (is->len > 0 && is->len <= sizeof is->link)
        memcpy(&is->link, f.value, is->len);
    reader_release(t->scratch);
    return 0;
}
