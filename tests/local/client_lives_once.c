/* SPDX-License-Identifier: Apache-2.0 */
/* client_lives_once.c - a second time, each change would be refused, or seen in what is left. */
#include "client_lives_once.h"

#include "client_strays.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int put(ddict_t *d, const char *key, const void *value, size_t len) {
    return ddict_put(d, key, strlen(key), value, len, DDICT_NEW, 20000);
}

static void pop_number(ddict_t *d, const char *key, uint64_t *n) {
    struct ddict_view v;
    ok(ddict_pop(d, key, strlen(key), &v, 0, 20000));
    memcpy(n, v.data, sizeof *n);
    ddict_release(&v);
}

/* What one writer does in a round; a manager that dies anywhere in it may change nothing of the
 * outcome. */
static void once_round(ddict_t *d, const struct once *o, unsigned w, unsigned i) {
    const char *key = o->own[w][i % ONCE_OWN];
    uint64_t n = (uint64_t)w << 32 | i, sum;
    size_t len = o->len(i);
    struct ddict_view v;
    void *value = malloc(len);
    ck_assert_ptr_nonnull(value);
    value_fill(value, len, i);
    ok(put(d, key, value, len)); /* twice: DDICT_EEXISTS */
    free(value);
    if (i % 2) {
        ok(ddict_del(d, key, strlen(key), 20000)); /* twice: DDICT_ENOKEY */
    } else {
        ok(ddict_pop(d, key, strlen(key), &v, 0, 20000));
        ck_assert(v.len == len && value_is(v.data, len, i));
        ddict_release(&v);
    }
    ok(ddict_push(d, o->queue, strlen(o->queue), &n, sizeof n, 0, 0, 20000));
    int rc;
    while ((rc = ddict_pop(d, o->sum, strlen(o->sum), &v, o->wait, 20000)) == DDICT_ENOKEY)
        usleep(100); /* another writer has it */
    ok(rc);
    memcpy(&sum, v.data, sizeof sum);
    ddict_release(&v);
    sum++;
    ok(put(d, o->sum, &sum, sizeof sum));
}

void once_check(ddict_t *d, const struct once *o, unsigned kills) {
    pid_t p[ONCE_WRITERS];
    uint64_t zero = 0, n;
    unsigned next[ONCE_WRITERS] = {0};
    ok(put(d, o->sum, &zero, sizeof zero));
    for (unsigned w = 0; w < ONCE_WRITERS; w++)
        if ((p[w] = fork()) == 0) {
            for (unsigned i = 0; i < o->rounds; i++)
                once_round(d, o, w, i);
            _exit(strays_came(d));
        }
    o->kills(kills);
    for (unsigned w = 0; w < ONCE_WRITERS; w++)
        expect_exit(p[w], 0);
    pop_number(d, o->sum, &n);
    ck_assert_uint_eq(n, ONCE_WRITERS * o->rounds);
    for (unsigned i = 0; i < ONCE_WRITERS * o->rounds; i++) {
        pop_number(d, o->queue, &n);
        ck_assert_uint_lt(n >> 32, ONCE_WRITERS);
        ck_assert_uint_eq(n & UINT32_MAX, next[n >> 32]++); /* in order, each once */
    }
    ck_assert_int_eq(ddict_len(d, 20000), 0);
}
