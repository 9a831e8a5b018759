/* SPDX-License-Identifier: Apache-2.0 */
/* client_lives_once.c - a second time, each change would be refused, or seen in what is left. */
#include "client_lives_once.h"

#include "client_strays.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SUMS_MAX 4096u
static uint32_t *sums; /* shared: how often each was the answer */

static int put(ddict_t *d, const char *key, const void *value, size_t len) {
    return ddict_put(d, key, strlen(key), value, len, DDICT_NEW, 20000);
}

static void pop_number(ddict_t *d, const char *key, uint64_t *n) {
    struct ddict_view v;
    ok(ddict_pop(d, key, strlen(key), &v, 0, 20000));
    memcpy(n, v.data, sizeof *n);
    ddict_release(&v);
}

/* Twice, a sum would be left out; and given to nobody, or to two, if an answer were another's. */
static void count_on(ddict_t *d, const struct once *o) {
    int64_t sum;
    ok(ddict_add(d, o->count, strlen(o->count), 1, &sum, 20000));
    ck_assert(sum > 0 && sum < SUMS_MAX);
    __atomic_add_fetch(&sums[sum], 1, __ATOMIC_RELAXED);
}

/* The value again, and with `del` none, by the version that it has. */
static void by_version(ddict_t *d, const char *key, unsigned i, size_t len, bool del) {
    uint64_t version, now = 0, is;
    void *value = malloc(len);
    ck_assert_ptr_nonnull(value);
    value_fill(value, len, i);
    ok(ddict_key_version(d, key, strlen(key), &version, 20000));
    ck_assert_uint_gt(version, 0);
    /* twice: DDICT_ECHANGED */
    ok(ddict_put_if(d, key, strlen(key), value, len, 0, version, &now, 20000));
    ok(ddict_key_version(d, key, strlen(key), &is, 20000));
    ck_assert(now > version && now == is);
    if (del)
        ok(ddict_del_if(d, key, strlen(key), now, 20000));
    free(value);
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
    count_on(d, o);
    if (i % 3 == 0)
        by_version(d, key, i, len, i % 6 == 3);
    if (i % 6 == 3) {
        fails(DDICT_ENOKEY, ddict_del(d, key, strlen(key), 20000));
    } else if (i % 2) {
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
    int64_t count;
    sums = mmap(NULL, SUMS_MAX * sizeof *sums, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    ck_assert(sums != MAP_FAILED && ONCE_WRITERS * o->rounds < SUMS_MAX);
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
    ok(ddict_add(d, o->count, strlen(o->count), 0, &count, 20000));
    ck_assert_int_eq(count, ONCE_WRITERS * o->rounds);
    ok(ddict_del(d, o->count, strlen(o->count), 20000));
    for (unsigned i = 1; i <= ONCE_WRITERS * o->rounds; i++)
        ck_assert_uint_eq(sums[i], 1);
    munmap(sums, SUMS_MAX * sizeof *sums);
    pop_number(d, o->sum, &n);
    ck_assert_uint_eq(n, ONCE_WRITERS * o->rounds);
    for (unsigned i = 0; i < ONCE_WRITERS * o->rounds; i++) {
        pop_number(d, o->queue, &n);
        ck_assert_uint_lt(n >> 32, ONCE_WRITERS);
        ck_assert_uint_eq(n & UINT32_MAX, next[n >> 32]++); /* in order, each once */
    }
    ck_assert_int_eq(ddict_len(d, 20000), 0);
}
