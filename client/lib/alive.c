/* SPDX-License-Identifier: Apache-2.0 */
/* alive.c - who a client is, and whether it lives. The managers of its node know. */
#include "request.h"

#include <errno.h>
#include <string.h>

int ddict_self(ddict_t *d, struct ddict_client *me, int timeout_ms) {
    struct session *s;
    memset(me, 0, sizeof *me);
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    *me = (struct ddict_client){.node = s->node_id, .id = s->client};
    return 0;
}

int ddict_alive(ddict_t *d, struct ddict_client who, int timeout_ms) {
    struct session *s;
    struct call_deadline w;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    if (who.node >= s->nodes || who.id == 0)
        return dd_error(-EINVAL, "ddict_alive: there is no such client");
    if (who.node == s->node_id && who.id == s->client)
        return 1;
    if (timeout_ms == 0)
        return dd_error(-ETIMEDOUT, "managers must be asked, which a timeout of 0 does not allow");
    call_deadline_init(&w, s, timeout_ms);
    /* one that still knows it may carry out what it has asked for */
    for (unsigned m = (unsigned)who.node; m < s->managers; m += s->nodes) {
        struct outgoing out = {.head = {.type = MSG_ALIVE, .manager = m, .aux = who.id}};
        struct request r = {.sink = SINK_NONE};
        rc = request_call_within(s, session_route(s, m), &out, &r, &w);
        if (rc < 0 || r.reply.aux)
            return rc < 0 ? rc : 1;
    }
    return 0;
}
