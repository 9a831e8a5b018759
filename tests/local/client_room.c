/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_room.c - memory that was freed is of use to values of any other size, for clients of the
 * own node and of another; what stays is right, and is so for who reads it meanwhile; and "full"
 * says why and what helps.
 */
#include "client_dict.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB 1024u
#define MIB (1u << 20)

static void *buf;
static ddict_t *d;

static int put(char r, uint64_t i, size_t len) {
    char key[32];
    value_fill(buf, len, (uint64_t)r << 32 | i);
    return ddict_put(d, key, (size_t)snprintf(key, sizeof key, "%c%llu", r, (unsigned long long)i),
                     buf, len, 0, -1);
}

/* Small ones many at a time: each by itself would be a message to the other node and back. Where
 * not all of them fit the others go again, too. */
#define AT_ONCE 256
static uint64_t fill_many(char r, size_t len) {
    static char key[AT_ONCE][32];
    struct ddict_pair pair[AT_ONCE];
    char *values = malloc(AT_ONCE * len);
    for (uint64_t n = 0;; n += AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            value_fill(values + i * len, len, (uint64_t)r << 32 | (n + i));
            pair[i] = (struct ddict_pair){.key = key[i],
                                          .klen = (size_t)snprintf(key[i], sizeof key[i], "%c%llu",
                                                                   r, (unsigned long long)(n + i)),
                                          .val = values + i * len,
                                          .vlen = len};
        }
        if (ddict_put_many(d, pair, AT_ONCE, -1) == AT_ONCE)
            continue;
        for (unsigned i = 0; i < AT_ONCE; i++)
            if (pair[i].status == 0)
                ok(ddict_del(d, pair[i].key, pair[i].klen, -1));
            else
                ck_assert_int_eq(pair[i].status, DDICT_EFULL);
        free(values);
        return n;
    }
}

static uint64_t fill(char r, size_t len) {
    uint64_t n = len <= KIB ? fill_many(r, len) : 0;
    int rc;
    while ((rc = put(r, n, len)) == 0)
        n++;
    ck_assert_int_eq(rc, DDICT_EFULL);
    return n;
}

static void check_kept(char r, uint64_t n, uint64_t m, size_t len) {
    struct ddict_view v;
    char key[32];
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < n; i += m) {
        if (ddict_view(d, key,
                       (size_t)snprintf(key, sizeof key, "%c%llu", r, (unsigned long long)i), &v, 0,
                       -1) < 0) {
            wrong++;
            continue;
        }
        wrong += v.len != len || !value_is(v.data, len, (uint64_t)r << 32 | i);
        ddict_release(&v);
    }
    ck_assert_uint_eq(wrong, 0);
}

static struct ddict_manager_stats sum(void) {
    struct ddict_manager_stats *s, t = {0};
    int n = ddict_stats(d, &s, sizeof *s, -1);
    ok(n);
    for (int i = 0; i < n; i++) {
        t.total_used_bytes += s[i].total_used_bytes;
        t.pool_free_space += s[i].pool_free_space;
        t.scattered_bytes += s[i].scattered_bytes;
        t.moved_bytes += s[i].moved_bytes;
        t.retired_bytes += s[i].retired_bytes;
        t.num_keys += s[i].num_keys;
    }
    free(s);
    return t;
}

#define THINNERS 8
struct thinner {
    pthread_t thread;
    char r;
    uint64_t from, n, m;
};
static void *thin_on(void *arg) {
    struct thinner *t = arg;
    char key[32];
    for (uint64_t i = t->from; i < t->n; i += THINNERS)
        if (i % t->m)
            ok(ddict_del(d, key,
                         (size_t)snprintf(key, sizeof key, "%c%llu", t->r, (unsigned long long)i),
                         -1));
    return NULL;
}

static uint64_t thin(char r, uint64_t n, uint64_t m) {
    struct thinner t[THINNERS];
    uint64_t used = sum().total_used_bytes;
    for (unsigned i = 0; i < THINNERS; i++) {
        t[i] = (struct thinner){.r = r, .from = i, .n = n, .m = m};
        ck_assert_int_eq(pthread_create(&t[i].thread, NULL, thin_on, &t[i]), 0);
    }
    for (unsigned i = 0; i < THINNERS; i++)
        pthread_join(t[i].thread, NULL);
    return used - sum().total_used_bytes;
}

struct reader {
    pthread_t thread;
    uint64_t n, m, reads;
    size_t len;
    uint32_t stop;
};
static void *read_on(void *arg) {
    struct reader *r = arg;
    while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
        check_kept('a', r->n, r->m, r->len);
        __atomic_fetch_add(&r->reads, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void row(int nodes, uint64_t mem, size_t was, uint64_t m, size_t then, unsigned least) {
    struct dict x;
    dict_start(&x, nodes, nodes, mem);
    buf = malloc(then > was ? then : was);
    d = dict_attach(&x, 0);
    uint64_t n = fill('a', was), freed = thin('a', n, m);
    struct ddict_manager_stats before = sum();
    struct reader r = {.n = n, .m = m, .len = was};
    ck_assert_int_eq(pthread_create(&r.thread, NULL, read_on, &r), 0);
    uint64_t got = fill('b', then);
    __atomic_store_n(&r.stop, 1, __ATOMIC_RELAXED);
    pthread_join(r.thread, NULL);
    struct ddict_manager_stats after = sum();
    uint64_t share = (after.total_used_bytes - before.total_used_bytes) * 100 / freed;
    ck_assert_msg(share >= least,
                  "of %llu bytes freed %llu of 100 are of use for values of %zu: %s",
                  (unsigned long long)freed, (unsigned long long)share, then, ddict_errmsg());
    ck_assert_uint_gt(after.moved_bytes, 0);
    check_kept('a', n, m, was);
    check_kept('b', got, 1, then);
    ok(ddict_detach(d));
    free(buf);
    dict_stop(&x);
}

START_TEST(each_second_kib_makes_room_for_64_kib) {
    row(1, 16 * MIB, KIB, 2, 64 * KIB, 85);
}
END_TEST
START_TEST(fifteen_of_sixteen_make_room_for_a_mib) {
    row(1, 32 * MIB, KIB, 16, MIB, 85);
}
END_TEST
START_TEST(small_ones_make_room_on_two_nodes) {
    row(2, 12 * MIB, 100, 20, 3000, 85);
}
END_TEST
/* More is moved than in one turn of a manager: the put waits, in a lane and in a connection between
 * managers. */
START_TEST(a_put_waits_for_room_that_takes_many_turns) {
    row(2, 16 * MIB, 40, 3, 2 * MIB, 40);
}
END_TEST

static uint64_t turns_sum(void) {
    struct ddict_manager_stats *s;
    uint64_t sum = 0;
    ok(ddict_stats(d, &s, sizeof *s, -1));
    for (int i = 0; i < DDICT_TURNS_N; i++)
        sum += s->turns[i];
    free(s);
    return sum;
}

static size_t key_text(char *key, char r, uint64_t i) {
    return (size_t)sprintf(key, "%c%llu", r, (unsigned long long)i);
}

/* The room for it is not there before many thousands of values have moved: in many turns, between
 * which others are served. */
struct beside {
    pthread_t thread;
    uint64_t served;
    uint32_t stop;
};
static void *beside(void *arg) {
    struct beside *b = arg;
    while (!__atomic_load_n(&b->stop, __ATOMIC_RELAXED)) {
        ok(ddict_put(d, "beside", 6, &b->served, sizeof b->served, 0, -1));
        __atomic_fetch_add(&b->served, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

START_TEST(a_put_waits_while_room_is_made_and_others_are_served) {
    enum { LARGE = 48 * MIB };
    struct dict x;
    struct beside b = {0};
    dict_start(&x, 1, 1, 128 * MIB);
    buf = malloc(LARGE);
    d = dict_attach(&x, 0);
    uint64_t n = fill('a', 512);
    thin('a', n, 4);
    ck_assert_int_eq(pthread_create(&b.thread, NULL, beside, &b), 0);
    while (!__atomic_load_n(&b.served, __ATOMIC_RELAXED))
        usleep(1000);
    uint64_t moved = sum().moved_bytes, turns = turns_sum(),
             served = __atomic_load_n(&b.served, __ATOMIC_RELAXED);
    ck_assert_msg(put('b', 0, LARGE) == 0, "%s", ddict_errmsg());
    served = __atomic_load_n(&b.served, __ATOMIC_RELAXED) - served;
    __atomic_store_n(&b.stop, 1, __ATOMIC_RELAXED);
    pthread_join(b.thread, NULL);
    ck_assert_uint_gt(sum().moved_bytes, moved + 4 * MIB);
    ck_assert_uint_gt(turns_sum(), turns + 6);
    ck_assert_uint_gt(served, 3);
    check_kept('a', n, 4, 512);
    check_kept('b', 1, 1, LARGE);
    ok(ddict_detach(d));
    free(buf);
    dict_stop(&x);
}
END_TEST

/* A view in each run: no room can be made. It is refused within the time that a put may wait, and
 * says why; what is small still finds room. */
START_TEST(a_put_that_never_gets_room_is_refused_and_has_it_later) {
    static struct ddict_view v[8192];
    struct dict x;
    char key[32], cmd[200];
    uint64_t views = 0;
    dict_start(&x, 1, 1, 32 * MIB);
    buf = malloc(6 * MIB);
    d = dict_attach(&x, 0);
    ck_assert_int_eq(put('z', 0, 2 * MIB), 0);
    ck_assert_int_eq(put('z', 1, 2 * MIB), 0);
    uint64_t n = fill('a', KIB);
    thin('a', n, 8);
    for (uint64_t i = 0; i < n; i += 8, views++) {
        ck_assert_uint_lt(views, 8192);
        ok(ddict_view(d, key, key_text(key, 'a', i), &v[views], 0, -1));
    }
    uint64_t got = 0;
    int rc;
    double worst = 0;
    do {
        double t = now_s();
        rc = put('b', got, 2 * MIB);
        if (now_s() - t > worst)
            worst = now_s() - t;
    } while (rc == 0 && ++got < 100);
    ck_assert_int_eq(rc, DDICT_EFULL);
    ck_assert_msg(strstr(ddict_errmsg(), " free, ") &&
                      strstr(ddict_errmsg(), " of it scattered; delete keys"),
                  "%s", ddict_errmsg());
    ck_assert_msg(worst < 20, "%.1f s", worst); /* 3 s are promised */
    struct ddict_manager_stats s = sum();
    ck_assert_uint_gt(s.scattered_bytes, 16 * MIB);
    ck_assert_uint_gt(32 * MIB - s.total_used_bytes, 16 * MIB);
    ck_assert_uint_lt(s.pool_free_space, 4 * MIB);
    ck_assert_int_eq(put('c', 0, KIB), 0);

    /* `ddict load` relies on the figure: nothing of what does not fit is put. */
    ok(ddict_del(d, "z0", 2, -1));
    ok(ddict_del(d, "z1", 2, -1));
    uint64_t keys = sum().num_keys;
    ck_assert_int_eq(system("rm -rf room.d && mkdir room.d && cd room.d && for i in 1 2 3 4 5 6 7 "
                            "8 9 10 11 12; do head -c 1048576 /dev/urandom >$i; done"),
                     0);
    sprintf(cmd, "./ddict load room.d --prefix=room/ >room.out 2>&1");
    ck_assert_int_ne(system(cmd), 0);
    ck_assert_int_eq(
        system("grep -q 'needs 12[.][0-9] MiB at the least, and the dictionary has [0-9.]* [KM]iB "
               "free of its 32.0 MiB' room.out || { cat room.out; false; }"),
        0);
    ck_assert_uint_le(sum().num_keys, keys + 1);

    while (views > 0)
        ddict_release(&v[--views]);
    double end = now_s() + 60;
    while ((rc = put('b', got, 6 * MIB)) == DDICT_EFULL && now_s() < end)
        usleep(100000);
    ck_assert_int_eq(rc, 0);
    while ((s = sum()).pool_free_space <= 13 * MIB && now_s() < end)
        usleep(10000);
    ck_assert_msg(s.pool_free_space > 13 * MIB,
                  "%llu used, %llu free, %llu scattered, %llu moved, %llu large ones",
                  (unsigned long long)s.total_used_bytes, (unsigned long long)s.pool_free_space,
                  (unsigned long long)s.scattered_bytes, (unsigned long long)s.moved_bytes,
                  (unsigned long long)got);
    ck_assert_int_eq(system(cmd), 0);
    ck_assert_uint_ge(sum().num_keys, keys + 12);
    ok(ddict_view(d, "sroom/12", 8, &v[0], 0, -1));
    ck_assert_uint_eq(v[0].len, MIB);
    ddict_release(&v[0]);
    ck_assert_int_eq(system("rm -rf room.d room.out"), 0);
    check_kept('a', n, 8, KIB);
    check_kept('b', got, 1, 2 * MIB);
    ok(ddict_detach(d));
    free(buf);
    dict_stop(&x);
}
END_TEST

START_TEST(full_says_what_is_free_who_holds_and_what_helps) {
    struct dict x;
    struct ddict_view v[64];
    dict_start(&x, 1, 1, 16 * MIB);
    buf = malloc(MIB);
    d = dict_attach(&x, 0);
    uint64_t n = fill('a', 100 * KIB);
    ck_assert_ptr_nonnull(
        strstr(ddict_errmsg(), " free; delete keys, clear, or give it more memory (--ddict-mem)"));
    ck_assert_ptr_null(strstr(ddict_errmsg(), "views hold"));
    for (uint64_t i = 0; i < 60; i++) {
        char key[32];
        ok(ddict_view(d, key, (size_t)snprintf(key, sizeof key, "a%llu", (unsigned long long)i),
                      &v[i], 0, -1));
    }
    for (uint64_t i = 0; i < 60; i++) {
        char key[32];
        ok(ddict_del(d, key, (size_t)snprintf(key, sizeof key, "a%llu", (unsigned long long)i),
                     -1));
    }
    fill('b', 100 * KIB);
    char who[80];
    snprintf(who, sizeof who,
             " of replaced values, most of it process %d: release them; delete keys",
             (int)getpid());
    ck_assert_msg(strstr(ddict_errmsg(), "; views hold ") && strstr(ddict_errmsg(), who), "%s",
                  ddict_errmsg());
    for (uint64_t i = 0; i < 60; i++)
        ddict_release(&v[i]);
    ck_assert_int_eq(put('c', 1, MIB), 0);
    ck_assert_uint_gt(n, 60);
    ok(ddict_detach(d));
    free(buf);
    dict_stop(&x);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {each_second_kib_makes_room_for_64_kib,
                                  fifteen_of_sixteen_make_room_for_a_mib,
                                  small_ones_make_room_on_two_nodes,
                                  a_put_waits_for_room_that_takes_many_turns,
                                  a_put_waits_while_room_is_made_and_others_are_served,
                                  a_put_that_never_gets_room_is_refused_and_has_it_later,
                                  full_says_what_is_free_who_holds_and_what_helps};
    return tests_main("client_room", argc, argv, tests, sizeof tests / sizeof *tests);
}
