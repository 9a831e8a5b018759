/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_followers.h - gets of one key that wait for one answer. A get that finds another of the
 * same key on its way whose bytes the socket has not taken yet follows that one, its leader: it is
 * not sent, and gets the same answer. Never one that was sent: its value may be older than a put
 * that was acknowledged since. While FROZEN a get may follow one that was sent (PROTOCOL 9).
 */
#ifndef DDICT_MANAGER_FORWARD_FOLLOWERS_H
#define DDICT_MANAGER_FORWARD_FOLLOWERS_H

#include "manager.h"

struct forward;

/* The get that another of this key may follow, or NULL. */
struct forward *leader_find(struct manager *m, uint32_t to, const uint8_t *key, uint32_t key_len,
                            uint64_t hash);
void leader_open(struct manager *m, struct forward *f); /* f was sent: others may follow it */
void leader_close(struct forward *f);                   /* none may follow it any more */
void follower_join(struct forward *f, struct forward *leader);
void follower_leave(struct forward *f);

#endif
