/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_disk.c - what spill.py and spill_disk.py do as a client: client_disk put|read|wait|small PREFIX N BYTES.
 * Says in one line of JSON what came of it; exits with 0 also where the dictionary refuses. A wrong
 * byte in what was returned with 0 is counted as such, and so is a view that is not aligned.
 */
#include <ddict.h>

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MANY 16

static ddict_t *d;
static size_t bytes;
static unsigned long n;
static const char *prefix;
static struct count {
    unsigned long right, wrong, io, lost, other;
    char text[400];
} sum;

static uint64_t word(uint64_t k, uint64_t i) {
    uint64_t x = (k + 1) * 0x9E3779B97F4A7C15ull + i * 0x165667B19E3779F9ull;
    return x ^ x >> 29;
}
static void fill(uint64_t *v, uint64_t k) {
    for (size_t i = 0; i < bytes / 8; i++)
        v[i] = word(k, i);
}
static int right(const void *at, size_t len, uint64_t k) {
    const uint64_t *v = at;
    if (len != bytes)
        return 0;
    for (size_t i = 0; i < bytes / 8; i++)
        if (v[i] != word(k, i))
            return 0;
    return 1;
}
/* A view's bytes stand where ddict.h promises. */
static int viewed(const struct ddict_view *v, uint64_t k) {
    return right(v->data, v->len, k) && ((uintptr_t)v->data & (bytes < 256 ? 15 : 63)) == 0;
}
static size_t key_of(char *key, unsigned long k) {
    return (size_t)sprintf(key, "%s-%lu", prefix, k);
}

static void took(int rc, int good) {
    if (rc == 0)
        good ? sum.right++ : sum.wrong++;
    else if (rc == -EIO)
        sum.io++;
    else if (rc == DDICT_ELOST || rc == DDICT_EGONE)
        sum.lost++;
    else
        sum.other++;
    if (rc < 0 && (rc != -EIO || sum.other + sum.lost == 0))
        snprintf(sum.text, sizeof sum.text, "%d: %s", rc, ddict_errmsg());
}
static void say(const char *what) {
    for (char *c = sum.text; *c; c++)
        if (*c == '"' || *c == '\\')
            *c = '\'';
    printf("{\"what\": \"%s\", \"right\": %lu, \"wrong\": %lu, \"io\": %lu, \"lost\": %lu, "
           "\"other\": %lu, \"text\": \"%s\"}\n",
           what, sum.right, sum.wrong, sum.io, sum.lost, sum.other, sum.text);
    fflush(stdout);
    memset(&sum, 0, sizeof sum);
}

static void put_all(void) {
    uint64_t *v = malloc(bytes + 8);
    char key[100];
    for (unsigned long k = 0; k < n; k++) {
        fill(v, k);
        took(ddict_put(d, key, key_of(key, k), v, bytes, 0, 30000), 1);
    }
    say("put");
    free(v);
}

static void read_all(void) {
    uint64_t *v = malloc(bytes + 8);
    char key[MANY][100];
    for (unsigned long k = 0; k < n; k++) {
        size_t len = 0;
        int rc = ddict_get(d, key[0], key_of(key[0], k), v, bytes, &len, NULL, 0, 30000);
        took(rc, rc == 0 && right(v, len, k));
    }
    say("get");
    for (unsigned long k = 0; k < n; k++) {
        struct ddict_view view;
        int rc = ddict_view(d, key[0], key_of(key[0], k), &view, 0, 30000);
        took(rc, rc == 0 && viewed(&view, k));
        if (rc == 0)
            ddict_release(&view);
    }
    say("view");
    for (unsigned long k = 0; k < n; k += MANY) {
        struct ddict_want w[MANY];
        unsigned long m = n - k < MANY ? n - k : MANY;
        memset(w, 0, sizeof w);
        for (unsigned long i = 0; i < m; i++)
            w[i] = (struct ddict_want){.key = key[i], .klen = key_of(key[i], k + i)};
        if (ddict_get_many(d, w, m, 0, 30000) < 0) {
            sum.other += m;
            continue;
        }
        for (unsigned long i = 0; i < m; i++) {
            took(w[i].status, w[i].status == 0 && viewed(&w[i].view, k + i));
            if (w[i].status == 0)
                ddict_release(&w[i].view);
        }
    }
    say("get_many");
    free(v);
}

/* Each is asked for before it is there: its manager sends it, and the reader does not look at the disk
 * itself. */
static void wait_all(void) {
    ddict_async_t *q;
    uint64_t *v = malloc(bytes + 8), *into = malloc(bytes + 8);
    char key[100];
    if (ddict_async_open(d, &q) < 0)
        exit(1);
    for (unsigned long k = 0; k < n; k++) {
        size_t klen = key_of(key, k);
        struct ddict_op get = {.what = DDICT_OP_GET,
                               .key = key,
                               .klen = klen,
                               .buf = into,
                               .len = bytes,
                               .flags = DDICT_WAIT,
                               .timeout_ms = 60000},
                        done;
        fill(v, k);
        memset(into, 0, bytes);
        if (ddict_async_submit(q, &get, 1) != 1)
            exit(1);
        took(ddict_put(d, key, klen, v, bytes, 0, 60000), 1);
        if (ddict_async_poll(q, &done, 1, 60000) != 1)
            exit(1);
        took(done.status, done.status == 0 && right(into, done.vlen, k));
        free(done.text);
    }
    say("wait");
    ddict_async_close(q);
    free(v);
    free(into);
}

/* How long do puts of one byte take while another thread puts one of `bytes`? */
static int done;
static void *small_puts(void *arg) {
    double worst = 0, *out = arg;
    while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        if (ddict_put(d, "small", 5, "x", 1, 0, 30000) < 0)
            *out = 1e9;
        clock_gettime(CLOCK_MONOTONIC, &b);
        double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
        if (ms > worst)
            worst = ms;
    }
    if (*out < worst)
        *out = worst;
    return NULL;
}

static void watch_small(unsigned long seconds) {
    double worst = 0;
    pthread_t t;
    pthread_create(&t, NULL, small_puts, &worst);
    struct timespec s = {(time_t)seconds, 0};
    printf("{\"what\": \"begun\"}\n");
    fflush(stdout);
    nanosleep(&s, NULL);
    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    pthread_join(t, NULL);
    printf("{\"what\": \"small\", \"worst_ms\": %.1f}\n", worst);
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    prefix = argv[2];
    n = strtoul(argv[3], NULL, 10);
    bytes = strtoul(argv[4], NULL, 10);
    if (ddict_attach(&d, NULL, 30000) < 0) {
        fprintf(stderr, "%s\n", ddict_errmsg());
        return 1;
    }
    if (!strcmp(argv[1], "put"))
        put_all();
    else if (!strcmp(argv[1], "read"))
        read_all();
    else if (!strcmp(argv[1], "wait"))
        wait_all();
    else if (!strcmp(argv[1], "small"))
        watch_small(n);
    else
        return 2;
    ddict_detach(d);
    return 0;
}
