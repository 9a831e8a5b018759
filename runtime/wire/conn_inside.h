/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_inside.h - shared by the files of a connection: conn.c, its life; conn_open.c, until it is
 * up; conn_strangers.c, how many may be in their handshake; conn_parts.c, payloads that the owner
 * takes in parts; conn_sealed.c, records between the messages and the socket. What fails leaves its
 * code by conn_fail(), and conn.c acts on it. One thread.
 */
#ifndef DDICT_WIRE_CONN_INSIDE_H
#define DDICT_WIRE_CONN_INSIDE_H

#include "handshake.h"
#include "identity.h"
#include "live.h"
#include "loop.h"
#include "msg.h"
#include "out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define IN_BUFFER (256u << 10) /* for many small messages per recv(), and for any whole message */
/* read behind a large payload; the next large one is then received into its place without a copy */
#define IN_AFTER_BULK 4096u
#define BULK          16384u /* a payload from here on is large */
#define ROUNDS        8      /* recv() calls before other connections have their turn */
_Static_assert(MSG_LEN_MAX <= IN_BUFFER / 2, "a whole message fits behind part of another");

struct conn_ops;
enum conn_state { CONNECTING, AUTH, UP, ENDED };

struct conn {
    struct io_handler io; /* first: see loop.h */
    struct io_deferred later;
    int epoll_fd;
    uint32_t interest; /* epoll events asked for */
    enum conn_state state;
    int code;      /* why it ends; 0: it does not */
    unsigned busy; /* depth of calls into this connection */
    bool freed;    /* conn_free() was called while busy */
    bool opener, paused, blocked, full_seen;

    const struct conn_ops *ops;
    void *arg;
    struct conn_identity me;

    struct sockaddr_storage *addr; /* opener's, until UP */
    int naddr, next_addr;
    /* an address refused the handshake: reported rather than a later failure of the network */
    int auth_code;
    bool patient, late;   /* conn_patience(); then: an address gave no answer */
    uint64_t deadline_ns; /* opener: of this address; acceptor: of the handshake */
    uint64_t give_up_ns;  /* opener: of all addresses together */
    uint64_t tick_ns;     /* the last look at the clock */

    struct handshake hs;
    /* acceptor, before UP: in the list of strangers, with a hash of its address */
    bool stranger;
    uint8_t from;
    TAILQ_ENTRY(conn) strangers;

    struct out out;
    struct live live;
    struct sealed *sealed; /* NULL: messages are sent without records */

    uint8_t *in; /* IN_BUFFER bytes, from UP on */
    uint32_t in_pos, in_end;
    bool have_msg, bulk;
    bool parts;   /* the owner takes the payload of this message in parts */
    struct msg m; /* while have_msg: its payload is being received */
    uint8_t *dst; /* NULL: into `in` */
    uint32_t got; /* bytes at dst, or taken in parts */
    /* place of the part that is being received, valid only during a receive; NULL: none */
    uint8_t *part;
    uint32_t room, fill; /* its size, and bytes received */
};

static inline void conn_fail(struct conn *c, int code) {
    if (c->code == 0)
        c->code = code;
}

static inline bool conn_may_read(const struct conn *c) {
    return c->code == 0 && !c->freed && !c->paused;
}

/* --- conn_open.c --- */
/* Begin with fd, which belongs to c from here on, also on failure. */
int conn_socket_take(struct conn *c, int fd, uint32_t interest);
void conn_socket_close(struct conn *c);
/* Try the next address; code: why the last one failed. 0: under way; negative: none is left. */
int conn_next_address(struct conn *c, int code);
void conn_connect_finish(struct conn *c); /* the socket is writable: CONNECTING to AUTH */
/* The next turn of the handshake; AUTH to UP when it is done. */
void conn_handshake(struct conn *c);
/* A gap after a suspension of this process is not the peer's fault. */
void conn_gap_extend(struct conn *c, uint64_t now);

/* --- conn_strangers.c --- */
/* c was accepted. If there are too many, the address with most of them loses its oldest. */
void conn_stranger_come(struct conn *c);
void conn_stranger_leave(struct conn *c); /* authenticated, or over; allowed when it is none */

/* --- conn_parts.c: the message in c->m --- */
/* ask the owner for a place for the next part; false: there is none now */
bool conn_part_begin(struct conn *c);
/* give the owner what is in the buffer; false: the payload is not complete */
bool conn_part_take(struct conn *c);
void conn_part_end(struct conn *c); /* give the owner the part that is being received */

/* --- conn_sealed.c: messages <-> records <-> socket --- */
int sealed_begin(struct conn *c); /* after the handshake, if the ends agreed on protection */
int sealed_write(struct conn *c); /* as out_write() */
/* One recv(). Bytes received, -EAGAIN, or why the connection ends; *room: bytes that could have
 * been received. */
int sealed_read(struct conn *c, size_t *room);
/* Open the next record and append its bytes to `in`. 1; 0: none is complete; or why the connection
 * ends. */
int sealed_next(struct conn *c);
/* bytes of messages in the record that the socket has not taken completely */
size_t sealed_left(const struct conn *c);
void sealed_end(struct conn *c);

#endif
