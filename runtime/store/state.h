/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - the private memory of a store: all of it is rebuilt from the arena (LAYOUT 7). One
 * thread uses all of it; store_populate(), in another thread, touches only `populate` and the
 * header's `populated`.
 */
#ifndef DDICT_STORE_STATE_H
#define DDICT_STORE_STATE_H

#include "layout.h"
#include "spill_worker.h"
#include "store.h"
#include "stress.h"
#include "table.h"
#include <base/error.h>

#include <pthread.h>
#include <stdbool.h>

#define NONE 0u /* no span, no run: numbers begin with 1 */

struct stretch {
    uint64_t from, to;
}; /* pages */

/* A stretch of free pages below heap_top. ref[first] and ref[last] of the pages hold its number. */
struct span {
    uint32_t first, pages;
    uint32_t holes;      /* of its pages: those whose memory was given back */
    uint32_t prev, next; /* in its bin */
};

/* A slab: pages cut into blocks of one class. ref[first] holds its number. */
#define RUN_BLOCKS_MAX 512u
#define RUN_PAGES_MIN  4u /* smaller runs cost more in struct run than they save */
struct run {
    uint64_t idle[RUN_BLOCKS_MAX / 64]; /* bit set: the block is free */
    uint32_t first;
    uint32_t prev, next; /* among the runs of the class with a free block */
    uint16_t blocks, free;
    uint8_t class;
    bool listed;
    bool fenced; /* it is being emptied: no block of it may be taken */
};

#define CLASSES        118u
#define CLASS_SIZE_MAX 32768u /* larger blocks are extents of pages */
struct block_class {
    uint32_t size;
    uint16_t pages, blocks; /* of a run */
    /* 2^32 / (size / 16), rounded up: block number without a division */
    uint32_t inverse;
};

#define BINS_EXACT 64u
#define BINS       (BINS_EXACT + (32 - 6) * 16)

/* The heap is memory and, behind it in offsets and page numbers, the spill file. What is free in
 * one never joins what is free in the other. */
enum zone_name { ZONE_MEMORY, ZONE_SPILL, ZONES };
struct zone {
    uint32_t first, end; /* pages */
    uint64_t *out;       /* in the header: heap_top, spill_top */
    uint64_t *used;      /* in the header: bytes */
    uint32_t bin[BINS];
    uint64_t bin_map[(BINS + 63) / 64];
    uint32_t partial[CLASSES]; /* first run with a free block */
    /* a run of the class that may have free blocks only; it stays for the next put */
    uint32_t empty[CLASSES];
    uint64_t class_free[CLASSES]; /* free blocks */
};
static inline uint64_t zone_top(const struct zone *z) {
    return z->first + *z->out;
}

/* What lies in one part of the memory; all parts have the same size. Compaction chooses by it where
 * to make room. A run counts where its first page is. */
struct region {
    uint64_t small; /* bytes of blocks in runs */
    uint64_t large; /* bytes of extents; REGION_FIXED more for each that is never moved */
    uint32_t run_pages;
    /* the round in which it was emptied, or in which something in it could not be moved */
    uint32_t tried;
    /* the round in which something in it was leased: then not all of it can be emptied */
    uint32_t held;
};
#define REGIONS_MAX      65536u
#define REGION_PAGES_MIN 64u
#define REGION_FIXED     (1ull << 48)

struct heap {
    uint64_t *pagemap;
    struct region *region; /* of the memory */
    unsigned region_shift; /* pages of one, as a power of two */
    uint32_t regions;
    /* pages of both zones; the memory has more than the budget, so that holes can move */
    uint32_t pages;
    /* by page, see span and run; 1 for a marked extent while rebuilding */
    uint32_t *ref;
    struct span *span;
    struct run *run;
    void *tables; /* the mapping of the three arrays above */
    size_t tables_len;
    uint32_t spans_made, spans_idle; /* idle ones are chained by next */
    uint32_t runs_made, runs_idle;
    uint64_t spans_by[48]; /* of the memory: spans of 2^i .. 2^(i+1)-1 bytes */
    uint64_t holes;        /* pages below heap_top whose memory was given back */
    uint64_t free_pages;   /* of the memory, below heap_top, holes included */
    uint64_t freed;        /* bytes of blocks of the memory that were ever freed */
    struct block_class class[CLASSES];
    uint8_t class_of[CLASS_SIZE_MAX / ARENA_GRANULE + 1];
    struct zone zone[ZONES];
};
static inline struct zone *zone_of(struct heap *h, uint64_t page) {
    return &h->zone[page >= h->zone[ZONE_MEMORY].end];
}

/* --- the spill (LAYOUT 11) --- */
struct spill {
    int fd;               /* borrowed; -1: none */
    uint64_t freed;       /* bytes of memory that ever became free */
    uint64_t freed_then;  /* `freed` when memory was full */
    uint64_t tight_bytes; /* memory had no room for so many bytes */
    uint64_t tight_until; /* clock_ns(): until then a put looks only at what is free already */
    uint32_t hand;        /* page of memory at which the next values to be moved begin */
    /* memory may be taken to the last byte: for items of moved values, and for the page map of the
     * spill */
    bool moving;
    bool short_of_memory; /* its page map could not grow */
    struct spill_worker writer, reader;
    struct batch *batch; /* values on their way; NULL: none */
    uint64_t want;       /* bytes of memory that moves are still to make free */
    /* clock_ns() when the disk did something last, or got work after a pause */
    uint64_t since;
    /* counts what somebody may wait for: room made, bytes written or read */
    uint64_t progress;
    struct spill_fill *fills; /* values that are being put there */
    struct store_reading *readings;
    int failed;   /* why nothing is written to it any more; 0: it works */
    int no_space; /* why the file could not grow the last time; 0: it could */
    uint64_t no_space_need, bad_reads;
    struct table shared; /* block there -> how many items have it, less one */
    /* clock_ns() until which nothing is tried, since nothing could be moved; `freed` then */
    uint64_t gave_up_until, gave_up_freed;
    char trouble[DD_ERRMSG_MAX]; /* for store_spill_trouble(); "": none */
};

/* Moving items so that free memory comes together (LAYOUT 13). */
#define COMPACT_DONE 64u
#define COMPACT_BEST 32u
struct compact {
    struct stretch window; /* pages that are being emptied */
    bool open;             /* there is such a window */
    bool in_a_row;         /* all its pages are wanted in a row; else those of its runs, anywhere */
    bool busy;             /* blocks that are taken are for items that move */
    uint64_t at;           /* the page of it that is next */
    unsigned block;        /* and the block of the run there */
    uint32_t spend;        /* pages that may be taken for new runs */
    uint32_t round;
    /* the regions with most to gain at the last look, the best one last */
    uint32_t best[COMPACT_BEST];
    unsigned best_n;
    uint64_t round_began, round_seen; /* clock_ns() when it began; when it did something last */
    bool over;                        /* no window was left, or nobody waits any more */
    bool gained;                      /* a request found room in this round */
    uint64_t round_freed;  /* heap.freed less moved_blocks when it began: what others freed */
    uint64_t moved_blocks; /* bytes of blocks that items were moved out of */
    bool idle;             /* the last turn's time was idle */
    /* fenced windows whose items have moved, and whose old blocks wait for a scan */
    struct stretch done[COMPACT_DONE];
    unsigned done_n;
    uint64_t done_moved; /* moved_bytes at the last scan */
    uint64_t done_pages; /* pages that the next scan frees, but for what is read */
    uint64_t left_ns;    /* time of this turn that is left for moving */
    uint64_t wanted;     /* pages that a request waits for, or waited for last */
    /* so many pages cannot be made until gave_up_end, or until something was freed */
    uint64_t gave_up_end, gave_up_freed, gave_up_pages;
    uint64_t moved_bytes;
    /* memory of free pages is being given back for the request at hand, and its turn is over */
    bool punching;
    uint64_t punched; /* bytes that were ever given back so */
    /* closing: `done` waits for its scan; looking: a round waits for its look at what is read */
    bool closing, looking;
    /* numbers of these two scans */
    uint64_t scan, look;
    /* bytes scattered when no window was left; clock_ns() until which that counts */
    uint64_t stuck_bytes, stuck_end;
};

enum segment_state {
    SEGMENT_FREE,
    SEGMENT_LIVE,
    SEGMENT_SWEEP,
    SEGMENT_HOLE /* free, and its memory was given back */
};
struct index {
    uint64_t *dir;
    uint8_t *state; /* enum segment_state by segment number */
    uint64_t segments_max;
    uint64_t idle, idle_hint; /* free segments; none below the hint */
    uint64_t holes;
    uint64_t sweeps, sweep_hint;
};

struct lease_page {
    uint64_t id;
    const void *map; /* the caller's */
    uint32_t pid;
    uint32_t front;   /* number of its place in `fronts` */
    uint64_t held;    /* retired bytes that it held at the last scan */
    uint64_t *hinted; /* [hinted_n], by chunk: how many hints were looked at */
    size_t hinted_n;
};

#define FRONTS 512u /* of one stretch: a page of page table */
struct leases {
    struct lease_page *page;
    /* [pages]: the first chunk of each, as far as its slots */
    const struct lease_chunk **front;
    size_t pages, pages_cap;
    uint8_t **fronts; /* [fronts_n]: address space for FRONTS of these */
    size_t fronts_n;
    uint32_t *front_idle; /* [front_idle_n]: places for more */
    size_t front_idle_n;
    struct table held;    /* block -> lease page + 1, of the last scan */
    struct table pins;    /* block -> count */
    struct table transit; /* blocks for values of other managers; value unused */
    uint64_t transit_bytes;
    uint64_t *retired; /* offsets of blocks */
    size_t retired_n, retired_cap;
    uint64_t retired_bytes;
    uint64_t fresh_bytes; /* retired or unpinned since the last scan */
    size_t kept;          /* retired_n after the last scan */
    /* the cost of the last scan, as bytes that may be retired in addition before the next */
    uint64_t looked;
    uint64_t leased_bytes; /* of retired_bytes at the last scan */
    bool holders;          /* some lease_page.held is not 0 */
    /* a holder went away, or a request waits for blocks that may be free: scan soon */
    bool again;
    /* the next scan is wanted though nothing is retired: it shall tell which blocks are leased */
    bool look;
    uint64_t begun, done; /* numbers of the scan that began last, and of the one that ended last */
    /* of the request at hand: number of the scan that it waits for, 0: of none yet; NULL: the
     * request cannot wait */
    uint64_t *wait;
    /* the scan under way is given up if it finds more than DD_SCAN_LEASES */
    bool few;
    /* the request at hand gets a large scan at once: of a caller that has no turns, or a clear,
     * which is never refused */
    bool whole;
    bool later; /* a large scan is wanted: store_work() begins it */
    /* A large scan, in parts: first it notes all leases, then it frees or keeps what was retired
     * before it. */
    struct scan {
        bool on, closing; /* closing: blocks retired since join those that are kept */
        struct table held;
        size_t wiped;       /* how many keys of an earlier scan are wiped from it */
        size_t page, chunk; /* the next to be looked at */
        /* of `retired`: n were there before the scan; [kept, at) are free again */
        size_t n, at, kept;
        uint64_t leased_bytes;
    } scan;
};

/* The clock of the node cache. An entry is the offset of an item, and its bit CACHE_READ; or
 * CACHE_HOLE and the number of the next hole. */
#define CACHE_READ    1u
#define CACHE_HOLE    2u
#define CACHE_NO_HOLE UINT32_MAX
struct cache {
    uint64_t *entry;
    size_t made, cap, hand;
    uint32_t hole;   /* first one, or CACHE_NO_HOLE */
    struct table at; /* offset -> entry */
    /* of store_cache_shrink() */
    enum { CACHE_LOOK, CACHE_HINTS, CACHE_EVICT, CACHE_SCAN } stage;
    uint64_t scan;      /* number of the scan that it waits for */
    uint64_t want;      /* bytes that are still to be evicted */
    size_t looks;       /* entries that the hand has passed for these */
    size_t page, chunk; /* the next hints to be looked at */
};

/*
 * Shared with the thread that populates, which may run at the lowest priority: so nothing here
 * makes a put wait for it. The figures are atomic and may be a moment old on either side. That does
 * no harm: heap pages are not counted twice, and in that moment the index does not grow by the
 * sixteenth that is spared.
 */
struct populate {
    pthread_mutex_t busy; /* held while pages are being populated, or given back */
    /* heap bytes that count as taken; raised under `busy` before a step, and the header's
     * `populated` after it */
    uint64_t claimed;
    uint64_t heap_top; /* bytes; the writer's copy, as index_bytes */
    /* heap bytes whose page map was taken: it stays when their memory goes to the index */
    uint64_t mapped;
    uint64_t index_bytes;
    uint64_t bytes, ns; /* populated so far, and what it took */
    uint64_t at, to;    /* heap bytes of the step under way */
    /* under `busy`: the kernel cannot populate, or the memory is wanted elsewhere */
    bool stuck;
};
static inline uint64_t figure_get(const uint64_t *at) {
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}
static inline void figure_set(uint64_t *at, uint64_t v) {
    __atomic_store_n(at, v, __ATOMIC_RELAXED);
}

/* Bytes of a page of the pool from which the arena's memory comes; 0: there is no pool. */
static inline uint64_t huge_page(const struct arena_header *h) {
    return h->page_shift > ARENA_PAGES_ADVISED ? 1ull << h->page_shift : 0;
}

struct store {
    int fd; /* the caller's */
    uint8_t *map;
    uint64_t map_len;
    struct arena_header *header;
    unsigned local_index;
    /* recording: the next change of the index is a request's (I24). happened: so did the recorded one
     * of an earlier life */
    bool recording, happened;
    bool settled; /* the heap is rebuilt; false after opening an arena that was in use */
    /* bytes that may be touched before the memory limits are looked at again */
    uint64_t granted;
    struct heap heap;
    struct spill spill;
    struct compact compact;
    struct index index;
    struct leases leases;
    struct cache cache;
    struct queue_drop *drops; /* deleted queues whose values are still to be freed */
    struct populate populate;
    bool (*may_give_back)(void *arg, uint64_t off, uint64_t len); /* store_watch_memory() */
    void *may_arg;
};

static inline void *arena_at(struct store *s, uint64_t off) {
    return s->map + off;
}
/* Store a word that readers, or a later writer, see. In program order: a process that is killed
 * between two stores has made the first. */
static inline void word_store(uint64_t *at, uint64_t v) {
    __atomic_store_n(at, v, __ATOMIC_RELEASE);
}
static inline uint64_t round_up(uint64_t n, uint64_t to) {
    return (n + to - 1) & ~(to - 1);
}

#endif
