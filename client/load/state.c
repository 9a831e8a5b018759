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

int state_has(const char *a, const char *b, int64_t n) {
    uint8_t key[LOAD_KEY_CAP];
    int rc = ddict_contains(the_load.d, key, state_key(key, a, b, n, -1), NULL, -1);
    return key_is_absent(rc) ? 0 : rc < 0 ? load_error(rc) : rc;
}

int state_del(const char *a, const char *b, int64_t n, int64_t i) {
    uint8_t key[LOAD_KEY_CAP];
    int rc = ddict_del(the_load.d, key, state_key(key, a, b, n, i), -1);
    return rc < 0 && !key_is_absent(rc) ? load_error(rc) : 0;
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
    if (first && the_load.d && the_load.run[0] != 0)
        state_put(the_load.run, "stop", -1, -1, text, strlen(text),
                  DDICT_NEW | DDICT_TAG(LOAD_TAG_STR));
}

void load_forget(void) {
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
