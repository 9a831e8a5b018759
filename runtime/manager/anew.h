/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anew.h - with --refill: a shadow that serves keys that were lost with a node, and began empty
 * (PROTOCOL 13). A key that is not there may be one of them, unless it was removed since:
 *
 *     REFILLING    its source may be about to be read again: who asks for it without a time to wait
 *                  waits here, until it is put, or
 *     REFILLED     what could be read again was. DDICT_EKEYLOST with the name of the node
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
/* Whether the key may still be read again: REFILLING, and it was not removed. */
bool anew_is_awaited(const struct manager *m, uint64_t hash);
/* The request is to wait as long as its key is awaited. True: it does, and has taken over ref, or was
 * refused; false: the key is not awaited. key: of req->key_len bytes; ref: of a PUT, else NULL. */
bool anew_holds(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
                struct store_ref *ref, uint64_t began);
/* A GET, HEAD, POP, DEL or PUT with EXISTING found that its key is not there. True: it waits, as above,
 * or was answered that the key may be lost; false: it was never lost. */
bool anew_missing(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
                  struct store_ref *ref, uint64_t began);
/* The sentence, if such a key may have been lost; or NULL. */
const char *anew_lost(const struct manager *m, uint64_t hash);
void anew_put(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
void anew_removed(struct manager *m, uint64_t hash);
int anew_clear(struct manager *m); /* store_clear(), of which a later life knows */
/* Once a turn: what waited is run again, when its key was put or all was read. True: more is left. */
bool anew_turn(struct manager *m);

#endif
