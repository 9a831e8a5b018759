/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c - retired blocks, which no word names, wait here until no lease and no pin holds them
 * (I6).
 *
 *     writer                                     reader
 *     replaces the word                          stores the lease
 *     F: seq_cst fence                           G: seq_cst fence
 *     loads the slots, in a scan begun after F   loads the word again
 *
 * F and G are ordered one way or the other: F first, and the reader sees the changed word; G first,
 * and the scan sees the lease.
 *
 * Reads are many and scans are few. If the kernel has membarriers, F is one: it makes every core
 * that runs a registered reader pass a fence. Then G is wherever the membarrier finds the reader,
 * and a read without a scan beside it costs no fence.
 *
 * A scan of few leases and blocks is made here, in one go. scan.c chooses, and makes a large one in
 * parts.
 */
#include "lease.h"

#include "compact.h"
#include "heap.h"
#include "lease_pages.h"
#include "rebuild.h"
#include "spill_away.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/vec.h>

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void leases_close(struct store *s) {
    struct leases *l = &s->leases;
    lease_pages_close(l);
    free(l->retired);
    table_free(&l->held);
    table_free(&l->scan.held);
    table_free(&l->pins);
    table_free(&l->transit);
}

/* A pinned block, or one in transit, may be retired when the process has no memory left: there is
 * always room for all of them. */
static size_t retire_promised(const struct leases *l) {
    return l->pins.used + l->transit.used;
}

int retire_reserve(struct store *s, size_t n) {
    struct leases *l = &s->leases;
    n += retire_promised(l);
    if (VEC_ROOM(&l->retired, &l->retired_cap, l->retired_n + n, 1024) < 0)
        return dd_error(-ENOMEM, "no memory to note a replaced value");
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
    heap_ensure_settled(s);
    /* The offset of a block that is neither pinned nor in transit was given to nobody. */
    if (s->leases.retired_n < s->leases.retired_cap || retire_reserve(s, 1) == 0)
        retire(s, off);
    else
        retired_free(s, off);
}

void retired_free(struct store *s, uint64_t off) {
    struct leases *l = &s->leases;
    if (table_find(&l->transit, off)) {
        table_remove(&l->transit, off);
        l->transit_bytes -= block_bytes(s, off);
    }
    if (s->spill.fd >= 0)
        away_free(s, off);
    block_free(s, off);
}

uint64_t store_transit_bytes(const struct store *s) {
    return s->leases.transit_bytes;
}

void scan_end(struct leases *l) {
    struct scan *c = &l->scan;
    memmove(l->retired + c->kept, l->retired + c->at, (l->retired_n - c->at) * sizeof *l->retired);
    l->retired_n -= c->at - c->kept;
    table_free(&c->held);
    *c = (struct scan){0};
}

int store_pin(struct store *s, uint64_t off) {
    uint32_t *n = retire_reserve(s, 2) == 0 ? table_add(&s->leases.pins, off) : NULL;
    if (!n)
        return dd_error(-ENOMEM, "no memory to pin a value");
    ++*n;
    return 0;
}

void store_unpin(struct store *s, uint64_t off) {
    heap_ensure_settled(s);
    uint32_t *n = table_find(&s->leases.pins, off);
    if (!n || --*n)
        return;
    table_remove(&s->leases.pins, off);
    /* a lease may have taken its place in a slot that the scan has passed already */
    if (s->leases.scan.on && scan_wiped(&s->leases.scan) && !table_add(&s->leases.scan.held, off)) {
        scan_end(&s->leases);
        s->leases.again = true;
    }
    /* the block may be retired */
    if (s->leases.retired_n)
        s->leases.fresh_bytes += block_bytes(s, off);
}

bool pin_held(const struct store *s, uint64_t block) {
    return table_find(&s->leases.pins, block) != NULL;
}

static int note_held(struct store *s, uint64_t block, uint32_t page) {
    struct leases *l = &s->leases;
    if (l->few && l->held.used > DD_SCAN_LEASES)
        return -E2BIG;
    uint32_t *v = table_add(&l->held, block);
    if (!v)
        return -ENOMEM;
    *v = page + 1;
    compact_leased(s, block);
    return 0;
}

int leases_look(struct store *s) {
    table_clear(&s->leases.held);
    /* Without memory it notes fewer; then items are moved whose old blocks stay. */
    return leases_each(s, note_held);
}

static int barrier_everywhere(void) {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0 ? 0 : -errno;
}

int barriers_open(struct store *s) {
    int rc = barrier_everywhere();
    /* pairs with the acquire in reader_unfence() */
    if (rc == 0)
        __atomic_store_n(&s->header->barriers, 1, __ATOMIC_RELEASE);
    else if (s->header->barriers)
        return dd_error(rc, "no membarrier any more, on which readers of this arena rely: %s",
                        dd_strerror(rc));
    return 0;
}

uint64_t reclaim_failed(struct store *s, int rc) {
    static uint64_t said;
    uint64_t now = clock_ns();
    if (!said || now - said > DD_NOTE_MS * 1000000ull)
        log_warn("manager %u can not use memory of replaced values again now: %s",
                 s->header->manager_id, dd_strerror(rc));
    said = !said || now - said > DD_NOTE_MS * 1000000ull ? now : said;
    return 0;
}

/* F, whose partner G is find_fence(). */
int scan_fence(struct store *s) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    /* the other half of G for readers without a fence */
    return s->header->barriers ? barrier_everywhere() : 0;
}

bool retired_try(struct store *s, const struct table *held, uint64_t off, uint64_t *leased_bytes) {
    struct leases *l = &s->leases;
    uint64_t bytes = block_bytes(s, off);
    const uint32_t *holder = table_find(held, off);
    if (holder) {
        /* for display: one may have gone */
        if (*holder && *holder <= l->pages)
            l->page[*holder - 1].held += bytes, l->holders = true;
        *leased_bytes += bytes;
    }
    if (holder || pin_held(s, off))
        return false;
    retired_free(s, off);
    l->retired_bytes -= bytes;
    return true;
}

void holders_clear(struct leases *l) {
    for (size_t p = 0; l->holders && p < l->pages; p++)
        l->page[p].held = 0;
    l->holders = false;
}

int reclaim(struct store *s, uint64_t *freed) {
    struct leases *l = &s->leases;
    uint64_t begun = l->begun, done = l->done;
    *freed = 0;
    heap_ensure_settled(s);
    if (l->scan.on)
        scan_end(l);
    if (!l->retired_n)
        return 0;
    l->done = ++l->begun;
    int rc = scan_fence(s);
    if (rc < 0)
        return rc;
    l->later = l->look = false;
    table_clear(&l->held);
    holders_clear(l);
    rc = MUTANT(MUTANT_NO_SCAN) ? 0 : leases_each(s, note_held);
    if (rc == -E2BIG) {
        l->begun = begun;
        l->done = done;
    }
    if (rc < 0)
        return rc;
    STRESS_POINT(STRESS_W_SCANNED);

    uint64_t before = l->retired_bytes;
    size_t kept = 0;
    l->leased_bytes = 0;
    for (size_t i = 0; i < l->retired_n; i++)
        if (!retired_try(s, &l->held, l->retired[i], &l->leased_bytes))
            l->retired[kept++] = l->retired[i];
    l->retired_n = l->kept = kept;
    l->fresh_bytes = 0;
    l->again = false;
    *freed = before - l->retired_bytes;
    return 0;
}

uint64_t store_reclaim(struct store *s) {
    uint64_t freed;
    int rc = reclaim(s, &freed);
    return rc < 0 ? reclaim_failed(s, rc) : freed;
}
