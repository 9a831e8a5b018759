/* SPDX-License-Identifier: Apache-2.0 */
/* conn_inside.h - what the files of a connection share: conn.c, its life; conn_parts.c, payloads that the owner takes as they come. */
#ifndef DDICT_WIRE_CONN_INSIDE_H
#define DDICT_WIRE_CONN_INSIDE_H

#include <wire/conn.h>
#include <wire/handshake.h>
#include <wire/live.h>
#include <wire/loop.h>
#include <wire/out.h>

#include <sys/queue.h>

#define IN_BUFFER (256u << 10) /* takes many small messages per recv(), and any whole message */
#define IN_AFTER_BULK \
    4096u /* looked at behind a large payload, so that the next one goes to its place without a copy */
#define BULK   16384u /* a payload from here on is large */
#define ROUNDS 8      /* recv() calls before other connections have their turn */
_Static_assert(MSG_LEN_MAX <= IN_BUFFER / 2, "a whole message fits behind part of another");

enum conn_state { CONNECTING, AUTH, UP, ENDED };

struct conn {
    struct io_handler io; /* first: see loop.h */
    struct io_deferred later;
    int epoll_fd;
    uint32_t interest; /* epoll events asked for */
    enum conn_state state;
    int code;      /* why it ends; 0 while it does not */
    unsigned busy; /* calls under way in this connection */
    bool freed;    /* by conn_free() while busy */
    bool opener, paused, blocked, full_seen;

    const struct conn_ops *ops;
    void *arg;
    struct conn_identity me;

    struct sockaddr_storage *addr; /* opener's, until UP */
    int naddr, next_addr;
    int auth_code; /* an address where somebody else answered: better to report than the last refusal */
    uint64_t deadline_ns; /* opener: of this address; acceptor: of the handshake */
    uint64_t give_up_ns;  /* opener: of all addresses together */
    uint64_t tick_ns;     /* the last look at the clock */

    struct handshake hs;
    bool
        stranger; /* acceptor that is not UP: in the list of strangers, with a hash of where it comes from */
    uint8_t from;
    TAILQ_ENTRY(conn) strangers;

    struct out out;
    struct live live;

    uint8_t *in; /* IN_BUFFER bytes, from UP on */
    uint32_t in_pos, in_end;
    bool have_msg, bulk;
    bool parts;          /* of this message: the owner takes it as it comes */
    struct msg m;        /* when have_msg: its payload is coming */
    uint8_t *dst;        /* NULL: into `in` */
    uint32_t got;        /* bytes at dst, or taken in parts */
    uint8_t *part;       /* place of the part that is coming, only while we receive; NULL: none */
    uint32_t room, fill; /* of it */
};

static inline void conn_fail(struct conn *c, int code) {
    if (c->code == 0)
        c->code = code;
}

static inline bool conn_may_read(const struct conn *c) {
    return c->code == 0 && !c->freed && !c->paused;
}

/* --- conn_parts.c: the message in c->m --- */
bool conn_part_begin(
    struct conn *c); /* ask the owner where the next part goes; false: nowhere now */
bool conn_part_take(struct conn *c); /* what the buffer has of it; false: more has to come */
void conn_part_end(struct conn *c);  /* give what came of the part that is coming */

#endif
