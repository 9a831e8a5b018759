/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - a process of a history (history.py): calls whatever it draws on few keys, which all
 * workers use, and notes each call (record.h). It judges no answer but the bytes of a value.
 *
 *     worker FILE CLIENT SEED KEYS PAUSE_US [tiny] [small] [near] [freezer | last]
 *
 * with DDICT_NAME and DDICT_NODE; until SIGTERM. tiny: many timeouts of 0 to 20 ms; small: no value
 * of more than 4 KiB; near: half of the puts have DDICT_NEAR, and no asynchronous one is made, as those of
 * such keys are in no order; freezer: freezes and unfreezes, and nothing else; last: reads all keys, pops
 * all that is left in the queues, and ends. Exits with 0; with 2 when it could not attach; with 3 when the dictionary is
 * lost or has ended.
 */
#include "record.h"
#include <ddict.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define VALUE_MAX (300u << 10)
#define KEYS_MAX  RECORD_QUEUE
#define QUEUES    2u
#define COUNTERS  2u
#define FLIGHTS   8u
#define LONG_MS   20000
#define HELD      16u
#define LOST_MAX  50 /* calls in sequence that give DDICT_ELOST: the dictionary is */

enum how { HOW_PLAIN, HOW_VIEW, HOW_MANY, HOW_PLACE, HOW_PIECES, HOW_ASYNC };

static ddict_t *d;
static struct record_head *head;
static struct call *calls;
static unsigned keys, lost;
static bool tiny, small, near, freezer, last;
static uint64_t rng, ordinal;
static unsigned char in[VALUE_MAX], out[KEYS_MAX][VALUE_MAX];
static volatile sig_atomic_t stop;

static void stop_noted(int sig) {
    stop = 1;
}

static uint64_t below(uint64_t n) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (rng >> 11) % n;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- values: their number, and bytes that come of it --- */
static uint64_t word_of(uint64_t number, uint64_t i) {
    uint64_t x = number * 0x9E3779B97F4A7C15ull + i * 0xC2B2AE3D27D4EB4Full;
    return x ^ x >> 29;
}

/* Small ones in messages, larger ones in pieces; the largest in several. */
static size_t len_of(uint64_t number) {
    uint64_t r = word_of(number, ~0ull) >> 8;
    size_t most = r % 8 < 4 || small ? 4096 : r % 8 < 6 ? 65536 : VALUE_MAX;
    return 8 + (r >> 4) % (most - 7);
}

static size_t value_fill(unsigned char *to, uint64_t number) {
    size_t len = len_of(number);
    memcpy(to, &number, 8);
    for (size_t at = 8; at < len; at += 8) {
        uint64_t w = word_of(number, at);
        memcpy(to + at, &w, len - at < 8 ? len - at : 8);
    }
    return len;
}

static uint64_t value_number(const unsigned char *v, size_t len) {
    uint64_t number;
    if (len < 8)
        return VALUE_TORN;
    memcpy(&number, v, 8);
    if (len != len_of(number))
        return VALUE_TORN;
    for (size_t at = 8; at < len; at += 8) {
        uint64_t w = word_of(number, at);
        if (memcmp(v + at, &w, len - at < 8 ? len - at : 8) != 0)
            return VALUE_TORN;
    }
    return number;
}

/* --- calls --- */
static struct call *call_begin(enum verb verb, enum how how, unsigned key, int ms, bool wait) {
    struct call *c = &calls[head->calls];
    *c = (struct call){.verb = (uint8_t)verb, .how = (uint8_t)how, .key = (uint16_t)key};
    c->timeout_ms = ms;
    c->wait = wait;
    if (verb == VERB_PUT || verb == VERB_NEW || verb == VERB_EXISTING || verb == VERB_PUSH ||
        verb == VERB_PUT_IF) {
        c->wrote = (uint64_t)head->client << 32 | ++ordinal;
        c->len = len_of(c->wrote);
    }
    c->began = now_ns();
    __atomic_store_n(&head->calls, head->calls + 1, __ATOMIC_RELEASE);
    return c;
}

static void call_end(struct call *c, int64_t code, uint64_t at) {
    c->code = code < 0 ? (int32_t)code : 0;
    if (c->verb == VERB_HAS && code == 0)
        c->code = DDICT_ENOKEY;
    __atomic_store_n(&c->ended, at, __ATOMIC_RELEASE);
    lost = c->code == DDICT_ELOST ? lost + 1 : 0;
    if (c->code == DDICT_EGONE)
        lost = LOST_MAX;
}

static size_t name_of(char *name, unsigned key) {
    return key < RECORD_QUEUE   ? (size_t)sprintf(name, "contended key %u", key)
           : key < RECORD_COUNT ? (size_t)sprintf(name, "queue %u", key - RECORD_QUEUE)
                                : (size_t)sprintf(name, "counter %u", key - RECORD_COUNT);
}

static void owners_note(void) {
    char name[32];
    for (unsigned i = 0; i < RECORD_COUNT + COUNTERS; i++)
        head->owner[i] = (uint8_t)ddict_owner(d, name, name_of(name, i));
}

static int some_ms(void) {
    return tiny && below(3) == 0 ? (int)(below(2) ? 0 : below(20)) : LONG_MS;
}

static unsigned near_flag(void) {
    return near && below(2) ? DDICT_NEAR : 0;
}

static void put_one(enum verb verb, unsigned key) {
    static const enum how hows[] = {HOW_PLAIN, HOW_PLAIN, HOW_PLACE, HOW_PIECES};
    unsigned flags = near_flag() | (verb == VERB_NEW        ? DDICT_NEW
                                    : verb == VERB_EXISTING ? DDICT_EXISTING
                                                            : 0);
    enum how how = hows[below(4)];
    struct ddict_place p;
    char name[32];
    size_t n = name_of(name, key);
    struct call *c = call_begin(verb, how, key, some_ms(), false);
    int rc;
    if (how == HOW_PLACE) {
        rc = ddict_reserve(d, name, n, c->len, flags, &p); /* asks nobody */
        if (rc < 0) {
            rc = -ECANCELED;
        } else {
            value_fill(p.data, c->wrote);
            rc = ddict_commit(&p, c->timeout_ms);
        }
    } else {
        size_t len = value_fill(in, c->wrote), cut = below(len + 1);
        struct iovec v[2] = {{in, cut}, {in + cut, len - cut}};
        rc = how == HOW_PIECES ? ddict_putv(d, name, n, v, 2, flags, c->timeout_ms)
                               : ddict_put(d, name, n, in, len, flags, c->timeout_ms);
    }
    call_end(c, rc, now_ns());
}

/* Views that are kept for some calls more, in which their bytes may not change. */
static struct held {
    struct call *c;
    struct ddict_view v;
} held[HELD];

static void held_release(struct held *h) {
    if (h->c && value_number(h->v.data, h->v.len) != h->c->read)
        h->c->read = VALUE_TORN;
    if (h->c)
        ddict_release(&h->v);
    h->c = NULL;
}

static void view_taken(struct call *c, struct ddict_view *v) {
    struct held *h = &held[below(HELD)];
    c->read = value_number(v->data, v->len);
    c->version = v->version;
    c->len = v->len;
    if (below(4) > 0) {
        ddict_release(v);
        return;
    }
    held_release(h);
    h->c = c;
    h->v = *v;
}

static void get_one(unsigned key) {
    char name[32];
    size_t n = name_of(name, key), len = 0;
    bool wait = below(8) == 0, view = below(2) == 0;
    int ms = wait ? (int)below(30) : some_ms(), rc;
    unsigned flags = wait ? DDICT_WAIT : 0;
    struct ddict_view v;
    struct call *c = call_begin(VERB_GET, view ? HOW_VIEW : HOW_PLAIN, key, ms, wait);
    rc = view ? ddict_view(d, name, n, &v, flags, ms)
              : ddict_get(d, name, n, in, sizeof in, &len, NULL, flags, ms);
    uint64_t at = now_ns(); /* looking at the bytes takes long */
    if (rc == 0 && view)
        view_taken(c, &v);
    else if (rc == 0) {
        c->read = value_number(in, len);
        c->len = len;
    }
    call_end(c, rc, at);
}

/* --- what depends on what is there --- */
static void put_if_one(unsigned key) {
    char name[32];
    size_t n = name_of(name, key);
    struct ddict_view v = {0};
    int rc = ddict_view(d, name, n, &v, 0, LONG_MS);
    uint64_t was = rc == 0 ? value_number(v.data, v.len) : 0, version = v.version;
    ddict_release(&v);
    if (rc < 0 && rc != DDICT_ENOKEY)
        return;
    if (below(4) == 0)
        usleep((useconds_t)below(2000)); /* another one may come in between */
    struct call *c = call_begin(VERB_PUT_IF, HOW_PLAIN, key, some_ms(), false);
    c->read = was;
    size_t len = value_fill(in, c->wrote);
    rc = ddict_put_if(d, name, n, in, len, 0, version, NULL, c->timeout_ms);
    call_end(c, rc, now_ns());
}

static void add_one(void) {
    char name[32];
    unsigned key = RECORD_COUNT + (unsigned)below(COUNTERS);
    size_t n = name_of(name, key);
    int64_t sum = 0;
    struct call *c = call_begin(VERB_ADD, HOW_PLAIN, key, some_ms(), false);
    int rc = ddict_add(d, name, n, 1, &sum, c->timeout_ms);
    uint64_t at = now_ns();
    c->read = (uint64_t)sum;
    call_end(c, rc, at);
}

static void pop_one(unsigned key) {
    char name[32];
    size_t n = name_of(name, key);
    bool wait = below(8) == 0;
    int ms = wait ? (int)below(30) : some_ms();
    struct ddict_view v;
    struct call *c = call_begin(VERB_POP, HOW_VIEW, key, ms, wait);
    int rc = ddict_pop(d, name, n, &v, wait ? DDICT_WAIT | DDICT_SURE : 0, ms);
    uint64_t at = now_ns();
    if (rc == 0)
        view_taken(c, &v);
    if (rc == DDICT_ENOKEY && wait)
        rc = -ECANCELED; /* DDICT_SURE: nothing was popped, though a long value may be there */
    call_end(c, rc, at);
}

/* --- queues --- */
static const uint64_t most_of[QUEUES] = {0, 4};

static void push_one(unsigned q) {
    char name[32];
    size_t n = name_of(name, RECORD_QUEUE + q);
    bool wait = below(2) == 0;
    int ms = wait ? (int)below(60) : some_ms();
    struct call *c = call_begin(VERB_PUSH, HOW_PLAIN, RECORD_QUEUE + q, ms, wait);
    size_t len = value_fill(in, c->wrote);
    int rc = ddict_push(d, name, n, in, len, wait ? DDICT_WAIT | DDICT_SURE : 0, most_of[q], ms);
    call_end(c, rc, now_ns());
}

static void push_or_pop(void) {
    unsigned q = (unsigned)below(QUEUES);
    if (below(5) < 2)
        push_one(q);
    else
        pop_one(RECORD_QUEUE + q);
}

/* One more that finds nothing says that all is popped. */
static void queues_empty(void) {
    for (unsigned q = 0; q < QUEUES; q++) {
        struct call *c;
        char name[32];
        size_t n = name_of(name, RECORD_QUEUE + q);
        do {
            struct ddict_view v;
            c = call_begin(VERB_POP, HOW_VIEW, RECORD_QUEUE + q, LONG_MS, false);
            int rc = ddict_pop(d, name, n, &v, 0, LONG_MS);
            uint64_t at = now_ns();
            if (rc == 0)
                view_taken(c, &v);
            call_end(c, rc, at);
        } while (c->code == 0);
    }
}

static void get_all(void) {
    struct ddict_want w[KEYS_MAX];
    struct call *c[KEYS_MAX];
    char name[KEYS_MAX][32];
    int ms = some_ms();
    for (unsigned i = 0; i < keys; i++) {
        w[i] = (struct ddict_want){.key = name[i], .klen = name_of(name[i], i)};
        c[i] = call_begin(VERB_GET, HOW_MANY, i, ms, false);
    }
    ssize_t rc = ddict_get_many(d, w, keys, 0, ms);
    uint64_t at = now_ns();
    for (unsigned i = 0; i < keys; i++) {
        int code = rc < 0 ? (int)rc : w[i].status;
        if (code == 0)
            view_taken(c[i], &w[i].view);
        call_end(c[i], code, at);
    }
}

static void put_all(void) {
    struct ddict_pair p[KEYS_MAX];
    struct call *c[KEYS_MAX];
    char name[KEYS_MAX][32];
    int ms = some_ms();
    for (unsigned i = 0; i < keys; i++) {
        uint64_t which = below(3);
        c[i] = call_begin(which == 0   ? VERB_PUT
                          : which == 1 ? VERB_NEW
                                       : VERB_EXISTING,
                          HOW_MANY, i, ms, false);
        p[i] = (struct ddict_pair){.key = name[i], .klen = name_of(name[i], i), .val = out[i]};
        p[i].vlen = value_fill(out[i], c[i]->wrote);
        p[i].flags = near_flag() | (which == 0 ? 0 : which == 1 ? DDICT_NEW : DDICT_EXISTING);
        p[i].status = -ECANCELED;
    }
    ssize_t rc = ddict_put_many(d, p, keys, ms);
    uint64_t at = now_ns();
    for (unsigned i = 0; i < keys; i++)
        call_end(c[i], rc < 0 ? -ECANCELED : p[i].status, at); /* nothing was sent */
}

static void look_one(enum verb verb, unsigned key) {
    char name[32];
    size_t n = name_of(name, key);
    struct call *c = call_begin(verb, HOW_PLAIN, key, some_ms(), false);
    int rc = verb == VERB_DEL ? ddict_del(d, name, n, c->timeout_ms)
                              : ddict_contains(d, name, n, NULL, c->timeout_ms);
    call_end(c, rc, now_ns());
}

/* --- an asynchronous set --- */
static ddict_async_t *set;
static struct flight {
    struct call *c; /* NULL: free */
    uint64_t ticket;
    unsigned char bytes[VALUE_MAX];
} flights[FLIGHTS];

static void op_over(struct ddict_op *op) {
    struct flight *f = op->user;
    struct call *c = f->c;
    int code = op->status;
    uint64_t at = now_ns();
    if (code == 0 && op->what == DDICT_OP_GET) {
        c->read = value_number(f->bytes, op->vlen);
        c->len = op->vlen;
    } else if (code == 0 && (op->what == DDICT_OP_VIEW || op->what == DDICT_OP_POP)) {
        view_taken(c, &op->view);
    }
    if (code == -ECANCELED) { /* it may have taken effect */
        code = -ETIMEDOUT;
        c->timeout_ms = -1;
    }
    call_end(c, code, at);
    f->c = NULL;
    free(op->text);
}

static unsigned flying(void) {
    unsigned n = 0;
    for (unsigned i = 0; i < FLIGHTS; i++)
        n += flights[i].c != NULL;
    return n;
}

static void ops_poll(int ms) {
    struct ddict_op done[FLIGHTS];
    if (flying() == 0)
        return;
    ssize_t n = ddict_async_poll(set, done, FLIGHTS, ms);
    for (ssize_t i = 0; i < n; i++)
        op_over(&done[i]);
}

static void op_submit(struct flight *f) {
    static const struct {
        enum verb verb;
        unsigned what, flags;
    } all[] = {{VERB_GET, DDICT_OP_GET, 0},
               {VERB_GET, DDICT_OP_VIEW, 0},
               {VERB_PUT, DDICT_OP_PUT, 0},
               {VERB_NEW, DDICT_OP_PUT, DDICT_NEW},
               {VERB_EXISTING, DDICT_OP_PUT, DDICT_EXISTING},
               {VERB_DEL, DDICT_OP_DEL, 0},
               {VERB_POP, DDICT_OP_POP, 0}};
    size_t i = below(near ? 2 : sizeof all / sizeof *all);
    unsigned key = (unsigned)below(keys);
    char name[32];
    int ms = some_ms();
    struct ddict_op op = {.what = all[i].what, .flags = all[i].flags, .key = name, .user = f};
    op.klen = name_of(name, key);
    op.timeout_ms = ms > 0 ? ms : 1;
    f->c = call_begin(all[i].verb, HOW_ASYNC, key, op.timeout_ms, false);
    op.buf = f->bytes;
    op.len = op.what == DDICT_OP_PUT   ? value_fill(f->bytes, f->c->wrote)
             : op.what == DDICT_OP_GET ? sizeof f->bytes
                                       : 0;
    ssize_t n = ddict_async_submit(set, &op, 1);
    if (n < 0)
        op.status = (int)n;
    f->ticket = op.ticket;
    if (n < 0 || op.ticket == 0)
        op_over(&op);
}

static void ops_some(void) {
    for (unsigned i = 0; i < FLIGHTS; i++)
        if (!flights[i].c && below(2))
            op_submit(&flights[i]);
    struct flight *f = &flights[below(FLIGHTS)];
    if (f->c && below(16) == 0)
        ddict_async_cancel(set, f->ticket);
    ops_poll((int)below(3));
}

/* --- the whole dictionary --- */
static void freeze_one(enum verb verb) {
    struct call *c = call_begin(verb, HOW_PLAIN, 0, LONG_MS, false);
    int rc = verb == VERB_FREEZE ? ddict_freeze(d, LONG_MS) : ddict_unfreeze(d, LONG_MS);
    call_end(c, rc, now_ns());
}

static void freeze_some(void) {
    freeze_one(VERB_FREEZE);
    usleep((useconds_t)below(60000));
    freeze_one(VERB_UNFREEZE);
    usleep((useconds_t)below(300000));
}

static void step(void) {
    unsigned key = (unsigned)below(keys);
    uint64_t which = below(144);
    ops_poll(0);
    if (which < 18)
        put_one(VERB_PUT, key);
    else if (which < 30)
        put_one(VERB_NEW, key);
    else if (which < 40)
        put_one(VERB_EXISTING, key);
    else if (which < 74)
        get_one(key);
    else if (which < 83)
        look_one(VERB_DEL, key);
    else if (which < 92)
        pop_one(key);
    else if (which < 97)
        look_one(VERB_HAS, key);
    else if (which < 99)
        get_all();
    else if (which < 100)
        put_all();
    else if (which < 120)
        push_or_pop();
    else if (which < 128)
        put_if_one(key);
    else if (which < 136)
        add_one();
    else
        ops_some();
}

static int file_map(const char *path, uint32_t client) {
    size_t bytes = sizeof *head + RECORD_CALLS * sizeof *calls;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        return -errno;
    head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (head == MAP_FAILED)
        return -errno;
    calls = (struct call *)(head + 1);
    head->client = client;
    head->magic = RECORD_MAGIC;
    return 0;
}

int main(int argc, char **argv) {
    signal(SIGTERM, stop_noted);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 6)
        return 1;
    uint32_t client = (uint32_t)atoi(argv[2]);
    keys = (unsigned)atoi(argv[4]);
    uint64_t pause_us = (uint64_t)atoi(argv[5]);
    rng = strtoull(argv[3], NULL, 10) * 0x9E3779B97F4A7C15ull + 88172645463325252ull;
    for (int i = 6; i < argc; i++) {
        tiny |= strcmp(argv[i], "tiny") == 0;
        small |= strcmp(argv[i], "small") == 0;
        near |= strcmp(argv[i], "near") == 0;
        freezer |= strcmp(argv[i], "freezer") == 0;
        last |= strcmp(argv[i], "last") == 0;
    }
    if (keys < 1 || keys > KEYS_MAX || file_map(argv[1], client) < 0) {
        fprintf(stderr, "worker %u: no file %s\n", client, argv[1]);
        return 1;
    }
    if (ddict_attach(&d, NULL, LONG_MS) < 0 || ddict_async_open(d, &set) < 0)
        return 2;
    owners_note();
    if (!freezer)
        get_all();
    while (!stop && !last && lost < LOST_MAX && head->calls + 2 * KEYS_MAX < RECORD_CALLS) {
        if (freezer)
            freeze_some();
        else
            step();
        if (lost > 0)
            usleep(5000);
        else if (pause_us > 0 && below(2))
            usleep((useconds_t)below(2 * pause_us));
    }
    while (flying() > 0 && lost < LOST_MAX)
        ops_poll(-1);
    if (last && lost == 0)
        queues_empty();
    if (!freezer && lost == 0) /* the last one sees what became of all that was acknowledged */
        get_all();
    for (unsigned i = 0; i < HELD; i++)
        held_release(&held[i]);
    ddict_async_close(set);
    ddict_detach(d);
    return lost < LOST_MAX ? 0 : 3;
}
