/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.c - the messages of one link as a stream of bytes in frames of a fabric.
 *
 *  1. Bytes leave in the order of channel_send(), frames in the order of seq. Frames may arrive in
 *     any order (a large one is fetched while small ones pass), and are read in order.
 *  2. At most FRAME_WINDOW frames are sent that the other end has not read. A paused end reads
 *     nothing, so it holds no more than that.
 *  3. Bytes that were given to the provider stay where they are until it has finished with them,
 *     even after channel_free().
 *  4. Until the other end has confirmed all frames, this end looks every DD_WAIT_SLICE_MS, and asks
 *     over TCP after NUDGE_MS. So an end whose wake-up was lost is woken. An end that answers the
 *     nudges but gets nothing for DD_CONN_LOST_MS cannot be reached by the fabric.
 */
#include "channel.h"

#include "fabric.h"
#include "fabric_inside.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/vec.h>
#include <wire/conn.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUDGE_MS     20u   /* after which the other end is asked whether it looked */
#define NUDGE_MAX_MS 1000u /* then twice as long each time, up to this */
/* nudges that must be answered, at least, before the end counts as unreachable: this process may
 * have been stopped */
#define NUDGES_LOST 5u
/* frames read before the other end is told by an empty frame */
#define TELL (FRAME_WINDOW / 4)

struct channel {
    struct fabric *f;
    const struct channel_ops *ops;
    void *arg;
    uint32_t id, peer_id;
    fi_addr_t to;
    uint8_t sends[CHANNEL_TOKEN], takes[CHANNEL_TOKEN];
    bool connected, paused, freed, buried, full_seen, told_broken;
    int code;
    unsigned busy; /* depth of calls into this channel */
    struct io_deferred later;

    struct out out;
    size_t handed; /* bytes of `out` that the provider has */
    struct frame frames[FRAME_WINDOW], tell;
    unsigned frames_head, frames_n; /* frames that the provider has, in order */
    bool frame_done[FRAME_WINDOW];
    uint64_t sent, known; /* frames sent; of them, surely received by the other end */
    uint64_t peer_read;   /* of them, read by the other end */
    struct channel *next_sending;
    bool in_sending;
    /* since when nothing was heard about what was sent; when the next nudge is due */
    uint64_t quiet_ns, nudge_ns;
    unsigned nudges, nudge_ms; /* answered since then */
    unsigned reads;            /* reads under way */

    /* frames received without a gap; read; reported to the other end as read */
    uint64_t came, read, told;
    struct taken *held[FRAME_WINDOW]; /* received but not read, by seq */
    struct msg m;
    uint32_t head_got;   /* bytes of m received */
    uint8_t *dst, *room; /* place of its payload; own memory for it */
    uint32_t got;
};

uint32_t channel_id(const struct channel *c) {
    return c->id;
}
size_t channel_queued(const struct channel *c) {
    return c->out.bytes;
}
uint64_t channel_position(const struct channel *c) {
    return c->out.written + c->out.bytes;
}
bool channel_unsent(const struct channel *c, uint64_t position) {
    return c->out.written + c->handed < position;
}
uint64_t channel_taken(const struct channel *c) {
    return c->came;
}

/* --- its life --- */

static void channel_on_deferred(struct io_deferred *d);

int channel_new(struct channel **out, struct fabric *f, const struct channel_ops *ops, void *arg) {
    uint32_t id = 0;
    while (id < f->channels_n && f->channels[id])
        id++;
    if (id == f->channels_n) {
        size_t n = f->channels_n;
        if (VEC_ROOM(&f->channels, &n, n + 1, 16) < 0)
            return -ENOMEM;
        memset(f->channels + f->channels_n, 0, (n - f->channels_n) * sizeof *f->channels);
        f->channels_n = (uint32_t)n;
    }
    struct channel *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->f = f;
    c->ops = ops;
    c->arg = arg;
    c->id = id;
    c->later.run = channel_on_deferred;
    c->tell.op.kind = OP_FRAME;
    c->tell.c = c;
    for (unsigned i = 0; i < FRAME_WINDOW; i++) {
        c->frames[i].op.kind = OP_FRAME;
        c->frames[i].c = c;
    }
    f->channels[id] = c;
    *out = c;
    return 0;
}

int channel_connect(struct channel *c, const uint8_t *address, size_t len, uint32_t id,
                    const uint8_t sends[CHANNEL_TOKEN], const uint8_t takes[CHANNEL_TOKEN]) {
    int e = fabric_insert(c->f, address, len, &c->to);
    if (e < 0)
        return e;
    c->peer_id = id;
    memcpy(c->sends, sends, CHANNEL_TOKEN);
    memcpy(c->takes, takes, CHANNEL_TOKEN);
    c->connected = true;
    if (c->out.count > 0)
        io_defer(&c->later);
    return 0;
}

static void sending_remove(struct channel *c) {
    if (!c->in_sending)
        return;
    struct channel **at = &c->f->sending;
    while (*at != c)
        at = &(*at)->next_sending;
    *at = c->next_sending;
    c->in_sending = false;
}

static void channel_dispose(struct channel *c) {
    out_clear(&c->out); /* calls done() */
    free(c->room);
    free(c);
}

static void zombies_remove(struct channel *c) {
    struct channel **at = &c->f->zombies;
    while (*at != c)
        at = &(*at)->next_sending;
    *at = c->next_sending;
}

/* It was freed, and no call is in it any more: it goes when the provider has finished with its
 * bytes. */
static void channel_bury(struct channel *c) {
    bool done = c->frames_n == 0 && !c->tell.busy;
    if (done && c->buried)
        zombies_remove(c);
    if (done) {
        channel_dispose(c);
    } else if (!c->buried) {
        c->buried = true;
        c->next_sending = c->f->zombies;
        c->f->zombies = c;
    }
}

static void channel_leave(struct channel *c) {
    if (--c->busy == 0 && c->freed)
        channel_bury(c);
}

void channel_free(struct channel *c) {
    if (!c || c->freed)
        return;
    c->freed = true;
    c->busy++;
    io_undefer(&c->later);
    sending_remove(c);
    c->f->channels[c->id] = NULL;
    readings_leave(c->f, c);
    memcpy(c->f->past[c->f->past_next++ % PAST], c->takes, CHANNEL_TOKEN);
    for (unsigned i = 0; i < FRAME_WINDOW; i++)
        if (c->held[i])
            fabric_give_back(c->f, c->held[i]);
    channel_leave(c);
}

void channels_end(struct fabric *f) {
    while (f->zombies) {
        struct channel *c = f->zombies;
        f->zombies = c->next_sending;
        channel_dispose(c);
    }
}

void channel_break(struct channel *c, int code) {
    if (c->code != 0 || c->freed)
        return;
    c->code = code;
    io_defer(&c->later);
}

/* --- out --- */

static void quiet_from(struct channel *c, uint64_t now_ns) {
    c->quiet_ns = now_ns;
    c->nudge_ms = NUDGE_MS;
    c->nudge_ns = now_ns + NUDGE_MS * 1000000ull;
    c->nudges = 0;
}

static void sending_add(struct channel *c) {
    if (c->in_sending)
        return;
    c->in_sending = true;
    c->next_sending = c->f->sending;
    c->f->sending = c;
    quiet_from(c, clock_ns());
}

static bool window_full(const struct channel *c) {
    return c->sent - c->peer_read >= FRAME_WINDOW;
}

static void head_fill(struct channel *c, struct frame *frame, uint32_t bytes) {
    frame->head = (struct frame_head){
        .channel = c->peer_id, .bytes = bytes, .seq = c->sent, .taken = c->read};
    memcpy(frame->head.token, c->sends, CHANNEL_TOKEN);
}

/* Send the next frame. 1: sent; 0: not now. */
static int send_one(struct channel *c) {
    struct iovec iov[FRAME_PLACES];
    size_t bytes = c->f->frame_bytes;
    if (c->frames_n == FRAME_WINDOW || window_full(c) || c->handed == c->out.bytes)
        return 0;
    unsigned n = out_gather(&c->out, c->handed, iov + 1, c->f->places - 1, &bytes),
             slot = (c->frames_head + c->frames_n) % FRAME_WINDOW;
    struct frame *frame = &c->frames[slot];
    head_fill(c, frame, (uint32_t)bytes);
    iov[0] = (struct iovec){&frame->head, sizeof frame->head};
    int e = fabric_send(c->f, frame, c->to, iov, n + 1);
    if (e == -EAGAIN)
        return 0;
    if (e < 0) {
        channel_break(c, e);
        return 0;
    }
    c->frame_done[slot] = false;
    c->frames_n++;
    c->handed += bytes;
    if (c->sent++ == c->known)
        quiet_from(c, clock_ns());
    c->told = c->read;
    sending_add(c);
    return 1;
}

/* Send a frame that only tells what was read. If it cannot be sent now, the next frame tells it. */
static void send_told(struct channel *c) {
    if (c->tell.busy || c->read - c->told < TELL)
        return;
    head_fill(c, &c->tell, 0);
    struct iovec iov = {&c->tell.head, sizeof c->tell.head};
    int e = fabric_send(c->f, &c->tell, c->to, &iov, 1);
    if (e < 0) {
        if (e != -EAGAIN)
            channel_break(c, e);
        return;
    }
    c->tell.busy = true;
    c->told = c->read;
}

void channel_flush(struct channel *c) {
    if (!c->connected || c->code != 0 || c->freed)
        return;
    while (send_one(c) > 0)
        continue;
    if (c->code == 0)
        send_told(c);
    if (c->handed < c->out.bytes)
        sending_add(c);
}

/* Release frames that the provider has finished with, in order; calls done() of bodies. */
static void frames_finish(struct channel *c) {
    while (c->frames_n > 0 && c->frame_done[c->frames_head]) {
        size_t bytes = c->frames[c->frames_head].head.bytes;
        c->frames_head = (c->frames_head + 1) % FRAME_WINDOW;
        c->frames_n--;
        c->handed -= bytes;
        out_take(&c->out, bytes);
    }
}

void channel_sent(struct frame *frame, int code) {
    struct channel *c = frame->c;
    if (frame == &c->tell)
        frame->busy = false;
    else
        c->frame_done[frame - c->frames] = true;
    c->busy++;
    if (code < 0)
        channel_break(c, code);
    frames_finish(c);
    if (!c->freed)
        io_defer(&c->later);
    channel_leave(c);
}

int channel_send(struct channel *c, struct msg *m, const void *head, size_t head_len,
                 const void *body, size_t body_len, void (*done)(void *arg), void *done_arg) {
    if (c->code != 0)
        return c->code;
    int e = out_message(&c->out, m, head, head_len, body, body_len, done, done_arg);
    if (e < 0)
        return e;
    if (c->out.bytes > DD_PEER_INFLIGHT)
        c->full_seen = true;
    if (c->connected)
        io_defer(&c->later);
    return 0;
}

/* --- what the other end has got --- */

static void channel_note_taken(struct channel *c, uint64_t taken) {
    if (taken <= c->known)
        return;
    c->known = taken;
    quiet_from(c, clock_ns());
}

void channel_heard(struct channel *c, uint64_t taken) {
    if (taken > c->sent) {
        channel_break(c, DDICT_EPROTO);
        return;
    }
    c->nudges++;
    channel_note_taken(c, taken);
}

void channels_look(struct fabric *f, uint64_t now_ns, int *timeout_ms) {
    for (struct channel *c = f->sending, *next; c; c = next) {
        next = c->next_sending;
        /* the peer has nothing to notice */
        bool quiet = c->known == c->sent && c->reads == 0;
        /* otherwise it waits to hear that frames were read */
        if (quiet && c->handed == c->out.bytes && c->frames_n == 0) {
            sending_remove(c);
            continue;
        }
        if (*timeout_ms < 0 || *timeout_ms > DD_WAIT_SLICE_MS)
            *timeout_ms = DD_WAIT_SLICE_MS;
        /* a paused end may take any time */
        if ((quiet && (window_full(c) || c->handed == c->out.bytes)) || now_ns < c->nudge_ns)
            continue;
        if (c->nudges >= NUDGES_LOST && now_ns - c->quiet_ns > DD_CONN_LOST_MS * 1000000ull) {
            channel_break(c, -ETIMEDOUT);
            continue;
        }
        c->nudge_ms = 2 * c->nudge_ms < NUDGE_MAX_MS ? 2 * c->nudge_ms : NUDGE_MAX_MS;
        c->nudge_ns = now_ns + c->nudge_ms * 1000000ull;
        c->ops->nudge(c->arg);
    }
}

/* --- reading the peer's memory --- */

int channel_read(struct channel *c, void *to, const struct fabric_place *from,
                 void (*done)(void *arg, int code), void *arg) {
    if (!c->connected || c->freed || c->code != 0)
        return c->code != 0 ? c->code : -ECONNRESET;
    int e = reading_begin(c->f, c, c->to, to, from, done, arg);
    if (e < 0)
        return e;
    /* some networks need the peer's processor for a read, so the peer must notice it */
    sending_add(c);
    if (c->reads++ == 0)
        quiet_from(c, clock_ns());
    return 0;
}

void channel_has_read(struct channel *c) {
    c->reads--;
    quiet_from(c, clock_ns());
}

/* --- in --- */

static bool may_read(const struct channel *c) {
    return c->code == 0 && !c->freed && !c->paused;
}

static void channel_take_message(struct channel *c, void *payload) {
    c->head_got = 0;
    c->dst = NULL;
    int e = c->ops->message(c->arg, &c->m, payload);
    if (e < 0)
        channel_break(c, e);
}

static void channel_take_header(struct channel *c) {
    if (msg_check(&c->m, MSG_LEN_MAX) != 0) {
        channel_break(c, DDICT_EPROTO);
        return;
    }
    c->got = 0;
    c->dst = NULL;
    if (c->m.len == MSG_HEADER)
        channel_take_message(c, &c->m);
    else
        c->dst = c->ops->payload_to(c->arg, &c->m);
}

/* Take one step through the bytes of t. */
static void read_some(struct channel *c, struct taken *t) {
    uint32_t there = t->len - t->at;
    if (c->head_got < MSG_HEADER) {
        uint32_t n = MSG_HEADER - c->head_got < there ? MSG_HEADER - c->head_got : there;
        memcpy((uint8_t *)&c->m + c->head_got, t->data + t->at, n);
        c->head_got += n;
        t->at += n;
        if (c->head_got == MSG_HEADER)
            channel_take_header(c);
        return;
    }
    uint32_t need = c->m.len - MSG_HEADER, n = need - c->got < there ? need - c->got : there;
    uint8_t *at = t->data + t->at;
    if (!c->dst && n == need) { /* the payload is whole in this frame */
        t->at += n;
        channel_take_message(c, at);
        return;
    }
    if (!c->dst && !c->room && !(c->room = malloc(DD_MSG_INLINE))) {
        channel_break(c, -ENOMEM);
        return;
    }
    uint8_t *to = c->dst ? c->dst : c->room;
    memcpy(to + c->got, at, n);
    c->got += n;
    t->at += n;
    if (c->got == need)
        channel_take_message(c, to);
}

static void channel_deliver(struct channel *c) {
    while (c->read < c->came && may_read(c)) {
        struct taken **at = &c->held[c->read % FRAME_WINDOW], *t = *at;
        while (t->at < t->len && may_read(c))
            read_some(c, t);
        if (c->freed || t->at < t->len)
            break; /* channel_free() gave it back, or it will be read later */
        *at = NULL;
        c->read++;
        fabric_give_back(c->f, t);
    }
    if (!c->freed && c->read - c->told >= TELL)
        io_defer(&c->later);
}

bool channel_knows(const struct channel *c, const struct frame_head *head) {
    return c->connected && token_same(head->token, c->takes);
}

void channel_frame(struct channel *c, const struct frame_head *head, struct taken *t) {
    struct taken **at = &c->held[head->seq % FRAME_WINDOW];
    bool bytes = head->bytes > 0, bad = head->bytes != t->len - t->at || head->taken > c->sent;
    bad |= bytes && (head->seq < c->came || head->seq >= c->read + FRAME_WINDOW || *at);
    if (bad)
        channel_break(c, DDICT_EPROTO);
    if (c->code != 0 || !bytes)
        fabric_give_back(c->f, t);
    if (c->code != 0)
        return;
    c->busy++;
    if (head->taken > c->peer_read) {
        c->peer_read = head->taken;
        channel_note_taken(c, head->taken);
        quiet_from(c, clock_ns());
        if (c->handed < c->out.bytes)
            io_defer(&c->later);
    }
    if (bytes)
        *at = t;
    while (c->came < c->read + FRAME_WINDOW && c->held[c->came % FRAME_WINDOW])
        c->came++;
    channel_deliver(c);
    channel_leave(c);
}

void channel_pause(struct channel *c, bool paused) {
    if (c->paused == paused)
        return;
    c->paused = paused;
    if (!paused)
        io_defer(&c->later);
}

/* Deferred work: send, and call the owner. */
static void channel_on_deferred(struct io_deferred *d) {
    struct channel *c = (struct channel *)(void *)((char *)d - offsetof(struct channel, later));
    c->busy++;
    channel_deliver(c);
    channel_flush(c);
    if (!c->freed && c->code == 0 && c->full_seen && c->out.bytes < DD_PEER_INFLIGHT) {
        c->full_seen = false;
        c->ops->drained(c->arg);
    }
    if (!c->freed && c->code != 0 && !c->told_broken) {
        c->told_broken = true;
        sending_remove(c);
        c->ops->broken(c->arg, c->code);
    }
    channel_leave(c);
}
