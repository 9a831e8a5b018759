/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_lane.c - rings between a client and a manager. Invariants: records come whole, once, in order; a hostile other side makes an error, never
 * a read outside the ring; a record is never left while its reader sleeps.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.h>
#include <wire/lane.h>

#include "wire_test.h"

/* --- failing libc --- */
static bool fail_memfd, fail_truncate, short_pwrite, fail_seal;
int memfd_create(const char *name, unsigned flags)
{
    if (fail_memfd) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}
int ftruncate(int fd, off_t len)
{
    if (fail_truncate) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_ftruncate, fd, len);
}
ssize_t pwrite(int fd, const void *buf, size_t n, off_t off) { return syscall(SYS_pwrite64, fd, buf, short_pwrite ? n / 2 : n, off); }
int fcntl(int fd, int cmd, ...)
{
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

static struct lane cl, mg; /* both ends */
static int lane_fd;

static void setup(void)
{
    fds_count();
    lane_fd = lane_create();
    ck_assert_int_ge(lane_fd, 0);
    ck_assert_int_eq(lane_map(&cl, lane_fd, true), 0);
    ck_assert_int_eq(lane_map(&mg, lane_fd, false), 0);
}
static void teardown(void)
{
    lane_unmap(&cl);
    lane_unmap(&mg);
    close(lane_fd);
    fds_check();
}

static bool put(struct ring *r, uint64_t id, uint32_t payload)
{
    bool bad = false;
    struct msg *m = ring_reserve(r, MSG_HEADER + payload, &bad);
    if (bad)
        ck_abort_msg("bad position");
    if (m == NULL)
        return false;
    *m = (struct msg){.len = MSG_HEADER + payload, .type = MSG_REPLY, .id = id};
    uint8_t *p = (uint8_t *)(m + 1);
    for (uint32_t i = 0; i < payload; i++)
        p[i] = (uint8_t)(id * 31 + i);
    ring_commit(r);
    return true;
}
static bool take(struct ring *r, uint64_t id)
{
    struct msg m;
    const uint8_t *p;
    int e = ring_peek(r, &m, &p); /* ck_assert() writes to a file each time: not in hot loops */
    if (e < 0)
        ck_abort_msg("peek: %d", e);
    if (e == 0)
        return false;
    if (m.id != id)
        ck_abort_msg("record %lu where %lu should be", (unsigned long)m.id, (unsigned long)id);
    for (uint32_t i = 0; i < m.len - MSG_HEADER; i++)
        if (p[i] != (uint8_t)(id * 31 + i))
            ck_abort_msg("byte %u of record %lu", i, (unsigned long)id);
    ring_consume(r, &m);
    return true;
}

START_TEST(a_new_lane_is_sealed_and_empty)
{
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

START_TEST(a_record_stays_until_it_is_consumed)
{
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

START_TEST(a_reservation_that_is_not_committed_is_forgotten)
{
    bool bad = false;
    ck_assert_ptr_nonnull(ring_reserve(&cl.sq, 5000, &bad));
    ck_assert(!ring_ready(&mg.sq));
    ck_assert(put(&cl.sq, 1, 10));
    ck_assert(take(&mg.sq, 1));
    ck_assert(!ring_ready(&mg.sq));
}
END_TEST

/* All sizes, so that every distance to the end of the ring comes up. */
START_TEST(records_of_all_sizes_wrap_with_pads)
{
    uint64_t in = 0, out = 0, seed = 3;
    uint32_t max = LANE_RECORD_MAX - MSG_HEADER;
    while (out < 10000) {
        uint32_t n = test_random(&seed) % 16 == 0 ? max - (uint32_t)(test_random(&seed) % 70) : (uint32_t)(test_random(&seed) % 700);
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

START_TEST(a_full_ring_gives_no_room_and_then_exactly_what_was_freed)
{
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

START_TEST(a_manager_that_takes_over_goes_on_where_the_other_was)
{
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

START_TEST(failures_of_the_system_leave_nothing)
{
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

static int forged(uint64_t magic, uint32_t version, uint32_t ring, off_t size, uint64_t sq_tail, uint64_t cq_head, int seals)
{
    struct lane_page p = {.magic = magic, .version = version, .ring = ring, .sq_tail = sq_tail, .cq_head = cq_head};
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

START_TEST(what_is_no_lane_is_refused)
{
    const uint32_t v = PROTOCOL_VERSION, r = DD_LANE_RING;
    const off_t size = LANE_FILE_SIZE;
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, 0, 0, F_SEAL_SHRINK), 0);
    ck_assert_int_eq(forged(LANE_MAGIC, v + 1, r, size, 0, 0, F_SEAL_SHRINK), DDICT_EVERSION);
    ck_assert_int_eq(forged(LANE_MAGIC + 1, v, r, size, 0, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r * 2, size, 0, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size - 1, 0, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, 10, 0, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, 0, 0, 0), DDICT_EPROTO); /* could shrink: SIGBUS */
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, r + 64, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, 8, 0, F_SEAL_SHRINK), DDICT_EPROTO);
    ck_assert_int_eq(forged(LANE_MAGIC, v, r, size, 0, 64, F_SEAL_SHRINK), DDICT_EPROTO);
    struct lane l;
    ck_assert_int_eq(lane_map(&l, 0, false), DDICT_EPROTO);
    ck_assert_int_eq(lane_map(&l, -1, false), -EBADF);
}
END_TEST

/* --- a hostile other side --- */

START_TEST(impossible_heads_are_noticed_by_the_producer)
{
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
static struct ring malloced(uint8_t *data, uint64_t pos)
{
    tail_word = head_word = pos;
    return (struct ring){.data = data, .tail = &tail_word, .head = &head_word, .pos = pos, .seen = pos};
}

START_TEST(random_headers_and_positions_never_lead_outside_the_ring)
{
    uint8_t *data = malloc(DD_LANE_RING);
    uint64_t seed = 11, good = 0, refused = 0, sum = 0;
    memset(data, 0xa5, DD_LANE_RING);
    for (int i = 0; i < 50000; i++) {
        struct ring r = malloced(data, (test_random(&seed) % 5 * DD_LANE_RING + test_random(&seed) % DD_LANE_RING) & ~63ull);
        if (i % 3 == 0)
            r.pos |= DD_LANE_RING - 64 * (1 + test_random(&seed) % 3); /* near the end */
        r.seen = r.pos;
        for (int k = 0; k < 4; k++) { /* heads where records may begin */
            uint64_t at = (r.pos + (uint64_t)k * 64) & (DD_LANE_RING - 1);
            struct msg m = {.type = (uint16_t)(test_random(&seed) % MSG_TYPE_N)};
            uint64_t how = test_random(&seed) % 4;
            m.len = how == 0 ? (uint32_t)test_random(&seed) : how == 1 ? 64 : how == 2 ? (uint32_t)(DD_LANE_RING - at)
                                                                                      : 64 + (uint32_t)(test_random(&seed) % 300);
            m.key_len = test_random(&seed) % 2 ? m.len - 64 : (uint32_t)(test_random(&seed) % 300);
            m.val_len = m.len - 64 - m.key_len;
            memcpy(data + at, &m, sizeof m);
        }
        uint64_t how = test_random(&seed) % 4;
        tail_word = r.pos + (how == 0 ? test_random(&seed) : how == 1 ? 64 : how == 2 ? DD_LANE_RING : 64 * (test_random(&seed) % 9000));
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

START_TEST(pads_that_are_not_those_of_a_producer_are_refused)
{
    uint8_t *data = calloc(1, DD_LANE_RING);
    struct msg m, pad = {.type = MSG_PAD};
    const uint8_t *p;
    const struct { uint64_t pos; uint32_t len; } evil[] = {
        {0, DD_LANE_RING},                                  /* a whole ring of nothing, for ever */
        {0, 64}, {DD_LANE_RING - 128, 64},                   /* not up to the end */
        {DD_LANE_RING - 128, 192}, {DD_LANE_RING - 64, 0},
        {DD_LANE_RING - LANE_RECORD_MAX, LANE_RECORD_MAX},   /* more than any record needs */
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

/* --- sleeping and waking --- */

START_TEST(nobody_is_woken_when_nobody_sleeps)
{
    uint32_t bell = cl.page->bell;
    ck_assert(put(&mg.cq, 0, 0));
    lane_ring_client(&mg);
    ck_assert_uint_eq(cl.page->bell, bell);
    uint32_t seen = lane_sleep_announce(&cl);
    ck_assert_uint_eq(seen, bell);
    lane_ring_client(&mg);
    ck_assert_uint_eq(cl.page->bell, bell + 1);
    lane_ring_client(&mg); /* one ring for one announcement */
    ck_assert_uint_eq(cl.page->bell, bell + 1);
    uint64_t t = clock_ms();
    lane_sleep(&cl, seen, 2000); /* the bell has moved: returns at once */
    ck_assert_uint_lt(clock_ms() - t, 1000);
    t = clock_ms();
    lane_sleep(&cl, cl.page->bell, 30);
    ck_assert_uint_ge(clock_ms() - t, 25);
}
END_TEST

START_TEST(a_wish_for_space_rings_once)
{
    ck_assert(!lane_space_wanted(&cl));
    lane_want_space(&mg);
    ck_assert(lane_space_wanted(&cl));
    ck_assert(!lane_space_wanted(&cl));
}
END_TEST

struct shared { /* stands for the arena header's word, and counts */
    uint32_t sleeping __attribute__((aligned(64)));
    uint64_t sleeps[2];
};
#define SLICE_MS 3000 /* a sleep as long as this is a lost wake-up */

static void delay(uint64_t *seed)
{
    uint64_t r = test_random(seed);
    if (r % 4 == 0)
        for (volatile uint64_t n = r >> 32 & 2047; n > 0; n--)
            ;
    if (r % 997 == 0)
        usleep(100);
}

/* The manager's side of PROTOCOL 3: announce, look again, wait on the eventfd. */
static void manager_wait(struct shared *sh, int efd)
{
    __atomic_store_n(&sh->sleeping, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!ring_ready(&mg.sq)) {
        struct pollfd p = {.fd = efd, .events = POLLIN};
        sh->sleeps[0]++;
        if (poll(&p, 1, SLICE_MS) != 1)
            _exit(3);
    }
    __atomic_store_n(&sh->sleeping, 0, __ATOMIC_RELAXED);
    uint64_t n;
    if (read(efd, &n, sizeof n) < 0 && errno != EAGAIN)
        _exit(4);
}
static void manager_process(struct shared *sh, int efd, uint64_t rounds)
{
    uint64_t seed = 5;
    for (uint64_t i = 0; i < rounds;) {
        struct msg m;
        const uint8_t *p;
        int e = ring_peek(&mg.sq, &m, &p);
        if (e < 0)
            _exit(2);
        if (e == 0) {
            delay(&seed);
            manager_wait(sh, efd);
            continue;
        }
        bool bad = false;
        struct msg *r = ring_reserve(&mg.cq, MSG_HEADER, &bad);
        if (r == NULL)
            _exit(5);
        *r = (struct msg){.len = MSG_HEADER, .type = MSG_REPLY, .id = m.id};
        ring_consume(&mg.sq, &m);
        delay(&seed);
        ring_commit(&mg.cq);
        lane_ring_client(&mg);
        i++;
    }
    _exit(0);
}

START_TEST(no_wake_up_is_lost_between_two_processes)
{
    const uint64_t rounds = 100000;
    struct shared *sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int efd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), status;
    uint64_t seed = 6, one = 1, replies = 0, longest = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        manager_process(sh, efd, rounds);
    for (uint64_t i = 0; i < rounds; i++) {
        if (!put(&cl.sq, i, 0))
            ck_abort_msg("no room");
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&sh->sleeping, __ATOMIC_RELAXED))
            if (write(efd, &one, sizeof one) != sizeof one)
                ck_abort_msg("eventfd: %d", errno);
        delay(&seed);
        while (!take(&cl.cq, i)) {
            uint32_t bell = lane_sleep_announce(&cl);
            if (ring_ready(&cl.cq))
                continue;
            uint64_t t = clock_ms();
            sh->sleeps[1]++;
            lane_sleep(&cl, bell, SLICE_MS);
            t = clock_ms() - t;
            longest = t > longest ? t : longest;
            if (t >= SLICE_MS)
                ck_abort_msg("a wake-up was lost in round %lu", (unsigned long)i);
        }
        replies++;
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(replies, rounds);
    ck_assert_uint_gt(sh->sleeps[0], 100); /* else nothing was tried */
    ck_assert_uint_gt(sh->sleeps[1], 100);
    close(efd);
    munmap(sh, 4096);
}
END_TEST

/*
 * The same as a litmus test: both sides do their two steps at the same moment. Without either fence each may miss the other (store
 * buffers), which the sleeping test above is too slow to meet.
 */
static uint64_t gate[2] __attribute__((aligned(128)));
static void meet(int me, uint64_t round)
{
    __atomic_store_n(&gate[me], round, __ATOMIC_RELEASE);
    for (unsigned n = 1; __atomic_load_n(&gate[!me], __ATOMIC_ACQUIRE) < round; n++)
        if (n % 4096 == 0)
            sched_yield();
}
#define LITMUS_ROUNDS 600000u
/* On the nth CPU that this process may use, so that the two run at the same moment. */
static void stay_on(int n)
{
    cpu_set_t may, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof may, &may), 0);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &may) && n-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
}
static void *litmus_manager(void *arg)
{
    stay_on(0);
    for (uint64_t i = 0; i < LITMUS_ROUNDS; i++) {
        bool bad = false;
        struct msg *m = ring_reserve(&mg.cq, MSG_HEADER, &bad);
        *m = (struct msg){.len = MSG_HEADER, .type = MSG_REPLY, .id = i};
        meet(0, 2 * i + 1);
        (void)__atomic_load_n(&mg.page->client_sleeps, __ATOMIC_RELAXED); /* at hand, so that the look below is quick */
        for (volatile unsigned n = (unsigned)(i * 7 % 160); n > 0; n--)
            ;
        ring_commit(&mg.cq);
        lane_ring_client(&mg);
        meet(0, 2 * i + 2);
    }
    return NULL;
}
START_TEST(either_the_manager_sees_the_sleeper_or_the_client_sees_the_record)
{
    pthread_t t;
    uint64_t lost = 0;
    ck_assert_int_eq(pthread_create(&t, NULL, litmus_manager, NULL), 0);
    stay_on(1);
    for (uint64_t i = 0; i < LITMUS_ROUNDS; i++) {
        __atomic_store_n(&cl.page->client_sleeps, 0, __ATOMIC_RELAXED);
        meet(1, 2 * i + 1);
        for (volatile unsigned n = (unsigned)(i % 31); n > 0; n--)
            ;
        uint32_t bell = lane_sleep_announce(&cl);
        bool saw = ring_ready(&cl.cq);
        meet(1, 2 * i + 2);
        bool rung = __atomic_load_n(&cl.page->bell, __ATOMIC_RELAXED) != bell;
        lost += !saw && !rung;
        if (!take(&cl.cq, i))
            ck_abort_msg("no record");
    }
    pthread_join(t, NULL);
    ck_assert_uint_eq(lost, 0);
}
END_TEST

/* Several threads of a client on one lane: each waits for its own turn. */
static uint64_t turn; /* 0..: whose; the ring's content does not matter here */
static void *sleeper(void *arg)
{
    uint64_t me = *(uint64_t *)arg;
    for (uint64_t round = 0; round < 3000; round++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != round * 3 + me) {
            uint32_t bell = lane_sleep_announce(&cl);
            if (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) == round * 3 + me)
                break;
            uint64_t t = clock_ms();
            lane_sleep(&cl, bell, SLICE_MS);
            if (clock_ms() - t >= SLICE_MS)
                return (void *)1;
        }
        __atomic_fetch_add(&turn, 1, __ATOMIC_RELEASE);
        lane_ring_client(&mg); /* as the manager would after its commit */
    }
    return NULL;
}
START_TEST(threads_that_share_a_lane_are_all_woken)
{
    pthread_t t[3];
    uint64_t id[3] = {0, 1, 2};
    void *lost;
    turn = 0;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, sleeper, &id[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &lost);
        ck_assert_ptr_null(lost);
    }
    ck_assert_uint_eq(turn, 9000);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wire_lane");
    TCase *c = tcase_create("ring");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_new_lane_is_sealed_and_empty);
    tcase_add_test(c, a_record_stays_until_it_is_consumed);
    tcase_add_test(c, a_reservation_that_is_not_committed_is_forgotten);
    tcase_add_test(c, records_of_all_sizes_wrap_with_pads);
    tcase_add_test(c, a_full_ring_gives_no_room_and_then_exactly_what_was_freed);
    tcase_add_test(c, a_manager_that_takes_over_goes_on_where_the_other_was);
    tcase_add_test(c, failures_of_the_system_leave_nothing);
    tcase_add_test(c, what_is_no_lane_is_refused);
    tcase_add_test(c, impossible_heads_are_noticed_by_the_producer);
    tcase_add_test(c, random_headers_and_positions_never_lead_outside_the_ring);
    tcase_add_test(c, pads_that_are_not_those_of_a_producer_are_refused);
    suite_add_tcase(s, c);
    c = tcase_create("sleep");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, nobody_is_woken_when_nobody_sleeps);
    tcase_add_test(c, a_wish_for_space_rings_once);
    tcase_add_test(c, no_wake_up_is_lost_between_two_processes);
    tcase_add_test(c, either_the_manager_sees_the_sleeper_or_the_client_sees_the_record);
    tcase_add_test(c, threads_that_share_a_lane_are_all_woken);
    suite_add_tcase(s, c);
    return wire_main(s);
}
