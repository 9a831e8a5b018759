/* SPDX-License-Identifier: Apache-2.0 */
/* status_page.h - the page by which ddictd tells its clients how the dictionary is. */
#ifndef DDICT_SUPERVISOR_STATUS_PAGE_H
#define DDICT_SUPERVISOR_STATUS_PAGE_H

#include "supervisor.h"

int status_page_open(struct supervisor *s);
/* A state that is not above the present one is ignored. */
void status_page_set(struct supervisor *s, enum status_page_state state, const char *text);

/* With --replicas=2, from READY on: readers in place wait if suspended, and when this time of
 * CLOCK_MONOTONIC is over; the state stays. */
void status_page_lease(struct supervisor *s, uint64_t until, bool suspended);

#endif
