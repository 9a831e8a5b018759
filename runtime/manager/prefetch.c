/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.c - fetches keys into the node cache before clients ask for them, some at a time, as a
 * requester of its own that takes no answers. */
#include "prefetch.h"

#include "forward.h"
#include "manager.h"
#include "peer_client.h"
#include "requester.h"
#include <base/deal.h>
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREFETCH_AHEAD 64u         /* requests under way */
#define PREFETCH_QUEUE (16u << 20) /* bytes of waiting keys */

struct prefetch {
    struct requester self;
    uint8_t *bytes; /* records: u32 length, key; those from `at` on wait */
    size_t at, len, cap;
    uint64_t next_id;
};

/* The values go to the cache; there is nobody to answer. */
static void nothing_send(struct requester *a, struct msg *r, const void *payload, size_t len) {
}
static bool nothing_idle(struct requester *a) {
    return true;
}
static const struct carrier_ops nothing_ops = {
    .name = "prefetch", .send = nothing_send, .idle = nothing_idle};

int prefetch_init(struct manager *m) {
    m->prefetch = calloc(1, sizeof *m->prefetch);
    if (!m->prefetch)
        return -ENOMEM;
    requester_init(&m->prefetch->self, m, REQUESTER_SELF, &nothing_ops, 0);
    return 0;
}

void prefetch_end(struct manager *m) {
    struct prefetch *p = m->prefetch;
    free(p->bytes);
    p->bytes = NULL;
    p->at = p->len = p->cap = 0;
}

void prefetch_free(struct manager *m) {
    if (!m->prefetch)
        return;
    prefetch_end(m);
    m->prefetch->self.gone = true;    /* so that answers are dropped */
    forwards_end(&m->prefetch->self); /* it has nothing else under way */
    free(m->prefetch);
    m->prefetch = NULL;
}

static bool queue_add(struct prefetch *p, const uint8_t *record, size_t n) {
    if (p->len - p->at + n > PREFETCH_QUEUE)
        return false;
    if (p->len + n > p->cap && p->at > 0) {
        memmove(p->bytes, p->bytes + p->at, p->len - p->at);
        p->len -= p->at;
        p->at = 0;
    }
    if (VEC_ROOM(&p->bytes, &p->cap, p->len + n, 4096) < 0)
        return false;
    memcpy(p->bytes + p->len, record, n);
    p->len += n;
    return true;
}

/* Whether the key is of another node, and not in the cache. One that is being read again might not be
 * answered for long, and the others would wait behind it. */
static bool key_wanted(struct manager *m, const uint8_t *key, uint32_t len, uint64_t *hash,
                       uint32_t *owner) {
    struct store_ref ref;
    *hash = key_hash(key, len);
    *owner = deal_owner(&m->setup->deal, key, len, *hash);
    return m->frozen && *owner % m->setup->nodes != m->setup->node_id &&
           !peer_is_refilling(m, *owner) &&
           store_cache_find(m->store, key, len, &ref) == DDICT_ENOKEY;
}

int prefetch_take(struct requester *a, const struct msg *req, const uint8_t *payload) {
    struct manager *m = a->m;
    uint64_t hash, taken = 0;
    uint32_t owner, len;
    size_t n = req->len - MSG_HEADER;
    uint8_t *records = malloc(n + 1); /* a copy: the lane may change */
    if (!records) {
        requester_reply(a, req, -ENOMEM, NULL);
        return TAKE_DONE;
    }
    if (n)
        memcpy(records, payload, n);
    for (size_t at = 0; at < n; at += sizeof len + len) {
        len = 0;
        if (n - at > sizeof len)
            memcpy(&len, records + at, sizeof len);
        if (len == 0 || len > MSG_KEY_MAX || len > n - at - sizeof len) {
            free(records);
            return DDICT_EPROTO;
        }
        if (!key_wanted(m, records + at + sizeof len, len, &hash, &owner))
            continue;
        if (!queue_add(m->prefetch, records + at, sizeof len + len))
            break;
        taken++;
    }
    free(records);
    struct msg r;
    reply_init(&r, req->id, m->setup->id);
    r.aux = taken;
    requester_send(a, &r, NULL, 0);
    prefetch_turn(m);
    return TAKE_DONE;
}

bool prefetch_turn(struct manager *m) {
    struct prefetch *p = m->prefetch;
    bool worked = false;
    while (p->at < p->len && p->self.forwards_n < PREFETCH_AHEAD) {
        uint64_t hash;
        uint32_t owner, len;
        memcpy(&len, p->bytes + p->at, sizeof len);
        const uint8_t *key = p->bytes + p->at + sizeof len;
        struct msg req = {.len = MSG_HEADER + len,
                          .type = MSG_GET,
                          .flags = MSGF_VIEW,
                          .id = ++p->next_id,
                          .patience_ms = m->setup->refill ? DD_PEER_LOST_MS : 0,
                          .key_len = len};
        /* If the key cannot be requested, the client that reads it will be told. */
        if (key_wanted(m, key, len, &hash, &owner) &&
            forward_begin(&p->self, &req, key, key, hash, owner) == TAKE_STALL)
            break;
        p->at += sizeof len + len;
        worked = true;
    }
    if (p->at == p->len && p->cap)
        prefetch_end(m);
    return worked;
}
