/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - does the kernel of a TCP peer still answer? A node that is switched off says nothing;
 * the kernel alone would need minutes. Idle: keepalive probes. Bytes under way: live_check() looks
 * at the socket. A peer whose program reads nothing, while its kernel answers, lives:
 * TCP_USER_TIMEOUT would end that too, so it is set only where the program always reads
 * (ROLE_CONTROL).
 */
#ifndef DDICT_WIRE_LIVE_H
#define DDICT_WIRE_LIVE_H

#include <stdbool.h>
#include <stdint.h>

struct live {            /* all zero at first */
    uint64_t looked_ns;  /* the last look */
    uint64_t unacked_ns; /* since when something is unacknowledged; 0: nothing is */
    bool sent;           /* something was sent since all was acknowledged */
};

void live_start(int fd, bool always_reads);
/* Looks at most once a second, and only when something was sent. queued: there is more to send.
 * False: the peer acknowledges nothing for DD_CONN_LOST_MS. */
bool live_check(struct live *l, int fd, uint64_t now_ns, bool queued);
/* The process stood still for so long. */
static inline void live_extend(struct live *l, uint64_t gap_ns) {
    if (l->unacked_ns != 0)
        l->unacked_ns += gap_ns;
}

#endif
