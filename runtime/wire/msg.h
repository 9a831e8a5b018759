/* SPDX-License-Identifier: Apache-2.0 */
/* msg.h - one message format for lanes and TCP. What each type means: PROTOCOL 1. */
#ifndef DDICT_WIRE_MSG_H
#define DDICT_WIRE_MSG_H

#include <base/defaults.h>

#include <stdint.h>

#define MSG_HEADER  64u                          /* sizeof(struct msg) */
#define MSG_LINK    32u                          /* bytes of a link (FORMAT 10) */
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
    MSG_CTL_INFO,
    MSG_CTL_INFOS,
    MSG_TOOK,
    MSG_REWIND,
    MSG_SYNC,
    MSG_REPL,
    MSG_ACK,
    MSG_CTL_MAP,
    MSG_CTL_DROP,
    MSG_CTL_VOTE,
    MSG_CTL_VOTED,
    MSG_CTL_HOLD_MAP,
    MSG_CTL_HELD,
    MSG_CTL_ROUND,
    MSG_CTL_PLACED,
    MSG_CTL_WHOLE,
    MSG_CTL_PRIMARY_LOST,
    MSG_CTL_REFILLED,
    MSG_LIFE,
    MSG_KNOWS,
    MSG_FORGOT,
    MSG_ALIVE,
    MSG_TYPE_N
};

/* aux of FREEZE, and status of SUP_FREEZE_ASK: the state that is wanted (PROTOCOL 9) */
enum freeze_want { WANT_OPEN = 0, WANT_FROZEN = 1, WANT_RESTORING = 2 };

enum msg_flag {
    /* as DDICT_NEW, DDICT_EXISTING, DDICT_WAIT. NEW of SYNC: all is copied; what the backup has is of
     * no use */
    MSGF_NEW = 1,
    MSGF_EXISTING = 2,
    MSGF_WAIT = 4,
    MSGF_STREAM = 8,  /* the value follows in DATA messages */
    MSGF_LAST = 16,   /* DATA: the last piece */
    MSGF_VIEW = 32,   /* GET, POP: answer with a place in the arena, if possible */
    MSGF_PLACED = 64, /* REPLY: aux is an offset in the arena of `manager` */
    MSGF_HOP = 128,   /* forwarded by a manager */
    /* PUT: append to the values of the key; HEAD: ask for the key as a queue */
    MSGF_APPEND = 256,
    /* DATA of lanes: no payload; val_len bytes at `version` of the lane's area instead */
    MSGF_AREA = 512,
    /* between managers. GET, POP: the requester can read the owner's memory; REPLY: the value is to
     * be read, from where the payload says */
    MSGF_REMOTE = 1024,
    /* between managers: the requester has asked before, with this id, over a connection that ended */
    MSGF_AGAIN = 2048,
    MSGF_LOADED = 4096,   /* PUT, DEL: of a value that can be read again, as DDICT_LOADED */
    MSGF_REFILL = 8192,   /* PUT: it is read again, as DDICT_REFILL */
    MSGF_RESTORE = 16384, /* PUT, DEL: of a restore, also while RESTORING (PROTOCOL 9) */
    /* PUT: the value is a link, and its sender removes what a link that it replaces names. HEAD: the
     * REPLY has the link as its payload, and none if the value is no link */
    MSGF_LINK = 32768
};

/*
 * What a REPL asks of a backup (in `status`); it judges nothing. id, manager: of the proxy's request
 * for which the change is made, whose result it writes; id 0: of none. version: at least so high is
 * the version counter before it is carried out.
 */
enum repl_op {
    REPL_PUT = 1,    /* key, value: in place of the first value of the key, or as its first */
    REPL_APPEND = 2, /* key, value: behind the last one */
    REPL_POP = 3,    /* key: without its first value, which the result keeps until REPL_TOOK */
    /* aux of both, where it may have been carried out before: values of the key without it, and 1 */
    REPL_DEL = 4, /* key; also one that is not there */
    REPL_CLEAR = 5,
    REPL_LIMIT = 6, /* key; aux: values that its queue may have */
    REPL_TOOK = 7,  /* id, manager: the proxy has what it popped */
    /* of a copy; what they are of has no change in flight */
    REPL_ITEM = 8,   /* as PUT, and version is that of this value */
    REPL_RESULT = 9, /* id, manager, version: a result; key, value: what it has taken, or none */
    REPL_WHOLE = 10  /* that was all */
};

/* What the owner judges, or works out, from what the key has when the change is made. */
enum key_rule {
    RULE_NONE,
    /* PUT, DEL: only if the key's version is `version`, 0: if it is absent. HEAD with WAIT: wait until it
     * is another one */
    RULE_IF,
    /* PUT without a value: the integer of the key and aux, as decimal text; the REPLY has the sum in
     * place of the version. REPL: a PUT of such a sum */
    RULE_ADD,
    /* PUT, DEL: as RULE_IF, also of a link: its sender removes what that names */
    RULE_LINKED,
    RULE_N
};

struct msg {
    uint32_t len; /* bytes of header and payload; a lane rounds it up to 64 */
    uint16_t type;
    uint16_t flags;
    uint64_t id;
    int32_t status;   /* REPLY */
    uint32_t key_len; /* bytes of the key, at the beginning of the payload */
    uint64_t val_len; /* bytes of the whole value */
    uint64_t aux;
    uint64_t version;
    uint32_t manager; /* to whom it goes; of a REPLY: from whom it comes */
    uint8_t tag;
    uint8_t rule; /* enum key_rule */
    uint8_t room[2];
    uint32_t patience_ms; /* of a request without WAIT: how long it may take; 0: no limit */
    /* REWIND: its number, of that PUT; DATA of a PUT: the last one that its sender has taken */
    uint32_t rewind;
};
_Static_assert(sizeof(struct msg) == 64, "the protocol version must change with the header");

_Static_assert(DD_MSG_PIECE <= DD_MSG_INLINE, "a piece must fit into a message");
_Static_assert(MSG_KEY_MAX <= DD_MSG_INLINE, "the longest key must fit into a message");

/*
 * Check a header that was copied from untrusted memory: known type, lengths that agree and are
 * within the limits of the type, only flags that the type has.
 *
 *     PUT                               payload = key + value; with STREAM: key; with RULE_ADD: key
 *     GET, POP, HEAD, DEL               key
 *     KEYS, EVENTS                      prefix
 *     DATA                              1 .. DD_MSG_PIECE bytes; 0 only with LAST; with AREA none,
 *                                       and val_len has the number
 *     CLEAR, LEN, STATS, CANCEL, ABORT, CREDIT, HOLD, FREEZE, TOOK, REWIND,
 *     LIFE, KNOWS, FORGOT, ALIVE: none
 *     REPL                              key, or none, + value; with STREAM the value follows in DATA
 *     SYNC, ACK                         none
 *     REPLY, CTL, PREFETCH              any (only the requester knows)
 *
 * max_len: of the carrier. 0 or DDICT_EPROTO. Messages from ring_peek() and from connections have
 * passed this check.
 */
int msg_check(const struct msg *m, uint32_t max_len);
const char *msg_name(unsigned type); /* "PUT", ...; "?": unknown */

#endif
