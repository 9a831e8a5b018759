/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c - making and mapping a lane, and the slow paths of its rings. */
#include "lane.h"

#include <base/error.h>
#include <base/page.h>
#include <base/versions.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct lane_page) <= LANE_HEAD, "positions stand before the rings");
_Static_assert(sizeof(struct msg) == MSG_HEADER, "the header has a name");

#define LANE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int lane_create(void) {
    int fd = memfd_create("ddict-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return dd_error(-errno, "cannot make a lane: %s", strerror(errno));
    struct lane_page head = {
        .magic = LANE_MAGIC, .version = PROTOCOL_VERSION, .ring = DD_LANE_RING};
    ssize_t n = -1;
    if (ftruncate(fd, (off_t)LANE_FILE_SIZE) == 0)
        n = pwrite(fd, &head, sizeof head, 0);
    if (n != (ssize_t)sizeof head || fcntl(fd, F_ADD_SEALS, LANE_SEALS) != 0) {
        int e = n >= 0 && n != (ssize_t)sizeof head ? ENOSPC : errno;
        close(fd);
        return dd_error(-e, "cannot make a lane of %llu bytes: %s",
                        (unsigned long long)LANE_FILE_SIZE, strerror(e));
    }
    return fd;
}

static bool positions_sane(uint64_t head, uint64_t tail) {
    return ((head | tail) & 63) == 0 && tail - head <= DD_LANE_RING;
}

static void ring_init(struct ring *r, uint8_t *data, uint64_t *head, uint64_t *tail,
                      bool producer) {
    r->data = data;
    r->head = head;
    r->tail = tail;
    /* Acquire pairs with the releases in ring_consume() and ring_commit(). A consumer reads the
     * tail in ring_refill(). */
    r->pos = producer ? __atomic_load_n(tail, __ATOMIC_ACQUIRE)
                      : __atomic_load_n(head, __ATOMIC_ACQUIRE);
    r->seen = producer ? __atomic_load_n(head, __ATOMIC_ACQUIRE) : r->pos;
    r->reserved = 0;
}

int lane_map(struct lane *l, int fd, bool client) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return dd_error(-errno, "cannot look at a lane: %s", strerror(errno));
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || st.st_size < (off_t)sizeof(struct lane_page))
        return dd_error(DDICT_EPROTO, "what came as a lane is none");
    struct lane_page head;
    ssize_t n = pread(fd, &head, sizeof head, 0);
    if (n != (ssize_t)sizeof head || head.magic != LANE_MAGIC)
        return dd_error(DDICT_EPROTO, "what came as a lane is none");
    if (head.version != PROTOCOL_VERSION)
        return dd_error(DDICT_EVERSION, "a lane has version %u, expected %u", head.version,
                        PROTOCOL_VERSION);
    if (head.ring != DD_LANE_RING || st.st_size != (off_t)LANE_FILE_SIZE)
        return dd_error(DDICT_EPROTO, "a lane has rings of %u bytes in %lld, expected %u in %llu",
                        head.ring, (long long)st.st_size, DD_LANE_RING,
                        (unsigned long long)LANE_FILE_SIZE);
    void *p = mmap(NULL, LANE_RINGS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return dd_error(-errno, "cannot map a lane: %s", strerror(errno));
    struct lane t = {.page = p, .fd = -1, .client_eventfd = -1, .fenced = true};
    ring_init(&t.sq, (uint8_t *)p + LANE_HEAD, &t.page->sq_head, &t.page->sq_tail, client);
    ring_init(&t.cq, (uint8_t *)p + LANE_HEAD + DD_LANE_RING, &t.page->cq_head, &t.page->cq_tail,
              !client);
    const struct ring *produced = client ? &t.sq : &t.cq, *consumed = client ? &t.cq : &t.sq;
    if (!positions_sane(produced->seen, produced->pos) ||
        !positions_sane(consumed->pos, __atomic_load_n(consumed->tail, __ATOMIC_RELAXED))) {
        munmap(p, LANE_RINGS_SIZE);
        return dd_error(DDICT_EPROTO, "a lane has impossible positions");
    }
    t.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (t.fd < 0) {
        int e = errno;
        munmap(p, LANE_RINGS_SIZE);
        return dd_error(-e, "cannot keep a lane: %s", strerror(e));
    }
    *l = t;
    return 0;
}

uint8_t *lane_area(struct lane *l) {
    if (l->area)
        return l->area;
    void *p = mmap(NULL, DD_LANE_AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, l->fd,
                   LANE_RINGS_SIZE);
    if (p == MAP_FAILED) {
        dd_error(-errno, "cannot map the area of a lane, %llu bytes of address space: %s",
                 (unsigned long long)DD_LANE_AREA, strerror(errno));
        return NULL;
    }
    madvise(p, DD_LANE_AREA, MADV_DONTDUMP);
    l->area = p;
    return p;
}

/* windows overlap, so each piece is within one */
#define WINDOW_STEP (DD_LANE_WINDOW / 2)
_Static_assert(DD_AREA_KEPT <= DD_LANE_WINDOW + (LANE_WINDOWS - 1) * WINDOW_STEP,
               "what is used again stays mapped");
_Static_assert(DD_MSG_PIECE <= WINDOW_STEP && DD_LANE_AREA % WINDOW_STEP == 0,
               "a piece lies in one window");

static uint64_t window_len(uint64_t at) {
    return DD_LANE_AREA - at < DD_LANE_WINDOW ? DD_LANE_AREA - at : DD_LANE_WINDOW;
}

static void window_unmap(struct lane_window *w) {
    if (w->map)
        munmap((void *)(uintptr_t)w->map, window_len(w->at));
    w->map = NULL;
}

const uint8_t *lane_window(struct lane *l, uint64_t off, uint64_t len, int *code) {
    struct lane_window *w = NULL, *oldest = &l->window[0];
    *code = DDICT_EPROTO;
    if (off > DD_LANE_AREA || len > DD_LANE_AREA - off || len > DD_MSG_PIECE)
        return NULL;
    for (unsigned i = 0; i < LANE_WINDOWS; i++) {
        w = &l->window[i];
        if (w->map && off >= w->at && off - w->at + len <= window_len(w->at)) {
            w->used = ++l->windows_used;
            return w->map + (off - w->at);
        }
        if (!w->map || (oldest->map && w->used < oldest->used))
            oldest = w;
    }
    w = oldest;
    window_unmap(w);
    w->at = off - off % WINDOW_STEP;
    void *p = mmap(NULL, window_len(w->at), PROT_READ, MAP_SHARED | MAP_NORESERVE, l->fd,
                   (off_t)(LANE_RINGS_SIZE + w->at));
    *code = -ENOMEM;
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, window_len(w->at), MADV_DONTDUMP);
    w->map = p;
    w->used = ++l->windows_used;
    return w->map + (off - w->at);
}

/* Those that overlap the range. */
static void windows_unmap(struct lane *l, uint64_t at, uint64_t len) {
    for (struct lane_window *w = l->window; w < l->window + LANE_WINDOWS; w++)
        if (w->at < at + len && at < w->at + window_len(w->at))
            window_unmap(w);
}

/* --- memory that a burst has left --- */
static bool shrink_begin(struct lane *l, bool barriers) {
    __atomic_store_n(&l->page->taking, 1, __ATOMIC_RELAXED);
    /* pairs with those of lane_write_begin() and lane_area_begin() */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    /* for clients without a fence of their own */
    if (!barriers || syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)
        return true;
    __atomic_store_n(&l->page->taking, 0, __ATOMIC_RELEASE);
    return false;
}

static void shrink_end(struct lane *l) {
    /* pairs with the acquire in lane_write_begin(): what the client writes after it stays */
    __atomic_store_n(&l->page->taking, 0, __ATOMIC_RELEASE);
    lane_wake_client(l); /* the client may wait for room */
}

static int lane_punch_hole(struct lane *l, uint64_t at, uint64_t len) {
    return fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)len) == 0
               ? 0
               : -errno;
}

/* Punch all pages of the ring that begins at `data`, except those with bytes between the two
 * positions. */
static int punch_ring(struct lane *l, uint64_t data, uint64_t head, uint64_t tail) {
    uint64_t page = page_size(), from = (tail + page - 1) & ~(page - 1),
             to = (head + DD_LANE_RING) & ~(page - 1);
    int rc = 0;
    while (from < to && rc == 0) {
        uint64_t off = from & (DD_LANE_RING - 1),
                 len = to - from < DD_LANE_RING - off ? to - from : DD_LANE_RING - off;
        rc = lane_punch_hole(l, data + off, len);
        from += len;
    }
    return rc;
}

int lane_shrink_rings(struct lane *l, bool barriers) {
    /* Acquire pairs with the release of head in ring_consume(): the client's reads are over. It
     * reads only between head and tail of CQ. */
    uint64_t head = __atomic_load_n(l->cq.head, __ATOMIC_ACQUIRE);
    int rc = positions_sane(head, l->cq.pos)
                 ? punch_ring(l, LANE_HEAD + DD_LANE_RING, head, l->cq.pos)
                 : 0;
    if (rc < 0 || !shrink_begin(l, barriers))
        return rc < 0 ? rc : -EBUSY;
    bool used = __atomic_load_n(&l->page->sq_used, __ATOMIC_ACQUIRE) != 0 || ring_ready(&l->sq);
    rc = used ? -EBUSY : punch_ring(l, LANE_HEAD, l->sq.pos, l->sq.pos);
    shrink_end(l);
    return rc;
}

int lane_shrink_area(struct lane *l, bool barriers, uint64_t at, uint64_t len) {
    int rc = -EBUSY;
    windows_unmap(l, at, len);
    if (!shrink_begin(l, barriers))
        return rc;
    uint64_t area = __atomic_load_n(&l->page->area, __ATOMIC_ACQUIRE);
    if (area == LANE_AREA_FREE ||
        ((area & LANE_AREA_UNTIL) != 0 && (int64_t)(l->sq.pos - (area & ~63ull)) >= 0))
        rc = lane_punch_hole(l, LANE_RINGS_SIZE + at, len);
    shrink_end(l);
    return rc;
}

uint64_t lane_area_begin(struct lane *l) {
    __atomic_store_n(&l->page->area, LANE_AREA_USED, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with that of shrink_begin() */
    return __atomic_load_n(&l->page->taking, __ATOMIC_ACQUIRE) != 0 ? DD_AREA_KEPT : 0;
}

uint64_t lane_memory(const struct lane *l) {
    struct stat st;
    return fstat(l->fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

void lane_unmap(struct lane *l) {
    windows_unmap(l, 0, DD_LANE_AREA);
    if (l->page) {
        munmap(l->page, LANE_RINGS_SIZE);
        close(l->fd);
    }
    if (l->area)
        munmap(l->area, DD_LANE_AREA);
    memset(l, 0, sizeof *l);
    l->fd = -1;
    l->client_eventfd = -1;
}

void *ring_reserve_some(struct ring *r, uint32_t least, uint32_t *most, bool *bad) {
    uint64_t off = r->pos & (DD_LANE_RING - 1), to_end = DD_LANE_RING - off,
             need = lane_round(MSG_HEADER + least);
    uint64_t want = lane_round(MSG_HEADER + *most), room = DD_LANE_RING - (r->pos - r->seen);
    /* seen may be old; only then the head is read again */
    if (room < to_end + want) {
        /* Acquire as in ring_reserve(). */
        uint64_t head = __atomic_load_n(r->head, __ATOMIC_ACQUIRE);
        if (head - r->seen > r->pos - r->seen) {
            *bad = true;
            return NULL;
        }
        r->seen = head;
        room = DD_LANE_RING - (r->pos - head);
    }
    uint64_t here = room < to_end ? room : to_end;
    if (here < need)
        here = room > to_end ? room - to_end : 0; /* behind a PAD */
    if (here < need)
        return NULL;
    uint32_t len = (uint32_t)((here < want ? here : want) - MSG_HEADER);
    *most = len < *most ? len : *most;
    return ring_reserve(r, MSG_HEADER + *most, bad);
}

bool ring_look_for_room(struct ring *r, bool *bad) {
    /* Acquire as in ring_reserve(). */
    uint64_t head = __atomic_load_n(r->head, __ATOMIC_ACQUIRE);
    *bad = head - r->seen > r->pos - r->seen;
    if (*bad)
        return false;
    r->seen = head;
    return r->pos - head <= LANE_ROOM_ALWAYS;
}

int ring_refill(struct ring *r) {
    /* Acquire pairs with the release of tail in ring_commit(). */
    uint64_t tail = __atomic_load_n(r->tail, __ATOMIC_ACQUIRE);
    if (tail == r->pos)
        return 0;
    if (!positions_sane(r->pos, tail))
        return DDICT_EPROTO;
    r->seen = tail;
    return 1;
}

int ring_skip_pad(struct ring *r, uint32_t len) {
    uint64_t off = r->pos & (DD_LANE_RING - 1);
    /* A PAD is shorter than the record for which it makes room, so it is never at the start of the
     * ring, and never follows another. */
    if (len != DD_LANE_RING - off || len > r->seen - r->pos || len >= LANE_RECORD_MAX)
        return DDICT_EPROTO;
    r->pos += len;
    __atomic_store_n(r->head, r->pos, __ATOMIC_RELEASE); /* as in ring_consume() */
    return 1;
}

int ring_look(const struct ring *r, uint64_t *at, struct msg *m) {
    while (*at != r->pos) {
        uint64_t left = r->pos - *at, off = *at & (DD_LANE_RING - 1);
        memcpy(m, r->data + off, sizeof *m);
        bool pad = m->type == MSG_PAD;
        if (pad ? m->len != DD_LANE_RING - off : msg_check(m, LANE_RECORD_MAX) < 0)
            return DDICT_EPROTO;
        uint64_t need = lane_round(m->len);
        if (need > left || off + need > DD_LANE_RING)
            return DDICT_EPROTO;
        *at += need;
        if (!pad)
            return 1;
    }
    return 0;
}

static long futex_call(uint32_t *word, int op, uint32_t val, const struct timespec *timeout) {
    return syscall(SYS_futex, word, op, val, timeout, NULL, 0);
}

void lane_wake_sleepers(struct lane *l) {
    uint32_t who = __atomic_exchange_n(&l->page->client_sleeps, 0, __ATOMIC_RELAXED);
    if (who & LANE_SLEEPS) {
        /* Release: the flag is clear before the doorbell changes; pairs with the acquire in
         * lane_sleep_announce(). */
        __atomic_fetch_add(&l->page->doorbell, 1, __ATOMIC_RELEASE);
        futex_call(&l->page->doorbell, FUTEX_WAKE, INT_MAX, NULL);
    }
    if (who & LANE_POLLS && l->client_eventfd >= 0)
        eventfd_write(l->client_eventfd, 1); /* EAGAIN: it is readable already */
}

void lane_resume(struct lane *l) {
    /* Release as in shrink_end(). */
    __atomic_store_n(&l->page->taking, 0, __ATOMIC_RELEASE);
    /* The other manager may have cleared the flags and not rung. */
    __atomic_fetch_or(&l->page->client_sleeps, LANE_SLEEPS | LANE_POLLS, __ATOMIC_RELAXED);
    lane_wake_sleepers(l);
}

uint32_t lane_sleep_announce(struct lane *l) {
    /* Acquire: the doorbell is read before the flag is set. Whoever clears the flag after that
     * changes the doorbell. */
    uint32_t doorbell = __atomic_load_n(&l->page->doorbell, __ATOMIC_ACQUIRE);
    /* a polling thread may have set its bit */
    __atomic_fetch_or(&l->page->client_sleeps, LANE_SLEEPS, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with that of lane_wake_client() */
    return doorbell;
}

void lane_poll_announce(struct lane *l) {
    __atomic_fetch_or(&l->page->client_sleeps, LANE_POLLS, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with that of lane_wake_client() */
}

void lane_sleep(struct lane *l, uint32_t doorbell, int slice_ms) {
    struct timespec t = {.tv_sec = slice_ms / 1000, .tv_nsec = slice_ms % 1000 * 1000000L};
    /* spurious wake-ups do no harm: the caller looks again */
    futex_call(&l->page->doorbell, FUTEX_WAIT, doorbell, &t);
}
