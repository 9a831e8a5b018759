/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.c - managers of other nodes that we ask: one connection each, opened at the first need. When it ends everything
 * asked over it is answered DDICT_ELOST; the next request opens a new one (whether the node is lost is for ddictd to say).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/error.h>
#include <base/log.h>
#include <manager/manager.h>

struct peer {
    struct manager *m;
    uint32_t id;
    struct link *link;
    bool up;
    bool waits;               /* paused: a lane has no room for what comes */
    int down;                 /* why the connection ended; it is freed at the end of the turn */
    struct forward *forwards; /* asked and not answered */
};

struct forward **peer_forwards(struct peer *p) { return &p->forwards; }
bool peer_full(struct peer *p) { return p->link && !p->down && link_full(p->link); }

static void peer_up(struct link *l, void *arg, uint32_t peer) { ((struct peer *)arg)->up = true; }

static void *peer_payload_to(struct link *l, void *arg, const struct msg *m) {
    return forward_place(((struct peer *)arg)->m, m);
}

static int peer_message(struct link *l, void *arg, const struct msg *m, void *payload) {
    struct peer *p = arg;
    if (m->type != MSG_REPLY && m->type != MSG_DATA) return DDICT_EPROTO;
    return forward_answer(p->m, p->id, m, payload);
}

static void *peer_part_to(struct link *l, void *arg, const struct msg *m, uint32_t got, uint32_t *room) {
    struct peer *p = arg;
    void *at = forward_part_to(p->m, p->id, m, got, room);
    if (!at && *room == 0) {
        p->waits = true;
        link_pause(l, true);
    }
    return at;
}

static int peer_part(struct link *l, void *arg, const struct msg *m, uint32_t got, const void *at, uint32_t n) {
    return forward_part(((struct peer *)arg)->m, m, got, at, n);
}

static void peer_drained(struct link *l, void *arg) { lanes_unstall(((struct peer *)arg)->m); }

static void peer_down(struct link *l, void *arg, int code) {
    struct peer *p = arg;
    p->down = code ? code : -ECONNRESET;
    p->m->reap = true;
}

static const struct link_ops peer_ops = {peer_up, peer_payload_to, peer_message, peer_drained, peer_down, peer_part_to, peer_part};

int peers_init(struct manager *m) {
    if (!m->setup->peers) return 0;
    m->peers = calloc(m->setup->managers, sizeof(struct peer *));
    return m->peers ? 0 : -ENOMEM;
}

struct peer *peer_get(struct manager *m, uint32_t id, int *code) {
    struct peer *p = m->peers[id];
    *code = -ENOMEM;
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p) return NULL;
        p->m = m;
        p->id = id;
        m->peers[id] = p;
    }
    if (p->down) { /* ended in this turn: what was asked is answered first */
        *code = DDICT_ELOST;
        return NULL;
    }
    if (!p->link) {
        const struct peer_address *at = &m->setup->peers[id];
        p->up = p->waits = false;
        *code = link_open(&p->link, &m->links, id, at->addr, at->naddr, &peer_ops, p);
        if (*code < 0) {
            p->link = NULL;
            return NULL;
        }
        manager_ticks(m);
    }
    *code = 0;
    return p;
}

int peer_send(struct peer *p, struct msg *r, const void *payload, size_t len) {
    if (!p->link || p->down) return DDICT_ELOST;
    return link_send(p->link, r, payload, len, NULL, 0, NULL, NULL);
}

uint64_t peer_position(struct peer *p) { return p->link && !p->down ? link_position(p->link) : 0; }
bool peer_unsent(struct peer *p, uint64_t position) { return p->link && !p->down && link_unsent(p->link, position); }

void peers_resume(struct manager *m) {
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++) {
        struct peer *p = m->peers[i];
        if (!p || !p->waits) continue;
        p->waits = false;
        if (p->link && !p->down) link_pause(p->link, false);
    }
}

bool peers_tick(struct manager *m) {
    bool more = false;
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++) {
        struct peer *p = m->peers[i];
        if (!p || !p->link || p->up || p->down) continue;
        link_tick(p->link, m->now);
        more |= !p->up && !p->down;
    }
    return more;
}

void peers_reap(struct manager *m) {
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++) {
        struct peer *p = m->peers[i];
        char text[256];
        if (!p || !p->down) continue;
        snprintf(text, sizeof text, "manager %u on %s %s: %s", p->id, m->setup->peers[p->id].node, p->up ? "is lost" : "can not be reached",
                 dd_strerror(p->down));
        log_line(m->ending ? LOG_LVL_DEBUG : LOG_LVL_WARN, "%s", text);
        link_free(p->link);
        p->link = NULL;
        p->up = false;
        p->down = 0;
        forwards_lost(m, p, text);
        lanes_unstall(m);
    }
}

void peers_end(struct manager *m) {
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++) {
        if (!m->peers[i]) continue;
        link_free(m->peers[i]->link);
        m->peers[i]->link = NULL;
        forwards_lost(m, m->peers[i], "the dictionary has ended");
        free(m->peers[i]);
    }
    free(m->peers);
    m->peers = NULL;
}
