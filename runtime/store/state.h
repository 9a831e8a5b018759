/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - the private memory of a store: everything here is rebuilt from the arena (LAYOUT 7). One thread uses all of
 * it; store_populate(), in another, touches only `populate` and the header's `populated`.
 */
#ifndef DDICT_STORE_STATE_H
#define DDICT_STORE_STATE_H

#include <base/error.h>
#include <store/layout.h>
#include <store/store.h>
#include <store/stress.h>
#include <store/table.h>

#include <pthread.h>
#include <stdbool.h>

#define NONE 0u /* no span, no run: numbers begin with 1 */

struct stretch {
    uint64_t from, to;
}; /* pages */

/* A stretch of free pages below heap_top. ref[first] and ref[last] of the pages hold its number. */
struct span {
    uint32_t first, pages;
    uint32_t holes;      /* pages of it whose memory was given back */
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
    bool fenced; /* it is being emptied: no block of it is given to anybody */
};

#define CLASSES        118u
#define CLASS_SIZE_MAX 32768u /* larger blocks are extents of pages */
struct block_class {
    uint32_t size;
    uint16_t pages, blocks; /* of a run */
    uint32_t inverse;       /* 2^32 / (size / 16), rounded up: block number without a division */
};

#define BINS_EXACT 64u
#define BINS       (BINS_EXACT + (32 - 6) * 16)

/* The heap is memory and, behind it in offsets and page numbers, the spill file. What is free in one never joins what is free in the other. */
enum zone_name { ZONE_MEMORY, ZONE_SPILL, ZONES };
struct zone {
    uint32_t first, end; /* pages */
    uint64_t *out;       /* in the header: heap_top, spill_top */
    uint64_t *used;      /* in the header: bytes */
    uint32_t bin[BINS];
    uint64_t bin_map[(BINS + 63) / 64];
    uint32_t partial[CLASSES];    /* first run with a free block */
    uint64_t class_free[CLASSES]; /* free blocks */
};
static inline uint64_t zone_top(const struct zone *z) {
    return z->first + *z->out;
}

/* What lies in a part of the memory, all parts of the same size: where to make room is chosen by it. A run counts where its first page is. */
struct region {
    uint64_t small; /* bytes of blocks in runs */
    uint64_t large; /* bytes of extents; REGION_FIXED more for each that is never moved */
    uint32_t run_pages;
    uint32_t tried; /* the round in which it was emptied, or was found not to let itself be */
};
#define REGIONS_MAX      65536u
#define REGION_PAGES_MIN 64u
#define REGION_FIXED     (1ull << 48)

struct heap {
    uint64_t *pagemap;
    struct region *region; /* of the memory */
    unsigned region_shift; /* pages of one, as a power of two */
    uint32_t regions;
    uint32_t
        pages; /* of both zones; the memory's are more than the budget, so that holes can move */
    uint32_t *ref; /* by page, see span and run; 1 for a marked extent while rebuilding */
    struct span *span;
    struct run *run;
    void *tables; /* the mapping of the three arrays above */
    size_t tables_len;
    uint32_t spans_made, spans_idle; /* idle ones are chained by next */
    uint32_t runs_made, runs_idle;
    uint64_t holes;      /* pages below heap_top whose memory was given back */
    uint64_t free_pages; /* of the memory, below heap_top, holes included */
    uint64_t freed;      /* bytes of blocks of the memory that were ever freed */
    struct block_class class[CLASSES];
    uint8_t class_of[CLASS_SIZE_MAX / ARENA_GRANULE + 1];
    struct zone zone[ZONES];
};
static inline struct zone *zone_of(struct heap *h, uint64_t page) {
    return &h->zone[page >= h->zone[ZONE_MEMORY].end];
}

/* The file behind the memory (LAYOUT 11). */
struct
    spill_job { /* what a thread of the spill does in our place; without threads it is done at once */
    struct spill_job *next;
    void (*run)(struct spill_job *j); /* sets rc */
    int rc;
    bool busy, done; /* done: atomic, set by the thread as the last */
};
struct spill_worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t come;
    struct spill_job *first, **end;
    bool runs, stop;
    int wake_fd;
};
struct spill {
    int fd;               /* borrowed; -1: none */
    uint64_t freed;       /* bytes of memory that became free, ever */
    uint64_t freed_then;  /* when memory was full */
    uint64_t tight_bytes; /* memory had no room for so many */
    uint64_t tight_until; /* clock_ns(): until then only what is free already is looked at */
    uint32_t hand;        /* page of memory where the next values to be moved lie */
    bool
        moving; /* memory may be taken to the last byte: to move values, and for the page map of where they go */
    bool short_of_memory; /* its page map could not grow */
    struct spill_worker writer, reader;
    struct batch *batch; /* values on their way; NULL: none */
    uint64_t want;       /* bytes of memory that are still to become free */
    uint64_t since; /* clock_ns() when the disk did something last, or was asked to after a pause */
    uint64_t progress; /* counts what somebody may wait for: room made, bytes written or read */
    struct spill_fill *fills; /* values that are being put there */
    struct store_reading *readings;
    int failed;   /* it is used no more: this was why */
    int no_space; /* the last time it should grow it could not; 0: it could */
    uint64_t no_space_need, bad_reads;
    struct table shared; /* blocks there that several items have: how many more than one */
    uint64_t vain_until, vain_freed; /* clock_ns(): nothing could be moved; what freed was then */
    char trouble[DD_ERRMSG_MAX];     /* sentence for who asks next; "" none */
};

/* Moving items so that free memory comes together (LAYOUT 13). */
struct compact {
    struct stretch window; /* pages that are being emptied */
    bool open;             /* there is such a window */
    bool in_a_row;         /* all of it is wanted; else only what runs of it have free */
    bool busy;             /* blocks that are taken are for items that move */
    uint64_t at;           /* page of it that is next */
    unsigned block;        /* and block of its run */
    uint32_t spend;        /* pages that may be taken for new runs */
    uint32_t round;
    uint64_t round_end; /* clock_ns(): then what was tried may be tried again */
    uint64_t left_ns;   /* of this turn */
    uint64_t wanted;    /* pages that somebody waits for, or did last */
    uint64_t vain_end, vain_freed,
        vain_pages; /* until then, or until something was freed, so many pages are not to be had */
    uint64_t moved_bytes;
};

enum segment_state { SEGMENT_FREE, SEGMENT_LIVE, SEGMENT_SWEEP };
struct index {
    uint64_t *dir;
    uint8_t *state; /* enum segment_state by segment number */
    uint64_t segments_max;
    uint64_t idle, idle_hint; /* free segments; none below the hint */
    uint64_t sweeps, sweep_hint;
};

struct lease_page {
    uint64_t id;
    const void *map; /* the caller's */
    uint32_t pid;
    uint64_t held;    /* retired bytes it held at the last scan */
    uint64_t *hinted; /* [hinted_n], by chunk: hints that were looked at */
    size_t hinted_n;
};

struct leases {
    struct lease_page *page;
    size_t pages, pages_cap;
    struct table held;    /* block -> lease page + 1, of the last scan */
    struct table pins;    /* block -> count */
    struct table transit; /* blocks for values of other managers; value unused */
    uint64_t transit_bytes;
    uint64_t *retired; /* offsets of blocks */
    size_t retired_n, retired_cap;
    uint64_t retired_bytes;
    uint64_t fresh_bytes; /* retired, or let go of, since the last scan */
    size_t kept;          /* of retired after the last scan */
    uint64_t
        looked; /* what the last scan cost, in bytes that more may be retired before the next */
    uint64_t leased_bytes; /* of retired_bytes at the last scan */
    bool again;            /* a holder went away: scan soon */
    bool later;            /* a large scan is wanted: store_work() begins it */
    struct
        scan { /* a large scan, some at a time: first all leases are noted, then what was retired before it is freed or kept */
        bool on;
        struct table held;
        size_t page, chunk; /* that are looked at next */
        size_t n, at,
            kept; /* of retired: those of before, [kept, at) of them are not there any more */
        uint64_t leased_bytes;
    } scan;
};

/* The clock of the node cache. An entry is the offset of an item, with CACHE_READ its bit; or CACHE_HOLE and the next hole. */
#define CACHE_READ    1u
#define CACHE_HOLE    2u
#define CACHE_NO_HOLE UINT32_MAX
struct cache {
    uint64_t *entry;
    size_t made, cap, hand;
    uint32_t hole;   /* first one, or CACHE_NO_HOLE */
    struct table at; /* offset -> entry */
};

/*
 * Shared with the thread that populates, which may run at the lowest priority: so nothing here makes a put wait for it. The figures are atomic and may
 * be a moment old on either side: heap pages are not counted twice, and the index does not grow by the sixteenth that is spared in that moment.
 */
struct populate {
    pthread_mutex_t busy; /* held while pages are being populated, or given back */
    uint64_t
        claimed; /* heap bytes that count as taken; raised under busy before a step, header->populated after it */
    uint64_t heap_top; /* bytes; the writer's copies */
    uint64_t index_bytes;
    uint64_t bytes, ns; /* populated so far, and what it took */
    bool stuck; /* under busy: the kernel cannot populate, or the memory is wanted elsewhere */
};
static inline uint64_t figure_get(const uint64_t *at) {
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}
static inline void figure_set(uint64_t *at, uint64_t v) {
    __atomic_store_n(at, v, __ATOMIC_RELAXED);
}

/* Bytes of a page of the pool that the arena's memory comes from; 0: of none. */
static inline uint64_t huge_page(const struct arena_header *h) {
    return h->page_shift > ARENA_PAGES_ADVISED ? 1ull << h->page_shift : 0;
}

struct store {
    int fd; /* the caller's */
    uint8_t *map;
    uint64_t map_len;
    struct arena_header *header;
    unsigned local_index;
    bool settled;     /* the heap is rebuilt; false after opening an arena that was in use */
    uint64_t granted; /* bytes that may be touched before the memory limits are looked at again */
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
/* A word that readers or a later writer see. In program order: a process killed between two stores has made the first. */
static inline void word_store(uint64_t *at, uint64_t v) {
    __atomic_store_n(at, v, __ATOMIC_RELEASE);
}
static inline uint64_t round_up(uint64_t n, uint64_t to) {
    return (n + to - 1) & ~(to - 1);
}

/* budget.c: what the arena has taken of the machine's memory */
uint64_t budget_fixed(
    struct store *s); /* header, page map and directories as far as they are used, segments */
uint64_t budget_resident(struct store *s);
uint64_t budget_spill_map(
    const struct store *s,
    uint64_t pages); /* memory of the page map of so many pages of the spill */
enum taker {
    FOR_VALUES,
    FOR_INDEX,
    FOR_MOVES
}; /* where there is a spill, the first two leave something to those behind them (LAYOUT 11) */
/* Make sure that fresh more bytes may be touched. punch: free pages may be given back for it, all but keep. DDICT_EFULL. */
int budget_take(struct store *s, uint64_t fresh, enum taker who, bool punch, struct stretch keep);
uint64_t budget_spare(const struct store *s); /* what values leave */
void budget_publish(struct store *s);         /* after heap_top, segments or directory grew */

/* pool.c: an arena whose memory comes from a pool of huge pages (LAYOUT 10) */
/* Memory for the heap up to page end, and for the index when it takes the bytes from at to at + len: 0 or DDICT_EFULL. Without a pool nothing. */
bool pool_owned(const struct arena_header *h,
                uint64_t at); /* is any of the huge page at `at` the index's, as it is now? */
int pool_heap(struct store *s, uint64_t end);
int pool_index(struct store *s, uint64_t at, uint64_t len);

/* hugepool.c: bytes from `at` on that the kernel put into huge pages without a pool */
uint64_t huge_mapped(const void *at, uint64_t len);

/* pages.c: stretches of pages */
int pages_open(struct store *s);
void pages_close(struct store *s);
/* First page of n that are free, out of the books but not yet in the page map; 0 or DDICT_EFULL. idle: no new memory, and no sentence. */
int pages_take(struct store *s, struct zone *z, uint64_t n, bool punch, uint32_t *first);
int pages_take_idle(struct store *s, struct zone *z, uint64_t n, uint32_t *first);
/* As pages_take() in memory, but none of `not`. No sentence. */
int pages_take_beside(struct store *s, uint64_t n, struct stretch not, uint32_t *first);
uint64_t pages_available(struct store *s); /* of memory, in a row or not */
bool pages_may_punch(struct store *s);
void pages_give(struct store *s, uint32_t first,
                uint64_t n); /* page map entries are FREE already */
void pages_mark(struct store *s, uint32_t first, uint64_t n, enum page_kind head, unsigned cls);
void pages_unmark(struct store *s, uint32_t first, uint64_t n);
bool pages_lower(
    struct store *
        s); /* take what is free at the top of the heap below its watermark again; true: it was something */
uint64_t pages_punch(struct store *s, uint64_t bytes,
                     struct stretch keep); /* bytes of memory given back */
void pages_rebuild_spans(struct store *s);
void pages_histogram(struct store *s, uint64_t *out);

/* heap.c: blocks */
void heap_classes(struct heap *h);
int block_alloc(struct store *s, uint64_t size, bool aligned,
                uint64_t *off); /* in memory; DDICT_EFULL */
int block_alloc_any(struct store *s, uint64_t size, bool aligned,
                    uint64_t *off); /* in the spill, where there is one and memory is full */
int block_alloc_moving(struct store *s, uint64_t size,
                       uint64_t *off); /* in memory, without making room for it */
int block_alloc_spill(struct store *s, uint64_t size, bool aligned, uint64_t *off);
void block_free(struct store *s, uint64_t off);
uint64_t block_bytes(struct store *s, uint64_t off);
uint64_t block_of(
    struct store *s,
    uint64_t off); /* the block that holds any offset; 0: none. Does not trust off (I15) */
/*
 * Make room the hard way, a step at a time, between tries; false when there is no further step. Step 0 sweeps and scans; from step 1 on
 * the caller's try may punch.
 */
bool heap_relieve(struct store *s, int step);
uint32_t run_make(struct store *s, uint32_t first,
                  unsigned cls); /* private part of a run, all blocks free, not listed */
void run_list(struct store *s, uint32_t r);
void run_unlist(struct heap *h, uint32_t r);
void run_release(struct store *s, uint32_t r);
uint64_t heap_scattered(
    const struct store *s); /* free bytes of memory between the blocks of runs */
static inline struct region *region_of(struct heap *h, uint64_t page) {
    return &h->region[page >> h->region_shift];
}
/* An extent of the memory comes (add) or goes. */
void regions_large(struct heap *h, uint64_t first, uint64_t pages, bool add);
int block_alloc_beside(struct store *s, uint64_t size, struct stretch not, uint32_t *spend,
                       uint64_t *off); /* for an item that moves away from there */

/* compact.c (LAYOUT 13) */
/* n pages in a row are wanted and are not there. 0: something was done, try again; -EINPROGRESS: go on in the next turn; DDICT_EFULL: nothing can be done. */
int compact_for(struct store *s, uint64_t n);
int compact_for_index(struct store *s, uint64_t n); /* the same, never -EINPROGRESS */
void compact_turn(struct store *s);                 /* a turn begins */
bool compact_later(struct store *s,
                   uint64_t n); /* this turn's time is over, and there is something to be done */
bool compact_vain(const struct store *s,
                  uint64_t n); /* n pages are not to be had by moving, as far as is known */

/* spill.c (LAYOUT 11) */
void spill_open(struct store *s, int fd);
void spill_close(struct store *s);              /* the threads end, what is under way is dropped */
int spill_full(struct store *s, uint64_t need); /* the sentence; DDICT_EFULL */
bool spill_tight(const struct store *s,
                 uint64_t bytes); /* memory was full a moment ago, and little came free since */
void spill_tighten(struct store *s, uint64_t bytes);
/*
 * Memory is full: move values to the spill until about `bytes` of it are free for others. With threads -EAGAIN: they are on their way; without, 0: some were moved.
 * DDICT_EFULL with a sentence: there is none that could be, or the spill has no room for them, or its disk failed or is silent.
 */
int spill_make_room(struct store *s, uint64_t bytes);
bool spill_turn(struct store *s); /* some of what is to be done; true while there is more of it */
/* A block for a value straight in the spill, and its item: what ref describes. DDICT_EFULL. */
int spill_reserve(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag,
                  struct store_ref *ref);
int spill_finish(struct store *s,
                 struct store_ref *
                     ref); /* before it is published: 0 when the disk has it, -EAGAIN, or why not */
void spill_drop(struct store *s, struct store_ref *ref);
int away_share(struct store *s,
               uint64_t off); /* one item more has the block at off there; -ENOMEM */
void away_free(
    struct store *s,
    uint64_t off); /* what the item at off, which is about to be freed, has in the spill */

/* index.c */
struct place {
    uint64_t hash;
    struct segment *segment;
    uint64_t *slot;   /* where the key stands; NULL: absent */
    uint64_t word;    /* in it */
    uint64_t *vacant; /* where it could be put; NULL: the segment must be split */
    struct bucket *home;
    unsigned distance; /* of vacant from home */
};
int index_open(struct store *s, bool fresh);
void index_close(struct store *s);
void index_find(struct store *s, uint64_t hash, const void *key, uint32_t key_len, struct place *p);
struct segment *index_segment(struct store *s, uint64_t hash);
void index_prefetch(struct store *s, uint64_t hash);
int index_clear(struct store *s, struct store_request who);
bool index_sweep(struct store *s); /* one segment; true while more is waiting */

/* segment.c: segments and the directory */
/* An empty segment, not linked anywhere. One idle segment is always left for clear (last: take it). DDICT_EFULL. */
int segment_make(struct store *s, bool last, uint64_t *off);
int segment_hand_out(struct store *s, bool opening);
void segment_drop(struct store *s, uint64_t number); /* it has no live word: free */
int segment_split(struct store *s, uint64_t hash);
int dir_grow(struct store *s);
int segments_recover(struct store *s);
static inline uint64_t segment_number(struct store *s, uint64_t off) {
    return (off - s->header->seg_off) / DD_SEGMENT_SIZE;
}
static inline struct segment *segment_at(struct store *s, uint64_t number) {
    return arena_at(s, s->header->seg_off + number * DD_SEGMENT_SIZE);
}

/* intent.c (I16) */
void intent_begin(struct store *s, enum intent_op op, struct store_request who, uint64_t *place,
                  uint64_t old_word, uint64_t new_word, uint64_t version);
/* A pop with a next value: of key's slot `first`, which word replaces, and the slot of that value; version: what its item has. */
void intent_begin_next(struct store *s, struct store_request who, const struct place *first,
                       uint64_t word, const struct place *hidden, uint64_t version);
void intent_done(struct store *s);
void intent_finish(struct store *s); /* after a crash */

/* queue.c (LAYOUT 13) */
/* The key at `first` has a value behind that: it is the first now. False: there is none, nothing was done. */
bool queue_swing(struct store *s, const struct place *first, const void *key, uint32_t key_len,
                 struct store_request who, struct store_ref *next);
int queue_delete_begin(struct store *s, uint64_t hash, const void *key,
                       uint32_t key_len); /* before the key's word is EMPTY; -ENOMEM */
void queue_emptied(struct store *s, uint64_t hash, const void *key, uint32_t key_len,
                   bool deleted); /* it is; with room for one to retire */
bool queue_sweep(struct store *s,
                 unsigned n); /* n values of deleted queues; true while there are more */
void queues_cleared(struct store *s);
int queues_recover(struct store *s);
void queues_close(struct store *s);

/* lease.c */
int barriers_open(
    struct store *
        s); /* can this process do membarriers? Also a first one: what its predecessor replaced is replaced for all readers */
int retire_reserve(struct store *s, size_t n); /* room for n more; -ENOMEM */
void retire(struct store *s, uint64_t off);    /* cannot fail after retire_reserve() */
bool scan_wanted(const struct store *s);
bool scan_small(const struct store *s); /* all of it takes a millisecond or two */
void leases_close(struct store *s);
void leases_hints(struct store *s,
                  void (*fn)(struct store *s, uint64_t off)); /* those that are new */
void retired_free(struct store *s, uint64_t off); /* block_free(), and out of the transit count */
int leases_each(struct store *s, int (*fn)(struct store *s, uint64_t block, uint32_t page));
void leases_look(struct store *s); /* which blocks are leased: a hint, without a fence */
bool pin_held(const struct store *s, uint64_t block);

/* cache.c (LAYOUT 9) */
void cache_open(struct store *s);
void cache_close(struct store *s);
int cache_forget(struct store *s); /* after a crash, before the heap is rebuilt */
int cache_moved(struct store *s, uint64_t from,
                uint64_t to); /* the item is in another block now; -ENOMEM: nothing was done */
void cache_touch(struct store *s, uint64_t off);

/* rebuild.c (LAYOUT 7) */
int heap_rebuild(struct store *s); /* marks what words name */
void heap_settle(struct store *s); /* marks what leases and pins name, frees the rest */
static inline void settled(struct store *s) {
    if (__builtin_expect(!s->settled, 0))
        heap_settle(s);
}

#endif
