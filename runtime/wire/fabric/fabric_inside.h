/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_inside.h - shared by fabric.c, fabric_memory.c and channel.c: frames, reads, and struct
 * fabric. */
#ifndef DDICT_WIRE_FABRIC_FABRIC_INSIDE_H
#define DDICT_WIRE_FABRIC_FABRIC_INSIDE_H

#include "fabric_types.h"
#include <wire/loop.h>
#include <wire/out.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define FRAME_MAX    (sizeof(struct frame_head) + FRAME_BYTES)
#define FRAME_PLACES 16u
/* channels that ended last: their late frames are dropped without being counted as refused */
#define PAST 16u

enum op_kind { OP_TAKE, OP_FRAME, OP_READ, OP_OTHER /* nobody waits for it */ };
struct op { /* libfabric's context of an operation: first member of what it belongs to */
    struct fi_context2 context;
    enum op_kind kind;
};
struct taken { /* a buffer for a received frame */
    struct op op;
    struct taken *next, *chain; /* in a list; of all */
    bool failed;
    uint32_t len, at; /* bytes of the stream in it, and how many of them were read */
    uint8_t data[FRAME_MAX] __attribute__((aligned(64)));
};
struct frame { /* a frame that is sent */
    struct op op;
    struct channel *c;
    struct frame_head head;
    bool busy; /* the provider has it */
};

struct reading { /* a read of a peer's memory */
    struct op op;
    struct reading *next, **prev; /* of the fabric, in order */
    struct channel *c;            /* NULL: it was freed meanwhile */
    bool begun;                   /* the provider has it */
    void *to;
    fi_addr_t peer;
    struct fabric_place from;
    void (*done)(void *arg, int code);
    void *arg;
};
struct fabric_region { /* registered: [from, to) of what is shared */
    struct fid_mr *mr;
    uint64_t from, to;
};
struct granule { /* its regions lie one behind another, from its beginning */
    struct fabric_region *region;
    uint32_t n;
};
struct share {
    uint8_t *base; /* NULL: nothing is shared */
    uint64_t from, len;
    struct granule *granule;
};

struct fabric {
    struct io_handler io;
    struct io_watcher watcher;
    int epoll_fd;
    void *library;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    char name[FABRIC_NAME_MAX];
    unsigned places;    /* iovecs of one send */
    size_t frame_bytes; /* of the stream in one frame, at most FRAME_BYTES */
    bool deaf;          /* see fabric_deafen() */
    bool stuck;         /* a send waits until the provider has room */
    unsigned awake;     /* looks in a row after which the provider did not allow to wait */
    int code;           /* why it does not work any more; 0: it does */
    uint64_t worked_ns; /* the last look */

    struct taken *all;   /* by chain; freed at the end */
    struct taken *spare; /* neither posted nor held by a channel */
    /* likewise, but the provider may tell their failure again; when the last one failed */
    struct taken *failed;
    uint64_t failed_ns;
    unsigned posted;

    struct channel **channels; /* by id; NULL: free */
    uint32_t channels_n;
    /* channels with frames that the peer may not have noticed, by next_sending */
    struct channel *sending;
    uint8_t past[PAST][CHANNEL_TOKEN];
    unsigned past_next;
    /* freed channels of which the provider still has frames */
    struct channel *zombies;
    struct reading *reads, **reads_end; /* in order */
    struct share share;
};

/* In constant time. */
static inline bool token_same(const uint8_t *one, const uint8_t *other) {
    uint8_t differ = 0;
    for (unsigned i = 0; i < CHANNEL_TOKEN; i++)
        differ |= (uint8_t)(one[i] ^ other[i]);
    return differ == 0;
}

/* fabric.c */
/* it was read, and may take another frame */
void fabric_give_back(struct fabric *f, struct taken *t);
int fabric_insert(struct fabric *f, const uint8_t *address, size_t len, fi_addr_t *to);
/* 0; -EAGAIN: no room, channel_flush() will be called. */
int fabric_send(struct fabric *f, struct frame *frame, fi_addr_t to, const struct iovec *iov,
                unsigned n);

/* fabric_memory.c */
int reading_begin(struct fabric *f, struct channel *c, fi_addr_t peer, void *to,
                  const struct fabric_place *from, void (*done)(void *arg, int code), void *arg);
void reading_done(struct fabric *f, struct reading *r, int code);
/* the provider has room again */
void readings_go_on(struct fabric *f);
void readings_leave(struct fabric *f, const struct channel *c); /* c is being freed */
/* before the endpoint is closed */
void share_end(struct fabric *f);
void readings_end(struct fabric *f); /* after that */

/* channel.c */
/* t belongs to the channel from then on */
void channel_frame(struct channel *c, const struct frame_head *head, struct taken *t);
bool channel_knows(const struct channel *c, const struct frame_head *head);
void channel_sent(struct frame *frame, int code);
void channel_flush(struct channel *c);
void channel_break(struct channel *c, int code);
void channel_has_read(struct channel *c); /* one of its reads is over */
/* Check on frames that the peers may not have noticed; lowers *timeout_ms. */
void channels_look(struct fabric *f, uint64_t now_ns, int *timeout_ms);
void channels_end(struct fabric *f); /* the endpoint is closed: forget the frames that it had */

#endif
