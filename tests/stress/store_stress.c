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
 * test proves nothing. Environment: DDICT_STRESS_SECONDS (of the right build), DDICT_MUTANT (only
 * this one; 0: only the right build).
 */
#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <store/find.h>
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

#define READERS 3
/* keys that are there from shortly after a clear until the next */
#define STABLE         400u
#define CHURN          400u             /* keys that come and go */
#define KEYS           (STABLE + CHURN) /* keys whose state is known */
#define GROW           12000u           /* more keys, to make segments split */
#define FOREIGN        300u /* keys of other owners, cached while frozen; behind all others */
#define FOREIGN_FIRST  (KEYS + GROW)
#define HELD           24u /* views of one reader */
#define BUDGET         (16ull << 20)
#define SPILL_BUDGET   (4ull << 20)
#define SPILL_SIZE     (64ll << 20)
#define TRY_SECONDS    60 /* at most, on a busy machine */
#define HANG_SECONDS   60 /* a process that does not end by then hangs */
#define MUTANT_SECONDS 60 /* a bound; nearly all are caught in a few */

int stress_mutant;

struct key_state {
    uint64_t turn;    /* odd: an operation is under way */
    uint64_t version; /* our own count; 0: absent */
};
static struct shared {
    uint64_t stop, failed;
    uint64_t loaded; /* odd: a clear or the loading of the stable keys is under way */
    struct key_state key[KEYS];
    /* the version that its owner has; changed only while the writer is open */
    uint64_t owner[FOREIGN];
    uint64_t cached, freezes, evicted;
    uint64_t writes, splits, clears, reads, misses, walks, again, rechecks, spilled, moved;
    char what[512];
} * shared;

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

static uint64_t rng;
static uint64_t next_random(void) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    return rng ^= rng << 17;
}

static void fail(const char *fmt, ...) {
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

/* --- values: length and every word follow from key and version --- */
static uint64_t value_word(uint64_t key, uint64_t version, uint64_t i) {
    uint64_t x =
        key * 0x9E3779B97F4A7C15ull + version * 0xC2B2AE3D27D4EB4Full + i * 0x165667B19E3779F9ull;
    return x ^ x >> 29;
}
static uint64_t value_words(uint64_t key, uint64_t version) {
    uint64_t r = value_word(key, version, ~0ull) >> 7;
    return r % 64 ? 2 + r / 64 % 150 : 2 + r / 64 % 9000;
}
/* The version a value claims, or 0 when a word is wrong. Word 0 is the version, word 1 the key. */
static uint64_t value_check(uint64_t key, const uint64_t *w, uint64_t bytes) {
    uint64_t version = w[0], n = bytes / 8;
    if (w[1] != key || bytes % 8 || n != value_words(key, version))
        return 0;
    for (uint64_t i = 2; i < n; i++)
        if (w[i] != value_word(key, version, i))
            return 0;
    return version;
}
/* Out of line: inlined for a short array, the compiler warns of code for long keys. */
static __attribute__((noipa)) uint64_t name_hash(const char *name, uint32_t len) {
    return key_hash(name, len);
}
static uint32_t key_name(char *buf, uint64_t key) {
    if (key % 3)
        return (uint32_t)snprintf(buf, 40, "key %llu", (unsigned long long)key);
    return (uint32_t)snprintf(buf, 40, "a longer name, number %llu", (unsigned long long)key);
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
static bool freezes(void) {
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

/* --- a reader --- */
struct held {
    uint64_t key, version;
    struct found f;
    bool used;
};
static struct held held[HELD];
static struct lease_chunk *lease;

static void recheck(unsigned i) {
    struct held *h = &held[i];
    uint64_t now = value_check(h->key, h->f.value, h->f.val_len);
    if (now != h->version)
        fail("a held view of key %llu changed from version %llu to %llu",
             (unsigned long long)h->key, (unsigned long long)h->version, (unsigned long long)now);
    __atomic_fetch_add(&shared->rechecks, 1, __ATOMIC_RELAXED);
    if (next_random() % 2)
        return;
    reader_release(&lease->slot[i]);
    h->used = false;
}

/* By one of the ways of clients. */
static int look(const struct arena_view *a, const char *name, uint32_t n, uint64_t *slot,
                struct found *f) {
    uint64_t h = name_hash(name, n), way = next_random() % 3;
    if (way == 0 && find_fast(a, h, name, n, slot, f))
        return 0;
    if (way == 1) {
        char other[40];
        uint32_t m = key_name(other, next_random() % KEYS);
        struct find_one two[2] = {{.a = a,
                                   .h = name_hash(other, m),
                                   .key = other,
                                   .key_len = m,
                                   .slot = &lease->slot[HELD + 1]},
                                  {.a = a, .h = h, .key = name, .key_len = n, .slot = slot}};
        reader_find_many(two, 2);
        if (two[0].found)
            reader_release(&lease->slot[HELD + 1]);
        if (two[1].found) {
            *f = two[1].f;
            return 0;
        }
    }
    return reader_find(a, h, name, n, slot, f);
}

static void seek(const struct arena_view *a) {
    char name[40];
    unsigned i = (unsigned)(next_random() % HELD);
    if (held[i].used) {
        recheck(i);
        return;
    }
    uint64_t r = next_random(), key = r % 4 ? (r >> 8) % KEYS : KEYS + (r >> 8) % GROW, turn = 1,
             version = 0;
    if (key < KEYS) {
        turn = __atomic_load_n(&shared->key[key].turn, __ATOMIC_SEQ_CST);
        version = __atomic_load_n(&shared->key[key].version, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&shared->key[key].turn, __ATOMIC_SEQ_CST) != turn)
            turn = 1;
    }
    uint32_t n = key_name(name, key);
    struct found f;
    int rc = look(a, name, n, &lease->slot[i], &f);
    if (rc == -EAGAIN) {
        __atomic_fetch_add(&shared->again, 1, __ATOMIC_RELAXED);
        return;
    }
    if (rc && rc != DDICT_ENOKEY)
        fail("find: %s", dd_errmsg());
    uint64_t found = 0;
    if (rc == 0) {
        if (f.item->tag != (uint8_t)key ||
            (uintptr_t)f.value % (f.val_len >= DD_VALUE_ALIGN_MIN ? 64 : 16))
            fail("a wrong header for key %llu", (unsigned long long)key);
        found = value_check(key, f.value, f.val_len);
        if (!found)
            fail("a torn value of key %llu", (unsigned long long)key);
    }
    bool still = turn % 2 == 0 && __atomic_load_n(&shared->key[key].turn, __ATOMIC_SEQ_CST) == turn;
    if (still && found != version)
        fail("key %llu stands at version %llu, but %llu was seen (0: a miss)",
             (unsigned long long)key, (unsigned long long)version, (unsigned long long)found);
    /* Versions only grow; also what we saw ourselves is a lower bound. */
    static uint64_t seen[KEYS];
    if (key < KEYS && found) {
        if (found < seen[key])
            fail("key %llu went back from version %llu to %llu", (unsigned long long)key,
                 (unsigned long long)seen[key], (unsigned long long)found);
        seen[key] = found;
    }
    __atomic_fetch_add(rc ? &shared->misses : &shared->reads, 1, __ATOMIC_RELAXED);
    if (rc)
        return;
    if (next_random() % 4) {
        reader_release(&lease->slot[i]);
        return;
    }
    held[i] = (struct held){.key = key, .version = found, .f = f, .used = true};
}

/* A key of another owner: its clients look here only while they see FROZEN, and ask the owner when
 * they miss. */
static void seek_foreign(const struct arena_view *a) {
    char name[40];
    unsigned i = (unsigned)(next_random() % HELD), k = (unsigned)(next_random() % FOREIGN);
    uint64_t key = FOREIGN_FIRST + k, before = __atomic_load_n(&shared->owner[k], __ATOMIC_SEQ_CST);
    struct found f;
    if (held[i].used) {
        recheck(i);
        return;
    }
    if (FREEZE_STATE(__atomic_load_n(&a->header->freeze, __ATOMIC_ACQUIRE)) != FREEZE_FROZEN)
        return;
    int rc = look(a, name, key_name(name, key), &lease->slot[i], &f);
    if (rc == -EAGAIN || rc == DDICT_ENOKEY)
        return;
    if (rc)
        fail("find: %s", dd_errmsg());
    uint64_t version = value_check(key, f.value, f.val_len),
             now = __atomic_load_n(&shared->owner[k], __ATOMIC_SEQ_CST);
    if (!version || f.item->version != (version | ITEM_CACHED))
        fail("a torn value of cached key %u", k);
    if (version < before || version > now)
        fail("cached key %u was seen in version %llu, its owner had %llu to %llu", k,
             (unsigned long long)version, (unsigned long long)before, (unsigned long long)now);
    __atomic_fetch_add(&shared->cached, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&lease->hint[lease->hints % LEASE_HINTS], lease->slot[i], __ATOMIC_RELAXED);
    __atomic_store_n(&lease->hints, lease->hints + 1, __ATOMIC_RELEASE);
    if (next_random() % 4) {
        reader_release(&lease->slot[i]);
        return;
    }
    held[i] = (struct held){.key = key, .version = version, .f = f, .used = true};
}

static uint8_t times[STABLE];
static int note_key(void *arg, const void *key, uint32_t len) {
    char name[40];
    const char *number = memrchr(key, ' ', len);
    if (!number || len >= sizeof name)
        fail("a key that nobody put: %.*s", (int)len, (const char *)key);
    memcpy(name, key, len);
    name[len] = 0;
    uint64_t k = strtoull(name + (number - (const char *)key), NULL, 10);
    char right[40];
    if (key_name(right, k) != len || memcmp(right, key, len))
        fail("a key that nobody put: %s", name);
    if (k < STABLE)
        times[k]++;
    return 0;
}

static void walk(const struct arena_view *a) {
    uint64_t loaded = __atomic_load_n(&shared->loaded, __ATOMIC_SEQ_CST), cursor = 0;
    memset(times, 0, sizeof times);
    for (;;) {
        int rc = reader_keys(a, &cursor, &lease->slot[HELD], note_key, NULL);
        if (rc < 0 && rc != -EAGAIN)
            fail("keys: %s", dd_errmsg());
        if (__atomic_load_n(&shared->stop, __ATOMIC_RELAXED))
            return;
        /* the manager would be asked */
        if (rc == -EAGAIN)
            __atomic_fetch_add(&shared->again, 1, __ATOMIC_RELAXED);
        else if (!cursor)
            break;
    }
    if (loaded % 2 || __atomic_load_n(&shared->loaded, __ATOMIC_SEQ_CST) != loaded)
        return;
    for (unsigned k = 0; k < STABLE; k++)
        if (times[k] != 1)
            fail("a walk saw key %u, which was there throughout, %u times", k, times[k]);
    __atomic_fetch_add(&shared->walks, 1, __ATOMIC_RELAXED);
}

static void reader(const struct arena_view *a) {
    while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
        uint64_t r = next_random();
        if (r % 500 == 0)
            walk(a);
        else if (r % 4 == 1 && freezes())
            seek_foreign(a);
        else
            seek(a);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].used)
            recheck(i);
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
        lease = pages[number - 1];
        reader(&a);
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
    const char *only = getenv("DDICT_MUTANT"), *secs = getenv("DDICT_STRESS_SECONDS");
    double seconds = secs ? atof(secs) : 5, took;
    int bad = 0;
    shared = share(sizeof *shared);
    for (int turn = MUTANT_NONE; turn <= MUTANTS_LIVE; turn++) {
        int m = turn % MUTANTS_LIVE; /* the last: the right build with a spill */
        if (only && atoi(only) != m)
            continue;
        if (turn == MUTANTS_LIVE)
            spill_on();
        stress_mutant = m;
        bool clean = run(m ? MUTANT_SECONDS : turn ? seconds * 0.6 : seconds, &took);
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
