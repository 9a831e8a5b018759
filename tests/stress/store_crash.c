/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_crash.c - a manager is killed with SIGKILL, at every named step in turn and at random
 * moments, and another one opens its arena. When a manager has died: every acknowledged change is
 * there, the one under way is there as a whole or not at all, no byte of a value that a client
 * holds has changed, no memory is lost, queues have their values in order, and of a frozen one's
 * cache nothing is found. The steps that it is killed in are those of store_crash_steps.c.
 */
#include "store_crash.h"

#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <store/budget.h>
#include <store/heap.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELD           40u
#define BUDGET         (12ull << 20)
#define SPILL_BUDGET   (4ull << 20)
#define SPILL_SIZE     (64ll << 20)
#define TRY_SECONDS    60             /* at most, until all was tried on a busy machine */
#define MUTANT_SECONDS 60             /* a bound */
#define PATIENCE_NS    60000000000ull /* a manager that is not dead by then hangs */

int stress_mutant;
struct shared *shared;
static uint64_t die_at; /* number of the point; 0: at random, from outside */
/* With a spill memory is so small that most values are there, and values are moved for the index.
 * */
static uint64_t budget = BUDGET;
int spill_fd = -1;
static void spill_on(void) {
    budget = SPILL_BUDGET;
    spill_fd = memfd_create("spill", MFD_CLOEXEC);
    if (spill_fd < 0 || ftruncate(spill_fd, SPILL_SIZE) < 0)
        exit(99);
}
static uint64_t spill_bytes(void) {
    return spill_fd < 0 ? 0 : SPILL_SIZE;
}

uint64_t rng = 1;

void stress_point(enum stress_place where) {
    shared->passed[where]++;
    if (++shared->points == die_at)
        kill(getpid(), SIGKILL);
}

void fail(const char *what, uint64_t key) {
    fprintf(stderr, "FAILED: %s (key %llu, point %llu): %s\n", what, (unsigned long long)key,
            (unsigned long long)shared->points, dd_errmsg());
    exit(1);
}

/* --- the client, which lives on --- */
static struct {
    uint64_t key, version;
    struct found f;
} held[HELD];
static struct lease_chunk *page;

static int look(const struct arena_view *a, uint64_t key, uint64_t *slot, struct found *f) {
    char name[32];
    uint32_t n = name_of(name, key);
    return reader_find(a, key_hash(name, n), name, n, slot, f);
}

static void check_held(void) {
    for (unsigned i = 0; i < HELD; i++)
        if (page->slot[i] &&
            !right(held[i].f.value, held[i].f.val_len, held[i].key, held[i].version))
            fail("a held view changed", held[i].key);
}

/* Views of what a frozen manager had cached when it died. */
static void hold_cached(const struct arena_view *a) {
    uint64_t freeze = a->header->freeze;
    for (unsigned i = 0; i < HELD && FREEZE_STATE(freeze) != FREEZE_OPEN; i++) {
        uint64_t key = KEYS + next_random() % FOREIGN;
        if (page->slot[i] || look(a, key, &page->slot[i], &held[i].f) != 0)
            continue;
        held[i].key = key;
        held[i].version = FREEZE_EPOCH(freeze);
        if (!right(held[i].f.value, held[i].f.val_len, key, held[i].version))
            fail("not the cached value", key);
        shared->cached_held++;
    }
}

static uint64_t walked;
static int count(void *arg, const void *key, uint32_t len) {
    walked++;
    return 0;
}

static uint64_t queue_length(const struct arena_view *a, struct store *s, uint64_t q) {
    char name[32];
    struct found f;
    struct store_queue have;
    uint32_t len = name_of(name, QUEUE(q));
    int rc = look(a, QUEUE(q), &page->slot[HELD], &f);
    reader_release(&page->slot[HELD]);
    store_queue_look(s, name, len, key_hash(name, len), &have);
    return have.more + (rc == 0);
}

/* What was under way is done: then all of it has to be as it is afterwards, else as it was before
 * (check_all). */
static bool happened(const struct arena_view *a, struct store *s) {
    uint64_t key = shared->key;
    struct found f;
    if (key == KEYS)
        return ROOT_GENERATION(s->header->root) != shared->next;
    if (key >= QUEUE(0)) {
        return queue_length(a, s, key - QUEUE(0)) != shared->was;
    }
    int rc = look(a, key, &page->slot[HELD], &f);
    bool now =
        shared->next ? rc == 0 && right(f.value, f.val_len, key, shared->next) : rc == DDICT_ENOKEY;
    reader_release(&page->slot[HELD]);
    return now;
}

/* What the dead manager left, before anything is settled and after. */
static void check_all(const struct arena_view *a, struct store *s) {
    uint64_t there = 0, cursor = 0;
    if (shared->busy) { /* done, or not at all; and the record of it knows */
        struct store_fate fate;
        bool known = store_fate(s, &fate) && fate.from.at == shared->requests,
             done = happened(a, s);
        bool absent = shared->key < KEYS && !shared->next && !shared->version[shared->key];
        if (!absent && (known && fate.happened) != done)
            fail("the record of the change is wrong", shared->key);
        if (done)
            acknowledge();
        else
            __atomic_store_n(&shared->busy, 0, __ATOMIC_SEQ_CST);
    }
    for (uint64_t k = 0; k < KEYS; k++) {
        struct found f;
        int rc = look(a, k, &page->slot[HELD], &f);
        if (rc == -EAGAIN || (rc && rc != DDICT_ENOKEY))
            fail("find", k);
        if (rc == 0 && !right(f.value, f.val_len, k, shared->version[k]))
            fail("not the acknowledged value", k);
        if (rc && shared->version[k])
            fail("an acknowledged value is lost", k);
        there += rc == 0;
        reader_release(&page->slot[HELD]);
    }
    for (uint64_t k = KEYS; k < KEYS + FOREIGN; k++) {
        struct found f;
        if (look(a, k, &page->slot[HELD], &f) != DDICT_ENOKEY)
            fail("still cached when another manager has opened the arena", k);
    }
    for (uint64_t q = 0; q < QUEUES; q++) {
        struct found f;
        uint64_t n = shared->queue[q].tail - shared->queue[q].head;
        int rc = look(a, QUEUE(q), &page->slot[HELD], &f);
        if (rc != (n ? 0 : DDICT_ENOKEY))
            fail("a queue is empty, or not", q);
        if (rc == 0 && !right(f.value, f.val_len, QUEUE(q), shared->queue[q].head))
            fail("not the first value of a queue", q);
        reader_release(&page->slot[HELD]);
        if (queue_length(a, s, q) != n)
            fail("the number of a queue's values is wrong", q);
        there += rc == 0;
    }
    if (s->header->cached_items || s->header->cached_bytes)
        fail("counted as cached", s->header->cached_items);
    walked = 0;
    do
        if (reader_keys(a, &cursor, &page->slot[HELD], count, NULL) < 0)
            fail("walk", 0);
    while (cursor);
    if (walked != there || s->header->num_keys != there)
        fail("the number of keys is wrong", walked);
    check_held();
}

static struct store *reopen(const struct arena_view *a, int fd) {
    struct store *s;
    if (store_open(&s, fd, spill_fd, 0) < 0)
        fail("open", 0);
    store_leases_add(s, 1, page, 1);
    check_all(a, s);
    return s;
}

/* As the next manager: change a few things, so that blocks are used again. */
static void serve_a_while(const struct arena_view *a, struct store *s) {
    for (int i = 0; i < 60; i++) {
        uint64_t key = next_random() % KEYS;
        if (i == 30)
            squeeze(s);
        unsigned h = (unsigned)(next_random() % HELD);
        put(s, key);
        if (i % 4)
            continue;
        reader_release(&page->slot[h]);
        key = next_random() % KEYS;
        if (look(a, key, &page->slot[h], &held[h].f) == 0) {
            held[h].key = key;
            held[h].version = shared->version[key];
        }
    }
    for (uint64_t q = 0; q < QUEUES; q++) {
        push(s, q);
        for (uint64_t n = next_random() % 30; n > 0; n--)
            pop(s, q);
    }
    store_reclaim(s);
    check_held();
    struct manager_stats st = {0};
    store_stats(s, &st);
    if (st.total_used_bytes > budget || budget_resident(s) > budget)
        fail("more memory than the budget", 0);
}

static void kill_one(int fd, uint64_t point) {
    int status;
    fflush(NULL);
    shared->points = 0;
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        fail("fork", 0);
    if (!pid) {
        struct store *s;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        die_at = point % 2 ? point : 0; /* or while it makes good what the last one left */
        rng ^= point * 0x9E3779B97F4A7C15ull;
        if (store_open(&s, fd, spill_fd, 0) < 0 || store_leases_add(s, 1, page, 1) < 0)
            _exit(2);
        die_at = point;
        shared->points = 0;
        manager(s);
    }
    if (!point) {
        usleep((useconds_t)(next_random() % 20000));
        kill(pid, SIGKILL);
    }
    uint64_t end = clock_ns() + PATIENCE_NS;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (clock_ns() > end) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            fail("the manager did not come to its point", point);
        }
        usleep(200);
    }
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail("the manager ended by itself", (uint64_t)status);
}

/* The steps of the spill only where there is one, all others only where values of others are cached
 * as well. */
static bool wanted(int p) {
    return (p == STRESS_W_CHOSEN || p == STRESS_W_WRITTEN) == (spill_fd >= 0);
}

static bool all_tried(void) {
    for (int p = STRESS_W_READY; p < STRESS_PLACES; p++)
        if (wanted(p) && !shared->passed[p])
            return false;
    return shared->cached_held > 0 || spill_fd >= 0;
}

/* Kill managers for so long, and the right build until all was tried; exits with 1 at the first
 * thing that is wrong. */
static void run(double seconds, bool quiet) {
    uint64_t end = clock_ns() + (uint64_t)(seconds * 1e9), last = end + TRY_SECONDS * 1000000000ull,
             kills = 0, point = 0;
    struct store_options o = {.budget = budget, .managers = 1, .spill = spill_bytes()};
    struct arena_view a;
    int fd = arena_create(&o);
    if (fd < 0)
        fail("create", 0);
    memset(shared, 0, sizeof *shared);
    page->chunks = 1;
    rng = clock_ns() | 1;
    uint64_t seed = rng;
    struct store *s;
    if (store_open(&s, fd, spill_fd, 0) < 0 || arena_view_map(&a, fd, spill_fd, 0) < 0)
        fail("open", 0);
    store_close(s);
    while (clock_ns() < end || (!quiet && !all_tried() && clock_ns() < last)) {
        /* Every step in turn, then some at random: a fifth from outside, at any instruction. */
        point = kills < 400 ? kills + 1 : next_random() % 30000 + 1;
        kill_one(fd, kills % 5 == 4 ? 0 : point);
        hold_cached(&a);
        s = reopen(&a, fd);
        serve_a_while(&a, s);
        store_close(s);
        kills++;
    }
    /* Nothing is lost: when all is let go of and cleared, what is left is the index. */
    memset(page->slot, 0, sizeof page->slot);
    if (store_open(&s, fd, spill_fd, 0) < 0)
        fail("open", 0);
    if (store_clear(s) < 0)
        fail("clear", 0);
    while (store_work(s)) {
    }
    store_reclaim(s);
    heap_relieve(s, 0);
    if (s->header->used_bytes != budget_fixed(s) || s->leases.retired_n)
        fail("memory is lost", s->header->used_bytes - budget_fixed(s));
    if (s->header->spill_used || s->header->spill_items)
        fail("a part of the spill is lost", s->header->spill_used);
    if (spill_fd >= 0 && !s->header->spilled_bytes)
        fail("nothing was spilled", 0);
    if (spill_fd >= 0 && !all_tried())
        fail("a step of the spill was never passed", 0);
    if (spill_fd >= 0)
        printf(
            "ok: %llu managers killed, %llu MiB spilled, %llu values chosen, %llu times written\n",
            (unsigned long long)kills, (unsigned long long)(s->header->spilled_bytes >> 20),
            (unsigned long long)shared->passed[STRESS_W_CHOSEN],
            (unsigned long long)shared->passed[STRESS_W_WRITTEN]);
    if (!quiet) {
        printf(
            "ok: %llu managers killed (seed %llu), %llu views of cached values kept; steps passed:",
            (unsigned long long)kills, (unsigned long long)seed,
            (unsigned long long)shared->cached_held);
        for (int p = STRESS_W_READY; p < STRESS_PLACES; p++)
            printf(" %llu", (unsigned long long)shared->passed[p]);
        printf("\n");
        for (int p = STRESS_W_READY; p < STRESS_PLACES; p++)
            if (wanted(p) && !shared->passed[p])
                fail("a step was never passed", (uint64_t)p);
        if (!shared->cached_held)
            fail("no manager died with cached values", 0);
    }
    store_close(s);
    arena_view_unmap(&a);
    close(fd);
}

/* A mutant must be caught: its run, in a process of its own, must fail. */
static bool caught(int mutant) {
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        stress_mutant = mutant;
        run(MUTANT_SECONDS, true);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status != 0;
}

int main(void) {
    static const int mutants[] = {MUTANT_EARLY_MOVED, MUTANT_BLIND_REPEAT, MUTANT_EARLY_DONE,
                                  MUTANT_KEEP_CACHED, MUTANT_STALE_OPERATION};
    const char *secs = getenv("DDICT_STRESS_SECONDS");
    int bad = 0;
    shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, spill_fd, 0);
    page = mmap(NULL, LEASE_FILE_SIZE, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, spill_fd, 0);
    if (shared == MAP_FAILED || page == MAP_FAILED)
        fail("set up", 0);
    run(secs ? atof(secs) : 5, false);
    fprintf(stderr, "the failures that follow are those of mutants\n");
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        memset(page, 0, sizeof *page);
        bool ok = caught(mutants[i]);
        printf("%s: mutant %d\n", ok ? "ok: caught" : "FAILED: not caught", mutants[i]);
        bad += !ok;
    }
    memset(page, 0, sizeof *page);
    spill_on();
    run(secs ? atof(secs) : 3, true);
    return bad != 0;
}
