/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - jobs of sets on their ports: sent when there is room, given back when they are answered or ended. jobs.h has the rules. */
#include "ask.h"
#include "jobs.h"
#include "port_inside.h"
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* Sent at a time on one port, apart for those that wait for their keys: half of what a manager takes of one lane (forward.c), the rest is for other calls. */
static const uint32_t window[2] = {256, 2048};
#define PUSH_BYTES (2u << 20) /* of one value in a turn: who polls has other things to do */
#define ROUNDS     8          /* of taking and sending in a turn */

static void list_remove(struct port *p, struct job *j) {
    struct port_jobs *l = &p->unsent[j->waits];
    *j->prev = j->next;
    if (j->next != NULL)
        j->next->prev = j->prev;
    else
        l->end = j->prev;
    j->queued = false;
    __atomic_store_n(&p->unsent_n, p->unsent_n - 1,
                     __ATOMIC_RELAXED); /* only under lock; others look */
}

static void deliver(struct port *p, struct job *j) {
    if (j->counted)
        p->sent[j->waits]--;
    __atomic_store_n(&p->jobs, p->jobs - 1, __ATOMIC_RELAXED);
    jobs_done(j->q, j);
}

void job_complete(struct port *p, struct request *r) {
    struct job *j = (struct job *)r;
    if (!j->queued)
        deliver(p, j);
}

bool job_send(struct job *j, uint64_t *ticket) {
    struct port *p = &j->m->port;
    port_lock(p);
    if (j->pub.ticket == 0 && !jobs_add(j->q, j)) {
        port_unlock(p);
        return false;
    }
    *ticket = j->pub.ticket;
    struct port_jobs *l = &p->unsent[j->waits];
    j->next = NULL;
    j->prev = l->end;
    *j->prev = j;
    l->end = &j->next;
    j->queued = true;
    j->counted = false;
    __atomic_store_n(&p->unsent_n, p->unsent_n + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&p->jobs, p->jobs + 1, __ATOMIC_RELAXED);
    port_unlock(p);
    return true;
}

/* Send on what there is room for. True: it stopped before. */
static bool pump(struct port *p) {
    for (unsigned w = 0; w < 2; w++) {
        for (struct job *j = p->unsent[w].first, *next; j != NULL; j = next) {
            bool begun = j->out.begun;
            next = j->next;
            if (unlikely(p->nheld > 0) && !j->r.done && port_held(p, j->out.head.manager))
                continue; /* those for other managers go on */
            if (!begun && p->sent[w] >= window[w])
                break;
            j->r.need = 0;
            j->out.pause = j->out.sent + PUSH_BYTES;
            int rc = port_push(p, &j->out, &j->r);
            if (!begun && j->out.begun) {
                j->counted = true;
                p->sent[w]++;
            }
            if (rc == 0 && j->r.need == NEED_GO)
                continue;
            if (rc == 0)
                return j->r.need == 0;
            list_remove(p, j);
            if (rc < 0) {
                give_up(p, &j->r);
                j->r.status = rc;
                j->r.text = strdup(dd_errmsg());
                deliver(p, j);
            } else if (j->r.done) { /* refused in the middle */
                deliver(p, j);
            }
        }
    }
    return false;
}

static bool can_go_on(struct port *p) {
    if (port_ready(p))
        return true;
    for (unsigned w = 0; w < 2; w++) {
        struct job *j = p->unsent[w].first;
        while (j != NULL && p->nheld > 0 && port_held(p, j->out.head.manager))
            j = j->next;
        if (j != NULL && j->r.need != 0 && (j->r.need == NEED_GO || port_room(p, j->r.need)))
            return true;
    }
    return false;
}

bool port_turn(struct port *p) {
    bool more = false;
    port_lock(p);
    for (unsigned i = 0; i < ROUNDS; i++) {
        int n = port_drain(p);
        more = pump(p) || n < 0;
        if (p->jobs == 0) {
            if (__atomic_load_n(&p->lane.page->client_sleeps, __ATOMIC_RELAXED) & LANE_POLLS)
                __atomic_fetch_and(&p->lane.page->client_sleeps, ~LANE_POLLS, __ATOMIC_RELAXED);
            more = false;
            break;
        }
        lane_poll_announce(&p->lane);
        if (n < 0 || more)
            break;
        more = can_go_on(p);
        if (!more)
            break;
    }
    more = more && p->broken == 0;
    port_unlock(p);
    port_wake(p);
    return more;
}

void ports_turn(struct session *s, bool all) {
    bool more = false;
    for (unsigned i = 0; i < s->nlocal; i++) {
        struct port *p = &s->local[i].port;
        if (__atomic_load_n(&p->jobs, __ATOMIC_RELAXED) > 0 &&
            (all || port_ready(p) || __atomic_load_n(&p->unsent_n, __ATOMIC_RELAXED) > 0))
            more |= port_turn(p);
    }
    if (more)
        eventfd_write(s->bell, 1); /* Q1: whoever polls comes again */
}

/* --- ends --- */

static struct job *job_find(struct ddict_jobs *q, uint64_t ticket) {
    uint32_t i = (uint32_t)ticket;
    struct job *j = i < q->cap ? q->job[i] : NULL;
    return j != NULL && j->pub.ticket == ticket && !j->done ? j : NULL;
}

bool job_end(struct ddict_jobs *q, uint64_t ticket, int code, const char *text) {
    pthread_mutex_lock(&q->lock);
    struct job *j = job_find(q, ticket);
    struct port *p = j != NULL ? &j->m->port : NULL;
    pthread_mutex_unlock(&q->lock);
    if (p == NULL)
        return false;
    port_lock(p);
    pthread_mutex_lock(&q->lock);
    bool mine = job_find(q, ticket) == j; /* and with port.lock it stays so */
    pthread_mutex_unlock(&q->lock);
    if (mine) {
        if (j->queued)
            list_remove(p, j);
        if (j->r.done) { /* refused, and its end was not sent yet */
            if (j->r.sending)
                port_owe(p, MSG_ABORT, j->out.head.id);
        } else {
            give_up(p, &j->r);
            j->r.status = code;
            j->r.text = text != NULL ? strdup(text) : NULL;
        }
        deliver(p, j);
    }
    port_unlock(p);
    port_wake(p);
    return mine;
}

static int get_finish(struct job *j, int rc) {
    struct ddict_job *o = &j->pub;
    if (rc < 0 && rc != DDICT_ESMALL)
        return rc;
    o->vlen = j->r.reply.val_len;
    o->tag = j->r.reply.tag;
    if (o->vlen <= o->len)
        return rc;
    return dd_error(DDICT_ESMALL, "the value has %zu bytes, the buffer %zu", o->vlen, o->len);
}

void job_finish(struct session *s, struct job *j) {
    struct ddict_job *o = &j->pub;
    int rc = j->r.status < 0 ? request_error(s, j->m, &j->r, j->r.status) : 0;
    if (o->what == DDICT_DO_VIEW || o->what == DDICT_DO_POP)
        request_view(s, j->m, &j->r, j->slot, &o->view, &rc);
    else if (o->what == DDICT_DO_GET)
        rc = get_finish(j, rc);
    o->status = rc;
    if (rc < 0 && rc != DDICT_ENOKEY && rc != DDICT_EEXISTS)
        o->text = strdup(dd_errmsg());
    j->finished = true;
}
