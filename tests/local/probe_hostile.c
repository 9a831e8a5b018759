/* SPDX-License-Identifier: Apache-2.0 */
/* probe_hostile.c - a client that breaks every rule of its lanes, its lease page and its socket. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void hostile(unsigned seed) {
    srandom(seed);
    for (unsigned i = 0; i < r.local_n; i++) {
        struct raw_manager *l = &r.local[i];
        struct ring *q = &l->lane.sq;
        for (unsigned b = 0; b < DD_LANE_RING; b++)
            q->data[b] = (uint8_t)random();
        switch (seed % 6) {
        /* records of random bytes */
        case 0:
            *q->tail = 64 * (uint64_t)(random() % 100);
            break;
        /* an impossible position */
        case 1:
            *q->tail = (uint64_t)random() << 20;
            break;
        case 2:
            *q->tail = q->pos - 64;
            break; /* backwards */
        /* headers that are nearly right */
        case 3:
            for (unsigned k = 0; k < 100; k++) {
                struct msg m = {.len = 64u + (uint32_t)random() % 512,
                                .type = (uint16_t)(1 + random() % (MSG_TYPE_N + 1)),
                                .flags = (uint16_t)(random() & 0xff),
                                .id = (uint64_t)random() % 4,
                                .key_len = (uint32_t)random() % 64,
                                .val_len = (uint64_t)random() % 128,
                                .aux = (uint64_t)random() % 256,
                                .manager = (uint32_t)random() % (r.managers + 1)};
                if (random() % 2) {
                    m.flags &= MSGF_STREAM | MSGF_LAST;
                    m.len = 64 + m.key_len + (m.flags & MSGF_STREAM ? 0 : (uint32_t)m.val_len);
                }
                memcpy(q->data + k * 1024, &m, sizeof m);
                *q->tail = k * 1024 + lane_round(m.len);
                uint64_t one = 1;
                if (write(l->event_fd, &one, sizeof one) < 0)
                    die("eventfd");
                usleep(100);
            }
            break;
        /* a completion head from nowhere, after real requests */
        case 4:
            for (unsigned k = 0; k < 50; k++) {
                struct msg m = {
                    .type = MSG_GET, .key_len = 3, .flags = MSGF_VIEW, .id = r.next_id++};
                raw_send(&r, i, &m, "k-1", NULL, 0);
            }
            *l->lane.cq.head = (uint64_t)random() << 32 | 1;
            break;
        /* random leases, and the whole page */
        case 5:
            for (unsigned k = 0; k < LEASE_CHUNK_SIZE * 4 / 8; k++)
                ((uint64_t *)(void *)r.leases)[k] =
                    (uint64_t)random() << 40 ^ (uint64_t)random() << 20 ^ (uint64_t)random();
            break;
        }
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        uint64_t one = 1;
        if (write(l->event_fd, &one, sizeof one) < 0)
            die("eventfd");
    }
    if (seed % 7 == 6) {
        char junk[512];
        for (unsigned b = 0; b < sizeof junk; b++)
            junk[b] = (char)random();
        if (write(r.sock, junk, sizeof junk) < 0)
            die("socket");
    }
    usleep(20000);
    say("done");
}
