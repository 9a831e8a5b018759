/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rooms.c - who waits for the spill: puts for room in memory, or until the disk has a value, and
 * values that are read from there. All are looked at again when it has made progress, and after a
 * while, so that they end when it makes none.
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
    /* without memory for it: at the next progress */
    if (!m->room.pos)
        timer_after(&m->timers, &m->room, DD_SPILL_LOOK_MS * 1000000ull);
    return TAKE_STALL;
}

void rooms_turn(struct manager *m) {
    if (store_progress(m->store) != m->progress)
        rooms_look(m);
}
