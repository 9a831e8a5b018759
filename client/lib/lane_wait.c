/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_wait.c - how threads wait on a lane: they spin, then one sleeps at the doorbell and the
 * others on their own futexes (client_lane.h).
 *
 * A thread that spins, or takes replies, turns the doorbell off (LANE_SLEEPS of client_sleeps), so
 * that the manager does not wake the sleeper there. When it leaves, it announces the sleeper again
 * and looks at the ring once more (PROTOCOL 3, "Waking the client"). The sleeper waits until the
 * doorbell differs from the value read before the first announcement, so any change in between
 * wakes it.
 */
#include "client_lane_inside.h"
#include "handle.h"
#include <base/spin.h>

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHECK_NS     (DD_WAIT_SLICE_MS * 1000000ull)
#define LONG_WAIT_NS (10 * CHECK_NS) /* after this time slices are ten times longer */

static long futex_call(uint32_t *word, int op, uint32_t val, const struct timespec *t) {
    return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, val, t, NULL, 0);
}

/* The kernel's struct futex_waitv; libc's headers may be older. */
struct futex_waiter {
    uint64_t val, word;
    uint32_t flags, room;
};
#define FUTEX_WAITV 449 /* the same on every architecture */
#define FUTEX_32BIT 2u

static void futex_sleep(uint32_t *word, int slice_ms) {
    struct timespec t = {.tv_sec = slice_ms / 1000, .tv_nsec = slice_ms % 1000 * 1000000L};
    futex_call(word, FUTEX_WAIT, 0, &t);
}

/* --- deadlines of calls --- */

void call_deadline_init(struct call_deadline *w, struct session *s, int timeout_ms) {
    w->session = s;
    w->timeout_ms = timeout_ms < 0 ? s->timeout_ms : timeout_ms;
    w->started = false;
}

static void call_deadline_start(struct call_deadline *w) {
    deadline_start(&w->deadline, w->timeout_ms);
    w->began_ns = w->deadline.last_ns;
    w->checked_ns = 0;
    w->started = true;
}

int call_deadline_slice(struct call_deadline *w) {
    if (!w->started)
        call_deadline_start(w);
    uint64_t now = clock_ns();
    if (now - w->checked_ns >= CHECK_NS) {
        w->checked_ns = now;
        int rc = session_check(w->session);
        if (rc < 0)
            return rc;
    }
    int left = deadline_left(
        &w->deadline, now - w->began_ns < LONG_WAIT_NS ? DD_WAIT_SLICE_MS : 10 * DD_WAIT_SLICE_MS);
    if (left > 0)
        return left;
    return dd_error(-ETIMEDOUT, "no answer within %.3g s", w->timeout_ms / 1000.0);
}

uint64_t call_deadline_left_us(struct call_deadline *w) {
    if (!w->started)
        call_deadline_start(w);
    deadline_left(&w->deadline, 0);
    uint64_t now = clock_ns();
    return w->deadline.at_ns > now ? (w->deadline.at_ns - now) / 1000 : 0;
}

void call_deadline_extend(struct call_deadline *w, int ms) {
    if (!w->started)
        call_deadline_start(w);
    w->deadline.at_ns += (uint64_t)((int64_t)ms * 1000000);
}

void call_deadline_renew(struct call_deadline *w) {
    w->started = false;
}

/* --- sleepers, under lock --- */

static void doorbell_take(struct client_lane *p, struct request *r) {
    p->doorbell_holder = r;
    r->asleep = ON_DOORBELL;
    __atomic_fetch_add(&p->watched, 1, __ATOMIC_RELEASE);
}

static void sleeper_add(struct client_lane *p, struct request *r) {
    r->asleep = ON_FUTEX;
    __atomic_fetch_add(&p->watched, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&r->futex_word, 0, __ATOMIC_RELAXED);
    r->prev = NULL;
    r->next = p->sleepers;
    if (r->next)
        r->next->prev = r;
    p->sleepers = r;
}

static void sleeper_remove(struct client_lane *p, struct request *r) {
    if (r->asleep == ON_FUTEX) {
        if (r->prev)
            r->prev->next = r->next;
        else
            p->sleepers = r->next;
        if (r->next)
            r->next->prev = r->prev;
    } else if (r->asleep == ON_DOORBELL) {
        p->doorbell_holder = NULL;
    } else {
        return;
    }
    __atomic_fetch_sub(&p->watched, 1, __ATOMIC_RELEASE);
    r->asleep = AWAKE;
}

static void sleeper_wake(struct client_lane *p, struct request *r) {
    if (r->asleep == ON_DOORBELL) {
        lane_wake_sleepers(&p->lane); /* changes the doorbell, so the sleeper cannot miss it */
    } else if (r->asleep == ON_FUTEX) {
        sleeper_remove(p, r);
        __atomic_store_n(&r->futex_word, 1,
                         __ATOMIC_RELEASE); /* pairs with the check in futex_wait */
        futex_call(&r->futex_word, FUTEX_WAKE, 1, NULL);
    }
}

/* The value was to be sent again, and nobody has begun with that: it is given up. */
static void rewind_end(struct client_lane *p, struct request *r) {
    client_lane_notice_add(p, r, MSG_ABORT, r->id);
    r->sending = false;
    __atomic_store_n(&r->rewound, 0, __ATOMIC_RELAXED);
}

void request_complete(struct client_lane *p, struct request *r, int status) {
    if (unlikely(r->rewound))
        rewind_end(p, r);
    if (r->id != 0)
        request_table_remove(p, r);
    if (!r->sending)
        notice_release(p, r);
    r->streaming = false;
    r->status = status;
    if (r->is_async_op) {
        __atomic_store_n(&r->done, 1, __ATOMIC_RELAXED); /* under lock, like its readers */
        async_op_complete(p, r);
        return;
    }
    if (r->batch) {
        r->next = r->batch->done;
        r->batch->done = r;
        if (r->batch->sleeper)
            sleeper_wake(p, r->batch->sleeper);
    } else {
        sleeper_wake(p, r);
    }
    /* Release pairs with the acquire in request_done(). We still hold the lock, so a sleeper cannot
     * have freed r yet. */
    __atomic_store_n(&r->done, 1, __ATOMIC_RELEASE);
}

void request_rewind(struct client_lane *p, struct request *r) {
    r->sending = true;
    if (r->is_async_op)
        async_op_again(p, r);
    else if (!r->batch)
        sleeper_wake(p, r);
    else {
        r->batch->rewound = true;
        if (r->batch->sleeper)
            sleeper_wake(p, r->batch->sleeper);
    }
    /* pairs with the acquire in request_rewound() */
    __atomic_store_n(&r->rewound, 1, __ATOMIC_RELEASE);
}

static inline bool request_rewound(const struct request *r) {
    return __atomic_load_n(&r->rewound, __ATOMIC_ACQUIRE) != 0;
}

static inline bool request_done(const struct request *r) {
    return __atomic_load_n(&r->done, __ATOMIC_ACQUIRE) != 0;
}

bool client_lane_room(struct client_lane *p, uint32_t need) {
    bool bad = false;
    if (!lane_write_begin(&p->lane)) /* ring_reserve() may write a PAD */
        return false;
    /* if the ring is bad, the sender has to find out */
    bool room = ring_reserve(&p->lane.sq, need, &bad) || bad;
    lane_write_end(&p->lane);
    return room;
}

static bool request_has_room(struct client_lane *p, const struct request *r) {
    return r->need == NEED_GO ? !client_lane_manager_is_held(p, r->to)
                              : client_lane_room(p, r->need);
}

/* Whether r has what it waits for. */
static bool request_is_satisfied(struct client_lane *p, struct request *r) {
    if (r->need == 0)
        return r->done || r->rewound;
    if (r->need == NEED_GO && r->done) /* it was refused: its manager need not be released */
        return true;
    return (r->done && r->sending) || request_has_room(p, r);
}

void client_lane_manager_go(struct client_lane *p) {
    for (struct request *r = p->sleepers, *next; r; r = next) {
        next = r->next;
        if (r->need == NEED_GO && request_has_room(p, r))
            sleeper_wake(p, r);
    }
    struct request *b = p->doorbell_holder;
    if (b && b->need == NEED_GO && request_has_room(p, b))
        sleeper_wake(p, b);
}

static void sleepers_wake_for_room(struct client_lane *p) {
    for (struct request *r = p->sleepers, *next; r; r = next) {
        next = r->next;
        if (r->need != 0 && request_has_room(p, r))
            sleeper_wake(p, r);
    }
}

/* The caller stops looking at the lane. If threads sleep, make sure that one is at the doorbell. */
static void client_lane_leave(struct client_lane *p) {
    while (p->doorbell_holder) {
        lane_sleep_announce(&p->lane);
        if (!client_lane_has_records(p) || client_lane_drain(p) <= 0) { /* W1 */
            sleepers_wake_for_room(p);
            struct request *b = p->doorbell_holder;
            if (b && b->need != 0 && request_has_room(p, b))
                sleeper_wake(p, b);
            return;
        }
    }
    if (p->sleepers)
        sleeper_wake(p, p->sleepers);
}

bool spin_turn(unsigned i, uint64_t *end) {
    spin_relax();
    if ((i & 31) != 0)
        return true;
    uint64_t now = clock_ns();
    if (*end == 0)
        *end = now + DD_CLIENT_SPIN_US * 1000u;
    else if (now >= *end)
        return false;
    else
        now = spin_yield(now); /* the manager may need this core */
    return spin_pays(now);
}

/* Take replies for all threads without sleeping. True when r is done, or rewound. */
static bool request_spin(struct client_lane *p, struct request *r) {
    uint64_t end = 0;
    if (spin_cores() < 2)
        return false;
    for (unsigned i = 1;; i++) {
        if (request_done(r) || request_rewound(r))
            return true;
        if (client_lane_has_records(p) && pthread_mutex_trylock(&p->lock) == 0) {
            int n = client_lane_drain(p);
            pthread_mutex_unlock(&p->lock);
            if (n < 0)
                return false;
        } else if (!spin_turn(i, &end)) {
            return false;
        }
    }
}

/* Wait for the manager to consume or send something, without sleeping. */
static bool client_lane_spin(struct client_lane *p) {
    bool spins = spin_cores() > 1;
    uint64_t end = 0, head = __atomic_load_n(&p->lane.page->sq_head, __ATOMIC_RELAXED);
    /* Relaxed: only a hint, which is read again under the lock. */
    for (unsigned i = 1; spins && !client_lane_has_records(p) &&
                         __atomic_load_n(&p->lane.page->sq_head, __ATOMIC_RELAXED) == head;
         i++)
        if (!spin_turn(i, &end))
            return false;
    return spins;
}

/* Under lock: sleep once until something happens, at most slice_ms. The doorbell may have been
 * turned off, so it is announced again (W1). */
static void sleep_once(struct client_lane *p, struct request *r, int slice_ms) {
    uint32_t doorbell = lane_sleep_announce(&p->lane);
    if (client_lane_has_records(p) || request_is_satisfied(p, r))
        return;
    bool first = !p->doorbell_holder;
    if (first)
        doorbell_take(p, r);
    else
        sleeper_add(p, r);
    client_lane_unlock(p);
    if (first)
        lane_sleep(&p->lane, doorbell, slice_ms);
    else
        futex_sleep(&r->futex_word, slice_ms);
    client_lane_lock(p);
    sleeper_remove(p, r);
}

int client_lane_wait(struct client_lane *p, struct request *r, struct call_deadline *w) {
    int rc = 0;
    if (r->need == 0 && request_spin(p, r)) {
        /* A thread that went to sleep after we sent has announced itself; one that slept before is
         * counted in `watched`. */
        if (likely(__atomic_load_n(&p->watched, __ATOMIC_ACQUIRE) == 0))
            return !request_done(r);
        client_lane_lock(p);
        client_lane_leave(p);
        client_lane_unlock(p);
        return !request_done(r);
    }
    client_lane_lock(p);
    for (;;) {
        int n = client_lane_drain(p);
        sleepers_wake_for_room(p);
        if (request_is_satisfied(p, r)) {
            rc = 0;
            break;
        }
        if (n < 0)
            rc = n;
        if (rc < 0)
            break;
        if (n > 0)
            continue;
        client_lane_unlock(p);
        /* there may be too little room yet, but the manager is consuming, so more will follow
         * soon */
        if (r->need != 0 && r->need != NEED_GO && client_lane_spin(p)) {
            client_lane_lock(p);
            continue;
        }
        int slice = call_deadline_slice(w);
        client_lane_lock(p);
        if (slice < 0)
            rc = slice;
        else if (!request_is_satisfied(p, r))
            sleep_once(p, r, slice);
    }
    if (rc < 0)
        request_give_up(p, r);
    client_lane_leave(p);
    bool rewound = r->need == 0 && !r->done;
    client_lane_unlock(p);
    if (rc < 0)
        client_lane_wake(p);
    return rc < 0 ? rc : rewound;
}

int client_lane_wait_any(struct client_lane *p, struct batch *b, uint32_t need, int slice_ms) {
    struct request sleeper = {.need = need};
    client_lane_spin(p);
    client_lane_lock(p);
    int rc = client_lane_drain(p);
    sleepers_wake_for_room(p);
    if (rc == 0 && !b->done && !b->rewound && !request_is_satisfied(p, &sleeper)) {
        b->sleeper = &sleeper;
        sleep_once(p, &sleeper, slice_ms);
        b->sleeper = NULL;
    }
    client_lane_leave(p);
    client_lane_unlock(p);
    return rc < 0 ? rc : 0;
}

/* --- several lanes --- */

struct lane_sleeper {
    struct request request;
    uint32_t doorbell;
    bool on_doorbell;
};

/* Under the lane's lock: register as a sleeper. False: there is something to do already. */
static bool lane_sleeper_begin(struct client_lane *p, struct batch *b, struct lane_sleeper *sleeper,
                               int *rc) {
    memset(sleeper, 0, sizeof *sleeper);
    sleeper->request.need = 0;
    *rc = client_lane_drain(p);
    if (*rc != 0 || b->done)
        return false;
    sleeper->doorbell = lane_sleep_announce(&p->lane);
    if (client_lane_has_records(p))
        return false;
    if (!p->doorbell_holder)
        doorbell_take(p, &sleeper->request);
    else
        sleeper_add(p, &sleeper->request);
    sleeper->on_doorbell =
        sleeper->request.asleep == ON_DOORBELL; /* other threads may change asleep later */
    b->sleeper = &sleeper->request;
    return true;
}

static void doorbells_sleep(struct client_lane *const *p, struct lane_sleeper *sleeper, unsigned n,
                            int slice_ms) {
    /* futex_waitv is missing: sleep on one lane at a time, in turn; any value will do */
    static unsigned turn;
    struct futex_waiter w[64];
    struct timespec until;
    for (unsigned i = 0; i < n; i++) {
        bool doorbell = sleeper[i].on_doorbell;
        w[i] = (struct futex_waiter){.val = doorbell ? sleeper[i].doorbell : 0,
                                     .word = (uintptr_t)(doorbell ? &p[i]->lane.page->doorbell
                                                                  : &sleeper[i].request.futex_word),
                                     .flags = FUTEX_32BIT | (doorbell ? 0 : FUTEX_PRIVATE_FLAG)};
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += slice_ms % 1000 * 1000000L;
    until.tv_sec += slice_ms / 1000 + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    if (n > 1 && (syscall(FUTEX_WAITV, w, n, 0, &until, CLOCK_MONOTONIC) >= 0 ||
                  (errno != ENOSYS && errno != EPERM && errno != EINVAL)))
        return;
    unsigned i = n > 1 ? __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % n : 0;
    if (n > 1 && slice_ms > DD_WAIT_SLICE_MS)
        slice_ms = DD_WAIT_SLICE_MS;
    if (sleeper[i].on_doorbell)
        lane_sleep(&p[i]->lane, sleeper[i].doorbell, slice_ms);
    else
        futex_sleep(&sleeper[i].request.futex_word, slice_ms);
}

int client_lanes_wait_any(struct client_lane *const *p, struct batch *const *b, unsigned n,
                          int slice_ms) {
    struct lane_sleeper sleeper[64];
    int rc = 0;
    unsigned at = 0;
    bool sleeps = true;
    /* 64 managers are more than any node has; those beyond are checked once a slice */
    if (n > 64) {
        n = 64;
        slice_ms = DD_WAIT_SLICE_MS;
    }
    for (; at < n && sleeps; at++) {
        client_lane_lock(p[at]);
        sleeps = lane_sleeper_begin(p[at], b[at], &sleeper[at], &rc);
        if (!sleeps)
            client_lane_leave(p[at]);
        client_lane_unlock(p[at]);
    }
    if (sleeps)
        doorbells_sleep(p, sleeper, n, slice_ms);
    for (unsigned i = 0; i < at - !sleeps; i++) {
        client_lane_lock(p[i]);
        sleeper_remove(p[i], &sleeper[i].request);
        b[i]->sleeper = NULL;
        int e = client_lane_drain(p[i]);
        if (rc >= 0 && e < 0)
            rc = e;
        client_lane_leave(p[i]);
        client_lane_unlock(p[i]);
    }
    return rc < 0 ? rc : 0;
}
