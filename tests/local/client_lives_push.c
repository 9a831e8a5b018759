/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives_push.c - a manager is killed while pushes wait for room in a queue, and started again
 * (--restarts). Invariants: each value is let in once, in the order in which they came, with its own
 * bytes; who pushed it is told so once; its time goes on.
 */
#include "client_lives_dict.h"
#include "client_lives_hostile.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG   300000u /* it goes to the manager in pieces */
#define ROUNDS 20u     /* more than the manager has lives that end themselves, 8 */

static void begin_dying(const char *step) {
    setenv("DDICT_TEST_DIE", step, 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    dict_managers(&x, d);
}

struct pusher {
    pthread_t thread;
    const char *key;
    size_t len;
    unsigned seed, most;
    int timeout_ms, rc;
    double took;
};

static void *is_pushing(void *arg) {
    struct pusher *p = arg;
    unsigned char *value = malloc(p->len);
    double began = now_s();
    ck_assert(value);
    value_fill(value, p->len, p->seed);
    p->rc =
        ddict_push(d, p->key, strlen(p->key), value, p->len, DDICT_WAIT, p->most, p->timeout_ms);
    p->took = now_s() - began;
    free(value);
    return NULL;
}

static void pusher_begin(struct pusher *p) {
    ck_assert_int_eq(pthread_create(&p->thread, NULL, is_pushing, p), 0);
}

static void pusher_end(struct pusher *p, int rc) {
    pthread_join(p->thread, NULL);
    ck_assert_int_eq(p->rc, rc);
}

static void pop(const char *key, unsigned seed, size_t len) {
    struct ddict_view v;
    ok(ddict_pop(d, key, strlen(key), &v, DDICT_WAIT, 20000));
    ck_assert_msg(v.len == len && value_is(v.data, v.len, seed), "not value %u", seed);
    ddict_release(&v);
}

/* Two deaths, and all other memory is used in between. */
START_TEST(who_waits_for_room_is_let_in_by_the_next_life) {
    enum { MOST = 2, PUSHES = 7 };
    static char longest[DDICT_KEY_MAX + 1];
    struct pusher p[PUSHES], other = {.key = longest, .len = LEN, .seed = 99, .most = 1},
                             late = {.key = "late", .len = LEN, .seed = 98, .most = 1};
    struct ddict_view v;
    begin(1, 1, "16");
    dict_managers(&x, d);
    memset(longest, 'k', DDICT_KEY_MAX);
    ok(ddict_push(d, longest, DDICT_KEY_MAX, "1", 1, 0, 1, 20000));
    ok(ddict_push(d, "late", 4, "1", 1, 0, 1, 20000));
    for (unsigned i = 0; i < PUSHES; i++) {
        p[i] = (struct pusher){.key = "q", .len = i % 3 ? LEN : LONG, .seed = i, .most = MOST};
        p[i].timeout_ms = 600000;
        pusher_begin(&p[i]);
        usleep(300000); /* in this order */
    }
    other.timeout_ms = 600000;
    late.timeout_ms = 8000;
    pusher_begin(&other);
    pusher_begin(&late);
    for (unsigned i = 0; i < 2; i++) {
        usleep(1500000); /* those that were let in at once are answered, and the turn is over */
        manager_kill(0);
        manager_came_back(0);
        pid_t child = fork();
        if (child == 0) {
            memory_fill();
            _exit(0);
        }
        expect_exit(child, 0);
    }
    pusher_end(&late, -EAGAIN);
    ck_assert_msg(late.took > 7.9 && late.took < 16, "after %.1f s", late.took);
    for (unsigned i = 0; i < PUSHES; i++)
        pop("q", i, p[i].len);
    for (unsigned i = 0; i < PUSHES; i++)
        pusher_end(&p[i], 0);
    fails(DDICT_ENOKEY, ddict_pop(d, "q", 1, &v, 0, 20000));
    ok(ddict_pop(d, longest, DDICT_KEY_MAX, &v, 0, 20000));
    ddict_release(&v);
    pusher_end(&other, 0);
    pop(longest, 99, LEN);
    ok(ddict_del(d, "late", 4, 20000));
    ck_assert_int_eq(ddict_len(d, 20000), 0);
    end();
}
END_TEST

/* Where the next life cannot keep the value of a push, who pushed it is told so. */
START_TEST(a_push_whose_value_is_lost_is_refused) {
    struct pusher p[2] = {{.key = "q", .len = LEN, .seed = 1, .most = 1, .timeout_ms = 60000},
                          {.key = "q", .len = LEN, .seed = 2, .most = 1, .timeout_ms = 60000}};
    struct ddict_view v;
    setenv("DDICT_TEST_KEEP_REFUSED", "1", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_KEEP_REFUSED");
    dict_managers(&x, d);
    ok(ddict_push(d, "q", 1, "1", 1, 0, 1, 20000));
    for (unsigned i = 0; i < 2; i++) {
        pusher_begin(&p[i]);
        usleep(300000); /* in this order */
    }
    usleep(1500000);
    manager_kill(0);
    manager_came_back(0);
    pusher_end(&p[0], DDICT_ELOST);
    ok(ddict_pop(d, "q", 1, &v, 0, 20000));
    ddict_release(&v);
    pusher_end(&p[1], 0);
    pop("q", 2, LEN);
    fails(DDICT_ENOKEY, ddict_pop(d, "q", 1, &v, 0, 20000));
    memory_fill();
    end();
}
END_TEST

/* One push after the other waits, and a pop lets it in; the manager dies at each n-th such step. */
static void one_by_one(const char *step, unsigned n, size_t len) {
    struct pusher p = {.key = "q", .len = len, .most = 1, .timeout_ms = 600000};
    struct ddict_view v;
    char die[32];
    sprintf(die, "%s:%u", step, n);
    begin_dying(die);
    pid_t first = x.manager[0];
    pusher_begin(&p);
    pusher_end(&p, 0);
    for (unsigned i = 1; i < ROUNDS; i++) {
        p.seed = i;
        pusher_begin(&p);
        usleep(50000);
        pop("q", i - 1, len);
        pusher_end(&p, 0);
    }
    pop("q", ROUNDS - 1, len);
    fails(DDICT_ENOKEY, ddict_pop(d, "q", 1, &v, 0, 20000)); /* none was let in twice */
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[0], first);
    end();
}

/* Each step of push and pop is the n-th for some n; with small ones lives die before they are ready,
 * too. */
static void at_each(const char *step, unsigned least) {
    for (unsigned n = least; n < least + 3; n++) {
        one_by_one(step, n, LEN);
        one_by_one(step, n + 2, LONG);
    }
}

START_TEST(a_push_that_waited_is_carried_out) {
    at_each("begun", 2);
}
END_TEST

START_TEST(a_push_that_was_let_in_is_answered) {
    at_each("changed", 1);
}
END_TEST

START_TEST(a_push_that_was_answered_is_over) {
    at_each("answered", 2);
}
END_TEST

/* Also behind a pop: the room that it made is used. */
START_TEST(what_follows_a_push_is_done) {
    at_each("taken", 2);
}
END_TEST

/* A push that is given up, or whose process ends, leaves nothing. */
START_TEST(who_gives_up_after_a_death_leaves_nothing) {
    struct pusher p = {.key = "q", .len = LEN, .seed = 1, .most = 1, .timeout_ms = 4000};
    struct ddict_view v;
    begin(1, 1, "16");
    dict_managers(&x, d);
    ok(ddict_push(d, "q", 1, "1", 1, 0, 1, 20000));
    pid_t child = fork();
    if (child == 0) {
        p.timeout_ms = 600000;
        is_pushing(&p);
        _exit(0);
    }
    pusher_begin(&p);
    usleep(1500000);
    manager_kill(0);
    manager_came_back(0);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    pusher_end(&p, -EAGAIN);
    usleep(1000000);
    manager_kill(0);
    manager_came_back(0);
    ok(ddict_pop(d, "q", 1, &v, 0, 20000));
    ddict_release(&v);
    fails(DDICT_ENOKEY, ddict_pop(d, "q", 1, &v, 0, 20000));
    memory_fill();
    end();
}
END_TEST

/* --- a client that breaks the rules --- */

/* What a client says it was given does not take the value of another that waits. */
START_TEST(nobody_takes_the_value_of_one_who_waits) {
    struct pusher p = {.key = "q", .len = LEN, .seed = 5, .most = 1, .timeout_ms = 60000};
    int named[2], over[2];
    setenv("DDICT_RESTARTS", "16", 1);
    dict_start(&x, 1, 1, 64 * MIB);
    ck_assert(pipe(named) == 0 && pipe(over) == 0);
    pid_t child = fork();
    if (child == 0) {
        ddict_t *own = dict_attach(&x, 0);
        close(over[1]);
        ok(ddict_push(own, "q", 1, "1", 1, 0, 1, 20000));
        tell(named[1]);
        await(over[0]);
        value_fill(val, LEN, 5);
        if (!answer_forge('q', val, LEN))
            _exit(1);
        tell(named[1]);
        await(over[0]);
        _exit(0);
    }
    close(named[1]);
    await(named[0]);
    d = dict_attach(&x, 0);
    pusher_begin(&p);
    usleep(1500000); /* it waits, and nothing else is said to the child */
    tell(over[1]);
    await(named[0]);
    manager_kill(0);
    manager_came_back(0);
    struct ddict_view v;
    ok(ddict_pop(d, "q", 1, &v, 0, 20000));
    ddict_release(&v);
    pusher_end(&p, 0);
    pop("q", 5, LEN);
    tell(over[1]);
    expect_exit(child, 0);
    memory_fill();
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {who_waits_for_room_is_let_in_by_the_next_life,
                                  a_push_whose_value_is_lost_is_refused,
                                  a_push_that_waited_is_carried_out,
                                  a_push_that_was_let_in_is_answered,
                                  a_push_that_was_answered_is_over,
                                  what_follows_a_push_is_done,
                                  who_gives_up_after_a_death_leaves_nothing,
                                  nobody_takes_the_value_of_one_who_waits};
    return tests_main("client_lives_push", argc, argv, tests, sizeof tests / sizeof *tests);
}
