/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iter.c - iterate over the keys, one segment of one manager at a time: in place for managers of
 * this node, by KEYS messages for the others. A cursor is a hash prefix, so a key that is present
 * all the time is visited exactly once, however the index grows.
 */
#include "lease.h"
#include "request.h"
#include "window_list.h"
#include <base/hidden_key.h>
#include <base/vec.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ddict_iter {
    ddict_t *d;
    int timeout_ms;
    unsigned manager, end; /* the present manager; the first one that is not visited */
    bool here_only;
    bool hidden; /* gives hidden keys, too */
    size_t prefix_len;
    bool over; /* the present manager has no more keys */
    uint64_t cursor;
    uint8_t *keys; /* records of u32 length and key */
    size_t len, cap, at;
    bool asked; /* r is under way, or answered and not read yet */
    /* session of r, as long as its id is session_id; its memory is never freed */
    struct session *s;
    uint64_t session_id;
    struct node_manager *m; /* the manager that was asked */
    struct request r;
    struct batch batch;
    struct window_list *window; /* of a working set: the keys that are not hidden, first */
    bool window_over;
    uint8_t prefix[];
};

int ddict_iter_open(ddict_t *d, int manager, ddict_iter_t **out, int timeout_ms) {
    return ddict_iter_open_prefix(d, manager, NULL, 0, out, timeout_ms);
}

int ddict_iter_open_prefix(ddict_t *d, int manager, const void *prefix, size_t plen,
                           ddict_iter_t **out, int timeout_ms) {
    return ddict_iter_open_flags(d, manager, prefix, plen, 0, out, timeout_ms);
}

/* The handle's checkpoint has to be in the window. */
static int window_iter_open(struct ddict_iter *it, int manager, int timeout_ms) {
    int rc = window_check(it->d, timeout_ms);
    return rc < 0 ? rc
                  : window_list_open(it->d, manager, it->prefix, it->prefix_len, &it->window,
                                     timeout_ms);
}

int ddict_iter_open_flags(ddict_t *d, int manager, const void *prefix, size_t plen, unsigned flags,
                          ddict_iter_t **out, int timeout_ms) {
    struct session *s;
    *out = NULL;
    if (flags & ~DDICT_ITER_HIDDEN)
        return dd_error(-EINVAL, "an iterator with unknown flags 0x%x", flags);
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    if (manager < -2 || (manager >= 0 && (unsigned)manager >= s->managers))
        return dd_error(-EINVAL, "there is no manager %d (0 to %u)", manager, s->managers - 1);
    if (plen > DDICT_KEY_MAX)
        return dd_error(DDICT_EKEYSIZE, "a prefix of %zu bytes: it may have %u", plen,
                        DDICT_KEY_MAX);
    struct ddict_iter *it = calloc(1, sizeof *it + plen);
    if (!it)
        return dd_error(-ENOMEM, "no memory for an iterator");
    it->d = d;
    it->timeout_ms = timeout_ms;
    it->prefix_len = plen;
    if (plen > 0)
        memcpy(it->prefix, prefix, plen);
    it->here_only = manager == -2;
    it->hidden = flags & DDICT_ITER_HIDDEN || (plen > 0 && key_is_hidden(prefix, plen));
    it->manager = manager < 0 ? 0 : (unsigned)manager;
    it->end = manager < 0 ? s->managers : (unsigned)manager + 1;
    if (unlikely(s->working_set) && !(plen > 0 && key_is_hidden(prefix, plen)) &&
        (rc = window_iter_open(it, manager, timeout_ms)) < 0) {
        free(it);
        return rc;
    }
    *out = it;
    return 0;
}

void ddict_iter_close(ddict_iter_t *it) {
    if (!it)
        return;
    if (it->asked && it->s->id == it->session_id)
        client_lane_cancel(&it->m->lane, &it->r);
    request_drop(&it->r);
    window_list_close(it->window);
    free(it->keys);
    free(it);
}

static int room_grow(struct ddict_iter *it, size_t need) {
    if (VEC_ROOM(&it->keys, &it->cap, it->len + need, 16384) < 0)
        return dd_error(-ENOMEM, "no memory for %zu bytes of keys", it->len + need);
    return 0;
}

static int key_take(void *arg, const void *key, uint32_t key_len) {
    struct ddict_iter *it = arg;
    if (it->prefix_len > 0 &&
        (key_len < it->prefix_len || memcmp(key, it->prefix, it->prefix_len) != 0))
        return 0;
    int rc = room_grow(it, sizeof key_len + key_len);
    if (rc < 0)
        return rc;
    memcpy(it->keys + it->len, &key_len, sizeof key_len);
    memcpy(it->keys + it->len + sizeof key_len, key, key_len);
    it->len += sizeof key_len + key_len;
    return 0;
}

/* Send the request if there is room. */
static int keys_ask(struct ddict_iter *it, struct session *s) {
    struct outgoing out = {.head = {.type = MSG_KEYS,
                                    .manager = it->manager,
                                    .aux = it->cursor,
                                    .key_len = (uint32_t)it->prefix_len},
                           .key = it->prefix};
    it->m = session_route(s, it->manager);
    it->r = (struct request){.sink = SINK_MEMORY, .batch = &it->batch};
    it->batch = (struct batch){0};
    it->s = s;
    it->session_id = s->id;
    int rc = client_lane_try_send(&it->m->lane, &out, &it->r);
    it->asked = rc > 0;
    return rc < 0 ? rc : 0;
}

static bool keys_came(struct ddict_iter *it) {
    struct client_lane *p = &it->m->lane;
    client_lane_lock(p);
    if (client_lane_has_records(p))
        client_lane_drain(p);
    bool came = it->batch.done != NULL;
    client_lane_unlock(p);
    return came;
}

static int keys_fill_asked(struct ddict_iter *it, struct session *s, struct call_deadline *w) {
    int rc = 0;
    if (it->timeout_ms == 0)
        return dd_error(-ETIMEDOUT, "manager %u must be asked, which a timeout of 0 does not allow",
                        it->manager);
    for (;;) {
        if (!it->asked && (rc = keys_ask(it, s)) < 0)
            return rc;
        bool came = it->asked && keys_came(it);
        if (came && it->r.status != -ESTALE)
            break;
        int slice = call_deadline_slice(w);
        if (slice < 0)
            return slice;
        if (came) { /* its manager is asked again */
            it->asked = false;
            request_drop(&it->r);
            continue;
        }
        if (!it->asked && slice > DD_WAIT_SLICE_MS)
            slice = DD_WAIT_SLICE_MS; /* no wake-up comes when the ring has room */
        if ((rc = client_lane_wait_any(&it->m->lane, &it->batch, 0, slice)) < 0)
            return rc;
    }
    it->asked = false;
    if (it->r.status < 0)
        return request_error(s, it->m, &it->r, it->r.status);
    free(it->keys);
    it->keys = it->r.buf;
    it->r.buf = NULL;
    it->len = it->r.got;
    it->cap = it->r.cap;
    it->cursor = it->r.reply.aux;
    return 0;
}

static int keys_fill_local(struct ddict_iter *it, struct session *s, struct node_manager *m,
                           struct call_deadline *w) {
    struct lease_thread *t = lease_thread(s);
    if (it->asked || !t || !t->scratch || !status_page_reads(s->status_page))
        return keys_fill_asked(it, s, w);
    int rc = reader_keys(&m->arena, &it->cursor, t->scratch, key_take, it);
    if (rc == -EAGAIN) {
        it->len = 0;
        return keys_fill_asked(it, s, w);
    }
    return rc < 0 ? rc : 0;
}

/* Get the keys of the next segment. */
static int keys_fill(struct ddict_iter *it, struct session *s, struct call_deadline *w) {
    if (it->asked && it->session_id != s->id) { /* sent by our parent */
        it->asked = false;
        request_drop(&it->r);
    }
    it->len = it->at = 0;
    struct node_manager *m = session_local(s, it->manager);
    int rc = m ? keys_fill_local(it, s, m, w) : keys_fill_asked(it, s, w);
    it->over = rc == 0 && it->cursor == 0;
    return rc;
}

/* The next key of those that were taken: 1, 0 at their end, or a negative code. */
static int record_next(struct ddict_iter *it, const void **key, size_t *klen) {
    while (it->at < it->len) {
        uint32_t n = 0;
        if (it->len - it->at >= sizeof n)
            memcpy(&n, it->keys + it->at, sizeof n);
        if (n == 0 || n > it->len - it->at - sizeof n)
            return dd_error(DDICT_EPROTO, "the keys of manager %u are malformed", it->manager);
        *key = it->keys + it->at + sizeof n;
        *klen = n;
        it->at += sizeof n + n;
        if (unlikely(it->window != NULL) && (window_owns_item(*key, n) || !key_is_hidden(*key, n)))
            continue;
        if (it->hidden || !key_is_hidden(*key, n))
            return 1;
    }
    return 0;
}

int ddict_iter_next(ddict_iter_t *it, const void **key, size_t *klen) {
    struct session *s = NULL;
    struct call_deadline w = {0};
    int rc = record_next(it, key, klen);
    if (rc != 0)
        return rc;
    if (unlikely(it->window != NULL) && !it->window_over) {
        if ((rc = window_list_next_seen(it->window, key, klen)) != 0)
            return rc;
        it->window_over = true;
    }
    if (unlikely(it->window != NULL) && !it->hidden)
        return 0;
    if ((rc = session_enter(it->d, &s, it->timeout_ms)) < 0)
        return rc;
    call_deadline_init(&w, s, it->timeout_ms);
    return iter_next_within(it, key, klen, s, &w, true);
}

int iter_next_within(ddict_iter_t *it, const void **key, size_t *klen, struct session *s,
                     struct call_deadline *w, bool renews) {
    for (;;) {
        int rc = record_next(it, key, klen);
        if (rc != 0)
            return rc;
        while (it->over ||
               (it->manager < it->end && (!deal_owns(&s->deal, it->manager) ||
                                          (it->here_only && !session_local(s, it->manager))))) {
            it->over = false;
            it->manager++;
        }
        if (it->manager >= it->end)
            return 0;
        if ((rc = keys_fill(it, s, w)) < 0)
            return rc;
        if (renews)
            call_deadline_renew(w);
    }
}
