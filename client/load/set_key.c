/* SPDX-License-Identifier: Apache-2.0 */
/* set_key.c - keys of a set's pieces and of their copies, set_key.h */
#include "set_key.h"

#include "load.h"
#include "state.h"
#include <base/error.h>

#include <stdbool.h>
#include <string.h>

#define NUMBERS_MOST 4096 /* tried for a copy: each hits a node that has none with 1 / nodes */

size_t set_key(uint8_t *key, const char *name, const char *what, int64_t part) {
    size_t at = 1;
    key[0] = 't';
    at = tuple_text(key, at, "ddict.set");
    at = tuple_text(key, at, name);
    if (!what)
        return at;
    at = tuple_text(key, at, what);
    return tuple_number(key, at, part);
}

static size_t copy_key(uint8_t *key, const char *name, const char *what, int64_t part, int64_t n) {
    size_t at = 1;
    key[0] = 't';
    at = tuple_text(key, at, "ddict.refill");
    at = tuple_text(key, at, name);
    at = tuple_text(key, at, what ? what : "set");
    at = tuple_number(key, at, part);
    return tuple_number(key, at, n);
}

static unsigned node_of(const uint8_t *key, size_t len) {
    return ddict_owner(the_load.d, key, len) % the_load.info.nodes;
}

size_t set_copy_key(uint8_t *key, const char *name, const char *what, int64_t part, unsigned c) {
    unsigned used[1 + SET_COPIES], n_used = 1, keyed = ddict_keyed_nodes(the_load.d);
    used[0] = node_of(key, set_key(key, name, what, part));
    for (int64_t n = 0; n < NUMBERS_MOST && n_used < keyed; n++) {
        size_t len = copy_key(key, name, what, part, n);
        unsigned node = node_of(key, len);
        bool is_used = false;
        for (unsigned i = 0; i < n_used; i++)
            is_used |= used[i] == node;
        if (is_used)
            continue;
        if (n_used == c + 1)
            return len;
        used[n_used++] = node;
    }
    return 0;
}

int set_piece_put(const char *name, const char *what, int64_t part, const void *value, size_t len,
                  unsigned flags) {
    uint8_t key[SET_KEY_CAP];
    size_t klen;
    int rc = 0;
    flags |= DDICT_LOADED;
    for (unsigned c = 0; the_load.refills && c < SET_COPIES && rc == 0; c++)
        if ((klen = set_copy_key(key, name, what, part, c)) > 0)
            rc = ddict_put(the_load.d, key, klen, value, len, flags, -1);
    if (rc == 0)
        rc = ddict_put(the_load.d, key, set_key(key, name, what, part), value, len, flags, -1);
    return rc < 0 ? load_error(rc) : 0;
}

int set_piece_view(const char *name, const char *what, int64_t part, struct ddict_view *v) {
    uint8_t key[SET_KEY_CAP];
    size_t len = set_key(key, name, what, part);
    int absent = DDICT_ENOKEY;
    for (unsigned c = 0; len > 0; c++) {
        int rc = ddict_view(the_load.d, key, len, v, 0, -1);
        if (!key_is_absent(rc))
            return rc < 0 ? load_error(rc) : 1;
        if (rc == DDICT_EKEYLOST)
            absent = rc;
        len = the_load.refills && c < SET_COPIES ? set_copy_key(key, name, what, part, c) : 0;
    }
    return absent;
}

static int piece_unload(const uint8_t *key, size_t klen) {
    int rc = ddict_unload(the_load.d, key, klen, -1);
    return rc < 0 && !key_is_absent(rc) ? load_error(rc) : 0;
}

int set_copies_remove(const char *name, const char *what, int64_t part) {
    uint8_t key[SET_KEY_CAP];
    size_t klen;
    int rc = 0;
    for (unsigned c = 0; the_load.refills && c < SET_COPIES && rc == 0; c++)
        if ((klen = set_copy_key(key, name, what, part, c)) > 0)
            rc = piece_unload(key, klen);
    return rc;
}

int set_piece_remove(const char *name, const char *what, int64_t part) {
    uint8_t key[SET_KEY_CAP];
    int rc = set_copies_remove(name, what, part);
    return rc < 0 ? rc : piece_unload(key, set_key(key, name, what, part));
}
