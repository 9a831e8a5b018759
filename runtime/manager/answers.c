/* SPDX-License-Identifier: Apache-2.0 */
/* answers.c - answers to requests: a value, in one of the ways in which it can travel, or an error
 * with a sentence; and the room for a value that comes. */
#include "answers.h"

#include "record_rate.h"
#include "requester.h"
#include "rma_export.h"
#include "rooms.h"
#include "stream_out.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/size.h>

#include <errno.h>
#include <stdio.h>

/* Adds to the sentence: how much is free, why that cannot be used, and what helps. */
static void full_why(struct manager *m, uint64_t val_len, char *text, size_t cap) {
    struct store_room r;
    char free_text[24], stuck[80] = "", held[24], views[96] = "";
    store_room(m->store, &r);
    size_format(free_text, sizeof free_text, r.free_bytes);
    if (r.stuck_bytes > r.free_bytes / 8) {
        size_format(held, sizeof held, r.stuck_bytes);
        snprintf(stuck, sizeof stuck, ", %s of it scattered", held);
    } else if (r.free_bytes > val_len && r.row_bytes < val_len) {
        size_format(held, sizeof held, r.row_bytes);
        snprintf(stuck, sizeof stuck, " in pieces of at most %s", held);
    }
    if (r.held_bytes > 0) {
        size_format(held, sizeof held, r.held_bytes);
        snprintf(views, sizeof views,
                 "; views hold %s of replaced values, most of it process %u: release them", held,
                 r.holder_pid);
    }
    snprintf(text, cap, "; %s free%s%s; delete keys, clear, or give it more memory (--ddict-mem)",
             free_text, stuck, views);
}

const char *request_full_text(struct manager *m, int code, uint64_t val_len) {
    static char text[DD_ERRMSG_MAX];
    char used[24], total[24], value[24];
    const char *cause = dd_errmsg();
    size_format(value, sizeof value, val_len);
    if (code == DDICT_EFULL) {
        size_format(used, sizeof used, m->header->used_bytes);
        size_format(total, sizeof total, m->header->budget);
        /* the budget is not the cause: the machine is short of memory (STORE_FULL_MACHINE), or the
         * disk is full */
        bool limit = dd_errkind() != 0;
        int n = snprintf(text, sizeof text,
                         "manager %u on %s is full: %s used of %s (value of %s does not fit)%s%s",
                         m->setup->id, m->setup->node, used, total, value, limit ? "; " : "",
                         limit ? cause : "");
        if (n > 0 && n < (int)sizeof text && !limit)
            full_why(m, val_len, text + n, sizeof text - (size_t)n);
    } else if (code == DDICT_EVALSIZE) {
        size_format(total, sizeof total,
                    m->header->spill_len > m->header->budget ? m->header->spill_len
                                                             : m->header->budget);
        snprintf(text, sizeof text, "value of %s can not be stored: manager %u on %s has %s in all",
                 value, m->setup->id, m->setup->node, total);
    } else {
        snprintf(text, sizeof text, "manager %u on %s: %s", m->setup->id, m->setup->node,
                 *cause ? cause : dd_strerror(code));
    }
    return text;
}

void request_failed(struct requester *a, const struct msg *m, int code) {
    bool plain = code == DDICT_ENOKEY || code == DDICT_EEXISTS || code == DDICT_ESEALED ||
                 code == DDICT_ENOTINT || code == -ERANGE || code == DDICT_ELINK;
    const char *text = plain ? NULL : request_full_text(a->m, code, m->val_len);
    if (code == DDICT_EFULL)
        a->m->count->full_errors++;
    if (code == DDICT_EFULL)
        note_full(a->m, text);
    requester_reply(a, m, code, text);
    a->m->now = clock_ns(); /* working out the sentence may have taken a while */
}

int request_reserve(struct requester *a, const struct msg *m, const uint8_t *key,
                    struct store_ref *ref) {
    bool lane = a->ops->position != NULL,
         fresh = !a->room_since && (!lane || a->ops->position(a) >= a->room_upto);
    if (fresh)
        a->room_scan = 0;
    uint64_t made = store_room_made(a->m->store);
    int e =
        store_reserve_again(a->m->store, key, m->key_len, m->val_len, m->tag, ref, &a->room_scan);
    if (e == -EINPROGRESS) {
        /* the scan begins after this moment, so it serves all requests that are in the ring now */
        if (fresh && lane)
            a->room_upto = a->ops->filled(a);
        if (!a->room_since || store_room_made(a->m->store) != made)
            a->room_since = a->m->now;
        if (a->m->now - a->room_since < DD_COMPACT_WAIT_MS * 1000000ull)
            return TAKE_LATER;
        store_reserve_late(a->m->store);
        e = DDICT_EFULL;
    }
    a->room_since = 0;
    if (e == 0 && m->flags & MSGF_LOADED && a->m->setup->refill)
        store_mark_loaded(ref);
    if (e == 0 && m->flags & MSGF_LINK) {
        store_mark_link(ref);
        a->m->linked = true;
    }
    return e == -EAGAIN ? manager_waits_for_room(a->m) : e;
}

void request_given_up(struct requester *a, const struct msg *m, struct store_ref *ref) {
    if (a->m->answering)
        requester_entry_taken(a, m->id);
    store_abort(a->m->store, ref);
}

/* --- a value --- */
bool request_placed(const struct requester *a, const struct msg *req) {
    return req->flags & MSGF_VIEW && a->kind == REQUESTER_LANE;
}

bool item_goes_whole(const struct item *it) {
    return !item_away(it) && it->val_len <= DD_MSG_INLINE;
}

void request_give(struct requester *a, const struct msg *req, const struct store_ref *ref,
                  bool pinned, struct stream_out *ready) {
    struct manager *m = a->m;
    const struct item *it = ref->item;
    struct msg r;
    reply_init(&r, req->id, m->setup->id);
    r.val_len = item_len(it);
    r.tag = it->tag;
    r.version = it->version & ~ITEM_CACHED;
    if (req->type == MSG_HEAD) {
        struct store_queue q;
        store_queue_look(m->store, it->key, it->key_len, it->hash, &q);
        r.aux = 1 + q.more;
        bool asks = req->flags & MSGF_LINK, link = asks && item_is_link(it);
        r.val_len = asks ? 0 : item_read_len(it);
        if (link)
            r.val_len = it->val_len;
        requester_send(a, &r, link ? item_value(it) : NULL, link ? it->val_len : 0);
        return;
    }
    m->count->bytes_out += r.val_len;
    if (request_placed(a, req)) {
        if (!pinned && store_pin(m->store, ref->off) < 0) {
            requester_reply(a, req, -ENOMEM, NULL);
            return;
        }
        r.flags = MSGF_PLACED;
        r.aux = ref->off;
        r.len = MSG_HEADER;
        requester_send_placed(a, &r, ref->off);
        return;
    }
    if (item_goes_whole(it)) {
        requester_send(a, &r, ref->value, it->val_len);
        if (pinned)
            store_unpin(m->store, ref->off);
        return;
    }
    if (!pinned && store_pin(m->store, ref->off) < 0) {
        requester_reply(a, req, -ENOMEM, NULL);
        return;
    }
    if (req->flags & MSGF_REMOTE && !item_away(it) && rma_export_begin(a, &r, ref)) {
        stream_out_drop(ready);
        return;
    }
    if (!ready && !(ready = stream_out_new(m, item_away(it) ? ref : NULL))) {
        store_unpin(m->store, ref->off);
        requester_reply(a, req, -ENOMEM, NULL);
        return;
    }
    stream_out_item(ready, a, &r, req, ref);
}

bool request_takes(const struct requester *a, const struct msg *req, const struct store_ref *ref) {
    return req->type == MSG_POP && (request_placed(a, req) || item_len(ref->item) <= req->version);
}

void request_pop_small(struct requester *a, const struct msg *req, const struct store_ref *ref) {
    struct msg r;
    reply_init(&r, req->id, a->m->setup->id);
    r.status = DDICT_ESMALL;
    r.val_len = item_len(ref->item);
    requester_send(a, &r, NULL, 0);
}

void request_found(struct requester *a, const struct msg *req, const struct store_ref *ref,
                   bool pinned, struct stream_out *ready, uint64_t began) {
    struct manager *m = a->m;
    if (req->type != MSG_HEAD) {
        if (a->kind == REQUESTER_LANE)
            m->count->gets_local++;
        else
            m->count->gets_remote++;
    }
    request_give(a, req, ref, pinned, ready);
    m->now = clock_ns();
    count_latency(m, DDICT_LATENCY_GET, began, m->now);
}

void request_value(struct requester *a, const struct msg *req, const struct store_ref *ref) {
    if (req->type == MSG_POP)
        request_pop_small(a, req, ref);
    else
        request_found(a, req, ref, false, NULL, clock_ns());
}
