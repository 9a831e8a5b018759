/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_bytes.c - every way to put a value and every way to read it give the same bytes, whichever
 * nodes writer, owner and reader are on. Values go inline, in pieces, through transit blocks,
 * rings, private memory and in place, as their size and the moment want; sizes lie at all these
 * borders. Invariants: a reader gets a value whole that its writer has put, never mixed, cut or
 * beyond its buffer; what was acknowledged last is what all read in the end.
 *
 * Clients are processes, two a node, of two threads. Each thread overwrites keys of its own in
 * random ways and reads everybody's. The first word of a value is its seed, from which its length
 * and all its words follow.
 */
#include "client_dict.h"
#include <base/defaults.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB       (1u << 20)
#define NODES     3
#define PROCESSES (2 * NODES)
#define WRITERS   (2u * PROCESSES) /* threads */
#define KEYS      12u              /* of each */
#define LEN_MAX   (5u << 20)       /* copied past the caches */
#define LEN_OFTEN (1200u << 10)
#define MANY      20u
#define GUARD     64u
#define LIMIT     60000 /* ms of a call, on a busy machine with sanitizers */

static unsigned rounds = 25; /* of each number of connections */

struct board { /* shared by all processes */
    uint32_t arrived[2];
    uint32_t bad;
    /* seed of the value that was acknowledged last; of the writer until the end of the first part
     * */
    uint64_t last[WRITERS][KEYS];
};
static struct board *board;
static ddict_t *d;

/* Of many processes: libcheck is for one. */
#define die(...)                                                         \
    (fprintf(stderr, "client_bytes: " __VA_ARGS__), fputc('\n', stderr), \
     __atomic_store_n(&board->bad, 1, __ATOMIC_RELEASE), _exit(1))
#define must(cond)                               \
    do {                                         \
        if (!(cond))                             \
            die("line %d: %s", __LINE__, #cond); \
    } while (0)
#define did(call)                                                              \
    do {                                                                       \
        long long rc_ = (long long)(call);                                     \
        if (rc_ < 0)                                                           \
            die("line %d: %s: %lld %s", __LINE__, #call, rc_, ddict_errmsg()); \
    } while (0)

static bool all_are(const uint8_t *at, size_t n, uint8_t want) {
    for (size_t i = 0; i < n; i++)
        if (at[i] != want)
            return false;
    return true;
}

static uint64_t step(uint64_t *s) {
    uint64_t z = (*s += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static size_t len_of(uint64_t seed) {
    static const size_t border[] = {8,
                                    64,
                                    256,
                                    DD_VIEW_INLINE,
                                    32768,
                                    DD_MSG_INLINE - 16,
                                    DD_MSG_INLINE,
                                    DD_MSG_PIECE,
                                    2 * DD_MSG_PIECE,
                                    DD_LANE_RING,
                                    8 * DD_MSG_PIECE};
    uint64_t s = seed, r = step(&s);
    size_t len;
    if ((r >> 8) % 64 == 0) /* at their border, too */
        return DD_COPY_PAST - 8 +
               ((r >> 16) % 4 == 0 ? (r >> 18) % 16 : step(&s) % (LEN_MAX - DD_COPY_PAST));
    switch (r % 8) {
    case 0:
        len = step(&s) % LEN_OFTEN;
        break;
    case 1:
    case 2:
        len = step(&s) % 300000;
        break;
    case 3:
    case 4:
        len = step(&s) % 5000;
        break;
    default:
        len = border[step(&s) % (sizeof border / sizeof border[0])] + step(&s) % 40 - 20;
    }
    return len < 8 ? 8 : len < LEN_OFTEN ? len : LEN_OFTEN;
}

static void fill(uint8_t *at, uint64_t seed) {
    memcpy(at, &seed, 8);
    value_fill(at + 8, len_of(seed) - 8, seed);
}

static size_t key_make(char *key, unsigned writer, unsigned i) {
    return (size_t)sprintf(key, "w%u.%u", writer, i);
}

/* The seed of what was read; it must be one that this writer may have put there. */
static uint64_t value_seed(const char *how, const uint8_t *at, size_t len, unsigned tag,
                           unsigned writer, unsigned i) {
    uint64_t seed = 0;
    if (len >= 8)
        memcpy(&seed, at, 8);
    if (len < 8 || len != len_of(seed) || seed >> 32 != (writer << 8 | i) || tag != (seed & 255) ||
        !value_is(at + 8, len - 8, seed))
        die("%s: w%u.%u has %zu bytes, seed %llx (%zu), tag %u", how, writer, i, len,
            (unsigned long long)seed, len_of(seed), tag);
    return seed;
}

struct thread {
    unsigned me;
    uint64_t random, count;
    uint8_t *buf, *many;
};

static uint64_t seed_next(struct thread *t, unsigned i) {
    return (uint64_t)(t->me << 8 | i) << 32 | (++t->count & 0xffffffffu);
}

/* --- puts --- */

static void put_pieces(struct thread *t, const char *key, size_t k, size_t len, unsigned flags) {
    struct iovec v[5];
    size_t at = 0;
    int n = 0;
    for (; n < 4; n++) {
        size_t some = step(&t->random) % (len - at + 1);
        v[n] = (struct iovec){t->buf + at, some};
        at += some;
    }
    v[n++] = (struct iovec){t->buf + at, len - at};
    did(ddict_putv(d, key, k, v, n, flags, LIMIT));
}

static void put_one(struct thread *t) {
    char key[32];
    unsigned i = (unsigned)(step(&t->random) % KEYS);
    size_t k = key_make(key, t->me, i);
    uint64_t seed = seed_next(t, i);
    fill(t->buf, seed);
    if (step(&t->random) % 2)
        did(ddict_put(d, key, k, t->buf, len_of(seed), DDICT_TAG(seed), LIMIT));
    else
        put_pieces(t, key, k, len_of(seed), DDICT_TAG(seed));
    board->last[t->me][i] = seed;
}

/* All own keys, some of them twice: the later wins. */
static void put_all(struct thread *t) {
    struct ddict_pair p[2 * KEYS];
    char key[2 * KEYS][32];
    size_t at = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < KEYS || (i < 2 * KEYS && at < 4 * LEN_OFTEN); i++) {
        unsigned which = i < KEYS ? i : (unsigned)(step(&t->random) % KEYS);
        uint64_t seed = seed_next(t, which);
        fill(t->many + at, seed);
        p[n] = (struct ddict_pair){.key = key[n],
                                   .klen = key_make(key[n], t->me, which),
                                   .val = t->many + at,
                                   .vlen = len_of(seed),
                                   .flags = DDICT_TAG(seed)};
        n++;
        at += len_of(seed);
        board->last[t->me][which] = seed;
    }
    must(ddict_put_many(d, p, n, LIMIT) == n);
}

/* --- reads; each returns the seed --- */

static uint64_t read_get(struct thread *t, unsigned writer, unsigned i) {
    char key[32];
    size_t k = key_make(key, writer, i), n = 0, off = GUARD + step(&t->random) % GUARD;
    unsigned tag = 0;
    int rc;
    /* too small: told how much, nothing written */
    for (size_t cap = step(&t->random) % 2 ? LEN_MAX : 1000;; cap = n) {
        memset(t->buf, 0x5a, off);
        memset(t->buf + off + cap, 0xa5, GUARD);
        rc = ddict_get(d, key, k, t->buf + off, cap, &n, &tag, 0, LIMIT);
        must(all_are(t->buf, off, 0x5a) && all_are(t->buf + off + cap, GUARD, 0xa5));
        if (rc != DDICT_ESMALL)
            break;
        must(n > cap);
    }
    did(rc);
    return value_seed("get", t->buf + off, n, tag, writer, i);
}

static uint64_t read_view(unsigned writer, unsigned i) {
    char key[32];
    struct ddict_view v;
    did(ddict_view(d, key, key_make(key, writer, i), &v, 0, LIMIT));
    must((uintptr_t)v.data % (v.len >= DD_VALUE_ALIGN_MIN ? 64 : 16) == 0);
    uint64_t seed = value_seed("view", v.data, v.len, v.tag, writer, i);
    ddict_release(&v);
    return seed;
}

static void read_many(const unsigned *writer, const unsigned *i, unsigned n, uint64_t *seed) {
    struct ddict_want w[MANY];
    char key[MANY][32];
    for (unsigned j = 0; j < n; j++)
        w[j] = (struct ddict_want){.key = key[j], .klen = key_make(key[j], writer[j], i[j])};
    must(ddict_get_many(d, w, n, 0, LIMIT) == n);
    for (unsigned j = 0; j < n; j++) {
        seed[j] =
            value_seed("get_many", w[j].view.data, w[j].view.len, w[j].view.tag, writer[j], i[j]);
        ddict_release(&w[j].view);
    }
}

/* --- the parts --- */

static void meet(unsigned part) {
    __atomic_fetch_add(&board->arrived[part], 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&board->arrived[part], __ATOMIC_ACQUIRE) < WRITERS &&
           !__atomic_load_n(&board->bad, __ATOMIC_ACQUIRE))
        usleep(500);
}

static void write_and_read(struct thread *t) {
    for (unsigned r = 0; r < rounds; r++) {
        unsigned writer[MANY], i[MANY];
        uint64_t seed[MANY];
        for (unsigned j = 0; j < MANY; j++) {
            writer[j] = (unsigned)(step(&t->random) % WRITERS);
            i[j] = (unsigned)(step(&t->random) % KEYS);
        }
        switch (step(&t->random) % 6) {
        case 0:
        case 1:
            put_one(t);
            break;
        case 2:
            r % 4 == 0 ? put_all(t) : put_one(t);
            break;
        case 3:
            read_get(t, writer[0], i[0]);
            break;
        case 4:
            read_view(writer[0], i[0]);
            break;
        default:
            read_many(writer, i, 1 + (unsigned)(step(&t->random) % MANY), seed);
        }
        /* acknowledged: nothing older may be read */
        unsigned own = (unsigned)(step(&t->random) % KEYS);
        must((r % 2 ? read_view(t->me, own) : read_get(t, t->me, own)) == board->last[t->me][own]);
    }
}

static void read_all(struct thread *t) {
    for (unsigned writer = 0; writer < WRITERS; writer++) {
        unsigned w[KEYS], i[KEYS];
        uint64_t seed[KEYS];
        for (unsigned k = 0; k < KEYS; k++) {
            w[k] = writer;
            i[k] = k;
        }
        read_many(w, i, KEYS, seed);
        for (unsigned k = 0; k < KEYS; k++) {
            uint64_t want = board->last[writer][k];
            must(seed[k] == want);
            if ((writer + k) % 4 == t->me % 4) {
                must(read_get(t, writer, k) == want);
                must(read_view(writer, k) == want);
            }
        }
    }
}

static void *thread_run(void *arg) {
    struct thread t = {.me = (unsigned)(uintptr_t)arg};
    t.random = t.me * 7919;
    t.buf = malloc(LEN_MAX + 4 * GUARD);
    t.many = malloc((KEYS + 1) * (size_t)LEN_MAX);
    put_all(&t);
    meet(0);
    write_and_read(&t);
    meet(1);
    read_all(&t);
    free(t.buf);
    free(t.many);
    return NULL;
}

static void process_run(struct dict *x, unsigned p) {
    pthread_t other;
    d = dict_attach(x, (int)p % NODES);
    must(pthread_create(&other, NULL, thread_run, (void *)(uintptr_t)(2 * p)) == 0);
    thread_run((void *)(uintptr_t)(2 * p + 1));
    pthread_join(other, NULL);
    ddict_detach(d);
}

/* Of a manager to another: one, as many as without a word, many. */
static const char *const connections[] = {"1", "", "6"};

START_TEST(all_ways_to_put_and_read_give_the_same_bytes) {
    struct dict x;
    pid_t pid[PROCESSES];
    int bad = 0;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(board != MAP_FAILED);
    setenv("DDICT_CONNECTIONS", connections[_i], 1);
    dict_start(&x, NODES, NODES + 1, 640 * MIB);
    for (unsigned p = 0; p < PROCESSES; p++) {
        pid[p] = fork();
        ck_assert(pid[p] >= 0);
        if (pid[p] == 0) {
            process_run(&x, p); /* a failed check ends the process with another code */
            _exit(0);
        }
    }
    for (unsigned p = 0; p < PROCESSES; p++) {
        int status;
        /* the first that fails ends the others; ddictd has a process group of its own */
        pid_t who;
        do
            who = waitpid(0, &status, 0);
        while (who < 0 && errno == EINTR);
        ck_assert_int_gt(who, 0);
        if (status != 0) {
            bad = status;
            __atomic_store_n(&board->bad, 1, __ATOMIC_RELEASE);
        }
    }
    ck_assert_int_eq(bad, 0);
    dict_stop(&x);
    munmap(board, sizeof *board);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_bytes");
    TCase *c = tcase_create("bytes");
    if (getenv("ROUNDS"))
        rounds = (unsigned)atoi(getenv("ROUNDS"));
    int kinds =
        getenv("KINDS") ? atoi(getenv("KINDS")) : (int)(sizeof connections / sizeof connections[0]);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, all_ways_to_put_and_read_give_the_same_bytes, 0, kinds);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
