/* SPDX-License-Identifier: Apache-2.0 */
/* lost_keys.c - ask for a key that nobody puts: the answer says whether it may have been lost. */
#include "lost_keys.h"

#include <stdio.h>

#define TRIES 64u /* for each manager there is */

int manager_lost_keys_within(ddict_t *d, unsigned manager, int timeout_ms) {
    struct ddict_info info;
    char key[48];
    int rc = ddict_get_info(d, &info);
    for (unsigned n = 0; rc == 0 && n < TRIES * info.managers; n++) {
        size_t len = (size_t)snprintf(key, sizeof key, "sddict.lost/%u", n);
        if (ddict_owner(d, key, len) != manager)
            continue;
        rc = ddict_contains(d, key, len, NULL, timeout_ms);
        return rc == DDICT_EKEYLOST ? 1 : rc < 0 ? rc : 0;
    }
    return rc;
}
