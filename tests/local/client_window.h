/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_window.h - what the tests of working sets share: a dictionary on two nodes with four managers,
 * and what a key has at a checkpoint. W1 .. W7 in the tests: the invariants of client/lib/window.h.
 */
#ifndef CLIENT_WINDOW_H
#define CLIENT_WINDOW_H

#include "client_dict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB      (1ull << 20)
#define NODES    2
#define MANAGERS 4u /* in all */
#define WAIT     20000

static struct dict x;
static ddict_t *d[NODES];
static char key[32];
static size_t klen;

/* A dictionary with a working set, attached to on both nodes. */
static inline void begin(const char *working_set) {
    setenv("DDICT_TEST_WORKING_SET", working_set, 1);
    dict_begin_all(&x, d, NODES, MANAGERS, 96 * MIB);
    unsetenv("DDICT_TEST_WORKING_SET");
}
static inline void end(void) {
    dict_end_all(&x, d);
}

/* With the i-th key of each manager. */
#define EACH(i) \
    for (unsigned m_ = 0; m_ < MANAGERS && (klen = key_of(d[0], m_, i, key, sizeof key)) > 0; m_++)

static inline void at(ddict_t *of, uint64_t id) {
    ok(ddict_set_checkpoint_id(of, id));
}
static inline int put(ddict_t *of, uint64_t id, const char *text) {
    at(of, id);
    return ddict_put(of, key, klen, text, strlen(text), DDICT_TAG(4), WAIT);
}
static inline void has(ddict_t *of, uint64_t id, const char *text) {
    struct ddict_view v;
    char got[64];
    size_t len;
    unsigned tag;
    at(of, id);
    ok(ddict_view(of, key, klen, &v, 0, WAIT));
    ck_assert_msg(v.len == strlen(text) && memcmp(v.data, text, v.len) == 0,
                  "%s at %d: %.*s, not %s", key, (int)id, (int)v.len, (const char *)v.data, text);
    ck_assert_uint_eq(v.tag, 4);
    ddict_release(&v);
    ok(ddict_get(of, key, klen, got, sizeof got, &len, &tag, 0, WAIT));
    ck_assert(len == strlen(text) && memcmp(got, text, len) == 0 && tag == 4);
    ck_assert_int_eq(ddict_contains(of, key, klen, &len, WAIT), 1);
    ck_assert_uint_eq(len, strlen(text));
}
static inline void has_none(ddict_t *of, uint64_t id) {
    struct ddict_view v;
    char got[8];
    at(of, id);
    fails(DDICT_ENOKEY, ddict_view(of, key, klen, &v, 0, WAIT));
    fails(DDICT_ENOKEY, ddict_get(of, key, klen, got, sizeof got, NULL, NULL, 0, WAIT));
    ck_assert_int_eq(ddict_contains(of, key, klen, NULL, WAIT), 0);
}
static inline void is_retired(ddict_t *of, uint64_t id) {
    struct ddict_view v;
    at(of, id);
    fails(DDICT_ERETIRED, ddict_view(of, key, klen, &v, 0, WAIT));
    fails(DDICT_ERETIRED, ddict_contains(of, key, klen, NULL, WAIT));
    fails(DDICT_ERETIRED, ddict_put(of, key, klen, "late", 4, 0, WAIT));
    fails(DDICT_ERETIRED, ddict_del(of, key, klen, WAIT));
}

static inline uint64_t items(void) {
    struct ddict_manager_stats *s;
    uint64_t n = 0;
    int k = ddict_stats(d[0], &s, sizeof *s, WAIT);
    for (int i = 0; i < k; i++)
        n += s[i].num_keys;
    free(s);
    return n;
}
/* The last values of each handle that are not needed are removed in a moment. */
static inline void items_are_at_most(uint64_t n) {
    for (double until = now_s() + 20; items() > n && now_s() < until;)
        usleep(10000);
    ck_assert_uint_le(items(), n);
}
static inline void items_become(uint64_t n) {
    for (double until = now_s() + 20; items() != n && now_s() < until;)
        usleep(10000);
    ck_assert_uint_eq(items(), n);
}

#endif
