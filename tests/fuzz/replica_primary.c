/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica_primary.c - what a primary takes from its backup: ACK, well or badly formed, too early, too
 * high and again, messages that do not belong there, bytes, connections that end, and a clock that
 * moves; while a client changes keys. Whatever it was, no change is answered before its REPL was
 * acknowledged, and with a backup by the book all are.
 */
#include "client.h"
#include "manager.h"
#include <base/hash.h>
#include <base/shadow.h>
#include <manager/replica_flight.h>

enum { OWNER = 0, CLIENT = 1, MEMORY = 16 << 20, OPS_MOST = 200, SETTLE_TURNS = 20000, NODES = 2 };

static const struct deal deal = {.owners = 2, .nodes = NODES, .keyed = NODES};
static uint8_t keys[NODES][KEY_SIZE];
static struct peer_address peers[4];
static struct manager m;
static struct manager_setup setup;
static struct manager_page page;
static struct client client;
static int supervisor_fd;
static uint64_t asked, answered, id, epoch;

static struct { /* of the backup */
    struct io_handler listener;
    struct end end;
    uint64_t repls, acked, acked_before; /* before: over connections that have ended */
    bool raw, lied;
} backup;

static void answers_take(void);

static void turn_one(void) {
    turn(&m, supervisor_fd);
    answers_take();
}

/* --- the backup --- */
static int backup_message(struct conn *c, void *arg, const struct msg *r, void *payload) {
    fuzz_must(r->type == MSG_SYNC || r->type == MSG_REPL || r->type == MSG_DATA);
    fuzz_must(r->manager == OWNER);
    fuzz_read(payload, r->len - MSG_HEADER);
    if (r->type == MSG_SYNC)
        fuzz_must(r->aux <= epoch && backup.repls == 0);
    bool whole = r->type == MSG_REPL ? !(r->flags & MSGF_STREAM)
                                     : r->type == MSG_DATA && r->flags & MSGF_LAST;
    backup.repls += whole;
    return 0;
}

/* What has not come here may have been sent: the primary believes that, too. */
static void ack_note(uint64_t n) {
    backup.lied |= n > backup.repls;
    if (n <= backup.repls && n > backup.acked)
        backup.acked = n;
}

static void ack_send(uint64_t n, int status) {
    struct msg r = {.type = MSG_ACK, .len = MSG_HEADER, .aux = n, .status = status};
    ack_note(n);
    end_write(&backup.end, &r, sizeof r, turn_one);
}

static void backup_down(struct conn *c, void *arg, int code) {
    end_down(c, arg, code);
    backup.acked_before += backup.acked;
    backup.repls = backup.acked = 0;
    backup.raw = false;
}

static const struct conn_ops backup_ops = {
    .up = end_up, .message = backup_message, .down = backup_down};

static void backup_accept(struct io_handler *h, uint32_t events) {
    int fd;
    while ((fd = conn_take(h->fd)) >= 0) {
        if (backup.end.c) {
            conn_free(backup.end.c);
            backup_down(NULL, &backup.end, 0);
        }
        backup.end.me = (struct conn_identity){.keys = (const uint8_t(*)[KEY_SIZE])keys,
                                               .nodes = NODES,
                                               .self = shadow_of(&deal, OWNER)};
        backup.end.up = backup.end.down = false;
        fuzz_must(conn_accept(&backup.end.c, m.epoll_fd, &backup.end.me, fd, &backup_ops,
                              &backup.end) == 0);
    }
}

/* --- the primary --- */
static void primary_open(void) {
    struct store_options o = {.budget = MEMORY, .managers = 2};
    fuzz_must((setup.arena_fd = arena_create(&o)) >= 0);
    page = (struct manager_page){.lives = 1, .lease = UINT64_MAX};
    m = (struct manager){0};
    manager_begin(&m, &setup);
    m.numa_node = -1; /* bound to none */
    fuzz_must(manager_open(&m) == 0 && m.primary && m.flights);
    backup.listener.ready = backup_accept;
    fuzz_must(io_add(m.epoll_fd, &backup.listener, EPOLLIN) == 0);
    client_open(&m, &client, CLIENT);
    epoch = 1;
}

static void primary_make(void) {
    struct sockaddr_storage *at = &peers[shadow_slot(&deal, shadow_of(&deal, OWNER))].addr[0],
                            unused;
    int pair[2];
    fuzz_must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    supervisor_fd = pair[1];
    backup.listener.fd = address_listen(at, 'b');
    peers[shadow_slot(&deal, shadow_of(&deal, OWNER))].naddr = 1;
    setup = (struct manager_setup){
        .id = OWNER,
        .managers = 2,
        .nodes = NODES,
        .survives = true,
        .copies = true,
        .deal = deal,
        .node = "n",
        .spill_fd = -1,
        .connections = 1,
        .provider = "",
        .sup_fd = pair[0],
        .page = &page,
        .peers = peers,
        .cache = UINT64_MAX,
        .listen_fd = address_listen(&unused, 'p'),
        .identity = {
            .keys = (const uint8_t(*)[KEY_SIZE])keys, .nodes = NODES, .life = 1, .self = OWNER}};
    primary_open();
}

static void primary_close(void) {
    client_del(&m, CLIENT);
    client_close(&client);
    if (backup.end.c)
        conn_free(backup.end.c);
    backup.end = (struct end){0};
    manager_close(&m);
    close(m.epoll_fd);
    close(m.spill.fd);
    close(setup.arena_fd);
}

/* --- the client --- */
static void answers_take(void) {
    const uint8_t *payload;
    struct msg r;
    int e;
    while ((e = ring_peek(&client.lane.cq, &r, &payload)) > 0) {
        fuzz_must(r.type == MSG_REPLY);
        answered++;
        ring_consume(&client.lane.cq, &r);
    }
    fuzz_must(e == 0 && answered <= asked);
    if (!backup.lied)
        fuzz_must(answered <= backup.acked_before + backup.acked);
}

static const char *key_of(uint8_t n) {
    static char name[4][16];
    static unsigned next, made;
    for (; made < 4; next++) {
        snprintf(name[made], sizeof name[0], "k%u", next);
        made += deal_owner(&deal, name[made], strlen(name[made]),
                           key_hash(name[made], strlen(name[made]))) == OWNER;
    }
    return name[n % 4];
}

/* Each makes one change, whatever was there. */
static void ask(unsigned type, unsigned flags, const char *key, size_t n) {
    uint8_t value[256] = {0};
    struct msg r = {.type = (uint16_t)type, .flags = (uint16_t)flags, .manager = OWNER};
    bool bad = false;
    r.key_len = (uint32_t)strlen(key);
    r.val_len = type == MSG_PUT ? n : 0;
    r.len = MSG_HEADER + r.key_len + (uint32_t)r.val_len;
    uint8_t *to = ring_reserve(&client.lane.sq, r.len, &bad);
    if (!to)
        return;
    r.id = ++id;
    memcpy(to, &r, sizeof r);
    memcpy(to + MSG_HEADER, key, r.key_len);
    memcpy(to + MSG_HEADER + r.key_len, value, r.val_len);
    ring_commit(&client.lane.sq);
    client_ring(&client);
    asked++;
}

/* --- what is done --- */
static void bytes_do(struct fuzz_input *in) {
    size_t n = fuzz_byte(in);
    n = n < in->left ? n : in->left;
    char *bytes = fuzz_text(in, n);
    backup.raw = backup.lied = true;
    end_write(&backup.end, bytes, n, turn_one);
    free(bytes);
}

static void message_do(struct fuzz_input *in) {
    uint8_t bytes[MSG_HEADER + 64] = {0};
    struct msg r = {.type = (uint16_t)(fuzz_byte(in) % (MSG_TYPE_N + 1)),
                    .len = MSG_HEADER + fuzz_byte(in) % 64};
    fuzz_copy(in, &r.flags, 2);
    fuzz_copy(in, &r.status, 4);
    r.aux = fuzz_number(in, 8);
    r.key_len = fuzz_byte(in);
    if (r.type == MSG_ACK)
        ack_note(r.aux);
    memcpy(bytes, &r, sizeof r);
    end_write(&backup.end, bytes, r.len, turn_one);
}

static void hang_up(void) {
    if (!backup.end.c)
        return;
    conn_free(backup.end.c);
    backup_down(NULL, &backup.end, 0);
    backup.end.c = NULL;
}

static void some_do(struct fuzz_input *in) {
    uint8_t what = fuzz_byte(in);
    switch (what % 16) {
    case 0:
        bytes_do(in);
        break;
    case 1:
        message_do(in);
        break;
    case 2:
        hang_up();
        break;
    case 3:
        ack_send(backup.repls + fuzz_byte(in) - 128u, 0);
        break;
    case 4:
        ack_send(backup.repls, -(int)fuzz_byte(in));
        break;
    case 5:
        fuzz_clock += fuzz_byte(in) * 3000000ull;
        turn_one();
        break;
    case 6:
        turn_one();
        break;
    case 7:
    case 8:
    case 9:
        ack_send(backup.acked + what / 16, 0);
        break;
    case 10:
        ask(MSG_CLEAR, 0, "", 0);
        break;
    case 11:
        ask(MSG_PUT, MSGF_APPEND, key_of(what / 16), 100);
        break;
    default:
        ask(MSG_PUT, 0, key_of(what / 16), fuzz_byte(in));
        break;
    }
}

/* By the book: what was not answered yet is. Time passes faster while all wait for it. */
static void backup_helps(void) {
    if (backup.raw) /* half a message may have been sent */
        hang_up();
    uint64_t step = 1000000;
    for (unsigned i = 0; i < SETTLE_TURNS && answered < asked; i++) {
        uint64_t answered_before = answered, repls = backup.repls;
        bool up = backup.end.up;
        fuzz_clock += step;
        turn_one();
        if (backup.end.up && backup.acked < backup.repls)
            ack_send(backup.repls, 0);
        if (answered != answered_before || backup.repls != repls || backup.end.up != up)
            step = 1000000;
        else if (step < 32000000)
            step *= 2;
    }
    fuzz_must(answered == asked && !flights_open(&m));
}

/* The map has no backup any more: all is answered without it, and the next input gets a new primary. */
static void backup_dropped(void) {
    struct sup_msg s = {
        .type = SUP_MAP, .id = OWNER, .count = ++epoch, .pid = OWNER, .room = SHADOW_NONE};
    backup.lied = true;
    fuzz_must(sup_send(supervisor_fd, &s, NULL, 0) == 0);
    for (unsigned i = 0; i < SETTLE_TURNS && (answered < asked || m.flights); i++)
        turn_one();
    fuzz_must(answered == asked && !m.flights);
    primary_close();
    backup.acked_before = answered;
    backup.repls = backup.acked = 0;
    backup.raw = false;
    primary_open();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    if (!m.store)
        primary_make();
    bool drops = fuzz_byte(&in) % 16 == 15;
    for (unsigned i = 0; in.left > 0 && i < OPS_MOST; i++) {
        some_do(&in);
        if (i % 4 == 3)
            turn_one();
    }
    if (drops)
        backup_dropped();
    backup_helps();
    ask(MSG_CLEAR, 0, "", 0);
    backup_helps();
    backup.lied = false;
    backup.acked_before = answered - backup.acked;
    return 0;
}
