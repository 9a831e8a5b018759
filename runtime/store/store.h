/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - the writer's side of an arena: what one manager does with it. One thread calls all of
 * this (I1); only store_populate() may run in a second thread. The read side, for clients, is
 * reader.h. Rules: LAYOUT.
 *
 *     store_reserve -> fill ref.value -> store_commit        put, also streamed piece by piece
 *     store_find -> store_pin -> send -> store_unpin          get for a peer, from the arena itself
 */
#ifndef DDICT_STORE_STORE_H
#define DDICT_STORE_STORE_H

#include "layout.h"
#include <base/stats.h>
#include <ddict_types.h>

#include <stdbool.h>

struct store; /* private memory of the manager; rebuilt from the arena (LAYOUT 7) */

struct store_options {
    uint64_t budget; /* bytes, >= DD_MANAGER_MEM_MIN */
    uint32_t manager_id, managers;
    uint8_t dict_id[16];
    unsigned local_index; /* of the arena on this node: what lease words name */
    /* bytes of a page of the pool that the memory is taken from (hugepool.h); HUGE_NO, HUGE_ADVISE:
     * of none */
    uint64_t huge_page;
    uint64_t spill; /* size of the spill file; 0: there is none */
};
enum { HUGE_NO = 0, HUGE_ADVISE = 1 };

/*
 * Make the memfd (sealed, CLOEXEC) with an initialised header. Returns the descriptor or a negative
 * code. Called by ddictd. With a pool the budget is rounded up to whole pages, four at least, and
 * all of them are reserved here, or DDICT_EFULL.
 */
int arena_create(const struct store_options *o);
/* A read-only descriptor of the same memory for clients. Returns it or a negative code. */
int arena_reopen_readonly(int fd);

/*
 * Map the arena for writing, and its spill (-1: none), and build the private state. Both
 * descriptors stay the caller's and open. An arena that was in use can be opened (LAYOUT 7):
 * store_leases_add() then names all lease pages before the first call that changes something, which
 * frees what nothing names.
 */
int store_open(struct store **out, int fd, int spill_fd, unsigned local_index);
void store_close(struct store *s); /* NULL is allowed */
struct arena_header *store_header(struct store *s);

/* Lease pages that the scans read: clients' and hold pages. map: LEASE_FILE_SIZE bytes, stays the
 * caller's until removed. */
int store_leases_add(struct store *s, uint64_t id, const void *map, uint32_t pid);
void store_leases_remove(struct store *s, uint64_t id);

/*
 * Of an arena that was in use, before the first call that changes something: what an earlier life
 * pinned and the caller still needs, such as a popped item whose answer nobody has read, is kept as
 * retired, and pinned once. DDICT_EPROTO: there is no block at that offset.
 */
int store_keep(struct store *s, uint64_t off);

/*
 * The same for a block that was reserved and filled, and not published: it is reserved again, and
 * store_item_at() makes its ref. 1: it has been published.
 */
int store_keep_reserved(struct store *s, uint64_t off);

/* A block that is being filled, or was found. */
struct store_ref {
    uint64_t off; /* of the item in the arena */
    struct item *item;
    /* item_len(item) bytes; of an item found NULL when they are in the spill: store_read_begin() */
    uint8_t *value;
    /* store.h's own; not NULL: the value goes to the spill, see store_fill() */
    struct spill_fill *fill;
};

/*
 * Reserve a block for key and a value of val_len bytes and fill in header and key. The value is the
 * caller's to fill; then store_commit() or store_abort(). key may change under us (it lies in a
 * lane): only the copy in the block counts, and its hash is computed from the copy.
 *
 * -EINPROGRESS: the store moves other items to make room (LAYOUT 13): call again after
 * store_work(). -EAGAIN, without a sentence, if threads serve a spill: memory is full, and the
 * spill makes room. Call again when store_progress() has changed, and after DD_SPILL_LOOK_MS: when
 * the disk does nothing for DD_SPILL_WAIT_MS it is DDICT_EFULL. DDICT_EFULL with the sentence set
 * (used, total, or which memory limit); DDICT_EVALSIZE.
 */
int store_reserve(struct store *s, const void *key, uint32_t key_len, uint64_t val_len, uint8_t tag,
                  struct store_ref *ref);
/*
 * The same for a request that can wait. *scan: 0 at its first call, and the same word at its next
 * ones: what was retired before the first call is free before DDICT_EFULL is returned. The scan of
 * another request is no answer, because a lease may have ended since that scan passed it. If memory
 * is short the call also makes sure of a word of the index: store_commit() cannot wait for one.
 */
int store_reserve_again(struct store *s, const void *key, uint32_t key_len, uint64_t val_len,
                        uint8_t tag, struct store_ref *ref, uint64_t *scan);
/* grows while memory is given back for a large value: a request that waits for that waits on */
uint64_t store_room_made(const struct store *s);
/* The request that got -EINPROGRESS waits no longer. Until as much was freed, or
 * DD_COMPACT_LATE_MS are over, no other request is told to wait for as much. */
void store_reserve_late(struct store *s);
/* The same, never in the spill. */
int store_reserve_memory(struct store *s, const void *key, uint32_t key_len, uint64_t val_len,
                         uint8_t tag, struct store_ref *ref);
/* The item is sealed from its commit on: its manager refuses whoever would change it. */
void store_mark_loaded(struct store_ref *ref);
/* Its value is a link. It must not be in the spill. */
void store_mark_link(struct store_ref *ref);
void store_abort(struct store *s, struct store_ref *ref);
/* The value of a block that was reserved, and is not in the spill, has only len bytes, fewer than were
 * asked for. The block stays as large as it is. */
void store_shorten(struct store_ref *ref, uint64_t len);

enum store_mode { STORE_ANY = 0, STORE_NEW = 1, STORE_EXISTING = 2 };
/*
 * Publish. The replaced item is retired. DDICT_EEXISTS / DDICT_ENOKEY by mode, DDICT_EFULL when the
 * index can not grow: the block is then still reserved, the caller aborts it. *version (may be
 * NULL) receives the version given.
 */
int store_commit(struct store *s, struct store_ref *ref, enum store_mode mode, uint64_t *version);

/* The next version that is given is above this one. The store of a backup gives none that its
 * primary has given (PROTOCOL 13). */
void store_version_reach(struct store *s, uint64_t version);

/* In a backup that is filled (PROTOCOL 13): store_commit() with the version that its primary has given;
 * store_queue_push() that gives none. */
int store_commit_as(struct store *s, struct store_ref *ref, uint64_t version);
int store_queue_push_as(struct store *s, struct store_ref *ref);

/* Look up; DDICT_ENOKEY. The ref is valid until the next call that changes the store unless it is
 * pinned. */
int store_find(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref);
/* Keys of these hashes are looked up, or put, soon; and sooner: their cache lines come meanwhile. */
void store_expect(struct store *s, uint64_t soon, uint64_t sooner);
/* Remove. With ref: the removed item, pinned once for the caller (pop). DDICT_ENOKEY. */
int store_remove(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref);
/* The same for a pop; *next receives the value that is now the first of the key, its item is NULL
 * if there is none. */
int store_pop(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref,
              struct store_ref *next);
int store_clear(struct store *s);

/*
 * Which request makes the next change of the index: store_commit(), store_pop(), store_remove(),
 * store_clear() or store_queue_push() (I24); NULL: none that is taken again. store_fate(): what
 * became of the last one when the store was opened; false: there was none. It counts only if the
 * request has not left its source.
 */
struct store_source {
    uint64_t client; /* not 0 */
    uint64_t at, id, before;
};
struct store_fate {
    struct store_source from;
    bool happened;
    uint64_t version;       /* of what was put; 0: it did not become the first of its key */
    const struct item *put; /* that, until the next change; NULL: nothing */
    uint64_t item;          /* offset of what was popped, for store_keep(); 0: nothing */
};
void store_begin(struct store *s, const struct store_source *from);
bool store_fate(struct store *s, struct store_fate *out);
/* The item in a block that store_keep() or store_keep_reserved() keeps. DDICT_EPROTO: there is none
 * (any more). */
int store_item_at(struct store *s, uint64_t off, struct store_ref *ref);

/*
 * Queues (LAYOUT 12): a key can have more values behind its first one, which is an item as any
 * other. store_pop() makes the next value the first; store_remove() without ref and store_clear()
 * remove all.
 */
struct store_queue {
    /* values that the key may have in all, which the caller enforces; 0: any number */
    uint64_t most;
    uint64_t more; /* behind the first */
};
/* False: the key has neither a limit nor a second value. */
bool store_queue_look(struct store *s, const void *key, uint32_t key_len, uint64_t hash,
                      struct store_queue *out);
/* Note `most`, also for a key without a value. It lasts until the key is removed with all its
 * values. DDICT_EFULL. */
int store_queue_limit(struct store *s, const void *key, uint32_t key_len, uint64_t most);
/* Put ref behind the values of its key, which has one. DDICT_EFULL: the block is then still
 * reserved. */
int store_queue_push(struct store *s, struct store_ref *ref);
/* The n-th value behind the first, from 0. Valid as of store_find(). DDICT_ENOKEY. */
int store_queue_value(struct store *s, const void *key, uint32_t key_len, uint64_t hash, uint64_t n,
                      struct store_ref *ref);

/* Counted pins of the manager itself: a pinned block is not reused (I6). Pins nest. */
int store_pin(struct store *s, uint64_t off);
void store_unpin(struct store *s, uint64_t off);
/* Free a block that no word names (of transit) as soon as no lease and no pin holds it. */
void store_retire(struct store *s, uint64_t off);

/*
 * Transit: a block for a value of another manager, complete but for its value, never to be
 * committed. Its end is store_abort(), or store_pin() and store_retire(). store_transit_bytes():
 * what all transit blocks take until they are free again.
 */
int store_reserve_transit(struct store *s, uint64_t val_len, uint8_t tag, uint64_t version,
                          struct store_ref *ref);
uint64_t store_transit_bytes(const struct store *s);

/*
 * The node cache (LAYOUT 9): items of other managers, only while FROZEN. store_cache_reserve() as
 * store_reserve(), with the version that the owner gave; then store_cache_add() or store_abort().
 * Adding a key that is there is -EEXIST, an index that can not grow DDICT_EFULL: the block is then
 * still reserved.
 */
int store_cache_reserve(struct store *s, const void *key, uint32_t key_len, uint64_t val_len,
                        uint8_t tag, uint64_t version, struct store_ref *ref);
int store_cache_add(struct store *s, struct store_ref *ref);
/* also sets its bit; DDICT_ENOKEY */
int store_cache_find(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref);
/* Set the bits of what was read since the last call, and of what is leased. */
void store_cache_hints(struct store *s);
/* Move the hand by at most `looks` items until `bytes` are evicted; they are free after
 * store_reclaim(). Returns bytes evicted, *evicted counts items. */
uint64_t store_cache_evict(struct store *s, uint64_t bytes, unsigned looks, uint64_t *evicted);
/*
 * All of this, a bounded part with each call: look what is read, evict `bytes`, scan. True when all
 * of them are free, or there were not so many. Else call again in a later turn; `bytes` counts in
 * the first of these calls alone.
 */
bool store_cache_shrink(struct store *s, uint64_t bytes, uint64_t *evicted);
/* Take out at most n items. True while there are more. */
bool store_cache_drop(struct store *s, unsigned n);
/* Readers see it at once. OPEN only when nothing is cached. */
void store_freeze(struct store *s, uint64_t epoch, enum freeze_state state);

/*
 * Keys of the segment that covers hash prefix *cursor (0 to begin); calls fn for each key. *cursor
 * then is the next prefix, 0 at the end. Returns the number of keys, or what fn returned when that
 * was not 0; *cursor then stays. fn must not change the store.
 */
int store_keys(struct store *s, uint64_t *cursor,
               int (*fn)(void *arg, const void *key, uint32_t key_len), void *arg);

/* The same, and keys that have a limit and no value. */
int store_keys_and_limits(struct store *s, uint64_t *cursor,
                          int (*fn)(void *arg, const void *key, uint32_t key_len), void *arg);

/* The store asks may() before it gives back memory of free pages, [off, off + len) of the arena;
 * false: not this memory. len 0: can any be given back? There is one such function; NULL: none. */
void store_watch_memory(struct store *s, bool (*may)(void *arg, uint64_t off, uint64_t len),
                        void *arg);

/* Where the value of an item that was found is mapped. For tests: of one in the spill nobody has
 * checked it. */
static inline const void *store_value(struct store *s, const struct item *item) {
    const struct item_away *away = item_away(item);
    return away ? (const uint8_t *)store_header(s) + away->off : item_value(item);
}

/*
 * The spill (LAYOUT 11). Two threads read and write its file, and never touch anything else of the
 * store; each writes to wake_fd (8 bytes, as to an eventfd) when it has done something. Without
 * this call, as in tests, the store does all of it itself. 0 or a negative code.
 */
int store_spill_serve(struct store *s, int wake_fd);
/* changes when room was made in memory, or something came from or went to the disk */
uint64_t store_progress(const struct store *s);
/* a sentence, once, when the spill has failed; else NULL */
const char *store_spill_trouble(struct store *s);
/*
 * For a block with ref.fill: the first `got` bytes of ref.value are there. The store writes them
 * while the others come. -EAGAIN: they come faster than the disk takes them, or got is the length
 * and the disk does not have all of them yet: call again when store_progress() has changed. -EIO
 * and others: the value cannot be stored. For other blocks 0.
 */
int store_fill(struct store *s, struct store_ref *ref, uint64_t got);
/* After store_fill() of the whole value: its item is complete, and can be read like one that is found,
 * before it is published. 0 or as store_fill(). */
int store_filled(struct store *s, struct store_ref *ref);
/*
 * Read a value that is in the spill, from byte `from` on. The block must be pinned until
 * store_read_end(). Bytes [from, ready) of data are there and agree with their sums; those before
 * `sent` of store_read_sent() are there no more. So at most DD_SPILL_AHEAD bytes of the value are in memory. -ENOMEM.
 */
struct store_reading;
int store_read_begin(struct store *s, const struct store_ref *ref, uint64_t from,
                     struct store_reading **out, const uint8_t **data);
/* how many bytes are ready, or -EIO: `wanted` will never be */
int64_t store_read_ready(const struct store_reading *r, uint64_t wanted);
void store_read_sent(struct store_reading *r, uint64_t sent);
void store_read_end(struct store_reading *r);

/* Work to be done between requests: sweep after clear, scan when enough is retired. Returns true
 * while more is waiting. */
bool store_work(struct store *s); /* once a turn of the loop */
/* Work for turns in which nobody asked: brings scattered memory together. Takes at most
 * DD_COMPACT_IDLE_NS and the time of one value; true: there is more to do. */
bool store_idle(struct store *s);
/* Scan now and free what can be freed; returns bytes freed. Takes as long as there are leases and
 * retired blocks. */
uint64_t store_reclaim(struct store *s);
/* The same if leases and retired blocks are few; else the next part of a scan, bounded by
 * DD_SCAN_LINES, _LEASES and _BLOCKS. True while there is more of it. */
bool store_reclaim_some(struct store *s);

/* Populate the next DD_POPULATE_STEP bytes ahead of use; returns bytes done, 0 when all is
 * populated or the memory limit is near. May run in another thread. */
int64_t store_populate(struct store *s);

/* --- what is free, and why a value finds no room in it --- */
/* dd_errkind() of DDICT_EFULL: the manager's own budget is not short, but memory of the machine, or
 * the disk of its spill. */
enum store_full { STORE_FULL_MACHINE = 1, STORE_FULL_SPILL };

struct store_room {
    uint64_t free_bytes;
    /* of it, between values that could not be moved when that was tried last */
    uint64_t stuck_bytes;
    uint64_t row_bytes;  /* of the largest piece, about */
    uint64_t held_bytes; /* in use by replaced and deleted values that views hold */
    uint32_t holder_pid; /* the process that holds most of these */
};
void store_room(struct store *s, struct store_room *out);

/* As store_reclaim_some(), for a caller that wants a scan now: true when it is over; else it is
 * made in the next turns. */
bool store_reclaim_soon(struct store *s);

/* Fill the memory figures (total, used, free, utilisation, num_keys, free_blocks, retired, leased,
 * largest holder). */
void store_stats(struct store *s, struct manager_stats *out);

/*
 * Bytes that may still be taken before the smallest memory limit of our cgroup's ancestors (v1 and
 * v2) or MemAvailable would be passed, less DD_MEM_RESERVE; *limit names it ("cgroup /…/step_1: 2.0
 * GiB limit", static per thread). memlimit.c
 */
uint64_t memlimit_room(const char **limit);
/* Bytes of the machine's memory, or of the smallest limit where that is less, used or not. */
uint64_t memlimit_total(void);
/* How many processes of our own cgroup the kernel has ended for lack of memory since it was made; 0
 * where it does not say. */
uint64_t memlimit_kills(void);
/* Whether a cgroup of ours has more memory than its memory.high (v2): the kernel then stops each
 * process of it for moments, as soon as it takes memory. *limit names it, as above. */
bool memlimit_slowed(const char **limit);
/* The limit for which the kernel has ended a process of ours, as memlimit_room() names one; "" where
 * nobody knows. */
const char *memlimit_reached(void);
/* Look again which cgroup we are in; otherwise done once a process. Also for a child that has closed
 * all descriptors: those of its parent are not used any more. */
void memlimit_find(void);
/* The descriptors that are open for these looks, into fds: a child of fork() that keeps them goes on
 * with them, and opens none. How many; 0: more than cap, or none yet. */
#define MEMLIMIT_FDS 64 /* of 15 levels of cgroup v2 */
size_t memlimit_fds(int *fds, size_t cap);
/* The same from other files than those of /proc/self, for tests. */
void memlimit_find_in(const char *cgroup, const char *mountinfo);

#endif
