/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests.h - what is asked, for lanes and connections alike. A message has passed msg_check(),
 * which knows the form of each type (wire/msg.c): its key, its value, its flags. The table in
 * requests.c says the rest: who may send it, whose it is, whether it writes, and who takes it.
 *
 *              sent by       whose        key     value       may wait for     refused while
 *                                                                              not OPEN
 *     PUT      all           by key       key     or pieces   room (APPEND)    yes
 *     GET      all           by key       key     -           its key          -
 *     POP      all           by key       key     -           its key          yes
 *     HEAD     all           by key       key     -           its key          -
 *     DEL      all           by key       key     -           -                yes
 *     CLEAR    all           by number    -       -           -                yes
 *     LEN      all           by number    -       -           -                -
 *     KEYS     all           by number    prefix  -           -                -
 *     STATS    all           by number    -       -           -                -
 *     EVENTS   all           by number    prefix  -           an event         -
 *     PROBE    all           by number    -       -           -                -
 *     ALIVE    all           by number    -       -           -                -
 *     DATA     all           here         -       a piece     -                at its end
 *     ABORT    all           here         -       -           -                -
 *     CREDIT   all           here         -       -           -                -
 *     CANCEL   all           here         -       -           -                -
 *     TOOK     connections   here         -       -           -                -
 *     FREEZE   lanes         here         -       -           -                -
 *     PREFETCH lanes         here         -       keys        -                -
 *
 * by key: the manager that the key's hash names; by number: the header names it. What is another's
 * is forwarded for a lane (forward.h), and refused to a peer. here: it is for this manager, of
 * requests that it knows by their ids, whoever owns them.
 */
#ifndef DDICT_MANAGER_REQUESTS_H
#define DDICT_MANAGER_REQUESTS_H

#include "requester.h"

/*
 * One message of a requester. TAKE_DONE: it was taken. TAKE_LATER: room is being made for its
 * value; try again in the next turn, before anything else of this requester. TAKE_STALL: not now,
 * leave it where it is (of connections only what waits for the spill, see rooms.c). TAKE_PAUSE: it
 * was taken; take the next one when puts_look() allows. Negative: it broke a rule.
 */
int request_take(struct requester *a, const struct msg *m, const uint8_t *payload);
/* Whether it may send requests of this type. */
bool request_allowed(const struct requester *a, unsigned type);
/* Try a GET, POP or HEAD now. 0: answered; DDICT_ENOKEY: there is no value, nothing was sent. */
int request_look(struct requester *a, const struct msg *req, const void *key);
/* It is the turn of a request that waited for changes in flight, or its own change is on the backup
 * (replica_flight.h). key, hash: of all but CLEAR; ref: of a PUT. */
void request_run(struct requester *a, const struct msg *req, const uint8_t *key, uint64_t hash,
                 struct store_ref *ref, uint64_t began);
/* A change of this key is over: what waits for the key, or for room in it, goes on. NULL: of all. */
void request_key_next(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
/* A put whose value is complete: publish it, answer, wake those that wait for the key. Takes over
 * ref. */
void request_commit(struct requester *a, const struct msg *req, struct store_ref *ref,
                    uint64_t began);

#endif
