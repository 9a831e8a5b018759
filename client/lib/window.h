/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h - working sets: several checkpoints of all keys, in a dictionary that has K of them.
 *
 * A dictionary with a working set keeps what each key had at the last K checkpoints. A handle has the
 * number of a checkpoint, at which it reads and writes. Nothing of it is known to the managers: a
 * checkpoint consists of hidden items (FORMAT 9), and each change of it is a put_if of one of them.
 *
 *     window    W      oldest; the checkpoints are oldest .. oldest + K - 1. Absent: oldest is 0
 *     index     I(k)   of each key: its entries {checkpoint, value or "removed"} in their order, and
 *                      floor, the oldest when it was last written. On the manager of k
 *     value     V      of one entry. On the manager of k, under a name that never comes again
 *     mark      M      of each client, with DDICT_WAIT_FOR_WRITERS: the last checkpoint it wrote at
 *
 * INVARIANTS. Tests name them.
 *
 *  W1  oldest only grows. It is changed by put_if of W alone.
 *  W2  What key k has at checkpoint c is its last entry at c or before; so retiring moves nothing.
 *  W3  A change is the put_if of I(k). Whoever makes it has read, before that, I(k) as it replaces it
 *      and a W in which its checkpoint was in the window. Where there is no I(k) it makes an empty one
 *      first, and reads W after that. One without entries counts as none: somebody else may have made
 *      it since W was read, behind a reader that found none.
 *  W4  Whoever reads, at a checkpoint of the window that it has read, something that a change at an
 *      older checkpoint could alter, and finds floor < oldest, sets floor = oldest first (an I(k)
 *      without entries it removes). So a put that is overtaken by its checkpoint's retirement either
 *      comes before all reads that could tell, or its put_if fails. Lists do not keep this: keys, len
 *      and iterators may tell of a key without such a put that still comes.
 *  W5  A value is stored before an index names it, and removed after none names it any more. So who
 *      finds an entry without its value reads the index again.
 *      Who finds no index, or one without entries, reads W again: only a W that was read after that tells that the index was not
 *      removed by a newer checkpoint.
 *  W6  Who writes I(k) drops what no checkpoint of the window sees, and then those values. Not more.
 *      Of a key that was removed nobody may write I(k) again: window_sweep.h.
 *      A put that may have to be withdrawn (window_confirm()) keeps the value that it replaced until it
 *      is known to have come in time; else it puts that back.
 *  W7  The version of a key is that of I(k) before the change that made the entry: it never comes
 *      again, and changes at other checkpoints leave it as it is.
 *
 * A client that dies between two steps leaves at most values that no index names, or an index without
 * entries.
 */
#ifndef DDICT_LIB_WINDOW_H
#define DDICT_LIB_WINDOW_H

#include "request.h"
#include "window_index.h"
#include <base/hidden_key.h>

/* Whether a removal is an answer as long as its checkpoint is in the window: where keys are awaited. */
static inline bool window_keeps(const struct session *s) {
    return s->working_flags & DDICT_WAIT_FOR_KEYS;
}

/* Whether the calls on this key are those of the working set. The other keys are plain. */
static inline bool window_has(const struct session *s, const void *key, size_t klen) {
    return unlikely(s->working_set != 0) && !key_is_hidden(key, klen);
}

/* --- the calls of ddict.h, for a key that window_has() --- */
int window_put(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
               unsigned flags, int timeout_ms);
int window_get(ddict_t *d, const void *key, size_t klen, void *buf, size_t cap, size_t *vlen,
               unsigned *tag, unsigned flags, int timeout_ms);
int window_view(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
                int timeout_ms);
int window_contains(ddict_t *d, const void *key, size_t klen, size_t *vlen, int timeout_ms);
int window_del(ddict_t *d, const void *key, size_t klen, int timeout_ms);
int window_pop(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
               int timeout_ms);
int window_add(ddict_t *d, const void *key, size_t klen, int64_t delta, int64_t *sum,
               int timeout_ms);
int window_put_if(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
                  unsigned flags, uint64_t version, uint64_t *now, int timeout_ms);
int window_del_if(ddict_t *d, const void *key, size_t klen, uint64_t version, int timeout_ms);
/* check: whether a value of that tag can grow, 0 or a negative code. */
int window_append(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                  unsigned flags, size_t *total, int (*check)(unsigned tag), int timeout_ms);
int window_key_version(ddict_t *d, const void *key, size_t klen, uint64_t *version, int timeout_ms);
int window_wait_change(ddict_t *d, const void *key, size_t klen, uint64_t version, uint64_t *now,
                       int timeout_ms);
ssize_t window_get_many(ddict_t *d, struct ddict_want *wants, size_t n, unsigned flags,
                        int timeout_ms);
ssize_t window_put_many(ddict_t *d, struct ddict_pair *pairs, size_t n, int timeout_ms);

/* The handle is being detached; it has its session yet. */
void window_detach(ddict_t *d);

/* --- one call on one key (window_call.c) --- */

struct window_key {
    uint8_t *at; /* room, or malloc'ed */
    size_t len;
    uint8_t room[192];
};
void window_key_free(struct window_key *k);
/* Words of the keys of items (FORMAT 9). */
#define WINDOW_KEY   "\0ddict.window"
#define WINDOW_LEN   (sizeof WINDOW_KEY - 1)
#define WINDOW_INDEX "/i/"
#define WINDOW_VALUE "/v/"
#define WINDOW_MARK  "/w/"
/* of a checkpoint: more than anybody makes, and K more are a number, too */
#define WINDOW_CHECKPOINT_MAX (UINT64_MAX / 4)
/* for which a call waits for one item, and then looks at the others, too */
#define WINDOW_SLICE_MS 100
/* of a key, so that the names of its items fit */
#define WINDOW_KEY_MAX (DDICT_KEY_MAX - DIRECT_HEAD - WINDOW_LEN - 3 - 3 * sizeof(uint64_t))
/* The directed key of an item on a manager: word, part, key. To be freed if 0. */
int window_item_key(struct window_key *k, unsigned manager, const char *word, const void *part,
                    size_t plen, const void *key, size_t klen);

struct window_call {
    ddict_t *d;
    struct session *s;
    const void *key;
    size_t klen;
    unsigned owner;      /* the manager of the key */
    uint64_t checkpoint; /* the handle's when the call began */
    int timeout_ms;
    struct call_deadline w;
    struct window_key index_key;
    /* as window_look() found them */
    struct window_state state;
    uint64_t state_version; /* 0: there is none */
    struct ddict_view index;
    const struct window_index *x; /* in index; NULL: there is none */
    uint64_t missed;              /* version of an index that named a value that was not there */
    uint64_t made;                /* of the empty one that this call has made; W is read after it */
};
/* 0, and window_call_end() is due; or a negative code with the sentence set, and it is not. */
int window_call_begin(struct window_call *c, ddict_t *d, const void *key, size_t klen,
                      unsigned flags, int timeout_ms);
void window_call_end(struct window_call *c);
/* Time left for one request: 0 if the call may not ask. */
int window_left_ms(struct window_call *c);
/* Read W and I(k). 0; DDICT_ERETIRED: the checkpoint is not in the window any more. */
int window_look(struct window_call *c);
/* The parts of it: take what a get of many has found, and end its view. 0 or a negative code. */
int window_state_take(struct window_call *c, struct ddict_want *w);
int window_index_take(struct window_call *c, struct ddict_want *w);
/* Whether the handle's checkpoint is in the window: 0 or DDICT_ERETIRED. */
int window_check(ddict_t *d, int timeout_ms);
/* W alone. */
int window_state_look(struct window_call *c);
int window_retired(const struct window_call *c); /* sets the sentence */
static inline uint64_t window_newest(const struct window_call *c) {
    return c->state.oldest + c->s->working_set - 1;
}
/* The name of the value of an entry. */
int window_value_key(const struct window_call *c, const struct window_entry *e,
                     struct window_key *k);
/* Keep W4. 0: what was read stands; DDICT_ECHANGED: the index is another one now, look again. */
bool window_must_raise(const struct window_call *c);
int window_raise(struct window_call *c);
/* Who writes at the oldest checkpoint keeps it from being retired meanwhile, as its mark may have come
 * behind the last look at the marks. 0; DDICT_ECHANGED: it is open again, look again. */
int window_open(struct window_call *c);
/* Make the next checkpoint of the handle one of the window, waiting as the working set's flags say.
 * 0: look again; or a negative code. */
int window_advance(struct window_call *c);

/* --- reading (window_read.c) --- */
enum window_seen { WINDOW_ABSENT, WINDOW_FOUND, WINDOW_AWAITED };
/* What the call sees of the key; *e: its entry, if there is one. */
enum window_seen window_see(const struct window_call *c, const struct window_entry **e);

/* Whether the key is among those that are listed. Differs from WINDOW_FOUND at a checkpoint that does
 * not exist yet. */
bool window_lists(const struct window_call *c);
/* Where nothing is to be read yet: wait for a change, a moment at most. 0: look again; -ETIMEDOUT. */
int window_await(struct window_call *c, unsigned flags);
/* A view of the value of an entry. DDICT_ECHANGED: it is not there any more (W5), look again. */
int window_value_view(struct window_call *c, const struct window_entry *e, struct ddict_view *v);

/* --- changes (window_change.c) --- */
/* Put the edited index in the place of c's. 0: done, and the values that are not named any more are
 * removed; DDICT_ECHANGED: look again. */
int window_commit(struct window_call *c, struct window_edit *e);

#endif
