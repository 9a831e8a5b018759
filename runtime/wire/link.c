/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - a link to a manager of another node: a TCP connection, and with libfabric a channel for
 * the messages.
 *
 *     opener    TCP up -> OFFER ->      waits for OFFER, connects the channel -> up
 *     acceptor  TCP up -> waits for OFFER, connects the channel -> OFFER -> up
 *
 * Beside a channel, TCP carries only NUDGE and TOOK (channel.c), and its end shows at once that the
 * other process or its node is gone.
 */
#include "link.h"

#include "auth.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <wire/fabric/channel.h>
#include <wire/fabric/fabric.h>
#include <wire/fabric/fabric_memory.h>

#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct link {
    struct conn *conn;
    bool more; /* a further link beside another */
    /* NULL: messages go by TCP; an acceptor's may not be up yet */
    struct channel *channel;
    const struct link_setup *setup;
    const struct link_ops *ops;
    void *arg;
    unsigned busy; /* depth of calls of the owner */
    bool freed, opener, offered, up, reads;
    uint32_t peer;
    uint64_t deadline_ns; /* for the other end's offer */
};

static void link_leave(struct link *l) {
    if (--l->busy == 0 && l->freed)
        free(l);
}

/* --- what the owner is told --- */

static void come_up(struct link *l, uint32_t peer) {
    l->up = true;
    if (l->ops->up)
        l->ops->up(l, l->arg, peer);
}

static void *payload_to(void *arg, const struct msg *m) {
    struct link *l = arg;
    return l->ops->payload_to ? l->ops->payload_to(l, l->arg, m) : NULL;
}

static int link_on_message(void *arg, const struct msg *m, void *payload) {
    struct link *l = arg;
    return l->ops->message(l, l->arg, m, payload);
}

static void link_on_drained(void *arg) {
    struct link *l = arg;
    if (l->ops->drained)
        l->ops->drained(l, l->arg);
}

/* --- the channel --- */

static void link_on_nudge(void *arg) {
    struct msg m = {.type = MSG_LINK_NUDGE};
    /* errors are left to the end of the connection */
    conn_send(((struct link *)arg)->conn, &m, NULL, 0, NULL, 0, NULL, NULL);
}

static void link_on_broken(void *arg, int code) {
    conn_end(((struct link *)arg)->conn, code);
}

static const struct channel_ops channel_ops = {payload_to, link_on_message, link_on_drained,
                                               link_on_nudge, link_on_broken};

static int offer_send(struct link *l) {
    struct link_offer o = {.channel = channel_id(l->channel)};
    struct msg m = {.type = MSG_LINK_OFFER};
    strncpy(o.provider, fabric_name(l->setup->fabric), sizeof o.provider - 1);
    o.address_len = (uint32_t)fabric_address(l->setup->fabric, o.address);
    o.reads = fabric_shares(l->setup->fabric);
    l->offered = true;
    return o.address_len > 0 ? conn_send(l->conn, &m, &o, sizeof o, NULL, 0, NULL, NULL)
                             : -EADDRNOTAVAIL;
}

/* The frames carry secrets of this connection, so only its two ends can use the channel. */
static int channel_join(struct link *l, const struct link_offer *o) {
    uint8_t a[AUTH_MAC], b[AUTH_MAC];
    conn_secret(l->conn, 'a', a);
    conn_secret(l->conn, 'b', b);
    int e = channel_connect(l->channel, o->address, o->address_len, o->channel, l->opener ? a : b,
                            l->opener ? b : a);
    auth_forget(a, sizeof a);
    auth_forget(b, sizeof b);
    return e;
}

static int offer_take(struct link *l, const struct msg *m, const void *payload) {
    struct link_offer o;
    if (!l->setup->fabric || l->up || m->len - MSG_HEADER != sizeof o)
        return DDICT_EPROTO;
    memcpy(&o, payload, sizeof o);
    o.provider[sizeof o.provider - 1] = 0;
    if (strcmp(o.provider, fabric_name(l->setup->fabric)) != 0) {
        log_warn("manager %u offers messages by %s, and we have %s", l->peer, o.provider,
                 fabric_name(l->setup->fabric));
        return DDICT_EPROTO;
    }
    int e = channel_join(l, &o);
    if (e == 0 && !l->opener)
        e = offer_send(l);
    l->reads = o.reads && fabric_shares(l->setup->fabric);
    if (e == 0)
        come_up(l, l->peer);
    return e;
}

static int link_read_nudge(struct link *l) {
    struct msg m = {.type = MSG_LINK_TOOK};
    l->busy++;
    fabric_work(l->setup->fabric);
    int e = 0;
    if (!l->freed) {
        m.aux = channel_taken(l->channel);
        e = conn_send(l->conn, &m, NULL, 0, NULL, 0, NULL, NULL);
    }
    link_leave(l);
    return e;
}

/* --- the connection --- */

static void on_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct link *l = arg;
    int e = 0;
    l->peer = peer;
    l->more = role == ROLE_MORE;
    if (role != ROLE_DATA && (role != ROLE_MORE || l->setup->fabric)) {
        conn_end(c, DDICT_EAUTH); /* control connections have a port of their own */
        return;
    }
    if (!l->setup->fabric) {
        come_up(l, peer);
        return;
    }
    l->deadline_ns = clock_ns() + DD_HANDSHAKE_MS * 1000000ull;
    if (l->opener)
        e = offer_send(l);
    else
        e = channel_new(&l->channel, l->setup->fabric, &channel_ops, l);
    if (e < 0)
        conn_end(c, e);
}

static void *on_payload_to(struct conn *c, void *arg, const struct msg *m) {
    struct link *l = arg;
    return !l->setup->fabric && l->ops->payload_to ? l->ops->payload_to(l, l->arg, m) : NULL;
}

static int on_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct link *l = arg;
    if (!l->setup->fabric)
        return m->type < MSG_LINK_OFFER || m->type > MSG_LINK_TOOK
                   ? l->ops->message(l, l->arg, m, payload)
                   : DDICT_EPROTO;
    switch (m->type) {
    case MSG_LINK_OFFER:
        return offer_take(l, m, payload);
    case MSG_LINK_NUDGE:
        return l->up ? link_read_nudge(l) : DDICT_EPROTO;
    case MSG_LINK_TOOK:
        if (!l->up)
            return DDICT_EPROTO;
        channel_heard(l->channel, m->aux);
        return 0;
    default:
        return DDICT_EPROTO;
    }
}

static void on_drained(struct conn *c, void *arg) {
    if (!((struct link *)arg)->setup->fabric)
        link_on_drained(arg);
}

static void on_down(struct conn *c, void *arg, int code) {
    struct link *l = arg;
    channel_free(l->channel);
    l->channel = NULL;
    if (l->ops->down)
        l->ops->down(l, l->arg, code);
}

static void *on_part_to(struct conn *c, void *arg, const struct msg *m, uint32_t got,
                        uint32_t *room) {
    struct link *l = arg;
    return !l->setup->fabric && l->ops->part_to ? l->ops->part_to(l, l->arg, m, got, room) : NULL;
}

static int on_part(struct conn *c, void *arg, const struct msg *m, uint32_t got, const void *at,
                   uint32_t n) {
    struct link *l = arg;
    return l->ops->part(l, l->arg, m, got, at, n);
}

static const struct conn_ops tcp_ops = {on_up,   on_payload_to, on_message, on_drained,
                                        on_down, on_part_to,    on_part};

/* --- owner's calls --- */

static struct link *link_new(const struct link_setup *setup, const struct link_ops *ops,
                             void *arg) {
    struct link *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->setup = setup;
    l->ops = ops;
    l->arg = arg;
    return l;
}

/* Random, so that a connection never counts to an earlier group of the same two ends. */
static uint64_t group_new(void) {
    uint64_t group = 0;
    while (group == 0)
        randombytes_buf(&group, sizeof group);
    return group;
}

static int link_start(struct link **out, const struct link_setup *setup, enum conn_role role,
                      uint64_t group, uint32_t to, const struct sockaddr_storage *addr, int naddr,
                      const struct link_ops *ops, void *arg) {
    struct conn_identity me = *setup->me;
    struct link *l = link_new(setup, ops, arg);
    if (!l)
        return -ENOMEM;
    l->opener = true;
    me.group = group;
    int e = setup->fabric ? channel_new(&l->channel, setup->fabric, &channel_ops, l) : 0;
    if (e == 0)
        e = conn_open(&l->conn, setup->epoll_fd, &me, role, to, addr, naddr, &tcp_ops, l);
    if (e < 0) {
        channel_free(l->channel);
        free(l);
    } else {
        *out = l;
    }
    return e;
}

int link_open(struct link **out, const struct link_setup *setup, uint32_t to,
              const struct sockaddr_storage *addr, int naddr, const struct link_ops *ops,
              void *arg) {
    return link_start(out, setup, ROLE_DATA, group_new(), to, addr, naddr, ops, arg);
}

int link_open_more(struct link **out, const struct link *first, const struct link_setup *setup,
                   uint32_t to, const struct sockaddr_storage *addr, int naddr,
                   const struct link_ops *ops, void *arg) {
    return link_start(out, setup, ROLE_MORE, conn_group(first->conn), to, addr, naddr, ops, arg);
}

int link_accept(struct link **out, const struct link_setup *setup, int fd,
                const struct link_ops *ops, void *arg) {
    struct link *l = link_new(setup, ops, arg);
    if (!l) {
        close(fd);
        return -ENOMEM;
    }
    int e = conn_accept(&l->conn, setup->epoll_fd, setup->me, fd, &tcp_ops, l);
    if (e < 0)
        free(l);
    else
        *out = l;
    return e;
}

void link_free(struct link *l) {
    if (!l || l->freed)
        return;
    l->freed = true;
    l->busy++;
    channel_free(l->channel);
    l->channel = NULL;
    conn_free(l->conn); /* no callback of it follows */
    link_leave(l);
}

int link_send(struct link *l, struct msg *m, const void *head, size_t head_len, const void *body,
              size_t body_len, void (*done)(void *arg), void *done_arg) {
    if (l->channel)
        return channel_send(l->channel, m, head, head_len, body, body_len, done, done_arg);
    if (l->setup->fabric)
        return -ECONNRESET; /* the connection has ended */
    return conn_send(l->conn, m, head, head_len, body, body_len, done, done_arg);
}

size_t link_queued(const struct link *l) {
    return l->channel ? channel_queued(l->channel) : conn_queued(l->conn);
}
bool link_full(const struct link *l) {
    return link_queued(l) > DD_PEER_INFLIGHT;
}
uint64_t link_position(const struct link *l) {
    return l->channel ? channel_position(l->channel) : conn_position(l->conn);
}
bool link_unsent(const struct link *l, uint64_t position) {
    return l->channel ? channel_unsent(l->channel, position) : conn_unsent(l->conn, position);
}

void link_pause(struct link *l, bool paused) {
    if (l->channel)
        channel_pause(l->channel, paused);
    else
        conn_pause(l->conn, paused);
}

void link_tick(struct link *l, uint64_t now_ns) {
    if (l->deadline_ns != 0 && !l->up && now_ns > l->deadline_ns)
        conn_end(l->conn, -ETIMEDOUT);
    conn_tick(l->conn, now_ns);
}

bool link_is_more(const struct link *l) {
    return l->more;
}
uint64_t link_group(const struct link *l) {
    return conn_group(l->conn);
}
uint32_t link_life(const struct link *l) {
    return conn_life(l->conn);
}
const char *link_carrier(const struct link *l) {
    return l->setup->fabric ? fabric_name(l->setup->fabric) : "tcp";
}

int link_address(const struct link *l, struct sockaddr_storage *a) {
    socklen_t len = sizeof *a;
    return getsockname(conn_fd(l->conn), (struct sockaddr *)a, &len) == 0 ? 0 : -errno;
}

/* TCP: one connection keeps one core busy at each end */
bool link_more_is_faster(const struct link *l) {
    return !l->setup->fabric;
}

bool link_reads(const struct link *l) {
    return l->up && l->reads && l->channel;
}

int link_read(struct link *l, void *to, const struct fabric_place *from,
              void (*done)(void *arg, int code), void *arg) {
    return link_reads(l) ? channel_read(l->channel, to, from, done, arg) : -ECONNRESET;
}
