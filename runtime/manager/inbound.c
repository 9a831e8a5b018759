/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbound.c - managers of other nodes that ask us. Who has several connections to us (struct inbound each) is one asker, the first; large values go over the others. The piece of a streamed put is received straight into its block. While more than ANSWERS_MAX
 * bytes of answers are queued nothing more is read from the connection. Pieces of streams alone never are so many: behind them requests are
 * still read, so that a small value need not wait for the end of large ones.
 */
#include <base/error.h>
#include <base/log.h>
#include <manager/manager.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWERS_MAX (2 * (size_t)DD_PEER_INFLIGHT)
_Static_assert(DD_PEER_INFLIGHT > DD_MSG_PIECE + MSG_HEADER,
               "a piece beyond a full queue is below ANSWERS_MAX");
#define REFUSED_LOG_MS 60000u /* a stranger that knocks all the time is told of once a minute */

struct later {
    struct msg m;
    uint8_t payload[];
};

struct inbound {
    struct asker a;      /* first */
    struct later *later; /* a request that waits for room */
    struct inbound *next;
    struct link *link;
    bool up, paused;
    bool room_waits; /* until the spill has made progress; `later` is not tried before */
    int down;        /* why it ended; 0: it lives */
    struct inbound *
        first; /* of one more: the one that it stands beside; ends when that ends, and the other way round */
    struct inbound *more; /* of a first one: those beside it, in turn; linked by more_next */
    struct inbound *more_next;
};

static struct inbound *inbound_of(struct asker *a) {
    return (struct inbound *)(void *)a;
}

static struct inbound *first_find(struct inbound *in) {
    for (struct inbound *i = in->a.m->inbounds; i; i = i->next)
        if (i != in && i->up && !i->a.gone && !i->first && i->a.who == in->a.who &&
            link_group(i->link) == link_group(in->link))
            return i;
    return NULL;
}

static void inbound_up(struct link *l, void *arg, uint32_t peer) {
    struct inbound *in = arg;
    in->a.who = 1ull << 63 | peer;
    if (link_is_more(l) && (in->first = first_find(in))) {
        in->more_next = in->first->more;
        in->first->more = in;
    }
    if (peer >= in->a.m->setup->managers || (link_is_more(l) && !in->first))
        in->a.gone = in->a.m->reap = true;
    else
        in->up = true;
    if (!in->up || in->first)
        return;
    /* It has lost the connections that it had before, and its clients were told: what is still in them must not come behind what they ask from now on. */
    for (struct inbound *i = in->a.m->inbounds; i; i = i->next)
        if (i != in && i->up && i->a.who == in->a.who &&
            link_group(i->link) != link_group(in->link))
            i->a.gone = in->a.m->reap = true;
}

static void *inbound_payload_to(struct link *l, void *arg, const struct msg *m) {
    struct inbound *in = arg;
    return m->type == MSG_DATA && !in->a.gone ? put_in_place(&in->a, m) : NULL;
}

static bool is_request(const struct msg *m) {
    return (m->type >= MSG_PUT && m->type <= MSG_CANCEL) || m->type == MSG_DATA ||
           m->type == MSG_ABORT || m->type == MSG_CREDIT || m->type == MSG_EVENTS ||
           m->type == MSG_PROBE;
}

/* It stays here until there is room, and nothing else of this connection is taken. */
static int later_keep(struct inbound *in, const struct msg *m, const void *payload) {
    in->later = malloc(sizeof *in->later + m->len - MSG_HEADER);
    if (!in->later)
        return -ENOMEM;
    in->later->m = *m;
    memcpy(in->later->payload, payload, m->len - MSG_HEADER);
    in->a.m->laters++;
    link_pause(in->link, true);
    return 0;
}

static void room_wait(struct inbound *in) {
    in->room_waits = true;
    if (in->later)
        in->a.m->laters--;
}

static void later_free(struct inbound *in) {
    if (!in->later)
        return;
    free(in->later);
    in->later = NULL;
    if (!in->room_waits)
        in->a.m->laters--;
}

bool inbounds_later(struct manager *m) {
    if (m->laters == 0)
        return false;
    for (struct inbound *in = m->inbounds; in; in = in->next) {
        if (!in->later || in->room_waits || in->a.gone)
            continue;
        int e = request_take(&in->a, &in->later->m, in->later->payload);
        if (e == TAKE_STALL)
            room_wait(in);
        if (e == TAKE_LATER || e == TAKE_STALL)
            continue;
        later_free(in);
        if (e == TAKE_PAUSE)
            room_wait(in);
        if (e == TAKE_PAUSE)
            continue;
        if (e < 0)
            in->a.gone = m->reap = true;
        else if (!in->paused)
            link_pause(in->link, false);
    }
    return true;
}

static int inbound_message(struct link *l, void *arg, const struct msg *m, void *payload) {
    struct inbound *in = arg;
    if (in->a.gone || !is_request(m))
        return DDICT_EPROTO;
    if (faults.on && in->first && faults_cut())
        return -ECONNRESET;
    int e = request_take(&in->a, m, payload);
    if (e == TAKE_LATER || e == TAKE_STALL) {
        int kept = later_keep(in, m, payload);
        if (kept == 0 && e == TAKE_STALL)
            room_wait(in);
        return kept;
    }
    if (e < 0)
        return e;
    if (e == TAKE_PAUSE) {
        room_wait(in);
        link_pause(l, true);
    }
    if (!in->paused && link_queued(l) > ANSWERS_MAX) {
        in->paused = true;
        link_pause(l, true);
    }
    return in->a.gone ? DDICT_EPROTO : 0;
}

static void inbound_drained(struct link *l, void *arg) {
    struct inbound *in = arg;
    gives_pump(&in->a);
    if (in->first)
        gives_pump(&in->first->a);
    if (in->paused && link_queued(l) <= ANSWERS_MAX) {
        in->paused = false;
        if (!in->later && !in->room_waits)
            link_pause(l, false);
    }
}

void inbounds_look(struct manager *m) {
    for (struct inbound *in = m->inbounds; in; in = in->next) {
        if (in->a.gone || !in->up)
            continue;
        gives_pump(&in->a); /* they may wait for what is read from the spill */
        if (!in->room_waits || !puts_look(&in->a))
            continue;
        in->room_waits = false;
        if (in->later)
            m->laters++; /* in the next turn */
        else if (!in->paused)
            link_pause(in->link, false);
    }
}

static void inbound_down(struct link *l, void *arg, int code) {
    struct inbound *in = arg;
    in->down = code ? code : -ECONNRESET;
    if (code == DDICT_EAUTH || code == DDICT_EPROTO || !in->up) {
        static uint64_t said;
        struct manager *m = in->a.m;
        if (said == 0 || m->now - said > REFUSED_LOG_MS * 1000000ull)
            log_warn("a connection was refused: %s", dd_strerror(code));
        said = m->now;
    }
    note_refused(in->a.m, in->down);
    in->a.gone = in->a.m->reap = true;
}

static const struct link_ops inbound_ops = {inbound_up, inbound_payload_to, inbound_message,
                                            inbound_drained, inbound_down};

static void inbound_accept(struct io_handler *h, uint32_t events) {
    struct manager *m = (struct manager *)(void *)((char *)h - offsetof(struct manager, listener));
    for (unsigned i = 0; i < 64; i++) {
        int fd = conn_take(h->fd);
        if (fd < 0)
            return;
        struct inbound *in = calloc(1, sizeof *in);
        if (!in) {
            close(fd);
            return;
        }
        asker_init(&in->a, m, ASKER_PEER, 0);
        if (link_accept(&in->link, &m->links, fd, &inbound_ops, in) < 0) {
            free(in);
            continue;
        }
        in->next = m->inbounds;
        m->inbounds = in;
        manager_ticks(m);
    }
}

int inbound_listen(struct manager *m) {
    if (m->setup->listen_fd < 0)
        return 0;
    m->listener = (struct io_handler){.fd = m->setup->listen_fd, .ready = inbound_accept};
    return io_add(m->epoll_fd, &m->listener, EPOLLIN);
}

const struct link *inbound_link(const struct asker *a) {
    return ((const struct inbound *)(const void *)a)->link;
}

/* --- carrier --- */
struct asker *inbound_bulk(struct asker *a) {
    struct inbound *in = inbound_of(a), **best = &in->more;
    if (!in->more)
        return a;
    for (struct inbound **at = &in->more; *at; at = &(*at)->more_next)
        if (link_queued((*at)->link) < link_queued((*best)->link))
            best = at;
    struct inbound *found = *best, **end = best;
    *best = found->more_next; /* to the end: of those that are equal it is the others' turn */
    while (*end)
        end = &(*end)->more_next;
    *end = found;
    found->more_next = NULL;
    return &found->a;
}

void inbound_send(struct asker *a, struct msg *r, const void *payload, size_t len) {
    if (link_send(inbound_of(a)->link, r, payload, len, NULL, 0, NULL, NULL) < 0)
        asker_drop(a, "no memory for its answer");
}

bool inbound_full(struct asker *a) {
    return a->gone || link_full(inbound_of(a)->link);
}

void inbound_piece(struct asker *a, struct msg *r, const void *data, uint32_t len,
                   void (*done)(void *), void *arg) {
    if (link_send(inbound_of(a)->link, r, NULL, 0, data, len, done, arg) == 0)
        return;
    asker_drop(a, "no memory for its answer");
    done(arg);
}

uint64_t inbounds_links(const struct manager *m) {
    uint64_t n = 0;
    for (const struct inbound *in = m->inbounds; in; in = in->next)
        n += in->up;
    return n;
}

bool inbounds_tick(struct manager *m) {
    bool more = false;
    for (struct inbound *in = m->inbounds; in; in = in->next) {
        if (in->up || in->down || in->a.gone)
            continue;
        link_tick(in->link, m->now);
        more |= !in->up && !in->down;
    }
    return more;
}

static void inbound_free(struct inbound *in) {
    in->a.gone = true;
    later_free(in);
    link_free(in->link); /* calls `done` of the pieces under way, then nothing touches the bytes */
    asker_end(&in->a);
    free(in);
}

void inbounds_reap(struct manager *m) {
    for (struct inbound *in = m->inbounds; in; in = in->next)
        if (in->first && in->a.gone)
            in->first->a.gone = true;
    for (struct inbound *in = m->inbounds; in; in = in->next)
        if (in->first && in->first->a.gone)
            in->a.gone = true;
    for (struct inbound **at = &m->inbounds; *at;) {
        struct inbound *in = *at;
        if (!in->a.gone) {
            at = &in->next;
            continue;
        }
        *at = in->next;
        inbound_free(in);
    }
}

void inbounds_end(struct manager *m) {
    while (m->inbounds) {
        struct inbound *in = m->inbounds;
        m->inbounds = in->next;
        inbound_free(in);
    }
}
