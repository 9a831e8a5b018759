/* SPDX-License-Identifier: Apache-2.0 */
/* raw.c - the client of the tests that speaks the protocol by hand. */
#include "raw.h"

#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

char raw_text[512];

void die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stdout, fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
    _exit(1);
}

/* Milliseconds to wait for an answer; $PROBE_MS. */
static int patience(void) {
    const char *v = getenv("PROBE_MS");
    return v ? atoi(v) : 30000;
}

void raw_attach(struct raw *r) {
    struct attach_msg m;
    int fds[ATTACH_FDS], n;
    const char *name = getenv("DDICT_NAME");
    memset(r, 0, sizeof *r);
    r->next_id = 1;
    must(name, "DDICT_NAME is not set");
    r->sock = attach_connect(name, 5000);
    must(r->sock >= 0, "connect: %d %s", r->sock, dd_errmsg());
    attach_msg_init(&m, ATTACH_HELLO);
    must(attach_send(r->sock, &m, NULL, 0) == 0, "hello");
    n = attach_recv(r->sock, &m, fds, ATTACH_FDS, 10000);
    must(n >= 0, "no welcome: %d", n);
    if (m.status < 0) {
        printf("refused %d %s\n", m.status, m.text);
        fflush(stdout);
        _exit(3);
    }
    must(n == 3 && m.type == ATTACH_WELCOME, "welcome: %d descriptors, type %u", n, m.type);
    r->managers = m.managers;
    r->nodes = m.nodes;
    r->deal = deal_known(m.managers, m.nodes, m.keyed_nodes);
    r->node_id = m.node_id;
    r->local_n = m.local_managers;
    r->client = m.client;
    must(r->local_n <= 16, "too many managers for this test");
    r->status_page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[0], 0);
    r->lease_fd = fds[1];
    r->leases = mmap(NULL, LEASE_FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    must(r->status_page != MAP_FAILED && r->leases != MAP_FAILED, "mmap");
    close(fds[0]);
    close(fds[2]);
    __atomic_store_n(&r->leases->chunks, 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < r->local_n; i++) {
        struct raw_manager *l = &r->local[i];
        n = attach_recv(r->sock, &m, fds, ATTACH_FDS, 5000);
        must((n == 3 || n == 4) && m.type == ATTACH_MANAGER, "manager %u: %d", i, n);
        l->id = m.manager;
        l->pid = (pid_t)m.pid;
        must(arena_view_map(&l->arena, fds[0], n == 4 ? fds[3] : -1, i) == 0, "arena: %s",
             dd_errmsg());
        must(lane_map(&l->lane, fds[1], true) == 0, "lane: %s", dd_errmsg());
        l->event_fd = fds[2];
        close(fds[0]);
        close(fds[1]);
        if (n == 4)
            close(fds[3]);
    }
}

unsigned raw_lane_for(struct raw *r, const void *key, size_t len) {
    uint64_t h = key_hash(key, len);
    unsigned owner = deal_owner(&r->deal, key, len, h);
    return owner % r->nodes == r->node_id ? owner / r->nodes
                                          : proxy_of(owner, r->nodes, r->local_n);
}

static void ring_event(struct raw_manager *l) {
    uint64_t one = 1;
    if (write(l->event_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        die("eventfd");
}

static void sent(struct raw_manager *l) {
    /* pairs with the manager's after it set `sleeping` or left the lane */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (lane_is_left(&l->lane) || __atomic_load_n(&l->arena.header->sleeping, __ATOMIC_RELAXED))
        ring_event(l);
}

void raw_send(struct raw *r, unsigned i, struct msg *m, const void *key, const void *value,
              size_t value_len) {
    struct raw_manager *l = &r->local[i];
    bool bad = false;
    m->len = (uint32_t)(MSG_HEADER + m->key_len + value_len);
    for (uint64_t end = clock_ms() + 20000;;) {
        uint8_t *at = lane_write_begin(&l->lane) ? ring_reserve(&l->lane.sq, m->len, &bad) : NULL;
        must(!bad, "bad head of SQ");
        if (at) {
            memcpy(at, m, sizeof *m);
            if (m->key_len)
                memcpy(at + MSG_HEADER, key, m->key_len);
            if (value_len)
                memcpy(at + MSG_HEADER + m->key_len, value, value_len);
            ring_commit(&l->lane.sq);
            lane_write_end(&l->lane);
            sent(l);
            return;
        }
        lane_write_end(&l->lane);
        must(clock_ms() < end, "no room in SQ for 20 s");
        uint32_t doorbell = lane_sleep_announce(&l->lane);
        lane_sleep(&l->lane, doorbell, 10);
    }
}

bool raw_next(struct raw *r, unsigned i, struct msg *m, uint8_t **data, int ms) {
    struct raw_manager *l = &r->local[i];
    const uint8_t *payload;
    for (uint64_t end = clock_ms() + (uint64_t)ms;;) {
        int e = ring_peek(&l->lane.cq, m, &payload);
        must(e >= 0, "malformed record in CQ");
        if (e == 1) {
            if (data) {
                *data = malloc(m->len);
                memcpy(*data, payload, m->len - MSG_HEADER);
            }
            return true; /* the caller consumes */
        }
        if (clock_ms() >= end)
            return false;
        if (__atomic_load_n(&r->status_page->state, __ATOMIC_ACQUIRE) & STATUS_ENDED)
            return false;
        uint32_t doorbell = lane_sleep_announce(&l->lane);
        if (!ring_ready(&l->lane.cq))
            lane_sleep(&l->lane, doorbell, 10);
    }
}

void raw_consumed(struct raw *r, unsigned i, const struct msg *m) {
    struct raw_manager *l = &r->local[i];
    ring_consume(&l->lane.cq, m);
    if (lane_space_wanted(&l->lane))
        ring_event(l);
}

static uint64_t *slot_free(struct raw *r) {
    for (unsigned i = 0; i < DD_LEASE_CHUNK_SLOTS; i++)
        if (r->leases->slot[i] == 0)
            return &r->leases->slot[i];
    die("no free lease slot");
}

static void take_placed(struct raw *r, struct raw_answer *a, bool keep) {
    struct raw_manager *l = NULL;
    struct found f;
    for (unsigned k = 0; k < r->local_n; k++)
        if (r->local[k].id == a->m.manager)
            l = &r->local[k];
    must(l, "PLACED at manager %u, which is not here", a->m.manager);
    uint64_t *slot = slot_free(r);
    reader_adopt(&l->arena, a->m.aux, slot);
    must(reader_item(&l->arena, a->m.aux, &f) == 0, "PLACED: %s", dd_errmsg());
    must(f.val_len == a->m.val_len, "PLACED: %llu bytes, REPLY says %llu",
         (unsigned long long)f.val_len, (unsigned long long)a->m.val_len);
    a->len = f.val_len;
    a->data = malloc(a->len + 1);
    memcpy(a->data, f.value, a->len);
    if (keep)
        a->slot = slot;
    else
        reader_release(slot);
}

void raw_ask(struct raw *r, unsigned i, struct msg *m, const void *key, const void *value,
             size_t value_len, struct raw_answer *a, bool keep, int ms) {
    uint64_t got = 0;
    m->id = r->next_id++;
    memset(a, 0, sizeof *a);
    raw_send(r, i, m, key, value, value_len);
    for (;;) {
        struct msg in;
        uint8_t *data;
        must(raw_next(r, i, &in, &data, ms), "%s: no answer within %d ms; status %u %s",
             msg_name(m->type), ms, r->status_page->state, r->status_page->text);
        uint32_t len = in.len - MSG_HEADER;
        if (in.id != m->id) { /* of a request that was given up */
            free(data);
            raw_consumed(r, i, &in);
            continue;
        }
        if (in.type == MSG_REPLY) {
            a->m = in;
            if (in.status < 0) {
                snprintf(raw_text, sizeof raw_text, "%.*s", (int)len, (char *)data);
            } else if (in.flags & MSGF_PLACED) {
                take_placed(r, a, keep);
            } else if (in.flags & MSGF_STREAM) {
                a->data = malloc(in.val_len);
                a->len = in.val_len;
            } else {
                a->data = data;
                a->len = len;
                data = NULL;
            }
            free(data);
            raw_consumed(r, i, &in);
            if (in.status < 0 || !(in.flags & MSGF_STREAM))
                return;
            continue;
        }
        must(in.type == MSG_DATA && a->m.flags & MSGF_STREAM && in.aux == got,
             "answer of type %s at %llu of %llu", msg_name(in.type), (unsigned long long)in.aux,
             (unsigned long long)got);
        if (in.status < 0) {
            a->m.status = in.status;
            snprintf(raw_text, sizeof raw_text, "stream broken");
        }
        must(got + len <= a->len, "more than the value");
        memcpy(a->data + got, data, len);
        got += len;
        free(data);
        bool last = in.flags & MSGF_LAST;
        raw_consumed(r, i, &in);
        if (last) {
            must(in.status < 0 || got == a->len, "LAST at %llu of %zu", (unsigned long long)got,
                 a->len);
            return;
        }
    }
}

void raw_free(struct raw_answer *a) {
    free(a->data);
    if (a->slot)
        reader_release(a->slot);
    memset(a, 0, sizeof *a);
}

/* The manager's word to stop, for whichever manager: wait until it is taken back. True: something
 * else has come. */
static bool held(struct raw *r, unsigned i) {
    struct msg in;
    for (int ms = 0; raw_next(r, i, &in, NULL, ms);) {
        if (in.type != MSG_HOLD)
            return true;
        ms = in.aux ? 30000 : 0;
        raw_consumed(r, i, &in);
    }
    return false;
}

static int put_stream(struct raw *r, unsigned i, struct msg *m, const void *key,
                      const uint8_t *value, size_t len) {
    struct raw_manager *l = &r->local[i];
    struct msg in;
    m->flags |= MSGF_STREAM;
    m->id = r->next_id++;
    raw_send(r, i, m, key, NULL, 0);
    for (size_t at = 0; at < len;) {
        uint32_t n = len - at < DD_MSG_PIECE ? (uint32_t)(len - at) : DD_MSG_PIECE;
        struct msg d = {.type = MSG_DATA, .id = m->id, .aux = at};
        if (at + n == len)
            d.flags = MSGF_LAST;
        if (ring_ready(&l->lane.cq) && held(r, i)) { /* refused: stop, and say so */
            struct msg ab = {.type = MSG_ABORT, .id = m->id};
            raw_send(r, i, &ab, NULL, NULL, 0);
            break;
        }
        raw_send(r, i, &d, NULL, value + at, n);
        at += n;
    }
    uint8_t *data;
    do {
        must(raw_next(r, i, &in, &data, 30000), "streamed put: no answer; status %u",
             r->status_page->state);
        if (in.status < 0)
            snprintf(raw_text, sizeof raw_text, "%.*s", (int)(in.len - MSG_HEADER), (char *)data);
        free(data);
        raw_consumed(r, i, &in);
    } while (in.id != m->id);
    must(in.type == MSG_REPLY, "answer %s to a put", msg_name(in.type));
    return in.status;
}

int raw_put(struct raw *r, const void *key, size_t key_len, const void *value, size_t len,
            unsigned flags) {
    unsigned i = raw_lane_for(r, key, key_len);
    struct msg m = {.type = MSG_PUT,
                    .flags = (uint16_t)flags,
                    .key_len = (uint32_t)key_len,
                    .val_len = len,
                    .tag = 7};
    struct raw_answer a;
    if (key_len + len > DD_MSG_INLINE)
        return put_stream(r, i, &m, key, value, len);
    raw_ask(r, i, &m, key, value, len, &a, false, patience());
    int status = a.m.status;
    must(status < 0 || a.m.version > 0, "a put without version");
    raw_free(&a);
    return status;
}

int raw_get(struct raw *r, unsigned type, const void *key, size_t key_len, unsigned flags,
            uint64_t wait_us, struct raw_answer *a, bool keep) {
    struct msg m = {.type = (uint16_t)type,
                    .flags = (uint16_t)flags,
                    .key_len = (uint32_t)key_len,
                    .aux = wait_us,
                    .version = MSG_VALUE_MAX};
    raw_ask(r, raw_lane_for(r, key, key_len), &m, key, NULL, 0, a, keep, patience());
    return a->m.status;
}

int raw_del(struct raw *r, const void *key, size_t key_len) {
    struct msg m = {.type = MSG_DEL, .key_len = (uint32_t)key_len};
    struct raw_answer a;
    raw_ask(r, raw_lane_for(r, key, key_len), &m, key, NULL, 0, &a, false, patience());
    int status = a.m.status;
    raw_free(&a);
    return status;
}

static uint64_t mix(uint64_t x) {
    x ^= x >> 31;
    x *= 0x7fb5d329728ea185ull;
    x ^= x >> 27;
    x *= 0x81dadef4bc2dd44dull;
    return x ^ x >> 33;
}

void pattern_fill(uint8_t *v, size_t len, uint64_t n) {
    for (size_t i = 0; i < len; i += 8) {
        uint64_t w = mix(n * 0x9e3779b97f4a7c15ull + i + 1);
        memcpy(v + i, &w, len - i < 8 ? len - i : 8);
    }
}

bool pattern_check(const uint8_t *v, size_t len, uint64_t n) {
    for (size_t i = 0; i < len; i += 8) {
        uint64_t w = mix(n * 0x9e3779b97f4a7c15ull + i + 1);
        if (memcmp(v + i, &w, len - i < 8 ? len - i : 8) != 0)
            return false;
    }
    return true;
}
