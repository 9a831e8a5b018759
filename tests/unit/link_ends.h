/* SPDX-License-Identifier: Apache-2.0 */
/* link_ends.h - two links of one process that are each other's ends, for the tests of them. */
#ifndef DDICT_TEST_LINK_ENDS_H
#define DDICT_TEST_LINK_ENDS_H

#include "wire_ends.h" /* the identities and the listener */
#include <base/error.h>
#include <wire/fabric/fabric.h>
#include <wire/link.h>

struct lend {
    struct link_setup setup;
    struct link *l;
    int up, down, code, drained, messages, dones, pause_after, refuse;
    struct msg last;
    uint8_t *value; /* DATA goes here, at aux */
    size_t value_cap, value_got;
    uint64_t sum; /* of payloads that came in the link's buffer */
    uint64_t next_id;
    bool echo, free_in_message;
};

static struct lend a, b;

static inline void l_up(struct link *l, void *arg, uint32_t peer) {
    struct lend *e = arg;
    e->up++;
    ck_assert_uint_eq(peer, e == &a ? B_ID : A_ID);
}
static inline void *l_payload_to(struct link *l, void *arg, const struct msg *m) {
    struct lend *e = arg;
    if (m->type != MSG_DATA || !e->value)
        return NULL;
    ck_assert_uint_le(m->aux + m->len - MSG_HEADER, e->value_cap);
    return e->value + m->aux;
}
static inline int l_message(struct link *l, void *arg, const struct msg *m, void *payload) {
    struct lend *e = arg;
    ck_assert_int_eq(e->up, 1);
    e->messages++;
    e->last = *m;
    if (m->type == MSG_DATA && e->value) {
        ck_assert_ptr_eq(payload, e->value + m->aux);
        e->value_got += m->len - MSG_HEADER;
    } else {
        ck_assert_uint_eq(m->id, e->next_id++);
        for (uint32_t i = 0; i < m->len - MSG_HEADER; i++)
            e->sum += ((uint8_t *)payload)[i];
    }
    if (e->echo) {
        struct msg r = {.type = MSG_REPLY, .id = m->id};
        ck_assert_int_eq(link_send(l, &r, NULL, 0, NULL, 0, NULL, NULL), 0);
    }
    if (e->messages == e->pause_after)
        link_pause(l, true);
    if (e->free_in_message) {
        link_free(l);
        e->l = NULL;
    }
    return e->refuse;
}
static inline void l_drained(struct link *l, void *arg) {
    ((struct lend *)arg)->drained++;
}
static inline void l_down(struct link *l, void *arg, int code) {
    struct lend *e = arg;
    e->down++;
    e->code = code;
    link_free(l);
    e->l = NULL;
}
static inline void l_done(void *arg) {
    ((struct lend *)arg)->dones++;
}
static const struct link_ops link_ops = {l_up, l_payload_to, l_message, l_drained, l_down};

#define UNTIL(cond, ms)                                                                        \
    do {                                                                                       \
        uint64_t end_ms_ = clock_ms() + 4 * (ms); /* on a busy machine */                      \
        while (!(cond)) {                                                                      \
            ck_assert_msg(clock_ms() < end_ms_, "not within %d ms: %s", 4 * (int)(ms), #cond); \
            ck_assert_int_ge(io_wait(ep, 50), 0);                                              \
            if (a.l)                                                                           \
                link_tick(a.l, clock_ns());                                                    \
            if (b.l)                                                                           \
                link_tick(b.l, clock_ns());                                                    \
        }                                                                                      \
    } while (0)

static char provider[FABRIC_NAME_MAX]; /* of carrier 1; 0 is TCP */

static inline void begin(int carrier) {
    a = (struct lend){.setup = {.epoll_fd = ep, .me = &id_a}};
    b = (struct lend){.setup = {.epoll_fd = ep, .me = &id_b}};
    if (carrier == 1) {
        ck_assert_int_eq(fabric_open(&a.setup.fabric, ep, provider, "localhost"), 0);
        ck_assert_int_eq(fabric_open(&b.setup.fabric, ep, provider, "localhost"), 0);
    }
}
static inline void join(void) {
    ck_assert_int_eq(link_open(&a.l, &a.setup, B_ID, &address, 1, &link_ops, &a), 0);
    ck_assert_int_eq(link_accept(&b.l, &b.setup, accept_one(), &link_ops, &b), 0);
    UNTIL(a.up && b.up, 10000);
}
static inline void finish(void) {
    link_free(a.l);
    link_free(b.l);
    fabric_close(a.setup.fabric);
    fabric_close(b.setup.fabric);
}

#endif
