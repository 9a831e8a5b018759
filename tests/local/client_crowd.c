/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_crowd.c - many clients of one node. Invariants: what one client asks does not cost more
 * because others are attached; any number of them may build values in place; who cannot be taken is
 * refused and nobody else hears of it; what a burst took of lanes goes back, and is there again
 * when it is wanted.
 *
 * $DDICT_TEST_CROWD: how many clients (300). By hand with 2000 and more (ulimit -n 65536); what a
 * request costs is printed.
 */
#include "client_dict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB      (1u << 20)
#define EACH     25 /* clients of one process */
#define PREFIXES 65536u

static struct dict x;
static ddict_t *d;

static int crowd_size(void) {
    const char *n = getenv("DDICT_TEST_CROWD");
    return n ? atoi(n) : 300;
}

static void files_many(void) {
    struct rlimit l;
    getrlimit(RLIMIT_NOFILE, &l);
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
}

/* Processor time of a process, ns. */
static double cpu_ns(pid_t pid) {
    char path[64];
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%llu", &ns), 1);
    fclose(f);
    return (double)ns;
}

/* --- the crowd: processes that attach EACH times, do what they are to do once, and sit idle until
 * `go` ends --- */
static int go[2], done[2], again[2];
static int crowd_n;
static bool twice; /* they do it again when `again` ends */

static int sit(int first, int n, void (*act)(ddict_t *h, int i)) {
    ddict_t *h[EACH];
    char c = 'y';
    for (int i = 0; i < n; i++) {
        int rc = ddict_attach(&h[i], NULL, -1);
        if (rc < 0) {
            fprintf(stderr, "client %d: attach: %d %s\n", first + i, rc, ddict_errmsg());
            return 1;
        }
    }
    for (int i = 0; i < n; i++)
        act(h[i], first + i);
    if (write(done[1], &c, 1) != 1)
        return 1;
    if (twice) {
        if (read(again[0], &c, 1) != 0)
            return 1;
        for (int i = 0; i < n; i++)
            act(h[i], first + i);
        if (write(done[1], &c, 1) != 1)
            return 1;
    }
    if (read(go[0], &c, 1) != 0)
        return 1;
    for (int i = 0; i < n; i++)
        ddict_detach(h[i]);
    return 0;
}

static void crowd_await(void) /* until all have done it */
{
    for (int i = 0; i < crowd_n; i++) {
        char c;
        ck_assert_msg(read(done[0], &c, 1) == 1, "a process of the crowd failed");
    }
}

static void crowd_come(int n, void (*act)(ddict_t *h, int i)) {
    ck_assert(pipe(go) == 0 && pipe(done) == 0 && pipe(again) == 0);
    crowd_n = 0;
    for (int first = 0; first < n; first += EACH, crowd_n++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(go[1]);
            close(again[1]);
            close(done[0]);
            _exit(sit(first, n - first < EACH ? n - first : EACH, act));
        }
    }
    close(done[1]);
    crowd_await();
}

static void crowd_again(void) {
    close(again[1]);
    again[1] = -1;
    crowd_await();
}

static void crowd_go(void) {
    int status, bad = 0;
    close(go[1]);
    close(go[0]);
    close(done[0]);
    close(again[0]);
    if (again[1] >= 0)
        close(again[1]);
    twice = false;
    for (int i = 0; i < crowd_n; i++) {
        ck_assert_int_gt(wait(&status), 0);
        bad += status != 0;
    }
    ck_assert_int_eq(bad, 0);
}

static void attended(ddict_t *h, int i) /* it has put, read in place, and waited once */
{
    char key[32];
    struct ddict_view v;
    int n = snprintf(key, sizeof key, "crowd/%d", i);
    if (ddict_put(h, key, (size_t)n, key, (size_t)n, 0, -1) < 0 ||
        ddict_view(h, key, (size_t)n, &v, 0, -1) < 0) {
        fprintf(stderr, "client %d: %s\n", i, ddict_errmsg());
        _exit(1);
    }
    ddict_release(&v);
}

/* --- a ddictd with less than others --- */
static char script[64];

static void ddictd_within(const char *limit) {
    const char *path = getenv("DDICTD");
    snprintf(script, sizeof script, "/tmp/ddict-crowd-%d", (int)getpid());
    FILE *f = fopen(script, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "#!/bin/sh\nulimit %s || exit 1\nexec %s \"$@\"\n", limit, path ? path : "./ddictd");
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod(script, 0700), 0);
    setenv("DDICTD", script, 1);
}

/* --- costs --- */
struct cost {
    double cpu, took;
};

static struct cost puts_cost(size_t len, int n) {
    static uint8_t value[65536];
    char key[32];
    struct cost c;
    for (int warm = 1; warm >= 0; warm--) {
        int k = warm ? n / 10 : n;
        double cpu = cpu_ns(x.manager[0]), at = now_s();
        for (int i = 0; i < k; i++) {
            int m = snprintf(key, sizeof key, "key %d", i % 64);
            ok(ddict_put(d, key, (size_t)m, value, len, 0, -1));
        }
        c = (struct cost){.cpu = (cpu_ns(x.manager[0]) - cpu) / k / 1000,
                          .took = (now_s() - at) * 1e6 / k};
    }
    return c;
}

START_TEST(a_request_costs_as_much_however_many_are_attached) {
    struct cost alone[2], among[2];
    int n = crowd_size();
    files_many();
    dict_start(&x, 1, 1, 1024ull * MIB);
    d = dict_attach(&x, 0);
    alone[0] = puts_cost(100, 20000);
    alone[1] = puts_cost(65536, 4000);
    crowd_come(n, attended);
    among[0] = puts_cost(100, 20000);
    among[1] = puts_cost(65536, 4000);
    for (int i = 0; i < 2; i++)
        printf("put of %5d bytes: manager's CPU %.1f us alone, %.1f us among %d; %.1f us, %.1f us "
               "altogether\n",
               i ? 65536 : 100, alone[i].cpu, among[i].cpu, n, alone[i].took, among[i].took);
    fflush(stdout);
#ifndef TEST_OLD
    struct ddict_manager_stats *s = NULL;
    ck_assert_int_eq(ddict_stats(d, &s, sizeof *s, -1), 1);
    ck_assert_uint_ge(s[0].clients_now, (uint64_t)n);
    ck_assert_uint_le(s[0].lanes_watched, 16);
    free(s);
#endif
    crowd_go();
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- memory of lanes --- */
static void must(int rc, int i, const char *what) {
    if (rc >= 0)
        return;
    fprintf(stderr, "client %d: %s: %d %s\n", i, what, rc, ddict_errmsg());
    _exit(1);
}

#define BURST 12u
/* a ring and a half goes through its lane, and a MiB is built in place; each byte is there
 * afterwards */
static void bursts(ddict_t *h, int i) {
    static uint8_t value[65536], back[1 << 20];
    char key[32];
    struct ddict_place p;
    size_t len;
    for (unsigned k = 0; k <= BURST; k++) {
        int n = snprintf(key, sizeof key, "burst/%d/%u", i, k % 2);
        uint64_t seed = (uint64_t)i * 100 + k;
        if (k == BURST) {
            must(ddict_reserve(h, key, (size_t)n, sizeof back, 0, &p), i, "reserve");
            value_fill(p.data, sizeof back, seed);
            must(ddict_commit(&p, -1), i, "commit");
        } else {
            value_fill(value, sizeof value, seed);
            must(ddict_put(h, key, (size_t)n, value, sizeof value, 0, -1), i, "put");
        }
        must(ddict_get(h, key, (size_t)n, back, sizeof back, &len, NULL, 0, -1), i, "get");
        if (len != (k == BURST ? sizeof back : sizeof value) || !value_is(back, len, seed)) {
            fprintf(stderr, "client %d: value %u is not what was put\n", i, k);
            _exit(1);
        }
        must(ddict_del(h, key, (size_t)n, -1), i, "delete");
    }
}

static uint64_t lanes_now(uint64_t *returned) {
    struct ddict_manager_stats *s = NULL;
    ck_assert_int_eq(ddict_stats(d, &s, sizeof *s, -1), 1);
    uint64_t n = s[0].lane_bytes;
#ifndef TEST_OLD
    *returned = s[0].lane_returned_bytes;
#endif
    free(s);
    return n;
}

static uint64_t lanes_until(uint64_t bytes, double secs) {
    uint64_t n, returned = 0;
    for (double end = now_s() + secs; (n = lanes_now(&returned)) > bytes && now_s() < end;)
        usleep(200000);
    return n;
}

START_TEST(what_a_burst_took_of_lanes_goes_back) {
    const int n = crowd_size() < 200 ? crowd_size() : 200;
    uint64_t small = 16384u * (uint64_t)(n + 1), large = (uint64_t)n * (1408u << 10), first, second,
             returned = 0;
    files_many();
    dict_start(&x, 1, 1, 512 * MIB);
    d = dict_attach(&x, 0);
    twice = true;
    crowd_come(n, bursts);
    first = lanes_now(&returned) + returned;
    ck_assert_msg(first >= large, "%llu bytes of lanes after the bursts of %d clients",
                  (unsigned long long)first, n);
    second = lanes_until(small, 40);
    printf("%d clients: %.1f MiB of lanes after a burst each, %.1f MiB some seconds later\n", n,
           (double)first / MIB, (double)second / MIB);
    fflush(stdout);
    ck_assert_msg(second <= small, "%llu bytes of lanes of %d idle clients",
                  (unsigned long long)second, n);
    crowd_again();
    ck_assert_uint_ge(lanes_now(&returned) + returned, 2 * large);
    ck_assert_uint_le(lanes_until(small, 40), small);
    crowd_go();
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

static void at_any_moment(ddict_t *h, int i) /* with pauses in which its lane may be taken */
{
    uint64_t seed = (uint64_t)i + 1;
    for (int k = 0; k < 12; k++) {
        bursts(h, i);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        usleep((useconds_t)(seed >> 33) % 3000);
    }
}

START_TEST(memory_of_lanes_that_is_taken_at_any_moment_loses_nothing) {
    uint64_t returned = 0;
    setenv("DDICT_TEST_LANE_IDLE_US", "1", 1);
    dict_start(&x, 1, 1, 256 * MIB);
    unsetenv("DDICT_TEST_LANE_IDLE_US");
    d = dict_attach(&x, 0);
    crowd_come(3 * EACH, at_any_moment);
    lanes_now(&returned);
    printf("%.1f MiB of memory of lanes were taken\n", (double)returned / MIB);
    fflush(stdout);
    ck_assert_uint_gt(returned, 16 * MIB);
    crowd_go();
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

static void builds(ddict_t *h, int i) /* a value of 100 kB in place */
{
    char key[32];
    struct ddict_place p;
    int n = snprintf(key, sizeof key, "built/%d", i);
    if (ddict_reserve(h, key, (size_t)n, 100000, 0, &p) < 0) {
        fprintf(stderr, "client %d: reserve: %s\n", i, ddict_errmsg());
        _exit(1);
    }
    value_fill(p.data, 100000, (uint64_t)i);
    if (ddict_commit(&p, -1) < 0) {
        fprintf(stderr, "client %d: commit: %s\n", i, ddict_errmsg());
        _exit(1);
    }
}

/* The address space of the managers is limited. It was 64 GiB a client. */
static void build_within(const char *limit) {
    enum { N = EACH }; /* one process: all are attached before the first builds */
    files_many();
    ddictd_within(limit);
    dict_start(&x, 1, 1, 64 * MIB);
    unlink(script);
    d = dict_attach(&x, 0);
    crowd_come(N, builds);
    for (int i = 0; i < N; i++) {
        char key[32];
        struct ddict_view v;
        int n = snprintf(key, sizeof key, "built/%d", i);
        ok(ddict_view(d, key, (size_t)n, &v, 0, -1));
        ck_assert(v.len == 100000 && value_is(v.data, v.len, (uint64_t)i));
        ddict_release(&v);
    }
    crowd_go();
    ddict_detach(d);
    dict_stop(&x);
}
#ifdef __SANITIZE_ADDRESS__ /* wants 15 TiB of addresses for itself */
#define WITHIN(kib) ""
#else
#define WITHIN(kib) "-v " #kib
#endif
START_TEST(any_number_of_clients_builds_values_in_place) {
    build_within(WITHIN(274877906));
}
END_TEST
/* not even a window for each */
START_TEST(without_address_space_they_do_it_too) {
    build_within(WITHIN(4194304));
}
END_TEST

START_TEST(who_cannot_be_taken_is_refused_and_nobody_else_hears_of_it) {
    ddict_t *h[64];
    int n = 0, rc = 0;
    ddictd_within("-n 120");
    dict_start(&x, 1, 2, 64 * MIB);
    unlink(script);
    d = dict_attach(&x, 0);
    for (; n < 64 && (rc = ddict_attach(&h[n], NULL, 10000)) == 0; n++)
        ok(ddict_put(h[n], "key", 3, "value", 5, 0, -1));
    ck_assert_msg(rc == -EMFILE && strstr(ddict_errmsg(), "open files"), "%d clients, then %d: %s",
                  n, rc, ddict_errmsg());
    ck_assert_int_ge(n, 8);
    for (int i = 0; i < n; i++)
        ok(ddict_put(h[i], "key", 3, "value", 5, 0, -1));
    ddict_detach(h[--n]);
    /* ddictd sees the other's end a moment later */
    for (double end = now_s() + 20;
         (rc = ddict_attach(&h[n], NULL, 10000)) == -EMFILE && now_s() < end;)
        usleep(10000);
    ck_assert_msg(rc == 0, "%d: %s", rc, ddict_errmsg());
    for (; n >= 0; n--) {
        ok(ddict_put(h[n], "key", 3, "value", 5, 0, -1));
        ddict_detach(h[n]);
    }
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(a_put_costs_as_much_however_many_prefixes_are_subscribed) {
    ddict_sub_t **sub = calloc(PREFIXES, sizeof *sub);
    struct ddict_event e;
    char prefix[32];
    dict_start(&x, 1, 1, 256 * MIB);
    d = dict_attach(&x, 0);
    ok(ddict_subscribe(d, "p/00000/", 8, 0, &sub[0], -1));
    struct cost one = puts_cost(100, 10000);
    double at = now_s();
    for (unsigned i = 1; i < PREFIXES; i++) {
        int n = snprintf(prefix, sizeof prefix, "p/%05u/", i);
        ok(ddict_subscribe(d, prefix, (size_t)n, 0, &sub[i], -1));
    }
    printf("%u subscriptions took %.1f s\n", PREFIXES - 1, now_s() - at);
    struct cost all = puts_cost(100, 10000);
    printf("put of 100 bytes: manager's CPU %.1f us with one prefix, %.1f us with %u\n", one.cpu,
           all.cpu, PREFIXES);
    fflush(stdout);
    /* to compare a key with all of them takes more than 300 */
    ck_assert_msg(all.cpu < 10 * one.cpu + 20, "%.1f us with one prefix, %.1f us with all", one.cpu,
                  all.cpu);
#ifndef TEST_OLD
    struct ddict_manager_stats *s = NULL;
    ck_assert_int_eq(ddict_stats(d, &s, sizeof *s, -1), 1);
    ck_assert_uint_eq(s[0].prefixes, PREFIXES);
    ck_assert_uint_lt(s[0].events_bytes, 64 * MIB); /* a ring for each would be 2 GiB */
    free(s);
#endif
    for (unsigned i = 0; i < PREFIXES; i += 997) {
        int n = snprintf(prefix, sizeof prefix, "p/%05u/key", i);
        ok(ddict_put(d, prefix, (size_t)n, "x", 1, 0, -1));
        ck_assert_int_eq(ddict_next_event(sub[i], &e, 30000), 1);
        ck_assert(e.klen == (size_t)n && memcmp(e.key, prefix, e.klen) == 0);
    }
    for (unsigned i = 0; i < PREFIXES; i++)
        ddict_unsubscribe(sub[i]);
    free(sub);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

static int sockets_of(pid_t pid) {
    char path[64], to[64];
    int n = 0;
    for (int fd = 0; fd < 512; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t k = readlink(path, to, sizeof to - 1);
        n += k > 6 && memcmp(to, "socket", 6) == 0;
    }
    return n;
}

START_TEST(a_manager_has_one_requester_on_each_node) {
    enum { NODES = 2, LOCAL = 4, ALL = NODES * LOCAL };
    ddict_t *h[NODES];
    char key[32];
    int ends = 0;
    dict_start(&x, NODES, ALL, ALL * 16ull * MIB);
    for (int i = 0; i < NODES; i++)
        h[i] = dict_attach(&x, i);
    for (int i = 0; i < NODES; i++)
        for (unsigned m = 0; m < ALL; m++)
            for (unsigned k = 0; k < 50; k++) {
                size_t n = key_of(h[i], m, k, key, sizeof key);
                ok(ddict_put(h[i], key, n, key, n, 0, -1));
                ck_assert_int_eq(ddict_contains(h[i], key, n, NULL, -1), 1);
            }
    for (int i = 0; i < ALL; i++)
        ends += sockets_of(x.manager[i]) - 2; /* that on which it listens, and ddictd's */
    printf("%d connections' ends of %d managers\n", ends, ALL);
    fflush(stdout);
    /* each has two ends; it were LOCAL times as many */
    ck_assert_int_eq(ends, 2 * NODES * (NODES - 1) * LOCAL);
#ifndef TEST_OLD
    struct ddict_manager_stats *s = NULL;
    ck_assert_int_eq(ddict_stats(h[0], &s, sizeof *s, -1), ALL);
    for (int i = 0; i < ALL; i++)
        ck_assert_uint_eq(s[i].connections, 2); /* asks one, is asked by one */
    free(s);
#endif
    for (int i = 0; i < NODES; i++)
        ddict_detach(h[i]);
    dict_stop(&x);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {a_request_costs_as_much_however_many_are_attached,
                                  what_a_burst_took_of_lanes_goes_back,
                                  memory_of_lanes_that_is_taken_at_any_moment_loses_nothing,
                                  any_number_of_clients_builds_values_in_place,
                                  without_address_space_they_do_it_too,
                                  who_cannot_be_taken_is_refused_and_nobody_else_hears_of_it,
                                  a_put_costs_as_much_however_many_prefixes_are_subscribed,
                                  a_manager_has_one_requester_on_each_node};
    return tests_main("client_crowd", argc, argv, tests, sizeof tests / sizeof *tests);
}
