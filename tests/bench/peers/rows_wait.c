/* SPDX-License-Identifier: Apache-2.0 */
/* rows_wait.c - what a round trip to another process costs on this machine, spinning and through a
 * futex, beside puts to a manager that is awake or asleep. */
#include "peers.h"
#include <base/clock.h>
#include <base/spin.h>

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLEEP_US 2000u /* longer than a manager spins */

/* Two words on lines of their own. The other process answers in there with the number that it
 * found. */
struct pad {
    uint32_t ask __attribute__((aligned(64))), answer __attribute__((aligned(64))),
        spin __attribute__((aligned(64)));
};
struct trip {
    struct pad *pad;
    pid_t pid;
    uint32_t n;
    bool spin;
};

static void futex_wait(uint32_t *at, uint32_t is) {
    syscall(SYS_futex, at, FUTEX_WAIT, is, NULL, NULL, 0);
}
static void futex_wake(uint32_t *at) {
    syscall(SYS_futex, at, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void other(struct pad *p, int cpu) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_only(cpu);
    for (uint32_t n = 0;;) {
        uint32_t now;
        /* pairs with the release in trip_once() */
        while ((now = __atomic_load_n(&p->ask, __ATOMIC_ACQUIRE)) == n) {
            if (__atomic_load_n(&p->spin, __ATOMIC_RELAXED))
                spin_relax();
            else
                futex_wait(&p->ask, n);
        }
        n = now;
        /* pairs with the acquire in trip_once() */
        __atomic_store_n(&p->answer, n, __ATOMIC_RELEASE);
        if (!__atomic_load_n(&p->spin, __ATOMIC_RELAXED))
            futex_wake(&p->answer);
    }
}

static void trip_once(struct trip *t) {
    struct pad *p = t->pad;
    uint32_t n = ++t->n;
    __atomic_store_n(&p->ask, n, __ATOMIC_RELEASE); /* pairs with the acquire in other() */
    if (!t->spin)
        futex_wake(&p->ask);
    /* pairs with the release in other() */
    while (__atomic_load_n(&p->answer, __ATOMIC_ACQUIRE) != n) {
        if (t->spin)
            spin_relax();
        else
            futex_wait(&p->answer, n - 1);
    }
}

static int64_t go_trip(struct turn *t, uint64_t ns, uint64_t *spent) {
    struct trip *x = t->self;
    uint64_t begun = clock_ns(), n = 0, sum = 0;
    __atomic_store_n(&x->pad->spin, x->spin, __ATOMIC_RELAXED); /* only how it waits */
    x->n++;
    /* it looks at spin; pairs with the acquire in other() */
    __atomic_store_n(&x->pad->ask, x->n, __ATOMIC_RELEASE);
    futex_wake(&x->pad->ask);
    usleep(1000);
    if (!x->spin)
        cpu_only(0);
    t->lats = 0;
    while (clock_ns() - begun < ns || n == 0) {
        if (t->pause_us > 0)
            usleep(t->pause_us);
        uint64_t before = clock_ns();
        trip_once(x);
        uint64_t took = clock_ns() - before;
        if (t->lats < LAT_MAX)
            t->lat[t->lats++] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
        sum += took;
        n++;
    }
    cpu_only(-1);
    /* it does not spin while others are measured */
    __atomic_store_n(&x->pad->spin, 0, __ATOMIC_RELAXED);
    x->n++;
    __atomic_store_n(&x->pad->ask, x->n, __ATOMIC_RELEASE); /* as above */
    *spent = sum;
    return (int64_t)n;
}

static int trip_open(struct trip *t, bool spin) {
    *t = (struct trip){.spin = spin};
    t->pad = mmap(NULL, sizeof *t->pad, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t->pad == MAP_FAILED)
        return -errno;
    t->pid = fork();
    if (t->pid == 0)
        other(t->pad, spin ? -1 : 1);
    return t->pid < 0 ? -errno : 0;
}

static void trip_close(struct trip *t) {
    if (t->pid > 0) {
        kill(t->pid, SIGKILL);
        waitpid(t->pid, NULL, 0);
    }
}

int rows_wait(const struct row *r, const struct where *w, const struct plan *p) {
    bool asleep = strcmp(r->name, "put_asleep") == 0;
    struct turn *t = calloc(2, sizeof *t);
    struct trip trip = {0};
    void *self = NULL;
    struct where few = *w;
    few.keys = 4096;
    int rc = !t ? -ENOMEM : store_ddict.open(&self, &few);
    if (rc == 0)
        rc = store_load(&store_ddict, self, &few);
    if (rc == 0)
        rc = trip_open(&trip, !asleep);
    if (rc == 0)
        rc = turn_store(&t[0], &store_ddict, self, &few, PUT, 1);
    if (rc == 0)
        rc = turn_other(&t[1], asleep ? "futex round trip" : "spinning round trip", go_trip, &few);
    if (rc == 0) {
        t[0].latencies = true;
        t[1].self = &trip;
        t[0].pause_us = t[1].pause_us = asleep ? SLEEP_US : 0;
    }
    rc = rc == 0 ? turns_run(r->name, t, 2, p) : turns_fail(t, rc);
    trip_close(&trip);
    if (self)
        store_ddict.close(self);
    for (unsigned i = 0; i < 2; i++)
        turn_free(&t[i]);
    free(t);
    return rc;
}
