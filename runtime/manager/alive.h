/* SPDX-License-Identifier: Apache-2.0 */
/* alive.h - whether a client of this node lives (ALIVE, PROTOCOL 1). */
#ifndef DDICT_MANAGER_ALIVE_H
#define DDICT_MANAGER_ALIVE_H

#include "manager.h"

int alive_init(struct manager *m);
void alive_free(struct manager *m); /* behind peers_end() */
/* Answer ALIVE. */
void alive_ask(struct requester *a, const struct msg *req);

#endif
