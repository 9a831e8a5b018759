/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - the read side of an arena, used by clients on a read-only mapping: no lock, no system
 * call. Any number of threads; each uses lease slots of its own. Rules: LAYOUT I5, I8, I9.
 */
#ifndef DDICT_STORE_READER_H
#define DDICT_STORE_READER_H

#include "layout.h"
#include "stress.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

struct arena_view {
    const struct arena_header *header; /* start of the mapping */
    size_t map_len;
    unsigned local_index; /* of the arena on this node */
    /* false: the manager's membarrier is the fence of a lease (I5); reader_unfence() sets it */
    bool fenced;
    uint64_t lease;     /* LEASE_WORD(local_index, 0) */
    uint64_t last_item; /* map_len less an item's header */
    /* map_len less header, longest key and padding: where an item of find_item_short() may lie */
    uint64_t last_short;
    const uint64_t *dir;
    int spill_fd; /* ours; -1: none */
    /* in `counters` of a chunk of the lease page: bytes to the row of this arena */
    uint64_t row;
};

/* Check magic, version and the regions of a header against the sizes of the two files.
 * DDICT_EVERSION, DDICT_EPROTO. */
int arena_check(const struct arena_header *h, uint64_t file_size, uint64_t spill_size);
/* Map an arena, shared, and its spill (-1: it has none) behind it, and check them; *len is what
 * munmap() needs. A negative code with a sentence. */
int arena_map(void **map, uint64_t *len, int fd, int spill_fd, int prot);

/* Map them read-only. DDICT_EVERSION, DDICT_EPROTO, -ENOMEM. */
int arena_view_map(struct arena_view *a, int fd, int spill_fd, unsigned local_index);
void arena_view_unmap(struct arena_view *a);

/* Leave the fences of this process to the manager, if manager and kernel can do that. Call it
 * before the first look-up. */
void reader_unfence(struct arena_view *a);

struct found {
    const struct item *item;
    /* In the spill: where the value is mapped. A read there is a SIGBUS if the disk fails, and
     * nobody has checked the bytes; see away_read(). */
    const void *value;
    uint64_t val_len;
    uint64_t off; /* of the item */
    /* NULL: the value is in memory. Only reader_find() and reader_item() find others. */
    const struct item_away *away;
};

/*
 * Bytes [at, at + len) of a value that is in the spill, held by a lease, into buf: at is a multiple
 * of DD_SPILL_CHUNK, and so is len but at the value's end. They are read from the file and compared
 * with their sums: 0, or -EIO with a sentence: the disk failed, or gave other bytes than were
 * written. Never a signal.
 */
int away_read(const struct arena_view *a, const struct found *f, void *buf, uint64_t at,
              uint64_t len);
/* Read the whole value so and keep nothing of it; 0, -EIO or -ENOMEM. */
int away_check(const struct arena_view *a, const struct found *f);

/*
 * Find key (hash h) and hold it with the lease slot *slot, which must be 0 and belongs to the
 * calling thread. On 0 the slot holds the lease: the item stays readable until reader_release().
 * Otherwise the slot is 0 again. DDICT_ENOKEY (a true miss, I8), -EAGAIN (64 retries: ask the
 * manager), DDICT_EPROTO (the arena is damaged).
 */
int reader_find(const struct arena_view *a, uint64_t h, const void *key, size_t key_len,
                uint64_t *slot, struct found *out);

/* One of several look-ups at once. */
struct find_one {
    const struct arena_view *a;
    uint64_t h;
    const void *key;
    size_t key_len;
    uint64_t *slot; /* as in reader_find() */
    struct found f; /* out, when found */
    /* out; false: not found at once, *slot is 0, reader_find() knows why */
    bool found;
    const uint64_t *from; /* between the steps; NULL: no word fits */
    uint64_t word;
};
/*
 * Find all of them, each step for all, so that their misses of the cache overlap, and with one
 * fence for all their leases. The caller should have prefetched the buckets (find_bucket()).
 */
void reader_find_many(struct find_one *w, unsigned n);

static inline void reader_release(uint64_t *slot) {
    __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
}

/* Take a lease on an offset that a completion names: the manager keeps it pinned until the
 * completion is consumed, so no re-check is needed. */
static inline void reader_adopt(const struct arena_view *a, uint64_t off, uint64_t *slot) {
    __atomic_store_n(slot, LEASE_WORD(a->local_index, off), __ATOMIC_SEQ_CST);
}
/* Bounds-check off and describe the item there (under a lease); DDICT_EPROTO. */
int reader_item(const struct arena_view *a, uint64_t off, struct found *out);

/*
 * Keys of the segment that covers *cursor (0 to begin), as store_keys(): calls fn for each and sets
 * *cursor to the next prefix, 0 at the end. Returns the number of keys, or what fn returned when
 * that was not 0; *cursor then stays. All keys are copied before fn sees the first, so fn may take
 * its time. slot as in reader_find(); it is 0 again afterwards. A key that is present throughout
 * the walk is seen exactly once. -EAGAIN after 64 disturbed tries: ask the manager for this cursor.
 * -ENOMEM.
 */
int reader_keys(const struct arena_view *a, uint64_t *cursor, uint64_t *slot,
                int (*fn)(void *arg, const void *key, uint32_t key_len), void *arg);

#endif
