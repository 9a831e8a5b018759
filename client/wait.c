/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c - how threads wait on a port: spin, then one at the bell and the others on words of their own (port.h).
 *
 * While a thread spins, or takes replies on its way, it turns the bell off (LANE_SLEEPS of client_sleeps), so that the manager does not
 * ring for the one who sleeps there; when it leaves it announces the sleeper again and looks at the ring once more (W1). The sleeper waits for
 * `bell` to differ from a value read before the first announcement, so whatever ring happened meanwhile wakes it.
 */
#include "handle.h"
#include "port_inside.h"
#include <base/spin.h>

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHECK_NS     (DD_WAIT_SLICE_MS * 1000000ull)
#define LONG_WAIT_NS (10 * CHECK_NS) /* from here on slices are ten times longer */

static long futex(uint32_t *word, int op, uint32_t val, const struct timespec *t) {
    return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, val, t, NULL, 0);
}

/* The kernel's struct futex_waitv; libc's headers may be older. */
struct bell_wait {
    uint64_t val, word;
    uint32_t flags, room;
};
#define FUTEX_WAITV 449 /* on every architecture */
#define FUTEX_32BIT 2u

static void word_sleep(uint32_t *word, int slice_ms) {
    struct timespec t = {.tv_sec = slice_ms / 1000, .tv_nsec = slice_ms % 1000 * 1000000L};
    futex(word, FUTEX_WAIT, 0, &t);
}

/* --- patience --- */

void patience_init(struct patience *w, struct session *s, int timeout_ms) {
    w->session = s;
    w->timeout_ms = timeout_ms < 0 ? s->timeout_ms : timeout_ms;
    w->started = false;
}

static void patience_start(struct patience *w) {
    deadline_start(&w->deadline, w->timeout_ms);
    w->began_ns = w->deadline.last_ns;
    w->checked_ns = 0;
    w->started = true;
}

int patience_slice(struct patience *w) {
    if (!w->started)
        patience_start(w);
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

uint64_t patience_left_us(struct patience *w) {
    if (!w->started)
        patience_start(w);
    deadline_left(&w->deadline, 0);
    uint64_t now = clock_ns();
    return w->deadline.at_ns > now ? (w->deadline.at_ns - now) / 1000 : 0;
}

void patience_extend(struct patience *w, int ms) {
    if (!w->started)
        patience_start(w);
    w->deadline.at_ns += (uint64_t)((int64_t)ms * 1000000);
}

void patience_renew(struct patience *w) {
    w->started = false;
}

/* --- sleepers, under lock --- */

static void bell_take(struct port *p, struct request *r) {
    p->bell_holder = r;
    r->asleep = ON_BELL;
    __atomic_fetch_add(&p->watched, 1, __ATOMIC_RELEASE);
}

static void sleeper_add(struct port *p, struct request *r) {
    r->asleep = ON_WORD;
    __atomic_fetch_add(&p->watched, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&r->word, 0, __ATOMIC_RELAXED);
    r->prev = NULL;
    r->next = p->sleepers;
    if (r->next != NULL)
        r->next->prev = r;
    p->sleepers = r;
}

static void sleeper_remove(struct port *p, struct request *r) {
    if (r->asleep == ON_WORD) {
        if (r->prev != NULL)
            r->prev->next = r->next;
        else
            p->sleepers = r->next;
        if (r->next != NULL)
            r->next->prev = r->prev;
    } else if (r->asleep == ON_BELL) {
        p->bell_holder = NULL;
    } else {
        return;
    }
    __atomic_fetch_sub(&p->watched, 1, __ATOMIC_RELEASE);
    r->asleep = AWAKE;
}

static void sleeper_wake(struct port *p, struct request *r) {
    if (r->asleep == ON_BELL) {
        lane_wake_client(&p->lane); /* moves the bell: it can not miss it */
    } else if (r->asleep == ON_WORD) {
        sleeper_remove(p, r);
        __atomic_store_n(&r->word, 1, __ATOMIC_RELEASE); /* pairs with the look of futex_wait */
        futex(&r->word, FUTEX_WAKE, 1, NULL);
    }
}

void request_complete(struct port *p, struct request *r, int status) {
    if (r->id != 0)
        table_remove(p, r);
    r->streaming = false;
    r->status = status;
    if (r->job) {
        __atomic_store_n(&r->done, 1, __ATOMIC_RELAXED); /* under lock, as who looks at it */
        job_complete(p, r);
        return;
    }
    if (r->batch != NULL) {
        r->next = r->batch->done;
        r->batch->done = r;
        if (r->batch->napper != NULL)
            sleeper_wake(p, r->batch->napper);
    } else {
        sleeper_wake(p, r);
    }
    /* Release pairs with the acquire in request_done(). The lock is still held, so a sleeper is not gone before. */
    __atomic_store_n(&r->done, 1, __ATOMIC_RELEASE);
}

static inline bool request_done(const struct request *r) {
    return __atomic_load_n(&r->done, __ATOMIC_ACQUIRE) != 0;
}

bool port_room(struct port *p, uint32_t need) {
    bool bad = false;
    return ring_reserve(&p->lane.sq, need, &bad) != NULL ||
           bad; /* bad: the sender shall find out */
}

static bool room_for(struct port *p, const struct request *r) {
    return r->need == NEED_GO ? !port_held(p, r->to) : port_room(p, r->need);
}

/* Does r have what it waits for? */
static bool satisfied(struct port *p, struct request *r) {
    if (r->need == 0)
        return r->done;
    return (r->done && r->sending) || room_for(p, r);
}

void port_go(struct port *p) {
    for (struct request *r = p->sleepers, *next; r != NULL; r = next) {
        next = r->next;
        if (r->need == NEED_GO && room_for(p, r))
            sleeper_wake(p, r);
    }
    struct request *b = p->bell_holder;
    if (b != NULL && b->need == NEED_GO && room_for(p, b))
        sleeper_wake(p, b);
}

static void wake_for_room(struct port *p) {
    for (struct request *r = p->sleepers, *next; r != NULL; r = next) {
        next = r->next;
        if (r->need != 0 && room_for(p, r))
            sleeper_wake(p, r);
    }
}

/* The caller stops looking at the port: see to it that someone does while anyone sleeps. */
static void leave(struct port *p) {
    while (p->bell_holder != NULL) {
        lane_sleep_announce(&p->lane);
        if (!port_ready(p) || port_drain(p) <= 0) { /* W1 */
            wake_for_room(p);
            struct request *b = p->bell_holder;
            if (b != NULL && b->need != 0 && room_for(p, b))
                sleeper_wake(p, b);
            return;
        }
    }
    if (p->sleepers != NULL)
        sleeper_wake(p, p->sleepers);
}

bool wait_turn(unsigned i, uint64_t *end) {
    spin_relax();
    if ((i & 31) != 0)
        return true;
    uint64_t now = clock_ns();
    if (*end == 0)
        *end = now + DD_CLIENT_SPIN_US * 1000u;
    else if (now >= *end)
        return false;
    else
        now = spin_yield(now); /* who is to answer may wait for this core */
    return spin_pays(now);
}

/* Look for replies without sleeping, for everybody. True when r is done. */
static bool spin(struct port *p, struct request *r) {
    uint64_t end = 0;
    if (spin_cores() < 2)
        return false;
    for (unsigned i = 1;; i++) {
        if (request_done(r))
            return true;
        if (port_ready(p) && pthread_mutex_trylock(&p->lock) == 0) {
            int n = port_drain(p);
            pthread_mutex_unlock(&p->lock);
            if (n < 0)
                return false;
        } else if (!wait_turn(i, &end)) {
            return false;
        }
    }
}

/* Look whether the manager takes or gives anything, without sleeping. */
static bool spin_for_change(struct port *p) {
    bool spins = spin_cores() > 1;
    uint64_t end = 0, head = __atomic_load_n(&p->lane.page->sq_head, __ATOMIC_RELAXED);
    /* Relaxed: only a hint; who then takes the lock reads it again as it must be read. */
    for (unsigned i = 1; spins && !port_ready(p) &&
                         __atomic_load_n(&p->lane.page->sq_head, __ATOMIC_RELAXED) == head;
         i++)
        if (!wait_turn(i, &end))
            return false;
    return spins;
}

/* Under lock; sleep once until something happens, at most slice_ms. Whoever is at the bell may have been turned off: announced again (W1). */
static void sleep_once(struct port *p, struct request *r, int slice_ms) {
    uint32_t bell = lane_sleep_announce(&p->lane);
    if (port_ready(p) || satisfied(p, r))
        return;
    bool first = p->bell_holder == NULL;
    if (first)
        bell_take(p, r);
    else
        sleeper_add(p, r);
    port_unlock(p);
    if (first)
        lane_sleep(&p->lane, bell, slice_ms);
    else
        word_sleep(&r->word, slice_ms);
    port_lock(p);
    sleeper_remove(p, r);
}

int port_wait(struct port *p, struct request *r, struct patience *w) {
    int rc = 0;
    if (r->need == 0 && spin(p, r)) {
        /* Who came to sleep after our request was sent has announced itself; who was there before is counted here. */
        if (likely(__atomic_load_n(&p->watched, __ATOMIC_ACQUIRE) == 0))
            return 0;
        port_lock(p);
        leave(p);
        port_unlock(p);
        return 0;
    }
    port_lock(p);
    for (;;) {
        int n = port_drain(p);
        wake_for_room(p);
        if (satisfied(p, r)) {
            rc = 0;
            break;
        }
        if (n < 0)
            rc = n;
        if (rc < 0)
            break;
        if (n > 0)
            continue;
        port_unlock(p);
        if (r->need != 0 && r->need != NEED_GO &&
            spin_for_change(
                p)) { /* perhaps not room enough yet: the manager is at it, so it will not take long */
            port_lock(p);
            continue;
        }
        int slice = patience_slice(w);
        port_lock(p);
        if (slice < 0)
            rc = slice;
        else if (!satisfied(p, r))
            sleep_once(p, r, slice);
    }
    if (rc < 0)
        give_up(p, r);
    leave(p);
    port_unlock(p);
    if (rc < 0)
        port_wake(p);
    return rc;
}

int port_nap(struct port *p, struct batch *b, uint32_t need, int slice_ms) {
    struct request napper = {.need = need};
    spin_for_change(p);
    port_lock(p);
    int rc = port_drain(p);
    wake_for_room(p);
    if (rc == 0 && b->done == NULL && !satisfied(p, &napper)) {
        b->napper = &napper;
        sleep_once(p, &napper, slice_ms);
        b->napper = NULL;
    }
    leave(p);
    port_unlock(p);
    return rc < 0 ? rc : 0;
}

/* --- several ports --- */

struct nap {
    struct request napper;
    uint32_t bell;
    bool on_bell;
};

/* Under the port's lock: be found by who rings. False: there is something already. */
static bool nap_begin(struct port *p, struct batch *b, struct nap *nap, int *rc) {
    memset(nap, 0, sizeof *nap);
    nap->napper.need = 0;
    *rc = port_drain(p);
    if (*rc != 0 || b->done != NULL)
        return false;
    nap->bell = lane_sleep_announce(&p->lane);
    if (port_ready(p))
        return false;
    if (p->bell_holder == NULL)
        bell_take(p, &nap->napper);
    else
        sleeper_add(p, &nap->napper);
    nap->on_bell = nap->napper.asleep == ON_BELL; /* what it is later is for others to change */
    b->napper = &nap->napper;
    return true;
}

static void bells_sleep(struct port *const *p, struct nap *nap, unsigned n, int slice_ms) {
    static unsigned
        turn; /* which one has its moment, where only one can be slept on; any value will do */
    struct bell_wait w[64];
    struct timespec until;
    for (unsigned i = 0; i < n; i++) {
        bool bell = nap[i].on_bell;
        w[i] = (struct bell_wait){
            .val = bell ? nap[i].bell : 0,
            .word = (uintptr_t)(bell ? &p[i]->lane.page->bell : &nap[i].napper.word),
            .flags = FUTEX_32BIT | (bell ? 0 : FUTEX_PRIVATE_FLAG)};
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
    if (nap[i].on_bell)
        lane_sleep(&p[i]->lane, nap[i].bell, slice_ms);
    else
        word_sleep(&nap[i].napper.word, slice_ms);
}

int ports_nap(struct port *const *p, struct batch *const *b, unsigned n, int slice_ms) {
    struct nap nap[64];
    int rc = 0;
    unsigned at = 0;
    bool sleeps = true;
    if (n >
        64) { /* more managers than anybody has on one node: those beyond are looked at in turn */
        n = 64;
        slice_ms = DD_WAIT_SLICE_MS;
    }
    for (; at < n && sleeps; at++) {
        port_lock(p[at]);
        sleeps = nap_begin(p[at], b[at], &nap[at], &rc);
        if (!sleeps)
            leave(p[at]);
        port_unlock(p[at]);
    }
    if (sleeps)
        bells_sleep(p, nap, n, slice_ms);
    for (unsigned i = 0; i < at - !sleeps; i++) {
        port_lock(p[i]);
        sleeper_remove(p[i], &nap[i].napper);
        b[i]->napper = NULL;
        int e = port_drain(p[i]);
        if (rc >= 0 && e < 0)
            rc = e;
        leave(p[i]);
        port_unlock(p[i]);
    }
    return rc < 0 ? rc : 0;
}
