/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill.c - the file behind the memory (LAYOUT 11): makes it in a folder of the node, and moves
 * values into it when other values need their memory. Two threads read and write the file, so only
 * requests for what is on the disk wait for a slow disk.
 *
 *     a batch of values   chosen, some of them in a turn
 *                         written by the thread, which asks the disk whether it has them
 *                         their words swung, some of them in a turn
 *
 * Until the last step the values are where they were, whatever becomes of the disk.
 */
#include "spill.h"

#include "budget.h"
#include "heap.h"
#include "index.h"
#include "lease.h"
#include "pages.h"
#include "rebuild.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <base/io.h>
#include <base/size.h>
#include <base/vec.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <signal.h>
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

/* statfs(2) of OpenZFS: each write takes new space, and fallocate() promises none */
#define ZFS_MAGIC 0x2fc12fc1

/* --- the file --- */
/* For a file system without nameless files: a name that nobody can guess, removed before anything
 * is in the file. */
static int named_file(const char *dir) {
    char path[4200];
    uint64_t number[2];
    if (getrandom(number, sizeof number, 0) != (ssize_t)sizeof number)
        return -errno;
    int n = snprintf(path, sizeof path, "%s/.ddict-spill-%016llx%016llx", dir,
                     (unsigned long long)number[0], (unsigned long long)number[1]);
    if (n < 0 || n >= (int)sizeof path)
        return -ENAMETOOLONG;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    unlink(path);
    return fd;
}

static int nameless_file(const char *dir) {
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
        return -errno;
    return named_file(dir);
}

static bool fs_is_memory(const struct statfs *f) {
    return f->f_type == TMPFS_MAGIC || f->f_type == RAMFS_MAGIC || f->f_type == HUGETLBFS_MAGIC;
}

static uint64_t fs_free_bytes(const struct statfs *f) {
    return (uint64_t)f->f_bavail * (uint64_t)(f->f_frsize > 0 ? f->f_frsize : f->f_bsize);
}

static int file_grow(int fd, uint64_t from, uint64_t to) {
    int rc;
    do
        rc = fallocate(fd, 0, (off_t)from, (off_t)(to - from));
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

/* Can it promise space, and be mapped? */
static int file_try(int fd, const char *dir) {
    int rc = file_grow(fd, 0, ARENA_PAGE);
    if (rc < 0)
        return dd_error(rc, "%s can not be used: its file system promises no space (%s)", dir,
                        dd_strerror(rc));
    volatile uint8_t *map = mmap(NULL, ARENA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return dd_error(-errno, "%s can not be used: its files can not be mapped (%s)", dir,
                        dd_strerror(-errno));
    *map = 0;
    munmap((void *)(uintptr_t)map, ARENA_PAGE);
    return 0;
}

static int size_choose(const struct statfs *f, const char *dir, unsigned sharers, uint64_t *size) {
    char want[24], have[24];
    struct rlimit most;
    uint64_t left = fs_free_bytes(f);
    if (*size > left / sharers)
        return dd_error(DDICT_EFULL, "%s of spill are wanted and %s has %s free",
                        size_format(want, sizeof want, *size * sharers), dir,
                        size_format(have, sizeof have, left));
    if (!*size)
        *size = (left - left / DD_SPILL_LEAVE) / sharers;
    if (*size > DD_SPILL_MAX)
        *size = DD_SPILL_MAX;
    *size &= ~(uint64_t)(ARENA_PAGE - 1);
    if (!*size)
        return dd_error(DDICT_EFULL, "%s has no space for a spill: %s free", dir,
                        size_format(have, sizeof have, left));
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
        most.rlim_cur < *size)
        return dd_error(-EFBIG, "files of %s may not be made: the limit is %s (ulimit -f)",
                        size_format(want, sizeof want, *size),
                        size_format(have, sizeof have, most.rlim_cur));
    return 0;
}

int spill_create(const char *dir, uint64_t size, unsigned sharers) {
    struct stat st;
    struct statfs f;
    if (stat(dir, &st) < 0)
        return dd_error(-errno, "%s can not be used: %s", dir, dd_strerror(-errno));
    if (!S_ISDIR(st.st_mode))
        return dd_error(-ENOTDIR, "%s is no folder", dir);
    if (statfs(dir, &f) == 0 && fs_is_memory(&f))
        return dd_error(-EINVAL, "%s is memory (tmpfs) and no disk", dir);
    int rc, fd = nameless_file(dir);
    if (fd < 0)
        return dd_error(fd, "no file can be made in %s: %s", dir, dd_strerror(fd));
    if (fstatfs(fd, &f) < 0) {
        rc = dd_error(-errno, "%s can not be used: %s", dir, dd_strerror(-errno));
        goto fail;
    }
    if (f.f_type == ZFS_MAGIC) {
        rc = dd_error(-EOPNOTSUPP, "%s can not be used: its file system, ZFS, promises no space",
                      dir);
        goto fail;
    }
    if (f.f_type == BTRFS_SUPER_MAGIC) {
        int flags = FS_NOCOW_FL; /* else a second write of a page would need new space */
        ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
    if ((rc = size_choose(&f, dir, sharers, &size)) < 0 || (rc = file_try(fd, dir)) < 0)
        goto fail;
    if (ftruncate(fd, (off_t)size) < 0) {
        char text[24];
        rc = dd_error(-errno, "no file of %s can be made in %s: %s",
                      size_format(text, sizeof text, size), dir, dd_strerror(-errno));
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

/* The path of the folder, from the kernel. */
static const char *spill_folder(struct store *s, char *buf, size_t cap) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", s->spill.fd);
    ssize_t n = readlink(link, buf, cap - 1);
    if (n <= 0)
        return "its folder";
    buf[n] = 0;
    char *slash = strrchr(buf, '/');
    if (slash && slash > buf)
        *slash = 0;
    return buf;
}

static const char *fs_name(const struct statfs *f) {
    static const struct {
        uint32_t magic;
        const char *name;
    } known[] = {{0xef53, "ext4"},
                 {0x58465342, "xfs"},
                 {BTRFS_SUPER_MAGIC, "btrfs"},
                 {NFS_SUPER_MAGIC, "nfs"},
                 {0x0bd00bd0, "lustre"},
                 {0x47504653, "gpfs"},
                 {FUSE_SUPER_MAGIC, "fuse"},
                 {OVERLAYFS_SUPER_MAGIC, "overlay"},
                 {TMPFS_MAGIC, "tmpfs"}};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if ((uint32_t)f->f_type == known[i].magic)
            return known[i].name;
    return "file system";
}

static int error_no_space(struct store *s) {
    char dir[1024], want[24], have[24];
    struct statfs f;
    uint64_t left = fstatfs(s->spill.fd, &f) == 0 ? fs_free_bytes(&f) : 0;
    return dd_error_kind(
        DDICT_EFULL, STORE_FULL_SPILL,
        "manager %u is full: %s more are wanted of %s for its spill, %s are free there (%s)",
        s->header->manager_id, size_format(want, sizeof want, s->spill.no_space_need),
        spill_folder(s, dir, sizeof dir), size_format(have, sizeof have, left),
        dd_strerror(s->spill.no_space));
}

static int error_silent(struct store *s) {
    char dir[1024];
    return dd_error_kind(
        DDICT_EFULL, STORE_FULL_SPILL,
        "manager %u is full: the disk of its spill in %s has done nothing for %u s",
        s->header->manager_id, spill_folder(s, dir, sizeof dir), DD_SPILL_WAIT_MS / 1000);
}

static int error_failed(struct store *s) {
    char dir[1024];
    return dd_error_kind(
        DDICT_EFULL, STORE_FULL_SPILL,
        "manager %u is full: its spill in %s takes no more values since its disk failed (%s)",
        s->header->manager_id, spill_folder(s, dir, sizeof dir), dd_strerror(s->spill.failed));
}

/* The spill takes no more values, for good. Those in it stay readable as far as the disk can, and
 * each byte is checked. */
static void spill_fail(struct store *s, int rc, const char *what) {
    char dir[600], size[24];
    struct statfs f = {0};
    struct spill *p = &s->spill;
    if (p->failed)
        return;
    p->failed = rc;
    fstatfs(p->fd, &f);
    snprintf(
        p->trouble, sizeof p->trouble,
        "the spill of manager %u in %s (%s) failed: %s: %s; it takes no more values, those on "
        "their way stay in memory; %llu values of %s are there and are checked when they are read",
        s->header->manager_id, spill_folder(s, dir, 300), fs_name(&f), what, dd_strerror(rc),
        (unsigned long long)s->header->spill_items,
        size_format(size, sizeof size, s->header->spill_used));
}

const char *store_spill_trouble(struct store *s) {
    static char text[DD_ERRMSG_MAX];
    if (!s->spill.trouble[0])
        return NULL;
    memcpy(text, s->spill.trouble, sizeof text);
    s->spill.trouble[0] = 0;
    return text;
}

int spill_full(struct store *s, uint64_t need) {
    char dir[1024], text[4][24];
    const struct arena_header *h = s->header;
    return dd_error_kind(DDICT_EFULL, STORE_FULL_SPILL,
                         "manager %u is full: %s of %s of memory and %s of %s of its spill in %s "
                         "are in use, %llu more bytes are needed",
                         h->manager_id, size_format(text[0], sizeof *text, h->used_bytes),
                         size_format(text[1], sizeof *text, h->budget),
                         size_format(text[2], sizeof *text, h->spill_used),
                         size_format(text[3], sizeof *text, h->spill_len),
                         spill_folder(s, dir, sizeof dir), (unsigned long long)need);
}

/* --- memory was full --- */
bool spill_tight(const struct store *s, uint64_t bytes) {
    uint64_t some =
        s->header->budget / 64 < DD_RECLAIM_BYTES ? s->header->budget / 64 : DD_RECLAIM_BYTES;
    return s->spill.tight_until && bytes >= s->spill.tight_bytes &&
           s->spill.freed - s->spill.freed_then < some && clock_ns() < s->spill.tight_until;
}

void spill_tighten(struct store *s, uint64_t bytes) {
    s->spill.tight_bytes = bytes;
    s->spill.freed_then = s->spill.freed;
    s->spill.tight_until = clock_ns() + DD_SPILL_LOOK_MS * 1000000ull;
}

/* --- the threads --- */
static void *worker_main(void *arg) {
    struct spill_worker *w = arg;
    const uint64_t one = 1;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct spill_job *j = w->first;
        if (!j) {
            pthread_cond_wait(&w->come, &w->lock);
            continue;
        }
        if (!(w->first = j->next))
            w->end = &w->first;
        pthread_mutex_unlock(&w->lock);
        j->run(j);
        /* pairs with job_done(): from here on j belongs to the store again */
        __atomic_store_n(&j->done, true, __ATOMIC_RELEASE);
        if (write(w->wake_fd, &one, sizeof one) < 0) {
        } /* full: it is awake */
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void job_give(struct spill_worker *w, struct spill_job *j) {
    j->next = NULL;
    j->rc = 0;
    j->busy = true;
    j->done = false;
    if (!w->runs) {
        j->run(j);
        j->done = true;
        return;
    }
    pthread_mutex_lock(&w->lock);
    *w->end = j;
    w->end = &j->next;
    pthread_cond_signal(&w->come);
    pthread_mutex_unlock(&w->lock);
}

/* True once, when a busy job is over. */
static bool job_done(struct spill_job *j) {
    if (!j->busy || !__atomic_load_n(&j->done, __ATOMIC_ACQUIRE))
        return false;
    j->busy = false;
    return true;
}

static int worker_start(struct spill_worker *w, int wake_fd) {
    sigset_t all, was;
    w->wake_fd = wake_fd;
    w->end = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->come, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int e = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    w->runs = e == 0;
    return e ? dd_error(-e, "no thread for the spill: %s", dd_strerror(-e)) : 0;
}

static void worker_end(struct spill_worker *w) {
    if (!w->runs)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->come);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL); /* at most the job under way */
    w->runs = false;
}

void spill_open(struct store *s, int fd) {
    s->spill.fd = s->header->spill_len ? fd : -1;
}

int store_spill_serve(struct store *s, int wake_fd) {
    int rc;
    if (s->spill.fd < 0)
        return 0;
    if ((rc = worker_start(&s->spill.writer, wake_fd)) < 0)
        return rc;
    return worker_start(&s->spill.reader, wake_fd);
}

uint64_t store_progress(const struct store *s) {
    return s->spill.progress;
}

/* --- the file; all of this runs in the thread that writes --- */
/* Make the file system promise the first `end` bytes of the file. */
static int file_prepare(struct store *s, uint64_t end) {
    struct arena_header *h = s->header;
    uint64_t need = round_up(end, ARENA_PAGE), have = figure_get(&h->spill_ready),
             to = have + DD_SPILL_STEP;
    if (need <= have)
        return 0;
    if (to < need)
        to = need;
    if (to > h->spill_len)
        to = h->spill_len;
    int rc = file_grow(s->spill.fd, have, to);
    if (rc < 0 && to > need)
        rc = file_grow(s->spill.fd, have, to = need);
    if (rc == 0)
        __atomic_store_n(&h->spill_ready, to, __ATOMIC_RELEASE);
    return rc;
}

/* Write whole chunks of a value, or its end, and their sums. at: the offset in the value. */
static int write_summed(struct store *s, struct item_away *away, const uint8_t *from, uint64_t at,
                        uint64_t len) {
    int rc = 0;
    for (uint64_t n; rc == 0 && len; at += n, from += n, len -= n) {
        n = len < DD_SPILL_CHUNK ? len : DD_SPILL_CHUNK;
        away->sum[at / DD_SPILL_CHUNK] = XXH3_64bits(from, n);
        rc = write_all_at(s->spill.fd, from, n, away->off - s->header->file_size + at);
    }
    return rc;
}

static void begin_writeback(struct store *s) {
    sync_file_range(s->spill.fd, 0, 0,
                    SYNC_FILE_RANGE_WRITE); /* a hint: file_flush() is asked for the error */
}

/* Does the disk have all that was written? */
static int file_flush(struct store *s) {
    int rc;
    do
        rc = fdatasync(s->spill.fd);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

/* --- items whose value is there --- */
static uint32_t head_pad(uint32_t key_len) {
    return (uint32_t)(round_up(sizeof(struct item) + key_len, 8) - sizeof(struct item) - key_len);
}
static uint64_t head_bytes(uint32_t key_len, uint64_t val_len) {
    return sizeof(struct item) + key_len + head_pad(key_len) + away_bytes(val_len);
}
static bool spill_pays(uint32_t key_len, uint64_t val_len) {
    return val_len &&
           sizeof(struct item) + key_len + val_len >= DD_SPILL_GAIN * head_bytes(key_len, val_len);
}

/* Make both blocks of such an item, and fill in all but version, hash, key, check and the sums. */
static int head_make(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag,
                     uint64_t *off) {
    struct spill *p = &s->spill;
    uint64_t to;
    p->moving = true;
    int rc = block_alloc_spill(s, val_len, true, &to);
    if (rc == 0 && (rc = block_alloc_moving(s, head_bytes(key_len, val_len), off)) < 0)
        block_free(s, to);
    p->moving = false;
    if (rc < 0)
        return rc;
    struct item *item = arena_at(s, *off);
    *item = (struct item){.val_len = val_len | ITEM_AWAY,
                          .key_len = key_len,
                          .tag = tag,
                          .pad = (uint8_t)head_pad(key_len)};
    struct item_away *away = (struct item_away *)(void *)(item->key + key_len + item->pad);
    away->off = to;
    return 0;
}

int away_share(struct store *s, uint64_t off) {
    uint32_t *more = table_add(&s->spill.shared, off);
    if (more)
        ++*more;
    return more ? 0 : -ENOMEM;
}

void away_free(struct store *s, uint64_t off) {
    const struct item_away *away = item_away(arena_at(s, off));
    uint32_t *more = away ? table_find(&s->spill.shared, away->off) : NULL;
    if (more && --*more == 0)
        table_remove(&s->spill.shared, away->off);
    if (away && !more)
        block_free(s, away->off);
}

/* --- values on their way there (I18) --- */
struct move {
    uint64_t from, to;
}; /* items */
struct batch {
    struct spill_job job; /* first */
    struct store *s;
    enum { CHOOSING, WRITING, SWINGING } state;
    struct move *move;
    size_t n, cap, swung;
    uint64_t bytes, target, looked, gain;
    uint64_t scan;   /* number of the scan that frees their blocks in memory */
    bool grew, full; /* the file could not grow; the spill has no room for more */
};

static bool batch_begin(struct store *s) {
    struct batch *b = calloc(1, sizeof *b);
    if (!b)
        return false;
    uint64_t some = s->header->budget / 16;
    b->s = s;
    b->target = some < DD_SPILL_MOVE ? some : DD_SPILL_MOVE;
    s->spill.batch = b;
    return true;
}

static bool batch_add(struct batch *b, uint64_t from, uint64_t to) {
    if (VEC_ROOM(&b->move, &b->cap, b->n + 1, 64) < 0)
        return false;
    b->move[b->n++] = (struct move){from, to};
    return true;
}

/* May the item at off move, and does it pay? */
static bool item_is_movable(struct store *s, uint64_t off) {
    const struct item *item = arena_at(s, off);
    struct index_place p;
    if (!item->key_len || item->check != item_check(item) || item->version & ITEM_CACHED ||
        item->version == ITEM_QUEUE || item->val_len & ITEM_AWAY ||
        !spill_pays(item->key_len, item->val_len) || pin_held(s, off) ||
        table_find(&s->leases.held, off))
        return false;
    index_find(s, item->hash, item->key, item->key_len, &p);
    return p.slot && WORD_OFFSET(p.word) == off; /* else no word names it yet, or any more */
}

static bool block_choose(struct store *s, struct batch *b, uint64_t off) {
    const struct item *item = arena_at(s, off);
    uint64_t to;
    if (!item_is_movable(s, off))
        return false;
    if (head_make(s, item->key_len, item->val_len, item->tag, &to) < 0) {
        b->full = true;
        return false;
    }
    struct item *head = arena_at(s, to);
    head->version = item->version;
    head->hash = item->hash;
    memcpy(head->key, item->key, item->key_len);
    head->check = item_check(head);
    if (store_pin(s, off) < 0) { /* the block must not be freed while it is read */
        retired_free(s, to);
        return false;
    }
    if (!batch_add(b, off, to)) {
        store_unpin(s, off);
        retired_free(s, to);
        return false;
    }
    STRESS_POINT(STRESS_W_CHOSEN);
    b->bytes += item->val_len;
    b->gain += block_bytes(s, off);
    return true;
}

/* Choose values from the run or extent that begins at page; *pages is its length. Returns how many
 * values it looked at. */
static unsigned stretch_choose(struct store *s, struct batch *b, uint64_t page, uint64_t *pages) {
    struct heap *h = &s->heap;
    uint64_t e = h->pagemap[page], off = s->header->heap_off + page * ARENA_PAGE;
    unsigned kind = PAGEMAP_KIND(e);
    *pages = kind == PAGE_FREE
                 ? h->span[h->ref[page]].first == page ? h->span[h->ref[page]].pages : 1
                 : PAGEMAP_VALUE(e);
    if (kind == PAGE_LARGE_HEAD)
        return block_choose(s, b, off), 1;
    if (kind != PAGE_SLAB_HEAD)
        return 0;
    uint32_t r = h->ref[page], size = h->class[PAGEMAP_CLASS(e)].size, blocks = h->run[r].blocks,
             looked = 0;
    for (unsigned i = 0; i < blocks && b->bytes < b->target && !b->full; i++)
        if (!(h->run[r].idle[i / 64] >> i % 64 & 1))
            looked++, block_choose(s, b, off + (uint64_t)i * size);
    return looked;
}

static void batch_run(struct spill_job *j) {
    struct batch *b = (struct batch *)(void *)j;
    struct store *s = b->s;
    uint64_t end = 0, since = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct item *head = arena_at(s, b->move[i].to);
        uint64_t to = item_away(head)->off - s->header->file_size + item_len(head);
        if (to > end)
            end = to;
    }
    j->rc = file_prepare(s, end);
    b->grew = j->rc < 0;
    for (size_t i = 0; i < b->n && j->rc == 0; i++) {
        const struct item *item = arena_at(s, b->move[i].from);
        struct item *head = arena_at(s, b->move[i].to);
        struct item_away *away =
            (struct item_away *)(void *)(head->key + head->key_len + head->pad);
        for (uint64_t at = 0, n; at < item->val_len && j->rc == 0; at += n) {
            n = item->val_len - at < DD_SPILL_STEP ? item->val_len - at : DD_SPILL_STEP;
            j->rc = write_summed(s, away, (const uint8_t *)item_value(item) + at, at, n);
            if ((since += n) < DD_SPILL_STEP)
                continue;
            begin_writeback(s);
            since = 0;
        }
    }
    if (j->rc == 0)
        j->rc = file_flush(s);
}

/* Make the item's word name its copy. False: the item was replaced or removed meanwhile. */
static bool move_swing(struct store *s, const struct move *m) {
    const struct item *item = arena_at(s, m->from);
    struct index_place p;
    store_unpin(s, m->from);
    index_find(s, item->hash, item->key, item->key_len, &p);
    /* replaced or removed meanwhile */
    if (!p.slot || WORD_OFFSET(p.word) != m->from || retire_reserve(s, 1) < 0) {
        retired_free(s, m->to);
        return false;
    }
    struct item *head = arena_at(s, m->to);
    head->hash = item->hash; /* a value of a queue may have become the first of its key */
    head->version = item->version;
    head->check = item_check(head);
    word_store(p.slot, WORD_MOVE(p.word, m->to)); /* I3 */
    STRESS_POINT(STRESS_W_SWUNG);
    retire(s, m->from);
    return true;
}

static void batch_end(struct store *s) {
    struct spill *p = &s->spill;
    struct batch *b = p->batch;
    for (; b->swung < b->n; b->swung++) { /* those that were not written */
        store_unpin(s, b->move[b->swung].from);
        retired_free(s, b->move[b->swung].to);
    }
    free(b->move);
    free(b);
    p->batch = NULL;
    p->progress++;
}

/* Nothing could be moved: a request that comes soon is told so at once. */
static void batch_give_up(struct store *s) {
    s->spill.want = 0;
    s->spill.gave_up_until = clock_ns() + DD_SPILL_LOOK_MS * 1000000ull;
    s->spill.gave_up_freed = s->spill.freed;
    batch_end(s);
}

/* Choose values for the batch. False: there is nothing more to do for it in this turn. */
static bool batch_choose(struct store *s, struct batch *b) {
    struct spill *p = &s->spill;
    uint64_t top = s->header->heap_top;
    unsigned looked = 0;
    for (uint64_t n, steps = 0; b->looked < top && b->bytes < b->target && !b->full &&
                                looked < DD_SPILL_CHOOSE && steps < 16 * DD_SPILL_CHOOSE;
         b->looked += n, steps++) {
        if (p->hand >= top)
            p->hand = 0;
        looked += stretch_choose(s, b, p->hand, &n);
        if (b->bytes < b->target && !b->full)
            p->hand += (uint32_t)n;
        else
            n = 0; /* there may be more in it */
    }
    if (b->looked < top && b->bytes < b->target && !b->full)
        return true;
    if (b->n == 0) {
        batch_give_up(s);
        return false;
    }
    b->state = WRITING;
    b->job.run = batch_run;
    p->since = clock_ns();
    job_give(&p->writer, &b->job);
    return false;
}

static void batch_written(struct store *s, struct batch *b) {
    struct spill *p = &s->spill;
    int rc = b->job.rc;
    p->since = clock_ns();
    p->no_space = 0;
    if (rc == 0) {
        STRESS_POINT(STRESS_W_WRITTEN);
        b->state = SWINGING;
        return;
    }
    if (b->grew) {
        p->no_space = rc;
        p->no_space_need = b->bytes;
    } else {
        spill_fail(s, rc, "values could not be written");
    }
    batch_give_up(s);
}

/* Items of moved values and the page map grew into the part that is kept from values: give back
 * memory that the moved values left, so that this part is free again. */
static void spare_restore(struct store *s) {
    uint64_t taken = budget_resident(s) + budget_spare(s),
             over = taken > s->header->budget ? taken - s->header->budget : 0;
    if (over)
        s->granted +=
            pages_punch(s, over < DD_SPILL_BACK ? over : DD_SPILL_BACK, (struct stretch){0, 0});
}

static bool batch_swing(struct store *s, struct batch *b) {
    struct spill *p = &s->spill;
    size_t to = b->n - b->swung > DD_SPILL_CHOOSE ? b->swung + DD_SPILL_CHOOSE : b->n;
    while (b->swung < to)
        move_swing(s, &b->move[b->swung++]);
    if (b->swung < b->n)
        return true;
    if (!p->writer.runs)
        store_reclaim(s); /* without threads everything is done at once */
    else if (!scan_over(s, &b->scan, false))
        return true;
    p->want -= b->gain < p->want ? b->gain : p->want;
    p->tight_until = 0; /* memory may be looked at again */
    spare_restore(s);
    batch_end(s);
    return true;
}

static bool batch_turn(struct store *s) {
    struct spill *p = &s->spill;
    if (!p->batch && (!p->want || p->failed || !batch_begin(s)))
        return false;
    struct batch *b = p->batch;
    if (b->state == CHOOSING && batch_choose(s, b))
        return true;
    if (p->batch && b->state == WRITING && job_done(&b->job))
        batch_written(s, b);
    return p->batch && b->state == SWINGING && batch_swing(s, b);
}

/* The reason why there is no room, as a sentence. */
static int error_no_room(struct store *s, uint64_t need) {
    if (s->spill.failed)
        return error_failed(s);
    return s->spill.no_space ? error_no_space(s) : spill_full(s, need);
}

int spill_make_room(struct store *s, uint64_t bytes) {
    struct spill *p = &s->spill;
    bool waits = p->writer.runs;
    if (p->fd < 0 || p->moving || !s->settled || p->failed)
        return p->failed ? error_failed(s) : DDICT_EFULL;
    if (waits && !p->batch && p->gave_up_until && p->gave_up_freed == p->freed &&
        clock_ns() < p->gave_up_until)
        return error_no_room(s, bytes);
    p->gave_up_until = 0;
    if (p->batch && p->batch->state == WRITING &&
        clock_ns() - p->since > DD_SPILL_WAIT_MS * 1000000ull)
        return error_silent(s);
    if (p->want < bytes)
        p->want = bytes;
    if (!p->batch && !batch_begin(s))
        return dd_error(-ENOMEM, "no memory to move values to the spill");
    uint64_t before = s->header->spilled_bytes;
    batch_turn(s);
    if (waits)
        return p->batch || p->want ? -EAGAIN : p->gave_up_until ? error_no_room(s, bytes) : 0;
    while (p->batch)
        batch_turn(s);
    p->want = 0;
    return !p->gave_up_until && s->header->spilled_bytes > before ? 0 : error_no_room(s, bytes);
}

/* --- a value that goes there at once --- */
struct spill_fill {
    struct spill_job job; /* first */
    struct spill_fill *next;
    struct store *s;
    uint64_t off, len;              /* of the item; of the value */
    uint8_t *bytes;                 /* [len], as far as it is not written */
    uint64_t filled, written, upto; /* upto: the job's */
    bool grew, dropped;
};

static void *room_map(uint64_t len) {
    void *at =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

int spill_reserve(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag,
                  struct store_ref *ref) {
    uint64_t off;
    if (s->spill.failed)
        return error_failed(s);
    if (!spill_pays(key_len, val_len))
        return error_no_room(s, val_len);
    int rc = head_make(s, key_len, val_len, tag, &off);
    if (rc < 0)
        return rc == DDICT_EFULL ? error_no_room(s, val_len) : rc;
    struct spill_fill *f = calloc(1, sizeof *f);
    if (f)
        f->bytes = room_map(val_len);
    if (!f || !f->bytes) {
        free(f);
        retired_free(s, off);
        return dd_error(-ENOMEM, "no memory to pass on a value to the spill");
    }
    f->s = s;
    f->off = off;
    f->len = val_len;
    f->next = s->spill.fills;
    s->spill.fills = f;
    *ref = (struct store_ref){.off = off, .item = arena_at(s, off), .value = f->bytes, .fill = f};
    return 0;
}

static void fill_free(struct store *s, struct spill_fill *f) {
    struct spill_fill **at = &s->spill.fills;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    munmap(f->bytes, f->len);
    if (f->dropped)
        retired_free(s, f->off);
    free(f);
}

void spill_drop(struct store *s, struct store_ref *ref) {
    struct spill_fill *f = ref->fill;
    ref->fill = NULL;
    f->dropped = true;
    if (!f->job.busy)
        fill_free(s, f); /* else when its job is done */
}

static void fill_run(struct spill_job *j) {
    struct spill_fill *f = (struct spill_fill *)(void *)j;
    struct store *s = f->s;
    struct item *item = arena_at(s, f->off);
    struct item_away *away = (struct item_away *)(void *)(item->key + item->key_len + item->pad);
    uint64_t n = f->upto - f->written, done = f->written & ~(uint64_t)(ARENA_PAGE - 1);
    j->rc = file_prepare(s, away->off - s->header->file_size + f->len);
    f->grew = j->rc < 0;
    if (j->rc == 0)
        j->rc = write_summed(s, away, f->bytes + f->written, f->written, n);
    if (j->rc == 0)
        begin_writeback(s);
    if (j->rc == 0 && f->upto == f->len)
        j->rc = file_flush(s);
    if (j->rc == 0)
        madvise(f->bytes + done, (f->upto - done) & ~(uint64_t)(ARENA_PAGE - 1), MADV_DONTNEED);
}

/* Take the result of its job, and begin the next one. */
static void fill_go(struct store *s, struct spill_fill *f) {
    struct spill *p = &s->spill;
    if (job_done(&f->job)) {
        p->since = clock_ns();
        p->progress++;
        if (f->job.rc == 0)
            f->written = f->upto;
        else if (f->grew)
            p->no_space = f->job.rc, p->no_space_need = f->len;
        else
            spill_fail(s, f->job.rc, "a value could not be written");
    }
    if (f->job.busy || f->job.rc < 0 || f->dropped || f->written == f->len)
        return;
    uint64_t to = f->filled == f->len ? f->len : f->filled & ~(uint64_t)(DD_SPILL_CHUNK - 1);
    if (to - f->written > DD_SPILL_AHEAD)
        to = f->written + DD_SPILL_AHEAD;
    if (to == f->written)
        return;
    f->upto = to;
    f->job.run = fill_run;
    p->since = clock_ns();
    job_give(&p->writer, &f->job);
}

int store_fill(struct store *s, struct store_ref *ref, uint64_t got) {
    struct spill_fill *f = ref->fill;
    if (!f)
        return 0;
    f->filled = got;
    do
        fill_go(s, f);
    while (!s->spill.writer.runs && f->job.busy);
    if (f->job.rc < 0 && !f->job.busy)
        return f->grew ? error_no_space(s)
                       : dd_error(-EIO, "the spill of manager %u failed: %s", s->header->manager_id,
                                  dd_strerror(f->job.rc));
    return got == f->len                           ? f->written == f->len ? 0 : -EAGAIN
           : got - f->written > 2 * DD_SPILL_AHEAD ? -EAGAIN
                                                   : 0;
}

int spill_finish(struct store *s, struct store_ref *ref) {
    int rc = store_fill(s, ref, ref->fill->len);
    if (rc < 0)
        return rc;
    fill_free(s, ref->fill);
    ref->fill = NULL;
    ref->value = NULL;
    return 0;
}

/* --- a value that is read for somebody else --- */
struct store_reading {
    struct spill_job job; /* first */
    struct store_reading *next;
    struct store *s;
    uint64_t off, len; /* of the item; of the value */
    uint8_t *bytes;    /* [len], as far as it is read and wanted */
    uint64_t ready;    /* atomic, by the thread */
    uint64_t seen, upto, sent, given_up;
    bool over;
};

static void reading_run(struct spill_job *j) {
    struct store_reading *r = (struct store_reading *)(void *)j;
    const struct item_away *away = item_away(arena_at(r->s, r->off));
    const uint64_t from = away->off - r->s->header->file_size, one = 1;
    for (uint64_t at = r->ready, n; at < r->upto && j->rc == 0; at += n) {
        n = r->len - at < DD_SPILL_CHUNK ? r->len - at : DD_SPILL_CHUNK;
        ssize_t k = read_all_at(r->s->spill.fd, r->bytes + at, n, from + at);
        if (k != (ssize_t)n)
            j->rc = k < 0 ? (int)k : -EIO;
        if (j->rc == 0 && XXH3_64bits(r->bytes + at, n) != away->sum[at / DD_SPILL_CHUNK])
            j->rc = -EBADMSG;
        if (j->rc < 0)
            break;
        __atomic_store_n(&r->ready, at + n, __ATOMIC_RELEASE);
        if (at + n < r->upto && r->s->spill.reader.runs &&
            write(r->s->spill.reader.wake_fd, &one, sizeof one) < 0) {
        }
    }
}

static void reading_free(struct store_reading *r) {
    struct store_reading **at = &r->s->spill.readings;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    munmap(r->bytes, r->len);
    store_unpin(r->s, r->off);
    free(r);
}

static void reading_go(struct store_reading *r) {
    struct spill *p = &r->s->spill;
    uint64_t ready = __atomic_load_n(&r->ready, __ATOMIC_ACQUIRE);
    bool done = job_done(&r->job);
    if (done && r->job.rc < 0 && !p->bad_reads++ && !p->trouble[0]) {
        char dir[600];
        snprintf(p->trouble, sizeof p->trouble,
                 "a value of %llu bytes in the spill of manager %u in %s can not be read: %s; who "
                 "asks for it gets an error",
                 (unsigned long long)r->len, r->s->header->manager_id, spill_folder(r->s, dir, 300),
                 r->job.rc == -EBADMSG ? "its disk gave back other bytes than were written"
                                       : dd_strerror(r->job.rc));
    }
    if (ready != r->seen || (done && r->job.rc < 0))
        p->progress++;
    r->seen = ready;
    if (r->job.busy)
        return;
    uint64_t gone = r->sent & ~(uint64_t)(ARENA_PAGE - 1);
    if (gone > r->given_up) {
        madvise(r->bytes + r->given_up, gone - r->given_up, MADV_DONTNEED);
        r->given_up = gone;
    }
    uint64_t to = r->len - r->sent > DD_SPILL_AHEAD
                      ? (r->sent + DD_SPILL_AHEAD) & ~(uint64_t)(DD_SPILL_CHUNK - 1)
                      : r->len;
    if (r->job.rc < 0 || r->over || to <= ready)
        return;
    r->upto = to;
    r->job.run = reading_run;
    job_give(&p->reader, &r->job);
}

int store_read_begin(struct store *s, const struct store_ref *ref, struct store_reading **out,
                     const uint8_t **data) {
    struct store_reading *r = calloc(1, sizeof *r);
    uint64_t len = item_len(ref->item);
    if (r && !(r->bytes = room_map(len))) {
        free(r);
        r = NULL;
    }
    if (!r)
        return dd_error(-ENOMEM, "no memory to read a value in the spill");
    if (store_pin(s, ref->off) < 0) { /* our own pin, until the last job is over */
        munmap(r->bytes, len);
        free(r);
        return -ENOMEM;
    }
    r->s = s;
    r->off = ref->off;
    r->len = len;
    r->next = s->spill.readings;
    s->spill.readings = r;
    *out = r;
    *data = r->bytes;
    reading_go(r);
    return 0;
}

int64_t store_read_ready(const struct store_reading *r, uint64_t wanted) {
    uint64_t ready = __atomic_load_n(&r->ready, __ATOMIC_ACQUIRE);
    /* bytes that are good are sent before the error is told */
    return ready < wanted && !r->job.busy && r->job.rc < 0 ? -EIO : (int64_t)ready;
}

void store_read_sent(struct store_reading *r, uint64_t sent) {
    r->sent = sent;
    reading_go(r);
}

void store_read_end(struct store_reading *r) {
    r->over = true;
    if (!r->job.busy)
        reading_free(r);
}

/* --- between requests --- */
bool spill_turn(struct store *s) {
    struct spill *p = &s->spill;
    if (p->fd < 0 || (!p->batch && !p->want && !p->fills && !p->readings))
        return false;
    for (struct spill_fill *f = p->fills, *next; f; f = next) {
        next = f->next;
        fill_go(s, f);
        if (f->dropped && !f->job.busy)
            fill_free(s, f);
    }
    for (struct store_reading *r = p->readings, *next; r; r = next) {
        next = r->next;
        reading_go(r);
        if (r->over && !r->job.busy)
            reading_free(r);
    }
    return batch_turn(s);
}

void spill_close(struct store *s) {
    struct spill *p = &s->spill;
    worker_end(&p->writer);
    worker_end(&p->reader);
    while (p->fills) {
        struct spill_fill *f = p->fills;
        p->fills = f->next;
        munmap(f->bytes, f->len);
        free(f);
    }
    while (p->readings) {
        struct store_reading *r = p->readings;
        p->readings = r->next;
        munmap(r->bytes, r->len);
        free(r);
    }
    table_free(&p->shared);
    if (p->batch)
        free(p->batch->move);
    free(p->batch);
    p->batch = NULL;
}
