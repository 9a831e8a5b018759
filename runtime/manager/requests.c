/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests.c - what is asked, for lanes and connections alike. A key is copied before it is looked at, since a lane may change under
 * us; the value of a put goes from the lane into its block in one copy.
 */
#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <base/size.h>
#include <manager/manager.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_SEEN_BYTES  (1u << 20) /* and keys of so many are looked at, some milliseconds */
#define KEYS_REPLY_BYTES 32768u /* segments are gathered until a reply of KEYS has so many bytes */

const char *request_full_text(struct manager *m, int code, uint64_t val_len) {
    static char text[DD_ERRMSG_MAX];
    char used[24], total[24], value[24];
    const char *cause = dd_errmsg();
    size_format(value, sizeof value, val_len);
    if (code == DDICT_EFULL) {
        size_format(used, sizeof used, m->header->used_bytes);
        size_format(total, sizeof total, m->header->budget);
        const char *limit =
            strstr(cause, "cannot grow"); /* the machine's memory is short, not our budget */
        if (strstr(cause, " its spill"))
            limit = cause; /* or the disk is full, too */
        snprintf(text, sizeof text,
                 "manager %u on %s is full: %s used of %s (value of %s does not fit)%s%s",
                 m->setup->id, m->setup->node, used, total, value, limit ? "; " : "",
                 limit ? cause : "");
    } else if (code == DDICT_EVALSIZE) {
        size_format(total, sizeof total,
                    m->header->spill_len > m->header->budget ? m->header->spill_len
                                                             : m->header->budget);
        snprintf(text, sizeof text, "value of %s can not be stored: manager %u on %s has %s in all",
                 value, m->setup->id, m->setup->node, total);
    } else {
        snprintf(text, sizeof text, "manager %u on %s: %s", m->setup->id, m->setup->node,
                 *cause ? cause : dd_strerror(code));
    }
    return text;
}

void request_failed(struct asker *a, const struct msg *m, int code) {
    bool plain = code == DDICT_ENOKEY || code == DDICT_EEXISTS;
    const char *text = plain ? NULL : request_full_text(a->m, code, m->val_len);
    if (code == DDICT_EFULL)
        a->m->count->full_errors++;
    if (code == DDICT_EFULL)
        note_full(a->m, text);
    asker_reply(a, m, code, text);
}

/* --- put --- */
void request_commit(struct asker *a, const struct msg *req, struct store_ref *ref, uint64_t began) {
    struct manager *m = a->m;
    if (freeze_refuses_end(m)) {
        freeze_refuse(a, req);
        store_abort(m->store, ref);
        return;
    }
    if (req->flags & MSGF_APPEND) {
        queue_append(a, req, ref, began);
        return;
    }
    uint64_t version = 0, hash = ref->item->hash;
    enum store_mode mode = req->flags & MSGF_NEW        ? STORE_NEW
                           : req->flags & MSGF_EXISTING ? STORE_EXISTING
                                                        : STORE_ANY;
    int e = store_commit(m->store, ref, mode, request_who(a, req), &version);
    if (e < 0) {
        request_failed(a, req, e);
        store_abort(m->store, ref);
        return;
    }
    m->count->puts++;
    m->count->bytes_in += req->val_len;
    if (faults.on)
        faults_put();
    struct msg r;
    reply_init(&r, req->id, m->setup->id);
    r.version = version;
    asker_send(a, &r, NULL, 0);
    feeds_put(m, ref->item, version);
    if (m->waiters)
        waiters_wake(m, ref->item->key, ref->item->key_len, hash);
    m->now = clock_ns();
    count_latency(m, DDICT_OP_PUT, began, m->now);
}

int request_reserve(struct asker *a, const struct msg *m, const uint8_t *key,
                    struct store_ref *ref) {
    int e = store_reserve(a->m->store, key, m->key_len, m->val_len, m->tag, ref);
    if (e == -EINPROGRESS) {
        if (!a->room_since)
            a->room_since = a->m->now;
        if (a->m->now - a->room_since < DD_COMPACT_WAIT_MS * 1000000ull)
            return TAKE_LATER;
        store_reserve_late(a->m->store);
        e = DDICT_EFULL;
    }
    a->room_since = 0;
    return e == -EAGAIN ? manager_waits_for_room(a->m) : e;
}

static int put_inline(struct asker *a, const struct msg *m, const uint8_t *key,
                      const uint8_t *value) {
    struct store_ref ref;
    uint64_t began = clock_ns();
    int e = request_reserve(a, m, key, &ref);
    if (e > 0)
        return e;
    if (e < 0) {
        request_failed(a, m, e);
        return TAKE_DONE;
    }
    memcpy(ref.value, value, m->val_len);
    int full = store_fill(a->m->store, &ref, m->val_len);
    if (full == -EAGAIN)
        return put_in_hold(a, m, &ref, began);
    if (full < 0) {
        request_failed(a, m, full);
        store_abort(a->m->store, &ref);
        return TAKE_DONE;
    }
    request_commit(a, m, &ref, began);
    return TAKE_DONE;
}

/* --- get, pop, head --- */
static void unpin_done(struct manager *m, uint64_t off, void *ptr) {
    store_unpin(m->store, off);
}

void request_give(struct asker *a, const struct msg *req, const struct store_ref *ref,
                  bool pinned) {
    struct manager *m = a->m;
    const struct item *it = ref->item;
    struct msg r;
    reply_init(&r, req->id, m->setup->id);
    r.val_len = item_len(it);
    r.tag = it->tag;
    r.version = it->version & ~ITEM_CACHED;
    if (req->type == MSG_HEAD) {
        r.aux = 1 + queue_more(m, it);
        asker_send(a, &r, NULL, 0);
        return;
    }
    m->count->bytes_out += r.val_len;
    if (req->flags & MSGF_VIEW && a->kind == ASKER_LANE) {
        if (!pinned && store_pin(m->store, ref->off) < 0) {
            asker_reply(a, req, -ENOMEM, NULL);
            return;
        }
        r.flags = MSGF_PLACED;
        r.aux = ref->off;
        r.len = MSG_HEADER;
        lane_send_placed(a, &r, ref->off);
        return;
    }
    if (item_away(it)) {
        int e = give_from_spill(a, &r, ref, req->val_len);
        if (e < 0)
            request_failed(a, req, e);
        if (pinned)
            store_unpin(m->store, ref->off); /* what reads it has its own */
        return;
    }
    if (it->val_len <= DD_MSG_INLINE) {
        asker_send(a, &r, ref->value, it->val_len);
        if (pinned)
            store_unpin(m->store, ref->off);
        return;
    }
    if (!pinned && store_pin(m->store, ref->off) < 0) {
        asker_reply(a, req, -ENOMEM, NULL);
        return;
    }
    if (req->flags & MSGF_REMOTE && lend_begin(a, &r, ref))
        return;
    if (give_begin(a, &r, ref->value, it->val_len, req->val_len, unpin_done, ref->off, NULL) < 0) {
        store_unpin(m->store, ref->off);
        asker_reply(a, req, -ENOMEM, NULL);
    }
}

int request_look(struct asker *a, const struct msg *req, const void *key) {
    struct manager *m = a->m;
    struct store_ref ref;
    uint64_t began = clock_ns();
    struct store_ref next;
    bool pop = req->type == MSG_POP;
    int e = pop ? store_pop(m->store, key, req->key_len, request_who(a, req), &ref, &next)
                : store_find(m->store, key, req->key_len, &ref);
    if (e == DDICT_ENOKEY)
        return e;
    if (pop && e == 0) {
        feeds_del(m, key, req->key_len);
        if (next.item)
            feeds_put(m, next.item, next.item->version);
        queue_next(m, key, req->key_len, ref.item->hash);
    }
    if (e < 0) {
        request_failed(a, req, e);
        return 0;
    }
    if (req->type != MSG_HEAD) {
        if (a->kind == ASKER_LANE)
            m->count->gets_local++;
        else
            m->count->gets_remote++;
    }
    if (pop)
        m->count->deletes++;
    request_give(a, req, &ref, pop);
    m->now = clock_ns();
    count_latency(m, DDICT_OP_GET, began, m->now);
    return 0;
}

static void get(struct asker *a, const struct msg *m, const uint8_t *key, uint64_t hash) {
    if (m->type == MSG_HEAD && m->flags & MSGF_APPEND) {
        queue_open(a, m, key, hash);
        return;
    }
    if (request_look(a, m, key) == 0)
        return;
    if (m->flags & MSGF_WAIT && m->aux > 0) {
        if (waiter_add(a, m, key, hash) < 0)
            asker_reply(a, m, -ENOMEM, NULL);
        return;
    }
    if (m->type != MSG_HEAD)
        a->m->count->misses++;
    asker_reply(a, m, DDICT_ENOKEY, NULL);
}

/* --- the rest --- */
static void del(struct asker *a, const struct msg *m, const uint8_t *key, uint64_t hash) {
    uint64_t began = clock_ns();
    int e = store_remove(a->m->store, key, m->key_len, request_who(a, m), NULL);
    if (e < 0) {
        request_failed(a, m, e);
        return;
    }
    a->m->count->deletes++;
    feeds_del(a->m, key, m->key_len);
    queue_next(a->m, key, m->key_len, hash);
    asker_reply(a, m, 0, NULL);
    a->m->now = clock_ns();
    count_latency(a->m, DDICT_OP_DEL, began, a->m->now);
}

struct key_list {
    uint8_t *bytes;
    size_t len, cap, seen;
    const uint8_t *prefix;
    uint32_t prefix_len;
};

static int key_list_add(void *arg, const void *key, uint32_t key_len) {
    struct key_list *l = arg;
    l->seen += key_len + sizeof key_len;
    if (l->prefix_len > key_len || memcmp(l->prefix, key, l->prefix_len) != 0)
        return 0;
    if (l->cap - l->len < key_len + sizeof key_len) {
        size_t cap = 2 * (l->len + key_len + KEYS_REPLY_BYTES);
        uint8_t *bytes = realloc(l->bytes, cap);
        if (!bytes)
            return -ENOMEM;
        l->bytes = bytes;
        l->cap = cap;
    }
    memcpy(l->bytes + l->len, &key_len, sizeof key_len);
    memcpy(l->bytes + l->len + sizeof key_len, key, key_len);
    l->len += sizeof key_len + key_len;
    return 0;
}

static void free_done(struct manager *m, uint64_t arg, void *ptr) {
    free(ptr);
}

static void keys(struct asker *a, const struct msg *m, const uint8_t *prefix) {
    struct key_list l = {.prefix = prefix, .prefix_len = m->key_len};
    uint64_t cursor = m->aux;
    int e;
    do
        e = store_keys(a->m->store, &cursor, key_list_add, &l);
    while (e >= 0 && cursor != 0 && l.len < KEYS_REPLY_BYTES && l.seen < KEYS_SEEN_BYTES);
    if (e < 0) {
        free(l.bytes);
        request_failed(a, m, e);
        return;
    }
    struct msg r;
    reply_init(&r, m->id, a->m->setup->id);
    r.aux = cursor;
    r.val_len = l.len;
    if (l.len <= DD_MSG_INLINE) {
        asker_send(a, &r, l.bytes, l.len);
        free(l.bytes);
        return;
    }
    if (give_begin(a, &r, l.bytes, l.len, m->val_len, free_done, 0, l.bytes) < 0) {
        free(l.bytes);
        asker_reply(a, m, -ENOMEM, NULL);
    }
}

static void stats(struct asker *a, const struct msg *m) {
    struct ddict_manager_stats s;
    struct msg r;
    manager_figures(a->m, &s);
    reply_init(&r, m->id, a->m->setup->id);
    r.val_len = sizeof s;
    asker_send(a, &r, &s, sizeof s);
}

static void len(struct asker *a, const struct msg *m) {
    struct msg r;
    reply_init(&r, m->id, a->m->setup->id);
    r.aux = a->m->header->num_keys;
    asker_send(a, &r, NULL, 0);
}

static void clear(struct asker *a, const struct msg *m) {
    int e = store_clear(a->m->store, request_who(a, m));
    if (e < 0) {
        request_failed(a, m, e);
        return;
    }
    feeds_clear(a->m);
    queues_clear(a->m);
    asker_reply(a, m, 0, NULL);
}

/* Whose is it? */
static uint32_t owner(struct manager *mg, const struct msg *m, const uint8_t *key, uint64_t *hash) {
    switch (m->type) {
    case MSG_PUT:
    case MSG_GET:
    case MSG_POP:
    case MSG_HEAD:
    case MSG_DEL:
        *hash = key_hash(key, m->key_len);
        return hash_owner(*hash, mg->setup->managers);
    case MSG_CLEAR:
    case MSG_LEN:
    case MSG_KEYS:
    case MSG_STATS:
    case MSG_EVENTS:
    case MSG_PROBE:
        return m->manager;
    default:
        return mg->setup->id;
    }
}

static int forwarded(struct asker *a, const struct msg *m, const uint8_t *payload,
                     const uint8_t *key, uint64_t hash, uint32_t to) {
    bool stream = m->type == MSG_PUT && m->flags & MSGF_STREAM;
    if (a->kind == ASKER_LANE && a->m->setup->peers && to < a->m->setup->managers)
        return forward_begin(a, m, payload, key, hash, to);
    asker_reply(a, m, DDICT_EPROTO, "this key belongs to another manager");
    return stream ? put_in_pass(a, m, NULL) : 0;
}

/* A piece that stands in the area of the lane: as if it had come in the ring. */
static int data_of_area(struct asker *a, const struct msg *m) {
    struct msg piece = *m;
    const uint8_t *at = a->kind == ASKER_LANE ? lane_place(a, m->version, m->val_len) : NULL;
    if (!at)
        return DDICT_EPROTO;
    piece.flags &= (uint16_t)~MSGF_AREA;
    piece.len = MSG_HEADER + (uint32_t)m->val_len;
    piece.val_len = piece.version = 0;
    return put_in_data(a, &piece, at);
}

int request_take(struct asker *a, const struct msg *m, const uint8_t *payload) {
    struct manager *mg = a->m;
    const uint8_t *key = payload;
    uint64_t hash = 0;
    if (m->key_len > 0 && a->kind == ASKER_LANE) {
        memcpy(mg->key, payload, m->key_len);
        key = mg->key;
    }
    uint32_t to = owner(mg, m, key, &hash);
    if (faults.on && m->type != MSG_DATA && faults_request(m->type))
        return TAKE_DONE;
    if (to != mg->setup->id) {
        if (mg->frozen && m->type == MSG_GET && cache_look(a, m, key))
            return TAKE_DONE;
        return forwarded(a, m, payload, key, hash, to);
    }
    if (mg->shut &&
        (m->type == MSG_PUT || m->type == MSG_POP || m->type == MSG_DEL || m->type == MSG_CLEAR)) {
        freeze_refuse(a, m);
        return m->type == MSG_PUT && m->flags & MSGF_STREAM ? put_in_pass(a, m, NULL) : TAKE_DONE;
    }
    switch (m->type) {
    case MSG_PUT:
        if (m->flags & MSGF_STREAM)
            return put_in_begin(a, m, key);
        return put_inline(a, m, key, payload + m->key_len);
    case MSG_GET:
    case MSG_POP:
    case MSG_HEAD:
        get(a, m, key, hash);
        return TAKE_DONE;
    case MSG_DEL:
        del(a, m, key, hash);
        return TAKE_DONE;
    case MSG_CLEAR:
        clear(a, m);
        return TAKE_DONE;
    case MSG_LEN:
        len(a, m);
        return TAKE_DONE;
    case MSG_KEYS:
        keys(a, m, key);
        return TAKE_DONE;
    case MSG_EVENTS:
        feed_ask(a, m, key);
        return TAKE_DONE;
    case MSG_STATS:
        stats(a, m);
        return TAKE_DONE;
    case MSG_PROBE:
        probe_take(a, m);
        return TAKE_DONE;
    case MSG_DATA:
        if (put_in_parks(a, m, &to))
            return parked_add(a, m, payload, to);
        return m->flags & MSGF_AREA ? data_of_area(a, m) : put_in_data(a, m, payload);
    case MSG_ABORT:
        return put_in_abort(a, m);
    case MSG_CREDIT:
        if (!lend_more(a, m->id, m->aux))
            give_more(a, m->id, m->aux);
        return TAKE_DONE;
    case MSG_CANCEL:
        if (a->parkings && (put_in_cancel(a, m->aux) || parked_cancel(a, m->aux, -ECANCELED)))
            return TAKE_DONE;
        if (!waiter_cancel(a, m->aux, -ECANCELED) && !queue_cancel(a, m->aux, -ECANCELED) &&
            !feed_cancel(a, m->aux, -ECANCELED) && !forward_cancel(a, m->aux) &&
            !freeze_cancel(a, m->aux) && !lend_cancel(a, m->aux, -ECANCELED))
            give_cancel(a, m->aux, -ECANCELED);
        return TAKE_DONE;
    case MSG_FREEZE:
        freeze_ask(a, m);
        return TAKE_DONE;
    case MSG_PREFETCH:
        return prefetch_take(a, m, payload);
    default:
        return DDICT_EPROTO;
    }
}
