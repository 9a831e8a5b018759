/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.c - an endpoint of libfabric: opens it for one provider, and gives its completions to the
 * channels.
 *
 * Waiting: the completion queue has a descriptor (FI_WAIT_FD) in the owner's epoll set. It reports
 * only completions that come after the queue was found empty and fi_trywait() allowed to wait, so
 * both are done before each wait. If a wake-up is lost all the same, the other end notices
 * (channels_look()).
 */
#include "fabric.h"

#include "fabric_inside.h"
#include "fabric_library.h"
#include <base/clock.h>
#include <base/error.h>
#include <wire/conn.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* buffers for received frames; the provider keeps further ones, or their sender waits */
#define POSTED 32u
/* of the completion queue: at least POSTED and the frames of a few dozen channels */
#define COMPLETIONS 1024u
#define BATCH       16
#define ROUNDS      16 /* batches before other handlers have their turn */
/* looks without being allowed to wait, after which the loop waits a millisecond */
#define AWAKE_MAX 16u
/* between looks while the loop does not wait and frames are under way */
#define LOOK_NS 1000000u
/* in which the provider tells all failures of one buffer: it tells them when a connection ends */
#define FAILED_NS 1000000000u

/* --- frames that come --- */

static void fabric_post_receive(struct fabric *f, struct taken *t) {
    ssize_t e = fi_recv(f->ep, t->data, sizeof t->data, NULL, FI_ADDR_UNSPEC, &t->op.context);
    if (e == 0) {
        f->posted++;
        return;
    }
    t->next = f->spare;
    f->spare = t;
    if (e != -FI_EAGAIN && f->code == 0)
        f->code = -EIO;
}

void fabric_give_back(struct fabric *f, struct taken *t) {
    if (f->posted < POSTED && f->code == 0) {
        fabric_post_receive(f, t);
        return;
    }
    t->next = f->spare;
    f->spare = t;
}

/* Post more buffers in place of those that a paused channel holds, so that it stops no other. */
static int post_all(struct fabric *f) {
    for (unsigned n = f->posted; n < POSTED && f->code == 0; n++) {
        struct taken *t = f->spare;
        if (t) {
            f->spare = t->next;
        } else if ((t = malloc(sizeof *t))) {
            memset(&t->op, 0, sizeof t->op);
            t->op.kind = OP_TAKE;
            t->failed = false;
            t->chain = f->all;
            f->all = t;
        } else {
            return f->posted > 0 ? 0 : -ENOMEM;
        }
        fabric_post_receive(f, t);
    }
    return f->code;
}

static bool of_the_past(const struct fabric *f, const uint8_t *token) {
    unsigned n = f->past_next < PAST ? f->past_next : PAST;
    for (unsigned i = 0; i < n; i++)
        if (token_same(f->past[i], token))
            return true;
    return false;
}

static void frame_came(struct fabric *f, struct taken *t) {
    struct frame_head head;
    struct channel *c = NULL;
    if (t->len >= sizeof head) {
        memcpy(&head, t->data, sizeof head);
        c = head.channel < f->channels_n ? f->channels[head.channel] : NULL;
    }
    if (!c || !channel_knows(c, &head)) {
        if (t->len < sizeof head || !of_the_past(f, head.token))
            conn_count_refused();
        fabric_give_back(f, t);
        return;
    }
    t->at = sizeof head;
    channel_frame(c, &head, t);
}

/* --- completions --- */

/* rxm reads a long message in parts, and tells the failure of each as that of the buffer. If it was
 * posted again in between, it would be posted twice in the end, and get two frames at once. */
static void taken_failed(struct fabric *f, struct taken *t, bool too_long) {
    if (t->failed)
        return;
    f->posted--;
    if (too_long) /* no frame is */
        conn_count_refused();
    t->failed = true;
    t->next = f->failed;
    f->failed = t;
    f->failed_ns = f->worked_ns;
}

/* Those that failed a while ago can be posted again. */
static void failed_give_back(struct fabric *f) {
    struct taken *t;
    if (f->worked_ns - f->failed_ns < FAILED_NS)
        return;
    while ((t = f->failed)) {
        f->failed = t->next;
        t->failed = false;
        t->next = f->spare;
        f->spare = t;
    }
}

static void fabric_read_error(struct fabric *f) {
    struct fi_cq_err_entry e = {0};
    if (fi_cq_readerr(f->cq, &e, 0) <= 0 || !e.op_context)
        return;
    struct op *op = e.op_context;
    if (op->kind == OP_OTHER)
        return;
    if (op->kind == OP_FRAME) {
        channel_sent((struct frame *)op, -ECONNRESET);
        return;
    }
    if (op->kind == OP_READ) {
        reading_done(f, (struct reading *)op, -ECONNRESET);
        return;
    }
    taken_failed(f, (struct taken *)op, e.err == FI_ETRUNC || e.err == FI_EMSGSIZE);
}

static void fabric_complete(struct fabric *f, const struct fi_cq_msg_entry *e) {
    struct op *op = e->op_context;
    if (!op || op->kind == OP_OTHER)
        return;
    if (op->kind == OP_FRAME) {
        channel_sent((struct frame *)op, 0);
        return;
    }
    if (op->kind == OP_READ) {
        reading_done(f, (struct reading *)op, 0);
        return;
    }
    struct taken *t = (struct taken *)op;
    if (t->failed)
        return;
    f->posted--;
    t->len = (uint32_t)e->len;
    frame_came(f, t);
}

static void break_all(struct fabric *f) {
    for (uint32_t i = 0; i < f->channels_n; i++)
        if (f->channels[i])
            channel_break(f->channels[i], f->code);
}

static bool fabric_progress(struct fabric *f) {
    bool any = false, was_stuck = f->stuck;
    f->worked_ns = clock_ns();
    failed_give_back(f);
    for (int round = 0; round < ROUNDS && f->code == 0; round++) {
        struct fi_cq_msg_entry e[BATCH];
        ssize_t n = fi_cq_read(f->cq, e, BATCH);
        if (n == -FI_EAGAIN || n == 0)
            break;
        any = true;
        if (n == -FI_EAVAIL)
            fabric_read_error(f);
        else if (n < 0)
            f->code = -EIO;
        for (ssize_t i = 0; i < n; i++)
            fabric_complete(f, &e[i]);
        post_all(f);
    }
    if (was_stuck) {
        f->stuck = false;
        for (uint32_t i = 0; i < f->channels_n; i++)
            if (f->channels[i])
                channel_flush(f->channels[i]);
        readings_go_on(f);
    }
    if (f->code != 0)
        break_all(f);
    return any;
}

void fabric_work(struct fabric *f) {
    fabric_progress(f);
}

static void fabric_ready(struct io_handler *h, uint32_t events) {
    struct fabric *f = (struct fabric *)h;
    struct fid *fid = &f->cq->fid;
    /* Only fi_trywait() takes back a signal whose cause is gone. Without it the descriptor would
     * stay ready, and the loop would never wait. */
    if (!f->deaf && !fabric_progress(f) && f->code == 0)
        fi_trywait(f->fabric, &fid, 1);
}

static void wait_at_most(int *timeout_ms, int ms) {
    if (*timeout_ms < 0 || *timeout_ms > ms)
        *timeout_ms = ms;
}

static bool fabric_look(struct io_watcher *w, int *timeout_ms) {
    struct fabric *f = (struct fabric *)(void *)((char *)w - offsetof(struct fabric, watcher));
    struct fid *fid = &f->cq->fid;
    if (f->deaf || f->code != 0) {
        wait_at_most(timeout_ms, DD_WAIT_SLICE_MS);
        return false;
    }
    /* A loop that does not wait looks at the descriptor anyway. */
    if (*timeout_ms == 0 && !f->stuck && (!f->sending || clock_ns() - f->worked_ns < LOOK_NS))
        return false;
    bool any = fabric_progress(f);
    if (*timeout_ms == 0 || any) {
        channels_look(f, f->worked_ns, timeout_ms);
        return any;
    }
    if (fi_trywait(f->fabric, &fid, 1) == FI_SUCCESS) {
        f->awake = 0;
    } else if (++f->awake > AWAKE_MAX) {
        wait_at_most(timeout_ms, 1);
    } else {
        wait_at_most(timeout_ms, 0);
    }
    channels_look(f, f->worked_ns, timeout_ms);
    if (f->stuck || f->posted == 0)
        wait_at_most(timeout_ms, 1);
    return false;
}

/* --- for channels --- */

int fabric_insert(struct fabric *f, const uint8_t *address, size_t len, fi_addr_t *to) {
    uint8_t room[FABRIC_ADDRESS_MAX + 1] = {0}; /* for a name, which ends with a 0 */
    if (len == 0 || len > FABRIC_ADDRESS_MAX ||
        (f->info->src_addrlen > 0 && f->info->addr_format != FI_ADDR_STR &&
         len < f->info->src_addrlen))
        return DDICT_EPROTO;
    memcpy(room, address, len);
    return fi_av_insert(f->av, room, 1, to, 0, NULL) == 1 ? 0 : -EADDRNOTAVAIL;
}

int fabric_send(struct fabric *f, struct frame *frame, fi_addr_t to, const struct iovec *iov,
                unsigned n) {
    ssize_t e = fi_sendv(f->ep, iov, NULL, n, to, &frame->op.context);
    if (e == -FI_EAGAIN)
        f->stuck = true;
    return e == 0 ? 0 : e == -FI_EAGAIN ? -EAGAIN : -ECONNRESET;
}

const char *fabric_name(const struct fabric *f) {
    return f->name;
}
void fabric_deafen(struct fabric *f, bool deaf) {
    f->deaf = deaf;
}

size_t fabric_address(const struct fabric *f, uint8_t address[FABRIC_ADDRESS_MAX]) {
    size_t len = FABRIC_ADDRESS_MAX;
    memset(address, 0, FABRIC_ADDRESS_MAX);
    return fi_getname(&f->ep->fid, address, &len) == 0 && len <= FABRIC_ADDRESS_MAX ? len : 0;
}

/* --- opening --- */

static int fabric_check_step(int e, const struct fabric *f, const char *what) {
    return e == 0
               ? 0
               : dd_error(-EIO, "libfabric provider %s: %s: %s", f->name, what, fabric_strerror(e));
}

static int endpoint_open(struct fabric *f) {
    struct fi_cq_attr cq = {
        .size = COMPLETIONS, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    struct fi_av_attr av = {.type = FI_AV_UNSPEC};
    int e;
    if (f->info->domain_attr->cq_cnt > 0 && f->info->rx_attr->size > COMPLETIONS)
        cq.size = f->info->rx_attr->size;
    if ((e = fabric_check_step(fabric_start(f->info->fabric_attr, &f->fabric), f, "no fabric")) < 0)
        return e;
    if ((e = fabric_check_step(fi_domain(f->fabric, f->info, &f->domain, NULL), f, "no domain")) <
        0)
        return e;
    if ((e = fabric_check_step(fi_av_open(f->domain, &av, &f->av, NULL), f,
                               "no table of addresses")) < 0)
        return e;
    if ((e = fabric_check_step(fi_cq_open(f->domain, &cq, &f->cq, NULL), f,
                               "no completion queue that can be waited for by a descriptor")) < 0)
        return e;
    if ((e = fabric_check_step(fi_endpoint(f->domain, f->info, &f->ep, NULL), f, "no endpoint")) <
        0)
        return e;
    if ((e = fabric_check_step(fi_ep_bind(f->ep, &f->av->fid, 0), f, "no addresses")) < 0)
        return e;
    if ((e = fabric_check_step(fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV), f,
                               "no completions")) < 0)
        return e;
    if ((e = fabric_check_step(fi_enable(f->ep), f, "the endpoint cannot be enabled")) < 0)
        return e;
    return fabric_check_step(fi_control(&f->cq->fid, FI_GETWAIT, &f->io.fd), f,
                             "no descriptor to wait for");
}

/* Of the stream in one frame; 0: too few. */
static size_t frame_bytes_of(const struct fi_info *info) {
    size_t max = fabric_message_max(info);
    if (max < sizeof(struct frame_head) + FRAME_BYTES_MIN)
        return 0;
    max -= sizeof(struct frame_head);
    return max < FRAME_BYTES ? max : FRAME_BYTES;
}

int fabric_open(struct fabric **out, int epoll_fd, const char *name, const char *node) {
    struct fabric *f = calloc(1, sizeof *f);
    uint8_t address[FABRIC_ADDRESS_MAX];
    if (!f)
        return -ENOMEM;
    f->io = (struct io_handler){.fd = -1, .ready = fabric_ready};
    f->watcher.look = fabric_look;
    f->reads_end = &f->reads;
    f->epoll_fd = -1;
    int e = fabric_info(name, node, &f->info);
    if (e == 0) {
        strncpy(f->name, f->info->fabric_attr->prov_name, sizeof f->name - 1);
        size_t iov = f->info->tx_attr->iov_limit;
        f->places = iov > FRAME_PLACES ? FRAME_PLACES : (unsigned)iov;
        f->frame_bytes = frame_bytes_of(f->info);
        if (f->frame_bytes == 0 || iov < 2)
            e = dd_error(-EIO, "libfabric provider %s: its messages are too small", f->name);
    }
    if (e == 0)
        e = endpoint_open(f);
    if (e == 0 && fabric_address(f, address) == 0)
        e = dd_error(-EIO, "libfabric provider %s: the endpoint has no address", f->name);
    if (e == 0 && post_all(f) < 0)
        e = dd_error(-EIO, "libfabric provider %s: no buffers can be posted", f->name);
    if (e == 0 && epoll_fd >= 0) {
        e = io_add(epoll_fd, &f->io, EPOLLIN);
        if (e == 0) {
            f->epoll_fd = epoll_fd;
            io_watch(&f->watcher);
        }
    }
    if (e < 0) {
        fabric_close(f);
        return e;
    }
    *out = f;
    return 0;
}

/* libfabric 1.17 crashes if an endpoint of its tcp provider is closed during a read. */
static bool reads_settle(struct fabric *f) {
    uint64_t end_ns = clock_ns() + DD_RMA_CLOSE_MS * 1000000ull;
    while (f->reads && f->ep && f->code == 0 && clock_ns() < end_ns)
        if (!fabric_progress(f))
            usleep(1000);
    return !f->reads;
}

void fabric_close(struct fabric *f) {
    if (!f)
        return;
    if (f->epoll_fd >= 0) {
        io_remove(f->epoll_fd, &f->io);
        io_unwatch(&f->watcher);
    }
    /* if reads are left, libfabric's objects stay until the process ends, and are not used any
     * more */
    bool whole = reads_settle(f);
    share_end(f); /* regions may be bound to the endpoint */
    if (whole && f->ep)
        fi_close(&f->ep->fid);
    channels_end(f);
    readings_end(f);
    if (whole && f->cq)
        fi_close(&f->cq->fid);
    if (whole && f->av)
        fi_close(&f->av->fid);
    if (whole && f->domain)
        fi_close(&f->domain->fid);
    if (whole && f->fabric)
        fi_close(&f->fabric->fid);
    if (f->info)
        fabric_info_free(f->info);
    while (f->all) {
        struct taken *t = f->all;
        f->all = t->chain;
        free(t);
    }
    free(f->channels);
    free(f);
}
