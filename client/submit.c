/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - jobs begin: what is on this node is read at once, the rest becomes a request. */
#include "ask.h"
#include "jobs.h"
#include "local.h"
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TURN_JOBS \
    64u /* submitted before the first of them are sent: the manager works while we go on */

static bool job_puts(const struct ddict_job *o) {
    return o->what == DDICT_DO_PUT || o->what == DDICT_DO_PUTV;
}

/* Of the value of a put; MSG_VALUE_MAX: too much. */
static uint64_t length(const struct ddict_job *o) {
    uint64_t sum = o->what == DDICT_DO_PUT ? o->len : 0;
    const struct iovec *v = o->buf;
    for (size_t i = 0; o->what == DDICT_DO_PUTV && i < o->len; i++)
        if (v[i].iov_len >= MSG_VALUE_MAX || (sum += v[i].iov_len) >= MSG_VALUE_MAX)
            return MSG_VALUE_MAX;
    return sum;
}

static int flags_check(const struct ddict_job *o) {
    struct msg head;
    if (o->what < DDICT_DO_VIEW || o->what > DDICT_DO_PUTV)
        return dd_error(-EINVAL, "a job to do %u: there is no such thing", o->what);
    if (o->what == DDICT_DO_PUTV && o->len > DDICT_PIECES_MAX)
        return dd_error(-EINVAL, "a value of %zu pieces: at most %d", o->len, DDICT_PIECES_MAX);
    if (job_puts(o))
        return put_head(&head, 0, o->klen, length(o), o->flags);
    if (o->flags & ~(o->what == DDICT_DO_DEL ? 0 : DDICT_WAIT))
        return dd_error(-EINVAL, "a job with unknown flags 0x%x", o->flags);
    return 0;
}

/* Without asking anybody: -EINPROGRESS when that can not be. */
static int job_now(struct session *s, struct ddict_job *o, unsigned owner, uint64_t h) {
    struct node_manager *m = session_local(s, owner);
    int rc = -EAGAIN;
    if (m != NULL && o->what == DDICT_DO_VIEW)
        rc = local_view(s, m, h, o->key, o->klen, &o->view);
    else if (m != NULL && o->what == DDICT_DO_GET)
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

static void job_ask(struct session *s, struct job *j, unsigned owner) {
    struct ddict_job *o = &j->pub;
    struct msg *head = &j->out.head;
    j->r = (struct request){.sink = SINK_NONE, .job = true};
    if (job_puts(o)) {
        put_head(head, owner, o->klen, length(o), o->flags);
        j->iov = (struct iovec){.iov_base = o->buf, .iov_len = o->len};
        j->out.iov = o->what == DDICT_DO_PUT ? &j->iov : o->buf;
        j->out.niov = o->what == DDICT_DO_PUT ? 1 : (int)o->len;
    } else if (o->what == DDICT_DO_DEL) {
        head->type = MSG_DEL;
    } else if (o->what == DDICT_DO_GET) {
        head->type = o->len == 0 ? MSG_HEAD : MSG_GET;
        j->r.sink = o->len == 0 ? SINK_NONE : SINK_BUFFER;
        j->r.buf = o->buf;
        j->r.cap = o->len;
    } else {
        head->type = o->what == DDICT_DO_POP ? MSG_POP : MSG_GET;
        j->r.sink = SINK_MEMORY;
        if (request_slot(s, &j->r, &j->slot) == 0)
            head->flags = MSGF_VIEW;
    }
    head->key_len = (uint32_t)o->klen;
    head->manager = owner;
    j->out.key = j->key;
}

static int job_begin(struct ddict_jobs *q, struct session *s, struct ddict_job *o) {
    uint64_t h = key_hash(o->key, o->klen);
    unsigned owner = hash_owner(h, s->managers);
    int rc = job_now(s, o, owner, h);
    if (rc != -EINPROGRESS)
        return rc;
    int ms = o->timeout_ms < 0 ? s->timeout_ms : o->timeout_ms;
    struct job *j = calloc(1, sizeof *j + o->klen);
    if (j == NULL)
        return dd_error(-ENOMEM, "no memory for a job");
    o->status = -EINPROGRESS;
    j->q = q;
    j->pub = *o;
    j->pub.key = NULL;
    j->m = session_ask(s, owner);
    j->timeout_ms = ms;
    j->waits = !job_puts(o) && o->flags & DDICT_WAIT;
    memcpy(j->key, o->key, o->klen);
    job_ask(s, j, owner);
    if (j->waits) {
        j->out.head.flags |= MSGF_WAIT;
        j->out.head.aux = (uint64_t)ms * 1000u;
    }
    if (job_send(j, &o->ticket))
        return -EINPROGRESS; /* j may be gone */
    if (j->r.slot != NULL)
        lease_release(s, j->slot);
    free(j);
    return dd_error(-ENOMEM, "no memory for a job");
}

ssize_t ddict_submit(ddict_jobs_t *q, struct ddict_job *jobs, size_t n) {
    struct session *s;
    int rc = jobs_enter(q, &s);
    if (rc == 0 && s == NULL)
        rc = dd_error(-ECANCELED, "the handle of this set was detached");
    else if (rc == 0 && !board_serves(s->board))
        rc = session_state_error(s);
    ssize_t under_way = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct ddict_job *o = &jobs[i];
        o->ticket = 0;
        o->tag = 0;
        o->vlen = 0;
        o->view.kind_ = 0;
        o->text = NULL;
        o->status = key_check(o->klen);
        if (o->status == 0)
            o->status = flags_check(o);
        if (o->status == 0)
            o->status = job_begin(q, s, o);
        under_way += o->status == -EINPROGRESS;
        if (o->status < 0 && o->status != -EINPROGRESS && o->status != DDICT_ENOKEY)
            o->text = strdup(dd_errmsg());
        if (under_way % TURN_JOBS == TURN_JOBS - 1)
            ports_turn(s, false);
    }
    if (under_way > 0) {
        ports_turn(s, false);
        jobs_arm(q);
    }
    jobs_leave(q);
    return rc < 0 ? rc : under_way;
}
