/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_counts.h - what the connections of this process have carried, by the type of the message: so
 * it can be seen how the traffic between nodes grows with their number. Bytes are those of messages,
 * without handshakes and records; what libfabric carries is not counted. One thread.
 */
#ifndef DDICT_WIRE_CONN_COUNTS_H
#define DDICT_WIRE_CONN_COUNTS_H

#include "msg.h"

#include <stdbool.h>
#include <stdint.h>

void conn_counts_up(bool opener); /* a connection is up */
void conn_counts_sent(const struct msg *m);
void conn_counts_heard(const struct msg *m);
void conn_counts_reset(void); /* in a child, which has inherited its parent's */
/* One line at level debug:
 *     counts opened=N accepted=N TYPE=sent/bytes/heard/bytes ... */
void conn_counts_log(void);

#endif
