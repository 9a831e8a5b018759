/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica_backup.c - what comes over the connection of a primary, as the shadow of its owner takes it:
 * SYNC, also anew, REPL and DATA in any order, well or badly formed, bytes, connections that end and come again,
 * rows of the map, and a clock that moves. Whatever it was, the shadow acknowledges no more than was
 * sent; nothing is left when the connection is over; and the next primary is served.
 */
#include "manager.h"
#include <base/shadow.h>
#include <manager/replica_backup.h>
#include <manager/results.h>

enum { OWNER = 0, MEMORY = 16 << 20, OPS_MOST = 200, SETTLE_TURNS = 1000, PAYLOAD = 64 << 10 };
enum { SLACK = 256 << 10 }; /* pages that the store keeps for small values, and its index */

static const struct deal deal = {.owners = 2, .nodes = 2, .keyed = 2};
static uint8_t keys[2][KEY_SIZE];
static struct manager m;
static struct manager_setup setup;
static struct manager_page page;
static struct sockaddr_storage address;
static int supervisor_fd;
static uint64_t used_before, epoch, group;

static struct {
    struct end end;
    uint64_t bytes, repls, acked;
    int status;
    bool raw;          /* bytes without the form of a message were sent */
    uint64_t len, got; /* of the value that goes in pieces */
} primary;

static void turn_one(void) {
    turn(&m, supervisor_fd);
}

/* --- the shadow --- */
static void shadow_open(void) {
    struct store_options o = {.budget = MEMORY, .managers = 2};
    fuzz_must((setup.arena_fd = arena_create(&o)) >= 0);
    m = (struct manager){0};
    manager_begin(&m, &setup);
    m.numa_node = -1; /* bound to none */
    fuzz_must(manager_open(&m) == 0);
    used_before = m.header->used_bytes;
    epoch = 1;
}

static void shadow_make(void) {
    static struct results results[2];
    int pair[2];
    fuzz_must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    supervisor_fd = pair[1];
    page = (struct manager_page){.lives = 1, .lease = UINT64_MAX};
    setup = (struct manager_setup){.id = OWNER,
                                   .managers = 2,
                                   .node_id = 1,
                                   .nodes = 2,
                                   .survives = true,
                                   .copies = true,
                                   .shadow = true,
                                   .deal = deal,
                                   .node = "n",
                                   .spill_fd = -1,
                                   .connections = 1,
                                   .provider = "",
                                   .sup_fd = pair[0],
                                   .page = &page,
                                   .results = results,
                                   .cache = UINT64_MAX,
                                   .listen_fd = address_listen(&address, 's'),
                                   .identity = {.keys = (const uint8_t(*)[KEY_SIZE])keys,
                                                .nodes = 2,
                                                .life = 1,
                                                .self = shadow_of(&deal, OWNER)}};
    shadow_open();
}

static void shadow_anew(void) {
    manager_close(&m);
    close(m.epoll_fd);
    close(m.spill.fd);
    close(setup.arena_fd);
    shadow_open();
}

static void map_send(uint32_t number, uint32_t backup) {
    struct sup_msg s = {
        .type = SUP_MAP, .id = OWNER, .count = ++epoch, .pid = number, .room = backup, .status = 1};
    fuzz_must(sup_send(supervisor_fd, &s, NULL, 0) == 0);
    turn_one();
}

/* --- the primary --- */
static int primary_message(struct conn *c, void *arg, const struct msg *r, void *payload) {
    uint64_t most = primary.raw ? primary.bytes / MSG_HEADER : primary.repls;
    fuzz_must(r->type == MSG_ACK && r->manager == OWNER && r->status <= 1);
    fuzz_must(r->aux >= primary.acked && r->aux <= most);
    fuzz_must(primary.status == 0); /* it goes on after nothing */
    primary.acked = r->aux;
    primary.status = r->status < 0 ? r->status : 0; /* 1: it was whole before */
    return 0;
}

static const struct conn_ops primary_ops = {
    .up = end_up, .message = primary_message, .down = end_down};

static void primary_open(uint64_t in_group) {
    conn_free(primary.end.c);
    memset(&primary, 0, sizeof primary);
    primary.end.me = (struct conn_identity){.keys = (const uint8_t(*)[KEY_SIZE])keys,
                                            .nodes = 2,
                                            .self = OWNER,
                                            .group = in_group,
                                            .life = 1};
    fuzz_must(conn_open(&primary.end.c, m.epoll_fd, &primary.end.me, ROLE_REPLICA,
                        setup.identity.self, &address, 1, &primary_ops, &primary.end) == 0);
    for (unsigned i = 0; i < 16 && !primary.end.up && !primary.end.down; i++)
        turn_one();
}

static void message_send(struct msg r, const void *payload, size_t n) {
    static uint8_t bytes[MSG_HEADER + PAYLOAD];
    r.len = MSG_HEADER + (uint32_t)n;
    memcpy(bytes, &r, sizeof r);
    memcpy(bytes + MSG_HEADER, payload, n);
    primary.bytes += r.len;
    primary.repls += r.type == MSG_REPL;
    end_write(&primary.end, bytes, r.len, turn_one);
}

/* anew: to fill it */
static void sync_send(uint32_t manager, uint64_t in_epoch, bool anew) {
    struct msg r = {.type = MSG_SYNC, .manager = manager, .aux = in_epoch};
    r.flags = anew ? MSGF_NEW : 0;
    message_send(r, "", 0);
}

static void repl_send(struct msg r, const char *key, const char *value) {
    uint8_t payload[600];
    r.type = MSG_REPL;
    r.key_len = (uint32_t)strlen(key);
    r.val_len = r.flags & MSGF_STREAM ? r.val_len : strlen(value);
    memcpy(payload, key, r.key_len);
    memcpy(payload + r.key_len, value, strlen(value));
    message_send(r, payload, r.key_len + strlen(value));
    if (r.flags & MSGF_STREAM) {
        primary.len = r.val_len;
        primary.got = 0;
    }
}

/* --- what it does --- */
static const char *key_take(struct fuzz_input *in) {
    static char text[300];
    uint8_t which = fuzz_byte(in);
    static const char *const names[] = {"a", "b", "queue", ""};
    if (which % 8 < 4)
        return names[which % 8];
    memset(text, 'k', sizeof text);
    text[which % sizeof text] = 0;
    return text;
}

static void repl_do(struct fuzz_input *in) {
    static char value[256];
    uint8_t how = fuzz_byte(in);
    struct msg r = {.status = fuzz_byte(in) % 12};
    const char *key = key_take(in);
    uint8_t n = how & 1 ? fuzz_byte(in) : 4;
    memset(value, 'v', sizeof value);
    value[n] = 0;
    r.manager = how & 2 ? fuzz_byte(in) % 4 : 1;
    r.id = how & 4 ? fuzz_number(in, 8) : how & 2 ? fuzz_byte(in) % 8 : 0;
    r.aux = how & 8 ? fuzz_number(in, 8) : r.status == REPL_LIMIT ? fuzz_byte(in) : 0;
    r.version = how & 16 ? fuzz_number(in, 6) : 0;
    r.tag = how;
    if (how & 32) {
        r.flags = MSGF_STREAM;
        r.val_len = fuzz_number(in, how & 64 ? 8 : 3);
    }
    if (how & 128)
        r.flags = (uint16_t)fuzz_number(in, 2);
    repl_send(r, key, how & 32 ? "" : value);
}

static void data_do(struct fuzz_input *in, bool right) {
    static uint8_t piece[PAYLOAD];
    uint64_t left = primary.len - primary.got, n = fuzz_byte(in) * 257u;
    struct msg r = {.type = MSG_DATA, .aux = primary.got};
    n = n > PAYLOAD ? PAYLOAD : n;
    if (right) {
        n = n > left ? left : n;
        r.flags = n == left ? MSGF_LAST : 0;
    } else {
        n %= 300;
        r.flags = fuzz_byte(in);
        r.status = (int32_t)fuzz_number(in, 1) - 1;
        r.aux += fuzz_number(in, r.flags & 1 ? 8 : 1);
    }
    if (n == 0 && !(r.flags & MSGF_LAST))
        return;
    primary.got += n;
    message_send(r, piece, n);
}

static void bytes_do(struct fuzz_input *in) {
    size_t n = fuzz_byte(in);
    n = n < in->left ? n : in->left;
    char *bytes = fuzz_text(in, n);
    primary.raw = true;
    primary.bytes += n;
    end_write(&primary.end, bytes, n, turn_one);
    free(bytes);
}

static void primary_do(struct fuzz_input *in) {
    uint8_t what = fuzz_byte(in), more;
    switch (what % 16) {
    case 0:
        bytes_do(in);
        break;
    case 1:
        more = fuzz_byte(in);
        sync_send(more % 4 == 3 ? more : OWNER, epoch + more % 3 - 1, more & 64);
        break;
    case 2: /* a row: of this copy, of another one, or of none */
        more = fuzz_byte(in) % 3;
        map_send(OWNER, more == 0 ? setup.identity.self : more == 1 ? SHADOW_NONE : 7);
        break;
    case 3:
        turn_one();
        break;
    case 4:
        fuzz_clock += fuzz_byte(in) * 7000000ull;
        turn_one();
        break;
    case 5: /* also one that is older */
        group += fuzz_byte(in) % 3;
        primary_open(group - 1);
        sync_send(OWNER, epoch, false);
        break;
    case 6:
    case 7:
        data_do(in, true);
        break;
    case 8:
        data_do(in, false);
        break;
    default:
        repl_do(in);
        break;
    }
}

/* --- what holds in the end --- */
static bool is_there(const char *key, const char *value) {
    struct store_ref ref;
    int e = store_find(m.store, key, (uint32_t)strlen(key), &ref);
    return value ? e == 0 && item_len(ref.item) == strlen(value) &&
                       memcmp(ref.value, value, strlen(value)) == 0
                 : e == DDICT_ENOKEY;
}

static void acknowledged(void) {
    for (unsigned i = 0; i < SETTLE_TURNS && primary.acked < primary.repls; i++)
        turn_one();
    fuzz_must(primary.end.up && primary.status == 0 && primary.acked == primary.repls);
}

static void honest_is_served(void) {
    map_send(OWNER, setup.identity.self);
    group += 2;
    primary_open(group);
    fuzz_must(primary.end.up);
    page.filling = false; /* it was emptied by who has not filled it: as if it had */
    page.filled = 0;
    sync_send(OWNER, epoch, false);
    repl_send((struct msg){.status = REPL_CLEAR}, "", "");
    repl_send((struct msg){.status = REPL_PUT}, "key", "value");
    repl_send((struct msg){.status = REPL_APPEND}, "key", "second");
    acknowledged();
    fuzz_must(is_there("key", "value") && is_there("a", NULL));
    repl_send((struct msg){.status = REPL_POP}, "key", "");
    acknowledged();
    fuzz_must(is_there("key", "second"));
    repl_send((struct msg){.status = REPL_DEL}, "key", "");
    acknowledged();
    fuzz_must(is_there("key", NULL));
}

/* What was popped is there until its proxy has it, and a proxy is no part of this. */
static void results_end_all(void) {
    for (uint32_t p = 0; p < setup.managers; p++) {
        struct results *r = &setup.results[p];
        for (uint64_t i = 0; i < r->top; i++)
            if (r->at[i].id)
                results_leave(&m, p, r->at[i].id);
        memset(r, 0, offsetof(struct results, at) + r->top * sizeof r->at[0]);
    }
}

static void nothing_left(void) {
    struct manager_stats stats;
    results_end_all();
    fuzz_must(store_clear(m.store) == 0);
    for (unsigned i = 0; i < SETTLE_TURNS && store_work(m.store); i++)
        continue;
    store_reclaim(m.store);
    store_stats(m.store, &stats);
    fuzz_must(stats.num_keys == 0 && m.puts_open == 0);
    fuzz_must(m.header->used_bytes <= used_before + SLACK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    if (!m.store)
        shadow_make();
    bool promoted = fuzz_byte(&in) % 16 == 15;
    primary_open(++group);
    fuzz_must(primary.end.up);
    for (unsigned i = 0; in.left > 0 && i < OPS_MOST; i++) {
        primary_do(&in);
        if (i % 4 == 3)
            turn_one();
    }
    turn_one();
    if (promoted && !page.filling) { /* with all that is still on its way */
        map_send(setup.identity.self, SHADOW_NONE);
        turn_one();
        conn_free(primary.end.c);
        memset(&primary, 0, sizeof primary);
        turn_one();
        nothing_left();
        shadow_anew();
    }
    honest_is_served();
    conn_free(primary.end.c);
    memset(&primary, 0, sizeof primary);
    turn_one();
    turn_one();
    nothing_left();
    return 0;
}
