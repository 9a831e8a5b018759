/* SPDX-License-Identifier: Apache-2.0 */
/* conn_parts.c - large payloads that the owner of a connection takes in parts, each where it wants
 * it. */
#include "conn.h"
#include "conn_inside.h"

#include <string.h>

static void part_give(struct conn *c, const uint8_t *at, uint32_t n) {
    uint32_t got = c->got, need = c->m.len - MSG_HEADER;
    c->got += n;
    if (c->got == need) {
        c->bulk = need >= BULK;
        c->have_msg = c->parts = false;
    }
    int e = c->ops->part(c, c->arg, &c->m, got, at, n);
    if (e < 0)
        conn_fail(c, e);
}

void conn_part_end(struct conn *c) {
    const uint8_t *at = c->part;
    c->part = NULL;
    if (at && c->fill > 0)
        part_give(c, at, c->fill);
}

bool conn_part_begin(struct conn *c) {
    c->room = c->m.len - MSG_HEADER - c->got;
    c->fill = 0;
    c->part = c->ops->part_to(c, c->arg, &c->m, c->got, &c->room);
    return c->part != NULL;
}

bool conn_part_take(struct conn *c) {
    uint32_t left = c->m.len - MSG_HEADER - c->got, there = c->in_end - c->in_pos;
    uint8_t *at = c->in + c->in_pos;
    if (!c->part && !conn_part_begin(c)) {
        if (there < left || !conn_may_read(c))
            return false;
        c->in_pos += left;
        part_give(c, at, left);
        return true;
    }
    uint32_t n = there < c->room - c->fill ? there : c->room - c->fill;
    memcpy(c->part + c->fill, at, n);
    c->in_pos += n;
    c->fill += n;
    if (c->fill < c->room)
        return false;
    conn_part_end(c);
    return true;
}
