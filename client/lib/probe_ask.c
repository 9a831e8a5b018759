/* SPDX-License-Identifier: Apache-2.0 */
/* probe_ask.c - ask a manager of another node for a plain TCP connection, by which the path to it
 * is measured. */
#include "probe.h"
#include "request.h"

#include <errno.h>

int ddict_probe(ddict_t *d, unsigned manager, struct probe *p, int timeout_ms) {
    struct session *s;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    if (manager >= s->managers)
        return dd_error(-EINVAL, "there is no manager %u", manager);
    struct outgoing out = {.head = {.type = MSG_PROBE, .manager = manager}};
    struct request r = {.sink = SINK_BUFFER, .buf = (uint8_t *)p, .cap = sizeof *p};
    rc = request_call(s, session_route(s, manager), &out, &r, timeout_ms);
    if (rc >= 0 && r.got != sizeof *p)
        rc = dd_error(DDICT_EPROTO, "the answer of manager %u has %llu bytes, expected %zu",
                      manager, (unsigned long long)r.got, sizeof *p);
    p->carrier[sizeof p->carrier - 1] = 0;
    return rc < 0 ? rc : 0;
}
