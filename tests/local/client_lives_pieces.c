/* SPDX-License-Identifier: Apache-2.0 */
/* client_lives_pieces.c - pieces with numbers that libddict never gives them. */
#include "client_lives_pieces.h"

#include "raw.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

struct hand {
    struct raw r;
    unsigned lane;
    struct msg put;
    const uint8_t *value;
};

static void piece_send(struct hand *h, uint64_t at, uint32_t number, const uint8_t *bytes) {
    uint64_t left = h->put.val_len - at;
    uint32_t n = left < DD_MSG_PIECE ? (uint32_t)left : DD_MSG_PIECE;
    struct msg m = {.type = MSG_DATA, .id = h->put.id, .aux = at, .rewind = number};
    if (n == left)
        m.flags = MSGF_LAST;
    raw_send(&h->r, h->lane, &m, NULL, bytes, n);
}

static void pieces_from(struct hand *h, uint64_t at, uint64_t to, uint32_t number) {
    for (; at < to; at += DD_MSG_PIECE)
        piece_send(h, at, number, h->value + at);
}

/* The next message that is not about an owner which stands still. */
static struct msg message_await(struct hand *h) {
    struct msg m;
    do {
        must(raw_next(&h->r, h->lane, &m, NULL, 60000), "nothing came");
        raw_consumed(&h->r, h->lane, &m);
    } while (m.type == MSG_HOLD);
    return m;
}

static void is_banned(struct hand *h) {
    struct pollfd p = {.fd = h->r.sock, .events = POLLRDHUP};
    must(poll(&p, 1, 30000) == 1 && p.revents & (POLLRDHUP | POLLHUP), "it is not banned");
}

static uint64_t rewound(struct hand *h, uint64_t sent) {
    struct msg m = message_await(h);
    must(m.type == MSG_REWIND && m.id == h->put.id && m.rewind == 1 && m.aux <= sent,
         "%s %d, to %llu, number %u", msg_name(m.type), m.status, (unsigned long long)m.aux,
         m.rewind);
    return m.aux;
}

static void answer_is(struct hand *h, int status) {
    struct msg m = message_await(h);
    must(m.type == MSG_REPLY && m.id == h->put.id && m.status == status, "%s %d", msg_name(m.type),
         m.status);
}

/* They were on their way, in part or with the last one; none counts. */
static void old_pieces(struct hand *h) {
    static uint8_t wrong[DD_MSG_PIECE];
    uint64_t last = h->put.val_len - 1, from = rewound(h, 3 * DD_MSG_PIECE);
    memset(wrong, 0x5a, sizeof wrong);
    piece_send(h, 3 * DD_MSG_PIECE, 0, wrong);
    piece_send(h, last, 0, wrong);
    for (uint64_t at = from; at < h->put.val_len; at += DD_MSG_PIECE) {
        piece_send(h, at, 1, h->value + at);
        if (at + DD_MSG_PIECE < h->put.val_len)
            piece_send(h, at, 0, wrong);
    }
    answer_is(h, 0);
}

/* Its CANCEL tells that nothing more comes; a put of the same id would break a rule else. */
static void given_up(struct hand *h) {
    struct msg m = {.type = MSG_CANCEL, .id = h->r.next_id++, .aux = h->put.id};
    rewound(h, h->put.val_len);
    raw_send(&h->r, h->lane, &m, NULL, NULL, 0);
    answer_is(h, -ECANCELED);
    h->put.flags = MSGF_STREAM; /* with the same id: nothing is left of the first */
}

void pieces_send(enum pieces how, const char *key, const uint8_t *value, size_t len, int begun) {
    static struct hand h;
    raw_attach(&h.r);
    h.lane = raw_lane_for(&h.r, key, strlen(key));
    h.value = value;
    h.put = (struct msg){.type = MSG_PUT,
                         .flags = MSGF_STREAM | MSGF_NEW,
                         .id = h.r.next_id++,
                         .key_len = (uint32_t)strlen(key),
                         .val_len = len};
    raw_send(&h.r, h.lane, &h.put, key, NULL, 0);
    pieces_from(&h, 0, how == PIECES_GIVE_UP ? len : 3 * DD_MSG_PIECE, 0);
    must(write(begun, "x", 1) == 1, "nobody to tell");
    if (how == PIECES_EARLY) {
        piece_send(&h, 3 * DD_MSG_PIECE, 1, value + 3 * DD_MSG_PIECE);
        is_banned(&h);
    } else if (how == PIECES_LATER) {
        piece_send(&h, rewound(&h, 3 * DD_MSG_PIECE), 2, value);
        is_banned(&h);
    } else if (how == PIECES_OLD) {
        old_pieces(&h);
    } else {
        given_up(&h);
        raw_send(&h.r, h.lane, &h.put, key, NULL, 0);
        pieces_from(&h, 0, len, 0);
        answer_is(&h, 0);
    }
    _exit(0);
}
