/* SPDX-License-Identifier: Apache-2.0 */
/* client_lane_inside.h - what lane_send.c, lane_recv.c and lane_wait.c share of a lane. All is to
 * be called under lane.lock. */
#ifndef DDICT_LIB_CLIENT_LANE_INSIDE_H
#define DDICT_LIB_CLIENT_LANE_INSIDE_H

#include "client_lane.h"

/* lane_send.c: the table of requests under way */
void request_table_put(struct client_lane *p, struct request *r);
struct request *request_table_get(struct client_lane *p, uint64_t id);
void request_table_remove(struct client_lane *p, struct request *r);
/* Add a notice for the manager about a request that is given up, at most one for each. Notices are
 * sent before anything else. */
void client_lane_notice_add(struct client_lane *p, struct request *r, uint16_t type, uint64_t id);
/* The request is over: it needs no notice any more. */
void notice_release(struct client_lane *p, struct request *r);
/* Send the notices, as far as there is room. */
void client_lane_notices_send(struct client_lane *p);
/* Send a message that has no payload. False: there is no room now. */
bool client_lane_tell(struct client_lane *p, const struct msg *m);

/* lane_life.c: its manager has another life. It is asked for each request that has no answer, as far as
 * there is room. */
void client_lane_life(struct client_lane *p);
void client_lane_unsure_ask(struct client_lane *p);
/* Its manager knows nothing of r. */
void request_forgotten(struct client_lane *p, struct request *r);

/* client_lane_cancel() without taking the lock, and without waking the manager. */
void request_give_up(struct client_lane *p, struct request *r);

/* place.c: free all places of the lane; its session is being closed */
void places_free(struct client_lane *p);

/* async_lane.c: the end of a request that belongs to an op; and its value is to be sent again */
void async_op_complete(struct client_lane *p, struct request *r);
void async_op_again(struct client_lane *p, struct request *r);

/* Whether nothing is to be sent for that manager now (HOLD, PROTOCOL 2). */
bool client_lane_manager_is_held(const struct client_lane *p, uint32_t manager);
/* The manager of the lane has sent HOLD for that manager: stop (on), or go on. */
void client_lane_manager_hold(struct client_lane *p, uint32_t manager, bool on);

/* lane_wait.c */
/* Wake the requests that waited until their manager is held no more. */
void client_lane_manager_go(struct client_lane *p);
/* Whether SQ has room for a record of need bytes. */
bool client_lane_room(struct client_lane *p, uint32_t need);
/* Turn i of a spin; *end is 0 before the first one. False: it has lasted long enough. */
bool spin_turn(unsigned i, uint64_t *end);
/* The result of r is complete; wake whoever waits for it. r may be gone when this returns. */
void request_complete(struct client_lane *p, struct request *r, int status);
/* The value of r is to be sent again from byte r->from on; wake whoever sends it. */
void request_rewind(struct client_lane *p, struct request *r);

#endif
