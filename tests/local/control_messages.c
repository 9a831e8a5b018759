/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_messages.c - a real ddictd as node 0, and this test as the ddictd of node 1. Invariants: a
 * message whose payload is longer or shorter than it may be, or that a child must not send, closes
 * the connection, so the node is lost; the same message as it should be does not.
 */
#include "gather_line.h"
#include "unit.h"
#include <base/clock.h>
#include <base/error.h>
#include <supervisor/node_info.h>
#include <supervisor/save_passes.h>
#include <supervisor/supervisor.h>
#include <wire/auth.h>
#include <wire/conn.h>
#include <wire/loop.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 2, US = 1 };

static struct supervisor us;
static struct local_manager manager;
static uint8_t keys[NODES][KEY_SIZE];
static struct conn *conn;
static bool is_down;
static unsigned heard; /* bits: of the types that came */
static pid_t ddictd;
static int in = -1, out = -1;

static unsigned bit_of(unsigned type) {
    return 1u << (type - MSG_CTL_READY);
}
static int on_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    if (m->type >= MSG_CTL_READY && m->type < MSG_CTL_READY + 32)
        heard |= bit_of(m->type);
    return 0;
}
static void on_down(struct conn *c, void *arg, int code) {
    is_down = true;
}
static const struct conn_ops ops = {.message = on_message, .down = on_down};

/* --- ddictd --- */
static void ddictd_start(void) {
    int to[2], from[2];
    static int count;
    char name[40], node[40];
    const char *path = getenv("DDICTD");
    snprintf(name, sizeof name, "%u.local.c%d_%d", (unsigned)geteuid(), (int)getpid(), count);
    snprintf(node, sizeof node, "c%d-%d", (int)getpid(), count++);
    ck_assert(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    ddictd = fork();
    ck_assert_int_ge(ddictd, 0);
    if (ddictd == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl(path ? path : "./ddictd", "ddictd", "--name", name, "--node", node, "--managers", "2",
              "--mem", "32M", "--wireup", "stdio", "--nodes", "2", "--node-id", "0", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    in = to[1];
    out = from[0];
}

/* The rest of its first line that begins so. */
static const char *line_await(const char *start) {
    static char line[8192];
    do {
        size_t n = 0;
        struct pollfd p = {.fd = out, .events = POLLIN};
        do {
            ck_assert_int_eq(poll(&p, 1, 30000), 1);
            ck_assert_msg(read(out, line + n, 1) == 1, "it ended without a line %s", start);
            ck_assert_uint_lt(++n, sizeof line);
        } while (line[n - 1] != '\n');
        line[n - 1] = 0;
    } while (strncmp(line, start, strlen(start)) != 0);
    return line + strlen(start);
}

/* --- we are node 1 --- */
static bool has_infos;
static int on_infos(struct conn *c, void *arg, const struct msg *m, void *payload) {
    size_t len = m->len - MSG_HEADER;
    ck_assert_uint_eq(m->type, MSG_CTL_INFOS);
    ck_assert(m->flags & MSGF_LAST);
    ck_assert(len == strlen(arg) && memcmp(payload, arg, len) == 0);
    has_infos = true;
    return 0;
}
static const struct conn_ops infos_ops = {.message = on_infos, .down = on_down};

/* We give node 0 our node info, and get those of all. */
static void node_infos_gather(const char *mine, char *all) {
    uint8_t secret[NODES][KEY_SIZE];
    struct conn_identity me = {
        .keys = (const uint8_t(*)[KEY_SIZE])secret, .nodes = NODES, .self = US, .wire = SEAL_AUTH};
    struct msg m = {.type = MSG_CTL_INFO, .manager = US};
    struct conn *c;
    randombytes_buf(secret[0], KEY_SIZE);
    memcpy(secret[1], secret[0], KEY_SIZE);
    gather_line_write(in, all, secret[0]);
    has_infos = is_down = false;
    ck_assert_int_eq(conn_open(&c, us.epoll_fd, &me, ROLE_CONTROL, 0, us.control_at[0].addr,
                               us.control_at[0].naddr, &infos_ops, all),
                     0);
    ck_assert_int_eq(conn_send(c, &m, mine, strlen(mine), NULL, 0, NULL, NULL), 0);
    while (!has_infos) {
        ck_assert(!is_down);
        io_wait(us.epoll_fd, 20);
        conn_tick(c, clock_ns());
    }
    conn_free(c);
}

static void node_infos_exchange(void) {
    char text[4096], all[8192], info[4096];
    size_t len, other_len;
    struct node_info *mine = node_info_make(&us, NULL, &len);
    const char *other = line_await("ddict1 card 0 ");
    ck_assert_int_eq(sodium_base642bin((unsigned char *)info, sizeof info, other, strlen(other),
                                       NULL, &other_len, NULL, sodium_base64_VARIANT_ORIGINAL),
                     0);
    sodium_bin2base64(text, sizeof text, (unsigned char *)mine, len,
                      sodium_base64_VARIANT_ORIGINAL);
    snprintf(all, sizeof all, "%s %s", other, text);
    free(mine);
    ck_assert_int_eq(node_info_check(info, other_len, 0), 0);
    node_info_apply(&us, (struct node_info *)(void *)info);
    node_infos_gather(text, all);
    ck_assert_int_eq(
        auth_key(keys[0], us.secret_key, us.public_key, us.keys[0], us.identity.dict_id), 0);
}

/* --- what is said and heard --- */
static void turn_until(bool (*is)(unsigned), unsigned type) {
    while (!is(type)) {
        io_wait(us.epoll_fd, 20);
        conn_tick(conn, clock_ns());
    }
}
static bool is_closed(unsigned type) {
    return is_down;
}
static bool is_heard(unsigned type) {
    ck_assert(!is_down);
    return heard & bit_of(type);
}

static void say_with(unsigned type, uint64_t aux, size_t len) {
    static const char payload[8192];
    struct msg m = {.type = (uint16_t)type, .manager = UINT32_MAX, .aux = aux};
    ck_assert_int_eq(conn_send(conn, &m, payload, len, NULL, 0, NULL, NULL), 0);
}

static void say(unsigned type, size_t len) {
    say_with(type, 0, len);
}

static void begin(void) {
    ddictd_start();
    ck_assert_int_ge(sodium_init(), 0);
    us = (struct supervisor){.opt.replicas = 1,
                             .nodes = NODES,
                             .managers = 2,
                             .deal = {.owners = 2, .nodes = NODES, .keyed = NODES},
                             .node_id = US,
                             .local_n = 1};
    us.local = &manager;
    manager.port = 1;
    us.control_port = 1;
    strcpy(us.node, "localhost");
    us.opt.transport = "tcp";
    us.keys = calloc(NODES, sizeof *us.keys);
    us.peers = calloc(us.managers, sizeof *us.peers);
    us.node_names = calloc(NODES, NODE_NAME_MAX);
    us.control_at = calloc(NODES, sizeof *us.control_at);
    auth_pair(us.secret_key, us.public_key);
    us.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    node_infos_exchange();
    us.identity.keys = (const uint8_t(*)[KEY_SIZE])keys;
    us.identity.nodes = NODES;
    us.identity.self = US;
    us.identity.wire = SEAL_AUTH;
    is_down = false;
    heard = 0;
    ck_assert_int_eq(conn_open(&conn, us.epoll_fd, &us.identity, ROLE_CONTROL, 0,
                               us.control_at[0].addr, us.control_at[0].naddr, &ops, NULL),
                     0);
    say(MSG_CTL_READY, 0);
    turn_until(is_heard, MSG_CTL_READY);
}

static void end(void) {
    conn_free(conn);
    close(us.epoll_fd);
    close(in);
    close(out);
    kill(ddictd, SIGKILL);
    ck_assert_int_eq(waitpid(ddictd, NULL, 0), ddictd);
    free(us.keys);
    free(us.peers);
    free(us.node_names);
    free(us.control_at);
}

START_TEST(messages_as_they_should_be_are_heard) {
    begin();
    say(MSG_CTL_BEAT, 0);
    say(MSG_CTL_TASKS, 0);
    say(MSG_CTL_NOTE, sizeof(struct note));
    say(MSG_CTL_DRAINED, 0);
    say(MSG_CTL_DRAIN, 0);
    turn_until(is_heard, MSG_CTL_DRAIN);
    end();
}
END_TEST

/* For that, not because we say nothing any more. */
static void refused(unsigned type, size_t len) {
    char want[128];
    snprintf(want, sizeof want, "localhost is lost: %s", dd_strerror(DDICT_EPROTO));
    begin();
    say(type, len);
    turn_until(is_closed, type);
    const char *error = line_await("ddict1 error ");
    ck_assert_msg(strstr(error, want) != NULL, "%s of %zu bytes: %s", msg_name(type), len, error);
    end();
}

START_TEST(a_payload_where_there_should_be_none_is_refused) {
    static const unsigned types[] = {MSG_CTL_READY, MSG_CTL_DRAIN, MSG_CTL_DRAINED,
                                     MSG_CTL_END,   MSG_CTL_BEAT,  MSG_CTL_TASKS};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        refused(types[i], 1);
}
END_TEST

START_TEST(a_payload_of_another_length_is_refused) {
    refused(MSG_CTL_NOTE, 0);
    refused(MSG_CTL_NOTE, sizeof(struct note) - 1);
    refused(MSG_CTL_NOTE, sizeof(struct note) + 1);
    refused(MSG_CTL_SAVE, sizeof(struct save_word) - 1);
    refused(MSG_CTL_STEP, STEP_NAME_MAX);
    refused(MSG_CTL_MEET, STEP_NAME_MAX);
    refused(MSG_CTL_FREEZE, 1);
    refused(MSG_CTL_STATS, 1);
}
END_TEST

START_TEST(what_only_a_parent_says_is_refused) {
    refused(MSG_CTL_DONE, 0);
}
END_TEST

/* Node 0 hears nothing more of us for so long, or closes the connection before. */
static void silent_for(unsigned ms) {
    for (uint64_t end = clock_ms() + ms; !is_down && clock_ms() < end;) {
        io_wait(us.epoll_fd, 20);
        conn_tick(conn, clock_ns());
    }
}

START_TEST(a_node_that_the_kernel_slows_has_more_time) {
    begin();
    say_with(MSG_CTL_BEAT, 1, 0);
    silent_for(DD_PEER_LOST_MS + 4 * DD_PEER_BEAT_MS);
    ck_assert(!is_down);
    say(MSG_CTL_BEAT, 0);
    silent_for(DD_PEER_LOST_MS + 20 * DD_PEER_BEAT_MS);
    ck_assert(is_down);
    const char *error = line_await("ddict1 error ");
    ck_assert_msg(strstr(error, "silent for 10 s") != NULL, "%s", error);
    end();
}
END_TEST

UNIT_MAIN("control messages", a_node_that_the_kernel_slows_has_more_time,
          messages_as_they_should_be_are_heard, a_payload_where_there_should_be_none_is_refused,
          a_payload_of_another_length_is_refused, what_only_a_parent_says_is_refused)
