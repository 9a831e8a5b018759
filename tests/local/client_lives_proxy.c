/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives_proxy.c - the manager by which a node changes keys of another one is killed, and
 * started again (--restarts). Invariants: who changes something notices nothing; each change is made
 * once, whenever its proxy, its owner or both die, and whether or not there is room for its answer.
 */
#include "client_lives_dict.h"
#include "client_lives_once.h"
#include <base/defaults.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES 40u
/* one message all the same, kept and sent as one part; a view of it goes into a block of the proxy */
#define LONG 60000u

enum { PROXY, OWNER }; /* managers; we are on the node of the first */

static char keys[NAMES][32]; /* of the owner */
static pid_t first_proxy;    /* its first life */
#define QUEUE keys[30]
static struct once once = {.queue = QUEUE, .sum = keys[31], .count = keys[32], .rounds = 120};

static void far_begin(void) {
    begin(2, 2, "16");
    for (unsigned i = 0; i < NAMES; i++)
        key_of(d, OWNER, i, keys[i], sizeof keys[i]);
    dict_managers(&x, d);
    first_proxy = x.manager[PROXY];
}

static void again_kill(int m) {
    manager_kill(m);
    manager_came_back(m);
}

/* At random, the first or the second of these each time. */
static void managers_kill(unsigned times, int one, int other) {
    unsigned seed = 4711;
    for (unsigned i = 0; i < times; i++) {
        seed = seed * 1103515245 + 12345;
        usleep(50000 + seed / 65536 % 300000);
        again_kill(seed / 4096 % 2 ? one : other);
    }
}

static void proxy_kills(unsigned times) {
    managers_kill(times, PROXY, PROXY);
}

static void either_kills(unsigned times) {
    managers_kill(times, PROXY, OWNER);
}

/* Both at once. */
static void both_kills(unsigned times) {
    for (unsigned i = 0; i < times / 2; i++) {
        pid_t proxy = x.manager[PROXY], owner = x.manager[OWNER];
        usleep(100000 + 30000 * i);
        manager_kill(i % 2 ? PROXY : OWNER);
        manager_kill(i % 2 ? OWNER : PROXY);
        dict_managers(&x, d);
        ck_assert(x.manager[PROXY] != proxy && x.manager[OWNER] != owner);
    }
}

/* --- each change is made once --- */
static size_t longest = LONG;

static size_t own_len(unsigned i) {
    return i % 16 ? 500 : longest;
}

static void writers_check(unsigned kills) {
    for (unsigned w = 0; w < ONCE_WRITERS; w++)
        for (unsigned i = 0; i < ONCE_OWN; i++)
            once.own[w][i] = keys[w * ONCE_OWN + i];
    once.len = own_len;
    once_check(d, &once, kills);
}

static void writers_killed(void (*kills)(unsigned times), unsigned wait) {
    once.kills = kills;
    once.wait = wait;
    far_begin();
    writers_check(12);
    end();
}

START_TEST(writers_notice_no_kill_of_their_proxy) {
    writers_killed(proxy_kills, 0);
}
END_TEST

START_TEST(writers_notice_no_kill_of_proxy_or_owner) {
    writers_killed(either_kills, 0);
}
END_TEST

START_TEST(writers_notice_no_kill_of_both) {
    writers_killed(both_kills, 0);
}
END_TEST

START_TEST(writers_that_wait_notice_no_kill_of_their_proxy) {
    writers_killed(proxy_kills, DDICT_WAIT);
}
END_TEST

START_TEST(writers_that_wait_notice_no_kill_of_proxy_or_owner) {
    writers_killed(either_kills, DDICT_WAIT);
}
END_TEST

START_TEST(writers_that_wait_notice_no_kill_of_both) {
    writers_killed(both_kills, DDICT_WAIT);
}
END_TEST

static void dies(const char *step) {
    setenv("DDICT_TEST_DIE", step, 1);
    setenv("DDICT_TEST_MANAGER", "0", 1);
}

/* The proxy kills itself at every so many steps of this kind. */
static void once_dies(const char *step, unsigned wait) {
    dies(step);
    once.kills = proxy_kills;
    once.wait = wait;
    far_begin();
    writers_check(0);
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[PROXY], first_proxy);
    end();
}

START_TEST(a_change_that_the_proxy_has_begun_is_made) {
    once_dies("begun:71", 0);
}
END_TEST

START_TEST(a_change_that_has_its_id_is_made) {
    once_dies("entered:31", 0);
}
END_TEST

START_TEST(a_change_that_was_sent_is_made_once) {
    once_dies("sent:31", 0);
}
END_TEST

START_TEST(a_change_that_the_owner_has_answered_is_not_made_again) {
    once_dies("heard:37", 0);
}
END_TEST

START_TEST(a_change_whose_answer_is_there_is_not_answered_again) {
    once_dies("answered:67", 0);
}
END_TEST

START_TEST(a_change_whose_entry_has_ended_is_over) {
    once_dies("taken:61", 0);
}
END_TEST

START_TEST(a_change_that_waited_and_was_answered_is_not_made_again) {
    once_dies("heard:29", DDICT_WAIT);
}
END_TEST

struct blocked {
    pthread_t thread;
    unsigned n;
    int rc;
};
static unsigned char value[LONG];

static void *is_putting(void *arg) {
    struct blocked *b = arg;
    b->rc = ddict_put(d, keys[b->n], strlen(keys[b->n]), value, LONG, DDICT_NEW, 20000);
    return NULL;
}

/* A put has gone out to an owner that stands still, when manager `m` is killed. */
static void put_stopped(unsigned n, int m) {
    struct blocked put = {.n = n};
    struct ddict_view v;
    value_fill(value, LONG, n);
    fails(DDICT_ENOKEY, ddict_view(d, keys[n], strlen(keys[n]), &v, 0, 20000)); /* connects */
    ck_assert_int_eq(kill(x.manager[OWNER], SIGSTOP), 0);
    ck_assert_int_eq(pthread_create(&put.thread, NULL, is_putting, &put), 0);
    usleep(50000);
    manager_kill(m);
    usleep(300000); /* the next life of the proxy has asked again, behind it */
    if (m != OWNER)
        ck_assert_int_eq(kill(x.manager[OWNER], SIGCONT), 0);
    pthread_join(put.thread, NULL);
    ck_assert_int_eq(put.rc, 0); /* twice: DDICT_EEXISTS */
    manager_came_back(m);
    ok(ddict_pop(d, keys[n], strlen(keys[n]), &v, 0, 20000));
    ck_assert(v.len == LONG && value_is(v.data, LONG, n));
    ddict_release(&v);
}

START_TEST(what_is_on_its_way_from_the_life_before_is_made_once) {
    far_begin();
    for (unsigned i = 0; i < 4; i++)
        put_stopped(i, i % 2 ? OWNER : PROXY);
    end();
}
END_TEST

/* Each clear is answered, and none comes behind what was put after it. */
START_TEST(a_clear_is_made) {
    struct ddict_view v;
    dies("heard:17");
    far_begin();
    for (unsigned i = 0; i < 200; i++) {
        const char *key = keys[i % NAMES];
        ok(ddict_put(d, key, strlen(key), &i, sizeof i, DDICT_NEW, 20000));
        ok(ddict_view(d, key, strlen(key), &v, 0, 20000));
        ck_assert_int_eq(memcmp(v.data, &i, sizeof i), 0);
        ddict_release(&v);
        ok(ddict_clear(d, 20000));
        fails(DDICT_ENOKEY, ddict_view(d, key, strlen(key), &v, 0, 20000));
    }
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[PROXY], first_proxy);
    end();
}
END_TEST

/* --- who waits --- */
static void *is_pushing(void *arg) {
    struct blocked *b = arg;
    uint64_t n = b->n;
    b->rc = ddict_push(d, QUEUE, strlen(QUEUE), &n, sizeof n, DDICT_WAIT, 1, 60000);
    return NULL;
}

/* Each value that waits for room comes in once, in the order of their senders. */
START_TEST(who_waits_for_room_is_let_in_once) {
    enum { PUSHES = 6 };
    struct blocked push[PUSHES];
    struct ddict_view v;
    uint64_t n = 0;
    far_begin();
    ok(ddict_push(d, QUEUE, strlen(QUEUE), &n, sizeof n, 0, 1, 20000));
    for (unsigned i = 0; i < PUSHES; i++) {
        push[i] = (struct blocked){.n = i + 1};
        ck_assert_int_eq(pthread_create(&push[i].thread, NULL, is_pushing, &push[i]), 0);
        usleep(400000); /* in this order */
    }
    for (unsigned i = 0; i <= PUSHES; i++) {
        if (i % 2 == 0)
            again_kill(PROXY);
        if (i == 3)
            again_kill(OWNER);
        ok(ddict_pop(d, QUEUE, strlen(QUEUE), &v, DDICT_WAIT, 20000));
        memcpy(&n, v.data, sizeof n);
        ck_assert_uint_eq(n, i);
        ddict_release(&v);
    }
    for (unsigned i = 0; i < PUSHES; i++) {
        pthread_join(push[i].thread, NULL);
        ck_assert_int_eq(push[i].rc, 0);
    }
    fails(DDICT_ENOKEY, ddict_pop(d, QUEUE, strlen(QUEUE), &v, 0, 20000));
    end();
}
END_TEST

static void *is_late(void *arg) {
    struct blocked *b = arg;
    struct ddict_view v;
    double began = now_s();
    b->rc = b->n ? ddict_pop(d, keys[1], strlen(keys[1]), &v, DDICT_WAIT, 8000)
                 : ddict_push(d, keys[2], strlen(keys[2]), "b", 1, DDICT_WAIT, 1, 8000);
    b->n = (unsigned)((now_s() - began) * 1000);
    return NULL;
}

/* Over two lives of the proxy, what is left of the time counts on. */
START_TEST(who_waits_in_vain_has_his_time) {
    struct blocked late[2] = {{.n = 0}, {.n = 1}};
    far_begin();
    ok(ddict_push(d, keys[2], strlen(keys[2]), "a", 1, 0, 1, 20000));
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&late[i].thread, NULL, is_late, &late[i]), 0);
    for (int i = 0; i < 2; i++) {
        usleep(1000000);
        again_kill(PROXY);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(late[i].thread, NULL);
        ck_assert_int_eq(late[i].rc, i ? -ETIMEDOUT : -EAGAIN);
        ck_assert_msg(late[i].n > 7900 && late[i].n < 14000, "after %u ms", late[i].n);
    }
    end();
}
END_TEST

/* A process that has gone with the proxy takes nothing any more. */
START_TEST(who_died_with_the_proxy_is_not_asked_for) {
    struct ddict_view v;
    far_begin();
    pid_t p = fork();
    if (p == 0) {
        ddict_pop(d, QUEUE, strlen(QUEUE), &v, DDICT_WAIT, 60000);
        _exit(1);
    }
    usleep(500000); /* it waits at the owner */
    ck_assert_int_eq(kill(x.manager[PROXY], SIGSTOP), 0);
    ck_assert_int_eq(kill(p, SIGKILL), 0);
    ck_assert_int_eq(waitpid(p, NULL, 0), p);
    again_kill(PROXY);
    ok(ddict_push(d, QUEUE, strlen(QUEUE), "v", 1, 0, 0, 20000));
    ok(ddict_pop(d, QUEUE, strlen(QUEUE), &v, 0, 20000));
    ddict_release(&v);
    once.kills = proxy_kills;
    writers_check(3); /* its place is given to others */
    end();
}
END_TEST

/* --- what was popped --- */
static void pops_die(const char *step) {
    dies(step);
    far_begin();
    struct ddict_view v;
    for (unsigned i = 0; i < NAMES; i++) {
        value_fill(value, LONG, i);
        ok(ddict_put(d, keys[i], strlen(keys[i]), value, LONG, DDICT_NEW, 20000));
    }
    for (unsigned i = 0; i < NAMES; i++) {
        ok(ddict_pop(d, keys[i], strlen(keys[i]), &v, 0, 20000));
        ck_assert(v.len == LONG && value_is(v.data, LONG, i));
        ddict_release(&v);
    }
    for (double until = now_s() + 30; dict_retired(d) > LONG && now_s() < until;) {
        ok(ddict_put(d, keys[0], strlen(keys[0]), "", 0, 0, 20000)); /* lets it look */
        ok(ddict_del(d, keys[0], strlen(keys[0]), 20000));
        usleep(20000);
    }
    ck_assert_uint_le(dict_retired(d), LONG);
    end();
}

/* It dies before it says that it has the value. */
START_TEST(what_was_popped_is_not_kept) {
    pops_die("taken:17");
}
END_TEST

START_TEST(what_was_popped_is_not_lost) {
    pops_die("heard:13");
}
END_TEST

/* --- CQ is full --- */
enum { GETS = 140, POPS = 29, PUTS = 60, OPS = GETS + POPS + PUTS };

/* The values of all gets are longer than CQ; what is popped, and put, is answered behind them. */
static void ops_fill(struct ddict_op *op, char names[PUTS][32]) {
    for (unsigned i = 0; i < OPS; i++) {
        op[i] = (struct ddict_op){.what = DDICT_OP_VIEW, .key = keys[0], .timeout_ms = 60000};
        if (i >= GETS)
            op[i] = (struct ddict_op){
                .what = DDICT_OP_POP, .key = keys[1 + i - GETS], .timeout_ms = 60000};
        if (i >= GETS + POPS) {
            key_of(d, OWNER, i, names[i - GETS - POPS], 32);
            op[i] = (struct ddict_op){.what = DDICT_OP_PUT,
                                      .flags = DDICT_NEW,
                                      .key = names[i - GETS - POPS],
                                      .buf = value,
                                      .len = 10,
                                      .timeout_ms = 60000};
        }
        op[i].klen = strlen(op[i].key);
        op[i].user = (void *)(uintptr_t)(i < GETS ? 0 : 1 + i - GETS);
    }
}

/* Pops that are lost. */
static unsigned ops_take(ddict_async_t *q) {
    static struct ddict_op done[OPS];
    unsigned lost = 0;
    for (unsigned n = 0; n < OPS;) {
        int got = ddict_async_poll(q, done, OPS, 30000);
        ck_assert_int_gt(got, 0);
        n += (unsigned)got;
        for (int i = 0; i < got; i++) {
            const struct ddict_view *v = &done[i].view;
            bool is_lost = done[i].what == DDICT_OP_POP && done[i].status == DDICT_ELOST;
            ck_assert_msg(done[i].status == 0 || is_lost, "%u: %d", done[i].what, done[i].status);
            lost += is_lost;
            free(done[i].text);
            if (done[i].what == DDICT_OP_PUT || is_lost)
                continue;
            ck_assert(v->len == 4000 && value_is(v->data, v->len, (uintptr_t)done[i].user));
            ddict_release(&done[i].view);
        }
    }
    return lost;
}

/* All are answered, and a hundred answers wait for room. *by: a process of the owner's node. */
static ddict_async_t *answers_make(ddict_t **by) {
    static struct ddict_op op[OPS];
    static char names[PUTS][32];
    ddict_async_t *q;
    struct ddict_view v;
    far_begin();
    ddict_t *there = *by = dict_attach(&x, OWNER);
    setenv("DDICT_NODE", x.node[PROXY], 1); /* a child's own request goes by the proxy */
    for (unsigned i = 0; i < 1 + POPS; i++) {
        value_fill(value, 4000, i);
        ok(ddict_put(there, keys[i], strlen(keys[i]), value, 4000, 0, 20000));
    }
    ok(ddict_view(d, keys[0], strlen(keys[0]), &v, 0, 20000)); /* connects */
    ddict_release(&v);
    ops_fill(op, names);
    ok(ddict_async_open(d, &q));
    ck_assert_int_eq(kill(x.manager[OWNER], SIGSTOP), 0);
    ck_assert_int_eq(ddict_async_submit(q, op, OPS), OPS);
    usleep(500000); /* all were forwarded */
    ck_assert_int_eq(kill(x.manager[OWNER], SIGCONT), 0);
    usleep(500000); /* what has no room waits */
    return q;
}

/* Answers wait for room when the proxy dies at so many of these steps; first: before the client
 * reads. Of each of the OPS there is one when it is begun, and taken out of SQ, and one when it is
 * answered; of the hundred that find no room, one more when they do. */
static void answers_wait(const char *step, bool first) {
    ddict_t *there;
    dies(step);
    ddict_async_t *q = answers_make(&there);
    ddict_detach(there);
    for (double until = now_s() + 20; first && kill(first_proxy, 0) == 0 && now_s() < until;)
        usleep(1000);
    ck_assert(!first || kill(first_proxy, 0) < 0);
    ck_assert_uint_eq(ops_take(q), 0);
    ddict_async_close(q);
    ck_assert_int_eq(ddict_len(d, 20000), 1 + PUTS);
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[PROXY], first_proxy);
    end();
}

/* The owner gives up what was popped when it is asked anew; then this life alone has it. */
START_TEST(values_that_their_owner_gave_up_are_not_lost) {
    ddict_t *there;
    ddict_async_t *q = answers_make(&there);
    manager_kill(OWNER);
    dict_managers(&x, there);
    pid_t p = fork();
    if (p == 0)
        _exit(ddict_put(d, keys[39], strlen(keys[39]), "v", 1, 0, 20000) < 0);
    expect_exit(p, 0);
    ok(ddict_del(there, keys[39], strlen(keys[39]), 20000));
    ddict_detach(there);
    ck_assert_uint_eq(ops_take(q), 0);
    ddict_async_close(q);
    ck_assert_int_eq(ddict_len(d, 20000), 1 + PUTS);
    end();
}
END_TEST

/* Nobody has them any more: their calls say so, and all else goes on. */
START_TEST(values_that_their_owner_gave_up_end_with_the_proxy) {
    ddict_t *there;
    ddict_async_t *q = answers_make(&there);
    manager_kill(OWNER);
    dict_managers(&x, there);
    pid_t p = fork();
    if (p == 0)
        _exit(ddict_put(d, keys[39], strlen(keys[39]), "v", 1, 0, 20000) < 0);
    expect_exit(p, 0);
    ok(ddict_del(there, keys[39], strlen(keys[39]), 20000));
    manager_kill(PROXY);
    ddict_detach(there);
    unsigned lost = ops_take(q);
    ck_assert_msg(lost > 0 && lost <= POPS, "%u are lost", lost);
    ddict_async_close(q);
    ck_assert_int_eq(ddict_len(d, 20000), 1 + PUTS);
    end();
}
END_TEST

START_TEST(answers_without_room_are_given_by_the_next_life) {
    answers_wait("heard:30", true);
}
END_TEST

START_TEST(answers_that_found_room_at_last_are_given_once) {
    answers_wait("answered:415", false);
}
END_TEST

START_TEST(answers_that_were_about_to_find_room_are_given) {
    answers_wait("begun:515", false);
}
END_TEST

START_TEST(answers_that_found_room_are_over) {
    answers_wait("taken:415", false);
}
END_TEST

/* --- the ledger is full --- */
/* What has no entry is carried out all the same, and holds the proxy only until it is answered. */
START_TEST(a_full_ledger_keeps_nobody_from_anything) {
    enum { WAIT = 300 }; /* more than the entries of a chunk */
    static struct ddict_op wait[WAIT], done[WAIT];
    ddict_async_t *q;
    setenv("DDICT_TEST_LEDGER", "1", 1);
    far_begin();
    ok(ddict_async_open(d, &q));
    for (unsigned i = 0; i < WAIT; i++)
        wait[i] = (struct ddict_op){.what = DDICT_OP_VIEW,
                                    .key = keys[0],
                                    .klen = strlen(keys[0]),
                                    .flags = DDICT_WAIT,
                                    .timeout_ms = 60000};
    ck_assert_int_eq(ddict_async_submit(q, wait, WAIT), WAIT);
    for (unsigned i = 1; i < 5; i++)
        put_stopped(i, OWNER); /* it is sent again, too */
    ok(ddict_put(d, keys[0], strlen(keys[0]), "v", 1, 0, 20000));
    for (unsigned n = 0; n < WAIT;) {
        int got = ddict_async_poll(q, done, WAIT, 20000);
        ck_assert_int_gt(got, 0);
        for (int i = 0; i < got; i++) {
            ck_assert_int_eq(done[i].status, 0);
            ddict_release(&done[i].view);
        }
        n += (unsigned)got;
    }
    ddict_async_close(q);
    ok(ddict_del(d, keys[0], strlen(keys[0]), 20000));
    quiet_wait();
    longest = 5000; /* so that there is room */
    once.kills = proxy_kills;
    writers_check(4);
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {writers_notice_no_kill_of_their_proxy,
                                  writers_notice_no_kill_of_proxy_or_owner,
                                  writers_notice_no_kill_of_both,
                                  writers_that_wait_notice_no_kill_of_their_proxy,
                                  writers_that_wait_notice_no_kill_of_proxy_or_owner,
                                  writers_that_wait_notice_no_kill_of_both,
                                  a_change_that_the_proxy_has_begun_is_made,
                                  a_change_that_has_its_id_is_made,
                                  a_change_that_was_sent_is_made_once,
                                  a_change_that_the_owner_has_answered_is_not_made_again,
                                  a_change_whose_answer_is_there_is_not_answered_again,
                                  a_change_whose_entry_has_ended_is_over,
                                  a_change_that_waited_and_was_answered_is_not_made_again,
                                  what_is_on_its_way_from_the_life_before_is_made_once,
                                  a_clear_is_made,
                                  who_waits_for_room_is_let_in_once,
                                  who_waits_in_vain_has_his_time,
                                  who_died_with_the_proxy_is_not_asked_for,
                                  what_was_popped_is_not_kept,
                                  what_was_popped_is_not_lost,
                                  values_that_their_owner_gave_up_are_not_lost,
                                  values_that_their_owner_gave_up_end_with_the_proxy,
                                  answers_without_room_are_given_by_the_next_life,
                                  answers_that_found_room_at_last_are_given_once,
                                  answers_that_were_about_to_find_room_are_given,
                                  answers_that_found_room_are_over,
                                  a_full_ledger_keeps_nobody_from_anything};
    return tests_main("client_lives_proxy", argc, argv, tests, sizeof tests / sizeof *tests);
}
