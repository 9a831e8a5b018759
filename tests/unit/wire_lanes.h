/* SPDX-License-Identifier: Apache-2.0 */
/* wire_lanes.h - for tests of lanes: both ends of one in this process, and records that say in each
 * byte whose they are. */
#ifndef DDICT_TESTS_WIRE_LANES_H
#define DDICT_TESTS_WIRE_LANES_H

#include "wire_test.h"
#include <wire/lane.h>

#include <unistd.h>

static struct lane cl, mg; /* both ends */
static int lane_fd;

static inline void setup(void) {
    fds_count();
    lane_fd = lane_create();
    ck_assert_int_ge(lane_fd, 0);
    ck_assert_int_eq(lane_map(&cl, lane_fd, true), 0);
    ck_assert_int_eq(lane_map(&mg, lane_fd, false), 0);
}
static inline void teardown(void) {
    lane_unmap(&cl);
    lane_unmap(&mg);
    close(lane_fd);
    fds_check();
}

static inline bool put(struct ring *r, uint64_t id, uint32_t payload) {
    bool bad = false;
    struct msg *m = ring_reserve(r, MSG_HEADER + payload, &bad);
    if (bad)
        ck_abort_msg("bad position");
    if (!m)
        return false;
    *m = (struct msg){.len = MSG_HEADER + payload, .type = MSG_REPLY, .id = id};
    uint8_t *p = (uint8_t *)(m + 1);
    for (uint32_t i = 0; i < payload; i++)
        p[i] = (uint8_t)(id * 31 + i);
    ring_commit(r);
    return true;
}
static inline bool take(struct ring *r, uint64_t id) {
    struct msg m;
    const uint8_t *p;
    int e = ring_peek(r, &m, &p); /* ck_assert() writes to a file each time: not in hot loops */
    if (e < 0)
        ck_abort_msg("peek: %d", e);
    if (e == 0)
        return false;
    if (m.id != id)
        ck_abort_msg("record %lu where %lu should be", (unsigned long)m.id, (unsigned long)id);
    for (uint32_t i = 0; i < m.len - MSG_HEADER; i++)
        if (p[i] != (uint8_t)(id * 31 + i))
            ck_abort_msg("byte %u of record %lu", i, (unsigned long)id);
    ring_consume(r, &m);
    return true;
}

#endif
