/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replicas_client.c - a client of the tests of replicas (replicas.py), with DDICT_NAME and DDICT_NODE:
 *
 *     load FILE SEED MOST   calls on keys that only it uses, until SIGTERM, and judges every answer: each
 *                           change has happened once when it was answered. MOST: bytes of a value.
 *                           FILE has what was acknowledged and the change that was under way, also
 *                           when it is killed. It says "going", and at the end "calls N longest MS".
 *     verify FILE           all of that is there, whole, and queues have it in order; takes nothing
 *     drain FILE            the same, and takes all that is in the queue
 *     ask                   a line of stdin is a call (calls_of_lines), its answer one line
 *     write KEY PAUSE_US    puts 1, 2, 3, ... and notes in lines "NUMBER ENDED_NS"
 *     read KEY              gets in a loop, and says "NUMBER BEGAN_NS" when the number is another one
 *
 * Exits with 0; 1 after a wrong answer, with a line that begins with "wrong"; 3 when the dictionary is
 * lost or has ended, with a line "lost TEXT".
 */
#include <ddict.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define KEYS      24u
#define LIMIT     8u /* values that the queue may have */
#define LONG_MS   60000
#define VALUE_MAX (80u << 20)

enum what { IDLE, PUT, DEL, POP, PUSH, QPOP, MANY };

/* What the file has; 0: the key is absent. Numbers of values are given once. */
static struct notes {
    uint64_t seed, most, given;
    uint64_t acked[KEYS], next[KEYS]; /* next: what a change that is under way leaves */
    uint64_t queue[LIMIT];            /* a ring of what was pushed */
    uint64_t head, tail;              /* acknowledged */
    uint32_t under_way;               /* enum what */
    uint32_t key;
} * notes;

static ddict_t *d;
static unsigned char *bytes;
static uint64_t rng, calls, longest_ns;
static volatile sig_atomic_t stop;

static void stop_noted(int sig) {
    stop = 1;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t below(uint64_t n) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (rng >> 11) % n;
}

__attribute__((format(printf, 1, 2), noreturn)) static void wrong(const char *fmt, ...) {
    va_list ap;
    printf("wrong ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    exit(1);
}

static void lost_ends(int rc) {
    if (rc != DDICT_ELOST && rc != DDICT_EGONE)
        return;
    printf("lost %s\n", ddict_errmsg());
    exit(3);
}

static void must_be(int rc, int want, const char *what, const char *key) {
    lost_ends(rc);
    if (rc != want)
        wrong("%s %s: %d (%s), not %d: %s", what, key, rc, ddict_strerror(rc), want,
              rc < 0 ? ddict_errmsg() : "");
}

/* --- values: their number, and bytes that come of it --- */
static uint64_t word_of(uint64_t number, uint64_t i) {
    uint64_t x = number * 0x9E3779B97F4A7C15ull + i * 0xC2B2AE3D27D4EB4Full;
    return x ^ x >> 29;
}

static size_t len_of(uint64_t number, uint64_t most) {
    uint64_t r = word_of(number, ~0ull) >> 8;
    uint64_t limit = r % 4 ? 2000 : most;
    return 8 + (r >> 4) % (limit > 8 ? limit - 7 : 1);
}

static void value_fill(unsigned char *to, uint64_t number, size_t len) {
    memcpy(to, &number, 8);
    for (size_t at = 8; at < len; at += 8) {
        uint64_t w = word_of(number, at);
        memcpy(to + at, &w, len - at < 8 ? len - at : 8);
    }
}

/* Its number; ~0: the bytes are not those of one value. */
static uint64_t value_number(const unsigned char *v, size_t len) {
    uint64_t number;
    if (len < 8)
        return ~0ull;
    memcpy(&number, v, 8);
    for (size_t at = 8; at < len; at += 8) {
        uint64_t w = word_of(number, at);
        if (memcmp(v + at, &w, len - at < 8 ? len - at : 8) != 0)
            return ~0ull;
    }
    return number;
}

/* --- one client's own keys --- */
static size_t key_name(char *key, unsigned k) {
    return (size_t)sprintf(key, "own %llu key %u", (unsigned long long)notes->seed, k);
}

static size_t queue_name(char *key) {
    return (size_t)sprintf(key, "own %llu queue", (unsigned long long)notes->seed);
}

static uint64_t number_next(void) {
    return notes->seed << 40 | ++notes->given;
}

static size_t value_next(uint64_t number) {
    size_t len = len_of(number, notes->most);
    value_fill(bytes, number, len);
    return len;
}

static void begin_change(enum what what, unsigned k, uint64_t next) {
    notes->key = k;
    if (k < KEYS)
        notes->next[k] = next;
    __atomic_store_n(&notes->under_way, what, __ATOMIC_RELEASE);
}

static void end_change(void) {
    if (notes->key < KEYS)
        notes->acked[notes->key] = notes->next[notes->key];
    __atomic_store_n(&notes->under_way, IDLE, __ATOMIC_RELEASE);
}

static void is_value(const char *key, const void *data, size_t len, uint64_t want) {
    uint64_t got = value_number(data, len);
    if (got != want)
        wrong("%s: has %s%llx of %zu bytes, not %llx", key, got == ~0ull ? "torn bytes " : "",
              (unsigned long long)got, len, (unsigned long long)want);
}

static void one_put(unsigned k) {
    char key[64];
    size_t n = key_name(key, k);
    static const unsigned flags[] = {0, 0, DDICT_NEW, DDICT_EXISTING};
    unsigned f = flags[below(4)];
    uint64_t number = number_next(), had = notes->acked[k];
    int want = f == DDICT_NEW && had         ? DDICT_EEXISTS
               : f == DDICT_EXISTING && !had ? DDICT_ENOKEY
                                             : 0;
    size_t len = value_next(number);
    begin_change(PUT, k, want == 0 ? number : had);
    must_be(ddict_put(d, key, n, bytes, len, f, LONG_MS), want,
            f == DDICT_NEW        ? "put new"
            : f == DDICT_EXISTING ? "put existing"
                                  : "put",
            key);
    end_change();
}

static void one_del(unsigned k) {
    char key[64];
    size_t n = key_name(key, k);
    begin_change(DEL, k, 0);
    must_be(ddict_del(d, key, n, LONG_MS), notes->acked[k] ? 0 : DDICT_ENOKEY, "del", key);
    end_change();
}

static void one_pop(unsigned k) {
    char key[64];
    size_t n = key_name(key, k);
    struct ddict_view v;
    begin_change(POP, k, 0);
    must_be(ddict_pop(d, key, n, &v, 0, LONG_MS), notes->acked[k] ? 0 : DDICT_ENOKEY, "pop", key);
    if (notes->acked[k]) {
        is_value(key, v.data, v.len, notes->acked[k]);
        ddict_release(&v);
    }
    end_change();
}

static void one_get(const char *key, size_t n, uint64_t want, bool view) {
    struct ddict_view v = {0};
    size_t len = 0;
    int rc = view ? ddict_view(d, key, n, &v, 0, LONG_MS)
                  : ddict_get(d, key, n, bytes, VALUE_MAX, &len, NULL, 0, LONG_MS);
    must_be(rc, want ? 0 : DDICT_ENOKEY, view ? "view" : "get", key);
    if (rc == 0)
        is_value(key, view ? v.data : bytes, view ? v.len : len, want);
    if (rc == 0 && view)
        ddict_release(&v);
}

static void one_push(void) {
    char key[64];
    size_t n = queue_name(key);
    uint64_t number = number_next();
    bool full = notes->tail - notes->head == LIMIT;
    size_t len = value_next(number);
    if (!full)
        notes->queue[notes->tail % LIMIT] = number;
    begin_change(full ? IDLE : PUSH, KEYS, 0);
    must_be(ddict_push(d, key, n, bytes, len, 0, LIMIT, LONG_MS), full ? -EAGAIN : 0, "push", key);
    notes->tail += !full;
    end_change();
}

static void one_qpop(void) {
    char key[64];
    size_t n = queue_name(key);
    struct ddict_view v;
    bool empty = notes->tail == notes->head;
    begin_change(empty ? IDLE : QPOP, KEYS, 0);
    must_be(ddict_pop(d, key, n, &v, 0, LONG_MS), empty ? DDICT_ENOKEY : 0, "pop", key);
    if (!empty) {
        is_value(key, v.data, v.len, notes->queue[notes->head % LIMIT]);
        ddict_release(&v);
    }
    notes->head += !empty;
    end_change();
}

static void many_put(void) {
    struct ddict_pair p[KEYS];
    static char names[KEYS][64];
    static unsigned char small[KEYS][8];
    begin_change(MANY, KEYS, 0);
    for (unsigned k = 0; k < KEYS; k++) {
        notes->next[k] = number_next();
        value_fill(small[k], notes->next[k], 8);
        p[k] = (struct ddict_pair){.key = names[k], .klen = key_name(names[k], k), .val = small[k]};
        p[k].vlen = 8;
    }
    ssize_t rc = ddict_put_many(d, p, KEYS, LONG_MS);
    for (unsigned k = 0; k < KEYS; k++) {
        must_be(rc < 0 ? (int)rc : p[k].status, 0, "put_many", names[k]);
        notes->acked[k] = notes->next[k];
    }
    end_change();
}

static void many_get(void) {
    struct ddict_want w[KEYS];
    static char names[KEYS][64];
    for (unsigned k = 0; k < KEYS; k++)
        w[k] = (struct ddict_want){.key = names[k], .klen = key_name(names[k], k)};
    ssize_t rc = ddict_get_many(d, w, KEYS, 0, LONG_MS);
    lost_ends((int)rc);
    for (unsigned k = 0; k < KEYS; k++) {
        must_be(rc < 0 ? (int)rc : w[k].status, notes->acked[k] ? 0 : DDICT_ENOKEY, "get_many",
                names[k]);
        if (notes->acked[k]) {
            is_value(names[k], w[k].view.data, w[k].view.len, notes->acked[k]);
            ddict_release(&w[k].view);
        }
    }
}

static void step(void) {
    unsigned k = (unsigned)below(KEYS);
    char key[64];
    uint64_t which = below(64), began = now_ns();
    if (which < 20)
        one_put(k);
    else if (which < 32)
        one_get(key, key_name(key, k), notes->acked[k], which % 2);
    else if (which < 38)
        one_del(k);
    else if (which < 42)
        one_pop(k);
    else if (which < 51)
        one_push();
    else if (which < 60)
        one_qpop();
    else if (which < 62)
        many_put();
    else
        many_get();
    uint64_t took = now_ns() - began;
    if (took > longest_ns)
        longest_ns = took;
    calls++;
}

static void notes_map(const char *path, bool new) {
    int fd = open(path, new ? O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || (new &&ftruncate(fd, sizeof *notes) < 0))
        wrong("%s: %s", path, strerror(errno));
    notes = mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (notes == MAP_FAILED)
        wrong("%s: %s", path, strerror(errno));
    close(fd);
}

static int load(const char *path, uint64_t seed, uint64_t most) {
    notes_map(path, true);
    notes->seed = seed;
    notes->most = most;
    rng = seed * 0x9E3779B97F4A7C15ull + 88172645463325252ull;
    puts("going");
    while (!stop)
        step();
    printf("calls %llu longest %llu\n", (unsigned long long)calls,
           (unsigned long long)(longest_ns / 1000000));
    return 0;
}

/* --- what is there afterwards --- */
static bool may_be(unsigned k, uint64_t number) {
    bool open = notes->under_way == MANY ||
                (notes->under_way && notes->under_way < PUSH && notes->key == k);
    return number == notes->acked[k] || (open && number == notes->next[k]);
}

static void keys_verify(void) {
    for (unsigned k = 0; k < KEYS; k++) {
        char key[64];
        size_t n = key_name(key, k);
        struct ddict_view v;
        int rc = ddict_view(d, key, n, &v, 0, LONG_MS);
        uint64_t number = rc == 0 ? value_number(v.data, v.len) : 0;
        if (rc != DDICT_ENOKEY)
            must_be(rc, 0, "view", key);
        if (!may_be(k, number))
            wrong("%s: has %llx, acknowledged was %llx", key, (unsigned long long)number,
                  (unsigned long long)notes->acked[k]);
        if (rc == 0)
            ddict_release(&v);
    }
}

/* The first of the queue; after a pop that was under way it may be the second. */
static uint64_t queue_first(const char *key, uint64_t there) {
    struct ddict_view v;
    uint64_t want = notes->head + (notes->under_way == QPOP && there < notes->tail - notes->head);
    int rc = ddict_view(d, key, strlen(key), &v, 0, LONG_MS);
    must_be(rc, there ? 0 : DDICT_ENOKEY, "view", key);
    if (there)
        is_value(key, v.data, v.len, notes->queue[want % LIMIT]);
    if (there)
        ddict_release(&v);
    return want;
}

static int verify(const char *path, bool takes) {
    char key[64];
    notes_map(path, false);
    queue_name(key);
    keys_verify();
    int64_t there = ddict_queued(d, key, strlen(key), LONG_MS);
    uint64_t least = notes->tail - notes->head, most = least;
    if (there < 0)
        must_be((int)there, 0, "queued", key);
    least -= notes->under_way == QPOP;
    most += notes->under_way == PUSH;
    if ((uint64_t)there < least || (uint64_t)there > most)
        wrong("%s: has %lld values, not %llu", key, (long long)there, (unsigned long long)least);
    uint64_t at = queue_first(key, (uint64_t)there);
    for (int64_t i = 0; takes && i < there; i++) {
        struct ddict_view v;
        must_be(ddict_pop(d, key, strlen(key), &v, 0, LONG_MS), 0, "pop", key);
        is_value(key, v.data, v.len, notes->queue[(at + (uint64_t)i) % LIMIT]);
        ddict_release(&v);
    }
    printf("all there\n");
    return 0;
}

/* --- calls of lines --- */
static void answer(int64_t rc, uint64_t number, size_t len, uint64_t began) {
    unsigned long long ms = (now_ns() - began) / 1000000;
    if (rc < 0)
        printf("%lld %llu %s\n", (long long)rc, ms, ddict_errmsg());
    else if (number == ~0ull)
        printf("-1 %llu torn bytes\n", ms);
    else
        printf("%lld %llu %llu %zu\n", (long long)rc, ms, (unsigned long long)number, len);
}

/*
 * VERB KEY NUMBER LEN MS: put, new, existing, push (without waiting), pushwait, get, view, wait (a get
 * that waits), has, del, pop, popwait, queued; len, clear, freeze, unfreeze, frozen. The answer:
 * CODE MS, and NUMBER LEN or the sentence.
 */
static void call_of_line(char *line) {
    char verb[16] = "", key[256] = "";
    unsigned long long number = 0, length = 0;
    int ms = LONG_MS;
    sscanf(line, "%15s %255s %llu %llu %d", verb, key, &number, &length, &ms);
    struct ddict_view v = {0};
    size_t n = strlen(key), len = (size_t)length;
    uint64_t began;
    int64_t rc = -EINVAL;
    if (len >= 8 && len <= VALUE_MAX)
        value_fill(bytes, number, len);
    number = 0;
    began = now_ns();
    if (!strcmp(verb, "put") || !strcmp(verb, "new") || !strcmp(verb, "existing")) {
        unsigned f = *verb == 'n' ? DDICT_NEW : *verb == 'e' ? DDICT_EXISTING : 0;
        rc = ddict_put(d, key, n, bytes, len, f, ms);
    } else if (!strcmp(verb, "push") || !strcmp(verb, "pushwait")) {
        rc = ddict_push(d, key, n, bytes, len, verb[4] ? DDICT_WAIT | DDICT_SURE : 0, 0, ms);
    } else if (!strcmp(verb, "get")) {
        rc = ddict_get(d, key, n, bytes, VALUE_MAX, &len, NULL, 0, ms);
        number = rc == 0 ? value_number(bytes, len) : 0;
    } else if (!strcmp(verb, "view") || !strcmp(verb, "wait")) {
        rc = ddict_view(d, key, n, &v, *verb == 'w' ? DDICT_WAIT : 0, ms);
    } else if (!strcmp(verb, "pop") || !strcmp(verb, "popwait")) {
        rc = ddict_pop(d, key, n, &v, verb[3] ? DDICT_WAIT | DDICT_SURE : 0, ms);
    } else if (!strcmp(verb, "has")) {
        rc = ddict_contains(d, key, n, &len, ms);
    } else if (!strcmp(verb, "del")) {
        rc = ddict_del(d, key, n, ms);
    } else if (!strcmp(verb, "queued")) {
        rc = ddict_queued(d, key, n, ms);
    } else if (!strcmp(verb, "owner")) {
        rc = ddict_owner(d, key, n);
    } else if (!strcmp(verb, "len")) {
        rc = ddict_len(d, ms);
    } else if (!strcmp(verb, "clear")) {
        rc = ddict_clear(d, ms);
    } else if (!strcmp(verb, "freeze")) {
        rc = ddict_freeze(d, ms);
    } else if (!strcmp(verb, "unfreeze")) {
        rc = ddict_unfreeze(d, ms);
    } else if (!strcmp(verb, "frozen")) {
        rc = ddict_is_frozen(d);
    }
    if (rc == 0 && v.data) {
        number = value_number(v.data, v.len);
        len = v.len;
    }
    answer(rc, number, len, began);
    if (rc == 0 && v.data)
        ddict_release(&v);
}

static int calls_of_lines(void) {
    char line[512];
    puts("ready");
    while (fgets(line, sizeof line, stdin))
        call_of_line(line);
    return 0;
}

/* --- who reads what another one writes --- */
static int numbers_write(const char *key, useconds_t pause) {
    unsigned char v[64];
    for (uint64_t i = 1; !stop; i++) {
        value_fill(v, i, sizeof v);
        must_be(ddict_put(d, key, strlen(key), v, sizeof v, 0, LONG_MS), 0, "put", key);
        printf("%llu %llu\n", (unsigned long long)i, (unsigned long long)now_ns());
        usleep(pause);
    }
    return 0;
}

static int numbers_read(const char *key) {
    uint64_t was = ~0ull, looked = 0;
    puts("going");
    while (!stop) {
        struct ddict_view v;
        uint64_t began = now_ns();
        int rc = ddict_view(d, key, strlen(key), &v, 0, LONG_MS);
        if (rc == DDICT_ENOKEY)
            continue;
        must_be(rc, 0, "view", key);
        uint64_t number = value_number(v.data, v.len);
        ddict_release(&v);
        if (number == ~0ull)
            wrong("%s: torn bytes", key);
        if (number != was ||
            began - looked > 10000000) { /* and now and then, that it still reads */
            printf("%llu %llu\n", (unsigned long long)number, (unsigned long long)began);
            looked = began;
        }
        was = number;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct sigaction s = {.sa_handler = stop_noted};
    sigaction(SIGTERM, &s, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    bytes = malloc(VALUE_MAX);
    if (!bytes || argc < 2)
        return 1;
    int rc = ddict_attach(&d, NULL, LONG_MS);
    lost_ends(rc);
    if (rc < 0)
        wrong("attach: %d %s", rc, ddict_errmsg());
    if (strcmp(argv[1], "load") == 0 && argc == 5)
        rc = load(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    else if ((strcmp(argv[1], "verify") == 0 || strcmp(argv[1], "drain") == 0) && argc == 3)
        rc = verify(argv[2], argv[1][0] == 'd');
    else if (strcmp(argv[1], "ask") == 0)
        rc = calls_of_lines();
    else if (strcmp(argv[1], "write") == 0 && argc == 4)
        rc = numbers_write(argv[2], (useconds_t)atoi(argv[3]));
    else if (strcmp(argv[1], "read") == 0 && argc == 3)
        rc = numbers_read(argv[2]);
    else
        wrong("what is asked");
    ddict_detach(d);
    return rc;
}
