/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get.c - calls that read one key: get, view, contains; and pop, whose result is a view. get and
 * view have a fast form, which is all inline and finds nearly every key of this node. If it fails,
 * the plain form follows, which handles every case and finds the reason.
 */
#include "cached_read.h"
#include "local_read.h"
#include "near.h"
#include "request.h"
#include "view.h"
#include "window.h"
#include <base/copy.h>
#include <store/find.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLAT __attribute__((flatten))

/* state of a fast read */
struct fast {
    struct lease_thread *t;
    struct node_manager *m;
    uint64_t h;
};

/* Prepare a fast read: a thread that has leases in the handle's session needs nothing else. False:
 * use the plain form. */
static inline bool fast_begin(struct fast *f, ddict_t *d, const void *key, size_t klen,
                              unsigned flags) {
    struct lease_thread *t = f->t = lease_last_used;
    if (unlikely((flags & ~DDICT_WAIT) != 0) || unlikely(klen - 1 >= DDICT_KEY_MAX) ||
        unlikely(t->session_id != __atomic_load_n(&d->session_id, __ATOMIC_RELAXED)) ||
        unlikely(!status_page_reads(t->status_page)))
        return false;
    f->h = key_hash(key, klen);
    /* Not the owner of a key with a tag (deal.h): that manager has no such key, or keeps a value of
     * it while the dictionary is frozen. */
    f->m = t->local_owner[hash_owner_of(f->h, t->owners)];
    return likely(f->m != NULL);
}

static struct outgoing target_ask(const struct target *t, enum msg_type type, uint16_t flags) {
    struct outgoing out = {
        .head = {.type = type, .flags = flags, .key_len = (uint32_t)t->klen, .manager = t->owner},
        .key = t->key};
    return out;
}

/*
 * Wait until the manager of a local key has it. 0: look again, but the key may be removed again.
 */
static int target_await(const struct target *t, struct call_deadline *w) {
    struct outgoing out = target_ask(t, MSG_HEAD, 0);
    struct request r = {.sink = SINK_NONE};
    int rc = request_call_waiting(t->s, session_route(t->s, t->owner), &out, &r, w, 0);
    return rc < 0 ? rc : 0;
}

static int no_time(const struct target *t) {
    return dd_error(-ETIMEDOUT, "manager %u must be asked, which a timeout of 0 does not allow",
                    t->owner);
}

/* --- into a buffer --- */

static int get_asked(const struct target *t, void *buf, size_t cap, size_t *vlen, unsigned *tag,
                     unsigned flags, struct call_deadline *w) {
    struct node_manager *m = session_route(t->s, t->owner);
    struct request r = {.sink = cap == 0 ? SINK_NONE : SINK_BUFFER, .buf = buf, .cap = cap};
    struct outgoing out = target_ask(t, cap == 0 ? MSG_HEAD : MSG_GET, 0);
    int rc = flags & DDICT_WAIT ? request_call_waiting(t->s, m, &out, &r, w, flags)
                                : request_call_within(t->s, m, &out, &r, w);
    if (rc < 0 && rc != DDICT_ESMALL)
        return rc;
    if (vlen)
        *vlen = r.reply.val_len;
    if (tag)
        *tag = r.reply.tag;
    if (rc >= 0 && r.reply.val_len > cap)
        rc = DDICT_ESMALL;
    return rc == DDICT_ESMALL ? dd_error(rc, "the value has %llu bytes, the buffer %zu",
                                         (unsigned long long)r.reply.val_len, cap)
                              : 0;
}

static int get_slow(const struct target *t, struct node_manager *m, int rc, void *buf, size_t cap,
                    size_t *vlen, unsigned *tag, unsigned flags, int timeout_ms) {
    struct call_deadline w;
    if (timeout_ms == 0)
        return no_time(t);
    call_deadline_init(&w, t->s, session_wait_ms(t->s, flags, timeout_ms));
    while (m && rc == DDICT_ENOKEY) {
        if ((rc = target_await(t, &w)) < 0)
            return rc;
        rc = local_copy(t->s, m, t->h, t->key, t->klen, buf, cap, vlen, tag);
        if (rc == 0)
            return 0;
    }
    if (rc != -EAGAIN)
        return rc;
    return get_asked(t, buf, cap, vlen, tag, flags, &w);
}

static __attribute__((noinline)) int get_plain(ddict_t *d, const void *key, size_t klen, void *buf,
                                               size_t cap, size_t *vlen, unsigned *tag,
                                               unsigned flags, int timeout_ms) {
    struct target t;
    size_t len = 0;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (unlikely(rc < 0))
        return rc;
    if (unlikely(flags & ~DDICT_WAIT))
        return dd_error(-EINVAL, "get with unknown flags 0x%x", flags);
    if (window_has(t.s, key, klen))
        return window_get(d, key, klen, buf, cap, vlen, tag, flags, timeout_ms);
    struct node_manager *m = session_local(t.s, t.owner);
    rc = -EAGAIN;
    if (likely(m != NULL)) {
        rc = local_copy(t.s, m, t.h, key, klen, buf, cap, &len, tag);
        if (vlen && (rc == 0 || rc == DDICT_ESMALL))
            *vlen = len;
        if (likely(rc == 0))
            return 0;
        if (rc == DDICT_ENOKEY && !(flags & DDICT_WAIT && timeout_ms != 0))
            return dd_error_plain(rc);
    } else if ((rc = cached_copy(t.s, t.h, key, klen, buf, cap, &len, tag)) == 0 ||
               rc == DDICT_ESMALL) {
        if (vlen)
            *vlen = len;
    }
    if (rc == -EAGAIN || rc == DDICT_ENOKEY) {
        len = 0;
        rc = get_slow(&t, m, rc, buf, cap, &len, tag, flags, timeout_ms);
        if (vlen && (rc == 0 || rc == DDICT_ESMALL))
            *vlen = len;
    }
    if (rc == DDICT_ELINK)
        return near_get(d, key, klen, buf, cap, vlen, tag, flags, timeout_ms);
    if (rc == DDICT_ESMALL)
        dd_error(rc, "the value has %zu bytes, the buffer %zu", len, cap);
    return rc;
}

static inline bool get_fast(ddict_t *d, const void *key, size_t klen, void *buf, size_t cap,
                            size_t *vlen, unsigned *tag, unsigned flags) {
    struct fast c;
    struct found f;
    if (!fast_begin(&c, d, key, klen, flags) || unlikely(!c.t->scratch) ||
        !find_fast(&c.m->arena, c.h, key, klen, c.t->scratch, &f))
        return false;
    bool fits = f.val_len <= cap;
    if (likely(fits)) {
        copy_value(buf, f.value, f.val_len, f.val_len);
        if (vlen)
            *vlen = f.val_len;
        if (tag)
            *tag = f.item->tag;
        local_count(c.t, c.m, f.val_len);
    }
    reader_release(c.t->scratch);
    return fits;
}

FLAT int ddict_get(ddict_t *d, const void *key, size_t klen, void *buf, size_t cap, size_t *vlen,
                   unsigned *tag, unsigned flags, int timeout_ms) {
    return likely(get_fast(d, key, klen, buf, cap, vlen, tag, flags))
               ? 0
               : get_plain(d, key, klen, buf, cap, vlen, tag, flags, timeout_ms);
}

/* --- in place --- */

void request_view(struct session *s, struct node_manager *m, struct request *r, uint32_t n,
                  struct ddict_view *v, int *rc) {
    if (*rc >= 0 && r->placed) {
        struct found f;
        /* another thread may have called reader_adopt(); see fork_gate() */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        fork_gate();
        *rc = reader_item(&m->arena, r->reply.aux, &f);
        if (*rc == 0) {
            if ((*rc = view_take(s, m, n, &f, v)) == 0)
                /* the version field of a cached item has another meaning */
                v->version = r->reply.version;
            else
                request_drop(r);
            return;
        }
        dd_error(*rc, "manager %u placed a value where none can be", m->id);
    }
    if (r->slot)
        lease_release(s, n);
    if (*rc < 0) {
        request_drop(r);
        return;
    }
    *v = (struct ddict_view){.data = r->buf,
                             .len = r->got,
                             .version = r->reply.version,
                             .tag = r->reply.tag,
                             .kind_ = 2};
}

int view_copy(struct ddict_view *v, void *buf, size_t cap, size_t *vlen, unsigned *tag) {
    int rc = 0;
    if (vlen)
        *vlen = v->len;
    if (tag)
        *tag = v->tag;
    if (v->len > cap)
        rc = dd_error(DDICT_ESMALL, "the value has %zu bytes, the buffer %zu", v->len, cap);
    else if (v->len > 0)
        memcpy(buf, v->data, v->len);
    ddict_release(v);
    return rc;
}

int request_slot(struct session *s, struct request *r, uint32_t *n) {
    struct lease_thread *t = lease_thread(s);
    *n = LEASE_NONE;
    r->slot = NULL;
    if (!t || lease_take(t, n) < 0)
        return DDICT_EVIEWS; /* the value will come into private memory */
    r->slot = lease_slot(t->page, *n);
    __atomic_store_n(r->slot, LEASE_MARK, __ATOMIC_RELAXED); /* L2 */
    return 0;
}

/* The pop was refused because the value is longer than the memory set aside. *late: no time is
 * left; nothing was popped. */
static int pop_again(struct request *r, struct call_deadline *w, bool *late) {
    *late = call_deadline_left_us(w) == 0;
    if (*late)
        return dd_error(-ETIMEDOUT, "no answer within %.3g s", w->timeout_ms / 1000.0);
    r->room = 0;
    return request_again(r);
}

static bool view_again(struct request *r, struct call_deadline *w, bool comes, int *rc,
                       uint64_t *len, bool *late) {
    return comes && *rc == DDICT_ESMALL && request_pop_refused(r, len) &&
           (*rc = pop_again(r, w, late)) == 0;
}

static int view_asked(const struct target *t, enum msg_type type, struct ddict_view *v,
                      unsigned flags, struct call_deadline *w) {
    struct node_manager *m = session_route(t->s, t->owner);
    struct request r = {.sink = SINK_MEMORY};
    uint32_t n;
    uint16_t want = request_slot(t->s, &r, &n) == 0 ? MSGF_VIEW : 0;
    /* the value may be sent into our memory */
    bool comes = type == MSG_POP && (m->id != t->owner || want == 0);
    uint64_t len = 0;
    int rc = 0;
    bool late = false;
    do {
        struct outgoing out = target_ask(t, type, want);
        if (comes && (rc = request_pop(t->s, &r, &out, len)) < 0)
            break;
        rc = flags & DDICT_WAIT ? request_call_waiting(t->s, m, &out, &r, w, flags)
                                : request_call_within(t->s, m, &out, &r, w);
        late = request_was_late(&r);
    } while (view_again(&r, w, comes, &rc, &len, &late));
    request_view(t->s, m, &r, n, v, &rc);
    return rc < 0 && late && flags & DDICT_SURE ? DDICT_ENOKEY : rc < 0 ? rc : 0;
}

static int view_slow(const struct target *t, struct node_manager *m, int rc, struct ddict_view *v,
                     unsigned flags, struct call_deadline *w) {
    while (m && rc == DDICT_ENOKEY) {
        if ((rc = target_await(t, w)) < 0)
            return rc;
        rc = local_view(t->s, m, t->h, t->key, t->klen, v);
        if (rc == 0)
            return 0;
    }
    return rc == -EAGAIN ? view_asked(t, MSG_GET, v, flags, w) : rc;
}

int view_within(struct session *s, uint64_t h, const void *key, size_t klen, int rc,
                struct ddict_view *v, unsigned flags, struct call_deadline *w) {
    struct target t = {
        .s = s, .h = h, .owner = deal_owner(&s->deal, key, klen, h), .key = key, .klen = klen};
    return view_slow(&t, session_local(s, t.owner), rc, v, flags, w);
}

static __attribute__((noinline)) int view_plain(ddict_t *d, const void *key, size_t klen,
                                                struct ddict_view *v, unsigned flags,
                                                int timeout_ms) {
    struct target t;
    v->kind_ = 0;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (unlikely(rc < 0))
        return rc;
    if (unlikely(flags & ~DDICT_WAIT))
        return dd_error(-EINVAL, "view with unknown flags 0x%x", flags);
    if (window_has(t.s, key, klen))
        return window_view(d, key, klen, v, flags, timeout_ms);
    struct node_manager *m = session_local(t.s, t.owner);
    rc = -EAGAIN;
    if (likely(m != NULL)) {
        rc = local_view(t.s, m, t.h, key, klen, v);
        if (likely(rc == 0))
            return 0;
        if (rc == DDICT_ENOKEY && !(flags & DDICT_WAIT && timeout_ms != 0))
            return dd_error_plain(rc);
    } else {
        rc = cached_view(t.s, t.h, key, klen, v);
    }
    if (rc == -EAGAIN || rc == DDICT_ENOKEY) {
        if (timeout_ms == 0)
            return no_time(&t);
        struct call_deadline w;
        call_deadline_init(&w, t.s, session_wait_ms(t.s, flags, timeout_ms));
        rc = view_slow(&t, m, rc, v, flags, &w);
    }
    return rc == DDICT_ELINK ? near_view(d, key, klen, v, flags, timeout_ms) : rc;
}

static inline bool view_fast(ddict_t *d, const void *key, size_t klen, struct ddict_view *v,
                             unsigned flags) {
    struct fast c;
    struct found f;
    if (!fast_begin(&c, d, key, klen, flags) || unlikely(*c.t->top == LEASE_NONE))
        return false;
    uint32_t n = *c.t->top;
    uint64_t *slot = lease_slot(c.t->page, n);
    if (!find_fast(&c.m->arena, c.h, key, klen, slot, &f))
        return false;
    if (unlikely(fork_gate_shut())) {
        reader_release(slot);
        return false;
    }
    c.t->top--;
    local_count(c.t, c.m, f.val_len);
    view_set(v, c.t->session, &f);
    v->slot_ = n;
    return true;
}

FLAT int ddict_view(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
                    int timeout_ms) {
    return likely(view_fast(d, key, klen, v, flags))
               ? 0
               : view_plain(d, key, klen, v, flags, timeout_ms);
}

static __attribute__((noinline)) void release_other(struct ddict_view *v) {
    if (v->kind_ == 1)
        lease_release(v->owner_, (uint32_t)v->slot_);
    else if (v->kind_ == 2)
        free((void *)(uintptr_t)v->data);
    v->kind_ = 0;
    v->data = NULL;
}

void ddict_release(struct ddict_view *v) {
    if (unlikely(!v))
        return;
    if (unlikely(v->kind_ != 1) || unlikely(!lease_release_own(v->owner_, v->slot_))) {
        release_other(v);
        return;
    }
    v->kind_ = 0;
    v->data = NULL;
    if (unlikely(__atomic_load_n(&closing_sessions, __ATOMIC_RELAXED) != 0))
        sessions_reap();
}

int ddict_pop(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
              int timeout_ms) {
    struct target t;
    struct call_deadline w;
    v->kind_ = 0;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    if (flags & ~(DDICT_WAIT | DDICT_SURE))
        return dd_error(-EINVAL, "pop with unknown flags 0x%x", flags);
    if (window_has(t.s, key, klen))
        return window_pop(d, key, klen, v, flags, timeout_ms);
    if (timeout_ms == 0)
        return no_time(&t);
    call_deadline_init(&w, t.s, session_wait_ms(t.s, flags, timeout_ms));
    do {
        rc = view_asked(&t, MSG_POP, v, flags, &w);
        if (rc == DDICT_ELINK)
            rc = near_take(d, key, klen, v, timeout_ms);
    } while (rc == DDICT_ECHANGED);
    return rc;
}

/* --- is it there --- */

int ddict_contains(ddict_t *d, const void *key, size_t klen, size_t *vlen, int timeout_ms) {
    struct target t;
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    if (window_has(t.s, key, klen))
        return window_contains(d, key, klen, vlen, timeout_ms);
    struct node_manager *m = session_local(t.s, t.owner);
    rc = m ? local_head(t.s, m, t.h, key, klen, vlen, NULL)
           : cached_head(t.s, t.h, key, klen, vlen, NULL);
    if (rc == -EAGAIN) {
        struct outgoing out = target_ask(&t, MSG_HEAD, 0);
        struct request r = {.sink = SINK_NONE};
        rc = request_call(t.s, session_route(t.s, t.owner), &out, &r, timeout_ms);
        if (rc >= 0 && vlen)
            *vlen = r.reply.val_len;
    }
    return rc == DDICT_ENOKEY ? 0 : rc < 0 ? rc : 1;
}
