/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anew.h - with --refill: a shadow that serves keys that were lost with a node, and began empty
 * (PROTOCOL 13). A key that is not there may be one of them:
 *
 *     REFILLING    its source may be about to be read again: who asks for it without a time to wait
 *                  waits here, until it is put, or
 *     REFILLED     what could be read again was. DDICT_ELOST with the name of the node, but
 *                  DDICT_ENOKEY for keys that were removed since
 */
#ifndef DDICT_MANAGER_ANEW_H
#define DDICT_MANAGER_ANEW_H

#include "manager.h"
#include "requester.h"

struct sup_msg;
int anew_init(struct manager *m); /* nothing where it is no shadow; -ENOMEM */
void anew_free(struct manager *m);
void anew_map(struct manager *m,
              const struct sup_msg *s); /* SUP_MAP that names us as the primary */
/* A GET, HEAD, POP, DEL or PUT found that its key is not there. True: it waits, and has taken over ref, or
 * was answered; false: the key was never lost. key: of req->key_len bytes; ref: of a PUT, else NULL. */
bool anew_missing(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
                  struct store_ref *ref, uint64_t began);
/* A put of ddict-load to such an owner: it is taken though the dictionary is frozen. */
bool anew_refills(const struct manager *m, const struct msg *req);
/* The sentence, if such a key may have been lost, and is awaited no more; or NULL. */
const char *anew_lost(const struct manager *m, uint64_t hash);
void anew_put(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
void anew_removed(struct manager *m, uint64_t hash);
void anew_cleared(struct manager *m); /* all keys were removed */
/* Once a turn: what waited is run again, when its key was put or all was read. True: more is left. */
bool anew_turn(struct manager *m);

#endif
