/* SPDX-License-Identifier: Apache-2.0 */
/* async_submit.c - begin ops: items of this node are read at once, other ops become requests. */
#include "async.h"
#include "local_read.h"
#include "request.h"
#include "view.h"
#include "window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ops submitted between two turns: the manager works while we prepare more */
#define TURN_OPS 64u

static bool op_is_put(const struct ddict_op *o) {
    return o->what == DDICT_OP_PUT || o->what == DDICT_OP_PUTV;
}

/* Length of the value of a put; MSG_VALUE_MAX: too long. */
static uint64_t op_value_length(const struct ddict_op *o) {
    uint64_t sum = o->what == DDICT_OP_PUT ? o->len : 0;
    const struct iovec *v = o->buf;
    for (size_t i = 0; o->what == DDICT_OP_PUTV && i < o->len; i++)
        if (v[i].iov_len >= MSG_VALUE_MAX || (sum += v[i].iov_len) >= MSG_VALUE_MAX)
            return MSG_VALUE_MAX;
    return sum;
}

static int op_check(const struct ddict_op *o) {
    struct msg head;
    if (o->what < DDICT_OP_VIEW || o->what > DDICT_OP_PUTV)
        return dd_error(-EINVAL, "operation %u: there is no such thing", o->what);
    if (o->what == DDICT_OP_PUTV && o->len > DDICT_PIECES_MAX)
        return dd_error(-EINVAL, "a value of %zu pieces: at most %d", o->len, DDICT_PIECES_MAX);
    if (op_is_put(o) && o->flags & DDICT_NEAR)
        return dd_error(-EINVAL, "an asynchronous put with DDICT_NEAR: use ddict_put()");
    if (op_is_put(o))
        return put_head(&head, 0, o->klen, op_value_length(o), o->flags);
    if (o->flags & ~(o->what == DDICT_OP_DEL ? 0 : DDICT_WAIT))
        return dd_error(-EINVAL, "an operation with unknown flags 0x%x", o->flags);
    return 0;
}

/* Finish the op without a message; -EINPROGRESS: a message is needed. */
static int async_op_try_local(struct session *s, struct ddict_op *o, unsigned owner, uint64_t h) {
    struct node_manager *m = session_local(s, owner);
    int rc = -EAGAIN;
    if (m && o->what == DDICT_OP_VIEW)
        rc = local_view(s, m, h, o->key, o->klen, &o->view);
    else if (m && o->what == DDICT_OP_GET)
        rc = local_copy(s, m, h, o->key, o->klen, o->buf, o->len, &o->vlen, &o->tag);
    if (rc == DDICT_ESMALL)
        return dd_error(rc, "the value has %zu bytes, the buffer %zu", o->vlen, o->len);
    if (rc == DDICT_ENOKEY && !(o->flags & DDICT_WAIT && o->timeout_ms != 0))
        return dd_error_plain(rc);
    if (rc != -EAGAIN && rc != DDICT_ENOKEY)
        return rc;
    if (o->timeout_ms == 0)
        return dd_error(-ETIMEDOUT, "manager %u must be asked, which a timeout of 0 does not allow",
                        owner);
    return -EINPROGRESS;
}

static int async_op_request(struct session *s, struct async_op *op, unsigned owner) {
    struct ddict_op *o = &op->pub;
    struct msg *head = &op->out.head;
    op->r = (struct request){.sink = SINK_NONE, .is_async_op = true};
    if (op_is_put(o)) {
        put_head(head, owner, o->klen, op_value_length(o), o->flags);
        op->iov = (struct iovec){.iov_base = o->buf, .iov_len = o->len};
        op->out.iov = o->what == DDICT_OP_PUT ? &op->iov : o->buf;
        op->out.niov = o->what == DDICT_OP_PUT ? 1 : (int)o->len;
    } else if (o->what == DDICT_OP_DEL) {
        head->type = MSG_DEL;
    } else if (o->what == DDICT_OP_GET) {
        head->type = o->len == 0 ? MSG_HEAD : MSG_GET;
        op->r.sink = o->len == 0 ? SINK_NONE : SINK_BUFFER;
        op->r.buf = o->buf;
        op->r.cap = o->len;
    } else {
        head->type = o->what == DDICT_OP_POP ? MSG_POP : MSG_GET;
        op->r.sink = SINK_MEMORY;
        if (request_slot(s, &op->r, &op->slot) == 0)
            head->flags = MSGF_VIEW;
    }
    head->key_len = (uint32_t)o->klen;
    head->manager = owner;
    op->out.key = op->key;
    bool comes = head->type == MSG_POP && (op->m->id != owner || !op->r.slot);
    op->ordered =
        !op->waits && (op_is_put(o) || o->what == DDICT_OP_DEL || o->what == DDICT_OP_POP);
    bool pieces = op_is_put(o) && op->m->id != owner && head->val_len > DD_MSG_INLINE - o->klen;
    op->repeats = op->ordered && (comes || pieces);
    return comes ? request_pop(s, &op->r, &op->out, 0) : 0;
}

int async_op_at_once(ddict_t *d, struct ddict_op *o) {
    if (!d)
        return dd_error(-ECANCELED, "the handle of these asynchronous requests was detached");
    switch (o->what) {
    case DDICT_OP_VIEW:
        return ddict_view(d, o->key, o->klen, &o->view, o->flags, o->timeout_ms);
    case DDICT_OP_GET:
        return ddict_get(d, o->key, o->klen, o->buf, o->len, &o->vlen, &o->tag, o->flags,
                         o->timeout_ms);
    case DDICT_OP_DEL:
        return ddict_del(d, o->key, o->klen, o->timeout_ms);
    case DDICT_OP_POP:
        return ddict_pop(d, o->key, o->klen, &o->view, o->flags, o->timeout_ms);
    case DDICT_OP_PUT:
        return ddict_put(d, o->key, o->klen, o->buf, o->len, o->flags, o->timeout_ms);
    default:
        return ddict_putv(d, o->key, o->klen, o->buf, (int)o->len, o->flags, o->timeout_ms);
    }
}

/* Of a working set: done at once, in several requests, one after the other. */
static int async_op_in_window(ddict_t *d, struct ddict_op *o) {
    if (!op_is_put(o) && o->flags & DDICT_WAIT)
        return dd_error(-EOPNOTSUPP, "in a dictionary with a working set no asynchronous operation "
                                     "waits for its key: submit it when the key is there");
    return async_op_at_once(d, o);
}

static int async_op_start(struct ddict_async *q, struct session *s, struct ddict_op *o) {
    if (window_has(s, o->key, o->klen))
        return async_op_in_window(__atomic_load_n(&q->d, __ATOMIC_RELAXED), o);
    uint64_t h = key_hash(o->key, o->klen);
    unsigned owner = deal_owner(&s->deal, o->key, o->klen, h);
    int rc = async_op_try_local(s, o, owner, h);
    if (rc == DDICT_ELINK)
        return async_op_at_once(__atomic_load_n(&q->d, __ATOMIC_RELAXED), o);
    if (rc != -EINPROGRESS)
        return rc;
    bool waits = !op_is_put(o) && o->flags & DDICT_WAIT;
    int ms = o->timeout_ms >= 0 ? o->timeout_ms : waits ? s->wait_ms : s->timeout_ms;
    struct async_op *op = calloc(1, sizeof *op + o->klen);
    if (!op)
        return dd_error(-ENOMEM, "no memory for a request");
    o->status = -EINPROGRESS;
    op->q = q;
    op->pub = *o;
    op->pub.key = NULL;
    op->m = session_route(s, owner);
    op->timeout_ms = ms;
    op->hash = h;
    op->waits = waits;
    memcpy(op->key, o->key, o->klen);
    rc = async_op_request(s, op, owner);
    if (op->waits) {
        op->out.head.flags |= MSGF_WAIT;
        op->out.head.aux = (uint64_t)ms * 1000u;
    }
    if (rc == 0 && async_op_send(op, &o->ticket))
        return -EINPROGRESS; /* another thread may have freed op already */
    if (op->r.slot)
        lease_release(s, op->slot);
    request_drop(&op->r);
    free(op);
    return dd_error(-ENOMEM, "no memory for a request");
}

ssize_t ddict_async_submit(ddict_async_t *q, struct ddict_op *ops, size_t n) {
    struct session *s;
    int rc = async_enter(q, &s);
    if (rc == 0 && !s)
        rc = dd_error(-ECANCELED, "the handle of these asynchronous requests was detached");
    else if (rc == 0 && !status_page_serves(s->status_page))
        rc = session_state_error(s);
    ssize_t under_way = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct ddict_op *o = &ops[i];
        o->ticket = 0;
        o->tag = 0;
        o->vlen = 0;
        o->view.kind_ = 0;
        o->text = NULL;
        o->status = key_check(o->klen);
        if (o->status == 0)
            o->status = op_check(o);
        if (o->status == 0)
            o->status = async_op_start(q, s, o);
        under_way += o->status == -EINPROGRESS;
        if (o->status < 0 && o->status != -EINPROGRESS && o->status != DDICT_ENOKEY)
            o->text = strdup(dd_errmsg());
        if (under_way % TURN_OPS == TURN_OPS - 1)
            client_lanes_turn(s, false);
    }
    if (under_way > 0) {
        client_lanes_turn(s, false);
        async_arm_timer(q);
    }
    async_leave(q);
    return rc < 0 ? rc : under_way;
}
