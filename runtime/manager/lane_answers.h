/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_answers.h - answers to a client of this node. An answer that does not fit into CQ is queued in
 * the client's backlog; while there is one, lanes.c reads nothing from the client.
 */
#ifndef DDICT_MANAGER_LANE_ANSWERS_H
#define DDICT_MANAGER_LANE_ANSWERS_H

#include "lane_client.h"

static inline struct lane_client *lane_of(struct requester *a) {
    return (struct lane_client *)(void *)a;
}

/* --- of the carrier (carrier.h) --- */
void lane_send(struct requester *a, struct msg *r, const void *payload, size_t len);
void lane_send_placed(struct requester *a, const struct msg *r, uint64_t off);
bool lane_idle(struct requester *a);
bool lane_piece(struct requester *a, struct msg *r, const void *data, uint32_t n,
                void (*done)(void *arg), void *arg);
void *lane_part(struct requester *a, uint32_t *room);
void lane_part_done(struct requester *a, struct msg *r, const void *at, uint32_t n);

/* Write what is queued, as far as there is room. True: something was written. */
bool lane_backlog_flush(struct lane_client *c);

/* Connections that wait for room in CQ go on: where there is enough of it (true), when the timer says
 * that they waited too long, or at once. */
bool lane_parts_look(struct lane_client *c);
void lane_part_late(struct timer *t);
void lane_parts_go_on(struct lane_client *c);

void lanes_popped_alone(struct manager *m, uint32_t owner); /* see struct upcalls */

#endif
