/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_pop.c - a pop that fails for want of memory has removed nothing, whoever had none: this
 * process, or the manager of the key.
 */
#include "client_dict.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

/* What libddict takes for values goes through here. */
static size_t none_from = SIZE_MAX; /* atomic; more than that is not to be had */
static unsigned often;              /* atomic; of 100 times, this often nothing is */

void *aligned_alloc(size_t align, size_t n) __attribute__((visibility("default")));

void *aligned_alloc(size_t align, size_t n) {
    static __thread unsigned seed = 1;
    if (n >= __atomic_load_n(&none_from, __ATOMIC_RELAXED) ||
        (unsigned)rand_r(&seed) % 100 < __atomic_load_n(&often, __ATOMIC_RELAXED)) {
        errno = ENOMEM;
        return NULL;
    }
    return memalign(align, n);
}

static struct dict x;
static ddict_t *d; /* on node 0 */
static char big[20 * MIB];

static void begin(void) {
    dict_start(&x, 2, 2, 256 * MIB);
    d = dict_attach(&x, 0);
    value_fill(big, sizeof big, 3);
}

static void end(void) {
    ddict_detach(d);
    dict_stop(&x);
}

static void memory(size_t from) {
    __atomic_store_n(&none_from, from, __ATOMIC_RELAXED);
}

/* --- one value --- */

enum { POP, POP_WAIT, JOB, JOB_WAIT, FORMS };

static int pop_as(int form, const char *key, size_t n, struct ddict_view *v) {
    unsigned flags = form == POP_WAIT || form == JOB_WAIT ? DDICT_WAIT : 0;
    if (form == POP || form == POP_WAIT)
        return ddict_pop(d, key, n, v, flags, 10000);
    struct ddict_op j = {.what = DDICT_OP_POP,
                         .flags = flags,
                         .key = key,
                         .klen = n,
                         .timeout_ms = 10000},
                    done;
    ddict_async_t *q;
    ok(ddict_async_open(d, &q));
    if (ddict_async_submit(q, &j, 1) == 1) {
        ck_assert_int_eq(ddict_async_poll(q, &done, 1, 20000), 1);
        j = done;
    }
    ddict_async_close(q);
    free(j.text);
    *v = j.view;
    return j.status;
}

/* Small enough for one message, for a block of the manager of this node, and for neither. */
START_TEST(without_memory_the_value_stays) {
    static const size_t len[] = {0, 1000, 60000, 3 * MIB, sizeof big};
    begin();
    for (int form = 0; form < FORMS; form++) {
        for (unsigned i = 0; i < sizeof len / sizeof len[0]; i++) {
            char key[32];
            struct ddict_view v;
            size_t n = key_of(d, 1, 10 + i, key, sizeof key), there = 0;
            ok(ddict_put(d, key, n, big, len[i], 0, -1));
            memory(len[i] < 2 * MIB ? 0 : MIB);
            int rc = pop_as(form, key, n, &v);
            memory(SIZE_MAX);
            ck_assert_msg(rc == -ENOMEM, "form %d, %zu bytes: %d", form, len[i], rc);
            ck_assert_msg(ddict_contains(d, key, n, &there, -1) == 1 && there == len[i],
                          "form %d, %zu bytes: the value is gone", form, len[i]);
            ck_assert_int_eq(pop_as(form, key, n, &v), 0);
            ck_assert_uint_eq(v.len, len[i]);
            ck_assert(memcmp(v.data, big, len[i]) == 0);
            ddict_release(&v);
            ck_assert_int_eq(ddict_contains(d, key, n, NULL, -1), 0);
        }
    }
    end();
}
END_TEST

/* Values of this node need no memory of ours. */
START_TEST(values_of_this_node_come_without) {
    char key[32];
    struct ddict_view v;
    begin();
    size_t n = key_of(d, 0, 1, key, sizeof key);
    for (int form = 0; form < FORMS; form++) {
        ok(ddict_put(d, key, n, big, sizeof big, 0, -1));
        memory(0);
        int rc = pop_as(form, key, n, &v);
        memory(SIZE_MAX);
        ck_assert_int_eq(rc, 0);
        ck_assert(v.len == sizeof big && memcmp(v.data, big, sizeof big) == 0);
        ddict_release(&v);
    }
    end();
}
END_TEST

struct late {
    pthread_t thread;
    int form, rc;
    char key[32];
    size_t n;
    struct ddict_view v;
};

static void *pop_late(void *arg) {
    struct late *l = arg;
    l->rc = pop_as(l->form, l->key, l->n, &l->v);
    return NULL;
}

/* It comes while a pop waits that has no memory for it; the next one that waits gets it, and then
 * the next value goes to the third. */
START_TEST(a_value_that_was_waited_for_stays_too) {
    begin();
    for (int form = POP_WAIT; form <= JOB_WAIT; form += JOB_WAIT - POP_WAIT) {
        struct late l = {.form = form};
        l.n = key_of(d, 1, 50, l.key, sizeof l.key);
        memory(MIB);
        ck_assert_int_eq(pthread_create(&l.thread, NULL, pop_late, &l), 0);
        usleep(200000);
        ok(ddict_push(d, l.key, l.n, big, 3 * MIB, 0, 0, -1));
        pthread_join(l.thread, NULL);
        memory(SIZE_MAX);
        ck_assert_int_eq(l.rc, -ENOMEM);
        ck_assert_int_eq(ddict_queued(d, l.key, l.n, -1), 1);
        ok(ddict_push(d, l.key, l.n, "second", 6, 0, 0, -1));
        ck_assert_int_eq(pop_as(form, l.key, l.n, &l.v), 0);
        ck_assert_uint_eq(l.v.len, 3 * MIB);
        ddict_release(&l.v);
        ck_assert_int_eq(pop_as(form, l.key, l.n, &l.v), 0);
        ck_assert_uint_eq(l.v.len, 6);
        ddict_release(&l.v);
    }
    end();
}
END_TEST

/* The manager of the key has no memory to send it, of its own node and of another one. */
START_TEST(without_memory_of_its_manager_the_value_stays) {
    setenv("DDICT_TEST_GIVE_REFUSED", "4", 1);
    begin();
    unsetenv("DDICT_TEST_GIVE_REFUSED");
    char key[32];
    struct ddict_view v;
    size_t n = key_of(d, 1, 20, key, sizeof key);
    ok(ddict_push(d, key, n, big, sizeof big, 0, 0, -1));
    ok(ddict_push(d, key, n, "behind", 6, 0, 0, -1));
    for (int form = 0; form < FORMS; form++) {
        ck_assert_int_eq(pop_as(form, key, n, &v), -ENOMEM);
        ck_assert_int_eq(ddict_queued(d, key, n, -1), 2);
    }
    ok(ddict_pop(d, key, n, &v, 0, -1));
    ck_assert(v.len == sizeof big && memcmp(v.data, big, sizeof big) == 0);
    ddict_release(&v);
    ok(ddict_pop(d, key, n, &v, 0, -1));
    ck_assert_uint_eq(v.len, 6);
    ddict_release(&v);
    end();
}
END_TEST

/* --- many --- */

#define THREADS 4
#define EACH    300

static unsigned char seen[THREADS * EACH];
static unsigned taken;

static size_t length(unsigned i) {
    return 16 + i * 7919u % (i % 10 == 0 ? 2 * MIB : i % 3 == 0 ? 200000 : 5000);
}

static void *take(void *arg) {
    const char *key = arg;
    while (__atomic_load_n(&taken, __ATOMIC_RELAXED) < THREADS * EACH) {
        struct ddict_view v;
        unsigned i;
        int rc = ddict_pop(d, key, strlen(key), &v, DDICT_WAIT | DDICT_SURE, 100);
        if (rc == DDICT_ENOKEY || rc == -ENOMEM)
            continue;
        ok(rc);
        ck_assert_uint_ge(v.len, 16);
        memcpy(&i, v.data, sizeof i);
        ck_assert_uint_lt(i, THREADS * EACH);
        ck_assert_msg(v.len == length(i) &&
                          memcmp((const char *)v.data + 16, big + 16, v.len - 16) == 0,
                      "value %u has other bytes", i);
        ck_assert_msg(__atomic_fetch_add(&seen[i], 1, __ATOMIC_RELAXED) == 0, "value %u came twice",
                      i);
        __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
        ddict_release(&v);
    }
    return NULL;
}

START_TEST(each_of_many_comes_once_though_memory_is_short) {
    pthread_t t[THREADS];
    char key[32];
    begin();
    size_t n = key_of(d, 1, 5, key, sizeof key);
    __atomic_store_n(&often, 40, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, take, key), 0);
    for (unsigned i = 0; i < THREADS * EACH; i++) {
        memcpy(big, &i, sizeof i);
        ok(ddict_push(d, key, n, big, length(i), DDICT_WAIT, 50, 20000));
    }
    double last = now_s();
    for (unsigned was = 0; __atomic_load_n(&taken, __ATOMIC_RELAXED) < THREADS * EACH;
         usleep(10000)) {
        unsigned now = __atomic_load_n(&taken, __ATOMIC_RELAXED);
        if (now != was)
            last = now_s();
        was = now;
        ck_assert_msg(now_s() - last < 30, "%u of %u values came", now, THREADS * EACH);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    __atomic_store_n(&often, 0, __ATOMIC_RELAXED);
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {without_memory_the_value_stays, values_of_this_node_come_without,
                                  a_value_that_was_waited_for_stays_too,
                                  without_memory_of_its_manager_the_value_stays,
                                  each_of_many_comes_once_though_memory_is_short};
    return tests_main("client_pop", argc, argv, tests, sizeof tests / sizeof tests[0]);
}
