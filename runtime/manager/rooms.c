/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rooms.c - requests that wait for the spill: puts that wait for room in memory or for the disk,
 * and values that are read from the spill. All are tried again when it has made progress, and also
 * after a while, so that they end if it makes none.
 */
#include "rooms.h"

#include "manager.h"
#include "record_rate.h"
#include "requester.h"

#include <stddef.h>

static void rooms_look(struct manager *m) {
    const char *trouble = store_spill_trouble(m->store);
    if (trouble)
        note_trouble(m, trouble);
    m->progress = store_progress(m->store);
    timer_clear(&m->timers, &m->room);
    m->room_waits = false;
    m->up->look(m);
}

static void room_fire(struct timer *t) {
    rooms_look((struct manager *)(void *)((char *)t - offsetof(struct manager, room)));
}

int manager_waits_for_room(struct manager *m) {
    m->room_waits = true;
    m->room.fire = room_fire;
    /* if there is no memory for the timer, at the next progress */
    if (!m->room.pos)
        timer_after(&m->timers, &m->room, DD_SPILL_LOOK_MS * 1000000ull);
    return TAKE_STALL;
}

void rooms_turn(struct manager *m) {
    if (store_progress(m->store) != m->progress)
        rooms_look(m);
}
