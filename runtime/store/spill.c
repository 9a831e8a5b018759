/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill.c - the file behind the memory (LAYOUT 11): made in a folder of the node, extended before its pages are used, and values moved into it when
 * the index wants the memory that they lie in. Which values go there at once is block_alloc_any()'s.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/error.h>
#include <base/size.h>
#include <store/state.h>

#define ZFS_MAGIC 0x2fc12fc1 /* statfs(2) of OpenZFS; writes go elsewhere, and fallocate() only looks at what is free */

/* --- the file --- */
/* Where the file system has no files without a name: a name that nobody can guess, gone before anything is in the file. */
static int named_file(const char *dir) {
    char path[4200];
    uint64_t number[2];
    if (getrandom(number, sizeof number, 0) != (ssize_t)sizeof number) return -errno;
    int n = snprintf(path, sizeof path, "%s/.ddict-spill-%016llx%016llx", dir, (unsigned long long)number[0], (unsigned long long)number[1]);
    if (n < 0 || n >= (int)sizeof path) return -ENAMETOOLONG;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return -errno;
    unlink(path);
    return fd;
}

static int nameless_file(const char *dir) {
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT) return -errno;
    return named_file(dir);
}

static bool is_memory(const struct statfs *f) { return f->f_type == TMPFS_MAGIC || f->f_type == RAMFS_MAGIC || f->f_type == HUGETLBFS_MAGIC; }

static uint64_t free_bytes(const struct statfs *f) { return (uint64_t)f->f_bavail * (uint64_t)(f->f_frsize > 0 ? f->f_frsize : f->f_bsize); }

static int grow(int fd, uint64_t from, uint64_t to) {
    int rc;
    do rc = fallocate(fd, 0, (off_t)from, (off_t)(to - from));
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

/* Can it promise space, and be mapped? */
static int file_try(int fd, const char *dir) {
    int rc = grow(fd, 0, ARENA_PAGE);
    if (rc < 0) return dd_error(rc, "%s can not be used: its file system promises no space (%s)", dir, dd_strerror(rc));
    volatile uint8_t *map = mmap(NULL, ARENA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return dd_error(-errno, "%s can not be used: its files can not be mapped (%s)", dir, dd_strerror(-errno));
    *map = 0;
    munmap((void *)(uintptr_t)map, ARENA_PAGE);
    return 0;
}

static int size_choose(const struct statfs *f, const char *dir, unsigned sharers, uint64_t *size) {
    char want[24], have[24];
    struct rlimit most;
    uint64_t left = free_bytes(f);
    if (*size > left / sharers)
        return dd_error(DDICT_EFULL, "%s of spill are wanted and %s has %s free", size_format(want, sizeof want, *size * sharers), dir, size_format(have, sizeof have, left));
    if (!*size) *size = (left - left / DD_SPILL_LEAVE) / sharers;
    if (*size > DD_SPILL_MAX) *size = DD_SPILL_MAX;
    *size &= ~(uint64_t)(ARENA_PAGE - 1);
    if (!*size) return dd_error(DDICT_EFULL, "%s has no space for a spill: %s free", dir, size_format(have, sizeof have, left));
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && most.rlim_cur < *size)
        return dd_error(-EFBIG, "files of %s may not be made: the limit is %s (ulimit -f)", size_format(want, sizeof want, *size), size_format(have, sizeof have, most.rlim_cur));
    return 0;
}

int spill_create(const char *dir, uint64_t size, unsigned sharers) {
    struct stat st;
    struct statfs f;
    if (stat(dir, &st) < 0) return dd_error(-errno, "%s can not be used: %s", dir, dd_strerror(-errno));
    if (!S_ISDIR(st.st_mode)) return dd_error(-ENOTDIR, "%s is no folder", dir);
    if (statfs(dir, &f) == 0 && is_memory(&f)) return dd_error(-EINVAL, "%s is memory (tmpfs) and no disk", dir);
    int rc, fd = nameless_file(dir);
    if (fd < 0) return dd_error(fd, "no file can be made in %s: %s", dir, dd_strerror(fd));
    if (fstatfs(fd, &f) < 0) {
        rc = dd_error(-errno, "%s can not be used: %s", dir, dd_strerror(-errno));
        goto fail;
    }
    if (f.f_type == ZFS_MAGIC) {
        rc = dd_error(-EOPNOTSUPP, "%s can not be used: its file system, ZFS, promises no space", dir);
        goto fail;
    }
    if (f.f_type == BTRFS_SUPER_MAGIC) {
        int flags = FS_NOCOW_FL; /* else each second write of a page would want new space */
        ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
    if ((rc = size_choose(&f, dir, sharers, &size)) < 0 || (rc = file_try(fd, dir)) < 0) goto fail;
    if (ftruncate(fd, (off_t)size) < 0) {
        char text[24];
        rc = dd_error(-errno, "no file of %s can be made in %s: %s", size_format(text, sizeof text, size), dir, dd_strerror(-errno));
        goto fail;
    }
    return fd;
fail:
    close(fd);
    return rc;
}

uint64_t spill_size(int fd) {
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

void spill_open(struct store *s, int fd) { s->spill.fd = s->header->spill_len ? fd : -1; }

/* The folder, as the kernel calls it. */
static const char *folder(struct store *s, char *buf, size_t cap) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", s->spill.fd);
    ssize_t n = readlink(link, buf, cap - 1);
    if (n <= 0) return "its folder";
    buf[n] = 0;
    char *slash = strrchr(buf, '/');
    if (slash && slash > buf) *slash = 0;
    return buf;
}

static int no_space(struct store *s, int e, uint64_t need) {
    char dir[1024], want[24], have[24];
    struct statfs f;
    uint64_t left = fstatfs(s->spill.fd, &f) == 0 ? free_bytes(&f) : 0;
    return dd_error(DDICT_EFULL, "manager %u is full: %s more are wanted of %s for its spill, %s are free there (%s)", s->header->manager_id,
                    size_format(want, sizeof want, need), folder(s, dir, sizeof dir), size_format(have, sizeof have, left), dd_strerror(e));
}

int spill_full(struct store *s, uint64_t need) {
    char dir[1024], text[4][24];
    const struct arena_header *h = s->header;
    return dd_error(DDICT_EFULL, "manager %u is full: %s of %s of memory and %s of %s of its spill in %s are in use, %llu more bytes are needed", h->manager_id,
                    size_format(text[0], sizeof *text, h->used_bytes), size_format(text[1], sizeof *text, h->budget), size_format(text[2], sizeof *text, h->spill_used),
                    size_format(text[3], sizeof *text, h->spill_len), folder(s, dir, sizeof dir), (unsigned long long)need);
}

int spill_prepare(struct store *s, uint64_t pages) {
    struct arena_header *h = s->header;
    uint64_t need = pages * ARENA_PAGE, have = h->spill_ready, to = have + DD_SPILL_STEP;
    if (need <= have) return 0;
    if (to < need) to = need;
    if (to > h->spill_len) to = h->spill_len;
    int rc = grow(s->spill.fd, have, to);
    if (rc < 0 && to > need) rc = grow(s->spill.fd, have, to = need);
    if (rc < 0) return no_space(s, rc, need - have);
    __atomic_store_n(&h->spill_ready, to, __ATOMIC_RELEASE);
    return 0;
}

/* --- memory was full --- */
bool spill_tight(const struct store *s, uint64_t bytes) {
    uint64_t some = s->header->budget / 64 < DD_RECLAIM_BYTES ? s->header->budget / 64 : DD_RECLAIM_BYTES;
    return s->spill.tight_until && bytes >= s->spill.tight_bytes && s->spill.freed - s->spill.freed_then < some && clock_ns() < s->spill.tight_until;
}

void spill_tighten(struct store *s, uint64_t bytes) {
    s->spill.tight_bytes = bytes;
    s->spill.freed_then = s->spill.freed;
    s->spill.tight_until = clock_ns() + DD_SPILL_LOOK_MS * 1000000ull;
}

/* --- moving (I18) --- */
static bool block_move(struct store *s, uint64_t off) {
    const struct item *item = arena_at(s, off);
    struct place p;
    uint64_t to;
    if (!item->key_len || item->check != item_check(item) || item->version & ITEM_CACHED || pin_held(s, off) || table_find(&s->leases.held, off)) return false;
    index_find(s, item->hash, item->key, item->key_len, &p);
    if (!p.slot || WORD_OFFSET(p.word) != off) return false; /* nobody's yet, or nobody's any more */
    if (retire_reserve(s, 1) < 0 || block_alloc_spill(s, block_bytes(s, off), false, &to) < 0) return false;
    memcpy(arena_at(s, to), item, sizeof *item + item->key_len + item->pad + item->val_len); /* both begin alike in their 64 bytes */
    word_store(p.slot, WORD_MOVE(p.word, to));                                           /* I3 */
    STRESS_POINT(STRESS_W_SWUNG);
    retire(s, off);
    return true;
}

/* What lies in the stretch of memory that begins at page; returns bytes moved, *pages is its length. */
static uint64_t stretch_move(struct store *s, uint64_t page, uint64_t *pages) {
    struct heap *h = &s->heap;
    uint64_t e = h->pagemap[page], off = s->header->heap_off + page * ARENA_PAGE, moved = 0;
    *pages = PAGEMAP_KIND(e) == PAGE_FREE ? 1 : PAGEMAP_VALUE(e);
    if (PAGEMAP_KIND(e) == PAGE_LARGE_HEAD) return block_move(s, off) ? *pages * ARENA_PAGE : 0;
    if (PAGEMAP_KIND(e) != PAGE_SLAB_HEAD) return 0;
    uint32_t r = h->ref[page], size = h->class[PAGEMAP_CLASS(e)].size;
    for (unsigned b = 0; b < h->run[r].blocks; b++)
        if (!(h->run[r].idle[b / 64] >> b % 64 & 1) && block_move(s, off + (uint64_t)b * size)) moved += size;
    return moved;
}

bool spill_move(struct store *s, uint64_t bytes) {
    struct spill *p = &s->spill;
    uint64_t moved = 0, top = s->header->heap_top, before = p->freed;
    if (p->fd < 0 || p->moving || !s->settled || !pages_may_punch(s)) return false; /* what was freed could not be given to another use */
    if (bytes > DD_SPILL_MOVE) bytes = DD_SPILL_MOVE;                                /* who needs more comes back */
    p->moving = true;
    for (uint64_t looked = 0, n; looked < top && moved < bytes; looked += n) {
        if (p->hand >= top) p->hand = 0;
        moved += stretch_move(s, p->hand, &n);
        p->hand += (uint32_t)n;
    }
    p->moving = false;
    if (moved) heap_relieve(s, 0);
    return p->freed > before;
}
