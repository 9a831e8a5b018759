/* SPDX-License-Identifier: Apache-2.0 */
/* client_strays.c - counted by libddict, which drops them. */
#include "client_strays.h"

#include <lib/handle.h>

bool strays_came(const ddict_t *d) {
    const struct session *s = d->session;
    for (unsigned i = 0; s && i < s->nlocal; i++)
        if (s->local[i].lane.strays > 0)
            return true;
    return false;
}
