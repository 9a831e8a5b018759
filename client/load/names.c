/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - paths of members as keys, and which were seen: open addressing. */
#include "names.h"

#include <base/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct names {
    struct slot {
        uint64_t hash, value;
    } * slot;      /* hash 0: empty */
    size_t n, cap; /* cap: a power of two */
};

int name_clean(struct pack *out, const char *name, size_t len) {
    size_t begin = out->len;
    while (len > 0) {
        const char *slash = memchr(name, '/', len);
        size_t n = slash != NULL ? (size_t)(slash - name) : len;
        if (n == 2 && memcmp(name, "..", 2) == 0)
            return -1;
        if (n > 0 && !(n == 1 && *name == '.')) {
            if (out->len > begin)
                pack_bytes(out, "/", 1);
            pack_bytes(out, name, n);
        }
        n += slash != NULL;
        name += n;
        len -= n;
    }
    return out->len > begin ? 0 : -1;
}

struct names *names_new(void) {
    struct names *n = calloc(1, sizeof *n);
    if (n != NULL && (n->slot = calloc(1024, sizeof *n->slot)) == NULL) {
        free(n);
        return NULL;
    }
    if (n != NULL)
        n->cap = 1024;
    return n;
}

static struct slot *slot_of(struct slot *slot, size_t cap, uint64_t hash) {
    size_t i = hash & (cap - 1);
    while (slot[i].hash != 0 && slot[i].hash != hash)
        i = (i + 1) & (cap - 1);
    return &slot[i];
}

int names_add(struct names *n, uint64_t hash, uint64_t value, uint64_t *old) {
    hash |= (uint64_t)1 << 63;
    if (2 * n->n >= n->cap) {
        struct slot *more = calloc(4 * n->cap, sizeof *more);
        if (more == NULL)
            return dd_error(-ENOMEM, "out of memory");
        for (size_t i = 0; i < n->cap; i++)
            if (n->slot[i].hash != 0)
                *slot_of(more, 4 * n->cap, n->slot[i].hash) = n->slot[i];
        free(n->slot);
        n->slot = more;
        n->cap *= 4;
    }
    struct slot *s = slot_of(n->slot, n->cap, hash);
    int there = s->hash != 0;
    if (there && old != NULL)
        *old = s->value;
    n->n += !there;
    s->hash = hash;
    s->value = value;
    return there;
}

void names_free(struct names *n) {
    if (n != NULL)
        free(n->slot);
    free(n);
}
