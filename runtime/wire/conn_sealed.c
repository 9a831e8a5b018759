/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_sealed.c - messages of a connection that travel in records (seal.h). Queued messages are
 * copied into a record when the socket takes it, so one record has all small messages of a turn. A
 * received record is checked before any byte of it gets to `in`, so the owner sees only bytes that
 * the other end has sent.
 */
#include "auth.h"
#include "conn.h"
#include "conn_inside.h"
#include <base/log.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define RECORD (SEAL_OVER + SEAL_BYTES)
/* one record that is being received, and room for the next, so that it need not be moved each
 * time */
#define RAW    (2 * RECORD)
#define PLACES 64
_Static_assert(MSG_LEN_MAX + SEAL_BYTES <= IN_BUFFER, "a record fits behind part of a message");

struct sealed {
    struct seal sends, takes;
    uint32_t out_at, out_end; /* bytes of `out` that the socket has not taken */
    uint32_t out_bytes;       /* bytes of messages in it */
    uint32_t raw_at, raw_end; /* bytes of `raw` that are not opened yet */
    uint8_t out[RECORD], raw[RAW];
};

int sealed_begin(struct conn *c) {
    uint32_t wire = c->hs.challenge.wire;
    enum seal_mode mode = (enum seal_mode)(wire & AUTH_MODE);
    uint8_t key[AUTH_MAC];
    if (mode == SEAL_PLAIN)
        return 0;
    struct sealed *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    if (!s)
        return -ENOMEM;
    conn_secret(c, c->opener ? '1' : '2', key);
    seal_start(&s->sends, mode, wire & AUTH_AES, key);
    conn_secret(c, c->opener ? '2' : '1', key);
    seal_start(&s->takes, mode, wire & AUTH_AES, key);
    auth_forget(key, sizeof key);
    s->out_at = s->out_end = s->out_bytes = s->raw_at = s->raw_end = 0;
    c->sealed = s;
    return 0;
}

void sealed_end(struct conn *c) {
    if (!c->sealed)
        return;
    seal_end(&c->sealed->sends);
    seal_end(&c->sealed->takes);
    free(c->sealed);
    c->sealed = NULL;
}

size_t sealed_left(const struct conn *c) {
    return c->sealed ? c->sealed->out_bytes : 0;
}

/* Make the next record of queued messages. */
static int record_make(struct conn *c, struct sealed *s) {
    struct iovec iov[PLACES];
    size_t bytes = SEAL_BYTES;
    uint8_t *to = s->out + SEAL_HEAD;
    unsigned n = out_gather(&c->out, 0, iov, PLACES, &bytes);
    for (unsigned i = 0; i < n; to += iov[i++].iov_len)
        memcpy(to, iov[i].iov_base, iov[i].iov_len);
    if (bytes > 0) {
        int e = seal_close(&s->sends, s->out, (uint32_t)bytes);
        if (e < 0)
            return e;
        s->out_at = 0;
        s->out_end = SEAL_OVER + (uint32_t)bytes;
    }
    s->out_bytes = (uint32_t)bytes;
    out_take(&c->out, bytes);
    return 0;
}

int sealed_write(struct conn *c) {
    struct sealed *s = c->sealed;
    while (s->out_at < s->out_end || c->out.count > 0) {
        if (s->out_at == s->out_end) {
            int e = record_make(c, s);
            if (e < 0)
                return e;
            continue;
        }
        ssize_t w =
            send(c->io.fd, s->out + s->out_at, s->out_end - s->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (w < 0) {
            if (errno == EINTR)
                continue;
            return errno == EAGAIN ? 1 : errno == EPIPE ? -ECONNRESET : -errno;
        }
        s->out_at += (uint32_t)w;
        if (s->out_at < s->out_end)
            return 1;
        s->out_bytes = 0;
    }
    return 0;
}

int sealed_read(struct conn *c, size_t *room) {
    struct sealed *s = c->sealed;
    if (s->raw_at == s->raw_end) {
        s->raw_at = s->raw_end = 0;
    } else if (RAW - s->raw_at < RECORD) {
        memmove(s->raw, s->raw + s->raw_at, s->raw_end - s->raw_at);
        s->raw_end -= s->raw_at;
        s->raw_at = 0;
    }
    *room = RAW - s->raw_end;
    ssize_t r = recv(c->io.fd, s->raw + s->raw_end, *room, MSG_DONTWAIT);
    if (r <= 0)
        return r < 0 ? -errno : -ECONNRESET;
    s->raw_end += (uint32_t)r;
    return (int)r;
}

static int conn_tampered(struct conn *c) {
    log_warn("what comes from %s %u is not what it sent: somebody on the network changes it or "
             "sends it again; nothing of that was taken, and the connection is closed",
             c->hs.role == ROLE_CONTROL || c->hs.role == ROLE_VOTE ? "node" : "manager",
             c->hs.peer);
    return -EBADMSG;
}

int sealed_next(struct conn *c) {
    struct sealed *s = c->sealed;
    uint32_t there = s->raw_end - s->raw_at,
             len = there >= SEAL_HEAD ? seal_len(s->raw + s->raw_at) : 0;
    if (there < SEAL_HEAD)
        return 0;
    if (len == 0)
        return conn_tampered(c);
    if (there < SEAL_OVER + len)
        return 0;
    if (c->in_pos == c->in_end) {
        c->in_pos = c->in_end = 0;
    } else if (IN_BUFFER - c->in_end < len) {
        memmove(c->in, c->in + c->in_pos, c->in_end - c->in_pos);
        c->in_end -= c->in_pos;
        c->in_pos = 0;
    }
    if (seal_open(&s->takes, c->in + c->in_end, s->raw + s->raw_at, len) < 0)
        return conn_tampered(c);
    s->raw_at += SEAL_OVER + len;
    c->in_end += len;
    return 1;
}
