/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_followers.h - gets of one key that share an answer. While the bytes of a get are still
 * queued for the socket, another get of the same key may follow it, its leader: the follower is not
 * sent, and gets the leader's answer. A get that was sent cannot lead, as its value may be older
 * than a put that was acknowledged since; only while FROZEN it can (PROTOCOL 9).
 */
#ifndef DDICT_MANAGER_FORWARD_FOLLOWERS_H
#define DDICT_MANAGER_FORWARD_FOLLOWERS_H

#include "manager.h"

struct forward;

/* A get that another get of this key may follow, or NULL. */
struct forward *leader_find(struct manager *m, uint32_t to, const uint8_t *key, uint32_t key_len,
                            uint64_t hash);
void leader_open(struct manager *m, struct forward *f); /* f may be followed from now on */
void leader_close(struct forward *f);                   /* f is not followed by any more */
void follower_join(struct forward *f, struct forward *leader);
void follower_leave(struct forward *f);

#endif
