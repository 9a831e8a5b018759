/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - whether the kernel of a TCP peer still answers. A node that was switched off says
 * nothing, and our kernel alone would need minutes to notice. An idle connection has keepalive
 * probes; while bytes are unacknowledged, live_check() looks at the socket. A peer whose kernel
 * answers is alive even if its program reads nothing. TCP_USER_TIMEOUT would end it, and is
 * therefore set only where the program always reads (ROLE_CONTROL).
 */
#ifndef DDICT_WIRE_LIVE_H
#define DDICT_WIRE_LIVE_H

#include <stdbool.h>
#include <stdint.h>

struct live {            /* all zero at first */
    uint64_t looked_ns;  /* the last look */
    uint64_t unacked_ns; /* since when bytes are unacknowledged; 0: none are */
    bool sent;           /* something was sent since all was acknowledged */
};

void live_start(int fd, bool always_reads);
/* Call it often; it looks at most once a second, and only after something was sent. queued: more
 * bytes wait to be sent. False: the peer has acknowledged nothing for DD_CONN_LOST_MS. */
bool live_check(struct live *l, int fd, uint64_t now_ns, bool queued);
/* The process was suspended for gap_ns: do not count that time. */
static inline void live_extend(struct live *l, uint64_t gap_ns) {
    if (l->unacked_ns != 0)
        l->unacked_ns += gap_ns;
}

#endif
