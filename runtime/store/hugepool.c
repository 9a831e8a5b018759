/* SPDX-License-Identifier: Apache-2.0 */
/* hugepool.c - look at a pool of huge pages, and make a memfd of its pages. */
#include "hugepool.h"

#include "pool.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/size.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif
#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif
#define POOLS "/sys/kernel/mm/hugepages"

static int pool_number(uint64_t page, const char *file, uint64_t *out) {
    char path[128], text[32] = "";
    snprintf(path, sizeof path, POOLS "/hugepages-%llukB/%s", (unsigned long long)(page >> 10),
             file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -EIO;
    *out = strtoull(text, NULL, 10);
    return 0;
}

/* "2M and 1G", "none". */
static void pool_sizes(char *text, size_t cap) {
    DIR *d = opendir(POOLS);
    unsigned long kib;
    size_t at = 0;
    text[0] = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char size[24];
        if (sscanf(e->d_name, "hugepages-%lukB", &kib) != 1)
            continue;
        int n = snprintf(text + at, cap - at, "%s%s", at ? " and " : "",
                         size_format(size, sizeof size, (uint64_t)kib << 10));
        if (n > 0 && (size_t)n < cap - at)
            at += (size_t)n;
    }
    if (d)
        closedir(d);
    if (!at)
        snprintf(text, cap, "none");
}

int hugepool_look(uint64_t page, struct hugepool *out) {
    uint64_t idle = 0, reserved = 0, more = 0, extra = 0;
    char size[24], have[96];
    if (pool_number(page, "nr_hugepages", &out->pages) < 0 ||
        pool_number(page, "free_hugepages", &idle) < 0 ||
        pool_number(page, "resv_hugepages", &reserved) < 0) {
        pool_sizes(have, sizeof have);
        return dd_error(-ENOENT,
                        "there are no huge pages of %s on this machine (sizes that it has: %s)",
                        size_format(size, sizeof size, page), have);
    }
    pool_number(page, "nr_overcommit_hugepages", &more);
    pool_number(page, "surplus_hugepages", &extra);
    out->available = (idle > reserved ? idle - reserved : 0) + (more > extra ? more - extra : 0);
    return 0;
}

uint64_t hugepool_budget(uint64_t page, uint64_t want) {
    uint64_t least = HUGEPOOL_PAGES_MIN * page;
    return want < least ? least : round_up(want, page);
}

static int error_too_few(uint64_t page, uint64_t pages, const char *who, const struct hugepool *p) {
    char size[24], all[24], words[48] = "";
    size_format(size, sizeof size, page);
    if (page == ARENA_HUGE_PAGE)
        snprintf(words, sizeof words, " (vm.nr_hugepages)");
    return dd_error(DDICT_EFULL,
                    "%s: %llu huge pages of %s (%s) are wanted, %llu of the pool's %llu are free: "
                    "the administrator makes the pool larger%s, or says hugepages=no",
                    who, (unsigned long long)pages, size,
                    size_format(all, sizeof all, pages * page), (unsigned long long)p->available,
                    (unsigned long long)p->pages, words);
}

int hugepool_fit(uint64_t page, uint64_t pages, const char *who) {
    struct hugepool p;
    int rc = hugepool_look(page, &p);
    return rc < 0 ? rc : pages <= p.available ? 0 : error_too_few(page, pages, who, &p);
}

int hugepool_memfd(const struct arena_header *h) {
    struct hugepool p;
    char size[24];
    int rc = hugepool_look(huge_page(h), &p);
    if (rc < 0)
        return rc;
    int fd = memfd_create("ddict-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB |
                                             h->page_shift << MFD_HUGE_SHIFT);
    return fd >= 0 ? fd
                   : dd_error(-errno, "cannot make the memory of an arena of huge pages of %s: %s",
                              size_format(size, sizeof size, huge_page(h)), dd_strerror(-errno));
}

/* Reserve pages for the file: the kernel reserves them for a writable mapping, and they stay
 * reserved after it. */
static int range_reserve(int fd, uint64_t off, uint64_t len) {
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)off);
    if (at == MAP_FAILED)
        return -errno;
    munmap(at, len);
    return 0;
}

int hugepool_reserve(int fd, struct arena_header *h) {
    uint64_t page = huge_page(h), index = 0;
    char who[48];
    struct hugepool p = {0};
    hugepool_look(page, &p); /* before we take some */
    for (uint64_t at = 0; at < h->heap_off; at += page)
        index += pool_owned(h, at);
    h->heap_limit = h->budget - index * page;
    /* The heap first, in one reservation: it is nearly all, so missing pages are noticed before any
     * is taken. */
    int rc = range_reserve(fd, h->heap_off, h->heap_limit);
    for (uint64_t at = 0; rc == 0 && at < h->heap_off; at += page)
        if (pool_owned(h, at) && fallocate(fd, 0, (off_t)at, (off_t)page) < 0)
            rc = -errno;
    void *map = rc == 0 ? mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (rc == 0 && map == MAP_FAILED)
        rc = -errno;
    if (rc == 0) {
        memcpy(map, h, sizeof *h);
        munmap(map, page);
        return 0;
    }
    if (rc != -ENOMEM && rc != -ENOSPC)
        return dd_error(rc, "cannot take huge pages: %s", dd_strerror(rc));
    snprintf(who, sizeof who, "manager %u", h->manager_id);
    return error_too_few(page, h->budget / page, who, &p);
}

/* Can shared memory have huge pages without a pool? If not, do not walk a large mapping, which
 * takes time. */
static bool may_be_huge(void) {
    char text[96] = "";
    int fd = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && !strstr(text, "[never]") && !strstr(text, "[deny]");
}

static uint64_t huge_count(const void *at, uint64_t len) {
    uint64_t from = (uintptr_t)at, begin = 0, end = 0, sum = 0;
    unsigned long long a, b, n;
    char line[512];
    FILE *f = may_be_huge() ? fopen("/proc/self/smaps", "re") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%llx-%llx ", &a, &b) == 2) {
            begin = a;
            end = b;
        } else if (begin >= from && end <= from + len &&
                   (sscanf(line, "ShmemPmdMapped: %llu", &n) == 1 ||
                    sscanf(line, "FilePmdMapped: %llu", &n) == 1))
            sum += (uint64_t)n << 10;
    }
    if (f)
        fclose(f);
    return sum;
}

/* The walk over the mapping takes time in which the manager serves nobody: not too often. */
uint64_t huge_mapped(const void *at, uint64_t len) {
    static const void *of;
    static uint64_t sum, end_ns;
    uint64_t now = clock_ns();
    if (of != at || now > end_ns) {
        sum = huge_count(at, len);
        of = at;
        end_ns = clock_ns() + DD_HUGE_LOOK_MS * 1000000ull;
    }
    return sum;
}
