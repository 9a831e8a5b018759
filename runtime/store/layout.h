/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - the bytes of an arena and of a lease page. The rules are in LAYOUT (invariants I1 to
 * I23). */
#ifndef DDICT_STORE_LAYOUT_H
#define DDICT_STORE_LAYOUT_H

#include <base/defaults.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_MAGIC 0x3152415443494444ull /* "DDICTAR1" in memory */

#define ARENA_PAGE      (1u << DD_PAGE_SHIFT)
#define ARENA_HUGE_PAGE (2ull << 20)
#define ARENA_GRANULE   (1u << DD_GRANULE_SHIFT)

/* --- header --- */
#define ARENA_PAGES_PLAIN   0u /* the machine's small ones */
#define ARENA_PAGES_ADVISED 1u /* the same, and the kernel is asked for huge ones */
struct intent {                /* I16: of a pop with a next value */
    uint64_t place, new_word;  /* the slot of the key, and the word that it gets */
    /* the slot of the next value, which becomes EMPTY, and the word in it */
    uint64_t hidden_place, hidden_word;
    uint64_t hidden_hash, hidden_version; /* of its item, if the pop did not happen */
    uint64_t open;                        /* 1: under way; stored last (release) */
};

enum operation_kind { OPERATION_NONE, OPERATION_WORD, OPERATION_CLEAR };
struct operation { /* I24: the change of the request that is being carried out */
    uint32_t kind; /* enum operation_kind; stored last (release), and NONE first */
    uint32_t room;
    uint64_t client, at, id; /* whose, and which of its requests */
    uint64_t place, word;    /* the slot and its new word; CLEAR: word is the old generation */
    uint64_t item;           /* offset of what is taken out; 0: nothing */
    uint64_t before;         /* where its answers ended before */
};

struct arena_header {
    uint64_t magic;
    uint32_t layout_version;
    uint32_t header_size;
    uint64_t file_size;  /* of the memfd, sparse */
    uint64_t budget;     /* bytes of memory this manager may use */
    uint32_t manager_id; /* in the whole dictionary */
    uint32_t managers;   /* of the whole dictionary */
    uint8_t dict_id[16];
    uint64_t pagemap_off, pagemap_len;
    uint64_t dir_off, dir_len;
    uint64_t seg_off, seg_len;
    uint64_t heap_off, heap_len;
    /* the offsets from file_size on that are another file (LAYOUT 11); 0: none */
    uint64_t spill_len;

    uint64_t root __attribute__((aligned(64))); /* generation << 32 | depth */
    /* FREEZE_MAKE(epoch, enum freeze_state); LAYOUT 9 */
    uint64_t freeze;
    /* 1: the manager is in epoll_wait and wants an eventfd written; PROTOCOL 3 */
    uint32_t sleeping __attribute__((aligned(64)));
    /* turns that the manager has spun after work, when it went to sleep last; for tests */
    uint32_t spun;
    /* 1: each scan begins with a membarrier, readers may go without a fence (I5) */
    uint32_t barriers;
    /* what the memory is made of: ARENA_PAGES_PLAIN, _ADVISED, or a pool's pages of
     * 2^page_shift bytes, such as 21 */
    uint32_t page_shift;
    /* pool only: bytes that the heap may take; the index has the others (LAYOUT 10) */
    uint64_t heap_limit;
    uint64_t num_keys __attribute__((aligned(64)));
    uint64_t used_bytes;
    uint64_t version;   /* last version given */
    uint64_t populated; /* heap bytes from heap_off that are populated */
    uint64_t segments;  /* handed out so far */
    uint64_t heap_top;  /* pages below it were handed out at least once: the watermark */
    /* in the index and not in num_keys: values of other managers (I17) */
    uint64_t cached_items;
    uint64_t cached_bytes;  /* their blocks */
    uint64_t spill_top;     /* pages of the spill that were handed out at least once */
    uint64_t spill_ready;   /* bytes from its beginning that the file system has promised */
    uint64_t spill_used;    /* bytes of blocks there */
    uint64_t spill_items;   /* blocks there */
    uint64_t spilled_bytes; /* bytes of blocks that were ever taken there */
    /* at least so many hidden words are in the index; 0: there are none (LAYOUT 12) */
    uint64_t hidden;
    uint64_t hidden_keys; /* keys that are not listed (hidden_key.h); not in num_keys */
    struct intent intent __attribute__((aligned(64)));
    struct operation op __attribute__((aligned(64)));
};
_Static_assert(sizeof(struct arena_header) <= ARENA_PAGE, "the header is one page");
_Static_assert(sizeof(struct intent) == 56, "layout version must change with the intent");
_Static_assert(sizeof(struct operation) == 64, "layout version must change with the operation");

/* --- frozen (LAYOUT 9) --- */
enum freeze_state {
    FREEZE_OPEN = 0 /* writes */,
    FREEZE_CLOSED = 1 /* neither writes nor caching */,
    FREEZE_FROZEN = 2 /* caching */,
    FREEZE_RESTORING = 3 /* nobody but a restore writes; no caching */
};
#define FREEZE_MAKE(epoch, state) ((uint64_t)(epoch) << 2 | (uint64_t)(state))
#define FREEZE_STATE(w)           ((unsigned)((w)&3))
#define FREEZE_EPOCH(w)           ((w) >> 2)

/* --- page map --- */
enum page_kind {
    PAGE_FREE = 0,
    PAGE_SLAB_HEAD = 1,
    PAGE_SLAB = 2,
    PAGE_LARGE_HEAD = 3,
    PAGE_LARGE = 4
};
#define PAGEMAP_ENTRY(kind, cls, value) \
    ((uint64_t)(kind) << 56 | (uint64_t)(cls) << 48 | (uint64_t)(value))
#define PAGEMAP_KIND(e)  ((unsigned)((e) >> 56))
#define PAGEMAP_CLASS(e) ((unsigned)((e) >> 48 & 0xff))
#define PAGEMAP_VALUE(e) ((e)&0xffffffffffffull)
/* a free page whose memory was given back */
#define PAGEMAP_HOLE PAGEMAP_ENTRY(PAGE_FREE, 0, 1)

/* --- index --- */
#define WORD_EMPTY        0ull
#define WORD_MOVED        1ull
#define WORD_OFFSET_BITS  44
#define WORD_HIDDEN       (1ull << 43) /* only the manager follows it (LAYOUT 12) */
#define WORD_DOT          (1ull << 42) /* of a hidden key (hidden_key.h) */
#define WORD_PLACE_BITS   40           /* of the offset; the four above are HIDDEN, DOT and 0 */
#define WORD_OFFSET_MASK  ((1ull << WORD_PLACE_BITS) - 1)
#define WORD_OFFSET(w)    (((w)&WORD_OFFSET_MASK) << DD_GRANULE_SHIFT)
#define WORD_TAG(w)       ((w) >> WORD_OFFSET_BITS)
#define WORD_LIVE(w)      ((w) > WORD_MOVED)
#define HASH_TAG(h)       ((h) >> 16 & 0xfffff)
#define WORD_MAKE(h, off) (HASH_TAG(h) << WORD_OFFSET_BITS | (off) >> DD_GRANULE_SHIFT)
/* the same word, for its item at another offset */
#define WORD_MOVE(w, off)   (((w) & ~WORD_OFFSET_MASK) | (off) >> DD_GRANULE_SHIFT)
#define SEGMENT_BUCKETS     255u
#define BUCKET_SLOTS        7u
#define HASH_BUCKET(h)      ((unsigned)((((h)&0xffff) * SEGMENT_BUCKETS) >> 16))
#define DIR_INDEX(h, depth) (((h) >> 1) >> (63 - (depth))) /* right for depth 0 too */
/* number of the word in the region: 2^depth + index */
#define DIR_WORD(h, depth)           (((h) >> 1 | 1ull << 63) >> (63 - (depth)))
#define DIR_DEPTH_MAX                28u /* the directory uses the bits above the tag */
#define ROOT_MAKE(generation, depth) ((uint64_t)(generation) << 32 | (depth))
#define ROOT_GENERATION(root)        ((uint32_t)((root) >> 32))
#define ROOT_DEPTH(root)             ((uint32_t)(root))

/* The first hash behind those of a segment; 0: it is the last segment. */
static inline uint64_t segment_next(uint64_t prefix, uint32_t depth) {
    return depth ? (prefix + 1) << (64 - depth) : 0;
}

struct bucket {
    uint64_t reach;
    uint64_t slot[BUCKET_SLOTS];
} __attribute__((aligned(64)));
struct segment {
    uint64_t moves;   /* odd while a split moves words out (I9) */
    uint64_t sibling; /* offset of the segment that takes them; 0 none */
    uint64_t prefix;  /* the top `depth` bits of every hash in it, as a number */
    uint32_t depth;   /* local depth */
    uint32_t live;    /* words live; the writer's */
    uint8_t room[32];
    struct bucket bucket[SEGMENT_BUCKETS];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct segment) == DD_SEGMENT_SIZE, "a segment is 16 KiB");

/* --- items --- */
struct item {
    uint64_t version;
    uint64_t hash;
    uint64_t val_len;
    uint32_t key_len; /* 1..65536 */
    uint8_t tag;      /* the user's (DDICT_TAG) */
    uint8_t pad;      /* bytes between key and value; ITEM_LOADED, ITEM_LINK */
    uint16_t check;
    uint8_t key[];
};
_Static_assert(sizeof(struct item) == 32, "layout version must change with the item");
#define ITEM_PAD    63u  /* of pad: these bytes */
#define ITEM_LOADED 128u /* in pad: it is sealed, as it can be read again (PROTOCOL 13) */
/* in pad: the value names the place of another one (PROTOCOL 2), and begins with that one's length */
#define ITEM_LINK   64u
#define ITEM_CACHED (1ull << 63) /* in version: of another manager (I17) */
#define ITEM_QUEUE  (1ull << 62) /* the record of a queue (LAYOUT 12) */
/* a value behind the first of its key; the rest of version is its number */
#define ITEM_QUEUED (1ull << 61)

/* --- queues (LAYOUT 12) --- */
struct queue_record { /* the value of a record's item */
    uint64_t most;    /* values that the key may have; 0: any number */
    /* the values from drop to head are deleted and their blocks still to be freed */
    uint64_t drop;
    uint64_t head, tail; /* numbers of the values behind the first: head .. tail - 1 */
};
/* Hashes of a key's record and of its value number n. The upper 16 bits of their tags differ from
 * the key's tag: readers of the key never follow their words. */
#define QUEUE_RECORD_HASH(h) ((h) ^ 1ull << 25)
static inline uint64_t queue_value_hash(uint64_t h, uint64_t n) {
    const uint64_t low = (1ull << 24) - 1, mask = UINT64_MAX >> 1;
    /* all but bit 24, and then a permutation of these: no two numbers have the same hash */
    uint64_t x = (h & low) | (h >> 25 << 24);
    x = ((x + n) * 0x9e3779b97f4a7c15ull) & mask;
    x ^= x >> 32;
    x = x * 0xd6e8feb86659fd93ull & mask;
    x ^= x >> 29;
    return (x & low) | (~h & 1ull << 24) | x >> 24 << 25;
}

/*
 * An item whose value is in the spill (LAYOUT 11): val_len has the bit ITEM_AWAY, so that code that
 * does not know this bit finds no room for such a value. Where the value would be, this stands.
 */
#define ITEM_AWAY (1ull << 63)
struct item_away {
    /* of the block with the value's bytes, from the start of the arena; the file begins at
     * file_size */
    uint64_t off;
    /* XXH3 64 of each DD_SPILL_CHUNK bytes of the value; of the last one, of what is left */
    uint64_t sum[];
};
static inline uint64_t item_len(const struct item *i) {
    return i->val_len & ~ITEM_AWAY;
}
static inline uint64_t away_sums(uint64_t val_len) {
    return (val_len + DD_SPILL_CHUNK - 1) / DD_SPILL_CHUNK;
}
static inline uint64_t away_bytes(uint64_t val_len) {
    return sizeof(struct item_away) + away_sums(val_len) * sizeof(uint64_t);
}

/* The fold that `check` must hold: each bit of the other fields counts, and it is not 0 for a block
 * of zeros. */
static inline uint16_t item_check(const struct item *i) {
    uint64_t tail; /* key_len, tag, pad, and check, which is shifted out */
    __builtin_memcpy(&tail, &i->key_len, sizeof tail);
    uint64_t x = i->hash ^ (i->version << 21 | i->version >> 43) ^
                 (i->val_len << 7 | i->val_len >> 57) ^ tail << 16;
    return (uint16_t)((~x * 0x9e3779b97f4a7c15ull) >> 48);
}

static inline uint64_t item_pad(const struct item *i) {
    return i->pad & ITEM_PAD;
}
static inline bool item_is_loaded(const struct item *i) {
    return i->pad & ITEM_LOADED;
}
static inline bool item_is_link(const struct item *i) {
    return i->pad & ITEM_LINK;
}

/* Offset of the value from the start of an item at arena offset off. */
static inline uint64_t item_value_at(uint64_t off, uint64_t key_len, uint64_t val_len) {
    uint64_t align = val_len >= DD_VALUE_ALIGN_MIN ? 64 : 16;
    uint64_t end = off + sizeof(struct item) + key_len;
    return ((end + align - 1) & ~(align - 1)) - off;
}

/* The value of an item; key_len is its. */
static inline const void *item_value_behind(const struct item *i, uint64_t key_len) {
    return (const uint8_t *)i + (sizeof *i + key_len) + item_pad(i);
}
static inline const void *item_value(const struct item *i) {
    return item_value_behind(i, i->key_len);
}
/* The length of the value that a reader gets. */
static inline uint64_t item_read_len(const struct item *i) {
    uint64_t len = item_len(i);
    if (item_is_link(i) && len >= sizeof len && !(i->val_len & ITEM_AWAY))
        __builtin_memcpy(&len, item_value(i), sizeof len);
    return len;
}
/* NULL: the value is behind the key. */
static inline const struct item_away *item_away(const struct item *i) {
    return i->val_len & ITEM_AWAY ? item_value(i) : NULL;
}
/* Bytes that an item takes in its block: header, key and what is behind it. */
static inline uint64_t item_bytes(const struct item *i) {
    return sizeof *i + i->key_len + item_pad(i) +
           (i->val_len & ITEM_AWAY ? away_bytes(item_len(i)) : i->val_len);
}

/* --- leases --- */
#define LEASE_SLOT_WORDS       512u /* of the slots and what stands before them: a page */
#define LEASE_CHUNK_SIZE       16384u
#define LEASE_FILE_SIZE        ((uint64_t)LEASE_CHUNK_SIZE * DD_LEASE_CHUNKS)
#define LEASE_WORD(arena, off) ((uint64_t)(arena) << 48 | (off))
#define LEASE_ARENA(w)         ((unsigned)((w) >> 48))
#define LEASE_OFFSET(w)        ((w) & (((1ull << WORD_OFFSET_BITS) - 1) << DD_GRANULE_SHIFT))
/* cached: how many of the gets were of cached items */
struct lease_counters {
    uint64_t gets, misses, bytes, cached;
};
#define LEASE_HINTS 256u
struct lease_chunk {
    uint32_t chunks; /* first chunk only: chunks in use; only grows; untrusted */
    /* so many slots at the end never had a lease; the scan passes over them. A multiple of 8; it
     * only shrinks; untrusted */
    uint32_t idle;
    uint64_t slot[DD_LEASE_CHUNK_SLOTS]; /* the first of them in the same cache line */
    struct lease_counters counters[DD_LOCAL_MANAGERS_MAX]; /* by local arena index */
    /* how many hints were ever written here */
    uint64_t hints;
    /* a ring of words as in slot: cached items that were read lately; untrusted */
    uint64_t hint[LEASE_HINTS];
    uint8_t room[2040];
};
_Static_assert(sizeof(struct lease_chunk) == LEASE_CHUNK_SIZE,
               "layout version must change with the chunk");

#endif
