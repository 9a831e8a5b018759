/* SPDX-License-Identifier: Apache-2.0 */
/* forward_followers.c - gets of one key that wait for one answer. */
#include "forward_followers.h"

#include "forward_table.h"
#include "manager.h"
#include "peer_client.h"

#include <string.h>

struct forward *leader_find(struct manager *m, uint32_t to, const uint8_t *key, uint32_t key_len,
                            uint64_t hash) {
    for (struct forward *f = m->forward_table->same[hash % FORWARD_BUCKETS], *next; f; f = next) {
        next = f->same_next;
        /* frozen values do not change (PROTOCOL 9) */
        bool frozen = f->epoch && f->epoch == m->frozen;
        if (!frozen && !peer_unsent(f->peer, f->position))
            leader_close(f);
        else if (f->hash == hash && f->from == to && f->req.key_len == key_len &&
                 memcmp(f->key, key, key_len) == 0)
            return f;
    }
    return NULL;
}

void leader_open(struct manager *m, struct forward *f) {
    bucket_add(m->forward_table->same, f);
}

void leader_close(struct forward *f) {
    bucket_remove(f);
}

void follower_join(struct forward *f, struct forward *leader) {
    f->leader = leader;
    f->follows = leader->followers;
    leader->followers = f;
}

void follower_leave(struct forward *f) {
    struct forward **at = &f->leader->followers;
    while (*at != f)
        at = &(*at)->follows;
    *at = f->follows;
    f->leader = NULL;
}
