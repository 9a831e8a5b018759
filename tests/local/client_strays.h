/* SPDX-License-Identifier: Apache-2.0 */
/* client_strays.h - answers that nobody waits for, as one that is given twice. */
#ifndef DDICT_TESTS_CLIENT_STRAYS_H
#define DDICT_TESTS_CLIENT_STRAYS_H

#include <ddict.h>

#include <stdbool.h>

/* Whether a manager has answered this process more often than it was asked. (Of a request that was
 * given up the answer may still come.) */
bool strays_came(const ddict_t *d);

#endif
