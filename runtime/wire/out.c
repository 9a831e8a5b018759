/* SPDX-License-Identifier: Apache-2.0 */
/* out.c - the output queue of one connection. */
#include "out.h"

#include <ddict_types.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define GATHER      64 /* segments of one sendmsg() */
#define SPARES_KEPT 2  /* blocks kept for the next burst */

struct out_block {
    struct out_block *next; /* list of spare blocks */
    uint32_t fill;          /* bytes used from the start */
    uint32_t pending;       /* bytes of them that are not written */
    uint8_t data[OUT_BLOCK];
};

static struct out_segment *out_segment_at(const struct out *o, unsigned i) {
    return &o->ring[(o->head + i) & (o->cap - 1)];
}

static int ring_grow(struct out *o, unsigned want) {
    unsigned cap = o->cap ? o->cap : 16;
    while (cap < want)
        cap *= 2;
    struct out_segment *n = malloc(cap * sizeof *n);
    if (!n)
        return -ENOMEM;
    for (unsigned i = 0; i < o->count; i++)
        n[i] = *out_segment_at(o, i);
    free(o->ring);
    o->ring = n;
    o->cap = cap;
    o->head = 0;
    return 0;
}

int out_reserve(struct out *o, size_t copy) {
    unsigned blocks = (unsigned)((copy + OUT_BLOCK - 1) / OUT_BLOCK);
    while (o->spares < blocks) {
        struct out_block *b = malloc(sizeof *b);
        if (!b)
            return -ENOMEM;
        b->next = o->spare;
        o->spare = b;
        o->spares++;
    }
    /* for the rest of the current block, and for the body */
    unsigned want = o->count + blocks + 2;
    return want > o->cap ? ring_grow(o, want) : 0;
}

static void out_segment_push(struct out *o, struct out_segment s) {
    *out_segment_at(o, o->count) = s;
    o->count++;
    o->bytes += s.len;
}

static void block_release(struct out *o, struct out_block *b) {
    if (o->spares >= SPARES_KEPT) {
        free(b);
        return;
    }
    b->next = o->spare;
    o->spare = b;
    o->spares++;
}

static void block_take(struct out *o) {
    struct out_block *b = o->spare;
    o->spare = b->next;
    o->spares--;
    b->fill = b->pending = 0;
    o->current = b;
}

void out_copy(struct out *o, const void *data, size_t len) {
    while (len > 0) {
        if (!o->current || o->current->fill == OUT_BLOCK)
            block_take(o); /* the full block is freed once it is written */
        struct out_block *b = o->current;
        size_t n = OUT_BLOCK - b->fill < len ? OUT_BLOCK - b->fill : len;
        uint8_t *at = b->data + b->fill;
        memcpy(at, data, n);
        b->fill += (uint32_t)n;
        b->pending += (uint32_t)n;
        struct out_segment *tail = o->count ? out_segment_at(o, o->count - 1) : NULL;
        if (tail && tail->block == b && tail->base + tail->len == at) {
            tail->len += n;
            o->bytes += n;
        } else {
            out_segment_push(o, (struct out_segment){.base = at, .len = n, .block = b});
        }
        data = (const uint8_t *)data + n;
        len -= n;
    }
}

void out_body(struct out *o, const void *body, size_t len, void (*done)(void *arg), void *arg) {
    out_segment_push(o, (struct out_segment){.base = body, .len = len, .done = done, .arg = arg});
}

int out_message(struct out *o, struct msg *m, const void *head, size_t head_len, const void *body,
                size_t body_len, void (*done)(void *arg), void *done_arg) {
    if (head_len > DD_MSG_INLINE || body_len > DD_MSG_INLINE || (body_len > 0 && !done))
        return DDICT_EPROTO;
    m->len = (uint32_t)(MSG_HEADER + head_len + body_len);
    int e = msg_check(m, MSG_LEN_MAX);
    if (e == 0)
        e = out_reserve(o, MSG_HEADER + head_len);
    if (e < 0)
        return e;
    out_copy(o, m, MSG_HEADER);
    out_copy(o, head, head_len);
    if (done)
        out_body(o, body, body_len, done, done_arg);
    return 0;
}

/* Also removes empty segments at the head. */
void out_take(struct out *o, size_t n) {
    while (o->count > 0) {
        struct out_segment *s = out_segment_at(o, 0);
        size_t k = s->len < n ? s->len : n;
        if (k == 0 && s->len > 0)
            return;
        n -= k;
        o->bytes -= k;
        o->written += k;
        s->base += k;
        s->len -= k;
        struct out_block *b = s->block;
        if (b)
            b->pending -= (uint32_t)k;
        if (s->len > 0)
            return;
        struct out_segment gone = *s;
        o->head = (o->head + 1) & (o->cap - 1);
        o->count--;
        if (b && b->pending == 0) {
            if (b == o->current)
                b->fill = 0;
            else
                block_release(o, b);
        }
        if (gone.done)
            gone.done(gone.arg);
    }
}

int out_write(struct out *o, int fd) {
    while (o->count > 0) {
        struct iovec iov[GATHER];
        unsigned n = o->count < GATHER ? o->count : GATHER;
        size_t asked = 0;
        for (unsigned i = 0; i < n; i++) {
            struct out_segment *s = out_segment_at(o, i);
            iov[i] = (struct iovec){.iov_base = (void *)(uintptr_t)s->base, .iov_len = s->len};
            asked += s->len;
        }
        struct msghdr h = {.msg_iov = iov, .msg_iovlen = n};
        ssize_t w = asked == 0 ? 0 : sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (w < 0) {
            if (errno == EINTR)
                continue;
            return errno == EAGAIN ? 1 : errno == EPIPE ? -ECONNRESET : -errno;
        }
        out_take(o, (size_t)w);
        if ((size_t)w < asked)
            return 1;
    }
    return 0;
}

unsigned out_gather(const struct out *o, size_t skip, struct iovec *iov, unsigned max,
                    size_t *bytes) {
    unsigned n = 0;
    size_t room = *bytes;
    for (unsigned i = 0; i < o->count && n < max && room > 0; i++) {
        const struct out_segment *s = out_segment_at(o, i);
        if (s->len <= skip) {
            skip -= s->len;
            continue;
        }
        size_t k = s->len - skip < room ? s->len - skip : room;
        iov[n++] = (struct iovec){.iov_base = (void *)(uintptr_t)(s->base + skip), .iov_len = k};
        skip = 0;
        room -= k;
    }
    *bytes -= room;
    return n;
}

void out_clear(struct out *o) {
    while (o->count > 0)
        out_take(o, out_segment_at(o, 0)->len);
    free(o->current);
    while (o->spare) {
        struct out_block *b = o->spare;
        o->spare = b->next;
        free(b);
    }
    free(o->ring);
    memset(o, 0, sizeof *o);
}
