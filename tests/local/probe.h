/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - what the files of probe.c share: the one client of this process. */
#ifndef DDICT_TESTS_PROBE_H
#define DDICT_TESTS_PROBE_H

#include "raw.h"

extern struct raw r;
extern uint8_t *value;      /* room for one */
void say(const char *word); /* a line to who plays with us */

/* --- probe_woken.c --- */
/* woken KEY MS: some of those that a put has woken are cancelled before they are answered, and the
 * time of others is over. MS: what DDICT_TEST_WAKE_MS says. */
void woken(const char *key, uint64_t ms);

/* --- probe_hostile.c --- */
/* hostile SEED: nonsense in all lanes, in the lease page, and on the socket; each kind by the
 * seed. */
void hostile(unsigned seed);

#endif
