/* SPDX-License-Identifier: Apache-2.0 */
/* wire_wake.c - sleeping and waking on a lane. Invariant: a record is never left while its reader
 * sleeps. */
#include "wire_lanes.h"
#include <base/clock.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

START_TEST(nobody_is_woken_when_nobody_sleeps) {
    uint32_t doorbell = cl.page->doorbell;
    ck_assert(put(&mg.cq, 0, 0));
    lane_wake_client(&mg);
    ck_assert_uint_eq(cl.page->doorbell, doorbell);
    uint32_t seen = lane_sleep_announce(&cl);
    ck_assert_uint_eq(seen, doorbell);
    lane_wake_client(&mg);
    ck_assert_uint_eq(cl.page->doorbell, doorbell + 1);
    lane_wake_client(&mg); /* the doorbell moves once for one announcement */
    ck_assert_uint_eq(cl.page->doorbell, doorbell + 1);
    uint64_t t = clock_ms();
    lane_sleep(&cl, seen, WAIT_MS); /* the doorbell has changed: returns at once */
    ck_assert_uint_lt(clock_ms() - t, WAIT_MS / 2);
    t = clock_ms();
    lane_sleep(&cl, cl.page->doorbell, 30);
    ck_assert_uint_ge(clock_ms() - t, 25);
}
END_TEST

START_TEST(a_wish_for_space_rings_once) {
    ck_assert(!lane_space_wanted(&cl));
    lane_want_space(&mg);
    ck_assert(lane_space_wanted(&cl));
    ck_assert(!lane_space_wanted(&cl));
}
END_TEST

START_TEST(nobody_is_woken_for_room_in_a_ring_that_had_some) {
    uint64_t from = mg.sq.pos;
    uint32_t doorbell = lane_sleep_announce(&cl), n = 0;
    while (*mg.sq.tail - from <= LANE_ROOM_ALWAYS - 2048)
        ck_assert(put(&cl.sq, n++, 1024));
    for (uint32_t i = 0; i < n; i++)
        ck_assert(take(&mg.sq, i));
    lane_wake_for_room(&mg, from);
    ck_assert_uint_eq(cl.page->doorbell, doorbell);
    from = mg.sq.pos;
    for (n = 0; put(&cl.sq, n, LANE_RECORD_MAX - MSG_HEADER); n++)
        ;
    ck_assert_uint_ge(n, 3);
    ck_assert(take(&mg.sq, 0));
    lane_wake_for_room(&mg, from);
    ck_assert_uint_eq(cl.page->doorbell, doorbell + 1);
}
END_TEST

struct shared { /* stands for the arena header's word, and counts */
    uint32_t sleeping __attribute__((aligned(64)));
    uint64_t sleeps[2];
    uint64_t rounds; /* how many there are; not known before the last */
};
#define SLICE_MS 20000 /* a sleep as long as this is a lost wake-up */
#define SLEEPS   100u  /* of each side, else nothing was tried: goes on until there were */

static void delay(uint64_t *seed) {
    uint64_t r = test_random(seed);
    if (r % 4 == 0)
        for (volatile uint64_t n = r >> 32 & 2047; n > 0; n--)
            ;
    if (r % 997 == 0)
        usleep(100);
}

/* The manager's side of PROTOCOL 3: announce, look again, wait on the eventfd. */
static void manager_wait(struct shared *sh, int efd) {
    __atomic_store_n(&sh->sleeping, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!ring_ready(&mg.sq)) {
        struct pollfd p = {.fd = efd, .events = POLLIN};
        __atomic_fetch_add(&sh->sleeps[0], 1, __ATOMIC_RELAXED); /* for the client to read */
        if (poll(&p, 1, SLICE_MS) != 1)
            _exit(3);
    }
    __atomic_store_n(&sh->sleeping, 0, __ATOMIC_RELAXED);
    uint64_t n;
    if (read(efd, &n, sizeof n) < 0 && errno != EAGAIN)
        _exit(4);
}
static void manager_process(struct shared *sh, int efd) {
    uint64_t seed = 5;
    for (uint64_t i = 0; i < __atomic_load_n(&sh->rounds, __ATOMIC_ACQUIRE);) {
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
        if (!r)
            _exit(5);
        *r = (struct msg){.len = MSG_HEADER, .type = MSG_REPLY, .id = m.id};
        ring_consume(&mg.sq, &m);
        delay(&seed);
        ring_commit(&mg.cq);
        lane_wake_client(&mg);
        i++;
    }
    _exit(0);
}

#define ROUNDS 100000u
START_TEST(no_wake_up_is_lost_between_two_processes) {
    struct shared *sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int efd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), status;
    uint64_t seed = 6, one = 1, i = 0;
    sh->rounds = UINT64_MAX;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        manager_process(sh, efd);
    for (bool last = false; !last; i++) {
        bool tried =
            __atomic_load_n(&sh->sleeps[0], __ATOMIC_RELAXED) > SLEEPS && sh->sleeps[1] > SLEEPS;
        last = i + 1 >= ROUNDS && (tried || i >= 50 * ROUNDS);
        if (last)
            /* pairs with the manager's look, before it has all records */
            __atomic_store_n(&sh->rounds, i + 1, __ATOMIC_RELEASE);
        if (!put(&cl.sq, i, 0))
            ck_abort_msg("no room");
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&sh->sleeping, __ATOMIC_RELAXED))
            if (write(efd, &one, sizeof one) != sizeof one)
                ck_abort_msg("eventfd: %d", errno);
        delay(&seed);
        while (!take(&cl.cq, i)) {
            uint32_t doorbell = lane_sleep_announce(&cl);
            if (ring_ready(&cl.cq))
                continue;
            uint64_t t = clock_ms();
            sh->sleeps[1]++;
            lane_sleep(&cl, doorbell, SLICE_MS);
            t = clock_ms() - t;
            if (t >= SLICE_MS)
                ck_abort_msg("a wake-up was lost in round %lu", (unsigned long)i);
        }
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_gt(sh->sleeps[0], SLEEPS);
    ck_assert_uint_gt(sh->sleeps[1], SLEEPS);
    close(efd);
    munmap(sh, 4096);
}
END_TEST

START_TEST(a_lane_that_is_left_is_rung_once) {
    ck_assert(!lane_is_left(&cl));
    ck_assert(lane_leave(&mg));
    ck_assert(put(&cl.sq, 0, 0));
    ck_assert(lane_is_left(&cl));
    ck_assert(!lane_is_left(&cl));
    ck_assert(!lane_leave(&mg)); /* there is a record */
    ck_assert(!lane_is_left(&cl));
    ck_assert(take(&mg.sq, 0));
    ck_assert(lane_leave(&mg));
    lane_watch(&mg);
    ck_assert(!lane_is_left(&cl));
}
END_TEST

/* The manager's side of W1 to W5 as lanes.c has it: looks in vain for a while, leaves, and does not
 * look again before epoll says so; it sleeps at times with the lane watched, too. */
static void leaving_manager(struct shared *sh, int efd) {
    uint64_t seed = 9;
    bool watched = true;
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
    if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, efd, &ev) != 0)
        _exit(4);
    for (uint64_t i = 0, vain = 0; i < __atomic_load_n(&sh->rounds, __ATOMIC_ACQUIRE);) {
        struct msg m;
        const uint8_t *p;
        int e = watched ? ring_peek(&mg.sq, &m, &p) : 0;
        if (e < 0)
            _exit(2);
        if (e > 0) {
            bool bad = false;
            struct msg *r = ring_reserve(&mg.cq, MSG_HEADER, &bad);
            if (!r)
                _exit(5);
            *r = (struct msg){.len = MSG_HEADER, .type = MSG_REPLY, .id = m.id};
            ring_consume(&mg.sq, &m);
            ring_commit(&mg.cq);
            lane_wake_client(&mg);
            vain = 0;
            i++;
            continue;
        }
        delay(&seed);
        if (watched && ++vain > seed % 3 && lane_leave(&mg)) {
            watched = false;
            __atomic_fetch_add(&sh->sleeps[0], 1, __ATOMIC_RELAXED);
        }
        int wait = 0;
        if (seed % 4 == 0) { /* sleep */
            __atomic_store_n(&sh->sleeping, 1, __ATOMIC_RELAXED);
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            wait = watched && ring_ready(&mg.sq) ? 0 : SLICE_MS;
        }
        int n = epoll_wait(ep, &ev, 1, wait);
        __atomic_store_n(&sh->sleeping, 0, __ATOMIC_RELAXED);
        if (n == 0 && wait == SLICE_MS)
            _exit(3);
        if (n > 0 && !watched) {
            lane_watch(&mg);
            watched = true;
            vain = 0;
        }
    }
    _exit(0);
}

START_TEST(no_record_is_left_in_a_lane_that_is_not_looked_at) {
    struct shared *sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int efd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), status;
    uint64_t seed = 10, one = 1, i = 0, rings = 0;
    sh->rounds = UINT64_MAX;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        leaving_manager(sh, efd);
    for (bool last = false; !last; i++) {
        bool tried = __atomic_load_n(&sh->sleeps[0], __ATOMIC_RELAXED) > SLEEPS && rings > SLEEPS;
        last = i + 1 >= ROUNDS / 2 && (tried || i >= 50 * ROUNDS);
        if (last)
            __atomic_store_n(&sh->rounds, i + 1, __ATOMIC_RELEASE);
        if (!put(&cl.sq, i, 0))
            ck_abort_msg("no room");
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        bool left = lane_is_left(&cl);
        rings += left;
        if (left || __atomic_load_n(&sh->sleeping, __ATOMIC_RELAXED))
            if (write(efd, &one, sizeof one) != sizeof one)
                ck_abort_msg("eventfd: %d", errno);
        while (!take(&cl.cq, i)) {
            uint32_t doorbell = lane_sleep_announce(&cl);
            if (ring_ready(&cl.cq))
                continue;
            uint64_t t = clock_ms();
            lane_sleep(&cl, doorbell, SLICE_MS);
            if (clock_ms() - t >= SLICE_MS)
                ck_abort_msg("a ring was lost in round %lu", (unsigned long)i);
        }
        delay(&seed);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_gt(sh->sleeps[0], SLEEPS);
    ck_assert_uint_gt(rings, SLEEPS);
    close(efd);
    munmap(sh, 4096);
}
END_TEST

/* A manager that takes and answers nothing rings for room alone; a client that sends records of all
 * sizes waits for nothing else: until it slept often enough. */
#define ROOM_ROUNDS 30000u
/* how many records there were; not known before the last */
static uint64_t room_sent = UINT64_MAX;
static void *room_maker(void *arg) {
    uint64_t seed = 7;
    for (uint64_t i = 0; i < __atomic_load_n(&room_sent, __ATOMIC_ACQUIRE);) {
        uint64_t from = mg.sq.pos, some = test_random(&seed) % 40;
        struct msg m;
        const uint8_t *p;
        int e = 0;
        for (; some > 0 && (e = ring_peek(&mg.sq, &m, &p)) > 0; some--, i++)
            ring_consume(&mg.sq, &m);
        if (e < 0)
            return (void *)1;
        delay(&seed);
        if (mg.sq.pos != from)
            lane_wake_for_room(&mg, from);
        else
            sched_yield();
    }
    return arg;
}
START_TEST(who_waits_for_room_is_woken_when_there_is_some) {
    pthread_t t;
    uint64_t seed = 8, sleeps = 0, i = 0;
    void *result;
    ck_assert_int_eq(pthread_create(&t, NULL, room_maker, NULL), 0);
    for (; i < ROOM_ROUNDS || (sleeps <= SLEEPS && i < 50 * ROOM_ROUNDS); i++) {
        bool bad = false;
        uint64_t r = test_random(&seed);
        uint32_t len =
            MSG_HEADER + (uint32_t)(r % (r >> 40 & 1 ? 2000 : LANE_RECORD_MAX - MSG_HEADER));
        struct msg *m;
        while (!(m = ring_reserve(&cl.sq, len, &bad)) && !bad) {
            uint32_t doorbell = lane_sleep_announce(&cl);
            if (ring_reserve(&cl.sq, len, &bad) || bad)
                continue;
            uint64_t began = clock_ms();
            lane_sleep(&cl, doorbell, SLICE_MS);
            sleeps++;
            if (clock_ms() - began >= SLICE_MS)
                ck_abort_msg("a wake-up was lost at record %lu", (unsigned long)i);
        }
        if (bad)
            ck_abort_msg("bad position");
        *m = (struct msg){.len = len, .type = MSG_REPLY, .id = i};
        ring_commit(&cl.sq);
    }
    __atomic_store_n(&room_sent, i, __ATOMIC_RELEASE);
    pthread_join(t, &result);
    ck_assert_ptr_null(result);
    ck_assert_uint_gt(sleeps, SLEEPS);
}
END_TEST

/*
 * no_wake_up_is_lost_between_two_processes as a litmus test: both sides do their two steps at the
 * same moment. Without either fence each may miss the other (store buffers), which the sleeping
 * test above is too slow to meet.
 */
static uint64_t gate[2] __attribute__((aligned(128)));
static void meet(int me, uint64_t round) {
    __atomic_store_n(&gate[me], round, __ATOMIC_RELEASE);
    for (unsigned n = 1; __atomic_load_n(&gate[!me], __ATOMIC_ACQUIRE) < round; n++)
        if (n % 4096 == 0)
            sched_yield();
}
#define LITMUS_ROUNDS 600000u
/* where others want both cores a meeting takes a time slice: then fewer */
#define LITMUS_MS 60000
static uint64_t litmus_rounds = LITMUS_ROUNDS;
/* On the nth CPU that this process may use, so that the two run at the same moment. */
static void stay_on(int n) {
    cpu_set_t may, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof may, &may), 0);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &may) && n-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
}
static void *litmus_manager(void *arg) {
    stay_on(0);
    /* it came with the meeting before */
    for (uint64_t i = 0; i < __atomic_load_n(&litmus_rounds, __ATOMIC_RELAXED); i++) {
        bool bad = false;
        struct msg *m = ring_reserve(&mg.cq, MSG_HEADER, &bad);
        *m = (struct msg){.len = MSG_HEADER, .type = MSG_REPLY, .id = i};
        meet(0, 2 * i + 1);
        /* at hand, so that the look below is quick */
        (void)__atomic_load_n(&mg.page->client_sleeps, __ATOMIC_RELAXED);
        for (volatile unsigned n = (unsigned)(i * 7 % 160); n > 0; n--)
            ;
        ring_commit(&mg.cq);
        lane_wake_client(&mg);
        meet(0, 2 * i + 2);
    }
    return NULL;
}
START_TEST(either_the_manager_sees_the_sleeper_or_the_client_sees_the_record) {
    pthread_t t;
    uint64_t lost = 0;
    gate[0] = gate[1] = 0;
    ck_assert_int_eq(pthread_create(&t, NULL, litmus_manager, NULL), 0);
    stay_on(1);
    uint64_t end_ms = clock_ms() + LITMUS_MS;
    for (uint64_t i = 0; i < litmus_rounds; i++) {
        if (i % 1024 == 0 && clock_ms() > end_ms)
            __atomic_store_n(&litmus_rounds, i + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&cl.page->client_sleeps, 0, __ATOMIC_RELAXED);
        meet(1, 2 * i + 1);
        for (volatile unsigned n = (unsigned)(i % 31); n > 0; n--)
            ;
        uint32_t doorbell = lane_sleep_announce(&cl);
        bool saw = ring_ready(&cl.cq);
        meet(1, 2 * i + 2);
        bool rung = __atomic_load_n(&cl.page->doorbell, __ATOMIC_RELAXED) != doorbell;
        lost += !saw && !rung;
        if (!take(&cl.cq, i))
            ck_abort_msg("no record");
    }
    pthread_join(t, NULL);
    ck_assert_uint_eq(lost, 0);
}
END_TEST

/* The same for who leaves a lane: either it sees the record or the client sees that it must ring.
 * */
static bool left;
static void *litmus_leaver(void *arg) {
    stay_on(0);
    for (uint64_t i = 0; i < __atomic_load_n(&litmus_rounds, __ATOMIC_RELAXED); i++) {
        meet(0, 2 * i + 1);
        for (volatile unsigned n = (unsigned)(i * 7 % 160); n > 0; n--)
            ;
        bool gone = lane_leave(&mg);
        __atomic_store_n(&left, gone, __ATOMIC_RELAXED);
        meet(0, 2 * i + 2);
        if (!take(&mg.sq, i))
            return (void *)1;
        lane_watch(&mg);
    }
    return NULL;
}
START_TEST(either_the_manager_sees_the_record_or_the_client_sees_that_it_left) {
    pthread_t t;
    void *result;
    uint64_t lost = 0, rang = 0;
    gate[0] = gate[1] = 0;
    ck_assert_int_eq(pthread_create(&t, NULL, litmus_leaver, NULL), 0);
    stay_on(1);
    uint64_t end_ms = clock_ms() + LITMUS_MS;
    for (uint64_t i = 0; i < litmus_rounds; i++) {
        if (i % 1024 == 0 && clock_ms() > end_ms)
            __atomic_store_n(&litmus_rounds, i + 1, __ATOMIC_RELAXED);
        bool bad = false;
        struct msg *m = ring_reserve(&cl.sq, MSG_HEADER, &bad);
        while (!m)
            m = ring_reserve(&cl.sq, MSG_HEADER, &bad);
        *m = (struct msg){.len = MSG_HEADER, .type = MSG_REPLY, .id = i};
        meet(1, 2 * i + 1);
        for (volatile unsigned n = (unsigned)(i % 31); n > 0; n--)
            ;
        ring_commit(&cl.sq);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        bool rings = lane_is_left(&cl);
        meet(1, 2 * i + 2);
        rang += rings;
        lost += !rings && __atomic_load_n(&left, __ATOMIC_RELAXED);
    }
    pthread_join(t, &result);
    ck_assert_ptr_null(result);
    ck_assert_uint_eq(lost, 0);
    ck_assert_uint_gt(rang, 0);
}
END_TEST

/* Several threads of a client on one lane: each waits for its own turn. */
static uint64_t turn; /* 0..: whose; the ring's content does not matter here */
static void *sleeper(void *arg) {
    uint64_t me = *(uint64_t *)arg;
    for (uint64_t round = 0; round < 3000; round++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != round * 3 + me) {
            uint32_t doorbell = lane_sleep_announce(&cl);
            if (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) == round * 3 + me)
                break;
            uint64_t t = clock_ms();
            lane_sleep(&cl, doorbell, SLICE_MS);
            if (clock_ms() - t >= SLICE_MS)
                return (void *)1;
        }
        __atomic_fetch_add(&turn, 1, __ATOMIC_RELEASE);
        lane_wake_client(&mg); /* as the manager would after its commit */
    }
    return NULL;
}
START_TEST(threads_that_share_a_lane_are_all_woken) {
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

int main(void) {
    Suite *s = suite_create("wire_wake");
    TCase *c = tcase_create("sleep");
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, nobody_is_woken_when_nobody_sleeps);
    tcase_add_test(c, a_wish_for_space_rings_once);
    tcase_add_test(c, nobody_is_woken_for_room_in_a_ring_that_had_some);
    tcase_add_test(c, who_waits_for_room_is_woken_when_there_is_some);
    tcase_add_test(c, no_wake_up_is_lost_between_two_processes);
    tcase_add_test(c, either_the_manager_sees_the_sleeper_or_the_client_sees_the_record);
    tcase_add_test(c, a_lane_that_is_left_is_rung_once);
    tcase_add_test(c, no_record_is_left_in_a_lane_that_is_not_looked_at);
    tcase_add_test(c, either_the_manager_sees_the_record_or_the_client_sees_that_it_left);
    tcase_add_test(c, threads_that_share_a_lane_are_all_woken);
    suite_add_tcase(s, c);
    return wire_main(s);
}
