/* SPDX-License-Identifier: Apache-2.0 */
/*
 * populate.c - take memory ahead of use, a step at a time, from a second thread. It runs ahead of
 * heap_top only: below it pages may have been given back on purpose. `claimed` is raised before a
 * step and the header's `populated` after it. The page map of these pages comes with them, so that
 * a value of a GiB does not touch 2 MiB of it in one turn.
 */
#include "state.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/page.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/*
 * By madvise() where the kernel has it, else by a write that changes nothing: the writer may be
 * filling these pages already, and an atomic write of 0 bits does no harm to it.
 */
__attribute__((no_sanitize("thread"))) static int range_populate(struct store *s, uint64_t off,
                                                                 uint64_t len) {
    uint8_t *at = s->map + off;
    /* a pool's page that cannot be had would be a SIGBUS otherwise */
    if (huge_page(s->header))
        return fallocate(s->fd, 0, (off_t)off, (off_t)len) == 0 ? 0 : -errno;
    uint64_t before = off & (page_size() - 1);
    if (madvise(at - before, len + before, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    for (uint64_t i = 0; i < len; i += ARENA_PAGE)
        __atomic_fetch_or((uint64_t *)(at + i), 0, __ATOMIC_RELAXED);
    return 0;
}

static int range_populate_with_map(struct store *s, uint64_t from, uint64_t len) {
    const struct arena_header *h = s->header;
    int rc = range_populate(s, h->heap_off + from, len);
    uint64_t first = from / ARENA_PAGE * sizeof(uint64_t) & ~(uint64_t)(ARENA_PAGE - 1),
             end = round_up((from + len) / ARENA_PAGE * sizeof(uint64_t), ARENA_PAGE);
    if (rc < 0 || huge_page(h))
        return rc;
    return range_populate(s, h->pagemap_off + first, end - first);
}

int64_t store_populate(struct store *s) {
    struct populate *p = &s->populate;
    const char *limit;
    int64_t done = 0;
    pthread_mutex_lock(&p->busy);
    uint64_t pool = huge_page(s->header), step = pool > DD_POPULATE_STEP ? pool : DD_POPULATE_STEP;
    uint64_t room = pool ? UINT64_MAX : memlimit_room(&limit), budget = s->header->budget,
             spare = figure_get(&p->index_bytes) + budget / DD_POPULATE_SPARE;
    uint64_t end = pool             ? s->header->heap_limit
                   : budget > spare ? (budget - spare) & ~(uint64_t)(ARENA_PAGE - 1)
                                    : 0,
             was = figure_get(&p->claimed);
    uint64_t top = figure_get(&p->heap_top), from = was > top ? was : top;
    uint64_t n = from < end ? end - from : 0;
    if (n > step)
        n = step - (from & (step - 1)); /* steps end at huge page borders */
    if (n && !p->stuck && room >= n) {
        uint64_t began = clock_ns();
        figure_set(&p->at, from);
        figure_set(&p->to, from + n);
        figure_set(&p->claimed, from + n);
        if (from + n > figure_get(&p->mapped))
            figure_set(&p->mapped, from + n);
        if (range_populate_with_map(s, from, n) == 0) {
            __atomic_store_n(&s->header->populated, from + n, __ATOMIC_RELEASE);
            figure_set(&p->bytes, p->bytes + n);
            figure_set(&p->ns, p->ns + clock_ns() - began);
            done = (int64_t)n;
        } else {
            figure_set(&p->claimed, was);
            p->stuck = true;
        }
        figure_set(&p->to, 0);
    }
    pthread_mutex_unlock(&p->busy);
    return done;
}
