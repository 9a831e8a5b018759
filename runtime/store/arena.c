/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - make the sealed memfd of an arena with its header, open it again read-only, and check a
 * header. */
#include "hugepool.h"
#include "state.h"
#include <base/error.h>
#include <base/size.h>
#include <base/versions.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Smallest depth at which 2^depth segments are `segments` or more. */
static uint32_t depth_for(uint64_t segments) {
    uint32_t d = 0;
    while ((1ull << d) < segments)
        d++;
    return d;
}

/* Offset ranges only: memory is taken as pages are touched. A heap of a pool has no holes, so it
 * needs no more than the budget. */
static void arena_regions(struct arena_header *h, uint64_t budget, uint64_t spill) {
    uint64_t pool = huge_page(h), border = pool ? ARENA_PAGE : DD_PAGE_MAX,
             heap = pool ? budget : round_up(budget + budget / 2, border);
    uint64_t seg = round_up(budget / 2, DD_SEGMENT_SIZE);
    /* room for hashes that are not spread evenly */
    uint32_t depth = depth_for(seg / DD_SEGMENT_SIZE) + 4;
    if (depth > DIR_DEPTH_MAX)
        depth = DIR_DEPTH_MAX;
    h->pagemap_off = border;
    h->pagemap_len = round_up((heap + spill) / ARENA_PAGE * sizeof(uint64_t), ARENA_PAGE);
    h->dir_off = round_up(h->pagemap_off + h->pagemap_len, border);
    h->dir_len = round_up((2ull << depth) * sizeof(uint64_t), ARENA_PAGE);
    h->seg_off = round_up(h->dir_off + h->dir_len, pool ? DD_SEGMENT_SIZE : border);
    h->seg_len = seg;
    h->heap_off = round_up(h->seg_off + h->seg_len, pool                      ? pool
                                                    : budget >= DD_HUGE_ARENA ? ARENA_HUGE_PAGE
                                                                              : border);
    h->heap_len = heap;
    h->file_size = h->heap_off + h->heap_len;
    h->spill_len = spill;
}

int arena_create(const struct store_options *o) {
    char size[24];
    if (o->budget < DD_MANAGER_MEM_MIN || o->budget > DD_MANAGER_MEM_MAX)
        return dd_error(-EINVAL, "an arena of %s: a manager has 4 MiB to 4 TiB",
                        size_format(size, sizeof size, o->budget));
    struct arena_header h = {.layout_version = LAYOUT_VERSION,
                             .header_size = sizeof h,
                             .budget = o->budget & ~(uint64_t)(ARENA_PAGE - 1)};
    h.manager_id = o->manager_id;
    h.managers = o->managers;
    memcpy(h.dict_id, o->dict_id, sizeof h.dict_id);
    h.page_shift = o->huge_page > HUGE_ADVISE    ? (uint32_t)__builtin_ctzll(o->huge_page)
                   : o->huge_page == HUGE_ADVISE ? ARENA_PAGES_ADVISED
                                                 : ARENA_PAGES_PLAIN;
    if (huge_page(&h))
        h.budget = hugepool_budget(huge_page(&h), o->budget);
    if (o->spill > DD_SPILL_MAX)
        return dd_error(-EINVAL, "a spill of %s: a manager has at most 8 TiB",
                        size_format(size, sizeof size, o->spill));
    if (o->spill && huge_page(&h))
        return dd_error(-EINVAL, "memory from a pool of huge pages has no spill");
    arena_regions(&h, h.budget, o->spill & ~(uint64_t)(ARENA_PAGE - 1));
    h.magic = ARENA_MAGIC;

    int rc, fd = huge_page(&h) ? hugepool_memfd(&h)
                               : memfd_create("ddict-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 && huge_page(&h))
        return fd;
    if (fd < 0)
        return dd_error(-errno, "cannot make the memory of an arena: %s", dd_strerror(-errno));
    if (ftruncate(fd, (off_t)h.file_size) < 0) {
        rc = dd_error(-errno, "cannot give an arena %llu bytes of address range: %s",
                      (unsigned long long)h.file_size, dd_strerror(-errno));
        goto fail;
    }
    if (huge_page(&h)) {
        if ((rc = hugepool_reserve(fd, &h)) < 0)
            goto fail;
    } else {
        ssize_t n = pwrite(fd, &h, sizeof h, 0);
        if (n != (ssize_t)sizeof h) {
            rc = dd_error(n < 0 ? -errno : -EIO, "cannot write the header of an arena");
            goto fail;
        }
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        rc = dd_error(-errno, "cannot seal an arena: %s", dd_strerror(-errno));
        goto fail;
    }
    return fd;
fail:
    close(fd);
    return rc;
}

int arena_reopen_readonly(int fd) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int ro = open(path, O_RDONLY | O_CLOEXEC);
    return ro >= 0 ? ro
                   : dd_error(-errno, "cannot open an arena read-only: %s (is /proc mounted?)",
                              dd_strerror(-errno));
}
