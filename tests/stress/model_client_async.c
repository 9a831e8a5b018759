/* SPDX-License-Identifier: Apache-2.0 */
/* model_client_async.c - asynchronous requests, many at a time, some of them cancelled. */
#include "model_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct task {
    struct ddict_op asked;
    unsigned id, kind;
    uint64_t op, look;
    bool there, over, cancelled;
    struct iovec v[3];
    char *buf;
};

static void op_over(struct task *t, struct ddict_op *r) {
    t->over = true;
    if (t->kind != 0) {
        uint32_t state;
        if (r->status == -ECANCELED && t->cancelled) {
            state = MODEL_UNKNOWN;
            model_count("cancelled", 1);
        } else {
            if (r->status < 0 && r->text && r->status != -ETIMEDOUT && r->status != DDICT_EFULL &&
                r->status != DDICT_EFROZEN && r->status != DDICT_EEXISTS &&
                r->status != DDICT_ENOKEY)
                fprintf(stderr, "async: %d %s\n", r->status, r->text);
            state = outcome("async", t->id, r->status, t->asked.timeout_ms,
                            t->kind == MODEL_DEL ? DDICT_EXISTING : t->asked.flags, true, t->there);
        }
        found(model_end(t->id, t->op, state));
    } else if (r->status == DDICT_ENOKEY) {
        found(model_seen(t->id, t->look, NULL, 0, 0, 0, NULL, "async"));
    } else if (r->status != 0 && !(r->status == -ECANCELED && t->cancelled) &&
               !(r->status == -ETIMEDOUT && t->asked.timeout_ms < LONG_MS)) {
        found(model_wrong("async op %u of key %u: %d %s", t->asked.what, t->id, r->status,
                          r->text ? r->text : ""));
    }
    if (r->status == 0 && (t->asked.what == DDICT_OP_VIEW || t->asked.what == DDICT_OP_POP))
        viewed(t->asked.what == DDICT_OP_VIEW ? "async view" : "async pop", t->id, t->look,
               &r->view);
    if (r->status == 0 && t->asked.what == DDICT_OP_GET)
        found(model_seen(t->id, t->look, t->buf, r->vlen, r->tag, 0, NULL, "async get"));
    free(r->text);
    free(t->buf);
    t->buf = NULL;
}

void async_some(void) {
    static struct task task[MANY];
    struct ddict_op op[MANY], done[8];
    unsigned ids[MANY], own = own_keys(ids, (unsigned)below(MANY / 2)),
                        n = own + (unsigned)below(MANY / 2), left = 0;
    for (unsigned i = 0; i < n; i++) {
        struct task *t = &task[i];
        memset(t, 0, sizeof *t);
        t->id = i < own ? ids[i] : any_key();
        const struct key *k = key_at(i, t->id);
        t->look = model_look(t->id);
        t->there = model_there(t->id);
        struct ddict_op *j = &t->asked;
        *j = (struct ddict_op){.key = k->name, .klen = k->len, .timeout_ms = some_ms(), .user = t};
        if (i >= own) {
            j->what = one_in(2) ? DDICT_OP_VIEW : DDICT_OP_GET;
            if (j->what == DDICT_OP_GET) {
                j->buf = t->buf = malloc(MODEL_VALUE_MAX + 64);
                j->len = MODEL_VALUE_MAX + 64;
            }
        } else if (one_in(4)) {
            t->kind = MODEL_DEL;
            j->what = one_in(2) ? DDICT_OP_DEL : DDICT_OP_POP;
            t->op = model_begin(t->id, MODEL_DEL, 0, 0);
        } else {
            size_t len = model_len(t->id, one_in(4) ? 1 : 8), a = below(len + 1);
            t->kind = MODEL_PUT;
            t->buf = malloc(len + 1);
            t->op = model_begin(t->id, MODEL_PUT, len, 0);
            model_fill(t->buf, t->id, t->op, len);
            j->flags = one_in(8) ? DDICT_NEW : one_in(8) ? DDICT_EXISTING : 0;
            if (one_in(2)) {
                j->what = DDICT_OP_PUT;
                j->buf = t->buf;
                j->len = len;
            } else {
                t->v[0] = (struct iovec){t->buf, a};
                t->v[1] = (struct iovec){t->buf + a, len - a};
                j->what = DDICT_OP_PUTV;
                j->buf = t->v;
                j->len = 2;
            }
        }
        op[i] = *j;
    }
    ssize_t rc = ddict_async_submit(async, op, n);
    if (rc < 0)
        found(model_wrong("submit: %zd %s", rc, ddict_errmsg()));
    for (unsigned i = 0; i < n; i++) {
        if (op[i].status != -EINPROGRESS)
            op_over(&task[i], &op[i]);
        else
            left++;
    }
    if (rc >= 0 && (size_t)rc != left)
        found(model_wrong("submit gave %zd, and %u are under way", rc, left));
    if (one_in(3))
        for (unsigned i = 0; i < n; i++)
            if (!task[i].over && one_in(6)) {
                task[i].cancelled = true;
                int c = ddict_async_cancel(async, op[i].ticket);
                if (c == -ENOENT)
                    task[i].cancelled = false;
                else if (c < 0)
                    found(model_wrong("cancel: %d %s", c, ddict_errmsg()));
            }
    uint64_t end = model_now() + (LONG_MS + 60000) * 1000000ull;
    while (left > 0 && !bad) {
        struct pollfd p = {.fd = ddict_async_fd(async), .events = POLLIN};
        bool sleeps = one_in(2);
        if (sleeps)
            poll(&p, 1, 100);
        ssize_t got = ddict_async_poll(async, done, 8, sleeps ? 0 : 200);
        if (got < 0)
            found(model_wrong("poll: %zd %s", got, ddict_errmsg()));
        for (ssize_t i = 0; i < got; i++, left--) {
            struct task *t = done[i].user;
            if (t < task || t >= task + n || t->over)
                found(model_wrong("poll gave an op that is over"));
            else
                op_over(t, &done[i]);
        }
        if (model_now() > end)
            found(model_wrong("%u ops do not end", left));
        model_phase();
    }
    if (ddict_async_len(async) != 0 && !bad)
        found(model_wrong("%zu ops are left", ddict_async_len(async)));
    model_count("async", n);
    if (one_in(30)) {
        ddict_async_close(async);
        rc = ddict_async_open(d, &async);
        if (rc < 0)
            found(model_wrong("async_open: %zd %s", rc, ddict_errmsg()));
    }
}
