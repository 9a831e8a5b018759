/* SPDX-License-Identifier: Apache-2.0 */
/* client_lives_hostile.h - what a client can do that breaks the rules of its lane. */
#ifndef DDICT_TESTS_CLIENT_LIVES_HOSTILE_H
#define DDICT_TESTS_CLIENT_LIVES_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>

/* Of a process with one lane and one arena: write into its completion queue that it was answered
 * with this value of the key, of one letter, which is another's. False: there is no such value. */
bool answer_forge(char key, const void *value, size_t len);

#endif
