/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iter.c - walk over the keys, a segment of one manager at a time: in place for the managers of this node, by KEYS
 * messages for the others. A cursor is a hash prefix, so a key that is present throughout is met exactly once however the index grows.
 */
#include "ask.h"
#include "lease.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ddict_iter {
    ddict_t *d;
    int timeout_ms;
    unsigned manager, end; /* the current one; the first that is not visited */
    bool here_only;
    size_t prefix_len;
    bool over; /* the current one is done */
    uint64_t cursor;
    uint8_t *keys; /* records of u32 length and key */
    size_t len, cap, at;
    uint8_t prefix[];
};

int ddict_iter_open(ddict_t *d, int manager, ddict_iter_t **out, int timeout_ms) {
    return ddict_iter_open_prefix(d, manager, NULL, 0, out, timeout_ms);
}

int ddict_iter_open_prefix(ddict_t *d, int manager, const void *prefix, size_t plen,
                           ddict_iter_t **out, int timeout_ms) {
    struct session *s;
    *out = NULL;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    if (manager < -2 || (manager >= 0 && (unsigned)manager >= s->managers))
        return dd_error(-EINVAL, "there is no manager %d (0 to %u)", manager, s->managers - 1);
    if (plen > DDICT_KEY_MAX)
        return dd_error(DDICT_EKEYSIZE, "a prefix of %zu bytes: it may have %u", plen,
                        DDICT_KEY_MAX);
    struct ddict_iter *it = calloc(1, sizeof *it + plen);
    if (it == NULL)
        return dd_error(-ENOMEM, "no memory for an iterator");
    it->d = d;
    it->timeout_ms = timeout_ms;
    it->prefix_len = plen;
    if (plen > 0)
        memcpy(it->prefix, prefix, plen);
    it->here_only = manager == -2;
    it->manager = manager < 0 ? 0 : (unsigned)manager;
    it->end = manager < 0 ? s->managers : (unsigned)manager + 1;
    *out = it;
    return 0;
}

void ddict_iter_close(ddict_iter_t *it) {
    if (it == NULL)
        return;
    free(it->keys);
    free(it);
}

static int room_grow(struct ddict_iter *it, size_t need) {
    if (it->cap - it->len >= need)
        return 0;
    size_t cap = it->cap ? it->cap : 16384;
    while (cap - it->len < need)
        cap *= 2;
    uint8_t *keys = realloc(it->keys, cap);
    if (keys == NULL)
        return dd_error(-ENOMEM, "no memory for %zu bytes of keys", cap);
    it->keys = keys;
    it->cap = cap;
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

static int fill_asked(struct ddict_iter *it, struct session *s) {
    struct outgoing out = {.head = {.type = MSG_KEYS,
                                    .manager = it->manager,
                                    .aux = it->cursor,
                                    .key_len = (uint32_t)it->prefix_len},
                           .key = it->prefix};
    struct request r = {.sink = SINK_MEMORY};
    int rc = ask(s, session_ask(s, it->manager), &out, &r, it->timeout_ms);
    if (rc < 0)
        return rc;
    free(it->keys);
    it->keys = r.buf;
    it->len = r.got;
    it->cap = r.cap;
    it->cursor = r.reply.aux;
    return 0;
}

static int fill_here(struct ddict_iter *it, struct session *s, struct node_manager *m) {
    struct lease_thread *t = lease_thread(s);
    if (t == NULL || t->scratch == NULL)
        return fill_asked(it, s);
    int rc = reader_keys(&m->arena, &it->cursor, t->scratch, key_take, it);
    if (rc == -EAGAIN) {
        it->len = 0;
        return fill_asked(it, s);
    }
    return rc < 0 ? rc : 0;
}

/* The next segment. */
static int fill(struct ddict_iter *it, struct session *s) {
    it->len = it->at = 0;
    struct node_manager *m = session_local(s, it->manager);
    int rc = m != NULL ? fill_here(it, s, m) : fill_asked(it, s);
    it->over = rc == 0 && it->cursor == 0;
    return rc;
}

int ddict_iter_next(ddict_iter_t *it, const void **key, size_t *klen) {
    struct session *s;
    for (;;) {
        uint32_t n;
        if (it->at < it->len) {
            if (it->len - it->at < sizeof n)
                return dd_error(DDICT_EPROTO, "the keys of manager %u are malformed", it->manager);
            memcpy(&n, it->keys + it->at, sizeof n);
            it->at += sizeof n;
            if (n == 0 || n > it->len - it->at)
                return dd_error(DDICT_EPROTO, "the keys of manager %u are malformed", it->manager);
            *key = it->keys + it->at;
            *klen = n;
            it->at += n;
            return 1;
        }
        int rc = session_enter(it->d, &s, it->timeout_ms);
        if (rc < 0)
            return rc;
        while (it->over ||
               (it->manager < it->end && it->here_only && session_local(s, it->manager) == NULL)) {
            it->over = false;
            it->manager++;
        }
        if (it->manager >= it->end)
            return 0;
        if ((rc = fill(it, s)) < 0)
            return rc;
    }
}
