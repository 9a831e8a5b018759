/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_conn.c - connections between nodes. Invariants: nothing of a peer that did not prove itself reaches the owner; every byte arrives once
 * and in order; a peer's death or silence at any step is told once, within its deadline; nothing malformed gets past the check.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/clock.h>
#include <ddict.h>
#include <wire/auth.h>
#include <wire/conn.h>
#include <wire/loop.h>

#include "wire_test.h"

enum { A_ID = 1, B_ID = 2 };

struct end {
    struct conn *c;
    int up, down, code, drained, messages, dones;
    uint32_t peer;
    enum conn_role role;
    struct msg last;
    uint8_t *value;      /* DATA goes here, at aux */
    size_t value_cap, value_got;
    uint8_t *copy;       /* of the last payload that came in the connection's buffer */
    size_t copy_cap;
    int refuse;          /* message() returns this */
    int pause_after;     /* pause at this message */
    bool free_in_message, free_in_up, echo;
    uint64_t next_id;    /* expected, when check_ids */
    bool check_ids;
};

static int ep;
static struct conn_identity id_a, id_b;
static uint16_t port;
static int listener = -1;
static struct sockaddr_storage address;

static void on_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role)
{
    struct end *e = arg;
    e->up++;
    e->peer = peer;
    e->role = role;
    if (e->free_in_up) {
        conn_free(c);
        e->c = NULL;
    }
}
static void *on_payload_to(struct conn *c, void *arg, const struct msg *m)
{
    struct end *e = arg;
    if (m->type != MSG_DATA || e->value == NULL)
        return NULL;
    ck_assert_uint_le(m->aux + m->len - MSG_HEADER, e->value_cap);
    return e->value + m->aux;
}
static void on_done(void *arg) { ((struct end *)arg)->dones++; }

static int on_message(struct conn *c, void *arg, const struct msg *m, void *payload)
{
    struct end *e = arg;
    size_t n = m->len - MSG_HEADER;
    ck_assert_int_eq(e->up, 1);
    e->messages++;
    e->last = *m;
    if (m->type == MSG_DATA && e->value != NULL) {
        ck_assert_ptr_eq(payload, e->value + m->aux);
        e->value_got += n;
    } else if (e->copy != NULL) {
        ck_assert_uint_le(n, e->copy_cap);
        memcpy(e->copy, payload, n);
    }
    if (e->check_ids)
        ck_assert_uint_eq(m->id, e->next_id++);
    if (e->echo) {
        struct msg r = {.type = MSG_REPLY, .id = m->id};
        ck_assert_int_eq(conn_send(c, &r, NULL, 0, NULL, 0, NULL, NULL), 0);
    }
    if (e->pause_after == e->messages)
        conn_pause(c, true);
    if (e->free_in_message) {
        conn_free(c);
        e->c = NULL;
    }
    return e->refuse;
}
static void on_drained(struct conn *c, void *arg) { ((struct end *)arg)->drained++; }
static void on_down(struct conn *c, void *arg, int code)
{
    struct end *e = arg;
    e->down++;
    e->code = code;
    conn_free(c);
    e->c = NULL;
}
static const struct conn_ops ops = {on_up, on_payload_to, on_message, on_drained, on_down};

static void setup(void)
{
    fds_count();
    ep = epoll_create1(EPOLL_CLOEXEC);
    memset(&id_a, 0, sizeof id_a);
    memset(id_a.dict_id, 7, sizeof id_a.dict_id);
    memset(id_a.cookie, 9, sizeof id_a.cookie);
    id_a.self = A_ID;
    id_b = id_a;
    id_b.self = B_ID;
    struct sockaddr_in *in = (struct sockaddr_in *)&address;
    memset(&address, 0, sizeof address);
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = conn_listen(&address, &port);
    ck_assert_int_ge(listener, 0);
    in->sin_port = htons(port);
    ck_assert_int_eq(auth_init(), 0);
}
static void teardown(void)
{
    close(listener);
    close(ep);
    fds_check();
}

static void ticks(struct end *x, struct end *y)
{
    if (x != NULL && x->c != NULL)
        conn_tick(x->c, clock_ns());
    if (y != NULL && y->c != NULL)
        conn_tick(y->c, clock_ns());
}
#define LOOP_UNTIL(cond, ms, x, y) do { \
        uint64_t end_ms_ = clock_ms() + (ms); \
        while (!(cond)) { \
            ck_assert_msg(clock_ms() < end_ms_, "not within %d ms: %s", (int)(ms), #cond); \
            ck_assert_int_ge(io_wait(ep, 5), 0); \
            ticks(x, y); \
        } \
    } while (0)

static int accept_one(void)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 2000), 1);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    return fd;
}
static void pair_start(struct end *a, struct end *b)
{
    ck_assert_int_eq(conn_open(&a->c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, a), 0);
    ck_assert_int_eq(conn_accept(&b->c, ep, &id_b, accept_one(), &ops, b), 0);
}
static void pair_up(struct end *a, struct end *b)
{
    pair_start(a, b);
    LOOP_UNTIL(a->up && b->up, 2000, a, b);
}
static void pair_end(struct end *a, struct end *b)
{
    conn_free(a->c);
    conn_free(b->c);
    a->c = b->c = NULL;
}

/* A peer made by hand: a blocking socket with a receive timeout. */
static int raw_connect(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval t = {.tv_usec = 300000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    return fd;
}
static int raw_attack(struct end *b) /* connected to an acceptor */
{
    int fd = raw_connect();
    ck_assert_int_eq(conn_accept(&b->c, ep, &id_b, accept_one(), &ops, b), 0);
    return fd;
}
static void raw_send(int fd, const void *p, size_t n) { ck_assert_int_eq(send(fd, p, n, MSG_NOSIGNAL), (ssize_t)n); }
static bool raw_recv(int fd, struct end *e, void *p, size_t n)
{
    size_t got = 0;
    for (uint64_t end_ms = clock_ms() + 2000; got < n && clock_ms() < end_ms;) {
        io_wait(ep, 2);
        ssize_t k = recv(fd, (char *)p + got, n - got, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno != EAGAIN))
            return false;
        got += k > 0 ? (size_t)k : 0;
    }
    return got == n;
}
/* By the book up to `up`. */
static int raw_up(struct end *b)
{
    struct auth_hello h;
    struct auth_challenge ch;
    struct auth_answer an;
    int fd = raw_attack(b);
    auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
    raw_send(fd, &h, sizeof h);
    ck_assert(raw_recv(fd, b, &ch, sizeof ch));
    ck_assert_int_eq(auth_challenge_check(&ch, &h, &id_a, &an), 0);
    raw_send(fd, &an, sizeof an);
    LOOP_UNTIL(b->up, 2000, b, NULL);
    return fd;
}

/* --- handshake --- */

START_TEST(both_ends_come_up_and_know_each_other)
{
    struct end a = {0}, b = {0};
    uint64_t before = conn_refused();
    pair_up(&a, &b);
    ck_assert_uint_eq(a.peer, B_ID);
    ck_assert_uint_eq(b.peer, A_ID);
    ck_assert_int_eq(b.role, ROLE_DATA);
    ck_assert_uint_eq(conn_refused(), before);
    pair_end(&a, &b);
}
END_TEST

START_TEST(what_is_queued_before_up_arrives)
{
    struct end a = {0}, b = {.check_ids = true};
    ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_CONTROL, B_ID, &address, 1, &ops, &a), 0);
    for (uint64_t i = 0; i < 100; i++) {
        struct msg m = {.type = MSG_DEL, .id = i, .key_len = 3};
        ck_assert_int_eq(conn_send(a.c, &m, "key", 3, NULL, 0, NULL, NULL), 0);
    }
    ck_assert_int_eq(conn_accept(&b.c, ep, &id_b, accept_one(), &ops, &b), 0);
    LOOP_UNTIL(b.messages == 100, 2000, &a, &b);
    ck_assert_int_eq(b.role, ROLE_CONTROL);
    pair_end(&a, &b);
}
END_TEST

static void expect_both_refused(struct end *a, struct end *b)
{
    uint64_t before = conn_refused();
    pair_start(a, b);
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(conn_send(a->c, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    LOOP_UNTIL(a->down && b->down, 3000, a, b);
    ck_assert_int_eq(a->up + b->up + a->messages + b->messages, 0);
    ck_assert_int_eq(a->down, 1);
    ck_assert_int_eq(b->down, 1);
    ck_assert_uint_gt(conn_refused(), before);
}

START_TEST(a_wrong_cookie_is_refused_on_both_ends)
{
    struct end a = {0}, b = {0};
    id_a.cookie[31] ^= 1;
    expect_both_refused(&a, &b);
    ck_assert_int_eq(a.code, DDICT_EAUTH); /* the challenge proved nothing: the opener sends no answer */
    ck_assert_int_eq(b.code, -ECONNRESET);
}
END_TEST

START_TEST(another_dictionary_is_refused)
{
    struct end a = {0}, b = {0};
    id_a.dict_id[0] ^= 1;
    expect_both_refused(&a, &b);
    ck_assert_int_eq(b.code, DDICT_EAUTH);
}
END_TEST

START_TEST(a_hello_for_somebody_else_is_refused)
{
    struct end a = {0}, b = {0};
    id_b.self = 77;
    expect_both_refused(&a, &b);
    ck_assert_int_eq(b.code, DDICT_EAUTH);
}
END_TEST

START_TEST(another_protocol_version_is_told_apart)
{
    struct end b = {0};
    struct auth_hello h;
    int fd = raw_attack(&b);
    auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
    h.protocol = PROTOCOL_VERSION + 1;
    raw_send(fd, &h, sizeof h);
    LOOP_UNTIL(b.down, 2000, &b, NULL);
    ck_assert_int_eq(b.code, DDICT_EVERSION);
    close(fd);
}
END_TEST

START_TEST(a_mac_of_zeros_or_of_the_wrong_letter_is_refused)
{
    for (int kind = 0; kind < 2; kind++) {
        struct end b = {0};
        struct auth_hello h;
        struct auth_challenge ch;
        struct auth_answer an = {{0}};
        int fd = raw_attack(&b);
        auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
        raw_send(fd, &h, sizeof h);
        ck_assert(raw_recv(fd, &b, &ch, sizeof ch));
        if (kind == 1)
            memcpy(an.mac, ch.mac, sizeof an.mac); /* the acceptor's own proof played back to it */
        raw_send(fd, &an, sizeof an);
        LOOP_UNTIL(b.down, 2000, &b, NULL);
        ck_assert_int_eq(b.code, DDICT_EAUTH);
        ck_assert_int_eq(b.up, 0);
        close(fd);
    }
}
END_TEST

/* Without the cookie: take A's own first message and play it back to A on the same connection and on one that A accepts. */
START_TEST(an_opener_that_is_reflected_to_itself_learns_nothing)
{
    struct end a = {0}, a2 = {0};
    struct auth_hello h;
    struct auth_challenge ch;
    ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, &a), 0);
    int mallory = accept_one();
    ck_assert(raw_recv(mallory, &a, &h, sizeof h));
    /* A also accepts: the hello is for B, so A does not even challenge it; forging `to` changes what the mac covers. */
    for (int forge = 0; forge < 2; forge++) {
        struct auth_hello t = h;
        int fd = raw_connect();
        ck_assert_int_eq(conn_accept(&a2.c, ep, &id_a, accept_one(), &ops, &a2), 0);
        if (forge)
            t.to = A_ID;
        raw_send(fd, &t, sizeof t);
        if (forge) {
            ck_assert(raw_recv(fd, &a2, &ch, sizeof ch));
            raw_send(mallory, &ch, sizeof ch); /* A's own challenge as the answer to A's hello */
            LOOP_UNTIL(a.down, 2000, &a, &a2);
            ck_assert_int_eq(a.code, DDICT_EAUTH);
        }
        close(fd);
        LOOP_UNTIL(a2.down == forge + 1, 2000, &a, &a2);
    }
    ck_assert_int_eq(a.up + a2.up, 0);
    close(mallory);
}
END_TEST

START_TEST(a_recorded_handshake_cannot_be_played_again)
{
    struct end b = {0}, b2 = {0};
    struct auth_hello h;
    struct auth_challenge ch;
    struct auth_answer an;
    int fd = raw_attack(&b);
    auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
    raw_send(fd, &h, sizeof h);
    ck_assert(raw_recv(fd, &b, &ch, sizeof ch));
    ck_assert_int_eq(auth_challenge_check(&ch, &h, &id_a, &an), 0);
    raw_send(fd, &an, sizeof an);
    LOOP_UNTIL(b.up, 2000, &b, NULL);
    int again = raw_attack(&b2);
    raw_send(again, &h, sizeof h);
    raw_send(again, &an, sizeof an);
    LOOP_UNTIL(b2.down, 2000, &b2, NULL);
    ck_assert_int_eq(b2.code, DDICT_EAUTH);
    ck_assert_int_eq(b2.up, 0);
    ck_assert_int_eq(b.down, 0);
    close(again);
    close(fd);
    conn_free(b.c);
}
END_TEST

/* The mac covers every byte of the hello. */
START_TEST(a_change_of_any_byte_on_the_way_is_noticed)
{
    for (size_t i = 0; i < sizeof(struct auth_hello); i++) {
        struct auth_hello h, t;
        struct auth_challenge ch;
        struct auth_answer an;
        struct conn_identity b = id_b;
        auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
        t = h;
        ((uint8_t *)&t)[i] ^= 3;
        if (auth_hello_check(&t, &b, &ch) == 0)
            ck_assert_int_eq(auth_challenge_check(&ch, &h, &id_a, &an), DDICT_EAUTH);
    }
}
END_TEST

START_TEST(bytes_that_follow_an_unproved_handshake_are_not_read)
{
    struct end b = {0};
    struct auth_hello h;
    uint8_t junk[4096] = {0};
    int fd = raw_attack(&b);
    auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
    memcpy(junk, &h, sizeof h);
    raw_send(fd, junk, sizeof h + 31); /* one byte short of an answer */
    for (int i = 0; i < 20; i++)
        io_wait(ep, 2);
    ck_assert_int_eq(b.up + b.down + b.messages, 0);
    raw_send(fd, junk, 1000);
    LOOP_UNTIL(b.down, 2000, &b, NULL);
    ck_assert_int_eq(b.code, DDICT_EAUTH);
    ck_assert_int_eq(b.messages, 0);
    close(fd);
}
END_TEST

/* The acceptor's peer dies after so many bytes of what it sends. */
START_TEST(a_peer_that_dies_at_any_step_of_the_handshake_is_told)
{
    static const size_t cut[] = {0, 1, 71, 72, 73, 103};
    for (unsigned i = 0; i < sizeof cut / sizeof *cut; i++) {
        struct end b = {0};
        uint8_t bytes[72 + 32] = {0};
        uint64_t before = conn_refused();
        int fd = raw_attack(&b);
        auth_hello_make((struct auth_hello *)bytes, &id_a, ROLE_DATA, B_ID);
        raw_send(fd, bytes, cut[i]);
        for (int k = 0; k < 3; k++)
            io_wait(ep, 1);
        ck_assert_int_eq(b.down, 0);
        close(fd);
        LOOP_UNTIL(b.down, 2000, &b, NULL);
        ck_assert_int_eq(b.code, -ECONNRESET);
        ck_assert_int_eq(b.up, 0);
        ck_assert_uint_eq(conn_refused(), before + 1);
    }
}
END_TEST

START_TEST(an_acceptor_that_dies_at_any_step_is_told_to_the_opener)
{
    for (int step = 0; step < 3; step++) {
        struct end a = {0};
        struct auth_hello h;
        uint8_t junk[80] = {0};
        int dones = 0;
        ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, &a), 0);
        struct msg m = {.type = MSG_PUT, .key_len = 1, .val_len = 3};
        ck_assert_int_eq(conn_send(a.c, &m, "k", 1, "abc", 3, on_done, &a), 0);
        int fd = accept_one();
        if (step >= 1)
            ck_assert(raw_recv(fd, &a, &h, sizeof h));
        if (step >= 2)
            raw_send(fd, junk, 79);
        io_wait(ep, 1);
        dones = a.dones;
        close(fd);
        LOOP_UNTIL(a.down, 2000, &a, NULL);
        ck_assert_int_eq(dones, 0);
        ck_assert_int_eq(a.dones, 1);
        ck_assert_int_eq(a.code, -ECONNRESET);
        ck_assert_int_eq(a.up, 0);
    }
}
END_TEST

START_TEST(silence_in_the_handshake_ends_it_within_its_deadline)
{
    struct end a = {0}, b = {0};
    int fd = raw_attack(&b);
    uint64_t t = clock_ns();
    conn_tick(b.c, t);
    ck_assert_int_eq(b.down, 0);
    ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, &a), 0);
    int mute = accept_one();
    for (int ms = 0; ms <= DD_HANDSHAKE_MS + DD_CONNECT_MS + 500; ms += 500) { /* ticks of a clock that runs ahead */
        io_wait(ep, 0);
        if (ms < DD_HANDSHAKE_MS - 100)
            ck_assert_int_eq(b.down + a.down, 0);
        if (b.c != NULL)
            conn_tick(b.c, t + (uint64_t)ms * 1000000u);
        if (a.c != NULL)
            conn_tick(a.c, t + (uint64_t)ms * 1000000u);
    }
    ck_assert_int_eq(b.code, -ETIMEDOUT);
    ck_assert_int_eq(a.code, -ETIMEDOUT);
    close(fd);
    close(mute);
}
END_TEST

START_TEST(a_suspended_process_gets_its_time_back)
{
    for (int early = 0; early < 2; early++) { /* before the first tick, too */
        struct end b = {0};
        int fd = raw_attack(&b);
        uint64_t t = clock_ns(), hour = 3600ull * 1000000000u;
        if (early == 0)
            conn_tick(b.c, t);
        conn_tick(b.c, t + hour);
        ck_assert_int_eq(b.down, 0);
        for (int ms = 0; ms <= DD_HANDSHAKE_MS + 500 && !b.down; ms += 500)
            conn_tick(b.c, t + hour + (uint64_t)ms * 1000000u);
        ck_assert_int_eq(b.down, 1);
        close(fd);
    }
}
END_TEST

START_TEST(addresses_that_refuse_or_belong_to_others_are_passed_over)
{
    struct sockaddr_storage three[3];
    struct end a = {0}, other = {0}, b = {0};
    uint16_t closed, strange;
    struct sockaddr_storage any = address;
    ((struct sockaddr_in *)&any)->sin_port = 0;
    int c = conn_listen(&any, &closed), s = conn_listen(&any, &strange);
    close(c);
    for (int i = 0; i < 3; i++)
        three[i] = address;
    ((struct sockaddr_in *)&three[0])->sin_port = htons(closed);
    ((struct sockaddr_in *)&three[1])->sin_port = htons(strange);
    struct conn_identity wrong = id_b;
    wrong.cookie[0] ^= 1;
    ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, three, 3, &ops, &a), 0);
    struct pollfd p = {.fd = s, .events = POLLIN};
    LOOP_UNTIL(poll(&p, 1, 0) == 1, 2000, &a, NULL);
    ck_assert_int_eq(conn_accept(&other.c, ep, &wrong, accept4(s, NULL, NULL, SOCK_CLOEXEC), &ops, &other), 0);
    p.fd = listener;
    LOOP_UNTIL(poll(&p, 1, 0) == 1, 2000, &a, &other);
    ck_assert_int_eq(conn_accept(&b.c, ep, &id_b, accept_one(), &ops, &b), 0);
    LOOP_UNTIL(a.up && b.up && other.down, 2000, &a, &b);
    ck_assert_int_eq(a.down, 0);
    pair_end(&a, &b);
    close(s);
}
END_TEST

START_TEST(nobody_there_is_told_once)
{
    struct end a = {0};
    close(listener);
    int e = conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, &a);
    if (e == 0) {
        LOOP_UNTIL(a.down, 2000, &a, NULL);
        e = a.code;
    }
    ck_assert_int_eq(e, -ECONNREFUSED);
    listener = dup(ep);
}
END_TEST

/* --- messages --- */

START_TEST(thousands_of_small_messages_arrive_in_order_and_are_answered)
{
    struct end a = {.check_ids = true}, b = {.check_ids = true, .echo = true};
    pair_up(&a, &b);
    uint8_t key[300];
    memset(key, 'k', sizeof key);
    for (uint64_t i = 0; i < 20000; i++) {
        struct msg m = {.type = MSG_GET, .id = i, .key_len = 1 + (uint32_t)(i % 300)};
        ck_assert_int_eq(conn_send(a.c, &m, key, m.key_len, NULL, 0, NULL, NULL), 0);
        if (i % 1000 == 0)
            io_wait(ep, 0);
    }
    LOOP_UNTIL(a.messages == 20000, 5000, &a, &b);
    ck_assert_int_eq(b.messages, 20000);
    pair_end(&a, &b);
}
END_TEST

static uint8_t pattern(size_t i) { return (uint8_t)(i * 131 + (i >> 8) * 7 + (i >> 16)); }

/* Every byte checked; small messages in between. */
START_TEST(a_body_of_64_mib_in_pieces_arrives_whole)
{
    size_t size = (64u << 20) + 12345;
    uint8_t *value = malloc(size);
    struct end a = {0}, b = {.value = malloc(size), .value_cap = size};
    for (size_t i = 0; i < size; i++)
        value[i] = pattern(i);
    pair_up(&a, &b);
    for (size_t at = 0; at < size;) {
        if (conn_full(a.c)) {
            int before = a.drained;
            LOOP_UNTIL(a.drained > before, 5000, &a, &b);
            continue;
        }
        size_t n = size - at < DD_MSG_PIECE ? size - at : DD_MSG_PIECE;
        struct msg m = {.type = MSG_DATA, .id = 5, .aux = at, .flags = at + n == size ? MSGF_LAST : 0};
        if ((at / DD_MSG_PIECE) % 7 == 0) {
            struct msg small = {.type = MSG_DEL, .id = 6, .key_len = 9};
            ck_assert_int_eq(conn_send(a.c, &small, "small key", 9, NULL, 0, NULL, NULL), 0);
        }
        ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, value + at, n, on_done, &a), 0);
        at += n;
    }
    LOOP_UNTIL(b.value_got == size, 10000, &a, &b);
    ck_assert_int_eq(memcmp(value, b.value, size), 0);
    ck_assert_int_eq(a.dones, (int)((size + DD_MSG_PIECE - 1) / DD_MSG_PIECE));
    pair_end(&a, &b);
    free(value);
    free(b.value);
}
END_TEST

START_TEST(messages_cut_at_every_byte_are_put_together)
{
    struct end b = {.copy = malloc(MSG_LEN_MAX), .copy_cap = MSG_LEN_MAX, .check_ids = true};
    int fd = raw_up(&b);
    uint8_t bytes[4 * (64 + 40)];
    size_t len = 0;
    for (uint64_t i = 0; i < 4; i++) {
        struct msg m = {.len = 64 + 10 * (uint32_t)i + 1, .type = MSG_GET, .id = i, .key_len = 10 * (uint32_t)i + 1};
        memcpy(bytes + len, &m, 64);
        memset(bytes + len + 64, 'a' + (int)i, m.key_len);
        len += m.len;
    }
    for (size_t i = 0; i < len; i++) {
        raw_send(fd, bytes + i, 1);
        io_wait(ep, i % 16 == 0 ? 1 : 0);
    }
    LOOP_UNTIL(b.messages == 4, 2000, &b, NULL);
    ck_assert_uint_eq(b.last.key_len, 31);
    for (int i = 0; i < 31; i++)
        ck_assert_int_eq(b.copy[i], 'd');
    close(fd);
    LOOP_UNTIL(b.down, 2000, &b, NULL);
    ck_assert_int_eq(b.code, -ECONNRESET);
    free(b.copy);
}
END_TEST

START_TEST(a_slow_reader_holds_the_writer_back_and_loses_nothing)
{
    struct end a = {0}, b = {.pause_after = 3};
    size_t size = 32u << 20;
    uint8_t *value = malloc(size);
    for (size_t i = 0; i < size; i++)
        value[i] = pattern(i);
    b.value = malloc(size);
    b.value_cap = size;
    pair_up(&a, &b);
    size_t at = 0;
    for (int idle = 0; idle < 20;) {
        if (conn_full(a.c) || at >= size) {
            idle = io_wait(ep, 5) == 0 ? idle + 1 : 0;
            continue;
        }
        struct msg m = {.type = MSG_DATA, .id = 5, .aux = at};
        ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, value + at, 65536, on_done, &a), 0);
        at += 65536;
    }
    ck_assert(conn_full(a.c));
    ck_assert_uint_lt(at, size);         /* what is under way is bounded: queue, and the sockets' buffers */
    ck_assert_int_eq(b.messages, 3);
    int drained = a.drained; /* the sockets' buffers took some */
    conn_pause(b.c, false);
    LOOP_UNTIL(a.drained == drained + 1, 5000, &a, &b);
    LOOP_UNTIL(b.value_got == at, 5000, &a, &b);
    ck_assert_int_eq(memcmp(value, b.value, at), 0);
    ck_assert_int_eq(a.dones, b.messages);
    pair_end(&a, &b);
    free(value);
    free(b.value);
}
END_TEST

START_TEST(messages_in_the_buffer_come_after_a_pause_without_new_bytes)
{
    struct end b = {.pause_after = 2};
    int fd = raw_up(&b);
    struct msg m[5];
    for (int i = 0; i < 5; i++)
        m[i] = (struct msg){.len = 64, .type = MSG_LEN, .id = (uint64_t)i};
    raw_send(fd, m, sizeof m);
    LOOP_UNTIL(b.messages == 2, 2000, &b, NULL);
    for (int i = 0; i < 5; i++)
        io_wait(ep, 1);
    ck_assert_int_eq(b.messages, 2);
    conn_pause(b.c, false);
    ck_assert_int_eq(b.messages, 2); /* not from within conn_pause() */
    io_wait(ep, 0);
    ck_assert_int_eq(b.messages, 5);
    conn_free(b.c);
    close(fd);
}
END_TEST

static void expect_malformed(struct msg m, const void *payload, size_t n)
{
    struct end b = {0};
    uint64_t before = conn_refused();
    int fd = raw_up(&b);
    raw_send(fd, &m, sizeof m);
    raw_send(fd, payload, n);
    LOOP_UNTIL(b.down, 2000, &b, NULL);
    ck_assert_int_eq(b.code, DDICT_EPROTO);
    ck_assert_int_eq(b.messages, 0);
    ck_assert_uint_eq(conn_refused(), before + 1);
    close(fd);
}

START_TEST(malformed_and_oversize_messages_close_the_connection)
{
    expect_malformed((struct msg){.len = 63, .type = MSG_LEN}, NULL, 0);
    expect_malformed((struct msg){.len = 0, .type = MSG_LEN}, NULL, 0);
    expect_malformed((struct msg){.len = 64, .type = MSG_TYPE_N}, NULL, 0);
    expect_malformed((struct msg){.len = 64, .type = 0}, NULL, 0);
    expect_malformed((struct msg){.len = 128, .type = MSG_PAD}, NULL, 0);
    expect_malformed((struct msg){.len = MSG_LEN_MAX + 1, .type = MSG_REPLY}, NULL, 0);
    expect_malformed((struct msg){.len = UINT32_MAX, .type = MSG_REPLY}, NULL, 0);
    expect_malformed((struct msg){.len = 65, .type = MSG_LEN}, "x", 1);
    expect_malformed((struct msg){.len = 66, .type = MSG_GET, .key_len = 3}, "xx", 2);
    expect_malformed((struct msg){.len = 66, .type = MSG_PUT, .key_len = 1, .val_len = 2}, "xx", 2);
    expect_malformed((struct msg){.len = 66, .type = MSG_PUT, .key_len = UINT32_MAX, .val_len = 3}, "xx", 2);
}
END_TEST

START_TEST(an_owner_that_refuses_a_message_closes_the_connection)
{
    struct end a = {0}, b = {.refuse = DDICT_EPROTO};
    pair_up(&a, &b);
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    LOOP_UNTIL(a.down && b.down, 2000, &a, &b);
    ck_assert_int_eq(b.code, DDICT_EPROTO);
    ck_assert_int_eq(b.messages, 1);
}
END_TEST

START_TEST(what_the_peer_would_refuse_is_not_sent)
{
    struct end a = {0}, b = {0};
    pair_up(&a, &b);
    struct msg bad = {.type = MSG_PUT, .key_len = 5, .val_len = 5};
    ck_assert_int_eq(conn_send(a.c, &bad, "key", 3, NULL, 0, NULL, NULL), DDICT_EPROTO);
    struct msg big = {.type = MSG_REPLY};
    uint8_t *huge = calloc(1, DD_MSG_INLINE + 1);
    ck_assert_int_eq(conn_send(a.c, &big, huge, DD_MSG_INLINE + 1, NULL, 0, NULL, NULL), DDICT_EPROTO);
    ck_assert_int_eq(conn_send(a.c, &big, huge, DD_MSG_INLINE, NULL, 0, NULL, NULL), 0);
    LOOP_UNTIL(b.messages == 1, 2000, &a, &b);
    ck_assert_uint_eq(b.last.len, MSG_LEN_MAX);
    ck_assert_int_eq(a.down + b.down, 0);
    free(huge);
    pair_end(&a, &b);
}
END_TEST

START_TEST(a_connection_may_be_freed_in_any_callback)
{
    struct end a = {0}, b = {.free_in_message = true};
    pair_up(&a, &b);
    for (uint64_t i = 0; i < 10; i++) {
        struct msg m = {.type = MSG_LEN, .id = i};
        ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    }
    LOOP_UNTIL(a.down, 2000, &a, NULL);
    ck_assert_int_eq(b.messages, 1);
    ck_assert_int_eq(b.down, 0);
    struct end x = {.free_in_up = true}, y = {0};
    pair_start(&x, &y);
    LOOP_UNTIL(x.up && y.down, 2000, &x, &y);
}
END_TEST

START_TEST(conn_free_calls_done_of_what_is_queued_and_nothing_else)
{
    struct end a = {0}, b = {0};
    pair_up(&a, &b);
    struct msg m = {.type = MSG_PUT, .key_len = 1, .val_len = 3};
    ck_assert_int_eq(conn_send(a.c, &m, "k", 1, "abc", 3, on_done, &a), 0);
    ck_assert_int_eq(a.dones, 0);
    pair_end(&a, &b);
    ck_assert_int_eq(a.dones, 1);
    ck_assert_int_eq(a.down + b.down, 0);
    conn_free(NULL);
}
END_TEST

START_TEST(a_flush_writes_without_the_loop)
{
    struct end b = {0};
    struct end a = {0};
    pair_up(&a, &b);
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    struct pollfd p = {.fd = conn_fd(b.c), .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 20), 0);
    conn_flush(a.c);
    ck_assert_int_eq(poll(&p, 1, 1000), 1);
    pair_end(&a, &b);
}
END_TEST

/* --- fuzz --- */

START_TEST(random_bytes_before_and_after_the_handshake_do_no_harm)
{
    uint64_t seed = 42;
    for (int round = 0; round < 200; round++) {
        struct end b = {0};
        bool proved = round % 2;
        int fd = proved ? raw_up(&b) : raw_attack(&b);
        uint8_t junk[2048];
        for (int k = 0; k < 3 && !b.down; k++) {
            size_t n = test_random(&seed) % sizeof junk;
            for (size_t i = 0; i < n; i++)
                junk[i] = (uint8_t)test_random(&seed);
            if (proved && n > 64) { /* plausible heads go further */
                struct msg *m = (struct msg *)junk;
                m->len = 64 + (uint32_t)(test_random(&seed) % 200);
                m->type = (uint16_t)(test_random(&seed) % (MSG_TYPE_N + 1));
                m->flags &= (uint16_t)test_random(&seed) & 0xf;
                m->key_len = (uint32_t)(test_random(&seed) % 3 ? m->len - 64 : 0);
                m->val_len %= 300;
            }
            send(fd, junk, n, MSG_NOSIGNAL);
            io_wait(ep, 1);
        }
        if (!proved)
            ck_assert_int_eq(b.messages + b.up, 0);
        close(fd);
        LOOP_UNTIL(b.down, 2000, &b, NULL);
        ck_assert_int_eq(b.down, 1);
    }
}
END_TEST

START_TEST(addresses_of_this_node_end_with_loopback)
{
    struct sockaddr_storage a[32];
    char host[256];
    gethostname(host, sizeof host);
    int n = conn_addresses(host, a, 32);
    ck_assert_int_ge(n, 1);
    bool loop = false;
    for (int i = 0; i < n; i++) {
        ck_assert(a[i].ss_family == AF_INET || a[i].ss_family == AF_INET6);
        bool this_loops = a[i].ss_family == AF_INET ? ntohl(((struct sockaddr_in *)&a[i])->sin_addr.s_addr) >> 24 == 127
                                                    : IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&a[i])->sin6_addr);
        ck_assert(this_loops || !loop);
        loop = this_loops;
    }
    ck_assert_int_eq(conn_addresses("no.such.host.invalid", a, 1), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wire_conn");
    TCase *c = tcase_create("handshake");
    tcase_set_timeout(c, 20);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, both_ends_come_up_and_know_each_other);
    tcase_add_test(c, what_is_queued_before_up_arrives);
    tcase_add_test(c, a_wrong_cookie_is_refused_on_both_ends);
    tcase_add_test(c, another_dictionary_is_refused);
    tcase_add_test(c, a_hello_for_somebody_else_is_refused);
    tcase_add_test(c, another_protocol_version_is_told_apart);
    tcase_add_test(c, a_mac_of_zeros_or_of_the_wrong_letter_is_refused);
    tcase_add_test(c, an_opener_that_is_reflected_to_itself_learns_nothing);
    tcase_add_test(c, a_recorded_handshake_cannot_be_played_again);
    tcase_add_test(c, a_change_of_any_byte_on_the_way_is_noticed);
    tcase_add_test(c, bytes_that_follow_an_unproved_handshake_are_not_read);
    tcase_add_test(c, a_peer_that_dies_at_any_step_of_the_handshake_is_told);
    tcase_add_test(c, an_acceptor_that_dies_at_any_step_is_told_to_the_opener);
    tcase_add_test(c, silence_in_the_handshake_ends_it_within_its_deadline);
    tcase_add_test(c, a_suspended_process_gets_its_time_back);
    tcase_add_test(c, addresses_that_refuse_or_belong_to_others_are_passed_over);
    tcase_add_test(c, nobody_there_is_told_once);
    suite_add_tcase(s, c);
    c = tcase_create("messages");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, thousands_of_small_messages_arrive_in_order_and_are_answered);
    tcase_add_test(c, a_body_of_64_mib_in_pieces_arrives_whole);
    tcase_add_test(c, messages_cut_at_every_byte_are_put_together);
    tcase_add_test(c, a_slow_reader_holds_the_writer_back_and_loses_nothing);
    tcase_add_test(c, messages_in_the_buffer_come_after_a_pause_without_new_bytes);
    tcase_add_test(c, malformed_and_oversize_messages_close_the_connection);
    tcase_add_test(c, an_owner_that_refuses_a_message_closes_the_connection);
    tcase_add_test(c, what_the_peer_would_refuse_is_not_sent);
    tcase_add_test(c, a_connection_may_be_freed_in_any_callback);
    tcase_add_test(c, conn_free_calls_done_of_what_is_queued_and_nothing_else);
    tcase_add_test(c, a_flush_writes_without_the_loop);
    tcase_add_test(c, random_bytes_before_and_after_the_handshake_do_no_harm);
    tcase_add_test(c, addresses_of_this_node_end_with_loopback);
    suite_add_tcase(s, c);
    return wire_main(s);
}
