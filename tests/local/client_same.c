/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_same.c - all ways to read and to write give the same bytes: view, get, get of many, jobs,
 * and a view through the manager; put, put in pieces, put of many, by jobs, and built in place; for
 * keys and values of random lengths, at random offsets, while another thread overwrites and
 * deletes. Invariant: each byte of what is read is the one that follows from key, version and
 * length of one put of that key, also later while a view is held.
 */
#include "client_dict.h"
#include <base/defaults.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS     60u
#define HELD     40u
#define MANY     70u          /* more than are looked up together */
#define LEN_MAX  (5u << 20)   /* streamed, more than a ring, copied past the caches */
#define LEN_RING (700u << 10) /* streamed, more than a ring */

#define WAYS_S 20.0 /* at most, until both readers have come to each way */

static double seconds = 1.5;
static unsigned mib = 96; /* of a manager */
static ddict_t *d;
static uint32_t stop;
/* by reader and way of read_all(): reads that gave a value */
static uint64_t seen[2][5];

static uint64_t rnd(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

struct name {
    unsigned char key[80];
    size_t len;
};
static struct name name[KEYS];
static void names_make(void) {
    uint64_t s = 12345;
    for (unsigned k = 0; k < KEYS; k++) {
        name[k].len = 1 + k % 40 + (k % 7 == 0 ? 30 : 0);
        for (size_t i = 0; i < name[k].len; i++)
            name[k].key[i] = (unsigned char)rnd(&s);
        name[k].key[0] = (unsigned char)k; /* all different */
    }
}

/* Byte i of the value of version v (its first 8 bytes) of key k. */
static unsigned char byte_of(unsigned k, uint64_t v, size_t i) {
    uint64_t x = (v * 0x9E3779B97F4A7C15ull + k) ^ (i >> 3) * 0xC2B2AE3D27D4EB4Full;
    return (unsigned char)((x ^ x >> 31) >> (i & 7) * 8);
}
static size_t length_of(uint64_t v) {
    if (v % 64 == 37)
        /* at their border, too */
        return DD_COPY_PAST - 8 + v / 64 * 7919 % (LEN_MAX - DD_COPY_PAST);
    switch (v % 8) {
    case 0:
        return 8 + v / 8 % 64;
    case 1:
        return 200 + v / 8 % 120;
    case 2:
        return (130u << 10) + v / 8 % 1200; /* about where one message is not enough */
    case 3:
        return v / 8 % 16 ? 4000 + v / 8 % 5000 : 8 + v / 8 * 7919 % (LEN_RING - 8);
    default:
        return 8 + v / 8 % 3000;
    }
}
static void value_make(unsigned char *buf, unsigned k, uint64_t v) {
    for (size_t i = 8, n = length_of(v); i < n; i++)
        buf[i] = byte_of(k, v, i);
    memcpy(buf, &v, 8);
}
/* Whole when it is short, else some stretches at random offsets, the ends among them. 0: wrong. */
static uint64_t value_check(const void *data, size_t len, unsigned k, uint64_t *s) {
    const unsigned char *p = data;
    uint64_t v;
    if (len < 8)
        return 0;
    memcpy(&v, p, 8);
    if (v == 0 || length_of(v) != len)
        return 0;
    for (int turn = 0; turn < 5; turn++) {
        size_t from = len <= 4096 ? 8
                      : turn == 0 ? 8
                      : turn == 1 ? len - 256
                                  : 8 + rnd(s) % (len - 8),
               to = len <= 4096 ? len : from + 256;
        for (size_t i = from; i < to && i < len; i++)
            if (p[i] != byte_of(k, v, i))
                return 0;
        if (len <= 4096)
            break;
    }
    return v;
}

static void put_one(unsigned k, uint64_t v, unsigned char *buf, uint64_t *s) {
    size_t len = length_of(v);
    value_make(buf, k, v);
    if (rnd(s) % 4 == 1) {
        struct ddict_place p;
        ok(ddict_reserve(d, name[k].key, name[k].len, len, 0, &p));
        memcpy(p.data, buf, len);
        ok(ddict_commit(&p, -1));
    } else if (rnd(s) % 3 == 0) {
        struct iovec piece[6];
        size_t at = 0;
        for (int i = 0; i < 6; i++) {
            size_t n = i == 5 ? len - at : rnd(s) % (len - at + 1);
            piece[i] = (struct iovec){buf + at, n};
            at += n;
        }
        ok(ddict_putv(d, name[k].key, name[k].len, piece, 6, 0, -1));
    } else {
        ok(ddict_put(d, name[k].key, name[k].len, buf, len, 0, -1));
    }
}

static void put_some(uint64_t *version, uint64_t *s) {
    struct ddict_pair p[8];
    unsigned char *buf[8];
    for (unsigned i = 0; i < 8; i++) {
        unsigned k = (unsigned)(rnd(s) % KEYS);
        uint64_t v = ++*version;
        buf[i] = malloc(LEN_MAX);
        value_make(buf[i], k, v);
        p[i] = (struct ddict_pair){
            .key = name[k].key, .klen = name[k].len, .val = buf[i], .vlen = length_of(v)};
    }
    ck_assert_int_eq(ddict_put_many(d, p, 8, -1), 8);
    for (unsigned i = 0; i < 8; i++)
        free(buf[i]);
}

/* The later of two puts of one key wins. */
static void put_by_jobs(ddict_async_t *q, uint64_t *version, uint64_t *s) {
    struct ddict_op j[8], done[8];
    uint64_t last[KEYS] = {0};
    for (unsigned i = 0; i < 8; i++) {
        unsigned k = (unsigned)(rnd(s) % (KEYS / 4));
        uint64_t v = last[k] = ++*version;
        unsigned char *buf = malloc(LEN_MAX);
        value_make(buf, k, v);
        j[i] = (struct ddict_op){.what = DDICT_OP_PUT,
                                 .key = name[k].key,
                                 .klen = name[k].len,
                                 .buf = buf,
                                 .len = length_of(v),
                                 .timeout_ms = -1,
                                 .user = buf};
    }
    ck_assert_int_eq(ddict_async_submit(q, j, 8), 8);
    for (ssize_t n = 0, got; n < 8; n += got) {
        ok(got = ddict_async_poll(q, done, 8, -1));
        for (ssize_t i = 0; i < got; i++) {
            ck_assert_msg(done[i].status == 0, "%s", done[i].text);
            free(done[i].user);
        }
    }
    for (unsigned k = 0; k < KEYS / 4; k++) {
        struct ddict_view v;
        if (last[k] == 0)
            continue;
        ok(ddict_view(d, name[k].key, name[k].len, &v, 0, -1));
        ck_assert_uint_eq(value_check(v.data, v.len, k, s), last[k]);
        ddict_release(&v);
    }
}

static void *write_all(void *arg) {
    uint64_t s = 777, version = KEYS;
    unsigned char *buf = malloc(LEN_MAX + 8);
    ddict_async_t *q;
    ok(ddict_async_open(d, &q));
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t r = rnd(&s);
        if (r % 16 == 0)
            put_some(&version, &s);
        else if (r % 16 == 2)
            put_by_jobs(q, &version, &s);
        else if (r % 16 == 1)
            ddict_del(d, name[r / 16 % KEYS].key, name[r / 16 % KEYS].len, -1);
        else
            put_one((unsigned)(r / 16 % KEYS), ++version, buf, &s);
    }
    ddict_async_close(q);
    free(buf);
    return arg;
}

struct held {
    struct ddict_view v;
    unsigned k;
    uint64_t version;
};

static void hold_or_release(struct held *h, struct ddict_view *v, unsigned k, uint64_t version,
                            uint64_t *s) {
    struct held *at = &h[rnd(s) % HELD];
    if (at->version != 0) {
        ck_assert_uint_eq(value_check(at->v.data, at->v.len, at->k, s), at->version);
        ddict_release(&at->v);
    }
    *at = (struct held){*v, k, version};
}

static void read_many(struct held *h, uint64_t *s) {
    struct ddict_want w[MANY];
    unsigned k[MANY], n = 1 + (unsigned)(rnd(s) % MANY);
    size_t found = 0;
    for (unsigned i = 0; i < n; i++) {
        k[i] = (unsigned)(rnd(s) % KEYS);
        w[i] = (struct ddict_want){.key = name[k[i]].key, .klen = name[k[i]].len};
    }
    ssize_t rc = ddict_get_many(d, w, n, 0, -1);
    for (unsigned i = 0; i < n; i++) {
        if (w[i].status == DDICT_ENOKEY)
            continue;
        ck_assert_int_eq(w[i].status, 0);
        uint64_t v = value_check(w[i].view.data, w[i].view.len, k[i], s);
        ck_assert_uint_ne(v, 0);
        hold_or_release(h, &w[i].view, k[i], v, s);
        found++;
    }
    ck_assert_int_eq(rc, found);
}

/* Some of them waited for, a moment. */
static size_t read_by_jobs(ddict_async_t *q, struct held *h, uint64_t *s) {
    struct ddict_op j[MANY], done[MANY];
    unsigned n = 1 + (unsigned)(rnd(s) % MANY);
    size_t found = 0, over = 0;
    for (uintptr_t i = 0; i < n; i++) {
        uintptr_t k = rnd(s) % KEYS;
        j[i] = (struct ddict_op){.what = i % 3 ? DDICT_OP_VIEW : DDICT_OP_GET,
                                 .flags = i % 5 ? 0 : DDICT_WAIT,
                                 .timeout_ms = i % 5 ? -1 : 3,
                                 .key = name[k].key,
                                 .klen = name[k].len,
                                 .user = (void *)k};
        if (i % 3 == 0) {
            j[i].buf = malloc(LEN_MAX);
            j[i].len = LEN_MAX;
        }
    }
    ok(ddict_async_submit(q, j, n));
    for (unsigned i = 0; i < n; i++)
        if (j[i].status != -EINPROGRESS)
            done[over++] = j[i];
    while (over < n) {
        ssize_t k = ddict_async_poll(q, done + over, n - over, -1);
        ok(k);
        over += (size_t)k;
    }
    for (unsigned i = 0; i < n; i++) {
        struct ddict_op *o = &done[i];
        unsigned k = (unsigned)(uintptr_t)o->user;
        ck_assert_msg(o->status == 0 || o->status == DDICT_ENOKEY ||
                          (o->status == -ETIMEDOUT && o->flags & DDICT_WAIT),
                      "%d %s", o->status, o->text);
        if (o->status == 0) {
            uint64_t v = o->what == DDICT_OP_VIEW ? value_check(o->view.data, o->view.len, k, s)
                                                  : value_check(o->buf, o->vlen, k, s);
            ck_assert_uint_ne(v, 0);
            if (o->what == DDICT_OP_VIEW)
                hold_or_release(h, &o->view, k, v, s);
            found++;
        }
        free(o->buf);
        free(o->text);
    }
    return found;
}

static void read_in(const void *reader, unsigned way, uint64_t n) {
    __atomic_fetch_add(&seen[(uintptr_t)reader - 1][way], n, __ATOMIC_RELAXED);
}
/* All of both readers; way 3 waits for keys that mostly do not come. */
static bool all_seen(void) {
    static const unsigned ways[] = {1, 2, 4};
    for (unsigned i = 0; i < 6; i++)
        if (__atomic_load_n(&seen[i % 2][ways[i / 2]], __ATOMIC_RELAXED) == 0)
            return false;
    return true;
}

static void *read_all(void *arg) {
    uint64_t s = (uint64_t)(uintptr_t)arg * 0x9E3779B97F4A7C15ull;
    struct held h[HELD] = {0};
    unsigned char *buf = malloc(LEN_MAX);
    ddict_async_t *q;
    ok(ddict_async_open(d, &q));
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        unsigned k = (unsigned)(rnd(&s) % KEYS), way = (unsigned)(rnd(&s) % 5);
        struct ddict_view v;
        size_t len = 0;
        int rc = 0;
        if (way == 0) {
            read_many(h, &s);
            continue;
        }
        if (way == 4) {
            read_in(arg, way, read_by_jobs(q, h, &s));
            continue;
        }
        if (way == 1 &&
            (rc = ddict_get(d, name[k].key, name[k].len, buf, rnd(&s) % 2 ? LEN_MAX : 2000, &len,
                            NULL, 0, -1)) != DDICT_ESMALL &&
            rc == 0)
            ck_assert_uint_ne(value_check(buf, len, k, &s), 0);
        if (way == 1)
            ck_assert(rc == 0 || rc == DDICT_ENOKEY || rc == DDICT_ESMALL);
        if (way >= 2) {
            /* Waiting for a key asks the manager when it is absent. */
            rc = ddict_view(d, name[k].key, name[k].len, &v, way == 3 ? DDICT_WAIT : 0,
                            way == 3 ? 3 : -1);
            ck_assert(rc == 0 || rc == DDICT_ENOKEY || rc == -ETIMEDOUT);
            if (rc == 0) {
                uint64_t version = value_check(v.data, v.len, k, &s);
                ck_assert_uint_ne(version, 0);
                hold_or_release(h, &v, k, version, &s);
            }
        }
        read_in(arg, way, rc == 0);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (h[i].version != 0) {
            ck_assert_uint_eq(value_check(h[i].v.data, h[i].v.len, h[i].k, &s), h[i].version);
            ddict_release(&h[i].v);
        }
    ddict_async_close(q);
    free(buf);
    return NULL;
}

static void all_ways(int nodes, int managers) {
    struct dict x;
    pthread_t w, r[2];
    uint64_t s = 99;
    unsigned char *buf = malloc(LEN_MAX + 8);
    dict_start(&x, nodes, managers, (uint64_t)managers * mib << 20);
    d = dict_attach(&x, 0);
    names_make();
    for (unsigned k = 0; k < KEYS; k++)
        put_one(k, k + 1, buf, &s);
    free(buf);
    stop = 0;
    memset(seen, 0, sizeof seen);
    ck_assert_int_eq(pthread_create(&w, NULL, write_all, NULL), 0);
    for (uintptr_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&r[i], NULL, read_all, (void *)(i + 1)), 0);
    /* a busy machine lets a reader come to one way late */
    for (double began = now_s();
         now_s() < began + seconds || (!all_seen() && now_s() < began + WAYS_S);)
        usleep(20000);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    ck_assert_int_eq(pthread_join(w, NULL), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(r[i], NULL), 0);
    ck_assert(all_seen());
    ddict_detach(d);
    dict_stop(&x);
}

START_TEST(all_ways_give_the_same_bytes_on_one_node) {
    all_ways(1, 2);
}
END_TEST
START_TEST(all_ways_give_the_same_bytes_on_two_nodes) {
    all_ways(2, 2);
}
END_TEST

int main(int argc, char **argv) {
    if (getenv("SECONDS"))
        seconds = atof(getenv("SECONDS"));
    if (getenv("MIB"))
        mib = (unsigned)atoi(getenv("MIB"));
    const TTest *const tests[] = {all_ways_give_the_same_bytes_on_one_node,
                                  all_ways_give_the_same_bytes_on_two_nodes};
    return tests_main("client_same", argc, argv, tests, sizeof tests / sizeof *tests);
}
