/* SPDX-License-Identifier: Apache-2.0 */
/* knows.h - what this life of the manager knows of its clients' requests (PROTOCOL 12). */
#ifndef DDICT_MANAGER_KNOWS_H
#define DDICT_MANAGER_KNOWS_H

#include "requester.h"

/* Whether request id of a lane, whose record has left SQ and whose answer is not in CQ, will be
 * answered. The lane has no answers that wait for room. */
bool requester_knows(const struct requester *a, uint64_t id);

#endif
