/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - keys of members and of numbered records, and which names were seen, names.h */
#include "names.h"

#include <base/error.h>
#include <base/hashset.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct name {
    uint64_t hash, value;
};
struct names {
    struct hashset set;
};

int name_clean(struct pack *out, const char *name, size_t len) {
    size_t begin = out->len;
    while (len > 0) {
        const char *slash = memchr(name, '/', len);
        size_t n = slash ? (size_t)(slash - name) : len;
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

size_t number_key(char *key, const char *prefix, uint64_t number) {
    return (size_t)snprintf(key, NUMBER_KEY_CAP, "%c%.900s%" PRIu64, *prefix != 0 ? 's' : 'i',
                            prefix, number);
}

struct names *names_new(void) {
    struct names *n = calloc(1, sizeof *n);
    if (n)
        n->set = HASHSET_OF(struct name, 1);
    return n;
}

int names_add(struct names *n, uint64_t hash, uint64_t value, uint64_t *old) {
    bool is_new;
    hash |= (uint64_t)1 << 63;
    struct name *name = hashset_add(&n->set, &hash, &is_new);
    if (!name)
        return dd_error(-ENOMEM, "out of memory");
    if (!is_new && old)
        *old = name->value;
    name->value = value;
    return !is_new;
}

bool names_find(const struct names *n, uint64_t hash, uint64_t *value) {
    hash |= (uint64_t)1 << 63;
    const struct name *name = hashset_find(&n->set, &hash);
    if (name)
        *value = name->value;
    return name != NULL;
}

void names_free(struct names *n) {
    if (n)
        hashset_free(&n->set);
    free(n);
}
