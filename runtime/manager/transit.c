/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transit.c - room in our arena for views of values of other nodes. A transit block is never
 * published: it is reserved, filled by the fetch, pinned until its completion is consumed, retired
 * at once, and free when no lease holds it. The room is bounded, so that views never keep puts out
 * of the arena; half of it where there are no puts, because we own no key.
 */
#include "transit.h"

#include "manager.h"

#include <errno.h>
#include <stdlib.h>

#define REFUSED_NS 1000000u /* so soon, another scan of the leases would find nothing new */

struct transit {
    uint64_t limit, refused_ns; /* refused_ns: when there was no room, last */
};

uint64_t transit_limit(const struct manager *m) {
    uint64_t limit = m->header->budget / (manager_only_forwards(m->setup) ? 2 : 16);
    return limit < DD_TRANSIT_MAX ? limit : DD_TRANSIT_MAX;
}

int transit_init(struct manager *m) {
    m->transit = calloc(1, sizeof *m->transit);
    if (!m->transit)
        return -ENOMEM;
    m->transit->limit = transit_limit(m);
    return 0;
}

void transit_free(struct manager *m) {
    free(m->transit);
}

bool transit_reserve(struct manager *m, uint64_t val_len, uint8_t tag, uint64_t version,
                     struct store_ref *ref) {
    if (val_len > m->transit->limit)
        return false;
    uint64_t used = store_transit_bytes(m->store);
    if (used + val_len > m->transit->limit) {
        if (m->now - m->transit->refused_ns < REFUSED_NS)
            return false;
        m->up->settle(m); /* completions may have been consumed meanwhile */
        store_reclaim_soon(m->store);
        used = store_transit_bytes(m->store);
        if (used + val_len > m->transit->limit) {
            m->transit->refused_ns = m->now;
            return false;
        }
    }
    return store_reserve_transit(m->store, val_len, tag, version, ref) == 0;
}

void transit_abort(struct manager *m, struct store_ref *ref) {
    store_abort(m->store, ref);
}
