/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near.h - values that lie on the node of who put them (DDICT_NEAR), under any key.
 *
 *     link     under the key, on the manager that owns it: the name of the value (FORMAT 10), in an item
 *              with ITEM_LINK. Its version and tag are those of the key
 *     value    under a directed key, on a manager of the node that put it. It never changes, and its
 *              name never comes again
 *
 * A manager refuses, with DDICT_ELINK, who would read a link as a value, or change it without knowing it.
 * Calls of ddict.h begin as for any key; one that gets DDICT_ELINK goes on here. Users never see the
 * code. Where the owner of the key is on the node of who puts, no link is needed: it is a plain put.
 *
 * INVARIANTS. Tests name them.
 *
 *  N1  A change of the key is the change of the item under the key, by its version: a put, a removal, or
 *      a link in place of what was there. So operations are linearizable as those on a plain key.
 *  N2  A value is stored before a link names it, and removed after none names it any more. So who finds
 *      a link without its value reads the key again, and finds another version: or the value was
 *      removed by a clear(), which is not over or came between value and link. Then it counts as
 *      cleared, and who sees it removes the link.
 *  N3  Whoever replaces or removes a link removes the value that it named, and nobody else does.
 *      What cannot be removed, as a freeze came between, is removed after the next change of a link by
 *      the same handle.
 *  N4  A link is the only value of its key: nothing can be pushed behind it, and no link takes the place of
 *      the first of several values.
 *  N5  A client that dies between two steps leaves at most one value that no link names. So does one
 *      that can not know whether its change was made (-ETIMEDOUT, DDICT_ELOST, DDICT_EGONE).
 */
#ifndef DDICT_LIB_NEAR_H
#define DDICT_LIB_NEAR_H

#include "near_link.h"
#include "request.h"
#include <base/hidden_key.h>

#define NEAR_WORD     "\0ddict.near/"
#define NEAR_WORD_LEN (sizeof NEAR_WORD - 1)
#define NEAR_KEY_LEN  (DIRECT_HEAD + NEAR_WORD_LEN + 3 * sizeof(uint64_t))
/* what is left over is removed within this time, in ms, though the call's own be over */
#define NEAR_TIDY_MS 200

/* --- the calls of ddict.h, once they have got DDICT_ELINK --- */
int near_get(ddict_t *d, const void *key, size_t klen, void *buf, size_t cap, size_t *vlen,
             unsigned *tag, unsigned flags, int timeout_ms);
int near_view(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
              int timeout_ms);
/* Also with DDICT_NEAR, at first. */
int near_put(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
             unsigned flags, int timeout_ms);
/* Whether flags without DDICT_NEAR, or a put near of this key, can be. 0, or -EINVAL. */
int near_check(const struct session *s, const void *key, size_t klen, unsigned flags);
int near_del(ddict_t *d, const void *key, size_t klen, int timeout_ms);
int near_add(ddict_t *d, const void *key, size_t klen, int64_t delta, int64_t *sum, int timeout_ms);
int near_put_if(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
                unsigned flags, uint64_t version, uint64_t *now, int timeout_ms);
int near_del_if(ddict_t *d, const void *key, size_t klen, uint64_t version, int timeout_ms);
/* One try of a pop. DDICT_ECHANGED: the key has no link any more, pop it as any other. */
int near_take(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, int timeout_ms);

/* --- one call on one key (near.c) --- */

enum near_is { NEAR_ABSENT, NEAR_PLAIN, NEAR_LINK };
struct near_call {
    ddict_t *d;
    struct target t;
    int timeout_ms;
    struct call_deadline w;
    /* as near_look() found them */
    enum near_is is;
    struct near_item item; /* its version is 0 if the key is absent */
    uint64_t missed;       /* version of a link that named a value that was not there */
};
/* 0, or a negative code with the sentence set. */
int near_begin(struct near_call *c, ddict_t *d, const void *key, size_t klen, int timeout_ms);
/* Time left for one request: 0 if the call may not ask. */
int near_left_ms(struct near_call *c);
/* Read what is under the key. 0, or a negative code. */
int near_look(struct near_call *c);
/* The directed key of a value. */
void near_value_key(const struct near_link *l, uint8_t key[NEAR_KEY_LEN]);
/* A view of the value that the link names, with the key's version. DDICT_ECHANGED: look again (N2). */
int near_value(struct near_call *c, struct ddict_view *v);
/* Remove a value that no link names any more (N3), or keep its name in the handle for
 * near_left_remove(). Keeps the sentence. */
void near_value_remove(struct near_call *c, const struct near_link *l);
/* A change was made: remove the values that could not be removed before, as a freeze came between. */
void near_left_remove(struct near_call *c);
void near_left_free(struct near_left *l);
/* Remove the link that was found, without its value. */
int near_link_remove(struct near_call *c);

/* --- window_atomic.c --- */
/* The integer of a value, NULL: none, and delta. 0, DDICT_ENOTINT, -ERANGE. */
int value_sum(const struct ddict_view *v, int64_t delta, int64_t *sum);

#endif
