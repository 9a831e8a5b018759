/* SPDX-License-Identifier: Apache-2.0 */
/* msg.h - one message format for lanes and TCP. What each type means: PROTOCOL 1. */
#ifndef DDICT_WIRE_MSG_H
#define DDICT_WIRE_MSG_H

#include <base/defaults.h>

#include <stdint.h>

#define MSG_HEADER  64u                          /* sizeof(struct msg) */
#define MSG_LEN_MAX (MSG_HEADER + DD_MSG_INLINE) /* of any message on any carrier */
#define MSG_KEY_MAX 65536u
/* val_len and offsets stay below it, so sums do not wrap */
#define MSG_VALUE_MAX (1ull << 62)

enum msg_type {
    MSG_PAD = 1,
    MSG_PUT,
    MSG_GET,
    MSG_POP,
    MSG_HEAD,
    MSG_DEL,
    MSG_CLEAR,
    MSG_LEN,
    MSG_KEYS,
    MSG_STATS,
    MSG_CANCEL,
    MSG_DATA,
    MSG_ABORT,
    MSG_CREDIT,
    MSG_FREEZE,
    MSG_PREFETCH,
    MSG_REPLY,
    MSG_EVENTS,
    MSG_PROBE,
    MSG_HOLD,
    MSG_CTL_READY,
    MSG_CTL_DRAIN,
    MSG_CTL_DRAINED,
    MSG_CTL_BEAT,
    MSG_CTL_LOST,
    MSG_CTL_STATS,
    MSG_CTL_END,
    MSG_CTL_STEP,
    MSG_CTL_NOTE,
    MSG_CTL_DONE,
    MSG_CTL_TASKS,
    MSG_CTL_MEET,
    MSG_CTL_FREEZE,
    MSG_LINK_OFFER,
    MSG_LINK_NUDGE,
    MSG_LINK_TOOK,
    MSG_CTL_SAVE,
    MSG_TYPE_N
};

enum msg_flag {
    /* values of DDICT_NEW, DDICT_EXISTING, DDICT_WAIT */
    MSGF_NEW = 1,
    MSGF_EXISTING = 2,
    MSGF_WAIT = 4,
    MSGF_STREAM = 8,  /* the value follows in DATA messages */
    MSGF_LAST = 16,   /* DATA: the final piece */
    MSGF_VIEW = 32,   /* GET, POP: a place in the arena is wanted */
    MSGF_PLACED = 64, /* REPLY: aux is an offset in the arena of `manager` */
    MSGF_HOP = 128,   /* forwarded by a manager */
    /* PUT: behind the values that the key has; HEAD: of the key as a queue */
    MSGF_APPEND = 256,
    /* DATA, lanes only: no payload; its val_len bytes stand in the lane's area at `version` */
    MSGF_AREA = 512,
    /* between managers: GET, POP: the requester can read the value from the owner's memory; REPLY:
     * it shall, the payload says where */
    MSGF_REMOTE = 1024
};

struct msg {
    uint32_t len; /* header and payload, bytes; the lane record is this rounded up to 64 */
    uint16_t type;
    uint16_t flags;
    uint64_t id;
    int32_t status;   /* REPLY */
    uint32_t key_len; /* the payload begins with so many bytes of key */
    uint64_t val_len; /* of the whole value */
    uint64_t aux;
    uint64_t version;
    uint32_t manager; /* whom it is for; REPLY: who answers */
    uint8_t tag;
    uint8_t room[3];
    uint32_t patience_ms; /* of a request without WAIT: so long may it take; 0: no limit */
    uint32_t room2;
};
_Static_assert(sizeof(struct msg) == 64, "the protocol version must change with the header");

_Static_assert(DD_MSG_PIECE <= DD_MSG_INLINE, "a piece must fit into a message");
_Static_assert(MSG_KEY_MAX <= DD_MSG_INLINE, "the longest key must fit into a message");

/*
 * Check a header that was copied from an untrusted place: known type, len within the limits of its
 * type, lengths that agree, no flag that the type does not know. PUT inline: payload = key + value;
 * PUT with STREAM, GET, POP, HEAD, DEL: payload = key; KEYS, EVENTS: prefix; DATA: 1 ..
 * DD_MSG_PIECE bytes (0 only with LAST; with AREA none, and val_len says so many); CLEAR, LEN,
 * STATS, CANCEL, ABORT, CREDIT, HOLD, FREEZE: none; REPLY, CTL, PREFETCH: any (only the requester
 * knows). max_len: of the carrier. 0 or DDICT_EPROTO. What ring_peek() and a connection deliver has
 * passed this check.
 */
int msg_check(const struct msg *m, uint32_t max_len);
const char *msg_name(unsigned type); /* "PUT"; "?" when unknown */

#endif
