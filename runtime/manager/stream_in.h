/* SPDX-License-Identifier: Apache-2.0 */
/* stream_in.h - values that come in pieces. */
#ifndef DDICT_MANAGER_STREAM_IN_H
#define DDICT_MANAGER_STREAM_IN_H

#include "manager.h"

struct forward;
int put_in_begin(struct requester *a, const struct msg *m, const uint8_t *key);
/* The same for a put that a proxy has asked for before, over a connection that ended: go on with what
 * is there of it, and say how much that is. */
int put_in_again(struct requester *a, const struct msg *m, const uint8_t *key);
bool put_in_is_kept(const struct requester *a, const struct msg *m); /* something is there of it */
/* A put that is passed on by f. f NULL: it was refused, and its pieces are dropped. */
int put_in_pass(struct requester *a, const struct msg *m, struct forward *f);
/* f sends its value again, from this byte on: take the pieces that have this number. 0 or
 * negative. */
int put_in_rewind(struct requester *a, const struct msg *req, struct forward *f, uint64_t from,
                  uint32_t rewind);
bool put_in_knows(const struct requester *a, uint64_t id); /* pieces of its value come */
/* Of an earlier life: drop the pieces that come, until put_in_rewind(), or if f is NULL, all. closed: a
 * last one has come already. 0 or negative. */
int put_in_return(struct requester *a, const struct msg *req, struct forward *f, uint32_t rewind,
                  bool closed);
/* f has ended: drop the pieces that still come */
void put_in_forget(struct requester *a, const struct forward *f);
int put_in_data(struct requester *a, const struct msg *m, const uint8_t *payload);
/* Where to receive this DATA; NULL: anywhere. */
void *put_in_place(struct requester *a, const struct msg *m);
/* The sender gives the put up: answer it with -ECANCELED, or let its owner answer. False: its last
 * piece has come. Parked pieces are left to the caller. */
bool put_in_abort(struct requester *a, uint64_t id);
/* Its sender gives it up by CANCEL: where its last piece has come, no more comes. */
void put_in_over(struct requester *a, uint64_t id);
/* A put whose value is complete, but not yet on disk. Takes over ref. TAKE_PAUSE; TAKE_DONE: it was
 * answered with an error. */
int put_in_await(struct requester *a, const struct msg *m, struct store_ref *ref, uint64_t began);
/* Publish puts that are on disk now. True: none waits for the disk any more, so the requester may
 * go on. */
bool puts_look(struct requester *a);
/* The requester ends. What a proxy may ask for again stays, for a while. */
void puts_end(struct requester *a);
/* A proxy does not ask again for puts with ids before this one. */
void puts_settle(struct manager *m, uint64_t who, uint64_t id);
void puts_free(struct manager *m); /* those of all proxies */

struct ledger_entry;
/* Go on where the life before was: ref is the block of the entry. 0 or negative. */
int put_in_resume(struct requester *a, struct ledger_entry *e, const struct store_ref *ref);
/* The same for an entry of a proxy, which may ask for it again. */
int put_in_revive(struct manager *m, struct ledger_entry *e, const struct store_ref *ref);

/* As put_in_abort(), only for a put that goes on to another manager. */
bool put_in_cancel(struct requester *a, uint64_t id);
/* Its parked header was dropped and answered. last: so was its last piece, and the put_in is
 * freed. */
void put_in_dropped(struct requester *a, const struct msg *m, bool last);
/* Whether the put goes on to another manager: *to, by *f; *f NULL: its header is parked. */
bool put_in_goes_on(struct requester *a, uint64_t id, uint32_t *to, struct forward **f);
/* Its header was parked: know the pieces that follow. 0 or negative. */
int put_in_park(struct requester *a, const struct msg *m, uint32_t to);

#endif
