/* SPDX-License-Identifier: Apache-2.0 */
/* msg.c - the rules of each message type in one table. */
#include "msg.h"

#include <ddict_types.h>

#include <stdbool.h>

enum payload_rule {
    NO_SUCH,   /* not a type of message */
    NONE,      /* no payload */
    KEY,       /* the key */
    PREFIX,    /* the beginning of keys, or nothing */
    KEY_VALUE, /* the key and, without STREAM, the value */
    PIECE,
    CHANGE, /* the key, or none, and without STREAM the value */
    ANY
};

static const struct msg_rule {
    const char *name;
    uint8_t payload; /* enum payload_rule */
    uint16_t flags;  /* flags that may be set */
} rules[MSG_TYPE_N] = {
    [MSG_PAD] = {"PAD", NO_SUCH, 0},
    [MSG_PUT] = {"PUT", KEY_VALUE,
                 MSGF_NEW | MSGF_EXISTING | MSGF_STREAM | MSGF_HOP | MSGF_APPEND | MSGF_WAIT |
                     MSGF_AGAIN | MSGF_LOADED | MSGF_REFILL | MSGF_RESTORE | MSGF_LINK},
    [MSG_GET] = {"GET", KEY, MSGF_WAIT | MSGF_VIEW | MSGF_HOP | MSGF_REMOTE | MSGF_AGAIN},
    [MSG_POP] = {"POP", KEY, MSGF_WAIT | MSGF_VIEW | MSGF_HOP | MSGF_REMOTE | MSGF_AGAIN},
    [MSG_HEAD] = {"HEAD", KEY, MSGF_WAIT | MSGF_HOP | MSGF_APPEND | MSGF_AGAIN | MSGF_LINK},
    [MSG_DEL] = {"DEL", KEY, MSGF_HOP | MSGF_AGAIN | MSGF_LOADED | MSGF_RESTORE},
    [MSG_CLEAR] = {"CLEAR", NONE, MSGF_HOP | MSGF_AGAIN},
    [MSG_LEN] = {"LEN", NONE, MSGF_HOP | MSGF_AGAIN},
    [MSG_KEYS] = {"KEYS", PREFIX, MSGF_HOP | MSGF_AGAIN},
    [MSG_EVENTS] = {"EVENTS", PREFIX, MSGF_WAIT | MSGF_HOP | MSGF_AGAIN},
    [MSG_STATS] = {"STATS", NONE, MSGF_HOP | MSGF_AGAIN},
    [MSG_PROBE] = {"PROBE", NONE, MSGF_HOP},
    [MSG_ALIVE] = {"ALIVE", NONE, MSGF_HOP | MSGF_AGAIN},
    [MSG_CANCEL] = {"CANCEL", NONE, MSGF_HOP},
    [MSG_DATA] = {"DATA", PIECE, MSGF_LAST | MSGF_HOP | MSGF_AREA},
    [MSG_ABORT] = {"ABORT", NONE, MSGF_HOP},
    [MSG_CREDIT] = {"CREDIT", NONE, MSGF_HOP},
    [MSG_TOOK] = {"TOOK", NONE, MSGF_HOP},
    [MSG_REWIND] = {"REWIND", NONE, 0},
    [MSG_REPLY] = {"REPLY", ANY, 0xff | MSGF_REMOTE},
    [MSG_CTL_READY] = {"CTL_READY", ANY, MSGF_LAST},
    [MSG_CTL_DRAIN] = {"CTL_DRAIN", ANY, MSGF_LAST},
    [MSG_CTL_DRAINED] = {"CTL_DRAINED", ANY, MSGF_LAST},
    [MSG_CTL_BEAT] = {"CTL_BEAT", ANY, MSGF_LAST},
    [MSG_CTL_LOST] = {"CTL_LOST", ANY, MSGF_LAST},
    [MSG_CTL_STATS] = {"CTL_STATS", ANY, MSGF_LAST},
    [MSG_CTL_END] = {"CTL_END", ANY, MSGF_LAST},
    [MSG_CTL_STEP] = {"CTL_STEP", ANY, MSGF_LAST},
    [MSG_CTL_NOTE] = {"CTL_NOTE", ANY, MSGF_LAST},
    [MSG_CTL_TASKS] = {"CTL_TASKS", ANY, MSGF_LAST},
    [MSG_CTL_DONE] = {"CTL_DONE", ANY, MSGF_LAST},
    [MSG_CTL_MEET] = {"CTL_MEET", ANY, MSGF_LAST},
    [MSG_LINK_OFFER] = {"LINK_OFFER", ANY, MSGF_LAST},
    [MSG_LINK_NUDGE] = {"LINK_NUDGE", ANY, MSGF_LAST},
    [MSG_LINK_TOOK] = {"LINK_TOOK", ANY, MSGF_LAST},
    [MSG_CTL_SAVE] = {"CTL_SAVE", ANY, MSGF_LAST},
    [MSG_CTL_INFO] = {"CTL_INFO", ANY, MSGF_LAST},
    [MSG_CTL_INFOS] = {"CTL_INFOS", ANY, MSGF_LAST},
    [MSG_CTL_FREEZE] = {"CTL_FREEZE", ANY, MSGF_LAST},
    [MSG_CTL_MAP] = {"CTL_MAP", ANY, MSGF_LAST},
    [MSG_CTL_DROP] = {"CTL_DROP", ANY, MSGF_LAST},
    [MSG_CTL_VOTE] = {"CTL_VOTE", ANY, MSGF_LAST},
    [MSG_CTL_VOTED] = {"CTL_VOTED", ANY, MSGF_LAST},
    [MSG_CTL_HOLD_MAP] = {"CTL_HOLD_MAP", ANY, MSGF_LAST},
    [MSG_CTL_HELD] = {"CTL_HELD", ANY, MSGF_LAST},
    [MSG_CTL_ROUND] = {"CTL_ROUND", ANY, MSGF_LAST},
    [MSG_CTL_PLACED] = {"CTL_PLACED", ANY, MSGF_LAST},
    [MSG_CTL_WHOLE] = {"CTL_WHOLE", ANY, MSGF_LAST},
    [MSG_CTL_PRIMARY_LOST] = {"CTL_PRIMARY_LOST", ANY, MSGF_LAST},
    [MSG_CTL_REFILLED] = {"CTL_REFILLED", ANY, MSGF_LAST},
    [MSG_SYNC] = {"SYNC", NONE, MSGF_NEW},
    [MSG_REPL] = {"REPL", CHANGE, MSGF_STREAM | MSGF_LOADED | MSGF_LINK},
    [MSG_ACK] = {"ACK", NONE, 0},
    [MSG_HOLD] = {"HOLD", NONE, 0},
    [MSG_LIFE] = {"LIFE", NONE, 0},
    [MSG_KNOWS] = {"KNOWS", NONE, 0},
    [MSG_FORGOT] = {"FORGOT", NONE, 0},
    [MSG_FREEZE] = {"FREEZE", NONE, 0},
    [MSG_PREFETCH] = {"PREFETCH", ANY, 0},
};

static bool rule_good(const struct msg *m) {
    switch (m->rule) {
    case RULE_NONE:
        return true;
    case RULE_IF:
        return (m->type == MSG_PUT && !(m->flags & (MSGF_NEW | MSGF_EXISTING | MSGF_APPEND))) ||
               (m->type == MSG_DEL && m->version != 0) ||
               (m->type == MSG_HEAD && m->flags & MSGF_WAIT);
    case RULE_LINKED:
        return m->version != 0 &&
               ((m->type == MSG_PUT &&
                 !(m->flags & (MSGF_NEW | MSGF_EXISTING | MSGF_APPEND | MSGF_LINK))) ||
                m->type == MSG_DEL);
    case RULE_ADD:
        return (m->type == MSG_PUT && m->val_len == 0 &&
                !(m->flags & (MSGF_NEW | MSGF_EXISTING | MSGF_APPEND | MSGF_STREAM))) ||
               (m->type == MSG_REPL && m->status == REPL_PUT);
    default:
        return false;
    }
}

int msg_check(const struct msg *m, uint32_t max_len) {
    if (m->type >= MSG_TYPE_N || m->len < MSG_HEADER || m->len > max_len)
        return DDICT_EPROTO;
    const struct msg_rule *rule = &rules[m->type];
    uint32_t payload = m->len - MSG_HEADER;
    if ((m->flags & ~rule->flags) != 0 || !rule_good(m) ||
        (m->rewind != 0 && m->type != MSG_DATA && m->type != MSG_REWIND))
        return DDICT_EPROTO;
    if (m->type == MSG_HEAD && (m->flags & (MSGF_APPEND | MSGF_WAIT)) == (MSGF_APPEND | MSGF_WAIT))
        return DDICT_EPROTO;
    switch (rule->payload) {
    case KEY:
        return m->key_len != 0 && m->key_len <= MSG_KEY_MAX && m->key_len == payload ? 0
                                                                                     : DDICT_EPROTO;
    case PREFIX:
        return m->key_len <= MSG_KEY_MAX && m->key_len == payload ? 0 : DDICT_EPROTO;
    case KEY_VALUE:
        if (m->flags & MSGF_LINK &&
            (m->val_len != MSG_LINK || m->flags & (MSGF_STREAM | MSGF_APPEND)))
            return DDICT_EPROTO;
        if (m->key_len == 0 || m->key_len > MSG_KEY_MAX || m->key_len > payload ||
            m->val_len >= MSG_VALUE_MAX ||
            (m->flags & (MSGF_NEW | MSGF_EXISTING)) == (MSGF_NEW | MSGF_EXISTING) ||
            ((m->flags & MSGF_APPEND) ? m->flags & (MSGF_NEW | MSGF_EXISTING)
                                      : m->flags & MSGF_WAIT))
            return DDICT_EPROTO;
        return payload - m->key_len == ((m->flags & MSGF_STREAM) ? 0 : m->val_len) ? 0
                                                                                   : DDICT_EPROTO;
    case CHANGE:
        if (m->key_len > MSG_KEY_MAX || m->key_len > payload || m->val_len >= MSG_VALUE_MAX ||
            m->status < REPL_PUT || m->status > REPL_WHOLE)
            return DDICT_EPROTO;
        return payload - m->key_len == ((m->flags & MSGF_STREAM) ? 0 : m->val_len) ? 0
                                                                                   : DDICT_EPROTO;
    case PIECE:
        if (m->key_len != 0 || payload > DD_MSG_PIECE || m->aux >= MSG_VALUE_MAX)
            return DDICT_EPROTO;
        if (m->flags & MSGF_AREA)
            return payload == 0 && m->val_len - 1 < DD_MSG_PIECE && m->version < MSG_VALUE_MAX
                       ? 0
                       : DDICT_EPROTO;
        return payload != 0 || (m->flags & MSGF_LAST) ? 0 : DDICT_EPROTO;
    case NONE:
        return m->key_len == 0 && payload == 0 ? 0 : DDICT_EPROTO;
    case ANY:
        return m->key_len == 0 && m->val_len < MSG_VALUE_MAX ? 0 : DDICT_EPROTO;
    default:
        return DDICT_EPROTO;
    }
}

const char *msg_name(unsigned type) {
    return type < MSG_TYPE_N && rules[type].name ? rules[type].name : "?";
}
