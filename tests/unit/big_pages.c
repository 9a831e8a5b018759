/* SPDX-License-Identifier: Apache-2.0 */
/*
 * big_pages.c - to be preloaded (pages.t): the calls that have to do with pages behave as on a
 * machine whose pages have DDICT_TEST_PAGE bytes. A place or an offset that is none of their
 * borders is refused, and a length goes on to the next border, as in the kernel.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SMALL 4096u

static uint64_t page(void) {
    static uint64_t size;
    const char *text = getenv("DDICT_TEST_PAGE");
    if (!size)
        size = text ? strtoull(text, NULL, 10) : SMALL;
    return size;
}

static uint64_t up(uint64_t n) {
    return (n + page() - 1) & ~(page() - 1);
}

static int refused(const void *at, off_t off) {
    if (((uint64_t)(uintptr_t)at | (uint64_t)off) % page() == 0)
        return 0;
    errno = EINVAL;
    return 1;
}

static void *map(void *at, uint64_t len, int prot, int flags, int fd, off_t off) {
    return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off);
}

long sysconf(int name) {
    extern long __sysconf(int);
    switch (name) {
    case _SC_PAGESIZE:
        return (long)page();
    case _SC_PHYS_PAGES:
    case _SC_AVPHYS_PAGES:
        return __sysconf(name) / (long)(page() / SMALL);
    default:
        return __sysconf(name);
    }
}

int getpagesize(void) {
    return (int)page();
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off) {
    if (refused(flags & MAP_FIXED ? at : NULL, off))
        return MAP_FAILED;
    if (flags & MAP_FIXED || len == 0)
        return map(at, up(len), prot, flags, fd, off);
    uint64_t room = up(len) + page();
    uint8_t *from = map(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (from == MAP_FAILED)
        return MAP_FAILED;
    uint8_t *to = (uint8_t *)(uintptr_t)up((uint64_t)(uintptr_t)from);
    if (map(to, up(len), prot, flags | MAP_FIXED, fd, off) == MAP_FAILED) {
        int e = errno;
        syscall(SYS_munmap, from, room);
        errno = e;
        return MAP_FAILED;
    }
    if (to > from)
        syscall(SYS_munmap, from, to - from);
    syscall(SYS_munmap, to + up(len), from + room - (to + up(len)));
    return to;
}

void *mmap64(void *at, size_t len, int prot, int flags, int fd, off_t off)
    __attribute__((alias("mmap")));

int munmap(void *at, size_t len) {
    return refused(at, 0) ? -1 : (int)syscall(SYS_munmap, at, up(len));
}

int madvise(void *at, size_t len, int advice) {
    return refused(at, 0) ? -1 : (int)syscall(SYS_madvise, at, up(len), advice);
}

int mprotect(void *at, size_t len, int prot) {
    return refused(at, 0) ? -1 : (int)syscall(SYS_mprotect, at, up(len), prot);
}

void *mremap(void *at, size_t old_len, size_t new_len, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    return refused(at, 0) || refused(to, 0)
               ? MAP_FAILED
               : (void *)syscall(SYS_mremap, at, up(old_len), up(new_len), flags, to);
}

/* A page is there if a part of it is. */
int mincore(void *at, size_t len, unsigned char *in) {
    unsigned char one;
    if (refused(at, 0))
        return -1;
    for (uint64_t i = 0; i < up(len); i += SMALL) {
        if (i % page() == 0)
            in[i / page()] = 0;
        if (syscall(SYS_mincore, (uint8_t *)at + i, SMALL, &one) == 0)
            in[i / page()] |= one & 1;
    }
    return 0;
}
