/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane.c - a hostile client, as the manager serves it: records and positions of its rings, its area
 * and its leases, in any order, between turns of a real manager over a real arena. Whatever it does,
 * nothing of it is left when it has gone, and the next client is served.
 */
#include "client.h"
#include "fuzz.h"
#include <base/clock.h>
#include <manager/lane_clients.h>
#include <manager/lanes.h>
#include <manager/main_loop.h>
#include <manager/supmsg.h>

#include <sys/socket.h>

enum { HONEST = 1, HOSTILE = 2, MEMORY = 32 << 20, OPS_MOST = 200, SETTLE_TURNS = 10000 };

static struct manager m;
static struct manager_page page;
static struct client honest;
static int supervisor_fd;

static void turn(void) {
    char told[sizeof(struct sup_msg)];
    m.now = clock_ns();
    share_begin(&m);
    lanes_turn(&m);
    io_wait(m.epoll_fd, 0);
    manager_work(&m);
    while (recv(supervisor_fd, told, sizeof told, MSG_DONTWAIT) > 0)
        continue;
    fuzz_must(!m.stopping);
}

/* Read what has come; NULL: not even that. It is whole unless the client has lied. */
static void answers_take(struct client *c) {
    const uint8_t *payload;
    struct msg r;
    int e = 0;
    for (unsigned i = 0; i < 256 && !c->lied && (e = ring_peek(&c->lane.cq, &r, &payload)) > 0;
         i++) {
        fuzz_read(payload, r.len - MSG_HEADER);
        ring_consume(&c->lane.cq, &r);
    }
    fuzz_must(e >= 0);
}

/* --- the honest one --- */
static struct msg honest_ask(struct msg q, const void *payload, uint8_t *answer, size_t cap) {
    static uint64_t id;
    const uint8_t *at;
    struct msg r;
    bool bad = false;
    uint8_t *to = ring_reserve(&honest.lane.sq, q.len, &bad);
    fuzz_must(to && !bad);
    q.id = ++id;
    memcpy(to, &q, sizeof q);
    memcpy(to + MSG_HEADER, payload, q.len - MSG_HEADER);
    ring_commit(&honest.lane.sq);
    client_ring(&honest);
    for (unsigned i = 0; i < SETTLE_TURNS; i++) {
        turn();
        int e = ring_peek(&honest.lane.cq, &r, &at);
        fuzz_must(e >= 0);
        if (e == 0)
            continue;
        fuzz_must(r.id == q.id && r.type == MSG_REPLY && r.len - MSG_HEADER <= cap);
        memcpy(answer, at, r.len - MSG_HEADER);
        ring_consume(&honest.lane.cq, &r);
        return r;
    }
    fuzz_must(!"the manager answers");
    return r;
}

static void honest_is_served(void) {
    uint8_t answer[1024];
    struct msg r =
        honest_ask((struct msg){.type = MSG_PUT, .len = 64 + 8, .key_len = 3, .val_len = 5},
                   "keyvalue", answer, sizeof answer);
    fuzz_must(r.status == 0);
    r = honest_ask(
        (struct msg){.type = MSG_GET, .len = 64 + 3, .key_len = 3, .version = MSG_VALUE_MAX}, "key",
        answer, sizeof answer);
    fuzz_must(r.status == 0 && r.val_len == 5 && memcmp(answer, "value", 5) == 0);
    r = honest_ask((struct msg){.type = MSG_DEL, .len = 64 + 3, .key_len = 3}, "key", answer,
                   sizeof answer);
    fuzz_must(r.status == 0);
}

static void manager_make(void) {
    static struct manager_setup setup = {.managers = 1,
                                         .deal = {.owners = 1, .nodes = 1, .keyed = 1},
                                         .nodes = 1,
                                         .node = "n",
                                         .spill_fd = -1,
                                         .listen_fd = -1,
                                         .connections = 1,
                                         .provider = "",
                                         .page = &page,
                                         .cache = UINT64_MAX};
    struct store_options o = {.budget = MEMORY, .managers = 1};
    int pair[2];
    fuzz_must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    setup.sup_fd = pair[0];
    supervisor_fd = pair[1];
    fuzz_must((setup.arena_fd = arena_create(&o)) >= 0);
    manager_begin(&m, &setup);
    m.numa_node = -1; /* bound to none */
    fuzz_must(manager_open(&m) == 0);
    client_open(&m, &honest, HONEST);
}

/* --- the hostile one --- */
static uint64_t number_take(struct fuzz_input *in, int wide) {
    uint64_t n = 0;
    fuzz_copy(in, &n, wide ? 8 : 1);
    return n;
}

/* At the client's tail, wherever that is; the ring ends the record. */
static void bytes_write(struct client *c, const void *bytes, size_t n) {
    uint64_t at = *c->lane.sq.tail & (DD_LANE_RING - 1);
    if (n > DD_LANE_RING - at)
        n = DD_LANE_RING - at;
    memcpy(c->lane.sq.data + at, bytes, n);
}

static void record_write(struct client *c, struct fuzz_input *in) {
    static uint8_t record[MSG_HEADER + 256];
    uint8_t how = fuzz_byte(in);
    struct msg q = {.type = (uint16_t)(fuzz_byte(in) % (MSG_TYPE_N + 1)), .id = fuzz_byte(in) % 8};
    fuzz_copy(in, &q.flags, 2);
    q.key_len = (uint32_t)number_take(in, how & 1);
    q.val_len = number_take(in, how & 2);
    q.aux = number_take(in, how & 4);
    q.version = number_take(in, how & 8);
    q.manager = how & 16 ? (uint32_t)number_take(in, 1) : 0;
    q.tag = fuzz_byte(in);
    q.len = MSG_HEADER + fuzz_byte(in);
    fuzz_copy(in, record + MSG_HEADER, q.len - MSG_HEADER);
    if (how & 32)
        q.len = (uint32_t)number_take(in, 1);
    if (how & 64)
        q.rewind = fuzz_byte(in);
    if (how & 128)
        q.rule = fuzz_byte(in);
    memcpy(record, &q, sizeof q);
    bytes_write(c, record, sizeof record);
    __atomic_store_n(c->lane.sq.tail, *c->lane.sq.tail + lane_round(q.len & 0xffff),
                     __ATOMIC_RELEASE);
}

static void hostile_do(struct client *c, struct fuzz_input *in) {
    uint64_t word[2];
    uint8_t what = fuzz_byte(in);
    switch (what % 16) {
    case 0: /* raw bytes as a record */
        word[0] = fuzz_byte(in);
        word[0] = word[0] < in->left ? word[0] : in->left;
        bytes_write(c, in->at, word[0]);
        in->at += word[0];
        in->left -= word[0];
        *c->lane.sq.tail += 64 * (what / 16 + 1u);
        break;
    case 1:
        *c->lane.sq.tail += (int64_t)(int8_t)fuzz_byte(in) * 64;
        break;
    case 2:
        *c->lane.sq.tail = number_take(in, 1);
        break;
    case 3:
        *c->lane.cq.head = number_take(in, 1);
        c->lied = 1;
        break;
    case 4: /* a lease, or how many there are: seldom so many that to look at them takes a millisecond */
        fuzz_copy(in, word, sizeof word);
        word[0] %= LEASE_CHUNK_SIZE / 8;
        if (word[0] == 0 && what / 16 < 15)
            word[1] &= ~(uint64_t)UINT32_MAX | 7;
        c->leases[word[0]] = word[1];
        break;
    case 5:
        fuzz_copy(in, word, sizeof word);
        word[0] = LANE_RINGS_SIZE + word[0] % (1 << 20);
        fuzz_must(pwrite(c->lane_fd, &word[1], 8, (off_t)word[0]) == 8);
        break;
    case 6: /* the other words of its page */
        c->lane.page->client_sleeps = fuzz_byte(in);
        c->lane.page->area = number_take(in, 1);
        c->lane.page->sq_used = fuzz_byte(in);
        break;
    case 7:
        answers_take(c);
        break;
    case 8:
        turn();
        break;
    default:
        record_write(c, in);
        break;
    }
}

/* Nothing of it is left: no request, no pin, no key once all are removed. */
static void nothing_left(void) {
    struct manager_stats stats;
    fuzz_must(store_clear(m.store) == 0);
    for (unsigned i = 0; i < SETTLE_TURNS && store_work(m.store); i++)
        continue;
    store_reclaim(m.store);
    store_stats(m.store, &stats);
    fuzz_must(stats.num_keys == 0);
    fuzz_must(m.puts_open == 0 && !m.lent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct client c;
    if (!m.store)
        manager_make();
    client_open(&m, &c, HOSTILE);
    for (unsigned i = 0; in.left > 0 && i < OPS_MOST; i++) {
        hostile_do(&c, &in);
        client_ring(&c);
        if (i % 4 == 3)
            turn();
    }
    turn();
    turn();
    answers_take(&c);
    client_del(&m, HOSTILE);
    client_close(&c);
    turn();
    nothing_left();
    honest_is_served();
    return 0;
}
