/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sides.h - for unit tests: a primary and its backup, both real and in one process, with a client and
 * a proxy made by hand. Part of each test that includes it.
 */
#ifndef DDICT_TESTS_SIDES_H
#define DDICT_TESTS_SIDES_H

#include "unit.h"
#include <base/clock.h>
#include <base/hash.h>
#include <base/shadow.h>
#include <manager/lane_clients.h>
#include <manager/lanes.h>
#include <manager/ledger.h>
#include <manager/main_loop.h>
#include <manager/recovery.h>
#include <manager/replica_flight.h>
#include <manager/results.h>
#include <manager/supmsg.h>
#include <wire/conn.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { OWNER = 0, PROXY = 1, MEMORY = 64 << 20, WAIT_MS = 20000, ANSWERS = 4096, LARGE = 3 << 20 };

static const struct deal deal = {.owners = 2, .nodes = 2, .keyed = 2};
static uint8_t keys[2][KEY_SIZE];
static struct peer_address peers[4];

struct side { /* a process */
    struct manager m;
    struct manager_setup setup;
    struct manager_page page;
    int supervisor_fd;
    uint16_t port;
};
static struct side primary, backup;
static struct manager *const m = &primary.m;

struct answer {
    bool is;
    unsigned n;
    int status;
    uint64_t version, aux, len;
    char value[64];
};
static struct answer answers[ANSWERS]; /* of the client, by id */

static struct {
    struct lane lane;
    int lease_fd, lane_fd, client_eventfd, lane_eventfd;
    uint64_t *leases;
    uint64_t id;
} client;

static struct proxy { /* a connection of one */
    struct conn *c;
    struct conn_identity me;
    struct answer last;
    uint64_t last_id;
    unsigned answers, rewinds, refused;
    bool up, down;
} proxy;

/* --- turns --- */
static inline void client_read(void) {
    const uint8_t *payload;
    struct msg r;
    while (client.leases && ring_peek(&client.lane.cq, &r, &payload) > 0) {
        if (r.type == MSG_REPLY) {
            struct answer *a = &answers[r.id % ANSWERS];
            size_t n = r.len - MSG_HEADER;
            *a = (struct answer){.is = true,
                                 .n = a->n + 1,
                                 .status = r.status,
                                 .version = r.version,
                                 .aux = r.aux,
                                 .len = r.val_len};
            memcpy(a->value, payload, n < sizeof a->value ? n : sizeof a->value - 1);
        }
        ring_consume(&client.lane.cq, &r);
    }
}
static inline void side_turn(struct side *s) {
    s->m.now = clock_ns();
    share_begin(&s->m);
    lanes_turn(&s->m);
    ck_assert_int_ge(io_wait(s->m.epoll_fd, 0), 0);
    manager_work(&s->m);
    ck_assert(!s->m.stopping);
}
static inline void turn(void) {
    side_turn(&primary);
    side_turn(&backup);
    if (m->primary)
        usleep(50);
    client_read();
}
static inline void alone_turn(void) {
    side_turn(&primary);
    client_read();
}
static inline void backup_turn(void) {
    side_turn(&backup);
}
#define UNTIL_BY(turn_, cond)                                                 \
    do {                                                                      \
        uint64_t end_ms_ = clock_ms() + WAIT_MS;                              \
        while (!(cond)) {                                                     \
            ck_assert_msg(clock_ms() < end_ms_, "%s", "not in time: " #cond); \
            turn_();                                                          \
        }                                                                     \
    } while (0)
#define UNTIL(cond) UNTIL_BY(turn, cond)
/* The backup stands still. */
static inline void alone(unsigned n) {
    while (n-- > 0)
        alone_turn();
}
static inline void quiet(void) {
    for (unsigned n = 0; n < 200; n++) /* what was asked is taken */
        turn();
    UNTIL(!flights_open(m) && (!m->flights || !m->flights->took));
}

/* --- the client --- */
static inline void client_open(void) {
    memset(&client, 0, sizeof client);
    client.lease_fd = memfd_create("leases", MFD_CLOEXEC);
    client.lane_fd = lane_create();
    client.client_eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client.lane_eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_eq(ftruncate(client.lease_fd, (off_t)LEASE_FILE_SIZE), 0);
    client.leases =
        mmap(NULL, LEASE_CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, client.lease_fd, 0);
    ck_assert_ptr_ne(client.leases, MAP_FAILED);
    ((struct lease_chunk *)(void *)client.leases)->chunks = 1;
    ck_assert_int_eq(lane_map(&client.lane, client.lane_fd, true), 0);
    memset(answers, 0, sizeof answers);
}
static inline void client_tell(void) {
    int fds[4] = {client.lease_fd, client.lane_fd, fcntl(client.client_eventfd, F_DUPFD_CLOEXEC, 3),
                  fcntl(client.lane_eventfd, F_DUPFD_CLOEXEC, 3)};
    ck_assert_int_eq(client_add(m, 1, 1, fds), 0);
}
static inline void client_close(void) {
    if (!client.leases)
        return;
    lane_unmap(&client.lane);
    munmap(client.leases, LEASE_CHUNK_SIZE);
    client.leases = NULL;
    close(client.lease_fd);
    close(client.lane_fd);
    close(client.client_eventfd);
    close(client.lane_eventfd);
}
/* The n-th key of the owner. */
static inline const char *key(unsigned n) {
    static char name[32][16];
    static unsigned made, next;
    for (; made <= n; next++) {
        snprintf(name[made], sizeof name[0], "k%u", next);
        made += deal_owner(&deal, name[made], strlen(name[made]),
                           key_hash(name[made], strlen(name[made]))) == OWNER;
    }
    return name[n];
}
static inline struct msg request(unsigned type, unsigned flags, const char *k, const char *value,
                                 uint8_t *payload) {
    uint32_t key_len = k ? (uint32_t)strlen(k) : 0, n = value ? (uint32_t)strlen(value) : 0;
    struct msg r = {.type = (uint16_t)type,
                    .flags = (uint16_t)flags,
                    .len = MSG_HEADER + key_len + n,
                    .key_len = key_len,
                    .val_len = n,
                    .manager = OWNER};
    memcpy(payload, k ? k : "", key_len);
    memcpy(payload + key_len, value ? value : "", n);
    if (type == MSG_POP)
        r.version = 1 << 20; /* room */
    if (flags & MSGF_WAIT)
        r.aux = 60000000;
    return r;
}
static inline uint64_t client_send(struct msg r, const void *payload) {
    uint64_t one = 1;
    bool bad = false;
    uint8_t *to = ring_reserve(&client.lane.sq, r.len, &bad);
    ck_assert(to && !bad);
    r.id = r.id ? r.id : ++client.id;
    answers[r.id % ANSWERS] = (struct answer){0};
    memcpy(to, &r, sizeof r);
    memcpy(to + MSG_HEADER, payload, r.len - MSG_HEADER);
    ring_commit(&client.lane.sq);
    ck_assert_int_eq(write(client.lane_eventfd, &one, sizeof one), sizeof one);
    return r.id;
}
static inline uint64_t ask(unsigned type, unsigned flags, const char *k, const char *value) {
    uint8_t payload[256];
    struct msg r = request(type, flags, k, value, payload);
    return client_send(r, payload);
}
static inline uint64_t append(const char *k, const char *value, unsigned flags, uint64_t most) {
    uint8_t payload[256];
    struct msg r = request(MSG_PUT, MSGF_APPEND | flags, k, value, payload);
    r.version = most;
    return client_send(r, payload);
}
#define answered(id) (answers[(id) % ANSWERS].is)
static inline bool is(uint64_t id, int status, const char *value) {
    const struct answer *a = &answers[id % ANSWERS];
    return a->is && a->n == 1 && a->status == status && (!value || strcmp(a->value, value) == 0);
}

/* --- the proxy --- */
static inline void proxy_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    proxy.up = true;
}
static inline int proxy_message(struct conn *c, void *arg, const struct msg *r, void *payload) {
    size_t n = r->len - MSG_HEADER;
    proxy.rewinds += r->type == MSG_REWIND;
    if (r->type != MSG_REPLY)
        return 0;
    proxy.answers++;
    proxy.refused += r->status < 0;
    proxy.last_id = r->id;
    proxy.last =
        (struct answer){.is = true, .status = r->status, .version = r->version, .aux = r->aux};
    memcpy(proxy.last.value, payload,
           n < sizeof proxy.last.value ? n : sizeof proxy.last.value - 1);
    return 0;
}
static inline void proxy_down(struct conn *c, void *arg, int code) {
    proxy.down = true;
}
static const struct conn_ops proxy_ops = {
    .up = proxy_up, .message = proxy_message, .down = proxy_down};
/* via: whose turns are its own. */
static inline void proxy_open_via(struct side *via, struct side *to, uint64_t group) {
    static struct sockaddr_storage at;
    *(struct sockaddr_in *)(void *)&at =
        (struct sockaddr_in){.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(to->port)};
    conn_free(proxy.c);
    proxy = (struct proxy){.me = {.keys = (const uint8_t(*)[KEY_SIZE])keys,
                                  .nodes = 2,
                                  .self = PROXY,
                                  .group = group,
                                  .life = 1}};
    ck_assert_int_eq(conn_open(&proxy.c, via->m.epoll_fd, &proxy.me, ROLE_DATA,
                               to->setup.identity.self, &at, 1, &proxy_ops, NULL),
                     0);
}
static inline void proxy_open(struct side *to, uint64_t group) {
    proxy_open_via(to, to, group);
}
static inline uint64_t id_of(uint32_t number, uint32_t place) {
    return (uint64_t)number << 32 | place;
}
static inline void proxy_ask(unsigned type, unsigned flags, uint64_t id, const char *k,
                             const char *value) {
    uint8_t payload[256];
    struct msg r = request(type, flags, k, value, payload);
    r.id = id;
    ck_assert_int_eq(conn_send(proxy.c, &r, payload, r.len - MSG_HEADER, NULL, 0, NULL, NULL), 0);
}
static inline uint8_t pattern(size_t i) {
    return (uint8_t)(i * 131 + (i >> 8));
}
static inline void proxy_stream(uint64_t id, unsigned flags, const char *k) {
    uint8_t payload[256];
    struct msg r = request(MSG_PUT, MSGF_STREAM | flags, k, NULL, payload);
    r.id = id;
    r.val_len = LARGE;
    ck_assert_int_eq(conn_send(proxy.c, &r, payload, r.key_len, NULL, 0, NULL, NULL), 0);
}
static inline void proxy_pieces(uint64_t id) {
    static uint8_t piece[DD_MSG_PIECE];
    for (uint64_t at = 0; at < LARGE;) {
        size_t n = LARGE - at < sizeof piece ? LARGE - at : sizeof piece;
        struct msg d = {
            .type = MSG_DATA, .id = id, .aux = at, .flags = at + n == LARGE ? MSGF_LAST : 0};
        for (size_t i = 0; i < n; i++)
            piece[i] = pattern(at + i);
        ck_assert_int_eq(conn_send(proxy.c, &d, piece, n, NULL, 0, NULL, NULL), 0);
        at += n;
    }
}
static inline void proxy_large(uint64_t id, const char *k) {
    proxy_stream(id, 0, k);
    proxy_pieces(id);
}

/* --- the connection between them --- */
/* It ends, and what the backup has said and the primary has not read is lost. */
static inline unsigned connection_break(void) {
    static uint8_t lost[65536];
    unsigned n = 0;
    for (int fd = 3; fd < 128; fd++) {
        struct sockaddr_in in;
        socklen_t len = sizeof in;
        if (getpeername(fd, (struct sockaddr *)&in, &len) == 0 && in.sin_family == AF_INET &&
            in.sin_port == htons(backup.port)) {
            while (recv(fd, lost, sizeof lost, MSG_DONTWAIT) > 0)
                continue;
            n += shutdown(fd, SHUT_RDWR) == 0;
        }
    }
    return n;
}

/* --- what is there --- */
static inline const struct item *value_of(struct side *s, const void *k, uint32_t len, uint64_t n) {
    struct store_ref ref;
    int e = n == 0 ? store_find(s->m.store, k, len, &ref)
                   : store_queue_value(s->m.store, k, len, key_hash(k, len), n - 1, &ref);
    return e == 0 ? ref.item : NULL;
}
static inline bool is_at(struct side *s, const char *k, const char *value) {
    const struct item *it = value_of(s, k, (uint32_t)strlen(k), 0);
    return value ? it && item_len(it) == strlen(value) &&
                       memcmp(item_value(it), value, strlen(value)) == 0
                 : !it;
}
static inline bool is_on_both(const char *k, const char *value) {
    return is_at(&primary, k, value) && is_at(&backup, k, value);
}
static inline int key_same(void *arg, const void *k, uint32_t len) {
    struct side *s = arg, *other = s == &primary ? &backup : &primary;
    const struct item *a, *b;
    struct store_queue qa, qb;
    store_queue_look(s->m.store, k, len, key_hash(k, len), &qa);
    store_queue_look(other->m.store, k, len, key_hash(k, len), &qb);
    ck_assert_msg(qa.most == qb.most && qa.more == qb.more, "%.*s: %lu of %lu, %lu of %lu",
                  (int)len, (const char *)k, (unsigned long)qa.more, (unsigned long)qa.most,
                  (unsigned long)qb.more, (unsigned long)qb.most);
    for (uint64_t n = 0; (a = value_of(s, k, len, n)); n++) {
        b = value_of(other, k, len, n);
        ck_assert_msg(b && item_len(a) == item_len(b) && a->tag == b->tag &&
                          item_is_loaded(a) == item_is_loaded(b) &&
                          memcmp(item_value(a), item_value(b), item_len(a)) == 0,
                      "value %lu of %.*s differs", (unsigned long)n, (int)len, (const char *)k);
        /* so no version that a client has is one of another value after a promotion */
        ck_assert(n > 0 || s == &backup || a->version <= b->version);
    }
    ck_assert_ptr_null(value_of(other, k, len, qa.more + 1));
    return 0;
}
static inline void popped_same(const struct result *a, const struct result *b) {
    struct store_ref x, y;
    int at_a = a->item ? store_item_at(primary.m.store, a->item, &x) : -1,
        at_b = b->item ? store_item_at(backup.m.store, b->item, &y) : -1;
    ck_assert_int_eq(at_a, at_b);
    ck_assert(at_a < 0 || (item_len(x.item) == item_len(y.item) &&
                           memcmp(item_value(x.item), item_value(y.item), item_len(x.item)) == 0));
}
static inline void both_same(void) {
    struct side *s[] = {&primary, &backup};
    for (int i = 0; i < 2; i++) {
        uint64_t cursor = 0;
        do
            ck_assert_int_ge(store_keys_and_limits(s[i]->m.store, &cursor, key_same, s[i]), 0);
        while (cursor != 0);
    }
    for (uint64_t k = 0; k < primary.setup.results[PROXY].top; k++) {
        const struct result *a = &primary.setup.results[PROXY].at[k],
                            *b = &backup.setup.results[PROXY].at[k];
        ck_assert(a->id == b->id && !a->item == !b->item);
        popped_same(a, b);
    }
    ck_assert_uint_le(primary.m.header->version, backup.m.header->version);
}

/* --- */
static bool fd_old[128];
static inline void fds_look(bool end) {
    for (int fd = 3; fd < 128; fd++) {
        bool open = fcntl(fd, F_GETFD) >= 0;
        if (!end)
            fd_old[fd] = open;
        else if (open && !fd_old[fd])
            close(fd);
    }
}

static inline void map_send(struct side *to, uint64_t epoch, uint32_t number, uint32_t other) {
    struct sup_msg s = {.type = SUP_MAP,
                        .id = OWNER,
                        .count = epoch,
                        .pid = number,
                        .room = other,
                        .status = other != SHADOW_NONE};
    ck_assert_int_eq(sup_send(to->supervisor_fd, &s, NULL, 0), 0);
}
static inline void drop_backup(void) {
    map_send(&primary, 2, OWNER, SHADOW_NONE);
}
static inline bool backup_lost(void) {
    struct sup_msg s = {0};
    int fds[4];
    while (sup_recv(primary.supervisor_fd, &s, fds, 4) >= 0)
        if (s.type == SUP_BACKUP_LOST)
            return true;
    return false;
}

static inline void side_prepare(struct side *s, uint32_t number) {
    struct store_options o = {.budget = MEMORY, .managers = 2};
    struct sockaddr_in *in =
        (struct sockaddr_in *)(void *)&peers[shadow_slot(&deal, number)].addr[0];
    int pair[2];
    memset(s, 0, sizeof *s);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    s->supervisor_fd = pair[1];
    *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    s->setup = (struct manager_setup){.id = OWNER,
                                      .managers = 2,
                                      .node_id = number % 2,
                                      .nodes = 2,
                                      .survives = true,
                                      .copies = true,
                                      .refill = true,
                                      .shadow = is_shadow(&deal, number),
                                      .deal = deal,
                                      .node = "n",
                                      .spill_fd = -1,
                                      .connections = 1,
                                      .provider = "",
                                      .sup_fd = pair[0],
                                      .page = &s->page,
                                      .peers = peers,
                                      .ledger = ledger_map(),
                                      .cache = UINT64_MAX,
                                      .identity = {.keys = (const uint8_t(*)[KEY_SIZE])keys,
                                                   .nodes = 2,
                                                   .life = 1,
                                                   .group = 1,
                                                   .self = number}};
    s->page = (struct manager_page){.lives = 1, .lease = UINT64_MAX};
    s->setup.results = mmap(NULL, 2 * sizeof(struct results), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(s->setup.results, MAP_FAILED);
    ck_assert_ptr_nonnull(s->setup.ledger);
    ck_assert_int_ge(
        s->setup.listen_fd = conn_listen(&peers[shadow_slot(&deal, number)].addr[0], &s->port), 0);
    in->sin_port = htons(s->port);
    peers[shadow_slot(&deal, number)].naddr = 1;
    ck_assert_int_ge(s->setup.arena_fd = arena_create(&o), 0);
}
static inline void side_start(struct side *s) {
    memset(&s->m, 0, sizeof s->m);
    manager_begin(&s->m, &s->setup);
    s->m.numa_node = -1;
    ck_assert_int_eq(manager_open(&s->m), 0);
}
static inline void side_open(struct side *s, uint32_t number) {
    side_prepare(s, number);
    side_start(s);
}
static inline void side_close(struct side *s) {
    manager_close(&s->m);
    munmap(s->setup.results, 2 * sizeof(struct results));
    munmap(s->setup.ledger, sizeof *s->setup.ledger);
}

/* Both, whole, with a client; and their end. */
static inline void both_open(void) {
    fds_look(false);
    memset(&proxy, 0, sizeof proxy);
    side_open(&primary, OWNER);
    side_open(&backup, shadow_of(&deal, OWNER));
    client_open();
    client_tell();
}
static inline void both_close(void) {
    conn_free(proxy.c);
    side_close(&primary);
    side_close(&backup);
    client_close();
    fds_look(true);
}

/* --- lives of the primary --- */
/* The first life is a process of its own: it does what is asked already, and so much with its backup. */
static inline void life_first(bool carried_out) {
    pid_t pid = fork();
    int status;
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        side_start(&primary);
        client_tell();
        UNTIL_BY(alone_turn, m->flights->air);
        primary.page.lease = 1; /* it makes nothing of what is acknowledged */
        alone(2000);
        if (carried_out)
            UNTIL_BY(alone_turn, m->flights->air && m->flights->air->acked);
        _exit(flights_open(m) ? 0 : 1);
    }
    /* else its backup takes what was sent when the next one has begun */
    if (!carried_out) {
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        return;
    }
    while (waitpid(pid, &status, WNOHANG) == 0)
        side_turn(&backup);
    ck_assert_int_eq(status, 0);
    for (unsigned n = 0; n < 200; n++) /* none of its connections is left */
        side_turn(&backup);
}
static inline void life_next(void) {
    primary.page.lives = 2;
    primary.setup.identity.life = 2;
    side_start(&primary);
    ck_assert_int_eq(recovery_begin(m), 0);
    client_tell();
    m->knows = true;
    results_open(m);
    recovery_go_on(m);
}
/* Before any life: the client may ask. */
static inline void life_none(void) {
    side_close(&primary);
    client_close();
    side_prepare(&primary, OWNER);
    client_open();
}

#endif
