/* SPDX-License-Identifier: Apache-2.0 */
/* publish_items.c - read and change the items of a published value. */
#include "publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PUB_WORD "\0ddict.pub/"
#define PUB_LEN  (sizeof PUB_WORD - 1)

int pub_begin(struct pub_call *c, ddict_t *d, const void *name, size_t nlen, int timeout_ms) {
    memset(c, 0, sizeof *c);
    int rc = ddict_self(d, &c->me, timeout_ms);
    if (rc < 0 || (rc = session_enter(d, &c->s, timeout_ms)) < 0)
        return rc;
    if (nlen == 0 || nlen > DDICT_KEY_MAX - PUB_KEY_MAX)
        return dd_error(DDICT_EKEYSIZE, "a name of %zu bytes: it must have 1 to %u", nlen,
                        DDICT_KEY_MAX - PUB_KEY_MAX);
    c->d = d;
    c->hash = key_hash(name, nlen);
    c->home = c->s->node_id % c->s->deal.keyed;
    c->klen = PUB_INDEX_LEN + nlen;
    c->key = malloc(c->klen);
    if (!c->key)
        return dd_error(-ENOMEM, "no memory for a name");
    memcpy(c->key, PUB_INDEX, PUB_INDEX_LEN);
    memcpy(c->key + PUB_INDEX_LEN, name, nlen);
    int ms = timeout_ms < 0 ? c->s->timeout_ms : timeout_ms;
    c->until_ns = clock_ns() + (uint64_t)ms * 1000000u;
    return 0;
}

void pub_end(struct pub_call *c) {
    free(c->key);
    c->key = NULL;
}

int pub_left_ms(const struct pub_call *c) {
    uint64_t now = clock_ns();
    return now >= c->until_ns ? 0 : (int)((c->until_ns - now + 999999u) / 1000000u);
}

bool pub_same(const struct pub_uid *a, const struct pub_uid *b) {
    return a->node == b->node && a->client == b->client && a->count == b->count;
}

/* The number-th of the node's managers that own keys, in turn. */
static unsigned manager_of(const struct pub_call *c, unsigned node, uint64_t number) {
    unsigned nodes = c->s->nodes, of_node = (c->s->managers - node + nodes - 1) / nodes;
    return node + nodes * (unsigned)(number % of_node);
}

int pub_key_of(const struct pub_call *c, const struct pub_entry *e, enum pub_kind kind,
               unsigned node, uint64_t number, struct pub_key *k) {
    uint8_t plain[PUB_LEN + 1 + sizeof e->uid + sizeof number];
    memcpy(plain, PUB_WORD, PUB_LEN);
    plain[PUB_LEN] = (uint8_t)kind;
    memcpy(plain + PUB_LEN + 1, &e->uid, sizeof e->uid);
    memcpy(plain + PUB_LEN + 1 + sizeof e->uid, &number, sizeof number);
    ssize_t n = ddict_key_at(c->d, manager_of(c, node, e->uid.count + number), plain, sizeof plain,
                             k->bytes, sizeof k->bytes);
    k->len = n > 0 ? (size_t)n : 0;
    return n < 0 ? (int)n : 0;
}

/* --- the index --- */

int pub_look(struct pub_call *c, struct pub_look *l) {
    memset(l, 0, offsetof(struct pub_look, e) + 2 * sizeof l->e[0]);
    l->n = 2;
    l->value = NULL;
    int rc = ddict_view(c->d, c->key, c->klen, &l->view, 0, pub_left_ms(c));
    l->lost = rc == DDICT_EKEYLOST;
    if (key_is_absent(rc))
        return 0;
    if (rc < 0)
        return rc;
    if (!pub_is_index(l->view.data, l->view.len)) {
        ddict_release(&l->view);
        return dd_error(DDICT_EPROTO, "what is published under this name has another format");
    }
    const struct pub_index *x = l->view.data;
    l->version = l->view.version;
    l->n = x->entries;
    memcpy(l->e, x->entry, x->entries * sizeof l->e[0]);
    l->value = x->entry + x->entries;
    if (l->e[0].version != 0 && l->e[0].piece == 0 &&
        l->view.len - (size_t)((const char *)l->value - (const char *)x) != l->e[0].len) {
        pub_look_end(l);
        return dd_error(DDICT_EPROTO, "what is published under this name has another length");
    }
    return 0;
}

void pub_look_end(struct pub_look *l) {
    ddict_release(&l->view);
    l->value = NULL;
}

bool pub_is_current(const struct pub_look *l, const struct pub_uid *u) {
    return (l->e[0].version != 0 && pub_same(&l->e[0].uid, u)) ||
           (l->e[1].version != 0 && pub_same(&l->e[1].uid, u));
}

int pub_index_put(struct pub_call *c, const struct pub_look *l, const struct pub_entry *e,
                  unsigned n, const struct iovec *iov, int niov) {
    size_t at = sizeof(struct pub_index) + n * sizeof *e;
    size_t len = at + (e[0].piece == 0 ? e[0].len : 0);
    struct pub_index *x = calloc(1, len);
    if (!x)
        return dd_error(-ENOMEM, "no memory for a value to publish");
    x->format = PUB_FORMAT;
    x->entries = n;
    memcpy(x->entry, e, n * sizeof *e);
    for (int i = 0; i < niov; at += iov[i++].iov_len)
        if (iov[i].iov_len > 0)
            memcpy((char *)x + at, iov[i].iov_base, iov[i].iov_len);
    int rc = ddict_put_if(c->d, c->key, c->klen, x, len, 0, l->version, NULL, pub_left_ms(c));
    free(x);
    return rc;
}

/* --- the chain --- */

int pub_chain_read(struct pub_call *c, const struct pub_entry *e, struct pub_chain *ch) {
    struct pub_key k;
    struct ddict_view v;
    memset(ch, 0, sizeof *ch);
    int rc = pub_key_of(c, e, PUB_CHAIN, e->origin, 0, &k);
    if (rc < 0 || (rc = ddict_view(c->d, k.bytes, k.len, &v, 0, c->s->timeout_ms)) < 0)
        return rc;
    if (v.len >= 8) {
        memcpy(&ch->closed, v.data, sizeof ch->closed);
        ch->n = (uint32_t)((v.len - 8) / sizeof *ch->link);
    }
    ch->version = v.version;
    ch->link = calloc(ch->n + 1u, sizeof *ch->link);
    if (ch->link)
        memcpy(ch->link, (const char *)v.data + 8, ch->n * sizeof *ch->link);
    ddict_release(&v);
    return ch->link ? 0 : dd_error(-ENOMEM, "no memory for the nodes that fetch a value");
}

int pub_chain_put(struct pub_call *c, const struct pub_entry *e, struct pub_chain *ch) {
    struct pub_key k;
    int rc = pub_key_of(c, e, PUB_CHAIN, e->origin, 0, &k);
    size_t len = 8 + ch->n * sizeof *ch->link;
    uint8_t *p = rc == 0 ? calloc(1, len) : NULL;
    if (!p)
        return rc < 0 ? rc : dd_error(-ENOMEM, "no memory for the nodes that fetch a value");
    memcpy(p, &ch->closed, sizeof ch->closed);
    if (ch->n > 0)
        memcpy(p + 8, ch->link, ch->n * sizeof *ch->link);
    rc = ddict_put_if(c->d, k.bytes, k.len, p, len, 0, ch->version, &ch->version, c->s->timeout_ms);
    free(p);
    return rc;
}

/* --- what a node holds --- */

/* The key, of the name on one manager of the node; malloc'ed. */
static int held_key(struct pub_call *c, unsigned node, uint8_t **key, size_t *klen) {
    size_t cap = c->klen + DDICT_KEY_AT;
    uint8_t *plain = malloc(c->klen);
    *key = plain ? malloc(cap) : NULL;
    if (!*key) {
        free(plain);
        return dd_error(-ENOMEM, "no memory for a name");
    }
    memcpy(plain, c->key, c->klen);
    plain[PUB_LEN] = 'n';
    ssize_t n = ddict_key_at(c->d, manager_of(c, node, c->hash), plain, c->klen, *key, cap);
    free(plain);
    if (n < 0)
        free(*key);
    *klen = n < 0 ? 0 : (size_t)n;
    return n < 0 ? (int)n : 0;
}

static int held_read(struct pub_call *c, const uint8_t *key, size_t klen, struct pub_held *all,
                     unsigned *n, uint64_t *version) {
    struct ddict_view v;
    *n = 0;
    *version = 0;
    int rc = ddict_view(c->d, key, klen, &v, 0, c->s->timeout_ms);
    if (rc < 0)
        return key_is_absent(rc) ? 0 : rc;
    *version = v.version;
    *n = (unsigned)(v.len / sizeof *all);
    if (*n > PUB_HELD_MAX)
        *n = PUB_HELD_MAX;
    memcpy(all, v.data, *n * sizeof *all);
    ddict_release(&v);
    return 0;
}

static unsigned held_find(const struct pub_held *all, unsigned n, const struct pub_uid *u) {
    unsigned i = 0;
    while (i < n && !pub_same(&all[i].uid, u))
        i++;
    return i;
}

int pub_held_get(struct pub_call *c, unsigned node, const struct pub_uid *u, struct pub_held *h) {
    struct pub_held all[PUB_HELD_MAX];
    uint64_t version;
    uint8_t *key;
    size_t klen;
    unsigned n;
    int rc = held_key(c, node, &key, &klen);
    if (rc < 0)
        return rc;
    rc = held_read(c, key, klen, all, &n, &version);
    free(key);
    if (rc < 0)
        return rc;
    unsigned i = held_find(all, n, u);
    if (i == n)
        return 0;
    *h = all[i];
    return 1;
}

/* Make the change in the list. */
static int held_change(struct pub_held *all, unsigned *n, const struct pub_held *was,
                       const struct pub_held *be) {
    unsigned i = held_find(all, *n, was ? &was->uid : &be->uid);
    bool same = i < *n && was && memcmp(&all[i], was, sizeof *was) == 0;
    if (was ? !same : i < *n)
        return DDICT_ECHANGED;
    if (!was && *n == PUB_HELD_MAX)
        return dd_error(DDICT_EFULL, "this node holds too many versions of one name");
    if (be) {
        all[i] = *be;
        *n += i == *n;
    } else {
        all[i] = all[--*n];
    }
    return 0;
}

/* Leave out who died while it fetched. Without it the node has that value no more than it did. */
static unsigned held_living(struct pub_call *c, struct pub_held *all, unsigned n) {
    for (unsigned i = 0; i < n;) {
        bool dead =
            all[i].state == PUB_FETCHING && ddict_alive(c->d, all[i].who, c->s->timeout_ms) == 0;
        if (dead)
            all[i] = all[--n];
        else
            i++;
    }
    return n;
}

static int held_put(struct pub_call *c, const uint8_t *key, size_t klen, const struct pub_held *all,
                    unsigned n, uint64_t version) {
    if (n == 0)
        return ddict_del_if(c->d, key, klen, version, c->s->timeout_ms);
    return ddict_put_if(c->d, key, klen, all, n * sizeof *all, 0, version, NULL, c->s->timeout_ms);
}

int pub_held_set(struct pub_call *c, unsigned node, const struct pub_held *was,
                 const struct pub_held *be) {
    struct pub_held all[PUB_HELD_MAX + 1];
    uint64_t version;
    uint8_t *key;
    size_t klen;
    unsigned n;
    int rc = held_key(c, node, &key, &klen);
    if (rc < 0)
        return rc;
    do {
        rc = held_read(c, key, klen, all, &n, &version);
        if (rc == 0 && !was)
            n = held_living(c, all, n);
        if (rc < 0 || (rc = held_change(all, &n, was, be)) < 0)
            break;
        rc = held_put(c, key, klen, all, n, version);
    } while (rc == DDICT_ECHANGED || rc == DDICT_ENOKEY); /* each time somebody else has come on */
    free(key);
    return rc;
}

int pub_held_tidy(struct pub_call *c, unsigned node) {
    struct pub_held all[PUB_HELD_MAX];
    uint64_t version;
    uint8_t *key;
    size_t klen;
    unsigned n;
    int rc = held_key(c, node, &key, &klen);
    if (rc < 0)
        return rc;
    do {
        rc = held_read(c, key, klen, all, &n, &version);
        unsigned living = rc == 0 ? held_living(c, all, n) : n;
        if (living == n)
            break;
        rc = held_put(c, key, klen, all, living, version);
    } while (rc == DDICT_ECHANGED || rc == DDICT_ENOKEY);
    free(key);
    return rc;
}
