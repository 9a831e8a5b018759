/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anew.h - with --refill: a shadow that serves keys that were lost with a node, and began empty
 * (PROTOCOL 13). A key that is not there may be one of them, unless it was removed since:
 *
 *     REFILLING    its source may be about to be read again. Who asks for the key without a time to
 *     READ_ON      wait is held here until it is put, or
 *     REFILLED     what could be read again was. Who asks is told DDICT_EKEYLOST, with the name of
 *                  the node
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

/* Whether the key may still be read again: sources are being read, and it was not removed. */
bool anew_is_awaited(const struct manager *m, uint64_t hash);
/* If the key may have been lost: the sentence for who asks; else NULL. */
const char *anew_lost_text(const struct manager *m, uint64_t hash);

/* Holds the request if its key is awaited. False: it is not, and nothing was done. True: the request
 * is held, and ref taken over, or without memory it was refused. key: of req->key_len bytes; ref: of
 * a PUT, else NULL. */
bool anew_hold(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
               struct store_ref *ref, uint64_t began);
/* The same for a GET, HEAD, POP, DEL or PUT with EXISTING whose key is not there. A key that may be
 * lost, and is not awaited any more, is refused with DDICT_EKEYLOST. False: it was never lost. */
bool anew_hold_or_refuse(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
                         struct store_ref *ref, uint64_t began);

/* The key was put: who is held for it is run again in the next turn. */
void anew_wake_key(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
/* The key was removed: it is not lost. */
void anew_note_removed(struct manager *m, uint64_t hash);
int anew_clear(struct manager *m); /* store_clear(), of which a later life knows */
/* Once a turn: runs requests that are held no longer, for DD_WAKE_NS at most. True: it ran some. */
bool anew_turn(struct manager *m);

#endif
