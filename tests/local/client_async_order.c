/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_async_order.c - puts, dels and pops of one key in one set take effect in the order of their
 * submission, also where a pop has to be sent again because its value is longer than the memory set
 * aside for it. What follows such a pop ends in time, can be cancelled, and is never forgotten.
 */
#include "client_async.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char key[32], other[32]; /* of a manager of the other node */
static size_t klen, olen;
static unsigned char *long_value;
static size_t long_len; /* of that: more than any value that was popped before */

static void begin_far(void) {
    begin(2);
    klen = key_of(d, 1, 0, key, sizeof key);
    olen = key_of(d, 1, 1, other, sizeof other);
    long_value = malloc(MIB);
    long_len = 0;
}

static void end_far(void) {
    end();
    free(long_value);
}

/* A value that the next pop has to be sent again for. */
static void put_long(void) {
    long_len += 20000;
    value_fill(long_value, long_len, long_len);
    ok(ddict_put(d, key, klen, long_value, long_len, 0, -1));
}

static struct ddict_op pop_op(uintptr_t user) {
    return op_of(DDICT_OP_POP, key, klen, NULL, 0, user);
}

static struct ddict_op put_op(const char *value, uintptr_t user) {
    return op_of(DDICT_OP_PUT, key, klen, (void *)(uintptr_t)value, strlen(value), user);
}

/* The results of n ops, by their users. */
static void results(struct ddict_op *r, size_t n) {
    struct ddict_op *done = calloc(n, sizeof *done);
    loop_until(q, done, n);
    for (size_t i = 0; i < n; i++)
        r[(uintptr_t)done[i].user] = done[i];
    free(done);
}

static void popped_long(struct ddict_op *r) {
    ck_assert_msg(r->status == 0, "%d %s", r->status, r->text);
    ck_assert_msg(r->view.len == long_len && value_is(r->view.data, long_len, long_len),
                  "%zu bytes were popped", r->view.len);
    ddict_release(&r->view);
}

static void holds(const char *value) {
    char buf[100];
    size_t n = 0;
    ok(ddict_get(d, key, klen, buf, sizeof buf, &n, NULL, 0, -1));
    ck_assert_msg(n == strlen(value) && memcmp(buf, value, n) == 0, "%.*s", (int)n, buf);
}

static void holds_nothing(void) {
    ck_assert_int_eq(ddict_contains(d, key, klen, NULL, -1), 0);
}

/* The owner has refused the pop, and the set knows it, but nobody has polled. */
static void refusal_comes(void) {
    ok(ddict_put(d, other, olen, "behind", 6, 0, -1));
}

START_TEST(what_follows_a_long_pop_takes_effect_behind_it) {
    struct ddict_op r[3];
    begin_far();
    for (int i = 0; i < 10; i++) {
        put_long();
        struct ddict_op put[2] = {pop_op(0), put_op("put", 1)};
        ck_assert_int_eq(ddict_async_submit(q, put, 2), 2);
        results(r, 2);
        popped_long(&r[0]);
        ck_assert_int_eq(r[1].status, 0);
        holds("put");

        put_long();
        struct ddict_op new[2] = {pop_op(0), put_op("new", 1)};
        new[1].flags = DDICT_NEW;
        ck_assert_int_eq(ddict_async_submit(q, new, 2), 2);
        results(r, 2);
        popped_long(&r[0]);
        ck_assert_int_eq(r[1].status, 0);
        holds("new");

        put_long();
        struct ddict_op del[3] = {pop_op(0), op_of(DDICT_OP_DEL, key, klen, NULL, 0, 1), pop_op(2)};
        ck_assert_int_eq(ddict_async_submit(q, del, 3), 3);
        results(r, 3);
        popped_long(&r[0]);
        ck_assert(r[1].status == DDICT_ENOKEY && r[2].status == DDICT_ENOKEY);
        holds_nothing();
    }
    ck_assert(quiet(q));
    end_far();
}
END_TEST

/* Each pop finds what the put before it has stored, each time longer than before. */
START_TEST(pops_and_puts_of_one_key_take_turns) {
    enum { N = 50, LEN = 5000 };
    begin_far();
    unsigned char *value = malloc((size_t)N * N * LEN);
    struct ddict_op *r = calloc(2 * N, sizeof *r);
    for (unsigned i = 0; i < N; i++) {
        size_t len = LEN * (size_t)(i + 1);
        unsigned char *to = value + (size_t)i * N * LEN;
        value_fill(to, len, i);
        struct ddict_op j[2] = {op_of(DDICT_OP_PUT, key, klen, to, len, 2 * i), pop_op(2 * i + 1)};
        ck_assert_int_eq(ddict_async_submit(q, j, 2), 2);
    }
    results(r, 2 * N);
    for (unsigned i = 0; i < N; i++) {
        struct ddict_op *pop = &r[2 * i + 1];
        ck_assert_int_eq(r[2 * i].status, 0);
        ck_assert_msg(pop->status == 0, "pop %u: %d %s", i, pop->status, pop->text);
        ck_assert_msg(pop->view.len == LEN * (size_t)(i + 1) &&
                          value_is(pop->view.data, pop->view.len, i),
                      "pop %u found %zu bytes", i, pop->view.len);
        ddict_release(&pop->view);
    }
    holds_nothing();
    free(value);
    free(r);
    end_far();
}
END_TEST

/* More than a lane sends at a time, of one key, with reads and another set between. */
START_TEST(thousands_of_one_key_take_turns) {
    enum { N = 3000 };
    ddict_async_t *second;
    struct ddict_op *done = calloc(N, sizeof *done), one;
    begin_far();
    ok(ddict_async_open(d, &second));
    for (unsigned i = 0; i < N; i++) {
        struct ddict_op j = i % 3 == 0   ? put_op("value", i)
                            : i % 3 == 1 ? pop_op(i)
                                         : op_of(DDICT_OP_DEL, other, olen, NULL, 0, i);
        submit_one(q, &j, 1);
    }
    struct ddict_op j = op_of(DDICT_OP_DEL, key, klen, NULL, 0, 0);
    submit_one(second, &j, 1);
    loop_until(second, &one, 1); /* it does not follow what another set pops */
    ck_assert(one.status == 0 || one.status == DDICT_ENOKEY);
    loop_until(q, done, N);
    unsigned popped = 0;
    for (unsigned i = 0; i < N; i++) {
        if (done[i].what == DDICT_OP_DEL) {
            ck_assert_int_eq(done[i].status, DDICT_ENOKEY);
        } else if (done[i].what == DDICT_OP_POP && done[i].status == 0) {
            popped++;
            ddict_release(&done[i].view);
        } else {
            ck_assert_int_eq(done[i].status, done[i].what == DDICT_OP_PUT ? 0 : DDICT_ENOKEY);
        }
    }
    ck_assert_uint_ge(popped, N / 3 - 1); /* the other set may have removed one */
    ddict_async_close(second);
    free(done);
    end_far();
}
END_TEST

START_TEST(either_can_be_cancelled) {
    struct ddict_op r[3];
    begin_far();
    put_long();
    struct ddict_op j[3] = {pop_op(0), put_op("never", 1), put_op("second", 2)};
    ck_assert_int_eq(ddict_async_submit(q, j, 3), 3);
    ok(ddict_async_cancel(q, j[1].ticket));
    fails(-ENOENT, ddict_async_cancel(q, j[1].ticket));
    ok(ddict_async_cancel(q, j[2].ticket)); /* the last of those that follow */
    j[2] = put_op("third", 2);
    submit_one(q, &j[2], 1);
    loop_until(q, r, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(r[i].status, -ECANCELED);
        free(r[i].text);
    }
    loop_until(q, r, 2);
    for (int i = 0; i < 2; i++)
        if (r[i].what == DDICT_OP_POP)
            popped_long(&r[i]);
        else
            ck_assert_int_eq(r[i].status, 0);
    holds("third");

    put_long();
    struct ddict_op k[3] = {pop_op(0), pop_op(1), put_op("put", 2)};
    kill(x.manager[1], SIGSTOP);
    ck_assert_int_eq(ddict_async_submit(q, k, 3), 3);
    ok(ddict_async_cancel(q, k[0].ticket));
    kill(x.manager[1], SIGCONT);
    results(r, 3);
    ck_assert_int_eq(r[0].status, -ECANCELED);
    free(r[0].text);
    popped_long(&r[1]); /* the first may not have removed it: it was too long */
    ck_assert_int_eq(r[2].status, 0);
    holds("put");
    end_far();
}
END_TEST

START_TEST(what_follows_ends_in_time) {
    struct ddict_op r[2];
    begin_far();
    put_long();
    kill(x.manager[1], SIGSTOP);
    struct ddict_op j[2] = {pop_op(0), put_op("never", 1)};
    j[1].timeout_ms = 200;
    double s = now_s();
    ck_assert_int_eq(ddict_async_submit(q, j, 2), 2);
    loop_until(q, r, 1);
    ck_assert(now_s() - s > 0.19 && now_s() - s < 10);
    ck_assert(r[0].what == DDICT_OP_PUT && r[0].status == -ETIMEDOUT);
    free(r[0].text);
    kill(x.manager[1], SIGCONT);
    loop_until(q, r, 1);
    popped_long(&r[0]);
    holds_nothing();

    put_long();
    kill(x.manager[1], SIGSTOP);
    struct ddict_op k[2] = {pop_op(0), put_op("put", 1)};
    k[0].timeout_ms = 200;
    ck_assert_int_eq(ddict_async_submit(q, k, 2), 2);
    loop_until(q, r, 1);
    ck_assert(r[0].what == DDICT_OP_POP && r[0].status == -ETIMEDOUT);
    free(r[0].text);
    kill(x.manager[1], SIGCONT);
    loop_until(q, r, 1);
    ck_assert_msg(r[0].status == 0, "%d %s", r[0].status, r[0].text);
    holds("put");

    /* refused, and polled when its time is over */
    put_long();
    struct ddict_op l[2] = {pop_op(0), put_op("behind", 1)};
    l[0].timeout_ms = 100;
    submit_one(q, &l[0], 1);
    refusal_comes();
    submit_one(q, &l[1], 1);
    usleep(150000);
    results(r, 2);
    ck_assert_int_eq(r[0].status, -ETIMEDOUT);
    free(r[0].text);
    ck_assert_msg(r[1].status == 0, "%d %s", r[1].status, r[1].text);
    holds("behind");
    end_far();
}
END_TEST

/* The owner dies with a part of the value, and its next life asks for the rest. */
START_TEST(what_follows_a_long_put_takes_effect_behind_it) {
    struct ddict_op r[2];
    setenv("DDICT_RESTARTS", "16", 1);
    setenv("DDICT_TEST_PIECE_MS", "300", 1);
    setenv("DDICT_TEST_MANAGER", "1", 1);
    begin_far();
    unsetenv("DDICT_RESTARTS");
    unsetenv("DDICT_TEST_PIECE_MS");
    unsetenv("DDICT_TEST_MANAGER");
    value_fill(long_value, 700000, 1);
    struct ddict_op j[2] = {op_of(DDICT_OP_PUT, key, klen, long_value, 700000, 0),
                            put_op("behind", 1)};
    ck_assert_int_eq(ddict_async_submit(q, j, 2), 2);
    for (double end = now_s() + 0.7; now_s() < end;)
        ck_assert_int_eq(ddict_async_poll(q, r, 2, 50), 0);
    ck_assert_int_eq(kill(x.manager[1], SIGKILL), 0);
    results(r, 2);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(r[i].status == 0, "%d %s", r[i].status, r[i].text);
    holds("behind");
    dict_managers(&x, d); /* those that dict_stop() waits for */
    end_far();
}
END_TEST

START_TEST(nothing_is_left_when_the_set_is_closed_or_the_handle_detached) {
    struct ddict_op r[3];
    begin_far();
    for (int i = 0; i < 20; i++) {
        ddict_async_t *mine;
        ok(ddict_async_open(d, &mine));
        put_long();
        struct ddict_op j[3] = {pop_op(0), put_op("put", 1), pop_op(2)};
        submit_one(mine, &j[0], 1);
        if (i % 2)
            refusal_comes();
        ck_assert_int_eq(ddict_async_submit(mine, j + 1, 2), 2);
        ddict_async_close(mine);
        struct ddict_op k = put_op("next", 0); /* does not follow one that is gone */
        submit_one(q, &k, 1);
        results(r, 1);
        ck_assert_int_eq(r[0].status, 0);
        holds("next");
    }
    put_long();
    struct ddict_op j[3] = {pop_op(0), put_op("put", 1), pop_op(2)};
    submit_one(q, &j[0], 1);
    refusal_comes();
    ck_assert_int_eq(ddict_async_submit(q, j + 1, 2), 2);
    ddict_detach(d);
    results(r, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(r[i].status, -ECANCELED);
        free(r[i].text);
    }
    ddict_async_close(q);
    free(long_value);
    dict_stop(&x);
}
END_TEST

ASYNC_MAIN("client_async_order", what_follows_a_long_pop_takes_effect_behind_it,
           pops_and_puts_of_one_key_take_turns, thousands_of_one_key_take_turns,
           either_can_be_cancelled, what_follows_ends_in_time,
           what_follows_a_long_put_takes_effect_behind_it,
           nothing_is_left_when_the_set_is_closed_or_the_handle_detached)
