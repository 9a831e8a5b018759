/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_backup.c - the shadow of an owner over a real arena, with a primary and a proxy made by
 * hand: it carries out what the primary sends, in order, acknowledges it, serves nobody until it is
 * promoted, and then answers as the primary would have.
 */
#include "unit.h"
#include <base/clock.h>
#include <base/shadow.h>
#include <manager/faults.h>
#include <manager/main_loop.h>
#include <manager/replica_backup.h>
#include <manager/results.h>
#include <manager/supmsg.h>
#include <store/spill_file.h>
#include <wire/conn.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
    OWNER = 0,
    PROXY = 1,
    MEMORY = 32 << 20,
    WAIT_MS = 20000,
    LARGE = 3 << 20,
    SPILL = 256 << 20
};

static const struct deal deal = {.owners = 2, .nodes = 2, .keyed = 2};
static uint8_t keys[2][KEY_SIZE];
static struct manager m;
static struct manager_setup setup;
static struct manager_page page;
static struct results *results;
static struct sockaddr_storage address;
static int supervisor_fd;

struct end { /* of the primary, or of a proxy */
    struct conn *c;
    struct conn_identity me;
    bool up, down;
    uint64_t sent; /* REPL */
    struct msg last;
    uint8_t value[256]; /* payload of the last message */
    unsigned messages;
    int status[32]; /* of what was asked, by number */
};
static struct end primary, proxy;

/* --- turns --- */
static void turn(void) {
    m.now = clock_ns();
    share_begin(&m);
    ck_assert_int_ge(io_wait(m.epoll_fd, 1), 0);
    manager_work(&m);
    ck_assert(!m.stopping);
}
#define UNTIL(cond)                                                     \
    do {                                                                \
        uint64_t end_ms_ = clock_ms() + WAIT_MS;                        \
        while (!(cond)) {                                               \
            ck_assert_msg(clock_ms() < end_ms_, "not in time: " #cond); \
            turn();                                                     \
        }                                                               \
    } while (0)
static void turns(unsigned n) {
    while (n-- > 0)
        turn();
}

/* --- an end --- */
static void end_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    ((struct end *)arg)->up = true;
}
static int end_message(struct conn *c, void *arg, const struct msg *r, void *payload) {
    struct end *e = arg;
    size_t n = r->len - MSG_HEADER;
    e->last = *r;
    e->status[r->id >> 32 & 31] = r->status;
    memcpy(e->value, payload, n < sizeof e->value ? n : sizeof e->value);
    e->messages++;
    return 0;
}
static void end_down(struct conn *c, void *arg, int code) {
    ((struct end *)arg)->down = true;
}
static const struct conn_ops end_ops = {.up = end_up, .message = end_message, .down = end_down};

static void end_open(struct end *e, enum conn_role role, uint32_t self, uint64_t group) {
    conn_free(e->c);
    *e = (struct end){.me = {.keys = (const uint8_t(*)[KEY_SIZE])keys,
                             .nodes = 2,
                             .self = self,
                             .group = group,
                             .life = 1}};
    ck_assert_int_eq(
        conn_open(&e->c, m.epoll_fd, &e->me, role, setup.identity.self, &address, 1, &end_ops, e),
        0);
}

static void sync_send(uint64_t epoch) {
    struct msg r = {.type = MSG_SYNC, .manager = OWNER, .aux = epoch};
    ck_assert_int_eq(conn_send(primary.c, &r, NULL, 0, NULL, 0, NULL, NULL), 0);
}
static void primary_open(uint64_t group) {
    end_open(&primary, ROLE_REPLICA, OWNER, group);
    sync_send(1);
}

static void repl_send(struct msg r, const char *key, const char *value) {
    uint8_t bytes[512];
    r.type = MSG_REPL;
    r.key_len = key ? (uint32_t)strlen(key) : 0;
    if (!(r.flags & MSGF_STREAM))
        r.val_len = value ? strlen(value) : 0;
    memcpy(bytes, key ? key : "", r.key_len);
    memcpy(bytes + r.key_len, value ? value : "", value ? strlen(value) : 0);
    primary.sent++;
    ck_assert_int_eq(conn_send(primary.c, &r, bytes, r.key_len + (value ? strlen(value) : 0), NULL,
                               0, NULL, NULL),
                     0);
}
static void repl(enum repl_op op, const char *key, const char *value) {
    repl_send((struct msg){.status = (int32_t)op}, key, value);
}
static void acknowledged(void) {
    UNTIL(primary.last.type == MSG_ACK && primary.last.aux == primary.sent);
    ck_assert_int_eq(primary.last.status, 0);
}

static uint8_t pattern(size_t i) {
    return (uint8_t)(i * 131 + (i >> 8));
}
/* Pieces of a value from byte `at` to `end`. */
static void pieces_send(uint64_t at, uint64_t end, uint64_t len) {
    static uint8_t piece[DD_MSG_PIECE];
    while (at < end) {
        size_t n = end - at < sizeof piece ? end - at : sizeof piece;
        struct msg r = {.type = MSG_DATA, .aux = at, .flags = at + n == len ? MSGF_LAST : 0};
        for (size_t i = 0; i < n; i++)
            piece[i] = pattern(at + i);
        ck_assert_int_eq(conn_send(primary.c, &r, piece, n, NULL, 0, NULL, NULL), 0);
        at += n;
    }
}

/* --- what is there --- */
static bool is_there(const char *key, const char *value) {
    struct store_ref ref;
    if (store_find(m.store, key, (uint32_t)strlen(key), &ref) < 0)
        return !value;
    return value && item_len(ref.item) == strlen(value) &&
           memcmp(ref.value, value, strlen(value)) == 0;
}
static uint64_t values_behind(const char *key, uint64_t *most) {
    struct store_queue q;
    store_queue_look(m.store, key, (uint32_t)strlen(key), key_hash(key, strlen(key)), &q);
    if (most)
        *most = q.most;
    return q.more;
}
static uint64_t used(void) {
    while (store_work(m.store))
        continue;
    store_reclaim(m.store);
    return store_header(m.store)->used_bytes;
}

static void map_send(uint64_t epoch, uint32_t number, uint32_t backup) {
    struct sup_msg s = {
        .type = SUP_MAP, .id = OWNER, .count = epoch, .pid = number, .room = backup};
    ck_assert_int_eq(sup_send(supervisor_fd, &s, NULL, 0), 0);
}

/* --- */
static void shadow_open(void) {
    m = (struct manager){0};
    manager_begin(&m, &setup);
    m.numa_node = -1;
    ck_assert_int_eq(manager_open(&m), 0);
}
static void shadow_close(void) {
    manager_close(&m);
    close(m.epoll_fd);
    close(m.spill.fd);
}

/* A process that accepts keeps one for want of others (conn_take_ready()), each life its own. */
static bool spare_old[64];
static void spares_look(bool end) {
    for (int fd = 3; fd < 64; fd++) {
        char name[32], to[32] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        bool is = readlink(name, to, sizeof to - 1) > 0 && strcmp(to, "/dev/null") == 0;
        if (!end)
            spare_old[fd] = is;
        else if (is && !spare_old[fd])
            close(fd);
    }
}

static void before(void) {
    struct store_options o = {.budget = MEMORY, .managers = 2};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&address;
    uint16_t port;
    int pair[2];
    spares_look(false);
    results =
        mmap(NULL, 2 * sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(results, MAP_FAILED);
    *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    supervisor_fd = pair[1];
    setup = (struct manager_setup){.id = OWNER,
                                   .managers = 2,
                                   .node_id = 1,
                                   .nodes = 2,
                                   .survives = true,
                                   .copies = true,
                                   .refill = true,
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
                                   .identity = {.keys = (const uint8_t(*)[KEY_SIZE])keys,
                                                .nodes = 2,
                                                .life = 1,
                                                .self = shadow_of(&deal, OWNER)}};
    page = (struct manager_page){.lives = 1, .lease = UINT64_MAX};
    ck_assert_int_ge(setup.listen_fd = conn_listen(&address, &port), 0);
    in->sin_port = htons(port);
    ck_assert_int_ge(setup.arena_fd = arena_create(&o), 0);
    shadow_open();
}
static void after(void) {
    conn_free(primary.c);
    conn_free(proxy.c);
    shadow_close();
    close(setup.arena_fd);
    close(setup.listen_fd);
    close(setup.sup_fd);
    close(supervisor_fd);
    spares_look(true);
    munmap(results, 2 * sizeof *results);
}

START_TEST(changes_are_carried_out_in_order_and_acknowledged) {
    uint64_t most;
    primary_open(1);
    repl(REPL_PUT, "a", "one");
    repl(REPL_PUT, "a", "two");
    repl(REPL_PUT, "b", "gone");
    repl(REPL_DEL, "b", NULL);
    repl(REPL_DEL, "never there", NULL);
    repl_send((struct msg){.status = REPL_LIMIT, .aux = 5}, "q", NULL);
    repl(REPL_APPEND, "q", "first");
    repl(REPL_APPEND, "q", "second");
    repl(REPL_APPEND, "q", "third");
    repl(REPL_POP, "q", NULL);
    acknowledged();
    ck_assert(is_there("a", "two") && is_there("b", NULL) && is_there("q", "second"));
    ck_assert_uint_eq(values_behind("q", &most), 1);
    ck_assert_uint_eq(most, 5);
    repl(REPL_CLEAR, NULL, NULL);
    repl(REPL_PUT, "c", "");
    acknowledged();
    ck_assert(is_there("a", NULL) && is_there("q", NULL) && is_there("c", ""));
}
END_TEST

START_TEST(many_changes_have_few_acknowledgements) {
    char value[32];
    primary_open(1);
    UNTIL(primary.up);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(value, sizeof value, "%u", i);
        repl(REPL_PUT, "k", value);
    }
    acknowledged();
    ck_assert(is_there("k", "999"));
    ck_assert_uint_lt(primary.messages, 100);
}
END_TEST

START_TEST(versions_stay_above_those_of_the_primary) {
    struct store_ref ref;
    primary_open(1);
    repl_send((struct msg){.status = REPL_PUT, .version = 5000}, "a", "x");
    acknowledged();
    ck_assert_int_eq(store_find(m.store, "a", 1, &ref), 0);
    ck_assert_uint_eq(ref.item->version, 5001);
}
END_TEST

START_TEST(a_value_in_pieces_is_there_with_its_last) {
    struct store_ref ref;
    primary_open(1);
    repl_send((struct msg){.status = REPL_PUT, .flags = MSGF_STREAM, .val_len = LARGE, .tag = 3},
              "large", NULL);
    pieces_send(0, LARGE / 2, LARGE);
    turns(50);
    ck_assert(primary.messages == 0 && is_there("large", NULL));
    pieces_send(LARGE / 2, LARGE, LARGE);
    repl(REPL_PUT, "behind", "it");
    acknowledged();
    ck_assert_int_eq(store_find(m.store, "large", 5, &ref), 0);
    ck_assert(item_len(ref.item) == LARGE && ref.item->tag == 3 && is_there("behind", "it"));
    for (size_t i = 0; i < LARGE; i++)
        ck_assert_uint_eq(ref.value[i], pattern(i));
}
END_TEST

START_TEST(what_may_have_been_carried_out_is_judged_by_the_number_of_values) {
    struct msg append = {.status = REPL_APPEND}, pop = {.status = REPL_POP};
    struct msg large = {.status = REPL_APPEND, .flags = MSGF_STREAM, .val_len = LARGE};
    primary_open(1);
    for (int i = 0; i < 2; i++) {
        append.aux = 1;
        repl_send(append, "q", "one");
        large.aux = 2;
        repl_send(large, "q", NULL);
        pieces_send(0, LARGE, LARGE);
    }
    append.aux = 3;
    repl_send(append, "q", "three");
    acknowledged();
    ck_assert(is_there("q", "one"));
    ck_assert_uint_eq(values_behind("q", NULL), 2);
    pop.aux = 4;
    repl_send(pop, "q", NULL);
    repl_send(pop, "q", NULL);
    pop.aux = 3;
    repl_send(pop, "q", NULL);
    acknowledged();
    ck_assert(is_there("q", "three"));
}
END_TEST

START_TEST(the_beginning_of_a_value_is_freed_with_its_connection) {
    primary_open(1);
    repl(REPL_PUT, "a", "x"); /* takes the page of small values */
    repl(REPL_DEL, "a", NULL);
    acknowledged();
    uint64_t free_before = used();
    repl_send((struct msg){.status = REPL_PUT, .flags = MSGF_STREAM, .val_len = LARGE}, "large",
              NULL);
    pieces_send(0, LARGE / 2, LARGE);
    UNTIL(used() > free_before);
    struct end old = primary;
    primary.c = NULL;
    primary_open(2); /* ends the one before */
    repl(REPL_PUT, "a", "x");
    acknowledged();
    turns(5);
    conn_free(old.c);
    repl(REPL_DEL, "a", NULL);
    acknowledged();
    ck_assert(is_there("large", NULL));
    ck_assert_uint_lt(used(), free_before + LARGE / 8);
}
END_TEST

START_TEST(an_older_connection_of_the_primary_comes_too_late) {
    primary_open(7);
    repl(REPL_PUT, "a", "new");
    acknowledged();
    struct end newer = primary;
    primary.c = NULL;
    primary_open(6);
    repl(REPL_PUT, "a", "old");
    UNTIL(primary.down);
    ck_assert(is_there("a", "new"));
    conn_free(newer.c);
}
END_TEST

START_TEST(only_its_primary_is_heard) {
    end_open(&primary, ROLE_REPLICA, PROXY, 1);
    sync_send(1);
    UNTIL(primary.down);
    end_open(&proxy, ROLE_DATA, PROXY, 1);
    UNTIL(proxy.down);
    primary_open(1);
    repl(REPL_PUT, "a", "x");
    acknowledged();
}
END_TEST

START_TEST(what_breaks_the_rules_ends_the_connection) {
    static const struct {
        struct msg m;
        const char *key, *value;
    } bad[] = {{{.status = REPL_PUT}, NULL, "value"},
               {{.status = REPL_CLEAR}, "key", NULL},
               {{.status = REPL_POP}, "key", "value"},
               {{.status = REPL_DEL, .id = 5, .manager = 2}, "key", NULL}};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        primary_open(i);
        repl_send(bad[i].m, bad[i].key, bad[i].value);
        UNTIL(primary.down);
    }
    end_open(&primary, ROLE_REPLICA, OWNER, 20);
    repl(REPL_PUT, "a", "without SYNC");
    UNTIL(primary.down);
    primary_open(21);
    pieces_send(0, 10, 10); /* of no value */
    UNTIL(primary.down);
    ck_assert(is_there("a", NULL));
}
END_TEST

START_TEST(an_epoch_that_is_newer_waits_for_the_map_and_an_older_one_is_refused) {
    end_open(&primary, ROLE_REPLICA, OWNER, 1);
    sync_send(3);
    repl(REPL_PUT, "a", "x");
    turns(50);
    ck_assert(primary.up && !primary.down && primary.messages == 0 && is_there("a", NULL));
    map_send(3, OWNER, setup.identity.self);
    acknowledged();
    ck_assert(is_there("a", "x"));
    primary_open(2); /* of epoch 1 */
    UNTIL(primary.down);
}
END_TEST

START_TEST(a_backup_that_was_dropped_ends_the_connection) {
    primary_open(1);
    repl(REPL_PUT, "a", "x");
    acknowledged();
    map_send(2, OWNER, SHADOW_NONE);
    UNTIL(primary.down);
    end_open(&primary, ROLE_REPLICA, OWNER, 2);
    sync_send(2);
    UNTIL(primary.down);
    ck_assert(replica_backup_is(&m));
}
END_TEST

START_TEST(without_room_it_says_so_and_drops_the_rest) {
    primary_open(1);
    for (unsigned i = 0; i < MEMORY / LARGE + 1; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        repl_send((struct msg){.status = REPL_PUT, .flags = MSGF_STREAM, .val_len = LARGE}, key,
                  NULL);
        pieces_send(0, LARGE, LARGE);
    }
    UNTIL(primary.last.type == MSG_ACK && primary.last.status < 0);
    ck_assert_int_eq(primary.last.status, DDICT_EFULL);
    ck_assert_uint_lt(primary.last.aux, primary.sent);
    ck_assert_uint_gt(primary.last.aux, 5);
    repl(REPL_DEL, "0", NULL);
    turns(50);
    ck_assert(!primary.down);
    struct store_ref ref;
    ck_assert_int_eq(store_find(m.store, "0", 1, &ref), 0);
}
END_TEST

static void spill_open(void) {
    struct store_options o = {.budget = MEMORY, .managers = 2, .spill = SPILL};
    shadow_close();
    close(setup.arena_fd);
    ck_assert_int_ge(setup.spill_fd = spill_create(".", SPILL, 1), 0);
    ck_assert_int_ge(setup.arena_fd = arena_create(&o), 0);
    shadow_open();
}

/* Memory is full again and again, and the disk makes room: each waits, in order. */
START_TEST(with_a_spill_it_waits_for_room) {
    char key[16];
    spill_open();
    primary_open(1);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "%u", i);
        repl_send((struct msg){.status = REPL_PUT, .flags = MSGF_STREAM, .val_len = LARGE}, key,
                  NULL);
        pieces_send(0, LARGE, LARGE);
        for (unsigned n = 0; n < 200; n++)
            repl(REPL_PUT, n % 2 ? "even" : "odd", key);
        repl_send((struct msg){.status = REPL_PUT, .flags = MSGF_STREAM, .val_len = LARGE}, key,
                  NULL);
        pieces_send(0, LARGE, LARGE);
        turn();
    }
    acknowledged();
    for (unsigned i = 0; i < 40; i++) {
        struct store_ref ref;
        snprintf(key, sizeof key, "%u", i);
        ck_assert_int_eq(store_find(m.store, key, (uint32_t)strlen(key), &ref), 0);
        ck_assert_uint_eq(item_len(ref.item), LARGE);
    }
    ck_assert_uint_gt(store_header(m.store)->spill_items, 10);
    close(setup.spill_fd);
}
END_TEST

/* --- promotion --- */
static void proxy_ask(struct msg r, const char *key, const char *value) {
    uint8_t bytes[512];
    unsigned messages = proxy.messages;
    r.key_len = (uint32_t)strlen(key);
    r.val_len = value ? strlen(value) : r.type == MSG_POP || r.type == MSG_GET ? 1 << 20 : 0;
    r.version = r.type == MSG_POP ? 1 << 20 : r.version;
    memcpy(bytes, key, r.key_len);
    memcpy(bytes + r.key_len, value ? value : "", value ? r.val_len : 0);
    ck_assert_int_eq(
        conn_send(proxy.c, &r, bytes, r.key_len + (value ? r.val_len : 0), NULL, 0, NULL, NULL), 0);
    UNTIL(proxy.messages > messages);
    ck_assert_uint_eq(proxy.last.id, r.id);
}
static bool proxy_has(const char *value) {
    return proxy.last.status == 0 && proxy.last.val_len == strlen(value) &&
           memcmp(proxy.value, value, strlen(value)) == 0;
}
/* A key of the owner. */
static const char *key_own(void) {
    static char key[64];
    for (unsigned i = 0;; i++) {
        snprintf(key, sizeof key, "key %u", i);
        if (deal_owner(&deal, key, strlen(key), key_hash(key, strlen(key))) == OWNER)
            return key;
    }
}
static uint64_t id_of(uint32_t number, uint32_t place) {
    return (uint64_t)number << 32 | place;
}
static void promote(void) {
    map_send(2, setup.identity.self, SHADOW_NONE);
    UNTIL(!replica_backup_is(&m));
    end_open(&proxy, ROLE_DATA, PROXY, 9);
}

START_TEST(when_promoted_it_serves_and_answers_from_results) {
    const char *key = key_own();
    primary_open(1);
    repl_send((struct msg){.status = REPL_APPEND, .id = id_of(1, 0), .manager = PROXY}, key, "one");
    repl_send((struct msg){.status = REPL_APPEND, .id = id_of(2, 1), .manager = PROXY}, key, "two");
    repl_send((struct msg){.status = REPL_POP, .id = id_of(3, 2), .manager = PROXY}, key, NULL);
    repl_send((struct msg){.status = REPL_POP, .id = id_of(4, 3), .manager = PROXY}, key, NULL);
    repl_send((struct msg){.status = REPL_TOOK, .id = id_of(3, 2), .manager = PROXY}, NULL, NULL);
    repl_send((struct msg){.status = REPL_PUT, .id = id_of(5, 4), .manager = PROXY}, key, "put");
    repl_send((struct msg){.status = REPL_PUT, .flags = MSGF_STREAM, .val_len = LARGE}, key, NULL);
    pieces_send(0, 1000, LARGE);
    primary.sent--; /* not complete, and forgotten */
    acknowledged();
    uint64_t version = store_header(m.store)->version;
    promote();
    UNTIL(primary.down);
    ck_assert_uint_gt(store_header(m.store)->version, version + UINT32_MAX);
    proxy_ask((struct msg){.type = MSG_POP, .flags = MSGF_HOP | MSGF_AGAIN, .id = id_of(4, 3)}, key,
              NULL);
    ck_assert(proxy_has("two"));
    proxy_ask((struct msg){.type = MSG_PUT, .flags = MSGF_HOP | MSGF_AGAIN, .id = id_of(5, 4)}, key,
              "put");
    ck_assert_int_eq(proxy.last.status, 0);
    proxy_ask((struct msg){.type = MSG_GET, .flags = MSGF_HOP, .id = id_of(6, DD_RESULTS)}, key,
              NULL);
    ck_assert(proxy_has("put"));
    ck_assert_uint_eq(proxy.last.version, results[PROXY].at[4].version);
    /* not done before: it is done now */
    proxy_ask((struct msg){.type = MSG_DEL, .flags = MSGF_HOP | MSGF_AGAIN, .id = id_of(7, 5)}, key,
              NULL);
    ck_assert(proxy.last.status == 0 && is_there(key, NULL));
    /* who had seen events of the primary missed some */
    struct msg events = {.type = MSG_EVENTS,
                         .flags = MSGF_HOP | MSGF_WAIT,
                         .manager = OWNER,
                         .id = id_of(8, DD_RESULTS),
                         .version = 77,
                         .aux = 1000000};
    ck_assert_int_eq(conn_send(proxy.c, &events, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(proxy.last.id == events.id);
    ck_assert_uint_gt(proxy.last.version, 0);
}
END_TEST

START_TEST(without_a_lease_nothing_is_taken) {
    const char *key = key_own();
    promote();
    UNTIL(proxy.up);
    page.lease = 1;
    struct msg r = {.type = MSG_DEL, .flags = MSGF_HOP, .id = 1, .key_len = (uint32_t)strlen(key)};
    ck_assert_int_eq(conn_send(proxy.c, &r, key, r.key_len, NULL, 0, NULL, NULL), 0);
    turns(50);
    ck_assert(!manager_may_serve(&m) && proxy.messages == 0 && !proxy.down);
    page.lease = UINT64_MAX - 1;
    UNTIL(proxy.messages == 1);
    ck_assert_int_eq(proxy.last.status, DDICT_ENOKEY);
}
END_TEST

/* --- a later life --- */
static void shadow_dies(void) {
    struct sup_msg s = {.type = SUP_GO};
    shadow_close();
    conn_free(primary.c);
    conn_free(proxy.c);
    primary.c = proxy.c = NULL;
    page.lives++;
    shadow_open();
    ck_assert(!m.knows);
    ck_assert_int_eq(sup_send(supervisor_fd, &s, NULL, 0), 0);
    UNTIL(m.knows);
}

START_TEST(a_later_life_goes_on_where_the_one_before_was) {
    const char *key = key_own();
    primary_open(1);
    repl(REPL_PUT, key, "value");
    repl_send((struct msg){.status = REPL_POP, .id = id_of(1, 1), .manager = PROXY}, key, NULL);
    acknowledged();
    shadow_dies();
    primary_open(1);
    repl(REPL_PUT, key, "next");
    acknowledged();
    promote();
    proxy_ask((struct msg){.type = MSG_POP, .flags = MSGF_HOP | MSGF_AGAIN, .id = id_of(1, 1)}, key,
              NULL);
    ck_assert(proxy_has("value"));
    proxy_ask((struct msg){.type = MSG_GET, .flags = MSGF_HOP, .id = id_of(2, DD_RESULTS)}, key,
              NULL);
    ck_assert(proxy_has("next"));
}
END_TEST

/* It has made the change, and dies before it writes the result. */
static void dies_with(enum repl_op op, uint64_t id, const char *value) {
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        faults =
            (struct faults){.on = true, .die_step = STEP_CHANGED, .die_steps = 1, .die_code = 7};
        repl_send((struct msg){.status = (int32_t)op, .id = id, .manager = PROXY}, key_own(),
                  value);
        turns(1000);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    shadow_dies();
}

START_TEST(a_death_between_a_change_and_its_result_loses_neither) {
    const char *key = key_own();
    primary_open(1);
    repl(REPL_APPEND, key, "one");
    acknowledged();
    dies_with(REPL_APPEND, id_of(1, 1), "two");
    primary_open(1);
    repl(REPL_PUT, "other", "value");
    acknowledged();
    dies_with(REPL_POP, id_of(2, 2), NULL);
    promote();
    proxy_ask((struct msg){.type = MSG_POP, .flags = MSGF_HOP | MSGF_AGAIN, .id = id_of(2, 2)}, key,
              NULL);
    ck_assert(proxy_has("one"));
    proxy_ask((struct msg){.type = MSG_PUT,
                           .flags = MSGF_HOP | MSGF_AGAIN | MSGF_APPEND,
                           .id = id_of(1, 1)},
              key, "two");
    ck_assert_int_eq(proxy.last.status, 0);
    ck_assert(is_there(key, "two"));
    ck_assert_uint_eq(values_behind(key, NULL), 0);
}
END_TEST

START_TEST(a_later_life_of_a_primary_is_told_by_the_map_before_it_serves) {
    promote();
    UNTIL(proxy.up);
    map_send(2, setup.identity.self, SHADOW_NONE);
    shadow_dies();
    ck_assert(!replica_backup_is(&m));
    end_open(&proxy, ROLE_DATA, PROXY, 10);
    proxy_ask((struct msg){.type = MSG_GET, .flags = MSGF_HOP, .id = id_of(1, DD_RESULTS)},
              key_own(), NULL);
    ck_assert_int_eq(proxy.last.status, DDICT_ENOKEY);
}
END_TEST

/* --- keys that were lost --- */
static void anew_send(uint64_t epoch, enum owner_keys what) {
    struct sup_msg s = {.type = SUP_MAP,
                        .id = OWNER,
                        .count = epoch,
                        .pid = setup.identity.self,
                        .room = SHADOW_NONE,
                        .status = 2 * (int)what,
                        .text = "n9"};
    ck_assert_int_eq(sup_send(supervisor_fd, &s, NULL, 0), 0);
}
/* Another key of the owner. */
static const char *key_next(unsigned n) {
    static char key[8][64];
    unsigned i = 1000;
    for (unsigned found = 0; found <= n; i++) {
        snprintf(key[n], sizeof key[n], "key %u", i);
        found +=
            deal_owner(&deal, key[n], strlen(key[n]), key_hash(key[n], strlen(key[n]))) == OWNER;
    }
    return key[n];
}
static void began_anew(enum owner_keys what) {
    shadow_close();
    setup.fills = true;
    shadow_open();
    anew_send(3, what);
    UNTIL(!replica_backup_is(&m));
    end_open(&proxy, ROLE_DATA, PROXY, 9);
    UNTIL(proxy.up);
}
/* It is asked, and waits. */
static void ask_held(struct msg r, const char *key, const char *value) {
    unsigned messages = proxy.messages;
    char bytes[128];
    int n = snprintf(bytes, sizeof bytes, "%s%s", key, value ? value : "");
    r.flags |= MSGF_HOP;
    r.key_len = (uint32_t)strlen(key);
    r.val_len = value ? strlen(value) : 1 << 20;
    if (r.type == MSG_DEL)
        r.val_len = 0;
    ck_assert_int_eq(conn_send(proxy.c, &r, bytes, (size_t)n, NULL, 0, NULL, NULL), 0);
    turns(50);
    ck_assert(proxy.messages == messages && !proxy.down);
}
static struct msg asked(unsigned type, uint32_t number) {
    return (struct msg){
        .type = (uint16_t)type, .flags = MSGF_HOP, .id = id_of(number, number % DD_RESULTS)};
}

/* With the page of small values. */
static uint64_t used_then(void) {
    proxy_ask(asked(MSG_PUT, 100), key_next(7), "value");
    proxy_ask(asked(MSG_DEL, 101), key_next(7), NULL);
    proxy.messages = 0;
    return used();
}

/* What waits for it may be answered in the same turn. */
static void put_send(struct msg r, const char *key, const char *value) {
    char bytes[128];
    int n = snprintf(bytes, sizeof bytes, "%s%s", key, value);
    r.key_len = (uint32_t)strlen(key);
    r.val_len = strlen(value);
    ck_assert_int_eq(conn_send(proxy.c, &r, bytes, (size_t)n, NULL, 0, NULL, NULL), 0);
}

START_TEST(a_key_that_may_be_read_again_is_waited_for) {
    struct msg put;
    began_anew(OWNER_REFILLING);
    ask_held(asked(MSG_GET, 1), key_next(0), NULL);
    end_open(&proxy, ROLE_DATA, PROXY, 10); /* it is gone, and asks by another connection */
    UNTIL(proxy.up);
    ask_held(asked(MSG_GET, 3), key_next(0), NULL);
    put_send(asked(MSG_PUT, 4), key_next(0), "value");
    UNTIL(proxy.messages == 2);
    ck_assert(proxy.last.id == id_of(3, 3) && proxy_has("value"));
    /* those that remove, or want it there */
    ask_held(asked(MSG_DEL, 5), key_next(1), NULL);
    put_send(asked(MSG_PUT, 6), key_next(1), "x");
    UNTIL(proxy.last.id == id_of(5, 5));
    ck_assert(proxy.last.status == 0 && is_there(key_next(1), NULL));
    put = asked(MSG_PUT, 7);
    put.flags |= MSGF_EXISTING;
    ask_held(put, key_next(2), "second");
    put_send(asked(MSG_PUT, 8), key_next(2), "first");
    UNTIL(proxy.last.id == id_of(7, 7));
    ck_assert(proxy.last.status == 0 && is_there(key_next(2), "second"));
    /* now it is known that it was removed */
    proxy_ask(asked(MSG_GET, 9), key_next(1), NULL);
    ck_assert_int_eq(proxy.last.status, DDICT_ENOKEY);
}
END_TEST

START_TEST(what_was_not_read_again_is_lost) {
    struct msg put = asked(MSG_PUT, 3);
    began_anew(OWNER_REFILLING);
    uint64_t before_all = used_then();
    ask_held(asked(MSG_GET, 1), key_next(0), NULL);
    ask_held(asked(MSG_POP, 2), key_next(1), NULL);
    put.flags |= MSGF_EXISTING;
    ask_held(put, key_next(2), "value");
    anew_send(4, OWNER_REFILLED);
    UNTIL(proxy.messages == 3);
    ck_assert_int_eq(proxy.last.status, DDICT_EKEYLOST);
    ck_assert_ptr_nonnull(memmem(proxy.value, sizeof proxy.value, "node n9", 7));
    ck_assert_uint_eq(used(), before_all);
    proxy_ask(asked(MSG_HEAD, 4), key_next(3), NULL);
    ck_assert_int_eq(proxy.last.status, DDICT_EKEYLOST);
    proxy_ask(asked(MSG_PUT, 5), key_next(0), "value");
    ck_assert_int_eq(proxy.last.status, 0);
    proxy_ask(asked(MSG_POP, 6), key_next(0), NULL);
    ck_assert(proxy_has("value"));
    proxy_ask(asked(MSG_GET, 7), key_next(0), NULL);
    ck_assert_int_eq(proxy.last.status, DDICT_ENOKEY);
    struct msg wait = asked(MSG_GET, 8); /* who has time has it, and is told then */
    wait.flags |= MSGF_WAIT;
    wait.aux = 20000;
    proxy_ask(wait, key_next(3), NULL);
    ck_assert_int_eq(proxy.last.status, DDICT_EKEYLOST);
}
END_TEST

START_TEST(who_has_no_more_time_is_told_that_the_key_may_be_lost) {
    struct msg wait = asked(MSG_POP, 1);
    wait.flags |= MSGF_WAIT;
    wait.aux = 20000;
    began_anew(OWNER_REFILLING);
    proxy_ask(wait, key_next(0), NULL);
    ck_assert_int_eq(proxy.last.status, DDICT_EKEYLOST);
    ck_assert_ptr_nonnull(memmem(proxy.value, sizeof proxy.value, "node n9", 7));
    proxy_ask(asked(MSG_PUT, 2), key_next(0), "value");
    wait.id = id_of(3, 3);
    proxy_ask(wait, key_next(0), NULL);
    ck_assert(proxy_has("value"));
    wait.id = id_of(4, 4); /* now it is known that it was removed */
    proxy_ask(wait, key_next(0), NULL);
    ck_assert_int_eq(proxy.last.status, -ETIMEDOUT);
}
END_TEST

START_TEST(who_waits_for_a_lost_key_can_give_up) {
    struct msg put = asked(MSG_PUT, 1), cancel = asked(MSG_CANCEL, 2);
    began_anew(OWNER_REFILLING);
    uint64_t before_all = used_then();
    put.flags |= MSGF_EXISTING;
    ask_held(put, key_next(0), "value");
    ck_assert_uint_gt(used(), before_all);
    cancel.aux = put.id;
    ck_assert_int_eq(conn_send(proxy.c, &cancel, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(proxy.messages == 1);
    ck_assert_int_eq(proxy.last.status, -ECANCELED);
    ck_assert_uint_eq(used(), before_all);
    ask_held(asked(MSG_GET, 3), key_next(0), NULL);
    conn_free(proxy.c); /* it is gone */
    proxy.c = NULL;
    turns(20);
    anew_send(4, OWNER_REFILLED);
    turns(20);
}
END_TEST

static struct msg ruled(struct msg r, enum key_rule rule, uint64_t n) {
    r.rule = (uint8_t)rule;
    r.tag = 5;
    *(rule == RULE_ADD ? &r.aux : &r.version) = n;
    return r;
}

START_TEST(what_depends_on_a_key_waits_until_it_is_known) {
    struct msg forty = asked(MSG_PUT, 2);
    forty.tag = 5;
    began_anew(OWNER_REFILLING);
    ask_held(ruled(asked(MSG_PUT, 1), RULE_ADD, 2), key_next(0), "");
    put_send(forty, key_next(0), "40");
    UNTIL(proxy.messages == 2);
    ck_assert(proxy.last.id == id_of(1, 1) && proxy.last.status == 0 && proxy.last.version == 42);
    ck_assert(is_there(key_next(0), "42"));
    uint64_t before_all = used_then();
    ask_held(ruled(asked(MSG_PUT, 3), RULE_IF, 7), key_next(1), "value");
    ask_held(ruled(asked(MSG_PUT, 4), RULE_ADD, 7), key_next(2), "");
    ask_held(ruled(asked(MSG_DEL, 5), RULE_IF, 7), key_next(3), NULL);
    anew_send(4, OWNER_REFILLED);
    UNTIL(proxy.messages == 3);
    ck_assert_int_eq(proxy.last.status, DDICT_EKEYLOST);
    ck_assert_uint_eq(used(), before_all);
    for (unsigned n = 1; n < 4; n++) {
        ck_assert(is_there(key_next(n), NULL));
        proxy_ask(ruled(asked(MSG_PUT, 10 + n), n == 2 ? RULE_ADD : RULE_IF, 7), key_next(n), "");
        ck_assert_int_eq(proxy.last.status, DDICT_EKEYLOST);
    }
    proxy_ask(ruled(asked(MSG_PUT, 20), RULE_IF, 0), key_next(1), "value"); /* as NEW */
    ck_assert(proxy.last.status == 0 && is_there(key_next(1), "value"));
    proxy_ask(asked(MSG_DEL, 21), key_next(1), NULL);
    proxy_ask(ruled(asked(MSG_PUT, 22), RULE_ADD, 3), key_next(1), ""); /* known not to be there */
    ck_assert(proxy.last.status == 0 && proxy.last.version == 3);
}
END_TEST

START_TEST(a_later_life_knows_that_keys_were_lost) {
    began_anew(OWNER_REFILLED);
    proxy_ask(asked(MSG_PUT, 1), key_next(0), "value");
    uint64_t version = proxy.last.version;
    ck_assert_uint_gt(version, 3ull << 32); /* none of those before comes again */
    anew_send(3, OWNER_REFILLED);
    shadow_dies();
    UNTIL(!replica_backup_is(&m));
    end_open(&proxy, ROLE_DATA, PROXY, 10);
    proxy_ask(asked(MSG_GET, 2), key_next(0), NULL);
    ck_assert(proxy_has("value"));
    proxy_ask(asked(MSG_GET, 3), key_next(1), NULL);
    ck_assert_int_eq(proxy.last.status, DDICT_EKEYLOST);
}
END_TEST

enum { REFILLS = MSGF_NEW | MSGF_LOADED | MSGF_REFILL };
static struct msg put_of(unsigned flags, uint32_t number) {
    struct msg r = asked(MSG_PUT, number);
    r.flags |= (uint16_t)flags;
    return r;
}
static int put(unsigned flags, uint32_t number, const char *key, const char *value) {
    proxy_ask(put_of(flags, number), key, value);
    return proxy.last.status;
}
static bool is_sealed(const char *key) {
    struct store_ref ref;
    return store_find(m.store, key, (uint32_t)strlen(key), &ref) == 0 && item_is_loaded(ref.item);
}

/* A value in pieces: its header, and all of it. */
static void stream_send(struct msg r, const char *key, uint64_t len) {
    r.key_len = (uint32_t)strlen(key);
    r.val_len = len;
    ck_assert_int_eq(conn_send(proxy.c, &r, key, r.key_len, NULL, 0, NULL, NULL), 0);
}
static void value_send(uint64_t id, uint64_t len) {
    static uint8_t piece[DD_MSG_PIECE];
    for (uint64_t at = 0; at < len; at += sizeof piece) {
        uint64_t n = len - at < sizeof piece ? len - at : sizeof piece;
        struct msg r = {
            .type = MSG_DATA, .flags = at + n == len ? MSGF_LAST : 0, .id = id, .aux = at};
        ck_assert_int_eq(conn_send(proxy.c, &r, piece, n, NULL, 0, NULL, NULL), 0);
    }
}

START_TEST(a_new_key_waits_for_what_is_read_again) {
    began_anew(OWNER_REFILLING);
    uint64_t before_all = used_then();
    ask_held(put_of(MSGF_NEW, 1), key_next(0), "ours");
    ask_held(put_of(MSGF_NEW | MSGF_LOADED, 2), key_next(1), "ours");
    put_send(put_of(REFILLS, 3), key_next(0), "read again");
    UNTIL(proxy.messages == 2);
    ck_assert(proxy.last.id == id_of(1, 1) && proxy.last.status == DDICT_EEXISTS);
    ck_assert(is_there(key_next(0), "read again") && is_sealed(key_next(0)));
    ck_assert_int_eq(put(MSGF_NEW, 4, key_next(0), "ours"), DDICT_EEXISTS);
    anew_send(4, OWNER_REFILLED);
    UNTIL(proxy.last.id == id_of(2, 2));
    ck_assert(proxy.last.status == 0 && is_there(key_next(1), "ours"));
    ck_assert_int_eq(put(MSGF_NEW, 5, key_next(2), "ours"), 0);
    proxy_ask(asked(MSG_CLEAR, 6), "", NULL);
    ck_assert_uint_eq(used(), before_all);
}
END_TEST

START_TEST(what_is_read_again_is_taken_as_long_as_it_is_wanted) {
    struct msg stream = put_of(REFILLS | MSGF_STREAM, 20);
    setup.results = NULL; /* as there is no ledger for a value in pieces */
    began_anew(OWNER_REFILLING);
    ck_assert_int_eq(put(REFILLS, 1, key_next(0), "read again"), 0);
    ck_assert_int_eq(put(REFILLS, 2, key_next(0), "read again"), DDICT_EEXISTS);
    ck_assert_int_eq(put(0, 3, key_next(1), "ours"), 0); /* which was removed */
    proxy_ask(asked(MSG_DEL, 4), key_next(1), NULL);
    ck_assert_int_eq(put(REFILLS, 5, key_next(1), "read again"), DDICT_EEXISTS);
    stream_send(stream, key_next(1), LARGE);
    UNTIL(proxy.last.id == stream.id); /* before its value */
    ck_assert_int_eq(proxy.last.status, DDICT_EEXISTS);
    stream.id = id_of(21, 21);
    stream_send(stream, key_next(2), LARGE);
    turns(50);
    anew_send(4, OWNER_REFILLED);
    turns(50);
    ck_assert_int_eq(put(REFILLS, 6, key_next(3), "read again"), DDICT_EEXISTS);
    value_send(stream.id, LARGE); /* or when it is complete */
    UNTIL(proxy.last.id == stream.id);
    ck_assert_int_eq(proxy.last.status, DDICT_EEXISTS);
    ck_assert_int_eq(put(MSGF_NEW | MSGF_LOADED, 7, key_next(3), "loaded"), 0);
    ck_assert(is_sealed(key_next(3)));
}
END_TEST

START_TEST(a_value_of_the_spill_waits_as_any) {
    struct msg put = put_of(MSGF_NEW | MSGF_STREAM, 1);
    struct store_ref ref;
    spill_open();
    began_anew(OWNER_REFILLING);
    stream_send(put, key_next(0), MEMORY + LARGE);
    value_send(put.id, MEMORY + LARGE);
    turns(200);
    ck_assert_uint_eq(proxy.messages, 0);
    anew_send(4, OWNER_REFILLED);
    UNTIL(proxy.messages == 1);
    ck_assert_int_eq(proxy.last.status, 0);
    ck_assert_int_eq(store_find(m.store, key_next(0), (uint32_t)strlen(key_next(0)), &ref), 0);
    ck_assert_uint_eq(item_len(ref.item), MEMORY + LARGE);
    close(setup.spill_fd);
}
END_TEST

/* It may end in the middle of it: then the next life knows, and clears again. */
static bool cleared_then, can_clear = true;
int __real_store_clear(struct store *s);
int __wrap_store_clear(struct store *s);
int __wrap_store_clear(struct store *s) {
    cleared_then = page.cleared;
    return can_clear ? __real_store_clear(s) : -ENOMEM;
}

START_TEST(a_clear_is_known_before_it_is_made) {
    struct msg clear = {.type = MSG_CLEAR, .flags = MSGF_HOP, .id = id_of(1, 1)};
    began_anew(OWNER_REFILLING);
    can_clear = false;
    proxy_ask(clear, "", NULL);
    ck_assert(proxy.last.status == -ENOMEM && cleared_then && !page.cleared);
    can_clear = true;
    cleared_then = false;
    clear.id = id_of(2, 2);
    proxy_ask(clear, "", NULL);
    ck_assert(proxy.last.status == 0 && cleared_then && page.cleared);
}
END_TEST

START_TEST(after_a_clear_nothing_is_read_again) {
    began_anew(OWNER_REFILLING);
    ask_held(asked(MSG_GET, 1), key_next(0), NULL);
    put_send((struct msg){.type = MSG_CLEAR, .flags = MSGF_HOP, .id = id_of(2, 2)}, "", "");
    UNTIL(proxy.messages == 2);
    ck_assert(proxy.last.id == id_of(1, 1) && proxy.last.status == DDICT_ENOKEY);
    ck_assert_int_eq(put(REFILLS, 3, key_next(0), "read again"), DDICT_EEXISTS);
    ck_assert_int_eq(put(MSGF_NEW, 4, key_next(0), "ours"), 0);
    shadow_dies(); /* which a later life knows */
    anew_send(3, OWNER_REFILLING);
    UNTIL(!replica_backup_is(&m));
    end_open(&proxy, ROLE_DATA, PROXY, 10);
    UNTIL(proxy.up);
    ck_assert_int_eq(put(REFILLS, 5, key_next(1), "read again"), DDICT_EEXISTS);
}
END_TEST

START_TEST(without_refill_what_was_loaded_is_as_any) {
    setup.refill = false;
    promote();
    UNTIL(proxy.up);
    ck_assert_int_eq(put(REFILLS, 1, key_next(0), "value"), 0);
    ck_assert(!is_sealed(key_next(0)));
    proxy_ask(asked(MSG_DEL, 2), key_next(0), NULL);
    ck_assert_int_eq(proxy.last.status, 0);
}
END_TEST

START_TEST(what_was_loaded_is_removed_when_all_is_read) {
    struct msg del = asked(MSG_DEL, 1);
    del.flags |= MSGF_LOADED;
    began_anew(OWNER_REFILLING);
    ck_assert_int_eq(put(REFILLS, 2, key_next(0), "read again"), 0);
    ask_held(del, key_next(0), NULL);
    del.id = id_of(3, 3);
    ask_held(del, key_next(1), NULL);
    ck_assert_int_eq(put(REFILLS, 4, key_next(1), "read again"), 0);
    turns(20);
    ck_assert(is_there(key_next(1), "read again"));
    proxy.messages = 0;
    anew_send(4, OWNER_REFILLED);
    UNTIL(proxy.messages == 2);
    ck_assert(proxy.last.status == 0 && is_there(key_next(0), NULL) && is_there(key_next(1), NULL));
    proxy_ask(asked(MSG_GET, 5), key_next(0), NULL);
    ck_assert_int_eq(proxy.last.status, DDICT_ENOKEY);
}
END_TEST

START_TEST(a_frozen_dictionary_takes_what_is_read_again_and_no_more) {
    struct sup_msg s = {.type = SUP_FREEZE, .id = 1, .status = FREEZE_CLOSED};
    began_anew(OWNER_REFILLING);
    ask_held(asked(MSG_DEL, 1), key_next(0), NULL);
    ask_held(asked(MSG_POP, 2), key_next(1), NULL);
    ask_held(put_of(MSGF_EXISTING, 3), key_next(2), "ours");
    ask_held(put_of(MSGF_NEW, 4), key_next(3), "ours");
    ck_assert_int_eq(put(0, 5, key_next(5), "ours"), 0);
    ck_assert_int_eq(sup_send(supervisor_fd, &s, NULL, 0), 0);
    UNTIL(m.shut);
    s.status = FREEZE_FROZEN;
    ck_assert_int_eq(sup_send(supervisor_fd, &s, NULL, 0), 0);
    UNTIL(m.frozen);
    ck_assert_int_eq(put(MSGF_NEW | MSGF_LOADED, 6, key_next(4), "loaded"), DDICT_EFROZEN);
    ck_assert_int_eq(put(REFILLS, 7, key_next(4), "read again"), 0);
    ck_assert_int_eq(put(REFILLS, 8, key_next(5), "read again"), DDICT_EEXISTS);
    proxy.messages = 0;
    anew_send(4, OWNER_REFILLED);
    UNTIL(proxy.messages == 4);
    for (unsigned n = 1; n <= 4; n++)
        ck_assert_int_eq(proxy.status[n], DDICT_EFROZEN);
    ck_assert_int_eq(put(REFILLS, 9, key_next(6), "read again"), DDICT_EEXISTS);
}
END_TEST

static bool is_told(enum freeze_state state) {
    struct sup_msg s;
    while (sup_recv(supervisor_fd, &s, NULL, 0) >= 0)
        if (s.type == SUP_FREEZE_AT && s.status == (int32_t)state)
            return true;
    return false;
}

START_TEST(a_freeze_does_not_wait_for_values_that_are_read_again) {
    struct sup_msg s = {.type = SUP_FREEZE, .id = 1, .status = FREEZE_CLOSED};
    struct msg ours = put_of(MSGF_STREAM, 30);
    setup.results = NULL; /* as there is no ledger for a value in pieces */
    began_anew(OWNER_REFILLING);
    uint64_t before_all = used_then(), began = clock_ms();
    stream_send(put_of(REFILLS | MSGF_STREAM, 1), key_next(0), LARGE);
    UNTIL(used() > before_all);
    stream_send(ours, key_next(1), LARGE);
    UNTIL(m.puts_open == 1);
    ck_assert_int_eq(sup_send(supervisor_fd, &s, NULL, 0), 0);
    UNTIL(m.shut);
    ck_assert_int_eq(put(REFILLS, 3, key_next(2), "read again"), 0); /* while one of ours may end */
    ck_assert(!is_told(FREEZE_CLOSED));
    value_send(ours.id, LARGE);
    UNTIL(proxy.last.id == ours.id);
    ck_assert_int_eq(proxy.last.status, 0);
    UNTIL(is_told(FREEZE_CLOSED));
    ck_assert_uint_lt(clock_ms() - began, DD_FREEZE_MS);
    value_send(id_of(1, 1), LARGE);
    UNTIL(proxy.last.id == id_of(1, 1));
    ck_assert_int_eq(proxy.last.status, 0);
}
END_TEST

/* It has a copy, but who decides did not take it for one: it may be older than what was lost. */
START_TEST(an_old_copy_is_not_what_keys_begin_with) {
    primary_open(1);
    repl_send((struct msg){.status = REPL_PUT, .id = id_of(1, 1), .manager = PROXY}, key_next(0),
              "old");
    acknowledged();
    anew_send(3, OWNER_REFILLING);
    UNTIL(!replica_backup_is(&m));
    end_open(&proxy, ROLE_DATA, PROXY, 9);
    UNTIL(proxy.up);
    ck_assert(is_there(key_next(0), NULL) && results[PROXY].at[1].id == 0);
    ck_assert_int_eq(put(REFILLS, 2, key_next(1), "read again"), 0);
    uint64_t version = store_header(m.store)->version;
    shadow_dies();
    anew_send(5, OWNER_REFILLING); /* of which a later life has what it had */
    UNTIL(!replica_backup_is(&m));
    ck_assert_uint_lt(store_header(m.store)->version, version + UINT32_MAX);
    end_open(&proxy, ROLE_DATA, PROXY, 10);
    UNTIL(proxy.up);
    ck_assert(is_there(key_next(1), "read again") && is_sealed(key_next(1)));
    ask_held(asked(MSG_GET, 3), key_next(0), NULL);
}
END_TEST

/* Its own puts are acknowledged, so they stay; what it has not got is awaited. */
START_TEST(a_copy_that_takes_over_while_sources_are_read_keeps_what_it_has) {
    primary_open(1);
    repl(REPL_PUT, key_next(0), "copied");
    acknowledged();
    anew_send(3, OWNER_READ_ON);
    UNTIL(!replica_backup_is(&m));
    end_open(&proxy, ROLE_DATA, PROXY, 9);
    UNTIL(proxy.up);
    ck_assert(is_there(key_next(0), "copied"));
    ask_held(asked(MSG_GET, 3), key_next(1), NULL);
    ck_assert_int_eq(put(REFILLS, 4, key_next(2), "read again"), 0);
}
END_TEST

START_TEST(a_copy_of_keys_that_began_anew_once_is_as_any) {
    primary_open(1);
    repl(REPL_PUT, key_next(0), "copied");
    acknowledged();
    anew_send(3, OWNER_REFILLED);
    UNTIL(!replica_backup_is(&m));
    ck_assert(is_there(key_next(0), "copied"));
}
END_TEST

UNIT_MAIN_WITH("manager_backup", before, after, changes_are_carried_out_in_order_and_acknowledged,
               many_changes_have_few_acknowledgements, versions_stay_above_those_of_the_primary,
               a_value_in_pieces_is_there_with_its_last,
               what_may_have_been_carried_out_is_judged_by_the_number_of_values,
               the_beginning_of_a_value_is_freed_with_its_connection,
               an_older_connection_of_the_primary_comes_too_late, only_its_primary_is_heard,
               what_breaks_the_rules_ends_the_connection,
               an_epoch_that_is_newer_waits_for_the_map_and_an_older_one_is_refused,
               a_backup_that_was_dropped_ends_the_connection,
               without_room_it_says_so_and_drops_the_rest, with_a_spill_it_waits_for_room,
               when_promoted_it_serves_and_answers_from_results, without_a_lease_nothing_is_taken,
               a_later_life_goes_on_where_the_one_before_was,
               a_death_between_a_change_and_its_result_loses_neither,
               a_later_life_of_a_primary_is_told_by_the_map_before_it_serves,
               a_key_that_may_be_read_again_is_waited_for, what_was_not_read_again_is_lost,
               who_has_no_more_time_is_told_that_the_key_may_be_lost,
               who_waits_for_a_lost_key_can_give_up, what_depends_on_a_key_waits_until_it_is_known,
               a_later_life_knows_that_keys_were_lost, a_new_key_waits_for_what_is_read_again,
               what_is_read_again_is_taken_as_long_as_it_is_wanted,
               a_value_of_the_spill_waits_as_any, a_clear_is_known_before_it_is_made,
               after_a_clear_nothing_is_read_again, without_refill_what_was_loaded_is_as_any,
               what_was_loaded_is_removed_when_all_is_read,
               a_frozen_dictionary_takes_what_is_read_again_and_no_more,
               a_freeze_does_not_wait_for_values_that_are_read_again,
               an_old_copy_is_not_what_keys_begin_with,
               a_copy_that_takes_over_while_sources_are_read_keeps_what_it_has,
               a_copy_of_keys_that_began_anew_once_is_as_any)
