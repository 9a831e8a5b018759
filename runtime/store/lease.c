/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c - blocks that nothing names any more wait here until no lease and no pin holds them (I6).
 *
 *   writer: replace the word   | F: seq_cst fence | load the slots, begun after F
 *   reader: store the lease    | G: seq_cst fence | load the word again
 *
 * F and G are ordered one way or the other: F first, and the reader sees the changed word; G first, and the scan sees the lease.
 *
 * Reads are many and scans are few. Where the kernel has it, F is a membarrier, which makes every core that runs a registered reader pass a fence: G
 * is then wherever that finds the reader, and costs nothing otherwise.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <base/error.h>
#include <store/state.h>

int store_leases_add(struct store *s, uint64_t id, const void *map, uint32_t pid) {
    struct leases *l = &s->leases;
    if (l->pages == l->pages_cap) {
        size_t cap = l->pages_cap ? l->pages_cap * 2 : 16;
        struct lease_page *p = realloc(l->page, cap * sizeof *p);
        if (!p) return dd_error(-ENOMEM, "no memory for another lease page");
        l->page = p;
        l->pages_cap = cap;
    }
    l->page[l->pages++] = (struct lease_page){.id = id, .map = map, .pid = pid};
    return 0;
}

void store_leases_remove(struct store *s, uint64_t id) {
    struct leases *l = &s->leases;
    for (size_t i = 0; i < l->pages; i++)
        if (l->page[i].id == id) {
            free(l->page[i].hinted);
            l->page[i] = l->page[--l->pages];
            l->again = true;
            return;
        }
}

void leases_close(struct store *s) {
    struct leases *l = &s->leases;
    for (size_t i = 0; i < l->pages; i++) free(l->page[i].hinted);
    free(l->page);
    free(l->retired);
    table_free(&l->held);
    table_free(&l->pins);
    table_free(&l->transit);
}

int retire_reserve(struct store *s, size_t n) {
    struct leases *l = &s->leases;
    if (l->retired_n + n <= l->retired_cap) return 0;
    size_t cap = l->retired_cap ? l->retired_cap : 1024;
    while (cap < l->retired_n + n) cap *= 2;
    uint64_t *r = realloc(l->retired, cap * sizeof *r);
    if (!r) return dd_error(-ENOMEM, "no memory to note a replaced value");
    l->retired = r;
    l->retired_cap = cap;
    return 0;
}

void retire(struct store *s, uint64_t off) {
    struct leases *l = &s->leases;
    uint64_t bytes = block_bytes(s, off);
    l->retired[l->retired_n++] = off;
    l->retired_bytes += bytes;
    l->fresh_bytes += bytes;
}

void store_retire(struct store *s, uint64_t off) {
    settled(s);
    /* Without memory to note it the block stays in use: it is lost, nothing is damaged. */
    if (retire_reserve(s, 1) == 0) retire(s, off);
}

void retired_free(struct store *s, uint64_t off) {
    struct leases *l = &s->leases;
    if (table_find(&l->transit, off)) {
        table_remove(&l->transit, off);
        l->transit_bytes -= block_bytes(s, off);
    }
    if (s->spill.fd >= 0) away_free(s, off);
    block_free(s, off);
}

uint64_t store_transit_bytes(const struct store *s) { return s->leases.transit_bytes; }

bool scan_wanted(const struct store *s) {
    const struct leases *l = &s->leases;
    /* Blocks that stay held make every scan longer: more must come together before the next one. */
    uint64_t enough = DD_RECLAIM_BYTES + 64 * (uint64_t)l->kept;
    return l->retired_n && (l->again || l->fresh_bytes >= enough);
}

int store_pin(struct store *s, uint64_t off) {
    uint32_t *n = table_add(&s->leases.pins, off);
    if (!n) return dd_error(-ENOMEM, "no memory to pin a value");
    ++*n;
    return 0;
}

void store_unpin(struct store *s, uint64_t off) {
    settled(s);
    uint32_t *n = table_find(&s->leases.pins, off);
    if (!n || --*n) return;
    table_remove(&s->leases.pins, off);
    if (s->leases.retired_n) s->leases.fresh_bytes += block_bytes(s, off); /* it may be a retired one */
}

bool pin_held(const struct store *s, uint64_t block) { return table_find(&s->leases.pins, block) != NULL; }

/* Call fn for each block named by a lease on this arena; page: number of the lease page. Stops when fn is negative. */
int leases_each(struct store *s, int (*fn)(struct store *s, uint64_t block, uint32_t page)) {
    struct leases *l = &s->leases;
    int rc = 0;
    for (size_t p = 0; p < l->pages && rc >= 0; p++) {
        const struct lease_chunk *c = l->page[p].map;
        uint64_t chunks = __atomic_load_n(&c->chunks, __ATOMIC_ACQUIRE);
        if (chunks > DD_LEASE_CHUNKS) chunks = DD_LEASE_CHUNKS;
        for (; chunks-- > 0 && rc >= 0; c++)
            for (unsigned i = 0; i < DD_LEASE_CHUNK_SLOTS && rc >= 0; i++) {
                /* Pairs with reader_release(): what the reader read lies before the reuse. */
                uint64_t word = __atomic_load_n(&c->slot[i], __ATOMIC_ACQUIRE);
                if (!word || LEASE_ARENA(word) != s->local_index) continue;
                uint64_t block = block_of(s, LEASE_OFFSET(word)); /* I15 */
                if (block) rc = fn(s, block, (uint32_t)p);
            }
    }
    return rc;
}

static uint64_t *page_hinted(struct lease_page *p, uint64_t chunks) {
    if (chunks > p->hinted_n) {
        uint64_t *more = realloc(p->hinted, chunks * sizeof *more);
        if (!more) return NULL;
        memset(more + p->hinted_n, 0, (chunks - p->hinted_n) * sizeof *more);
        p->hinted = more;
        p->hinted_n = chunks;
    }
    return p->hinted;
}

void leases_hints(struct store *s, void (*fn)(struct store *s, uint64_t off)) {
    for (struct lease_page *p = s->leases.page; p < s->leases.page + s->leases.pages; p++) {
        const struct lease_chunk *c = p->map;
        uint64_t chunks = __atomic_load_n(&c->chunks, __ATOMIC_ACQUIRE);
        if (chunks > DD_LEASE_CHUNKS) chunks = DD_LEASE_CHUNKS;
        uint64_t *hinted = page_hinted(p, chunks);
        for (uint64_t i = 0; hinted && i < chunks; i++, c++) {
            uint64_t n = __atomic_load_n(&c->hints, __ATOMIC_ACQUIRE), fresh = n - hinted[i]; /* pairs with cache_hint() of the client */
            if (fresh > LEASE_HINTS) fresh = LEASE_HINTS;
            hinted[i] = n;
            while (fresh-- > 0) {
                uint64_t word = __atomic_load_n(&c->hint[--n % LEASE_HINTS], __ATOMIC_RELAXED); /* untrusted: only compared */
                if (word && LEASE_ARENA(word) == s->local_index) fn(s, LEASE_OFFSET(word));
            }
        }
    }
}

static int note_held(struct store *s, uint64_t block, uint32_t page) {
    uint32_t *v = table_add(&s->leases.held, block);
    if (!v) return -ENOMEM;
    *v = page + 1;
    return 0;
}

void leases_look(struct store *s) {
    table_clear(&s->leases.held);
    leases_each(s, note_held); /* without memory fewer: they are moved in vain */
}

static int barrier_everywhere(void) { return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0 ? 0 : -errno; }

int barriers_open(struct store *s) {
    int rc = barrier_everywhere();
    if (rc == 0) __atomic_store_n(&s->header->barriers, 1, __ATOMIC_RELEASE); /* pairs with the acquire in reader_unfence() */
    else if (s->header->barriers) return dd_error(rc, "no membarrier any more, on which readers of this arena rely: %s", dd_strerror(rc));
    return 0;
}

uint64_t store_reclaim(struct store *s) {
    struct leases *l = &s->leases;
    settled(s);
    if (!l->retired_n) return 0;
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* F; its partner G is find_fence() */
    if (s->header->barriers && barrier_everywhere() < 0) return 0; /* the other half of G for readers without a fence */
    table_clear(&l->held);
    for (size_t p = 0; p < l->pages; p++) l->page[p].held = 0;
    if (!MUTANT(MUTANT_NO_SCAN) && leases_each(s, note_held) < 0) return 0;
    STRESS_POINT(STRESS_W_SCANNED);

    uint64_t freed = 0;
    size_t kept = 0;
    l->leased_bytes = 0;
    for (size_t i = 0; i < l->retired_n; i++) {
        uint64_t off = l->retired[i], bytes = block_bytes(s, off);
        const uint32_t *holder = table_find(&l->held, off);
        if (holder) {
            l->page[*holder - 1].held += bytes;
            l->leased_bytes += bytes;
        }
        if (holder || pin_held(s, off)) {
            l->retired[kept++] = off;
            continue;
        }
        retired_free(s, off);
        freed += bytes;
    }
    l->retired_n = l->kept = kept;
    l->retired_bytes -= freed;
    l->fresh_bytes = 0;
    l->again = false;
    return freed;
}
