/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c - one TCP connection: it is opened or accepted (conn_open.c), then has messages both ways,
 * and ends.
 *
 * Failure is noted in `code` wherever it is seen; conn_leave() acts on it when the outermost call
 * into the connection ends: the next address, or the end. So callbacks may do anything,
 * conn_free() included.
 */
#include "conn.h"

#include "auth.h"
#include "conn_counts.h"
#include "conn_inside.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_ullong refused; /* relaxed: a counter for display */

void conn_count_refused(void) {
    atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
}
uint64_t conn_refused(void) {
    return atomic_load_explicit(&refused, memory_order_relaxed);
}
uint64_t conn_group(const struct conn *c) {
    return c->hs.hello.group;
}
uint32_t conn_life(const struct conn *c) {
    return c->hs.hello.life;
}
int conn_fd(const struct conn *c) {
    return c->io.fd;
}
size_t conn_queued(const struct conn *c) {
    return c->out.bytes + sealed_left(c);
}
bool conn_full(const struct conn *c) {
    return conn_queued(c) > DD_PEER_INFLIGHT;
}
uint64_t conn_position(const struct conn *c) {
    return c->out.written + c->out.bytes;
}
/* a record is useful to the peer only when it is complete */
bool conn_unsent(const struct conn *c, uint64_t position) {
    return c->out.written - sealed_left(c) < position;
}
enum seal_mode conn_wire(const struct conn *c) {
    return (enum seal_mode)(c->hs.challenge.wire & AUTH_MODE);
}

static bool conn_is_pending(const struct conn *c) {
    return c->out.count > 0 || sealed_left(c) > 0;
}

static void interest_update(struct conn *c) {
    if (c->io.fd < 0)
        return;
    uint32_t want = EPOLLOUT;
    if (c->state == AUTH)
        want = EPOLLIN | (handshake_writes(&c->hs) ? EPOLLOUT : 0);
    else if (c->state == UP)
        want = (c->paused ? 0 : EPOLLIN) | (c->blocked ? EPOLLOUT : 0);
    if (want == c->interest)
        return;
    int e = io_change(c->epoll_fd, &c->io, want);
    if (e < 0)
        conn_fail(c, e);
    else
        c->interest = want;
}

/* --- messages --- */

static void write_out(struct conn *c) {
    if (!conn_is_pending(c))
        return;
    int e = c->sealed ? sealed_write(c) : out_write(&c->out, c->io.fd);
    c->live.sent = true;
    c->blocked = e == 1;
    if (e < 0)
        conn_fail(c, e);
}

static void conn_flush_out(struct conn *c) {
    write_out(c);
    if (c->full_seen && c->code == 0 && conn_queued(c) < DD_PEER_INFLIGHT) {
        c->full_seen = false;
        if (c->ops->drained)
            c->ops->drained(c, c->arg);
    }
}

/* Give the owner all complete messages in the buffer. False: it is paused, or the connection
 * ends. */
static bool deliver_in(struct conn *c) {
    while (conn_may_read(c)) {
        if (!c->have_msg) {
            if (c->in_end - c->in_pos < MSG_HEADER)
                return true;
            memcpy(&c->m, c->in + c->in_pos, MSG_HEADER);
            if (msg_check(&c->m, MSG_LEN_MAX) != 0) {
                conn_fail(c, DDICT_EPROTO);
                return false;
            }
            conn_counts_heard(&c->m);
            c->in_pos += MSG_HEADER;
            c->have_msg = true;
            c->got = 0;
            c->dst = NULL;
            if (c->m.len > MSG_HEADER && c->ops->payload_to)
                c->dst = c->ops->payload_to(c, c->arg, &c->m);
            c->parts = c->m.len > MSG_HEADER && !c->dst && c->ops->part_to && conn_may_read(c) &&
                       (conn_part_begin(c) || c->paused);
            continue; /* the callback may have paused or freed the connection */
        }
        if (c->parts) {
            if (!conn_part_take(c))
                return conn_may_read(c);
            continue;
        }
        uint32_t need = c->m.len - MSG_HEADER, there = c->in_end - c->in_pos;
        void *payload;
        if (c->dst) {
            uint32_t n = there < need - c->got ? there : need - c->got;
            memcpy(c->dst + c->got, c->in + c->in_pos, n);
            c->got += n;
            c->in_pos += n;
            if (c->got < need)
                return true;
            payload = c->dst;
        } else {
            if (there < need)
                return true;
            payload = c->in + c->in_pos;
            c->in_pos += need;
        }
        c->bulk = c->dst && need >= BULK;
        c->have_msg = false;
        c->dst = NULL;
        int e = c->ops->message(c, c->arg, &c->m, payload);
        if (e < 0)
            conn_fail(c, e);
    }
    return false;
}

static bool conn_deliver(struct conn *c) {
    while (deliver_in(c)) {
        int n = c->sealed ? sealed_next(c) : 0;
        if (n < 0)
            conn_fail(c, n);
        if (n <= 0)
            return n == 0;
    }
    return false;
}

static void deliver_all(struct conn *c) {
    if (conn_deliver(c))
        conn_part_end(c);
    c->part = NULL;
}

/* Make room behind in_end for the rest of the current message, and more. */
static void make_room(struct conn *c) {
    uint32_t n = c->in_end - c->in_pos;
    if (n == 0) {
        c->in_pos = c->in_end = 0;
    } else if (IN_BUFFER - c->in_pos < MSG_LEN_MAX) {
        memmove(c->in, c->in + c->in_pos, n);
        c->in_pos = 0;
        c->in_end = n;
    }
}

static void receive_sealed(struct conn *c) {
    bool more = true;
    for (int i = 0; more && i < ROUNDS && conn_deliver(c); i++) {
        size_t room;
        int r = sealed_read(c, &room);
        if (r == -EINTR)
            continue;
        if (r == -EAGAIN)
            break;
        if (r < 0) {
            conn_fail(c, r);
            break;
        }
        more = (size_t)r == room;
    }
    deliver_all(c);
}

static void conn_receive(struct conn *c) {
    bool more = true;
    for (int i = 0; more && i < ROUNDS && conn_deliver(c); i++) {
        struct iovec iov[2];
        int n = 0;
        size_t direct = 0;
        make_room(c);
        if (c->dst) { /* `in` is empty here */
            direct = c->m.len - MSG_HEADER - c->got;
            iov[n++] = (struct iovec){c->dst + c->got, direct};
        } else if (c->part) { /* likewise */
            direct = c->room - c->fill;
            iov[n++] = (struct iovec){c->part + c->fill, direct};
        }
        size_t buffered = direct > 0 || (c->bulk && !c->have_msg) ? IN_AFTER_BULK : IN_BUFFER;
        if (buffered > IN_BUFFER - c->in_end)
            buffered = IN_BUFFER - c->in_end;
        iov[n++] = (struct iovec){c->in + c->in_end, buffered};
        struct msghdr h = {.msg_iov = iov, .msg_iovlen = (size_t)n};
        ssize_t r = recvmsg(c->io.fd, &h, MSG_DONTWAIT);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0 && errno == EAGAIN)
            break; /* everything was delivered above */
        if (r <= 0) {
            conn_fail(c, r < 0 ? -errno : -ECONNRESET);
            break;
        }
        size_t k = (size_t)r < direct ? (size_t)r : direct;
        if (c->part)
            c->fill += (uint32_t)k;
        else
            c->got += (uint32_t)k;
        c->in_end += (uint32_t)((size_t)r - k);
        /* else the socket is empty, and a further recv() would only say so */
        more = (size_t)r == direct + buffered;
    }
    deliver_all(c);
}

/* --- entering and leaving --- */

static void conn_finish(struct conn *c) {
    /* one of ours that ends, or is told another address, may go in the middle of its handshake */
    bool counted = c->code == DDICT_EAUTH || c->code == DDICT_EPROTO || c->code == DDICT_EVERSION ||
                   c->code == -EBADMSG ||
                   (!c->opener && c->state == AUTH && c->code != -ECONNRESET);
    if (counted)
        conn_count_refused();
    conn_stranger_leave(c);
    conn_socket_close(c);
    c->state = ENDED;
    io_undefer(&c->later);
    out_clear(&c->out);
    if (!c->freed && c->ops->down)
        c->ops->down(c, c->arg, c->code);
}

static void conn_dispose(struct conn *c) {
    io_undefer(&c->later);
    conn_stranger_leave(c);
    conn_socket_close(c);
    sealed_end(c);
    free(c->in);
    free(c->addr);
    free(c);
}

static void conn_leave(struct conn *c) {
    if (c->busy == 1 && c->state != ENDED && !c->freed) {
        if (c->code == 0)
            interest_update(c);
        if (c->code != 0 && c->opener && c->state != UP) {
            if (c->code == DDICT_EAUTH || c->code == DDICT_EVERSION)
                c->auth_code = c->code;
            c->code = conn_next_address(c, c->code);
        }
        if (c->code != 0)
            conn_finish(c);
    }
    if (--c->busy == 0 && c->freed)
        conn_dispose(c);
}

static void conn_ready(struct io_handler *io, uint32_t events) {
    struct conn *c = (struct conn *)io;
    c->busy++;
    if (c->code == 0 && c->state == CONNECTING) {
        conn_connect_finish(c);
        if (c->code == 0)
            conn_handshake(c);
    } else if (c->code == 0 && c->state == AUTH) {
        conn_handshake(c);
    } else if (c->code == 0 && c->state == UP) {
        if (events & EPOLLOUT)
            conn_flush_out(c);
        if (!c->paused && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            c->sealed != NULL ? receive_sealed(c) : conn_receive(c);
        else if (c->paused && (events & (EPOLLHUP | EPOLLERR)))
            conn_fail(c, -ECONNRESET);
    }
    conn_leave(c);
}

static void conn_later(struct io_deferred *d) {
    struct conn *c = (struct conn *)((char *)d - offsetof(struct conn, later));
    c->busy++;
    if (c->state == UP && c->code == 0) {
        deliver_all(c);
        if (!c->blocked && !c->freed)
            conn_flush_out(c);
    }
    conn_leave(c);
}

void conn_secret(const struct conn *c, char letter, uint8_t secret[32]) {
    auth_secret(secret, letter, &c->hs.hello, &c->hs.challenge, &c->me);
}

void conn_flush(struct conn *c) {
    if (c->state != UP || c->blocked || c->busy != 0 || c->code != 0 || !conn_is_pending(c))
        return; /* otherwise the loop sends */
    c->busy++;
    write_out(c);
    if (!c->freed && (c->code != 0 || c->full_seen || c->blocked))
        io_defer(&c->later); /* callbacks are called from io_wait() */
    if (--c->busy == 0 && c->freed)
        conn_dispose(c);
}

void conn_end(struct conn *c, int code) {
    if (c->state == ENDED || c->freed)
        return;
    conn_fail(c, code);
    if (c->busy == 0)
        io_defer(&c->later);
}

void conn_tick(struct conn *c, uint64_t now_ns) {
    c->busy++;
    conn_gap_extend(c, now_ns);
    if (c->state == UP) {
        if (!live_check(&c->live, c->io.fd, now_ns, conn_is_pending(c)))
            conn_fail(c, -ETIMEDOUT);
    } else if (c->state != ENDED && now_ns > c->deadline_ns) {
        conn_fail(c, -ETIMEDOUT);
    }
    conn_leave(c);
}

/* --- owner's calls --- */

static struct conn *conn_new(int epoll_fd, const struct conn_identity *me,
                             const struct conn_ops *ops, void *arg) {
    if (auth_init() != 0)
        return NULL;
    struct conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->tick_ns = clock_ns();
    c->io = (struct io_handler){.fd = -1, .ready = conn_ready};
    c->later.run = conn_later;
    c->epoll_fd = epoll_fd;
    c->me = *me;
    c->ops = ops;
    c->arg = arg;
    return c;
}

int conn_open(struct conn **out, int epoll_fd, const struct conn_identity *me, enum conn_role role,
              uint32_t to, const struct sockaddr_storage *addr, int naddr,
              const struct conn_ops *ops, void *arg) {
    struct conn *c = naddr > 0 ? conn_new(epoll_fd, me, ops, arg) : NULL;
    if (!c)
        return naddr > 0 ? -ENOMEM : -EINVAL;
    c->opener = true;
    c->hs.role = role;
    c->hs.peer = to;
    c->addr = calloc((size_t)naddr, sizeof *addr);
    int e = -ENOMEM;
    if (c->addr) {
        memcpy(c->addr, addr, (size_t)naddr * sizeof *addr);
        c->naddr = naddr;
        c->give_up_ns = clock_ns() + (DD_CONNECT_MS + DD_HANDSHAKE_MS) * 1000000ull;
        e = conn_next_address(c, -EHOSTUNREACH);
    }
    if (e < 0) {
        conn_dispose(c);
        return e;
    }
    *out = c;
    return 0;
}

int conn_accept(struct conn **out, int epoll_fd, const struct conn_identity *me, int fd,
                const struct conn_ops *ops, void *arg) {
    struct conn *c = conn_new(epoll_fd, me, ops, arg);
    if (!c) {
        close(fd);
        return -ENOMEM;
    }
    c->state = AUTH;
    c->deadline_ns = clock_ns() + DD_HANDSHAKE_MS * 1000000ull;
    handshake_accept(&c->hs, &c->me);
    int e = conn_socket_take(c, fd, EPOLLIN);
    if (e < 0) {
        conn_dispose(c);
        return e;
    }
    conn_stranger_come(c);
    *out = c;
    return 0;
}

void conn_free(struct conn *c) {
    if (!c || c->freed)
        return;
    c->freed = true;
    c->busy++;
    if (c->code == 0)
        c->code = -ECONNRESET; /* done() callbacks cannot send any more */
    conn_socket_close(c);
    c->state = ENDED;
    out_clear(&c->out);
    if (--c->busy == 0)
        conn_dispose(c);
}

int conn_send(struct conn *c, struct msg *m, const void *head, size_t head_len, const void *body,
              size_t body_len, void (*done)(void *arg), void *done_arg) {
    if (c->code != 0)
        return c->code;
    int e = out_message(&c->out, m, head, head_len, body, body_len, done, done_arg);
    if (e < 0)
        return e;
    conn_counts_sent(m);
    if (conn_full(c))
        c->full_seen = true;
    if (c->state == UP && !c->blocked)
        io_defer(&c->later);
    return 0;
}

void conn_pause(struct conn *c, bool paused) {
    if (c->paused == paused || c->state == ENDED)
        return;
    c->paused = paused;
    if (c->busy == 0) /* otherwise conn_leave() does it */
        interest_update(c);
    if (!paused || c->code != 0)
        io_defer(&c->later); /* messages that are already in the buffer */
}
