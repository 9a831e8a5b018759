/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives_rewind.c - values go in pieces to the manager of another node, and that, or the
 * manager by which they go, is killed and started again (--restarts), or the connection ends.
 * Invariants: each put is made once, whichever call makes it; no value is torn; what is given up, or
 * was refused, leaves nothing; of two puts of one key in a call the later one stays.
 */
#include "client_lives_dict.h"
#include "client_lives_pieces.h"
#include "client_strays.h"
#include <base/defaults.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG    700000u /* 6 pieces */
#define NAMES   40u
#define WRITERS 3u
#define OWN     7u      /* keys of each writer */
#define GROWN   262144u /* bytes that the owner's index and slabs may have grown by */

enum { PROXY, OWNER, BOTH }; /* managers; we are on the node of the first */

static char keys[NAMES][32]; /* of the owner */
#define BESIDE keys[30]
#define ALL    keys[31]
static unsigned char value[LONG];
static ddict_t *there; /* on the owner's node: what it pops there passes no proxy */

static void far_begin(void) {
    begin(2, 2, "16");
    for (unsigned i = 0; i < NAMES; i++)
        key_of(d, OWNER, i, keys[i], sizeof keys[i]);
    there = dict_attach(&x, OWNER);
    setenv("DDICT_NODE", x.node[PROXY], 1);
    dict_managers(&x, d);
}

static void far_end(void) {
    ck_assert(!strays_came(there));
    ddict_detach(there);
    end();
}

/* In a child: each handle attaches to its node again. */
static void child_begin(void) {
    ddict_owner(d, "", 1);
    setenv("DDICT_NODE", x.node[OWNER], 1);
    ddict_owner(there, "", 1);
    setenv("DDICT_NODE", x.node[PROXY], 1);
}

static ddict_t *near(const char *key) {
    return ddict_owner(d, key, strlen(key)) == OWNER ? there : d;
}

/* Without what is free as soon as it looks at all leases. */
static uint64_t owner_uses(void) {
    struct ddict_manager_stats *s;
    ck_assert_int_eq(ddict_stats(d, &s, sizeof *s, 20000), 2);
    uint64_t n = s[OWNER].total_used_bytes - s[OWNER].retired_bytes;
    free(s);
    return n;
}

/* No block is left behind: of what the proxy does not ask for again, at its next request. */
static void nothing_left(uint64_t before) {
    double until = now_s() + DD_STREAM_MS / 1500.0; /* it would be given up for its age later */
    uint64_t now;
    do {
        ok(ddict_put(d, BESIDE, strlen(BESIDE), "", 0, 0, 20000)); /* lets it look */
        ok(ddict_del(d, BESIDE, strlen(BESIDE), 20000));
        usleep(20000);
    } while ((now = owner_uses()) > before + GROWN && now_s() < until);
    ck_assert_msg(now <= before + GROWN, "%llu bytes are in use, %llu were",
                  (unsigned long long)now, (unsigned long long)before);
    ck_assert_int_eq(ddict_len(d, 20000), 0);
}

/* --- the calls that send a value --- */
static void put_plain(const char *key, size_t len) {
    struct iovec v[3] = {{value, len / 3}, {value + len / 3, 0}, {value + len / 3, len - len / 3}};
    ok(ddict_putv(d, key, strlen(key), v, 3, DDICT_NEW, 60000));
}

/* The proxy reads it where it was built. */
static void put_place(const char *key, size_t len) {
    struct ddict_place p;
    ok(ddict_reserve(d, key, strlen(key), len, DDICT_NEW, &p));
    memcpy(p.data, value, len);
    ok(ddict_commit(&p, 60000));
}

/* With some others, which are long, too. */
static void put_many(const char *key, size_t len) {
    struct ddict_pair p[4] = {
        {.key = key, .klen = strlen(key), .val = value, .vlen = len, .flags = DDICT_NEW}};
    char other[3][48];
    for (unsigned i = 1; i < 4; i++) {
        sprintf(other[i - 1], "%s, too %u", key, i); /* of any manager */
        p[i] = (struct ddict_pair){.key = other[i - 1], .klen = strlen(other[i - 1]), .val = value};
        p[i].vlen = LONG / i;
    }
    ck_assert_int_eq(ddict_put_many(d, p, 4, 60000), 4);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(p[i].status, 0);
    for (unsigned i = 1; i < 4; i++) {
        struct ddict_view v;
        ok(ddict_pop(near(p[i].key), p[i].key, p[i].klen, &v, 0, 60000));
        ck_assert(v.len == p[i].vlen && memcmp(v.data, value, v.len) == 0);
        ddict_release(&v);
    }
}

static void put_async(const char *key, size_t len) {
    enum { OPS = 3 };
    struct iovec v[2] = {{value, 1}, {value + 1, len - 1}};
    struct ddict_op put[OPS] = {{.what = DDICT_OP_PUTV, .flags = DDICT_NEW}}, done;
    char other[OPS][48];
    ddict_async_t *q;
    ok(ddict_async_open(d, &q));
    for (unsigned i = 0; i < OPS; i++) {
        snprintf(other[i], sizeof other[i], i ? "%s, too %u" : "%s", key, i);
        put[i].key = other[i];
        put[i].klen = strlen(other[i]);
        put[i].what = i ? DDICT_OP_PUT : DDICT_OP_PUTV;
        put[i].buf = i ? (void *)value : (void *)v;
        put[i].len = i ? len : 2;
        put[i].timeout_ms = 60000;
    }
    ck_assert_int_eq(ddict_async_submit(q, put, OPS), OPS);
    for (unsigned i = 0; i < OPS; i++) {
        ck_assert_int_eq(ddict_async_poll(q, &done, 1, 60000), 1);
        ck_assert_int_eq(done.status, 0);
    }
    ddict_async_close(q);
    for (unsigned i = 1; i < OPS; i++)
        ok(ddict_del(d, other[i], strlen(other[i]), 60000));
}

/* Behind another value. */
static void put_queue(const char *key, size_t len) {
    struct ddict_view v;
    ok(ddict_push(d, key, strlen(key), "first", 5, 0, 0, 60000));
    ok(ddict_push(d, key, strlen(key), value, len, 0, 0, 60000));
    ok(ddict_pop(d, key, strlen(key), &v, 0, 60000));
    ck_assert(v.len == 5 && memcmp(v.data, "first", 5) == 0);
    ddict_release(&v);
}

static void (*const puts_of[])(const char *key, size_t len) = {put_plain, put_place, put_many,
                                                               put_async, put_queue};
#define WAYS (sizeof puts_of / sizeof *puts_of)

/* There is one value of the key, and it is right; it is taken away. */
static void taken(const char *key, unsigned seed, size_t len) {
    struct ddict_view v;
    ok(ddict_pop(near(key), key, strlen(key), &v, 0, 60000));
    ck_assert_msg(v.len == len && value_is(v.data, v.len, seed), "%s: not value %u", key, seed);
    ddict_release(&v);
    fails(DDICT_ENOKEY, ddict_pop(d, key, strlen(key), &v, 0, 60000));
}

static void round_of(unsigned w, unsigned i) {
    const char *key = keys[w * OWN + i % OWN];
    size_t len = i % 3 ? LONG : LONG / 2 + i;
    value_fill(value, LONG, i);
    puts_of[i % WAYS](key, len);
    taken(key, i, len);
}

/* --- at each step --- */
static void dies(unsigned manager, const char *step, unsigned n) {
    char die[32], m[8];
    sprintf(die, "%s:%u", step, n);
    sprintf(m, "%u", manager);
    setenv("DDICT_TEST_DIE", die, 1);
    if (manager != BOTH)
        setenv("DDICT_TEST_MANAGER", m, 1);
    far_begin();
    unsetenv("DDICT_TEST_DIE");
    unsetenv("DDICT_TEST_MANAGER");
}

static uint64_t restarts_of(unsigned manager) {
    struct ddict_manager_stats *s;
    ck_assert_int_eq(ddict_stats(d, &s, sizeof *s, 20000), 2);
    uint64_t n = s[manager].restarts;
    free(s);
    return n;
}

static void one_by_one(unsigned manager, const char *step, unsigned n, unsigned rounds) {
    dies(manager, step, n);
    uint64_t before = owner_uses();
    for (unsigned i = 0; i < rounds; i++)
        round_of(0, i);
    for (unsigned m = 0; m < 2; m++)
        ck_assert_int_eq(restarts_of(m) > 0, manager == m || manager == BOTH);
    nothing_left(before);
    far_end();
}

/* A value has a header and 6 pieces: each is the n-th of a life for some n. */
static void at_each(unsigned manager, const char *step) {
    static const unsigned n[] = {2, 3, 5, 8, 13};
    for (unsigned i = 0; i < sizeof n / sizeof *n; i++)
        one_by_one(manager, step, n[i], 4 * WAYS);
}

/* Also the only one of a life. */
START_TEST(pieces_that_the_owner_has_are_not_lost) {
    one_by_one(OWNER, "taken", 1, 2 * WAYS);
    at_each(OWNER, "taken");
}
END_TEST

START_TEST(a_last_piece_that_was_begun_by_the_owner_is_put) {
    for (unsigned n = 2; n < 6; n++)
        one_by_one(OWNER, "begun", n, 4 * WAYS);
}
END_TEST

START_TEST(a_value_that_was_put_by_the_owner_is_answered) {
    for (unsigned n = 1; n < 4; n++)
        one_by_one(OWNER, "changed", n, 4 * WAYS);
}
END_TEST

START_TEST(a_value_whose_answer_was_not_sent_is_answered) {
    for (unsigned n = 1; n < 4; n++)
        one_by_one(OWNER, "answered", n, 4 * WAYS);
}
END_TEST

START_TEST(a_piece_that_was_begun_by_the_proxy_is_taken) {
    at_each(PROXY, "begun");
}
END_TEST

START_TEST(a_piece_that_was_answered_by_the_proxy_is_over) {
    at_each(PROXY, "answered");
}
END_TEST

START_TEST(a_piece_that_was_taken_by_the_proxy_is_over) {
    at_each(PROXY, "taken");
}
END_TEST

START_TEST(a_put_that_the_proxy_has_in_its_ledger_is_made) {
    for (unsigned n = 2; n < 5; n++)
        one_by_one(PROXY, "entered", n, 4 * WAYS);
}
END_TEST

START_TEST(a_put_that_was_sent_by_the_proxy_is_made) {
    for (unsigned n = 2; n < 5; n++)
        one_by_one(PROXY, "sent", n, 4 * WAYS);
}
END_TEST

/* An answer, or how much the owner has. */
START_TEST(what_the_owner_said_to_a_life_of_the_proxy_it_says_to_the_next) {
    for (unsigned n = 2; n < 5; n++)
        one_by_one(PROXY, "heard", n, 4 * WAYS);
}
END_TEST

START_TEST(a_value_goes_on_where_both_die) {
    one_by_one(BOTH, "taken", 5, 4 * WAYS);
    one_by_one(BOTH, "begun", 8, 4 * WAYS);
    one_by_one(BOTH, "answered", 3, 4 * WAYS);
}
END_TEST

/* --- at any moment --- */
static void managers_kill(unsigned manager, unsigned times) {
    unsigned seed = 99;
    for (unsigned i = 0; i < times; i++) {
        seed = seed * 1103515245 + 12345;
        usleep(20000 + seed / 65536 % 200000);
        unsigned m = manager == BOTH ? seed / 4096 % 2 : manager;
        manager_kill((int)m);
        if (seed / 1024 % 4 == 0 && manager == BOTH) /* one behind the other */
            manager_kill(m ? PROXY : OWNER);
        manager_came_back((int)m);
    }
}

static void writer_run(unsigned w, unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) {
        round_of(w, i);
        memcpy(value, &w, sizeof w);
        memcpy(value + sizeof w, &i, sizeof i);
        ok(ddict_push(d, ALL, strlen(ALL), value, LONG / 4, 0, 0, 60000));
    }
    _exit(strays_came(d) || strays_came(there));
}

/* kills 0: they kill themselves, or connections end. */
static void writers_notice_nothing(unsigned manager, unsigned kills, unsigned rounds) {
    pid_t p[WRITERS];
    unsigned next[WRITERS] = {0};
    uint64_t before = owner_uses();
    for (unsigned w = 0; w < WRITERS; w++)
        if ((p[w] = fork()) == 0) {
            child_begin();
            writer_run(w, rounds);
        }
    managers_kill(manager, kills);
    for (unsigned w = 0; w < WRITERS; w++)
        expect_exit(p[w], 0);
    for (unsigned i = 0; i < WRITERS * rounds; i++) {
        struct ddict_view v;
        unsigned who[2];
        ok(ddict_pop(there, ALL, strlen(ALL), &v, 0, 20000));
        ck_assert_uint_eq(v.len, LONG / 4);
        memcpy(who, v.data, sizeof who);
        ddict_release(&v);
        ck_assert_uint_lt(who[0], WRITERS);
        ck_assert_uint_eq(who[1], next[who[0]]++); /* in order, each once */
    }
    nothing_left(before);
}

static void writers_killed(unsigned manager) {
    far_begin();
    writers_notice_nothing(manager, 12, 40);
    far_end();
}

START_TEST(writers_notice_no_kill_of_the_owner) {
    writers_killed(OWNER);
}
END_TEST

START_TEST(writers_notice_no_kill_of_the_proxy) {
    writers_killed(PROXY);
}
END_TEST

START_TEST(writers_notice_no_kill_of_either) {
    writers_killed(BOTH);
}
END_TEST

/* Both sides live; each so many messages that come to one of them the connection ends. */
static void writers_cut(const char *manager, const char *each) {
    setenv("DDICT_TEST_CUT_EACH", each, 1);
    setenv("DDICT_TEST_MANAGER", manager, 1);
    far_begin();
    pid_t first = x.manager[OWNER];
    writers_notice_nothing(OWNER, 0, 20);
    dict_managers(&x, d);
    ck_assert_int_eq(x.manager[OWNER], first);
    far_end();
}

START_TEST(writers_notice_no_lost_piece) {
    writers_cut("1", "23");
}
END_TEST

START_TEST(writers_notice_no_lost_answer) {
    writers_cut("0", "5");
}
END_TEST

/* Fewer answers come by a connection than values are under way. */
START_TEST(writers_notice_no_lost_answer_of_each_three) {
    writers_cut("0", "3");
}
END_TEST

/* --- in the middle --- */
struct putter {
    pthread_t thread;
    const char *key;
    int timeout_ms, rc;
};

static void *is_putting(void *arg) {
    struct putter *p = arg;
    p->rc = ddict_put(d, p->key, strlen(p->key), value, LONG, DDICT_NEW, p->timeout_ms);
    return NULL;
}

static void putter_begin(struct putter *p) {
    ck_assert_int_eq(pthread_create(&p->thread, NULL, is_putting, p), 0);
}

/* The owner sleeps so long before it takes a piece. */
static void begin_slowly(const char *piece_ms) {
    setenv("DDICT_TEST_PIECE_MS", piece_ms, 1);
    setenv("DDICT_TEST_MANAGER", "1", 1);
    far_begin();
    unsetenv("DDICT_TEST_PIECE_MS");
    unsetenv("DDICT_TEST_MANAGER");
    value_fill(value, LONG, 7);
}

/* The child of ddictd of the owner's node that is not `was`, without a word to it. */
static pid_t owner_other_than(pid_t was) {
    char path[64];
    int pid = 0;
    double until = now_s() + 30;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)x.pid[1], (int)x.pid[1]);
    while (pid <= 0 || pid == was) {
        FILE *f = fopen(path, "r");
        if (!f || fscanf(f, "%d", &pid) != 1)
            pid = 0;
        if (f)
            fclose(f);
        ck_assert_msg(now_s() < until, "no manager is started");
        usleep(1000);
    }
    return pid;
}

/* No next life of the owner begins meanwhile. */
static void owner_away(void) {
    ck_assert_int_eq(kill(x.pid[1], SIGSTOP), 0);
    ck_assert_int_eq(waitpid(x.pid[1], NULL, WUNTRACED), x.pid[1]);
    ck_assert_int_eq(kill(x.manager[OWNER], SIGKILL), 0);
}

static void owner_goes_on(void) {
    ck_assert_int_eq(kill(x.pid[1], SIGCONT), 0);
    ck_assert_int_eq(waitpid(x.pid[1], NULL, WCONTINUED), x.pid[1]);
}

/* Some lives take a part of it each. A process that ends in the middle leaves nothing. */
START_TEST(a_value_comes_over_some_lives_of_the_owner) {
    struct putter p = {.key = keys[0], .timeout_ms = 120000};
    int status;
    begin_slowly("200");
    uint64_t before = owner_uses();
    putter_begin(&p);
    pid_t child = fork();
    if (child == 0) { /* all lives together take less of it */
        struct iovec v[3] = {{value, LONG}, {value, LONG}, {value, LONG}};
        ddict_putv(d, keys[1], strlen(keys[1]), v, 3, 0, 120000);
        _exit(0);
    }
    for (unsigned i = 0; i < 2; i++) {
        usleep(500000);
        manager_kill(OWNER);
        x.manager[OWNER] = owner_other_than(x.manager[OWNER]);
    }
    usleep(500000);
    owner_away(); /* so it ends before the rest of its value is on its way */
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    owner_goes_on();
    pthread_join(p.thread, NULL);
    ck_assert_int_eq(p.rc, 0);
    taken(keys[0], 7, LONG);
    nothing_left(before);
    far_end();
}
END_TEST

static void owner_back(void) {
    owner_goes_on();
    manager_came_back(OWNER);
}

/* One whose time is over, one that is cancelled, and one whose process ends; of each a part has come. */
START_TEST(what_is_given_up_while_the_owner_is_away_is_never_put) {
    struct putter late = {.key = keys[0], .timeout_ms = 2000};
    struct ddict_op put = {.what = DDICT_OP_PUT,
                           .key = keys[1],
                           .buf = value,
                           .len = LONG,
                           .timeout_ms = 60000},
                    done;
    ddict_async_t *q;
    begin_slowly("100");
    uint64_t before = owner_uses();
    put.klen = strlen(keys[1]);
    putter_begin(&late);
    ok(ddict_async_open(d, &q));
    ck_assert_int_eq(ddict_async_submit(q, &put, 1), 1);
    pid_t child = fork();
    if (child == 0) {
        ddict_put(d, keys[2], strlen(keys[2]), value, LONG, 0, 120000);
        _exit(0);
    }
    usleep(300000);
    owner_away();
    ck_assert_int_eq(ddict_async_poll(q, &done, 1, 300), 0);
    ok(ddict_async_cancel(q, put.ticket));
    ck_assert_int_eq(ddict_async_poll(q, &done, 1, 20000), 1);
    ck_assert_int_eq(done.status, -ECANCELED);
    free(done.text);
    ddict_async_close(q);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    pthread_join(late.thread, NULL);
    ck_assert_int_eq(late.rc, -ETIMEDOUT);
    owner_back();
    nothing_left(before);
    for (unsigned i = 0; i < 3; i++) {
        value_fill(value, LONG, i);
        ok(ddict_put(d, keys[i], strlen(keys[i]), value, LONG, DDICT_NEW, 20000));
        taken(keys[i], i, LONG);
    }
    far_end();
}
END_TEST

/* Its mode is judged when all has come, and whatever became of it before does not count. */
START_TEST(its_mode_is_judged_once) {
    dies(OWNER, "taken", 4);
    for (unsigned i = 0; i < 8; i++) {
        const char *key = keys[i];
        size_t n = strlen(key);
        value_fill(value, LONG, i);
        fails(DDICT_ENOKEY, ddict_put(d, key, n, value, LONG, DDICT_EXISTING, 60000));
        ok(ddict_put(d, key, n, value, LONG, DDICT_NEW, 60000));
        fails(DDICT_EEXISTS, ddict_put(d, key, n, value, LONG / 2, DDICT_NEW, 60000));
        value_fill(value, LONG, i + 100);
        ok(ddict_put(d, key, n, value, LONG, DDICT_EXISTING, 60000));
        taken(key, i + 100, LONG);
    }
    far_end();
}
END_TEST

/* A put that would come behind a later one of its key is not made. */
START_TEST(the_later_of_two_puts_of_a_call_stays) {
    unsigned lost = 0;
    begin_slowly("30");
    for (unsigned i = 0; i < 8; i++) {
        struct ddict_pair p[2] = {
            {.key = keys[0], .klen = strlen(keys[0]), .val = value, .vlen = LONG},
            {.key = keys[0], .klen = strlen(keys[0]), .val = &i, .vlen = sizeof i}};
        unsigned got = 99;
        size_t len;
        pid_t child = fork();
        if (child == 0) { /* somewhere in the middle of it */
            usleep(20000 + 25000 * i);
            _exit(kill(x.manager[OWNER], SIGKILL) != 0);
        }
        ck_assert_int_ge(ddict_put_many(d, p, 2, 60000), 1);
        expect_exit(child, 0);
        manager_came_back(OWNER);
        ck_assert_int_eq(p[1].status, 0);
        ck_assert_msg(p[0].status == 0 || p[0].status == DDICT_ELOST, "%d", p[0].status);
        lost += p[0].status != 0;
        ok(ddict_get(d, keys[0], strlen(keys[0]), &got, sizeof got, &len, NULL, 0, 20000));
        ck_assert(len == sizeof got && got == i);
    }
    ck_assert_uint_gt(lost, 0); /* it was that which was tried */
    ok(ddict_del(d, keys[0], strlen(keys[0]), 20000));
    far_end();
}
END_TEST

/* --- queues --- */
struct pusher {
    pthread_t thread;
    unsigned seed;
    int rc;
};

static void *is_pushing(void *arg) {
    struct pusher *p = arg;
    unsigned char *own = malloc(LONG);
    ck_assert(own);
    value_fill(own, LONG, p->seed);
    p->rc = ddict_push(d, ALL, strlen(ALL), own, LONG, DDICT_WAIT, 1, 120000);
    free(own);
    return NULL;
}

/* Long values that wait for room are let in once each, by threads of one process. */
START_TEST(long_values_that_wait_for_room_are_let_in_once) {
    enum { PUSHES = 5 };
    struct pusher p[PUSHES];
    bool came[PUSHES + 1] = {false};
    struct ddict_view v;
    far_begin();
    uint64_t before = owner_uses();
    value_fill(value, LONG, 0);
    ok(ddict_push(d, ALL, strlen(ALL), value, LONG, 0, 1, 20000));
    for (unsigned i = 0; i < PUSHES; i++) {
        p[i] = (struct pusher){.seed = i + 1};
        ck_assert_int_eq(pthread_create(&p[i].thread, NULL, is_pushing, &p[i]), 0);
    }
    for (unsigned i = 0; i <= PUSHES; i++) {
        unsigned seed = 0;
        usleep(100000);
        manager_kill(i % 3 == 2 ? PROXY : OWNER);
        manager_came_back(i % 3 == 2 ? PROXY : OWNER);
        ok(ddict_pop(there, ALL, strlen(ALL), &v, DDICT_WAIT, 20000));
        while (seed <= PUSHES && !value_is(v.data, v.len, seed))
            seed++;
        ck_assert(v.len == LONG && seed <= PUSHES && !came[seed]);
        came[seed] = true;
        ddict_release(&v);
    }
    for (unsigned i = 0; i < PUSHES; i++) {
        pthread_join(p[i].thread, NULL);
        ck_assert_int_eq(p[i].rc, 0);
    }
    nothing_left(before);
    far_end();
}
END_TEST

/* --- a client that counts wrong --- */
static void hand_begin(enum pieces how) {
    int begun[2];
    uint64_t before = owner_uses();
    double until = now_s() + 30;
    ck_assert(pipe(begun) == 0);
    pid_t child = fork();
    if (child == 0)
        pieces_send(how, keys[how], value, LONG, begun[1]);
    close(begun[1]);
    await(begun[0]);
    close(begun[0]);
    if (how != PIECES_EARLY) {
        /* one that sends no more pieces before REWIND waits for nothing else */
        while (how != PIECES_GIVE_UP && owner_uses() < before + LONG / 2 && now_s() < until)
            usleep(1000);
        manager_kill(OWNER);
        manager_came_back(OWNER);
    }
    expect_exit(child, 0);
}

START_TEST(pieces_of_before_are_dropped) {
    begin_slowly("50");
    hand_begin(PIECES_OLD);
    taken(keys[PIECES_OLD], 7, LONG);
    hand_begin(PIECES_GIVE_UP);
    taken(keys[PIECES_GIVE_UP], 7, LONG);
    far_end();
}
END_TEST

START_TEST(pieces_of_later_end_their_client_alone) {
    begin_slowly("50");
    uint64_t before = owner_uses();
    hand_begin(PIECES_EARLY);
    hand_begin(PIECES_LATER);
    nothing_left(before);
    put_plain(keys[0], LONG);
    taken(keys[0], 7, LONG);
    far_end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {pieces_that_the_owner_has_are_not_lost,
                                  a_last_piece_that_was_begun_by_the_owner_is_put,
                                  a_value_that_was_put_by_the_owner_is_answered,
                                  a_value_whose_answer_was_not_sent_is_answered,
                                  a_piece_that_was_begun_by_the_proxy_is_taken,
                                  a_piece_that_was_answered_by_the_proxy_is_over,
                                  a_piece_that_was_taken_by_the_proxy_is_over,
                                  a_put_that_the_proxy_has_in_its_ledger_is_made,
                                  a_put_that_was_sent_by_the_proxy_is_made,
                                  what_the_owner_said_to_a_life_of_the_proxy_it_says_to_the_next,
                                  a_value_goes_on_where_both_die,
                                  writers_notice_no_kill_of_the_owner,
                                  writers_notice_no_kill_of_the_proxy,
                                  writers_notice_no_kill_of_either,
                                  writers_notice_no_lost_piece,
                                  writers_notice_no_lost_answer,
                                  writers_notice_no_lost_answer_of_each_three,
                                  a_value_comes_over_some_lives_of_the_owner,
                                  what_is_given_up_while_the_owner_is_away_is_never_put,
                                  its_mode_is_judged_once,
                                  the_later_of_two_puts_of_a_call_stays,
                                  long_values_that_wait_for_room_are_let_in_once,
                                  pieces_of_before_are_dropped,
                                  pieces_of_later_end_their_client_alone};
    return tests_main("client_lives_rewind", argc, argv, tests, sizeof tests / sizeof *tests);
}
