/* SPDX-License-Identifier: Apache-2.0 */
/* lane_ends.h - the client's end of a lane, and the test as the manager at the other end. */
#ifndef DDICT_TESTS_LANE_ENDS_H
#define DDICT_TESTS_LANE_ENDS_H

#include <check.h>
#include <errno.h>
#include <lib/client_lane_inside.h>
#include <lib/handle.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct session session;
static struct status_page status_page;
static struct node_manager manager;
static struct arena_header *header;
static struct lane other; /* the manager's end */
static int event_fd;

static void begin(void) {
    int fd = lane_create();
    ck_assert(fd >= 0);
    status_page.state = STATUS_READY;
    session = (struct session){
        .sock = -1, .status_page = &status_page, .timeout_ms = 2000, .wait_ms = 2000};
    header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(&manager, 0, sizeof manager);
    manager.id = 3;
    manager.arena = (struct arena_view){.header = header, .map_len = 4096, .local_index = 1};
    event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_eq(client_lane_open(&manager.lane, &manager, fd, dup(event_fd)), 0);
    ck_assert_int_eq(lane_map(&other, fd, false), 0);
    close(fd);
}

static void end(void) {
    client_lane_close(&manager.lane);
    lane_unmap(&other);
    munmap(header, 4096);
    close(event_fd);
}

/* --- the manager's side --- */

static bool next(struct msg *m, uint8_t *payload) /* the next request, taken out */
{
    const uint8_t *p = NULL;
    int rc = ring_peek(&other.sq, m, &p);
    ck_assert_int_ge(rc, 0);
    if (rc == 0)
        return false;
    if (payload)
        memcpy(payload, p, m->len - MSG_HEADER);
    ring_consume(&other.sq, m);
    lane_wake_client(&other);
    return true;
}

static void await(struct msg *m, uint8_t *payload) {
    uint64_t end_at = clock_ns() + 30000000000u;
    while (!next(m, payload)) {
        ck_assert_msg(clock_ns() < end_at, "no request came");
        usleep(100);
    }
}

static void answer(const struct msg *m, const void *payload) {
    bool bad = false;
    uint8_t *at;
    uint64_t end_at = clock_ns() + 30000000000u;
    while (!(at = ring_reserve(&other.cq, m->len, &bad))) {
        ck_assert_msg(!bad && clock_ns() < end_at, "no room for an answer");
        usleep(100);
    }
    memcpy(at, m, sizeof *m);
    if (m->len > MSG_HEADER)
        memcpy(at + MSG_HEADER, payload, m->len - MSG_HEADER);
    ring_commit(&other.cq);
    lane_wake_client(&other);
}

static struct msg reply_to(const struct msg *req, int status) {
    return (struct msg){
        .len = MSG_HEADER, .type = MSG_REPLY, .id = req->id, .status = status, .manager = 3};
}

/* --- the requester's side, in a thread --- */

struct requester {
    pthread_t thread;
    struct request r;
    struct outgoing out;
    struct iovec iov;
    struct call_deadline w;
    int rc, timeout_ms;
};

static void *requester_run(void *arg) {
    struct requester *a = arg;
    call_deadline_init(&a->w, &session, a->timeout_ms);
    a->rc = client_lane_ask(&manager.lane, &a->out, &a->r, &a->w);
    if (a->rc == 0)
        a->rc = a->r.status;
    return NULL;
}

static void requester_start(struct requester *a, enum msg_type type, enum sink sink, void *buf,
                            size_t cap, int timeout_ms) {
    memset(a, 0, sizeof *a);
    bool key = type == MSG_GET || type == MSG_HEAD || type == MSG_POP || type == MSG_DEL ||
               type == MSG_PUT;
    a->out.head = (struct msg){.type = type, .key_len = key ? 3 : 0, .manager = 3};
    a->out.key = "key";
    a->r.sink = sink;
    a->r.buf = buf;
    a->r.cap = cap;
    a->timeout_ms = timeout_ms;
    pthread_create(&a->thread, NULL, requester_run, a);
}

static void put_start(struct requester *a, void *val, size_t len, int timeout_ms) {
    memset(a, 0, sizeof *a);
    a->iov = (struct iovec){val, len};
    a->out =
        (struct outgoing){.head = {.type = MSG_PUT, .key_len = 3, .val_len = len, .manager = 3},
                          .key = "key",
                          .iov = &a->iov,
                          .niov = 1};
    a->timeout_ms = timeout_ms;
    pthread_create(&a->thread, NULL, requester_run, a);
}

static inline int requester_end(struct requester *a) {
    pthread_join(a->thread, NULL);
    request_drop(&a->r);
    return a->rc;
}

/* --- a value that goes out in pieces --- */

static unsigned char large[3 * MIB + 5], came[sizeof large], payload[MSG_LEN_MAX];

static void large_fill(void) {
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (unsigned char)(i * 13 ^ i >> 11);
    memset(came, 0, sizeof came);
}

#endif
