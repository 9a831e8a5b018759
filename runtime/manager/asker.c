/* SPDX-License-Identifier: Apache-2.0 */
/* asker.c - who asks: answers go to its carrier, and nothing of it is left when it ends. */
#include <base/log.h>
#include <manager/manager.h>

#include <string.h>

void asker_init(struct asker *a, struct manager *m, enum asker_kind kind, uint64_t who) {
    memset(a, 0, sizeof *a);
    a->m = m;
    a->kind = kind;
    a->who = who;
    a->gives_end = &a->gives;
    a->forwards_end = &a->forwards;
}

void asker_end(struct asker *a) {
    a->gone = true; /* first: what is undone below answers to nobody */
    parked_end(a);
    waiters_end(a);
    queue_asker_end(a);
    feeds_asker_end(a);
    forwards_end(a);
    puts_end(a);
    gives_end(a);
    lends_end(a);
    freeze_asks_end(a);
}

void asker_send(struct asker *a, struct msg *r, const void *payload, size_t len) {
    if (a->gone || a->kind == ASKER_SELF)
        return;
    r->len = (uint32_t)(MSG_HEADER + len);
    if (a->kind == ASKER_LANE)
        lane_send(a, r, payload, len);
    else
        inbound_send(a, r, payload, len);
}

void asker_reply(struct asker *a, const struct msg *req, int status, const char *text) {
    struct msg r;
    reply_init(&r, req->id, a->m->setup->id);
    r.status = status;
    asker_send(a, &r, text, text ? strlen(text) : 0);
}

void asker_drop(struct asker *a, const char *why) {
    if (a->gone)
        return;
    a->gone = true;
    a->m->reap = true;
    if (a->kind == ASKER_LANE)
        log_warn("client %llu is dropped: %s", (unsigned long long)a->who, why);
    else
        log_warn("connection of manager %llu is dropped: %s",
                 (unsigned long long)(a->who & ~(1ull << 63)), why);
}
