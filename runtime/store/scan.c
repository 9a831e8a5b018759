/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c - scans, whole or in parts. */
#include "scan.h"

#include "compact.h"
#include "heap.h"
#include "lease.h"
#include "lease_pages.h"
#include "rebuild.h"
#include "state.h"

#include <errno.h>
#include <string.h>

#define SCAN_WIPE  32768u /* keys of its table that are set to 0 in a turn, */
#define SCAN_CLOSE 65536u /* and retired blocks that are moved: some 20 us */

bool scan_wanted(const struct store *s) {
    const struct leases *l = &s->leases;
    /* Blocks that stay held make every scan longer: more must be retired before the next one. */
    uint64_t spare = s->header->budget / DD_RECLAIM_SPARE,
             enough = DD_RECLAIM_BYTES + 64 * (uint64_t)l->kept +
                      (l->looked < spare ? l->looked : spare);
    return (l->retired_n || l->look) && (l->again || (l->retired_n && l->fresh_bytes >= enough));
}

/* Wipe a part of the table. False: there is more to be wiped. */
static bool scan_wipe(struct scan *c) {
    if (scan_wiped(c))
        return true;
    size_t n = c->held.cap - c->wiped < SCAN_WIPE ? c->held.cap - c->wiped : SCAN_WIPE;
    memset(c->held.key + c->wiped, 0, n * sizeof *c->held.key);
    memset(c->held.value + c->wiped, 0, n * sizeof *c->held.value);
    /* it may grow from now on */
    c->wiped = c->wiped + n < c->held.cap ? c->wiped + n : SIZE_MAX;
    return false;
}

/* Blocks retired since take the places of those that are free now; their order has no meaning.
 * False: there are more of them. */
static bool scan_close(struct leases *l) {
    struct scan *c = &l->scan;
    size_t gap = c->at - c->kept, rest = l->retired_n - c->at, n = gap < rest ? gap : rest;
    if (n > SCAN_CLOSE)
        n = SCAN_CLOSE;
    memcpy(l->retired + c->kept, l->retired + l->retired_n - n, n * sizeof *l->retired);
    c->kept += n;
    l->retired_n -= n;
    return c->kept == c->at || l->retired_n == c->at;
}

bool scan_small(const struct store *s) {
    const struct leases *l = &s->leases;
    return !l->scan.on && l->retired_n <= DD_SCAN_SMALL && l->held.used <= DD_SCAN_LEASES &&
           l->pages <= DD_SCAN_CHUNKS && chunks_all(l) <= DD_SCAN_CHUNKS;
}

/*
 * Make a table for as many leases as there can be; the caller wipes it from *wiped on. The first
 * touch of its pages costs more than all the rest, so a new table is wiped, too, and it grows only
 * for leases that come while the scan goes on.
 */
static int held_make(struct leases *l, struct table *t, size_t *wiped) {
    size_t n = leases_most(l);
    if (n < DD_SCAN_LEASES)
        n = DD_SCAN_LEASES;
    *wiped = SIZE_MAX;
    if (l->held.old.cap || l->held.cap < 2 * n || l->held.cap > 16 * n) {
        if (table_make(t, n) < 0)
            return -1;
        if (t->cap > SCAN_WIPE)
            *wiped = 0;
        return 0;
    }
    *t = l->held;
    l->held = (struct table){0};
    t->used = *wiped = 0;
    return 0;
}

static bool scan_begin(struct store *s) {
    struct leases *l = &s->leases;
    l->later = l->look = false;
    l->begun++;
    int rc = scan_fence(s);
    if (rc < 0) {
        l->done = l->begun; /* it failed: no request waits for it */
        reclaim_failed(s, rc);
        return false;
    }
    if (held_make(l, &l->scan.held, &l->scan.wiped) < 0)
        return false;
    holders_clear(l);
    l->scan.on = true;
    l->looked = 0;
    l->scan.n = l->retired_n;
    l->fresh_bytes = 0; /* what is retired from here on is for the next scan */
    l->again = false;
    return true;
}

/* Look at the next leases. Lease pages that come meanwhile stand behind the others, and are looked
 * at, too. -1: no memory. */
static int scan_look(struct store *s) {
    struct leases *l = &s->leases;
    struct scan *c = &l->scan;
    size_t full = c->held.used + DD_SCAN_LEASES;
    for (unsigned n = 0; n < DD_SCAN_LINES && c->page < l->pages && c->held.used < full;) {
        if (c->chunk >= page_chunks(l, c->page)) {
            c->page++;
            c->chunk = 0;
            n++;
            continue;
        }
        if (c->chunk == 0)
            page_ahead(l, c->page);
        const struct lease_chunk *at = page_chunk(l, c->page, c->chunk);
        unsigned lines = chunk_lines(at), from, to;
        n += lines;
        l->looked += DD_RECLAIM_CHUNK + lines * DD_RECLAIM_LINE;
        for (unsigned i = 0; i < lines; i++) {
            if (!line_any(at, i, &from, &to))
                continue;
            for (unsigned k = from; k < to; k++) {
                /* as in leases_each() */
                uint64_t word = __atomic_load_n(&at->slot[k], __ATOMIC_ACQUIRE), block;
                if (!word || LEASE_ARENA(word) != s->local_index ||
                    !(block = block_of(s, LEASE_OFFSET(word))))
                    continue;
                uint32_t *v = table_add(&c->held, block);
                if (!v)
                    return -1;
                *v = (uint32_t)c->page + 1;
                compact_leased(s, block);
            }
        }
        c->chunk++;
    }
    return 0;
}

bool scan_at_once(struct store *s) {
    struct leases *l = &s->leases;
    uint64_t freed;
    int rc;
    if (!l->whole && !scan_small(s))
        return false;
    /* The number of leases is only known after a look at them; `held` has that of the last scan. */
    l->few = !l->whole;
    if (l->retired_n)
        rc = reclaim(s, &freed);
    else if ((rc = leases_look(s)) != -E2BIG) {
        l->look = l->again = false;
        l->done = ++l->begun;
    }
    l->few = false;
    if (rc < 0 && rc != -E2BIG && l->retired_n)
        reclaim_failed(s, rc);
    return rc != -E2BIG;
}

bool scan_over(struct store *s, uint64_t *number, bool look) {
    struct leases *l = &s->leases;
    if (l->whole) {
        *number = 0;
        return scan_at_once(s);
    }
    if (!*number) {
        if (!look && !l->retired_n)
            return true;
        if (scan_at_once(s))
            return true;
        *number = l->begun + 1; /* not the scan under way: it has passed some leases already */
    }
    bool over = l->done >= *number || (!look && !l->retired_n && l->begun < *number);
    if (over)
        *number = 0;
    else if (l->begun < *number) {
        l->again = true;
        l->look |= look;
    }
    return over;
}

int scan_for_room(struct store *s) {
    struct leases *l = &s->leases;
    uint64_t number;
    if (!l->retired_n)
        return 0;
    if (l->wait && *l->wait && l->done >= *l->wait)
        return 0;
    number = l->wait ? *l->wait : 0;
    if (scan_over(s, &number, false))
        return 0;
    if (!l->wait)
        return 0;
    *l->wait = number;
    return -EINPROGRESS;
}

bool store_reclaim_soon(struct store *s) {
    uint64_t number = 0;
    return scan_over(s, &number, false);
}

bool store_reclaim_some(struct store *s) {
    struct leases *l = &s->leases;
    struct scan *c = &l->scan;
    heap_ensure_settled(s);
    if (!c->on && !l->retired_n && !l->look)
        return false;
    if (scan_at_once(s))
        return false;
    if (!c->on && !scan_begin(s))
        return false;
    if (!scan_wipe(c))
        return true;
    if (c->page < l->pages) {
        if (scan_look(s) == 0)
            return true;
        scan_end(l);
        l->again = true; /* from the start */
        return false;
    }
    STRESS_POINT(STRESS_W_SCANNED);
    for (unsigned n = 0; n < DD_SCAN_BLOCKS && c->at < c->n; n++, c->at++)
        if (!retired_try(s, &c->held, l->retired[c->at], &c->leased_bytes))
            l->retired[c->kept++] = l->retired[c->at];
    if (c->at < c->n)
        return true;
    if (!c->closing)
        l->kept = c->kept;
    c->closing = true;
    if (!scan_close(l))
        return true;
    l->leased_bytes = c->leased_bytes;
    l->done = l->begun;
    table_free(&l->held);
    l->held = c->held;
    c->held = (struct table){0};
    scan_end(l);
    return false;
}
