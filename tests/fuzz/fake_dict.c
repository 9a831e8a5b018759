/* SPDX-License-Identifier: Apache-2.0 */
/* fake_dict.c - a dictionary without managers: a list of items, newest first. */
#include "fake_dict.h"

#include "fuzz.h"
#include <ddict.h>

struct item {
    struct item *next;
    size_t klen, vlen;
    uint8_t *key, *value; /* key: behind the item; value: a block of its own */
};
enum { BUCKETS = 1024 };

static struct item *bucket[BUCKETS];
uint64_t fake_dict_value_max = UINT64_MAX;

static struct item **item_find(const void *key, size_t klen) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < klen; i++)
        hash = (hash ^ ((const uint8_t *)key)[i]) * 16777619u;
    struct item **at = &bucket[hash % BUCKETS];
    while (*at && ((*at)->klen != klen || memcmp((*at)->key, key, klen) != 0))
        at = &(*at)->next;
    return at;
}

static void item_drop(struct item **at) {
    struct item *item = *at;
    *at = item->next;
    free(item->value);
    free(item);
}

void fake_dict_clear(void) {
    for (unsigned i = 0; i < BUCKETS; i++)
        while (bucket[i])
            item_drop(&bucket[i]);
}

uint64_t fake_dict_items(uint64_t *bytes) {
    uint64_t n = 0;
    *bytes = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct item *item = bucket[i]; item; item = item->next)
            if (item->klen == 0 || item->key[0] != 't') {
                n++;
                *bytes += item->vlen;
            }
    return n;
}

int ddict_put(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
              unsigned flags, int timeout_ms) {
    if (klen == 0 || klen > DDICT_KEY_MAX)
        return DDICT_EKEYSIZE;
    if (vlen > fake_dict_value_max)
        return DDICT_EVALSIZE;
    struct item **at = item_find(key, klen), *item;
    if (*at && flags & DDICT_NEW)
        return DDICT_EEXISTS;
    if (*at)
        item_drop(at);
    item = malloc(sizeof *item + klen);
    fuzz_must(item);
    *item = (struct item){.next = *at, .klen = klen, .vlen = vlen, .key = (uint8_t *)(item + 1)};
    item->value = malloc(vlen + (vlen == 0));
    fuzz_must(item->value);
    memcpy(item->key, key, klen);
    if (vlen > 0)
        memcpy(item->value, val, vlen);
    *at = item;
    return 0;
}

ssize_t ddict_put_many(ddict_t *d, struct ddict_pair *pairs, size_t n, int timeout_ms) {
    ssize_t stored = 0;
    for (size_t i = 0; i < n; i++) {
        struct ddict_pair *p = &pairs[i];
        p->status = ddict_put(d, p->key, p->klen, p->val, p->vlen, p->flags, timeout_ms);
        stored += p->status == 0;
    }
    return stored;
}

int ddict_view(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
               int timeout_ms) {
    struct item *item = *item_find(key, klen);
    memset(v, 0, sizeof *v);
    if (!item)
        return DDICT_ENOKEY;
    v->data = item->value;
    v->len = item->vlen;
    return 0;
}

void ddict_release(struct ddict_view *v) {
}

int ddict_contains(ddict_t *d, const void *key, size_t klen, size_t *vlen, int timeout_ms) {
    struct item *item = *item_find(key, klen);
    if (item && vlen)
        *vlen = item->vlen;
    return item != NULL;
}

int ddict_del(ddict_t *d, const void *key, size_t klen, int timeout_ms) {
    struct item **at = item_find(key, klen);
    if (!*at)
        return DDICT_ENOKEY;
    item_drop(at);
    return 0;
}

int ddict_unload(ddict_t *d, const void *key, size_t klen, int timeout_ms) {
    return ddict_del(d, key, klen, timeout_ms);
}

const char *ddict_errmsg(void) {
    return "";
}

/* --- only of a refill, which reads no source that a load does not --- */

unsigned ddict_owner(ddict_t *d, const void *key, size_t klen) {
    return 0;
}

unsigned ddict_keyed_nodes(ddict_t *d) {
    return 1;
}

int ddict_iter_open_flags(ddict_t *d, int manager, const void *prefix, size_t plen, unsigned flags,
                          ddict_iter_t **out, int timeout_ms) {
    return DDICT_EGONE;
}

int ddict_iter_next(ddict_iter_t *it, const void **key, size_t *klen) {
    return DDICT_EGONE;
}

void ddict_iter_close(ddict_iter_t *it) {
}
