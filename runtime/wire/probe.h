/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - how the path between two nodes is measured without the dictionary: a manager opens a
 * TCP port for one connection, on the address that the asking manager reaches it by, and tells the
 * requester over the authenticated one where that is and what to say there. Then, with plain
 * blocking calls:
 *
 *     requester                         a thread of the manager
 *     token                ->
 *     {len, count}         ->
 *                          <-       count times len bytes, all of them PROBE_BYTE
 *     ... and again, until the requester closes
 *
 * The port is closed when the connection is there, or after PROBE_WAIT_MS; the connection after as
 * long a silence. One at a time a manager: others are refused -EBUSY.
 */
#ifndef DDICT_WIRE_PROBE_H
#define DDICT_WIRE_PROBE_H

#include <stdint.h>

#define PROBE_WAIT_MS   5000
#define PROBE_LEN_MAX   (64u << 20)
#define PROBE_COUNT_MAX 4096u
#define PROBE_BYTE      0xd1

struct probe { /* payload of a REPLY to PROBE */
    uint8_t token[32];
    uint8_t address[16]; /* IPv6, or IPv4 mapped into it */
    uint16_t port;       /* in host order */
    uint16_t room;
    uint32_t connections; /* from one manager to this one, at most */
    /* of messages between managers: "tcp", or "ofi:" and libfabric's provider */
    char carrier[32];
};
_Static_assert(sizeof(struct probe) == 88, "a payload has no holes");

struct probe_request {
    uint64_t len, count;
};

#endif
