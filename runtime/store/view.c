/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - map an arena for reading, and the check of its header that both sides make. */
#include "reader.h"
#include <base/error.h>
#include <base/page.h>
#include <base/versions.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int region_bad(uint64_t off, uint64_t len, uint64_t after, uint64_t file) {
    return off < after || off % 64 || off > file || len > file - off;
}

int arena_check(const struct arena_header *h, uint64_t file_size, uint64_t spill_size) {
    if (h->magic != ARENA_MAGIC)
        return dd_error(DDICT_EPROTO, "this is no arena: wrong magic number");
    if (h->layout_version != LAYOUT_VERSION || h->header_size != sizeof *h)
        return dd_error(DDICT_EVERSION, "the arena has layout version %u, this program knows %u",
                        h->layout_version, LAYOUT_VERSION);
    if (h->file_size != file_size || h->budget < DD_MANAGER_MEM_MIN ||
        region_bad(h->pagemap_off, h->pagemap_len, ARENA_PAGE, file_size) ||
        region_bad(h->dir_off, h->dir_len, h->pagemap_off + h->pagemap_len, file_size) ||
        region_bad(h->seg_off, h->seg_len, h->dir_off + h->dir_len, file_size) ||
        region_bad(h->heap_off, h->heap_len, h->seg_off + h->seg_len, file_size) ||
        h->heap_off % ARENA_PAGE || h->spill_len > DD_SPILL_MAX || h->spill_len % ARENA_PAGE ||
        h->heap_len % ARENA_PAGE || (h->spill_len && h->heap_off + h->heap_len != file_size) ||
        (h->heap_len + h->spill_len) / ARENA_PAGE > h->pagemap_len / sizeof(uint64_t) ||
        (h->heap_len + h->spill_len) / ARENA_PAGE > UINT32_MAX)
        return dd_error(DDICT_EPROTO,
                        "the arena's header is damaged: its regions do not fit into %llu bytes",
                        (unsigned long long)file_size);
    if (h->spill_len != spill_size)
        return dd_error(
            DDICT_EPROTO, "the arena of manager %u has a spill of %llu bytes, its file has %llu",
            h->manager_id, (unsigned long long)h->spill_len, (unsigned long long)spill_size);
    return 0;
}

/* In a process that locks its future memory (mlockall) the kernel would fill every hole of the
 * file: unlock the mapping before it can be accessed. */
static int map_at(uint8_t *at, uint64_t len, int fd, int prot) {
    if (mmap(at, len, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) == MAP_FAILED ||
        munlock(at, len) < 0 || mprotect(at, len, prot) < 0)
        return -errno;
    return 0;
}

/*
 * Map both files at an address that huge pages fit: heap_off is a multiple of their size in arenas
 * that ask for them. The mapping reserves nothing: the pages of a pool were reserved when the arena
 * was made, and a reader needs none.
 */
static int map_both(uint8_t **map, uint64_t len, int fd, uint64_t spill_len, int spill_fd,
                    int prot) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    /* st_blksize: the page size of a pool's file */
    uint64_t page =
        st.st_blksize > (blksize_t)ARENA_HUGE_PAGE ? (uint64_t)st.st_blksize : ARENA_HUGE_PAGE;
    uint64_t used = ((len + ARENA_PAGE - 1) & ~(uint64_t)(ARENA_PAGE - 1)) + spill_len,
             room = used + page;
    uint8_t *at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return -errno;
    uint64_t before = -(uint64_t)(uintptr_t)at & (page - 1);
    int rc = map_at(at + before, len, fd, prot);
    if (rc == 0 && spill_len)
        rc = map_at(at + before + used - spill_len, spill_len, spill_fd, prot);
    if (rc < 0) {
        munmap(at, room);
        return rc;
    }
    const char *core = getenv("DDICT_CORE");
    /* a core file has what the process knows of values, not the values */
    if (!core || strcmp(core, "all"))
        madvise(at + before, used, MADV_DONTDUMP);
    if (before)
        munmap(at, before);
    /* a file may end within a page of the machine */
    uint64_t end = (before + used + page_size() - 1) & ~(page_size() - 1);
    if (room > end)
        munmap(at + end, room - end);
    *map = at + before;
    return 0;
}

static int file_size(int fd, uint64_t least, uint64_t *size) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return dd_error(-errno, "cannot look at an arena: %s", dd_strerror(-errno));
    if (st.st_size < (off_t)least)
        return dd_error(DDICT_EPROTO, "this is no arena: %lld bytes", (long long)st.st_size);
    *size = (uint64_t)st.st_size;
    return 0;
}

int arena_map(void **map, uint64_t *len, int fd, int spill_fd, int prot) {
    uint64_t size, spill = 0;
    uint8_t *at = NULL;
    int rc = file_size(fd, ARENA_PAGE, &size);
    if (rc == 0 && spill_fd >= 0)
        rc = file_size(spill_fd, 0, &spill);
    if (rc < 0)
        return rc;
    if (spill > DD_SPILL_MAX || spill % ARENA_PAGE || (spill && size % ARENA_PAGE))
        return dd_error(DDICT_EPROTO, "this is no spill of an arena: %llu bytes",
                        (unsigned long long)spill);
    if ((rc = map_both(&at, size, fd, spill, spill_fd, prot)) < 0)
        return dd_error(rc, "cannot map an arena of %llu bytes: %s%s",
                        (unsigned long long)(size + spill), dd_strerror(rc),
                        prot & PROT_WRITE ? "" : " (ulimit -v?)");
    const struct arena_header *h = (const void *)at;
    if ((rc = arena_check(h, size, spill)) < 0) {
        munmap(at, size + spill);
        return rc;
    }
    /* Not the regions before the heap: in huge pages the little that is used of them would cost 2
     * MiB each. Nor the spill, whose pages come from a device. Where small pages have 16 or 64 KiB,
     * huge ones have 32 or 512 MiB, and one could take more than the budget. */
    if (h->page_shift == ARENA_PAGES_ADVISED && h->budget >= DD_HUGE_ARENA &&
        page_size() == ARENA_PAGE)
        madvise(at + h->heap_off, h->heap_len, MADV_HUGEPAGE);
    *map = at;
    *len = size + spill;
    return 0;
}

int arena_view_map(struct arena_view *a, int fd, int spill_fd, unsigned local_index) {
    void *map;
    uint64_t len;
    int rc = arena_map(&map, &len, fd, spill_fd, PROT_READ);
    if (rc < 0)
        return rc;
    const struct arena_header *h = map;
    /* reads of values in the spill need a descriptor of our own */
    int own = spill_fd < 0 ? -1 : fcntl(spill_fd, F_DUPFD_CLOEXEC, 3);
    if (spill_fd >= 0 && own < 0) {
        rc = dd_error(-errno, "cannot keep the spill of an arena open: %s", dd_strerror(-errno));
        munmap(map, (size_t)len);
        return rc;
    }
    /* bytes of an item before its value, at most */
    const uint64_t longest = sizeof(struct item) + DDICT_KEY_MAX + DD_VALUE_ALIGN_MIN;
    *a = (struct arena_view){.header = h,
                             .map_len = (size_t)len,
                             .local_index = local_index,
                             .spill_fd = own,
                             .fenced = true,
                             .lease = LEASE_WORD(local_index, 0),
                             .last_item = len - sizeof(struct item),
                             .last_short = len > longest ? len - longest : 0,
                             .row = local_index * sizeof(struct lease_counters),
                             .dir = (const uint64_t *)((const uint8_t *)map + h->dir_off)};
    return 0;
}

void reader_unfence(struct arena_view *a) {
    /* Acquire: a reader that sees the manager's word relies on its scans. The registration comes
     * first and lasts: from then on the kernel's membarriers reach this process. */
    if (__atomic_load_n(&a->header->barriers, __ATOMIC_ACQUIRE) &&
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0)
        a->fenced = false;
}

void arena_view_unmap(struct arena_view *a) {
    if (a->header)
        munmap((void *)(uintptr_t)a->header, a->map_len);
    if (a->header && a->spill_fd >= 0)
        close(a->spill_fd);
    memset(a, 0, sizeof *a);
}
