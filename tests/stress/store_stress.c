/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_stress.c - one writer and several readers, each a process, at full speed and with random
 * delays at every step of LAYOUT 5. What is checked, every time:
 *
 *  1. Every word of every value that is found, and again while a view is held, is the one of that
 *     key and version.
 *  2. A key whose state did not change while it was sought is found with exactly that version, or
 *     missed exactly when absent. So a version never goes back, and an acknowledged put is never
 *     followed by an older value or a miss.
 *  3. A walk over the keys sees a key that is present throughout exactly once, also while the index
 *     grows.
 *  4. While the writer is frozen and caches and evicts values of other owners, who change them only
 *     while it is open: no reader that sees FROZEN finds a value that was replaced before it
 *     looked.
 *  5. All of this while values move in memory, because room is wanted that is there, but scattered.
 *
 * The right build must pass for some seconds; then each mutant (stress.h) must be caught, or this
 * test proves nothing. Environment: DDICT_STRESS_SECONDS (of the right build),
 * DDICT_MUTANT_SECONDS (of a mutant, at most), DDICT_MUTANT (only this one; 0: only the right
 * build).
 */
#include "store_stress.h"

#include <base/clock.h>
#include <base/error.h>
#include <store/heap.h>
#include <store/pages.h>

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READERS        3
#define BUDGET         (16ull << 20)
#define SPILL_BUDGET   (4ull << 20)
#define SPILL_SIZE     (64ll << 20)
#define TRY_SECONDS    60 /* at most, on a busy machine */
#define HANG_SECONDS   60 /* a process that does not end by then hangs */
#define MUTANT_SECONDS 60 /* a bound; nearly all are caught in a few */

int stress_mutant;

struct shared *shared;

/* With a spill memory is so small that most values are there, and values are moved for the index.
 * */
static uint64_t budget = BUDGET;
static int spill_fd = -1;
static void spill_on(void) {
    budget = SPILL_BUDGET;
    spill_fd = memfd_create("spill", MFD_CLOEXEC);
    if (spill_fd < 0 || ftruncate(spill_fd, SPILL_SIZE) < 0)
        exit(99);
}
static uint64_t spill_bytes(void) {
    return spill_fd < 0 ? 0 : SPILL_SIZE;
}

uint64_t rng;

void fail(const char *fmt, ...) {
    uint64_t none = 0;
    if (__atomic_compare_exchange_n(&shared->failed, &none, 1, 0, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(shared->what, sizeof shared->what, fmt, ap);
        va_end(ap);
    }
    __atomic_store_n(&shared->stop, 1, __ATOMIC_SEQ_CST);
    _exit(1);
}

static bool is_reader;
void stress_point(enum stress_place where) {
    uint64_t r = next_random();
    /* Often where the other side can do most harm meanwhile, seldom where it is passed for every
     * word. */
    unsigned every = where == STRESS_R_FOUND || where == STRESS_R_DIR || where == STRESS_R_CHECKED
                         ? 64
                     : is_reader                                           ? 512
                     : where == STRESS_W_COPIED || where == STRESS_W_READY ? 1024
                                                                           : 64;
    if (r % every == 0) {
        /* up to a quarter of a millisecond, and what the kernel adds */
        struct timespec t = {0, (long)(r >> 20 & 0xffff) * 4};
        nanosleep(&t, NULL);
    } else if (r % 16 == 1) {
        for (volatile unsigned i = 0; i < (r >> 20 & 0xff); i++) {
        }
    }
}

/* --- the writer --- */

static void state_begin(uint64_t key) {
    if (key < KEYS)
        __atomic_store_n(&shared->key[key].turn, shared->key[key].turn + 1, __ATOMIC_SEQ_CST);
}
static void state_end(uint64_t key, uint64_t version) {
    if (key >= KEYS)
        return;
    __atomic_store_n(&shared->key[key].version, version, __ATOMIC_SEQ_CST);
    __atomic_store_n(&shared->key[key].turn, shared->key[key].turn + 1, __ATOMIC_SEQ_CST);
}

static uint64_t last_version;
static bool write_value(struct store *s, uint64_t key) {
    char name[40];
    struct store_ref ref;
    uint64_t version = ++last_version, n = value_words(key, version);
    int rc;
    uint64_t scan = 0;
    while ((rc = store_reserve_again(s, name, key_name(name, key), n * 8, (uint8_t)key, &ref,
                                     &scan)) == -EINPROGRESS)
        store_work(s);
    if (rc == DDICT_EFULL)
        return false;
    if (rc < 0)
        fail("reserve: %s", dd_strerror(rc));
    uint64_t *w = (uint64_t *)ref.value;
    w[0] = version;
    w[1] = key;
    for (uint64_t i = 2; i < n; i++)
        w[i] = value_word(key, version, i);
    state_begin(key);
    rc = store_commit(s, &ref, STORE_ANY, NULL);
    if (rc < 0) {
        store_abort(s, &ref);
        state_end(key, key < KEYS ? shared->key[key].version : 0);
        if (rc != DDICT_EFULL)
            fail("commit: %s", dd_strerror(rc));
        return false;
    }
    state_end(key, version);
    __atomic_store_n(&shared->writes, shared->writes + 1, __ATOMIC_RELAXED);
    return true;
}

static void remove_value(struct store *s, uint64_t key) {
    char name[40];
    struct store_ref ref;
    bool pop = next_random() % 3 == 0;
    state_begin(key);
    int rc = store_remove(s, name, key_name(name, key), pop ? &ref : NULL);
    uint64_t had = key < KEYS ? shared->key[key].version : 0;
    state_end(key, 0);
    if (rc != (had ? 0 : DDICT_ENOKEY) && key < KEYS)
        fail("remove: %d of key %llu in version %llu", rc, (unsigned long long)key,
             (unsigned long long)had);
    if (rc || !pop)
        return;
    for (int i = 0; i < 8; i++)
        write_value(s, next_random() % KEYS);
    store_reclaim(s);
    if (!value_check(key, store_value(s, ref.item), item_len(ref.item)))
        fail("a popped value changed");
    store_unpin(s, ref.off);
}

static void clear_all(struct store *s) {
    __atomic_store_n(&shared->loaded, shared->loaded + 1, __ATOMIC_SEQ_CST);
    for (uint64_t k = 0; k < KEYS; k++)
        state_begin(k);
    int rc = store_clear(s);
    if (rc < 0)
        fail("clear: %s", dd_strerror(rc));
    for (uint64_t k = 0; k < KEYS; k++)
        state_end(k, 0);
    __atomic_store_n(&shared->clears, shared->clears + 1, __ATOMIC_RELAXED);
}

/* --- frozen --- */
static void cache_value(struct store *s, uint64_t key) {
    char name[40];
    struct store_ref ref;
    uint32_t len = key_name(name, key);
    uint64_t version = shared->owner[key - FOREIGN_FIRST], n = value_words(key, version);
    if (store_cache_find(s, name, len, &ref) == 0)
        return;
    int rc = store_cache_reserve(s, name, len, n * 8, (uint8_t)key, version, &ref);
    if (rc == 0) {
        uint64_t *w = (uint64_t *)ref.value;
        w[0] = version;
        w[1] = key;
        for (uint64_t i = 2; i < n; i++)
            w[i] = value_word(key, version, i);
        if ((rc = store_cache_add(s, &ref)) < 0)
            store_abort(s, &ref);
    }
    if (rc && rc != DDICT_EFULL && rc != -EINPROGRESS)
        fail("cache: %s", dd_strerror(rc));
}

static void stay_frozen(struct store *s) {
    static uint64_t epoch;
    uint64_t steps = 200 + next_random() % 400;
    store_freeze(s, ++epoch, FREEZE_CLOSED);
    store_freeze(s, epoch, FREEZE_FROZEN);
    for (uint64_t i = 0; i < steps && !__atomic_load_n(&shared->stop, __ATOMIC_RELAXED); i++) {
        uint64_t r = next_random();
        cache_value(s, FOREIGN_FIRST + (r >> 8) % FOREIGN);
        if (r % 8 == 0) {
            if (r % 32 == 0)
                store_cache_hints(s);
            store_cache_evict(s, 1 + (r >> 8) % 8000, 16, &shared->evicted);
        }
        if (r % 8 == 1)
            store_reclaim(s);
    }
    store_freeze(s, epoch, FREEZE_CLOSED);
    while (store_cache_drop(s, 16)) {
    }
    store_freeze(s, epoch, FREEZE_OPEN);
    if (store_header(s)->cached_items || store_header(s)->cached_bytes)
        fail("%llu items cached while open", (unsigned long long)store_header(s)->cached_items);
    for (unsigned k = 0; k < FOREIGN; k++)
        if (next_random() % 2)
            __atomic_store_n(&shared->owner[k], shared->owner[k] + 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&shared->freezes, shared->freezes + 1, __ATOMIC_RELAXED);
}

/* More is wanted than there is in free pages: values move until it is there, or until all was
 * tried. */
static void squeeze(struct store *s) {
    struct store_ref ref;
    uint64_t want = pages_available(s) * ARENA_PAGE + heap_scattered(s) / (1 + next_random() % 8);
    int rc = -EINPROGRESS;
    for (int turns = 0; rc == -EINPROGRESS && turns < 40; turns++) {
        rc =
            store_reserve(s, "room", 4, want > 2 * ARENA_PAGE ? want - 2 * ARENA_PAGE : 1, 0, &ref);
        if (turns % 4 == 0)
            write_value(s, next_random() % KEYS);
        store_work(s);
    }
    if (rc == 0)
        store_abort(s, &ref);
    else if (rc != DDICT_EFULL && rc != DDICT_EVALSIZE && rc != -EINPROGRESS)
        fail("squeeze: %s", dd_strerror(rc));
    __atomic_store_n(&shared->moved, s->compact.moved_bytes, __ATOMIC_RELAXED);
}
static bool squeezes(void) {
    return stress_mutant == MUTANT_NONE || stress_mutant == MUTANT_FRESH_MOVE;
}

/* Mutants of the plain paths are caught sooner by those alone. */
bool freezes(void) {
    return stress_mutant == MUTANT_NONE || stress_mutant == MUTANT_FRESH_EVICT ||
           stress_mutant == MUTANT_KEEP_READ;
}

static void writer(struct store *s) {
    uint64_t grown = 0;
    for (uint64_t step = 0; !__atomic_load_n(&shared->stop, __ATOMIC_RELAXED); step++) {
        uint64_t r = next_random();
        if (shared->loaded % 2) {
            for (uint64_t k = 0; k < STABLE; k++)
                while (!write_value(s, k))
                    if (!store_work(s) && !store_reclaim(s))
                        fail("no room for the stable keys");
            __atomic_store_n(&shared->loaded, shared->loaded + 1, __ATOMIC_SEQ_CST);
        }
        bool room = true;
        if (r % 1024 == 1023 && freezes())
            stay_frozen(s);
        if (r % 512 == 511 && squeezes())
            squeeze(s);
        if (r % 8 < 3)
            room = write_value(s, (r >> 8) % KEYS);
        else if (r % 8 == 3)
            remove_value(s, STABLE + (r >> 8) % CHURN);
        else if (grown < GROW)
            room = write_value(s, KEYS + grown++);
        else if ((r >> 8) % 64 == 0)
            grown = 0;
        if (!room || (grown == GROW / 2 && (r >> 40) % 4 == 0)) {
            clear_all(s);
            grown = 0;
        }
        if (step % 16 == 0)
            store_reclaim_some(s);
        if (step % 1024 == 0)
            store_reclaim(s);
        if (step % 64 == 0)
            store_work(s);
        if (step % 512 == 0)
            store_idle(s);
        __atomic_store_n(&shared->splits, store_header(s)->segments, __ATOMIC_RELAXED);
    }
}

/* --- the driver --- */
static pid_t child(int number, int fd, struct lease_chunk *const *pages) {
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    rng = 0x9E3779B97F4A7C15ull * (uint64_t)(number + 1) ^ clock_ns();
    is_reader = number > 0;
    if (is_reader) {
        struct arena_view a;
        int ro = arena_reopen_readonly(fd);
        close(fd);
        if (ro < 0 || arena_view_map(&a, ro, spill_fd, 2) < 0)
            fail("map: %s", dd_errmsg());
        if (number % 2)
            reader_unfence(&a); /* some leave their fences to the writer */
        reader(&a, pages[number - 1]);
        _exit(0);
    }
    struct store *s;
    if (store_open(&s, fd, spill_fd, 2) < 0)
        fail("open: %s", dd_errmsg());
    for (int i = 0; i < READERS; i++)
        store_leases_add(s, (uint64_t)i, pages[i], (uint32_t)i);
    writer(s);
    struct manager_stats st;
    store_stats(s, &st);
    shared->spilled = st.spilled_bytes;
    if (st.total_used_bytes > budget)
        fail("%llu bytes in use", (unsigned long long)st.total_used_bytes);
    _exit(0);
}

static void *share(size_t n) {
    void *p =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(99);
    }
    return p;
}

static bool all_tried(void) {
    /* memory that is full of values may cache nothing */
    bool more = spill_fd >= 0 || (shared->cached && shared->evicted);
    return shared->walks && shared->clears && shared->reads && shared->misses && shared->freezes &&
           more && (spill_fd >= 0 || shared->moved);
}

/* True when nothing was found wrong in so many seconds; the right build goes on until all was
 * tried, at most TRY_SECONDS more. */
static bool run(double seconds, double *took) {
    struct store_options o = {.budget = budget, .managers = 1, .spill = spill_bytes()};
    struct lease_chunk *pages[READERS];
    pid_t pid[READERS + 1];
    int fd = arena_create(&o);
    if (fd < 0) {
        fprintf(stderr, "%s\n", dd_errmsg());
        exit(99);
    }
    /* The first manager has opened it before clients come. */
    struct store *s;
    if (store_open(&s, fd, spill_fd, 2) < 0)
        exit(99);
    store_close(s);
    memset(shared, 0, sizeof *shared);
    shared->loaded = 1;
    for (unsigned k = 0; k < FOREIGN; k++)
        shared->owner[k] = 1;
    for (int i = 0; i < READERS; i++) {
        pages[i] = share(LEASE_FILE_SIZE);
        pages[i]->chunks = 1;
    }
    uint64_t start = clock_ns(), end = start + (uint64_t)(seconds * 1e9);
    uint64_t last = end + (stress_mutant == MUTANT_NONE ? TRY_SECONDS * 1000000000ull : 0);
    for (int i = 0; i <= READERS; i++)
        pid[i] = child(i, fd, pages);
    int left = READERS + 1;
    while (left) {
        int status;
        pid_t p = waitpid(-1, &status, WNOHANG);
        if (p > 0) {
            left--;
            bool wrote = p == pid[0];
            for (int i = 0; i <= READERS; i++)
                if (pid[i] == p)
                    pid[i] = 0;
            if (WIFSIGNALED(status) && !shared->failed) {
                shared->failed = 1;
                snprintf(shared->what, sizeof shared->what, "a %s died of signal %d",
                         wrote ? "writer" : "reader", WTERMSIG(status));
            } else if (status && !shared->failed) {
                shared->failed = 1;
                snprintf(shared->what, sizeof shared->what, "a process ended with %d",
                         WEXITSTATUS(status));
            }
            if (status)
                shared->stop = 1;
            continue;
        }
        uint64_t now = clock_ns();
        if (now > end && now < last && !all_tried())
            end = now;
        else if (now > end)
            shared->stop = 1;
        if (now > end + HANG_SECONDS * 1000000000ull) {
            for (int i = 0; i <= READERS; i++)
                if (pid[i])
                    kill(pid[i], SIGKILL);
            if (!shared->failed)
                snprintf(shared->what, sizeof shared->what, "a process hangs");
            shared->failed = 1;
            while (waitpid(-1, NULL, 0) > 0) {
            }
            break;
        }
        usleep(2000);
    }
    *took = (double)(clock_ns() - start) / 1e9;
    for (int i = 0; i < READERS; i++)
        munmap(pages[i], LEASE_FILE_SIZE);
    close(fd);
    return !shared->failed;
}

int main(void) {
    static const char *const name[MUTANTS_LIVE] = {"none",
                                                   "no lease",
                                                   "no re-check",
                                                   "no scan",
                                                   "slot after the re-check",
                                                   "no MOVED",
                                                   "miss without validation",
                                                   "MOVED before the copy",
                                                   "retired before the swing",
                                                   "looked again at the first only",
                                                   "retired before the eviction",
                                                   "kept when unfrozen",
                                                   "free before it has moved"};
    const char *only = getenv("DDICT_MUTANT"), *secs = getenv("DDICT_STRESS_SECONDS"),
               *most = getenv("DDICT_MUTANT_SECONDS");
    double seconds = secs ? atof(secs) : 5, mutant_seconds = most ? atof(most) : MUTANT_SECONDS,
           took;
    int bad = 0;
    shared = share(sizeof *shared);
    for (int turn = MUTANT_NONE; turn <= MUTANTS_LIVE; turn++) {
        int m = turn % MUTANTS_LIVE; /* the last: the right build with a spill */
        if (only && atoi(only) != m)
            continue;
        if (turn == MUTANTS_LIVE)
            spill_on();
        stress_mutant = m;
        bool clean = run(m ? mutant_seconds : turn ? seconds * 0.6 : seconds, &took);
        if (m == MUTANT_NONE) {
            printf("%s: right build%s, %.1f s: %llu writes, %llu finds, %llu misses, %llu "
                   "re-checks, %llu walks, %llu clears, %llu asked again, "
                   "%llu freezes, %llu cached ones found, %llu evicted, %llu MiB moved%s%s\n",
                   clean ? "ok" : "FAILED", spill_fd < 0 ? "" : " with a spill", took,
                   (unsigned long long)shared->writes, (unsigned long long)shared->reads,
                   (unsigned long long)shared->misses, (unsigned long long)shared->rechecks,
                   (unsigned long long)shared->walks, (unsigned long long)shared->clears,
                   (unsigned long long)shared->again, (unsigned long long)shared->freezes,
                   (unsigned long long)shared->cached, (unsigned long long)shared->evicted,
                   (unsigned long long)(shared->moved >> 20), clean ? "" : ": ", shared->what);
            bad += !clean;
            if (clean && (!all_tried() || (spill_fd >= 0 && !shared->spilled))) {
                printf("FAILED: something was never tried\n");
                bad++;
            }
        } else {
            printf("%s: mutant %d (%s) %s %.1f s%s%s\n", clean ? "FAILED" : "ok", m, name[m],
                   clean ? "not caught in" : "caught after", took, clean ? "" : ": ", shared->what);
            bad += clean;
        }
        fflush(stdout);
    }
    return bad ? 1 : 0;
}
