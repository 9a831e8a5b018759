/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_dropped.c - a process that breaks a rule of its lane is dropped by ddictd, but lives on
 * and has the arenas mapped. Invariants: views that it holds keep their bytes; what it reads in
 * place afterwards is right or refused; its calls that need a manager end with DDICT_ELOST at once;
 * others go on as if nothing were; answers that wait for it are given up at once; when it has ended
 * nothing of it is left. (It looks into libddict to find the lane.)
 */
#include "client_dict.h"

#include <errno.h>
#include <fcntl.h>
#include <lib/handle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB  (1u << 20)
#define KEYS 300
#define LEN  6000

static struct dict x;
static ddict_t *d;
static struct ddict_view held[KEYS];
static int to_child[2], to_parent[2];

#define EXPECT(is)                                                                        \
    do {                                                                                  \
        if (!(is)) {                                                                      \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #is, ddict_errmsg()); \
            _exit(1);                                                                     \
        }                                                                                 \
    } while (0)

static size_t key_name(char *key, unsigned i) {
    return (size_t)sprintf(key, "dropped-%04u", i);
}

static void put_all(unsigned round) {
    unsigned char b[LEN];
    for (unsigned i = 0; i < KEYS; i++) {
        char key[32];
        size_t n = key_name(key, i);
        uint64_t seed = round * KEYS + i;
        value_fill(b + 8, LEN - 8, seed);
        memcpy(b, &seed, 8);
        ok(ddict_put(d, key, n, b, LEN, 0, 5000));
    }
}

/* Of key i, and if round is not 0 of that round. */
static bool whole(const struct ddict_view *v, unsigned i, unsigned round) {
    uint64_t seed;
    memcpy(&seed, v->data, 8);
    return v->len == LEN && seed % KEYS == i && (round == 0 || seed / KEYS == round) &&
           value_is((const char *)v->data + 8, LEN - 8, seed);
}

static void record_send(struct client_lane *p, uint16_t type) {
    bool bad = false;
    client_lane_lock(p);
    struct msg *m = (struct msg *)ring_reserve(&p->lane.sq, MSG_HEADER, &bad);
    if (!m)
        _exit(98);
    memset(m, 0, sizeof *m);
    m->len = MSG_HEADER;
    m->type = type;
    m->id = 1ull << 40;
    ring_commit(&p->lane.sq);
    client_lane_unlock(p);
    client_lane_wake(p);
}

static void record_break(struct client_lane *p) {
    record_send(p, 9999);
}
static void piece_of_nothing(struct client_lane *p) {
    record_send(p, MSG_DATA);
}

static void hello_again(struct client_lane *p) {
    struct attach_msg m;
    (void)p;
    attach_msg_init(&m, ATTACH_HELLO);
    if (attach_send(d->session->sock, &m, NULL, 0) < 0)
        _exit(97);
}

static void short_message(struct client_lane *p) {
    (void)p;
    if (write(d->session->sock, "?", 1) != 1)
        _exit(96);
}

static void child(void (*breaks)(struct client_lane *)) {
    char key[32];
    d = dict_attach(&x, 0);
    for (unsigned i = 0; i < KEYS; i++)
        EXPECT(ddict_view(d, key, key_name(key, i), &held[i], 0, -1) == 0 && whole(&held[i], i, 1));
    breaks(&d->session->local[0].lane);
    /* the first that asks a manager knows of it; none waits */
    double until = now_s() + 20;
    int rc = 0;
    while ((rc = ddict_put(d, "gone", 4, "x", 1, 0, 5000)) == 0 && now_s() < until)
        usleep(1000);
    EXPECT(rc == DDICT_ELOST);
    double began = now_s();
    for (unsigned i = 0; i < 8; i++) { /* of either manager */
        EXPECT(ddict_put(d, key, key_name(key, i), "x", 1, 0, 20000) == DDICT_ELOST);
        EXPECT(ddict_del(d, key, key_name(key, i), 20000) == DDICT_ELOST);
    }
    EXPECT(now_s() - began < 10);
    EXPECT(write(to_parent[1], "x", 1) == 1);
    await(to_child[0]); /* all is overwritten many times meanwhile */
    for (unsigned i = 0; i < KEYS; i++)
        EXPECT(whole(&held[i], i, 1));
    EXPECT(write(to_parent[1], "x", 1) == 1);
    /* while it is overwritten further: what is read in place now */
    struct ddict_view v[64];
    until = now_s() + 1;
    for (unsigned r = 0; now_s() < until; r++) {
        unsigned n = 0;
        for (unsigned i = 0; i < 64; i++, n += rc == 0)
            EXPECT((rc = ddict_view(d, key, key_name(key, (r + i) % KEYS), &v[i], 0, 1000)) == 0 ||
                   rc == DDICT_ELOST || rc == DDICT_EGONE);
        for (unsigned k = 0; k < 20; k++)
            for (unsigned i = 0; i < 64 && n == 64; i++)
                EXPECT(whole(&v[i], (r + i) % KEYS, 0));
        for (unsigned i = 0; i < 64; i++)
            ddict_release(&v[i]);
        unsigned char b[LEN];
        size_t len;
        EXPECT((rc = ddict_get(d, key, key_name(key, r % KEYS), b, LEN, &len, NULL, 0, 1000)) ==
                   0 ||
               rc == DDICT_ELOST || rc == DDICT_EGONE);
        v[0] = (struct ddict_view){.data = b, .len = len};
        EXPECT(rc != 0 || whole(&v[0], r % KEYS, 0));
    }
    for (unsigned i = 0; i < KEYS; i++)
        EXPECT(whole(&held[i], i, 1));
    EXPECT(write(to_parent[1], "x", 1) == 1);
    await(to_child[0]);
    for (unsigned i = 0; i < KEYS; i++)
        EXPECT(whole(&held[i], i, 1));
    _exit(0);
}

static void dropped(void (*breaks)(struct client_lane *)) {
    char c;
    d = dict_begin(&x, 1, 2, 64 * MIB);
    ck_assert(pipe(to_child) == 0 && pipe(to_parent) == 0);
    put_all(1);
    pid_t p = fork();
    if (p == 0)
        child(breaks);
    close(to_parent[1]);
    ck_assert_msg(read(to_parent[0], &c, 1) == 1, "the child has ended");
    unsigned round = 2;
    for (; round < 30; round++)
        put_all(round);
    ck_assert(write(to_child[1], "x", 1) == 1 && read(to_parent[0], &c, 1) == 1);
    int flags = fcntl(to_parent[0], F_GETFL);
    fcntl(to_parent[0], F_SETFL, flags | O_NONBLOCK);
    for (double until = now_s() + 60; read(to_parent[0], &c, 1) < 0; round++) {
        ck_assert(now_s() < until);
        put_all(round);
    }
    tell(to_child[1]);
    expect_exit(p, 0);
    double until = now_s() + 10;
    do { /* what it held can be used again */
        put_all(round++);
    } while (dict_retired(d) > 3 * MIB && now_s() < until);
    ck_assert_msg(dict_retired(d) <= 3 * MIB, "%llu bytes are still held",
                  (unsigned long long)dict_retired(d));
    uint64_t clients;
    do { /* ddictd tells it to its managers when the process has ended */
        struct ddict_manager_stats *s;
        ok(ddict_stats(d, &s, sizeof *s, -1));
        clients = s[0].clients_now;
        free(s);
    } while (clients != 1 && now_s() < until);
    ck_assert_uint_eq(clients, 1);
    dict_end(&x, d);
}

START_TEST(after_a_malformed_record) {
    dropped(record_break);
}
END_TEST
START_TEST(after_a_piece_of_no_value) {
    dropped(piece_of_nothing);
}
END_TEST
START_TEST(after_a_message_out_of_place) {
    dropped(hello_again);
}
END_TEST
START_TEST(after_a_malformed_message) {
    dropped(short_message);
}
END_TEST

/* --- answers that wait for room in the lane of the banned client --- */

#define ANSWERS   300 /* more than its lane has room for */
#define ANSWER    100000
#define REMOVED   (8 * MIB)
#define WAIT_US   60000000u
#define LET_GO_S  20
#define FEW_BYTES MIB

/* Send a request that waits for its key, and take no answer. */
static void wait_send(struct client_lane *p, uint16_t type, uint16_t flags, const char *key) {
    static uint64_t id = 1ull << 40;
    uint32_t klen = (uint32_t)strlen(key);
    struct msg m = {.len = MSG_HEADER + klen,
                    .type = type,
                    .flags = MSGF_WAIT | flags,
                    .id = id++,
                    .key_len = klen,
                    .aux = WAIT_US,
                    .version = MSG_VALUE_MAX};
    bool bad = false;
    uint8_t *at = NULL;
    for (double until = now_s() + 20; !at && now_s() < until;) {
        client_lane_lock(p);
        if (lane_write_begin(&p->lane)) {
            at = ring_reserve(&p->lane.sq, m.len, &bad);
            if (at) {
                memcpy(at, &m, MSG_HEADER);
                memcpy(at + MSG_HEADER, key, klen);
                ring_commit(&p->lane.sq);
            }
            lane_write_end(&p->lane);
        }
        client_lane_unlock(p);
        client_lane_wake(p);
        if (!at)
            usleep(1000);
    }
    EXPECT(at && !bad);
}

/* Ask for much, take nothing, be banned, and live on. */
static void child_of_backlog(void) {
    d = dict_attach(&x, 0);
    struct client_lane *p = &d->session->local[0].lane;
    for (unsigned i = 0; i < ANSWERS; i++)
        wait_send(p, MSG_GET, 0, "copied");
    wait_send(p, MSG_POP, MSGF_VIEW, "placed");
    double until = now_s() + 20;
    while (__atomic_load_n(p->lane.sq.head, __ATOMIC_ACQUIRE) != *p->lane.sq.tail)
        EXPECT(now_s() < until && usleep(1000) == 0);
    EXPECT(write(to_parent[1], "x", 1) == 1);
    await(to_child[0]);
    short_message(p);
    await(to_child[0]);
    _exit(0);
}

/* Bytes of the manager's own memory; its arena is shared. */
static uint64_t manager_memory(void) {
    char path[40], line[128];
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)x.manager[0]);
    FILE *f = fopen(path, "r");
    ck_assert(f != NULL);
    while (fgets(line, sizeof line, f))
        sscanf(line, "RssAnon: %lu kB", &kib);
    fclose(f);
    ck_assert_uint_gt(kib, 0);
    return (uint64_t)kib << 10;
}

static bool backlog_is_gone(uint64_t memory_before) {
#ifdef __SANITIZE_ADDRESS__ /* keeps what was freed */
    (void)memory_before;
    return dict_retired(d) < FEW_BYTES;
#else
    return dict_retired(d) < FEW_BYTES && manager_memory() < memory_before + ANSWERS * ANSWER / 4;
#endif
}

static void put_filled(const char *key, size_t len) {
    char *v = malloc(len);
    value_fill(v, len, 1);
    ok(ddict_put(d, key, strlen(key), v, len, 0, 5000));
    free(v);
}

START_TEST(answers_that_wait_for_a_banned_client_are_given_up) {
    char c;
    d = dict_begin(&x, 1, 1, 64 * MIB);
    ck_assert(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t p = fork();
    if (p == 0)
        child_of_backlog();
    close(to_parent[1]);
    ck_assert_msg(read(to_parent[0], &c, 1) == 1, "the child has ended");
    uint64_t memory = manager_memory();
    put_filled("copied", ANSWER);  /* copies wait for room */
    put_filled("placed", REMOVED); /* removed, but pinned by the answer that names its place */
    double until = now_s() + LET_GO_S;
    while (dict_retired(d) < REMOVED || manager_memory() < memory + ANSWERS * ANSWER / 2)
        ck_assert_msg(now_s() < until && usleep(1000) == 0, "%llu bytes retired, memory %llu",
                      (unsigned long long)dict_retired(d),
                      (unsigned long long)(manager_memory() - memory));
    tell(to_child[1]); /* it breaks a rule, and does not end */
    until = now_s() + LET_GO_S;
    while (!backlog_is_gone(memory))
        ck_assert_msg(now_s() < until && usleep(1000) == 0, "%llu bytes retired, memory %llu",
                      (unsigned long long)dict_retired(d),
                      (unsigned long long)(manager_memory() - memory));
    ck_assert_int_eq(waitpid(p, NULL, WNOHANG), 0);
    tell(to_child[1]);
    expect_exit(p, 0);
    dict_end(&x, d);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {after_a_malformed_record, after_a_piece_of_no_value,
                                  after_a_message_out_of_place, after_a_malformed_message,
                                  answers_that_wait_for_a_banned_client_are_given_up};
    return tests_main("client_dropped", argc, argv, tests, sizeof tests / sizeof tests[0]);
}
