/* SPDX-License-Identifier: Apache-2.0 */
/* client_lives_dict.h - for the programs client_lives*: a dictionary whose managers are killed and started
 * again. Each test begins one, and ends it. */
#ifndef DDICT_TESTS_CLIENT_LIVES_DICT_H
#define DDICT_TESTS_CLIENT_LIVES_DICT_H

#include "client_dict.h"

#define MIB  (1u << 20)
#define KEYS 200u
#define LEN  3000u

extern struct dict x;
extern ddict_t *d; /* on node 0 */
extern unsigned char val[LEN];

/* restarts: DDICT_RESTARTS; NULL: by default */
void begin(int nodes, int managers, const char *restarts);
void end(void);
size_t name_of(char *key, unsigned i); /* of the i-th of KEYS keys, with values of LEN bytes */
void keys_put(unsigned seed);
void keys_check(unsigned seed); /* there is nothing else */
void memory_fill(void);         /* use all memory that is free, whatever was there */
/* A manager that has answered ends its turn, and completions are looked at within a second. */
void quiet_wait(void);
void manager_kill(int m);
void manager_came_back(int m); /* it serves again, in another process */

#endif
