/* SPDX-License-Identifier: Apache-2.0 */
/* port_inside.h - what port.c, reply.c and wait.c share of a port. All under port.lock. */
#ifndef DDICT_CLIENT_PORT_INSIDE_H
#define DDICT_CLIENT_PORT_INSIDE_H

#include "port.h"

/* port.c: the table of requests under way */
void table_put(struct port *p, struct request *r);
struct request *table_get(struct port *p, uint64_t id);
void table_remove(struct port *p, struct request *r);
/* A notice for the manager about a request that is given up; sent before anything else. */
void port_owe(struct port *p, uint16_t type, uint64_t id);
void port_pay(struct port *p); /* send what is owed, as far as there is room */

void give_up(struct port *p, struct request *r); /* port_give_up() without lock and wake */

/* reserve.c: the session is closed */
void places_free(struct port *p);

/* job.c: the end of a request that belongs to a job */
void job_complete(struct port *p, struct request *r);

bool port_held(const struct port *p, uint32_t manager);
void port_hold(struct port *p, uint32_t manager, bool on); /* the manager of the lane says so */

/* wait.c */
void port_go(struct port *p);                  /* wake those that waited for it */
bool port_room(struct port *p, uint32_t need); /* in SQ, for a record of so many bytes */
bool wait_turn(
    unsigned i,
    uint64_t
        *end); /* one turn of a spin; false when it has lasted long enough. *end is 0 at first */
/* The result of r is complete; wake whoever waits for it. r may be gone when this returns. */
void request_complete(struct port *p, struct request *r, int status);

#endif
