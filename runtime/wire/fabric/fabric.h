/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h - libfabric beside TCP: one reliable-datagram endpoint of this process. PROTOCOL 6. The
 * library is opened at run time. Single-threaded, driven by the owner's epoll loop; nothing spins.
 * Where it is not built in, all calls that can fail say -ENOSYS.
 *
 *     fabric_find(wanted, name, ...)      fabric_find.h: in a process of its own
 *     fabric_open(&f, epoll_fd, name...)  once, in the process that uses it
 *     fabric_share(f, ...)                fabric_memory.h: what peers may read
 *     channel_new(), channel_connect()    channel.h: for each link (link.c)
 *     fabric_close(f)                     after all channels were freed
 */
#ifndef DDICT_WIRE_FABRIC_FABRIC_H
#define DDICT_WIRE_FABRIC_FABRIC_H

#include "fabric_types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fabric;
/* name: from fabric_find(); node: whose addresses are preferred, NULL: any; epoll_fd -1: for a
 * trial only. Negative, with a sentence. */
int fabric_open(struct fabric **out, int epoll_fd, const char *name, const char *node);
/* Calls the done() that are left. NULL is allowed. */
void fabric_close(struct fabric *f);
const char *fabric_name(const struct fabric *f);
size_t fabric_address(const struct fabric *f, uint8_t address[FABRIC_ADDRESS_MAX]);
/* Do now what the loop would do. */
void fabric_work(struct fabric *f);
/* For tests. True: until fabric_work() it ignores completions, as if each wake-up were lost. */
void fabric_deafen(struct fabric *f, bool deaf);

#endif
