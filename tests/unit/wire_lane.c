/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_lane.c - rings between a client and a manager. Invariants: records come whole, once, in
 * order; a hostile other side makes an error, never a read outside the ring.
 */
#include "wire_lanes.h"
#include <base/clock.h>
#include <base/page.h>
#include <base/versions.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* --- failing libc --- */
static bool fail_memfd, fail_truncate, short_pwrite, fail_seal;
int memfd_create(const char *name, unsigned flags) {
    if (fail_memfd) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}
int ftruncate(int fd, off_t len) {
    if (fail_truncate) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_ftruncate, fd, len);
}
ssize_t pwrite(int fd, const void *buf, size_t n, off_t off) {
    return syscall(SYS_pwrite64, fd, buf, short_pwrite ? n / 2 : n, off);
}
int fcntl(int fd, int cmd, ...) {
    va_list ap;
    va_start(ap, cmd);
    long arg = va_arg(ap, long);
    va_end(ap);
    if (fail_seal && cmd == F_ADD_SEALS) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

static int mappings_of_lane(void) {
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, f))
        n += strstr(line, "ddict-lane") != NULL;
    fclose(f);
    return n;
}

START_TEST(a_new_lane_is_sealed_and_empty) {
    struct msg m;
    const uint8_t *p;
    ck_assert_int_eq(ftruncate(lane_fd, 4096), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(ftruncate(lane_fd, 1 << 24), -1);
    ck_assert(fcntl(lane_fd, F_GETFD, 0L) & FD_CLOEXEC);
    ck_assert(!ring_ready(&mg.sq));
    ck_assert_int_eq(ring_peek(&mg.sq, &m, &p), 0);
    ck_assert_int_eq(ring_peek(&cl.cq, &m, &p), 0);
}
END_TEST

START_TEST(a_record_stays_until_it_is_consumed) {
    struct msg m;
    const uint8_t *p;
    ck_assert(put(&cl.sq, 7, 100));
    ck_assert(ring_ready(&mg.sq));
    ck_assert_int_eq(ring_peek(&mg.sq, &m, &p), 1);
    ck_assert_int_eq(ring_peek(&mg.sq, &m, &p), 1);
    ck_assert_uint_eq(m.id, 7);
    ring_consume(&mg.sq, &m);
    ck_assert_int_eq(ring_peek(&mg.sq, &m, &p), 0);
    ck_assert(!ring_ready(&mg.sq));
}
END_TEST

START_TEST(a_reservation_that_is_not_committed_is_forgotten) {
    bool bad = false;
    ck_assert_ptr_nonnull(ring_reserve(&cl.sq, 5000, &bad));
    ck_assert(!ring_ready(&mg.sq));
    ck_assert(put(&cl.sq, 1, 10));
    ck_assert(take(&mg.sq, 1));
    ck_assert(!ring_ready(&mg.sq));
}
END_TEST

/* All sizes, so that every distance to the end of the ring comes up. */
START_TEST(records_of_all_sizes_wrap_with_pads) {
    uint64_t in = 0, out = 0, seed = 3;
    uint32_t max = LANE_RECORD_MAX - MSG_HEADER;
    while (out < 10000) {
        uint32_t n = test_random(&seed) % 16 == 0 ? max - (uint32_t)(test_random(&seed) % 70)
                                                  : (uint32_t)(test_random(&seed) % 700);
        while (!put(&cl.sq, in, n))
            if (!take(&mg.sq, out++))
                ck_abort_msg("no room in an empty ring");
        in++;
        if (test_random(&seed) % 2)
            out += take(&mg.sq, out);
    }
    while (out < in)
        ck_assert(take(&mg.sq, out++));
    ck_assert(!ring_ready(&mg.sq));
}
END_TEST

/* Whether a record of the largest size has room is known before one is written. */
START_TEST(a_ring_with_room_has_it_for_any_record) {
    uint64_t in = 0, out = 0;
    uint32_t max = LANE_RECORD_MAX - MSG_HEADER;
    bool bad = false, full = false;
    for (unsigned i = 0; i < 4000; i++) {
        bool room = ring_has_room(&cl.sq, &bad);
        ck_assert(!bad);
        full |= !room;
        if (room)
            ck_assert(put(&cl.sq, in++, max));
        else
            ck_assert(take(&mg.sq, out++));
        if (put(&cl.sq, in, 64 * (i % 7)))
            in++;
    }
    ck_assert(full);
    cl.page->sq_head = cl.sq.pos + 64; /* the other side is hostile */
    while (!bad && ring_has_room(&cl.sq, &bad) && put(&cl.sq, in, max))
        in++;
    ck_assert(bad);
}
END_TEST

/* Room for as much as there is, and records that turn out shorter. */
START_TEST(records_of_what_there_is_room_for_come_whole) {
    uint64_t in = 0, out = 0, seed = 17, less = 0;
    bool bad = false;
    for (int turn = 0; turn < 4000; turn++) {
        uint32_t want = 1 + (uint32_t)(test_random(&seed) % DD_MSG_PIECE), room = want,
                 least = want < 8192 ? want : 8192;
        uint8_t *at = ring_reserve_some(&mg.cq, least, &room, &bad);
        ck_assert(!bad);
        if (!at) {
            ck_assert_uint_lt(out, in); /* an empty ring has room */
            ck_assert(take(&cl.cq, out++));
            continue;
        }
        ck_assert(room >= least && room <= want);
        less += room < want;
        uint32_t n = test_random(&seed) % 3 == 0 ? room : 1 + (uint32_t)(test_random(&seed) % room);
        struct msg m = {.len = MSG_HEADER + n, .type = MSG_REPLY, .id = in};
        memcpy(at, &m, sizeof m);
        for (uint32_t i = 0; i < room; i++) /* it may write all that it was given */
            at[MSG_HEADER + i] = (uint8_t)(in * 31 + i);
        if (test_random(&seed) % 8 == 0)
            continue; /* nothing came: forgotten */
        ring_trim(&mg.cq, MSG_HEADER + room, m.len);
        ring_commit(&mg.cq);
        in++;
        if (test_random(&seed) % 3 == 0)
            ck_assert(take(&cl.cq, out++));
    }
    while (out < in)
        ck_assert(take(&cl.cq, out++));
    ck_assert(!ring_ready(&cl.cq));
    ck_assert_uint_gt(less, 100);
    /* beyond what was written */
    __atomic_store_n(mg.cq.head, mg.cq.pos + 64, __ATOMIC_RELEASE);
    uint32_t room = DD_MSG_PIECE;
    for (int i = 0; i < 8 && !bad; i++)
        if (ring_reserve_some(&mg.cq, 8192, &room, &bad))
            ring_commit(&mg.cq);
    ck_assert(bad);
}
END_TEST

START_TEST(a_full_ring_gives_no_room_and_then_exactly_what_was_freed) {
    uint64_t in = 0, out = 0;
    uint32_t quarter = DD_LANE_RING / 4 - MSG_HEADER;
    for (int round = 0; round < 10; round++) {
        while (put(&mg.cq, in, quarter))
            in++;
        ck_assert_uint_eq(in - out, 4);
        ck_assert(!put(&mg.cq, in, 0));
        ck_assert(take(&cl.cq, out++));
        ck_assert(put(&mg.cq, in++, quarter));
        ck_assert(!put(&mg.cq, in, 0));
        while (out < in)
            ck_assert(take(&cl.cq, out++));
    }
}
END_TEST

START_TEST(a_manager_that_takes_over_goes_on_where_the_other_was) {
    for (uint64_t i = 0; i < 50; i++)
        ck_assert(put(&cl.sq, i, 5000));
    for (uint64_t i = 0; i < 30; i++)
        ck_assert(take(&mg.sq, i));
    for (uint64_t i = 0; i < 5; i++)
        ck_assert(put(&mg.cq, i, 100));
    ck_assert(take(&cl.cq, 0));
    lane_unmap(&mg);
    ck_assert_int_eq(lane_map(&mg, lane_fd, false), 0);
    for (uint64_t i = 30; i < 50; i++)
        ck_assert(take(&mg.sq, i));
    ck_assert(!ring_ready(&mg.sq));
    ck_assert(put(&mg.cq, 5, 100));
    for (uint64_t i = 1; i < 6; i++)
        ck_assert(take(&cl.cq, i));
}
END_TEST

START_TEST(failures_of_the_system_leave_nothing) {
    bool *const faults[] = {&fail_memfd, &fail_truncate, &short_pwrite, &fail_seal};
    static const int code[] = {-EMFILE, -ENOSPC, -ENOSPC, -EPERM};
    for (int i = 0; i < 4; i++) {
        int n = fds_open();
        *faults[i] = true;
        ck_assert_int_eq(lane_create(), code[i]);
        *faults[i] = false;
        ck_assert_int_eq(fds_open(), n);
    }
}
END_TEST

static int forged(uint64_t magic, uint32_t version, uint32_t ring, off_t size, uint64_t sq_tail,
                  uint64_t cq_head, int seals) {
    struct lane_page p = {
        .magic = magic, .version = version, .ring = ring, .sq_tail = sq_tail, .cq_head = cq_head};
    struct lane l = {0};
    int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(fd, size), 0);
    if (size >= (off_t)sizeof p)
        ck_assert_int_eq(pwrite(fd, &p, sizeof p, 0), sizeof p);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, (long)seals), 0);
    int e = lane_map(&l, fd, false);
    if (e == 0)
        lane_unmap(&l);
    else
        ck_assert_ptr_null(l.page);
    close(fd);
    return e;
}

START_TEST(what_is_no_lane_is_refused) {
    const uint32_t v = PROTOCOL_VERSION, r = DD_LANE_RING;
    const off_t size = LANE_FILE_SIZE;
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, 0, 0, F_SEAL_SHRINK), 0);
    ck_assert_int_eq(forged(LANE_MAGIC, v + 1, r, size, 0, 0, F_SEAL_SHRINK), DDICT_EVERSION);
    ck_assert_int_eq(forged(LANE_MAGIC + 1, v, r, size, 0, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r * 2, size, 0, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size - 1, 0, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, 10, 0, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    /* could shrink: SIGBUS */
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, 0, 0, 0), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, r + 64, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, 8, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, 0, 64, F_SEAL_SHRINK), DDICT_EPROTO);
    struct lane l;
    ck_assert_int_eq(lane_map(&l, 0, false), DDICT_EPROTO);
    ck_assert_int_eq(lane_map(&l, -1, false), -EBADF);
}
END_TEST

/* --- a hostile other side --- */

START_TEST(impossible_heads_are_noticed_by_the_producer) {
    bool bad = false;
    for (uint64_t i = 0; put(&cl.sq, i, 60000); i++)
        ;
    uint64_t pos = cl.sq.pos;
    const uint64_t evil[] = {pos + 64, pos + DD_LANE_RING, UINT64_MAX, (uint64_t)0 - 64};
    for (int i = 0; i < 4; i++) {
        bad = false;
        mg.page->sq_head = evil[i];
        ck_assert_ptr_null(ring_reserve(&cl.sq, 60000, &bad));
        ck_assert(bad);
    }
    ck_assert_uint_eq(cl.sq.pos, pos);
}
END_TEST

/* A ring in malloc'ed memory: the address sanitizer sees any byte beyond it. */
static uint64_t tail_word, head_word;
static struct ring malloced(uint8_t *data, uint64_t pos) {
    tail_word = head_word = pos;
    return (struct ring){
        .data = data, .tail = &tail_word, .head = &head_word, .pos = pos, .seen = pos};
}

START_TEST(random_headers_and_positions_never_lead_outside_the_ring) {
    uint8_t *data = malloc(DD_LANE_RING);
    uint64_t seed = 11, good = 0, refused = 0, sum = 0;
    memset(data, 0xa5, DD_LANE_RING);
    for (int i = 0; i < 50000; i++) {
        struct ring r = malloced(
            data,
            (test_random(&seed) % 5 * DD_LANE_RING + test_random(&seed) % DD_LANE_RING) & ~63ull);
        if (i % 3 == 0)
            r.pos |= DD_LANE_RING - 64 * (1 + test_random(&seed) % 3); /* near the end */
        r.seen = r.pos;
        for (int k = 0; k < 4; k++) { /* heads where records may begin */
            uint64_t at = (r.pos + (uint64_t)k * 64) & (DD_LANE_RING - 1);
            struct msg m = {.type = (uint16_t)(test_random(&seed) % MSG_TYPE_N)};
            uint64_t how = test_random(&seed) % 4;
            m.len = how == 0   ? (uint32_t)test_random(&seed)
                    : how == 1 ? 64
                    : how == 2 ? (uint32_t)(DD_LANE_RING - at)
                               : 64 + (uint32_t)(test_random(&seed) % 300);
            m.key_len = test_random(&seed) % 2 ? m.len - 64 : (uint32_t)(test_random(&seed) % 300);
            m.val_len = m.len - 64 - m.key_len;
            memcpy(data + at, &m, sizeof m);
        }
        uint64_t how = test_random(&seed) % 4;
        tail_word = r.pos + (how == 0   ? test_random(&seed)
                             : how == 1 ? 64
                             : how == 2 ? DD_LANE_RING
                                        : 64 * (test_random(&seed) % 9000));
        for (int k = 0; k < 8; k++) {
            struct msg m;
            const uint8_t *p;
            int e = ring_peek(&r, &m, &p);
            if (e <= 0) {
                refused += e == DDICT_EPROTO;
                break;
            }
            good++;
            if (p < data + 64 || p + (m.len - 64) > data + DD_LANE_RING)
                ck_abort_msg("outside the ring");
            for (uint32_t b = 0; b < m.len - 64; b++)
                sum += p[b];
            ring_consume(&r, &m);
            if (r.pos % 64 != 0 || tail_word - r.pos > DD_LANE_RING)
                ck_abort_msg("position %lu of %lu", (unsigned long)r.pos, (unsigned long)tail_word);
        }
    }
    ck_assert_uint_gt(good, 2000);
    ck_assert_uint_gt(refused, 10000);
    ck_assert_uint_gt(sum, 0);
    free(data);
}
END_TEST

START_TEST(pads_that_are_not_those_of_a_producer_are_refused) {
    uint8_t *data = calloc(1, DD_LANE_RING);
    struct msg m, pad = {.type = MSG_PAD};
    const uint8_t *p;
    const struct {
        uint64_t pos;
        uint32_t len;
    } evil[] = {
        /* a whole ring of nothing, for ever */
        {0, DD_LANE_RING},
        {0, 64},
        {DD_LANE_RING - 128, 64}, /* not up to the end */
        {DD_LANE_RING - 128, 192},
        {DD_LANE_RING - 64, 0},
        {DD_LANE_RING - LANE_RECORD_MAX, LANE_RECORD_MAX}, /* more than any record needs */
    };
    for (unsigned i = 0; i < sizeof evil / sizeof *evil; i++) {
        struct ring r = malloced(data, evil[i].pos);
        pad.len = evil[i].len;
        memcpy(data + evil[i].pos, &pad, sizeof pad);
        tail_word = evil[i].pos + DD_LANE_RING;
        ck_assert_int_eq(ring_peek(&r, &m, &p), DDICT_EPROTO);
    }
    struct ring r = malloced(data, DD_LANE_RING - 128);
    pad.len = 128;
    memcpy(data + DD_LANE_RING - 128, &pad, sizeof pad);
    tail_word = DD_LANE_RING; /* a pad and nothing behind it: odd, and harmless */
    ck_assert_int_eq(ring_peek(&r, &m, &p), 0);
    ck_assert_uint_eq(head_word, DD_LANE_RING);
    free(data);
}
END_TEST

/* Pieces at any place of the area, near and far, in turns: what the client wrote there is what is
 * seen, with few mappings and no more. */
START_TEST(the_area_is_seen_through_windows) {
    static const uint64_t at[] = {0,
                                  4096,
                                  DD_LANE_WINDOW / 2 - 100,
                                  DD_LANE_WINDOW - 100,
                                  DD_LANE_WINDOW + 4096,
                                  7 * DD_LANE_WINDOW + 12345,
                                  DD_LANE_AREA / 2 - 1,
                                  DD_LANE_AREA - DD_MSG_PIECE};
    enum { N = sizeof at / sizeof *at };
    uint64_t seed = 21;
    int code;
    uint8_t *area = lane_area(&cl);
    ck_assert_ptr_nonnull(area);
    for (unsigned i = 0; i < N; i++)
        memset(area + at[i], (int)i + 1, 1000);
    int before = mappings_of_lane();
    for (int turn = 0; turn < 2000; turn++) {
        unsigned i = (unsigned)(test_random(&seed) % N);
        uint64_t skip = test_random(&seed) % 1000;
        const uint8_t *p = lane_window(&mg, at[i] + skip, 1000 - skip, &code);
        ck_assert_ptr_nonnull(p);
        ck_assert_int_eq(p[0], (int)i + 1);
        ck_assert_int_eq(p[1000 - skip - 1], (int)i + 1);
        ck_assert_int_le(mappings_of_lane(), before + (int)LANE_WINDOWS);
    }
    ck_assert_ptr_nonnull(lane_window(&mg, DD_LANE_AREA - DD_MSG_PIECE, DD_MSG_PIECE, &code));
    static const struct {
        uint64_t off, len;
    } bad[] = {{DD_LANE_AREA - 10, 11},
               {DD_LANE_AREA + 1, 0},
               {UINT64_MAX, 2},
               {0, DD_MSG_PIECE + 1},
               {4, UINT64_MAX}};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_ptr_null(lane_window(&mg, bad[i].off, bad[i].len, &code));
        ck_assert_int_eq(code, DDICT_EPROTO);
    }
}
END_TEST

/* --- memory that a burst has left --- */
static uint64_t pages_of(uint64_t from, uint64_t to) {
    static unsigned char in[LANE_RINGS_SIZE / 4096];
    uint64_t n = 0, page = page_size();
    ck_assert_int_eq(mincore(mg.page, LANE_RINGS_SIZE, in), 0);
    for (uint64_t i = from / page; i < to / page; i++)
        n += in[i] & 1;
    return n;
}

START_TEST(an_idle_lane_gives_back_all_but_what_is_in_it) {
    uint8_t *area = lane_area(&cl);
    const uint64_t page = page_size(), many = DD_LANE_RING / page - 2 - 32768 / page,
                   sq = LANE_HEAD, cq = sq + DD_LANE_RING, end = cq + DD_LANE_RING;
    uint64_t small = lane_memory(&mg), id = 0, sent;
    for (uint32_t k = 0; k < 30; k++, id++) { /* both rings once round and more */
        ck_assert(put(&cl.sq, id, 30000) && take(&mg.sq, id));
        ck_assert(put(&mg.cq, id, 30000) && take(&cl.cq, id));
    }
    for (sent = id; sent < id + 5; sent++) /* answers that nobody has taken */
        ck_assert(put(&mg.cq, sent, 30000));
    ck_assert_uint_eq(lane_area_begin(&cl), 0);
    memset(area, 7, 8 << 20);
    ck_assert_uint_ge(lane_memory(&mg), (8 << 20) + 900000);

    ck_assert_int_eq(lane_shrink_area(&mg, false, 0, 8 << 20), -EBUSY); /* places are there */
    lane_area_end(&cl, LANE_AREA_UNTIL | (cl.sq.pos + 64));
    /* a record may still name one */
    ck_assert_int_eq(lane_shrink_area(&mg, false, 0, 8 << 20), -EBUSY);
    ck_assert(lane_write_begin(&cl));
    ck_assert_int_eq(lane_shrink_rings(&mg, false), -EBUSY);
    ck_assert_uint_ge(pages_of(sq, cq), many);
    ck_assert(put(&cl.sq, id, 0));
    lane_write_end(&cl);
    ck_assert_int_eq(lane_shrink_rings(&mg, false), -EBUSY); /* a record is there */
    ck_assert_uint_ge(pages_of(sq, cq), many);
    ck_assert(take(&mg.sq, id));
    ck_assert_int_eq(lane_shrink_rings(&mg, false), 0);
    ck_assert_int_eq(lane_shrink_area(&mg, false, 0, 4 << 20), 0);
    ck_assert_int_eq(lane_shrink_area(&mg, false, 4 << 20, 4 << 20), 0);
    ck_assert_uint_le(pages_of(sq, cq), 1);
    ck_assert_uint_le(pages_of(cq, end), 5 * 30080 / page + 2);
    for (; id < sent; id++)
        ck_assert(take(&cl.cq, id)); /* each byte of them */
    ck_assert_int_eq(lane_shrink_rings(&mg, false), 0);
    ck_assert_uint_le(lane_memory(&mg), small + 2 * page);
    for (uint32_t k = 0; k < 100; k++, id++) { /* and on it goes */
        ck_assert(put(&cl.sq, id, 30000) && take(&mg.sq, id));
        ck_assert(put(&mg.cq, id, 30000) && take(&cl.cq, id));
    }
    mg.page->taking = 1; /* while it takes: no record, and places where nothing is taken */
    ck_assert(!lane_write_begin(&cl));
    ck_assert_uint_eq(mg.page->sq_used, 0);
    ck_assert_uint_eq(lane_area_begin(&cl), DD_AREA_KEPT);
    mg.page->taking = 0;
    ck_assert(lane_write_begin(&cl));
    mg.page->cq_head = UINT64_MAX; /* of a client that lies: nothing of it is taken */
    ck_assert_int_eq(lane_shrink_rings(&mg, false), -EBUSY);
}
END_TEST

/* A client that writes at any moment, and a manager that takes the memory of all that is not in use
 * at any moment: each byte comes. */
static bool with_barriers, shrink_over;
static uint64_t shrunk, refused;
static void *shrinks(void *arg) {
    uint64_t next = 0, seed = 77;
    int code;
    while (!__atomic_load_n(&shrink_over, __ATOMIC_ACQUIRE)) {
        struct msg m;
        const uint8_t *p;
        bool got = ring_peek(&mg.sq, &m, &p) > 0;
        if (got) {
            uint64_t at = m.aux; /* of a value in the area, or 0 */
            if (at != 0 && *lane_window(&mg, at - 1, 1, &code) != (uint8_t)(m.id | 1))
                ck_abort_msg("the area of record %lu", (unsigned long)m.id);
            if (!take(&mg.sq, next) || !put(&mg.cq, next, (uint32_t)(test_random(&seed) % 9000)))
                ck_abort_msg("record %lu", (unsigned long)next);
            next++;
            continue;
        }
        if (lane_shrink_rings(&mg, with_barriers) == 0)
            __atomic_fetch_add(&shrunk, 1, __ATOMIC_RELAXED);
        else
            refused++;
        if (lane_shrink_area(&mg, with_barriers, 0, 1 << 20) < 0)
            refused++;
        if (test_random(&seed) % 8 == 0)
            sched_yield();
    }
    return NULL;
}

static void shrinking(bool barriers, double secs) {
    pthread_t t;
    uint64_t seed = 5, id = 0;
    uint64_t end_ms;
    uint8_t *area = lane_area(&cl);
    with_barriers = barriers;
    cl.fenced = !barriers;
    shrink_over = false;
    shrunk = refused = 0;
    ck_assert_int_eq(pthread_create(&t, NULL, shrinks, NULL), 0);
    end_ms = clock_ms() + (uint64_t)(secs * 1000);
    for (;; id++) {
        uint64_t place = UINT64_MAX, now = id % 64 == 0 ? clock_ms() : 0;
        /* longer where others have the cores, so that the thread had its turns, too */
        if (now > end_ms &&
            (now > end_ms + WAIT_MS / 2 || __atomic_load_n(&shrunk, __ATOMIC_RELAXED) > 100))
            break;
        if (test_random(&seed) % 3 == 0) {
            place = lane_area_begin(&cl) + test_random(&seed) % 1000;
            area[place] = (uint8_t)(id | 1);
        }
        for (volatile uint64_t spin = test_random(&seed) % 3000; spin > 0; spin--) {
        }
        while (!lane_write_begin(&cl))
            sched_yield();
        uint32_t len = (uint32_t)(test_random(&seed) % 9000);
        bool bad = false;
        struct msg *head = ring_reserve(&cl.sq, MSG_HEADER + len, &bad);
        ck_assert(head && !bad);
        *head = (struct msg){.len = MSG_HEADER + len,
                             .type = MSG_REPLY,
                             .id = id,
                             .aux = place == UINT64_MAX ? 0 : place + 1};
        for (uint32_t i = 0; i < len; i++)
            ((uint8_t *)(head + 1))[i] = (uint8_t)(id * 31 + i);
        ring_commit(&cl.sq);
        lane_write_end(&cl);
        if (place != UINT64_MAX)
            lane_area_end(&cl, LANE_AREA_UNTIL | cl.sq.pos);
        while (!take(&cl.cq, id))
            sched_yield();
    }
    __atomic_store_n(&shrink_over, true, __ATOMIC_RELEASE);
    pthread_join(t, NULL);
    printf("%s: %lu records, memory taken %lu times, %lu times in use\n",
           barriers ? "membarrier" : "fences", (unsigned long)id, (unsigned long)shrunk,
           (unsigned long)refused);
    ck_assert_uint_gt(shrunk, 100);
    ck_assert_int_eq(lane_shrink_rings(&mg, barriers), 0);
    ck_assert_int_eq(lane_shrink_area(&mg, barriers, 0, 1 << 20), 0);
    ck_assert_uint_le(lane_memory(&mg), 4 * page_size());
}

START_TEST(memory_is_taken_at_any_moment_and_no_byte_is_lost) {
    shrinking(false, 2);
}
END_TEST
START_TEST(and_so_by_membarriers) {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0)
        shrinking(true, 3);
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire_lane");
    TCase *c = tcase_create("ring");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_new_lane_is_sealed_and_empty);
    tcase_add_test(c, a_record_stays_until_it_is_consumed);
    tcase_add_test(c, a_reservation_that_is_not_committed_is_forgotten);
    tcase_add_test(c, records_of_all_sizes_wrap_with_pads);
    tcase_add_test(c, a_ring_with_room_has_it_for_any_record);
    tcase_add_test(c, records_of_what_there_is_room_for_come_whole);
    tcase_add_test(c, a_full_ring_gives_no_room_and_then_exactly_what_was_freed);
    tcase_add_test(c, a_manager_that_takes_over_goes_on_where_the_other_was);
    tcase_add_test(c, failures_of_the_system_leave_nothing);
    tcase_add_test(c, the_area_is_seen_through_windows);
    tcase_add_test(c, an_idle_lane_gives_back_all_but_what_is_in_it);
    tcase_add_test(c, memory_is_taken_at_any_moment_and_no_byte_is_lost);
    tcase_add_test(c, and_so_by_membarriers);
    tcase_add_test(c, what_is_no_lane_is_refused);
    tcase_add_test(c, impossible_heads_are_noticed_by_the_producer);
    tcase_add_test(c, random_headers_and_positions_never_lead_outside_the_ring);
    tcase_add_test(c, pads_that_are_not_those_of_a_producer_are_refused);
    suite_add_tcase(s, c);
    return wire_main(s);
}
