/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - how the processes of a load tell each other their state: items of the dictionary whose
 * keys are tuples in Python's form (doc/FORMAT.md). */
#include "state.h"

#include "load.h"
#include <base/error.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEEK_MS 500
#define DEL_MS  5000

struct load the_load;

static size_t part_add(uint8_t *key, size_t at, char letter, const char *text) {
    uint32_t len = htole32((uint32_t)strlen(text) + 1);
    memcpy(key + at, &len, sizeof len);
    key[at + sizeof len] = (uint8_t)letter;
    memcpy(key + at + sizeof len + 1, text, strlen(text));
    return at + sizeof len + 1 + strlen(text);
}

size_t tuple_text(uint8_t *key, size_t at, const char *text) {
    return part_add(key, at, 's', text);
}

size_t tuple_number(uint8_t *key, size_t at, int64_t n) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, n);
    return part_add(key, at, 'i', text);
}

size_t state_key(void *key, const char *a, const char *b, int64_t n, int64_t i) {
    uint8_t *k = key;
    size_t at = 1;
    k[0] = 't';
    at = tuple_text(k, at, "ddict.load");
    at = tuple_text(k, at, a);
    if (b)
        at = tuple_text(k, at, b);
    if (n >= 0)
        at = tuple_number(k, at, n);
    return i >= 0 ? tuple_number(k, at, i) : at;
}

int load_error(int code) {
    return dd_error(code, "%s", ddict_errmsg());
}

int state_put(const char *a, const char *b, int64_t n, int64_t i, const void *value, size_t len,
              unsigned flags) {
    uint8_t key[LOAD_KEY_CAP];
    int rc = ddict_put(the_load.d, key, state_key(key, a, b, n, i), value, len, flags, -1);
    return rc < 0 && rc != DDICT_EEXISTS ? load_error(rc) : rc;
}

int state_get(const char *a, const char *b, int64_t n, int64_t i, uint8_t **value, size_t *len) {
    uint8_t key[LOAD_KEY_CAP];
    struct ddict_view v;
    int rc = ddict_view(the_load.d, key, state_key(key, a, b, n, i), &v, 0, -1);
    *value = NULL;
    *len = 0;
    if (rc < 0)
        return key_is_absent(rc) ? DDICT_ENOKEY : load_error(rc);
    *value = malloc(v.len + 1);
    if (*value) {
        memcpy(*value, v.data, v.len);
        (*value)[v.len] = 0;
        *len = v.len;
    }
    ddict_release(&v);
    return *value ? 0 : dd_error(-ENOMEM, "out of memory");
}

int state_text(const char *a, const char *b, int64_t n, char *text, size_t cap) {
    uint8_t *value;
    size_t len;
    int rc = state_get(a, b, n, -1, &value, &len);
    if (rc == 0)
        snprintf(text, cap, "%s", (char *)value);
    free(value);
    return rc;
}

int state_peek(const char *a, const char *b, int64_t n, char *text, size_t cap) {
    uint8_t key[LOAD_KEY_CAP];
    struct ddict_view v;
    if (!the_load.refills)
        return state_text(a, b, n, text, cap);
    int rc = ddict_view(the_load.d, key, state_key(key, a, b, n, -1), &v, 0, PEEK_MS);
    if (rc == -ETIMEDOUT || rc == DDICT_EKEYLOST)
        return -EAGAIN;
    if (rc < 0)
        return rc == DDICT_ENOKEY ? rc : load_error(rc);
    snprintf(text, cap, "%.*s", (int)v.len, (const char *)v.data);
    ddict_release(&v);
    return 0;
}

int state_has(const char *a, const char *b, int64_t n) {
    uint8_t key[LOAD_KEY_CAP];
    int rc = ddict_contains(the_load.d, key, state_key(key, a, b, n, -1), NULL, -1);
    return key_is_absent(rc) ? 0 : rc < 0 ? load_error(rc) : rc;
}

int state_del(const char *a, const char *b, int64_t n, int64_t i) {
    uint8_t key[LOAD_KEY_CAP];
    int rc = ddict_del(the_load.d, key, state_key(key, a, b, n, i), the_load.refills ? DEL_MS : -1);
    /* while keys are read again one that is not there is waited for */
    bool is_gone = rc >= 0 || key_is_absent(rc) || (the_load.refills && rc == -ETIMEDOUT);
    return is_gone ? 0 : load_error(rc);
}

/* Those of keys, texts. */
static int keys_del(const struct pack *keys) {
    struct unpack u = {.at = keys->data, .left = keys->len};
    int n = 0;
    while (u.left > 0 && !u.bad) {
        size_t len;
        const char *key = unpack_text(&u, &len);
        int rc = load_stopped() ? -ECANCELED : ddict_del(the_load.d, key, len, -1);
        if (rc < 0 && !key_is_absent(rc))
            return rc == -ECANCELED ? rc : load_error(rc);
        n++;
    }
    return n;
}

int state_clear(const char *a, const char *but) {
    uint8_t head[LOAD_KEY_CAP], kept[LOAD_KEY_CAP];
    size_t n = state_key(head, a, NULL, -1, -1), n_kept = state_key(kept, a, but, -1, -1), len;
    struct pack keys = {0};
    ddict_iter_t *it;
    const void *key;
    int rc = ddict_iter_open_flags(the_load.d, -1, head, n, DDICT_ITER_HIDDEN, &it, -1);
    if (rc < 0)
        return load_error(rc);
    while ((rc = ddict_iter_next(it, &key, &len)) == 1)
        if (len < n_kept || memcmp(key, kept, n_kept) != 0)
            pack_text(&keys, key, len);
    ddict_iter_close(it);
    rc = rc < 0 ? load_error(rc) : keys.bad ? dd_error(-ENOMEM, "out of memory") : keys_del(&keys);
    pack_free(&keys);
    return rc;
}

/* --- the first error --- */

static pthread_mutex_t why_lock = PTHREAD_MUTEX_INITIALIZER;
static char why[LOAD_ERROR_MAX];
static int why_code;

/* a flag alone; it orders nothing */
bool load_stopped(void) {
    return __atomic_load_n(&the_load.stopped, __ATOMIC_RELAXED) != 0;
}

void load_fail(int code, const char *sentence) {
    char text[LOAD_ERROR_MAX + 16];
    pthread_mutex_lock(&why_lock);
    bool first = why_code == 0;
    if (first) {
        snprintf(why, sizeof why, "%s", *sentence != 0 ? sentence : "failed without a word");
        why_code = code < 0 ? code : -EIO;
        snprintf(text, sizeof text, "%d %s", why_code, why);
    }
    pthread_mutex_unlock(&why_lock);
    __atomic_store_n(&the_load.stopped, 1, __ATOMIC_RELAXED);
    /* with NEW it would wait while keys are read again */
    if (first && the_load.d && the_load.run[0] != 0)
        state_put(the_load.run, "stop", -1, -1, text, strlen(text),
                  (the_load.refills ? 0 : DDICT_NEW) | DDICT_TAG(LOAD_TAG_STR));
}

void error_clear(void) {
    pthread_mutex_lock(&why_lock);
    why_code = 0;
    pthread_mutex_unlock(&why_lock);
    __atomic_store_n(&the_load.stopped, 0, __ATOMIC_RELAXED);
}

int load_why(char *text, size_t cap) {
    pthread_mutex_lock(&why_lock);
    int code = why_code;
    snprintf(text, cap, "%s", why);
    pthread_mutex_unlock(&why_lock);
    return code;
}
