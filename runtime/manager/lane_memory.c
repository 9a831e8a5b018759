/* SPDX-License-Identifier: Apache-2.0 */
/* lane_memory.c - the memory of lanes: idle ones give theirs back (PROTOCOL 3, R1 to R4). */
#include "lane_memory.h"

#include "faults.h"
#include "lane_client.h"
#include "manager.h"
#include <base/clock.h>

#include <stddef.h>

static uint64_t lane_idle_ns(void) {
    return faults.lane_idle_us ? faults.lane_idle_us * 1000 : DD_LANE_IDLE_MS * 1000000ull;
}

void lane_grown(struct lane_client *c) {
    struct manager *m = c->a.m;
    c->g_prev = &m->grown;
    c->g_next = m->grown;
    if (c->g_next)
        c->g_next->g_prev = &c->g_next;
    m->grown = c;
    if (!m->shrink.pos)
        timer_after(&m->timers, &m->shrink, lane_idle_ns());
}

void lane_small(struct lane_client *c) {
    if (!c->g_prev)
        return;
    if (c->a.m->shrink_at == c)
        c->a.m->shrink_at = c->g_next;
    *c->g_prev = c->g_next;
    if (c->g_next)
        c->g_next->g_prev = c->g_prev;
    c->g_prev = NULL;
    c->shrunk_to = 0;
}

uint64_t bytes_look(struct lane_client *c) {
    uint64_t is = lane_memory(&c->lane);
    c->a.m->lane_bytes += is - c->bytes;
    return c->bytes = is;
}

/* Give back the next part of its memory. False: more is left. */
static bool lane_shrink(struct lane_client *c) {
    struct manager *m = c->a.m;
    bool barriers = m->header->barriers;
    uint64_t had = bytes_look(c), has;
    if (had <= DD_LANE_SMALL)
        return true;
    int e = c->shrunk_to == 0 ? lane_shrink_rings(&c->lane, barriers) : 0;
    has = bytes_look(c);
    if (e == 0 && has > DD_LANE_SMALL && c->shrunk_to < DD_AREA_KEPT) {
        e = lane_shrink_area(&c->lane, barriers, c->shrunk_to, DD_LANE_STEP);
        c->shrunk_to += DD_LANE_STEP;
        has = bytes_look(c);
    }
    if (has < had)
        m->lane_returned += had - has;
    return e < 0 || has <= DD_LANE_SMALL || c->shrunk_to >= DD_AREA_KEPT;
}

void lanes_shrink(struct timer *t) {
    struct manager *m = (struct manager *)(void *)((char *)t - offsetof(struct manager, shrink));
    struct lane_client *c = m->shrink_at ? m->shrink_at : m->grown, *next;
    for (uint64_t end = clock_ns() + DD_LANE_SHRINK_NS; c && clock_ns() < end; c = next) {
        next = c->g_next;
        if (c->a.gone)
            lane_small(c);
        else if (c->used || c->a.streams_n || !lane_quiet(c)) {
            c->used = false;
            c->shrunk_to = 0;
            bytes_look(c);
        } else if (!lane_shrink(c))
            next = c;
        else if (c->bytes <= DD_LANE_SMALL)
            lane_small(c);
        else
            c->shrunk_to = 0; /* the client was about to use it: try again later */
    }
    m->shrink_at = c;
    if (m->grown)
        timer_after(&m->timers, t, c ? DD_LANE_PAUSE_MS * 1000000ull : lane_idle_ns());
}
