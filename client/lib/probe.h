/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - a plain TCP connection to a manager of another node, for `ddict bench --net`. Not part
 * of the library's interface. */
#ifndef DDICT_LIB_PROBE_H
#define DDICT_LIB_PROBE_H

#include <ddict.h>
#include <wire/probe.h>

#include <stddef.h>

/* Ask a manager for such a connection. 0, -EINVAL (it is of this node), -EBUSY (it serves another
 * one already), or as any request. In libddict, for the command. */
DDICT_API int ddict_probe(ddict_t *d, unsigned manager, struct probe *p, int timeout_ms);

/* In the command: connect. A descriptor, whose calls block for at most PROBE_WAIT_MS each, or a
 * negated errno. */
int probe_connect(const struct probe *p);
const char *probe_address(const struct probe *p, char *text, size_t cap); /* returns text */
/* Ask for count values of len bytes and take all of them into buf, one over the other. 0 or a
 * negative errno. */
int probe_receive(int fd, void *buf, uint64_t len, uint64_t count);

#endif
