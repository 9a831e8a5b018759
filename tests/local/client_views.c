/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_views.c - many views held at once, more than a thread's chunk of leases has slots, however
 * they were taken, while other threads release some of them and others replace every value as fast
 * as they can; also run under the sanitizers. Invariants: no byte of a held view changes; no two
 * live views share a lease.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB   (1u << 20)
#define KEYS  400
#define LEN   9000 /* more than what comes inline from another node, so that it is placed */
#define HELD  1300 /* about as many views are held */
#define RING  2048
#define BATCH 48

struct key {
    char s[32];
    size_t n;
};
struct held {
    struct ddict_view v;
    uint64_t seed;
};

static struct dict x;
static ddict_t *d;
static struct key keys[KEYS], absent[KEYS];
static double seconds = 2;
static uint64_t seeds;

/* Values say in their first word what the others are. */
static void fill(unsigned char *b, size_t len) {
    uint64_t seed = __atomic_add_fetch(&seeds, 1, __ATOMIC_RELAXED);
    value_fill(b + 8, len - 8, seed);
    memcpy(b, &seed, 8);
}

static uint64_t seed_of(const struct ddict_view *v) {
    uint64_t seed;
    memcpy(&seed, v->data, 8);
    return seed;
}

static bool whole(const struct held *h) {
    return h->v.len == LEN && seed_of(&h->v) == h->seed &&
           value_is((const char *)h->v.data + 8, LEN - 8, h->seed);
}

static void begin(int nodes, unsigned owner) {
    dict_start(&x, nodes, 2, 640 * MIB);
    d = dict_attach(&x, 0);
    unsigned char *b = malloc(LEN);
    for (unsigned i = 0, k = 0; k < KEYS; i++) {
        char s[32];
        /* the length that has a way of its own */
        size_t n = (size_t)sprintf(s, "view-%06u", i);
        if (ddict_owner(d, s, n) != owner && nodes > 1)
            continue;
        keys[k].n = n;
        memcpy(keys[k].s, s, sizeof s);
        absent[k].n = (size_t)sprintf(absent[k].s, "gone-%06u", i);
        fill(b, LEN);
        ok(ddict_put(d, keys[k].s, keys[k].n, b, LEN, 0, -1));
        k++;
    }
    free(b);
}

static void end(void) {
    ddict_detach(d);
    dict_stop(&x);
}

/* --- ways to take views: up to n of them from key `from` on; returns how many --- */

static unsigned by_view(struct ddict_view *v, unsigned n, unsigned from) {
    for (unsigned i = 0; i < n; i++)
        ok(ddict_view(d, keys[(from + i) % KEYS].s, keys[(from + i) % KEYS].n, &v[i], 0, 20000));
    return n;
}

/* Every fifth is not there: its slot goes back. */
static unsigned by_get_many(struct ddict_view *v, unsigned n, unsigned from) {
    struct ddict_want w[BATCH];
    unsigned got = 0, there = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct key *k = i % 5 == 4 ? &absent[(from + i) % KEYS] : &keys[(from + i) % KEYS];
        there += i % 5 != 4;
        w[i] = (struct ddict_want){.key = k->s, .klen = k->n};
    }
    ck_assert_int_eq(ddict_get_many(d, w, n, 0, 20000), there);
    for (unsigned i = 0; i < n; i++)
        if (w[i].status == 0)
            v[got++] = w[i].view;
        else
            ck_assert_int_eq(w[i].status, DDICT_ENOKEY);
    return got;
}

static __thread ddict_async_t *q; /* of a thread that takes views by jobs */

static unsigned by_jobs(struct ddict_view *v, unsigned n, unsigned from, int what, unsigned flags) {
    struct ddict_op job[BATCH], done[BATCH];
    unsigned got = 0, over = 0;
    if (!q)
        ok(ddict_async_open(d, &q));
    for (unsigned i = 0; i < n; i++) {
        const struct key *k = &keys[(from + i) % KEYS];
        job[i] = (struct ddict_op){
            .what = (unsigned)what, .key = k->s, .klen = k->n, .flags = flags, .timeout_ms = 20000};
    }
    ssize_t under_way = ddict_async_submit(q, job, n);
    ok(under_way);
    for (unsigned i = 0; i < n; i++)
        if (job[i].status == 0)
            v[got++] = job[i].view;
        else
            ck_assert_msg(job[i].status == -EINPROGRESS, "%d %s", job[i].status, job[i].text);
    while (over < under_way) {
        ssize_t k = ddict_async_poll(q, done, BATCH, 20000);
        ok(k);
        for (ssize_t i = 0; i < k; i++, over++)
            if (done[i].status == 0)
                v[got++] = done[i].view;
            else
                ck_assert_int_eq(done[i].status, DDICT_ENOKEY);
    }
    return got;
}

static unsigned by_view_jobs(struct ddict_view *v, unsigned n, unsigned from) {
    return by_jobs(v, n, from, DDICT_OP_VIEW, 0);
}
static unsigned by_pop_jobs(struct ddict_view *v, unsigned n, unsigned from) {
    return by_jobs(v, n, from, DDICT_OP_POP, 0);
}

static unsigned by_pop(struct ddict_view *v, unsigned n, unsigned from) {
    unsigned got = 0;
    for (unsigned i = 0; i < n; i++) {
        int rc =
            ddict_pop(d, keys[(from + i) % KEYS].s, keys[(from + i) % KEYS].n, &v[got], 0, 20000);
        ck_assert_msg(rc == 0 || rc == DDICT_ENOKEY, "%d %s", rc, ddict_errmsg());
        got += rc == 0;
    }
    return got;
}

static unsigned by_all(struct ddict_view *v, unsigned n, unsigned from) {
    static unsigned (*const ways[])(struct ddict_view *, unsigned,
                                    unsigned) = {by_view, by_get_many, by_get_many, by_view_jobs};
    return ways[from % 4](v, n, from);
}

/* --- the stress --- */

static struct held *ring;
static unsigned ring_first, ring_n, stop, most;
static uint64_t checked;
static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned (*take)(struct ddict_view *, unsigned, unsigned);

static bool stopped(void) {
    return __atomic_load_n(&stop, __ATOMIC_RELAXED) != 0;
}

static bool one_release(unsigned beyond) {
    struct held h;
    pthread_mutex_lock(&ring_lock);
    bool any = ring_n > beyond;
    if (any) {
        h = ring[ring_first];
        ring_first = (ring_first + 1) % RING;
        ring_n--;
        checked++;
    }
    pthread_mutex_unlock(&ring_lock);
    if (any) {
        ck_assert_msg(whole(&h), "a held view has other bytes than when it was taken");
        ddict_release(&h.v);
    }
    return any;
}

static void *holder(void *arg) {
    struct ddict_view v[BATCH];
    unsigned rng = 77 + (unsigned)(uintptr_t)arg;
    while (!stopped()) {
        rng = rng * 1103515245u + 12345u;
        unsigned got = take(v, rng >> 16 & 1 ? BATCH : 1 + (rng >> 20) % BATCH, rng >> 8);
        if (got == 0)
            sched_yield();
        for (unsigned i = 0; i < got; i++) {
            struct held h = {v[i], seed_of(&v[i])};
            ck_assert_msg(whole(&h), "a view that was just taken is torn");
            while (one_release(HELD)) { /* ours too, now and then */
            }
            pthread_mutex_lock(&ring_lock);
            ck_assert(ring_n < RING);
            ring[(ring_first + ring_n++) % RING] = h;
            most = ring_n > most ? ring_n : most;
            pthread_mutex_unlock(&ring_lock);
        }
    }
    ddict_async_close(q);
    return NULL;
}

static void *releaser(void *arg) {
    (void)arg;
    while (!stopped())
        if (!one_release(HELD - 200))
            sched_yield();
    return NULL;
}

static void *writer(void *arg) {
    unsigned i = (unsigned)(uintptr_t)arg * 1000;
    unsigned char *b = malloc(LEN);
    while (!stopped()) {
        const struct key *k = &keys[i++ % KEYS];
        fill(b, LEN);
        ok(ddict_put(d, k->s, k->n, b, LEN, 0, 20000));
    }
    free(b);
    return NULL;
}

static void stress(unsigned (*way)(struct ddict_view *, unsigned, unsigned), bool slowly) {
    pthread_t t[6];
    void *(*const run[6])(void *) = {holder, releaser, writer, holder, releaser, writer};
    take = way;
    ring = calloc(RING, sizeof *ring);
    for (unsigned i = 0; i < 6; i++)
        ck_assert(pthread_create(&t[i], NULL, run[i], (void *)(uintptr_t)i) == 0);
    /* as long as it takes on a machine with much else to do, but for a way that is refused */
    double from = now_s(), now;
    for (bool enough = false; (now = now_s()) < from + seconds || (!enough && now < from + 60);) {
        usleep(10000);
        pthread_mutex_lock(&ring_lock);
        enough = slowly ? most > 600 : most > HELD - 300 && checked > 4 * HELD;
        pthread_mutex_unlock(&ring_lock);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 6; i++)
        pthread_join(t[i], NULL);
    ck_assert_msg(most > 511, "only %u views were held", most);
    while (one_release(0)) {
    }
    free(ring);
}

START_TEST(views_of_get_many_keep_their_bytes) {
    begin(1, 0);
    stress(by_get_many, false);
    end();
}
END_TEST

START_TEST(views_keep_their_bytes) {
    begin(1, 0);
    stress(by_view, false);
    end();
}
END_TEST

START_TEST(views_of_jobs_keep_their_bytes) {
    begin(1, 0);
    stress(by_view_jobs, false);
    end();
}
END_TEST

START_TEST(popped_values_keep_their_bytes) {
    begin(1, 0);
    stress(by_pop, true);
    end();
}
END_TEST

START_TEST(values_popped_by_jobs_keep_their_bytes) {
    begin(1, 0);
    stress(by_pop_jobs, true);
    end();
}
END_TEST

START_TEST(views_taken_in_all_ways_keep_their_bytes) {
    begin(1, 0);
    stress(by_all, false);
    end();
}
END_TEST

START_TEST(views_of_another_node_keep_their_bytes) {
    begin(2, 1);
    stress(by_all, true);
    end();
}
END_TEST

START_TEST(popped_values_of_another_node_keep_their_bytes) {
    begin(2, 1);
    stress(by_pop, true);
    end();
}
END_TEST

/* --- what was wrong, step by step --- */

static struct held some[1300];
static unsigned some_n;

static void some_take(unsigned (*way)(struct ddict_view *, unsigned, unsigned), unsigned n) {
    struct ddict_view v[BATCH];
    n = way(v, n, some_n);
    for (unsigned i = 0; i < n; i++, some_n++)
        some[some_n] = (struct held){v[i], seed_of(&v[i])};
}

static void *release_one(void *arg) {
    ddict_release(arg);
    return NULL;
}

static void release_elsewhere(struct ddict_view *v) {
    pthread_t t;
    ck_assert(pthread_create(&t, NULL, release_one, v) == 0);
    pthread_join(t, NULL);
}

static void all_overwrite(unsigned rounds) {
    unsigned char *b = malloc(LEN);
    for (unsigned i = 0; i < rounds * KEYS; i++) {
        fill(b, LEN);
        ok(ddict_put(d, keys[i % KEYS].s, keys[i % KEYS].n, b, LEN, 0, -1));
    }
    free(b);
}

/* Those that are live have each a lease of its own, and its bytes. */
static void some_check(void) {
    unsigned doubles = 0, changed = 0;
    for (unsigned i = 0; i < some_n; i++) {
        if (some[i].v.kind_ == 0)
            continue;
        changed += !whole(&some[i]);
        for (unsigned j = 0; j < i && some[i].v.kind_ == 1; j++)
            doubles += some[j].v.kind_ == 1 && some[j].v.slot_ == some[i].v.slot_;
    }
    ck_assert_msg(doubles == 0, "%u views share a lease with another", doubles);
    ck_assert_msg(changed == 0, "%u of %u held views have other bytes than when they were taken",
                  changed, some_n);
}

static unsigned by_get_many_here(struct ddict_view *v, unsigned n, unsigned from) {
    struct ddict_want w[BATCH];
    for (unsigned i = 0; i < n; i++)
        w[i] = (struct ddict_want){.key = keys[(from + i) % KEYS].s,
                                   .klen = keys[(from + i) % KEYS].n};
    ck_assert_int_eq(ddict_get_many(d, w, n, 0, -1), n);
    for (unsigned i = 0; i < n; i++)
        v[i] = w[i].view;
    return n;
}

static void one_released_elsewhere(unsigned (*way)(struct ddict_view *, unsigned, unsigned)) {
    begin(1, 0);
    while (some_n < 480)
        some_take(way, 32);
    release_elsewhere(&some[3].v);
    while (some_n < 1100) {
        some_take(way, 32);
        release_elsewhere(&some[some_n - 7].v);
    }
    all_overwrite(20);
    some_check();
    for (unsigned i = 0; i < some_n; i++)
        ddict_release(&some[i].v);
    for (unsigned r = 0; r < 40; r++) { /* all slots again, and what is given back fits */
        some_n = 0;
        while (some_n < 1100)
            some_take(way, 32);
        for (unsigned i = 0; i < some_n; i++)
            ddict_release(&some[i].v);
    }
    end();
}

START_TEST(a_chunk_that_runs_out_within_get_many) {
    one_released_elsewhere(by_get_many_here);
}
END_TEST
START_TEST(a_chunk_that_runs_out_among_absent_keys) {
    one_released_elsewhere(by_get_many);
}
END_TEST

/* A copy of the struct is one view: releasing it, too, is a mistake, which must not hit the memory
 * of others. */
START_TEST(a_view_that_is_released_twice_is_released_once) {
    begin(1, 0);
    struct ddict_view v;
    for (unsigned r = 0; r < 5000; r++) {
        ok(ddict_view(d, keys[0].s, keys[0].n, &v, 0, -1));
        struct ddict_view copy = v, another = v;
        ddict_release(&v);
        ddict_release(&copy);
        release_elsewhere(&another);
        if (r % 1000 == 999)
            some_take(by_get_many_here, 32);
    }
    all_overwrite(5);
    some_check();
    for (unsigned i = 0; i < some_n; i++)
        ddict_release(&some[i].v);
    end();
}
END_TEST

START_TEST(views_of_the_node_cache_keep_their_bytes) {
    begin(2, 1);
    ok(ddict_freeze(d, -1));
    struct ddict_view v[BATCH];
    for (unsigned i = 0; i < KEYS; i += 40) { /* into the cache */
        unsigned n = by_get_many_here(v, 40, i);
        while (n > 0)
            ddict_release(&v[--n]);
    }
    while (some_n < 480)
        some_take(by_get_many_here, 32);
    release_elsewhere(&some[3].v);
    while (some_n < 1100) {
        some_take(some_n % 3 ? by_get_many_here : some_n % 2 ? by_view : by_view_jobs, 32);
        release_elsewhere(&some[some_n - 7].v);
    }
    ok(ddict_unfreeze(d, -1));
    all_overwrite(20);
    some_check();
    for (unsigned i = 0; i < some_n; i++)
        ddict_release(&some[i].v);
    end();
}
END_TEST

START_TEST(inherited_views_keep_their_bytes) {
    int go[2];
    begin(1, 0);
    ck_assert(pipe(go) == 0);
    while (some_n < 1200)
        some_take(some_n % 3 ? by_get_many_here : by_view, 32);
    for (unsigned i = 0; i < some_n; i += 9)
        release_elsewhere(&some[i].v);
    pid_t p = fork();
    if (p == 0) {
        char c;
        if (read(go[0], &c, 1) != 1)
            _exit(9);
        some_check();
        for (unsigned i = 0; i < some_n; i++)
            ddict_release(&some[i].v);
        _exit(0);
    }
    for (unsigned i = 0; i < some_n; i++)
        ddict_release(&some[i].v);
    all_overwrite(20);
    ck_assert(write(go[1], "x", 1) == 1);
    int status;
    ck_assert(waitpid(p, &status, 0) == p);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: status %x", status);
    end();
}
END_TEST

int main(int argc, char **argv) {
    if (getenv("DDICT_TEST_SECONDS"))
        seconds = atof(getenv("DDICT_TEST_SECONDS"));
    const TTest *const tests[] = {
        a_chunk_that_runs_out_within_get_many,
        a_chunk_that_runs_out_among_absent_keys,
        a_view_that_is_released_twice_is_released_once,
        views_of_get_many_keep_their_bytes,
        views_keep_their_bytes,
        views_of_jobs_keep_their_bytes,
        popped_values_keep_their_bytes,
        values_popped_by_jobs_keep_their_bytes,
        views_taken_in_all_ways_keep_their_bytes,
        views_of_another_node_keep_their_bytes,
        popped_values_of_another_node_keep_their_bytes,
        views_of_the_node_cache_keep_their_bytes,
        inherited_views_keep_their_bytes,
    };
    return tests_main("client_views", argc, argv, tests, sizeof tests / sizeof tests[0]);
}
