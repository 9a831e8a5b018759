/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_atomic.c - changes that depend on what their key has: add, put_if, del_if, append, and the wait
 * for another version. Each case is made with a key of every manager, of this node and of others.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB      (1ull << 20)
#define NODES    2
#define MANAGERS 2u /* in all */
#define WAIT     20000
#define TAG_INT  5u
#define MANY     400u /* changes of each process */
#define BODIES   4u
#define LARGE    (700u << 10)

static struct dict x;
static ddict_t *d;
static char key[32];
static size_t klen;

#define EACH_MANAGER \
    for (unsigned m_ = 0; m_ < MANAGERS && (klen = key_of(d, m_, 0, key, sizeof key)) > 0; m_++)

static int put_int(const char *text) {
    return ddict_put(d, key, klen, text, strlen(text), DDICT_TAG(TAG_INT), WAIT);
}

static void value_is_text(const char *text, unsigned tag) {
    char got[64];
    size_t len;
    unsigned is;
    ok(ddict_get(d, key, klen, got, sizeof got, &len, &is, 0, WAIT));
    ck_assert_msg(len == strlen(text) && memcmp(got, text, len) == 0, "%.*s, not %s", (int)len, got,
                  text);
    ck_assert_uint_eq(is, tag);
}

static uint64_t version_of(void) {
    uint64_t v = 99;
    ok(ddict_key_version(d, key, klen, &v, WAIT));
    return v;
}

/* --- add --- */
START_TEST(a_sum_is_stored_and_given) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    int64_t sum = 0;
    EACH_MANAGER {
        ok(ddict_add(d, key, klen, 41, &sum, WAIT));
        ck_assert_int_eq(sum, 41);
        value_is_text("41", TAG_INT);
        ok(ddict_add(d, key, klen, -1041, &sum, WAIT));
        ck_assert_int_eq(sum, -1000);
        value_is_text("-1000", TAG_INT);
        ok(ddict_add(d, key, klen, 1000, NULL, WAIT));
        value_is_text("0", TAG_INT);
        ok(put_int("-9223372036854775808"));
        ok(ddict_add(d, key, klen, INT64_MAX, &sum, WAIT));
        ck_assert_int_eq(sum, -1);
        ok(ddict_add(d, key, klen, INT64_MIN + 1, &sum, WAIT));
        ck_assert(sum == INT64_MIN);
        value_is_text("-9223372036854775808", TAG_INT);
    }
    dict_end(&x, d);
}
END_TEST

START_TEST(what_is_no_integer_is_left_as_it_is) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    static const char *const texts[] = {"",
                                        "-",
                                        "1x",
                                        "1.5",
                                        "+1",
                                        "9223372036854775808",
                                        "-9223372036854775809",
                                        "99999999999999999999999"};
    int64_t sum = 7;
    EACH_MANAGER {
        for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
            ok(put_int(texts[i]));
            uint64_t version = version_of();
            fails(DDICT_ENOTINT, ddict_add(d, key, klen, 1, &sum, WAIT));
            value_is_text(texts[i], TAG_INT);
            ck_assert_uint_eq(version_of(), version);
        }
        ok(ddict_put(d, key, klen, "12", 2, 0, WAIT)); /* bytes */
        fails(DDICT_ENOTINT, ddict_add(d, key, klen, 1, &sum, WAIT));
        ok(put_int("9223372036854775807"));
        fails(-ERANGE, ddict_add(d, key, klen, 1, &sum, WAIT));
        value_is_text("9223372036854775807", TAG_INT);
        ok(put_int("-9223372036854775807"));
        fails(-ERANGE, ddict_add(d, key, klen, -2, &sum, WAIT));
        fails(-ETIMEDOUT, ddict_add(d, key, klen, 1, &sum, 0));
        ck_assert_int_eq(sum, 7);
    }
    dict_end(&x, d);
}
END_TEST

static uint32_t *seen; /* shared; of each manager: how often a sum was given */

static void everybody(void (*body)(ddict_t *of, unsigned m)) {
    pid_t p[BODIES];
    for (unsigned i = 0; i < BODIES; i++)
        if ((p[i] = fork()) == 0) {
            ddict_t *of = dict_attach(&x, (int)i % NODES);
            for (unsigned n = 0; n < MANY; n++)
                for (unsigned m = 0; m < MANAGERS; m++)
                    body(of, m);
            ddict_detach(of);
            _exit(0);
        }
    for (unsigned i = 0; i < BODIES; i++)
        expect_exit(p[i], 0);
}

static void one_added(ddict_t *of, unsigned m) {
    int64_t sum;
    klen = key_of(of, m, 0, key, sizeof key);
    ok(ddict_add(of, key, klen, 1, &sum, WAIT));
    ck_assert(sum > 0 && sum <= BODIES * MANY);
    __atomic_add_fetch(&seen[m * (BODIES * MANY + 1) + (unsigned)sum], 1, __ATOMIC_RELAXED);
}

START_TEST(each_of_many_adders_gets_a_sum_of_its_own) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    size_t bytes = MANAGERS * (BODIES * MANY + 1) * sizeof *seen;
    seen = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(seen != MAP_FAILED);
    everybody(one_added);
    for (unsigned m = 0; m < MANAGERS; m++)
        for (unsigned i = 1; i <= BODIES * MANY; i++)
            ck_assert_uint_eq(seen[m * (BODIES * MANY + 1) + i], 1);
    munmap(seen, bytes);
    dict_end(&x, d);
}
END_TEST

/* --- put_if, del_if --- */
START_TEST(it_is_stored_where_nobody_was_in_between) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    uint64_t now = 99, first;
    EACH_MANAGER {
        ck_assert_uint_eq(version_of(), 0);
        fails(DDICT_ECHANGED, ddict_put_if(d, key, klen, "a", 1, 0, 5, &now, WAIT));
        ck_assert_uint_eq(now, 0);
        ok(ddict_put_if(d, key, klen, "a", 1, DDICT_TAG(9), 0, &now, WAIT));
        value_is_text("a", 9);
        ck_assert(now > 0 && version_of() == now);
        first = now;
        fails(DDICT_ECHANGED, ddict_put_if(d, key, klen, "b", 1, 0, 0, &now, WAIT));
        ck_assert_uint_eq(now, first);
        ok(ddict_put_if(d, key, klen, "b", 1, 0, first, &now, WAIT));
        ck_assert(now > first);
        fails(DDICT_ECHANGED, ddict_put_if(d, key, klen, "c", 1, 0, first, NULL, WAIT));
        value_is_text("b", 0);
        fails(DDICT_ECHANGED, ddict_del_if(d, key, klen, first, WAIT));
        value_is_text("b", 0);
        ok(ddict_del_if(d, key, klen, now, WAIT));
        fails(DDICT_ECHANGED, ddict_del_if(d, key, klen, now, WAIT));
        fails(-EINVAL, ddict_del_if(d, key, klen, 0, WAIT));
        fails(-EINVAL, ddict_put_if(d, key, klen, "b", 1, DDICT_NEW, 0, NULL, WAIT));
        ok(ddict_put_if(d, key, klen, "d", 1, 0, 0, &first, WAIT));
        ck_assert(first > now);
    }
    dict_end(&x, d);
}
END_TEST

START_TEST(so_are_values_that_come_in_pieces) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    unsigned char *large = malloc(LARGE);
    struct ddict_view v;
    uint64_t now;
    value_fill(large, LARGE, 3);
    EACH_MANAGER {
        ok(ddict_put_if(d, key, klen, large, LARGE, 0, 0, &now, WAIT));
        fails(DDICT_ECHANGED, ddict_put_if(d, key, klen, large, LARGE / 2, 0, now + 1, NULL, WAIT));
        ok(ddict_view(d, key, klen, &v, 0, WAIT));
        ck_assert(v.len == LARGE && v.version == now && value_is(v.data, LARGE, 3));
        ddict_release(&v);
        ok(ddict_put_if(d, key, klen, large, LARGE / 2, 0, now, &now, WAIT));
        ck_assert_uint_eq(version_of(), now);
    }
    free(large);
    dict_end(&x, d);
}
END_TEST

static void one_stored(ddict_t *of, unsigned m) {
    uint64_t n = 0, version = 0;
    size_t len;
    int rc;
    klen = key_of(of, m, 0, key, sizeof key);
    do {
        struct ddict_view v = {0};
        rc = ddict_view(of, key, klen, &v, 0, WAIT);
        ck_assert(rc == 0 || rc == DDICT_ENOKEY);
        n = 0;
        len = rc == 0 ? v.len : 0;
        memcpy(&n, v.data ? v.data : &n, len);
        version = v.version;
        ddict_release(&v);
        n++;
        rc = ddict_put_if(of, key, klen, &n, sizeof n, 0, version, NULL, WAIT);
    } while (rc == DDICT_ECHANGED);
    ok(rc);
}

START_TEST(nobody_overwrites_what_another_has_stored) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    uint64_t n;
    everybody(one_stored);
    EACH_MANAGER {
        ok(ddict_get(d, key, klen, &n, sizeof n, NULL, NULL, 0, WAIT));
        ck_assert_uint_eq(n, BODIES * MANY);
    }
    dict_end(&x, d);
}
END_TEST

/* --- append --- */
static void one_appended(ddict_t *of, unsigned m) {
    klen = key_of(of, m, 0, key, sizeof key);
    uint32_t who = (uint32_t)getpid();
    ok(ddict_append(of, key, klen, &who, sizeof who, 0, NULL, WAIT));
}

START_TEST(all_that_is_appended_is_there) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    size_t total = 0;
    struct ddict_view v;
    EACH_MANAGER {
        ok(ddict_append(d, key, klen, "abc", 3, DDICT_TAG(4), &total, WAIT));
        ck_assert_uint_eq(total, 3);
        ok(ddict_append(d, key, klen, "", 0, 0, &total, WAIT));
        ok(ddict_append(d, key, klen, "de", 2, 0, &total, WAIT));
        ck_assert_uint_eq(total, 5);
        value_is_text("abcde", 4);
        fails(-EINVAL, ddict_append(d, key, klen, "1", 1, DDICT_TAG(TAG_INT), NULL, WAIT));
        ok(put_int("12"));
        fails(-EINVAL, ddict_append(d, key, klen, "3", 1, 0, NULL, WAIT));
        value_is_text("12", TAG_INT);
        ok(ddict_put(d, key, klen, "a", 1, DDICT_TAG(9), WAIT));
        ok(ddict_append(d, key, klen, "b", 1, 0, NULL, WAIT));
        value_is_text("ab", 9);
        ok(ddict_del(d, key, klen, WAIT));
    }
    everybody(one_appended);
    EACH_MANAGER {
        ok(ddict_view(d, key, klen, &v, 0, WAIT));
        ck_assert_uint_eq(v.len, BODIES * MANY * sizeof(uint32_t));
        ddict_release(&v);
    }
    dict_end(&x, d);
}
END_TEST

/* --- the wait for another version, or a value --- */
static struct waiting {
    pthread_t thread;
    char key[32];
    size_t klen;
    uint64_t from, now;
    int rc;
} waiting[BODIES];

static void *wait_one(void *arg) {
    struct waiting *w = arg;
    w->rc = ddict_wait_change(d, w->key, w->klen, w->from, &w->now, WAIT);
    return NULL;
}

/* All wait, then it is changed. */
static void waits_until(void (*change)(void)) {
    uint64_t from = version_of();
    for (unsigned i = 0; i < BODIES; i++) {
        waiting[i] = (struct waiting){.klen = klen, .from = from, .now = 99};
        memcpy(waiting[i].key, key, klen);
        ck_assert_int_eq(pthread_create(&waiting[i].thread, NULL, wait_one, &waiting[i]), 0);
    }
    usleep(30000);
    change();
    for (unsigned i = 0; i < BODIES; i++) {
        pthread_join(waiting[i].thread, NULL);
        ck_assert_int_eq(waiting[i].rc, 0);
        ck_assert(waiting[i].now != from && waiting[i].now == version_of());
    }
}

static void it_is_put(void) {
    ok(ddict_put(d, key, klen, "x", 1, 0, WAIT));
}
static void it_is_removed(void) {
    ok(ddict_del(d, key, klen, WAIT));
}
static void it_is_popped(void) {
    struct ddict_view v;
    ok(ddict_pop(d, key, klen, &v, 0, WAIT));
    ddict_release(&v);
}
static void it_is_cleared(void) {
    ok(ddict_clear(d, WAIT));
}
static void it_is_added_to(void) {
    ok(ddict_add(d, key, klen, 1, NULL, WAIT));
}

START_TEST(a_wait_ends_with_each_kind_of_change) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    uint64_t now = 0;
    EACH_MANAGER {
        waits_until(it_is_put);
        waits_until(it_is_put);
        waits_until(it_is_removed);
        waits_until(it_is_added_to);
        waits_until(it_is_added_to);
        waits_until(it_is_popped);
        ok(ddict_push(d, key, klen, "1", 1, 0, 0, WAIT));
        ok(ddict_push(d, key, klen, "2", 1, 0, 0, WAIT));
        waits_until(it_is_popped); /* the next one is the first */
        waits_until(it_is_cleared);
        ok(ddict_wait_change(d, key, klen, 5, &now, WAIT));
        ck_assert_uint_eq(now, 0);
        fails(-ETIMEDOUT, ddict_wait_change(d, key, klen, 0, &now, 40));
        it_is_put();
        fails(-ETIMEDOUT, ddict_wait_change(d, key, klen, version_of(), &now, 40));
        fails(-ETIMEDOUT, ddict_wait_change(d, key, klen, version_of(), &now, 0));
    }
    dict_end(&x, d);
}
END_TEST

/* Who waits for a key, and who waits for another version, are both served. */
static void *wait_for_done(void *arg) {
    struct waiting *w = arg;
    w->rc = ddict_wait_for(d, w->key, w->klen, "done", 4, DDICT_TAG(4), WAIT);
    return NULL;
}

START_TEST(a_wait_for_a_value_ends_with_that_value_alone) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    EACH_MANAGER {
        for (unsigned i = 0; i < BODIES; i++) {
            waiting[i] = (struct waiting){.klen = klen, .rc = 1};
            memcpy(waiting[i].key, key, klen);
            ck_assert_int_eq(pthread_create(&waiting[i].thread, NULL, wait_for_done, &waiting[i]),
                             0);
        }
        it_is_put();
        ok(ddict_put(d, key, klen, "done", 4, 0, WAIT)); /* with another tag */
        fails(-ETIMEDOUT, ddict_wait_for(d, key, klen, "done", 4, DDICT_TAG(4), 40));
        it_is_removed();
        fails(-ETIMEDOUT, ddict_wait_for(d, key, klen, "done", 4, DDICT_TAG(4), 40));
        for (unsigned i = 0; i < BODIES; i++)
            ck_assert_int_eq(pthread_tryjoin_np(waiting[i].thread, NULL), EBUSY);
        ok(ddict_put(d, key, klen, "done", 4, DDICT_TAG(4), WAIT));
        for (unsigned i = 0; i < BODIES; i++) {
            pthread_join(waiting[i].thread, NULL);
            ck_assert_int_eq(waiting[i].rc, 0);
        }
        ok(ddict_put(d, key, klen, "", 0, 0, WAIT));
        ok(ddict_wait_for(d, key, klen, NULL, 0, 0, WAIT));
        fails(-EINVAL, ddict_wait_for(d, key, klen, NULL, 0, DDICT_NEW, WAIT));
    }
    dict_end(&x, d);
}
END_TEST

START_TEST(a_pop_that_waits_takes_it_and_the_others_know) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    struct ddict_view v;
    EACH_MANAGER {
        pid_t p = fork();
        if (p == 0) {
            ok(ddict_pop(d, key, klen, &v, DDICT_WAIT, WAIT));
            ddict_release(&v);
            _exit(0);
        }
        usleep(30000);
        ok(ddict_put(d, key, klen, "x", 1, 0, WAIT));
        expect_exit(p, 0);
        ck_assert_uint_eq(version_of(), 0);
        it_is_put();
        waits_until(it_is_popped);
    }
    dict_end(&x, d);
}
END_TEST

START_TEST(nothing_of_it_is_done_while_frozen) {
    d = dict_begin(&x, NODES, 1, 96 * MIB);
    uint64_t version, now;
    EACH_MANAGER {
        it_is_put();
        version = version_of();
        ok(ddict_freeze(d, WAIT));
        ck_assert_uint_eq(version_of(), version);
        fails(DDICT_EFROZEN, ddict_add(d, key, klen, 1, NULL, WAIT));
        fails(DDICT_EFROZEN, ddict_put_if(d, key, klen, "y", 1, 0, version, NULL, WAIT));
        fails(DDICT_EFROZEN, ddict_del_if(d, key, klen, version, WAIT));
        fails(DDICT_EFROZEN, ddict_append(d, key, klen, "y", 1, 0, NULL, WAIT));
        ok(ddict_unfreeze(d, WAIT));
        ok(ddict_put_if(d, key, klen, "1", 1, DDICT_TAG(TAG_INT), version, &now, WAIT));
        ok(ddict_add(d, key, klen, 1, NULL, WAIT));
        value_is_text("2", TAG_INT);
    }
    dict_end(&x, d);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {a_sum_is_stored_and_given,
                                  what_is_no_integer_is_left_as_it_is,
                                  each_of_many_adders_gets_a_sum_of_its_own,
                                  it_is_stored_where_nobody_was_in_between,
                                  so_are_values_that_come_in_pieces,
                                  nobody_overwrites_what_another_has_stored,
                                  all_that_is_appended_is_there,
                                  a_wait_ends_with_each_kind_of_change,
                                  a_wait_for_a_value_ends_with_that_value_alone,
                                  a_pop_that_waits_takes_it_and_the_others_know,
                                  nothing_of_it_is_done_while_frozen};
    return tests_main("client_atomic", argc, argv, tests, sizeof tests / sizeof tests[0]);
}
