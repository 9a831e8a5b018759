/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - an arena whose memory comes from a pool of huge pages (LAYOUT 10). All pages of the
 * budget belong to the arena from the start; this file divides them between index and heap. The
 * heap has all pages that the index does not have, up to heap_limit, and gives up one at its top
 * for each that the index grows into. Every page is taken by fallocate() before it is touched: a
 * page that cannot be had is an error there, and would be a SIGBUS at the touch.
 */
#include "pool.h"

#include "pages.h"
#include <base/error.h>
#include <base/size.h>

#include <errno.h>
#include <fcntl.h>

static bool overlaps(uint64_t at, uint64_t page, uint64_t from, uint64_t len) {
    return len && from < at + page && at < from + len;
}

bool pool_owned(const struct arena_header *h, uint64_t at) {
    uint64_t page = huge_page(h), map = h->pagemap_off + h->budget / ARENA_PAGE * sizeof(uint64_t);
    return overlaps(at, page, 0, map) ||
           overlaps(at, page, h->dir_off, (2ull << ROOT_DEPTH(h->root)) * sizeof(uint64_t)) ||
           overlaps(at, page, h->seg_off, h->segments * DD_SEGMENT_SIZE);
}

static int error_full(struct store *s) {
    char used[24], total[24];
    return dd_error(DDICT_EFULL, "manager %u is full: %s of %s in use", s->header->manager_id,
                    size_format(used, sizeof used, s->header->used_bytes),
                    size_format(total, sizeof total, s->header->budget));
}

static int error_lost(struct store *s, int rc) {
    char size[24];
    return dd_error_kind(DDICT_EFULL, STORE_FULL_MACHINE,
                         "manager %u cannot grow: no huge page of %s is to be had any more (%s)",
                         s->header->manager_id,
                         size_format(size, sizeof size, huge_page(s->header)), dd_strerror(rc));
}

int pool_heap(struct store *s, uint64_t end) {
    struct arena_header *h = s->header;
    struct populate *p = &s->populate;
    uint64_t page = huge_page(h), to = round_up(end * ARENA_PAGE, page ? page : 1), from;
    int rc = 0;
    /* `populated`, not `claimed`, which is raised before a step */
    if (!page || end * ARENA_PAGE <= figure_get(&h->populated))
        return 0;
    if (to > h->heap_limit)
        return error_full(s);
    pthread_mutex_lock(&p->busy);
    from = figure_get(&h->populated);
    if (from < to && fallocate(s->fd, 0, (off_t)(h->heap_off + from), (off_t)(to - from)) < 0)
        rc = -errno;
    if (rc == 0 && from < to) {
        figure_set(&p->claimed, to);
        __atomic_store_n(&h->populated, to, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&p->busy);
    return rc < 0 ? error_lost(s, rc) : 0;
}

/* Give the heap's last page back to the pool. A reservation alone cannot be given back, so the page
 * is taken for a moment. */
static int heap_page_give_up(struct store *s) {
    struct arena_header *h = s->header;
    struct populate *p = &s->populate;
    uint64_t page = huge_page(h), limit = h->heap_limit - page;
    if (h->heap_top * ARENA_PAGE > limit)
        pages_lower(s);
    if (h->heap_limit < 2 * page || h->heap_top * ARENA_PAGE > limit)
        return error_full(s);
    pthread_mutex_lock(&p->busy);
    /* heap_limit first: after a crash the arena has at worst one page less than it could */
    word_store(&h->heap_limit, limit);
    if (figure_get(&p->claimed) > limit) {
        figure_set(&p->claimed, limit);
        __atomic_store_n(&h->populated, limit, __ATOMIC_RELEASE);
    }
    if (fallocate(s->fd, 0, (off_t)(h->heap_off + limit), (off_t)page) == 0)
        fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(h->heap_off + limit),
                  (off_t)page);
    pthread_mutex_unlock(&p->busy);
    return 0;
}

int pool_index(struct store *s, uint64_t at, uint64_t len) {
    uint64_t page = huge_page(s->header);
    int rc;
    if (!page)
        return 0;
    for (uint64_t i = at & ~(page - 1); i < at + len; i += page) {
        if (pool_owned(s->header, i))
            continue;
        if ((rc = heap_page_give_up(s)) < 0)
            return rc;
        if (fallocate(s->fd, 0, (off_t)i, (off_t)page) < 0)
            return error_lost(s, -errno);
    }
    return 0;
}
