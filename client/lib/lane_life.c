/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_life.c - a manager that died has another life (PROTOCOL 12), which may know nothing of some
 * requests. It says LIFE. Then it is asked, KNOWS, for each that has no answer, and says FORGOT of those
 * that it does not know. What only reads is asked again, what is still being sent is sent from its
 * beginning; of all else nobody knows whether it has happened.
 */
#include "async.h"
#include "client_lane_inside.h"

#include <errno.h>
#include <string.h>

static const char text_of_lost[] =
    "the manager of this key died meanwhile: it may have happened, or not";

void client_lane_life(struct client_lane *p) {
    for (unsigned i = 0; i < CLIENT_LANE_BUCKETS; i++)
        for (struct request *r = p->bucket[i]; r; r = r->chain) {
            p->unsure += !r->unsure;
            r->unsure = true;
            r->partly = r->sending;
        }
    while (p->nheld > 0) /* this life says it again */
        client_lane_manager_hold(p, p->held[0], false);
}

void client_lane_unsure_ask(struct client_lane *p) {
    unsigned asked = 0;
    for (unsigned i = 0; i < CLIENT_LANE_BUCKETS && p->unsure > 0; i++)
        for (struct request *r = p->bucket[i]; r; r = r->chain) {
            struct msg m = {.type = MSG_KNOWS, .id = r->id};
            if (!r->unsure)
                continue;
            if (!client_lane_tell(p, &m))
                goto full;
            r->unsure = false;
            p->unsure--;
            asked++;
        }
full:
    if (asked > 0)
        client_lane_wake(p);
}

static bool type_reads(unsigned type) {
    return type == MSG_GET || type == MSG_HEAD || type == MSG_KEYS || type == MSG_LEN ||
           type == MSG_STATS || type == MSG_EVENTS || type == MSG_ALIVE || type == MSG_FREEZE ||
           type == MSG_PREFETCH;
}

/* It has not happened: if its last piece came, it came to this life, which dropped it. But what the
 * batch, or the set, has sent behind that may be of its key, and is taken. */
static bool is_sent_anew(const struct request *r) {
    const struct async_op *op = (const struct async_op *)r;
    return r->sending || (r->partly && (r->is_async_op ? op->repeats : !r->batch));
}

void request_forgotten(struct client_lane *p, struct request *r) {
    if (is_sent_anew(r)) {
        request_table_remove(p, r);
        notice_release(p, r);
        r->anew = true;
        if (!r->sending)
            request_rewind(p, r); /* whoever sent it is to send it again */
    } else if (type_reads(r->type)) {
        request_complete(p, r, -ESTALE);
    } else {
        r->text = strdup(text_of_lost);
        request_complete(p, r, DDICT_ELOST);
    }
}
