/* SPDX-License-Identifier: Apache-2.0 */
/* client_window_waits.c - working sets that wait for keys or for writers. */
#include "client_window.h"

/* --- waiting for keys --- */
static void persistent(ddict_t *of, uint64_t id, const char *text) {
    at(of, id);
    ok(ddict_put(of, key, klen, text, strlen(text), DDICT_TAG(4) | DDICT_PERSISTENT, WAIT));
}
static void is_awaited(ddict_t *of, uint64_t id) {
    struct ddict_view v;
    at(of, id);
    fails(-ETIMEDOUT, ddict_view(of, key, klen, &v, 0, 20));
    fails(-ETIMEDOUT, ddict_view(of, key, klen, &v, 0, 0));
    ck_assert_int_eq(ddict_contains(of, key, klen, NULL, WAIT), 0); /* never waits */
}

START_TEST(keys_are_awaited_at_each_checkpoint) {
    begin("3,wait-for-keys");
    EACH(0) {
        is_awaited(d[0], 0);
        ok(put(d[0], 0, "zero"));
        has(d[1], 0, "zero");
        is_awaited(d[1], 1);
        ck_assert_int_eq(ddict_len(d[1], WAIT), m_); /* of each key the persistent one */
        ok(put(d[1], 1, "one"));
        has(d[0], 1, "one");
        persistent(d[0], 1, "kept");
        has(d[1], 2, "kept");
        ck_assert_int_eq(ddict_contains(d[1], key, klen, NULL, WAIT), 1);
        at(d[1], 3); /* does not exist yet, and what is persistent in the oldest one is read */
        struct ddict_view v;
        fails(-ETIMEDOUT, ddict_view(d[1], key, klen, &v, 0, 20));
        persistent(d[0], 0, "first");
        has(d[1], 3, "kept");
        has(d[1], 0, "first");
    }
    end();
}
END_TEST

START_TEST(a_removal_is_an_answer_while_its_checkpoint_is_in_the_window) {
    begin("2,wait-for-keys");
    char other[32];
    size_t olen = key_of(d[0], 1, 7, other, sizeof other);
    klen = key_of(d[0], 2, 7, key, sizeof key);
    for (uint64_t i = 0; i < 2; i++) { /* at the oldest, and at the newest */
        ok(put(d[0], i, "value"));
        at(d[0], i);
        ok(ddict_del(d[0], key, klen, WAIT));
        has_none(d[1], i);
        has_none(d[0], 1);
        fails(DDICT_ENOKEY, ddict_del(d[0], key, klen, WAIT));
    }
    at(d[0], 2);
    ok(ddict_put(d[0], other, olen, "other", 5, DDICT_PERSISTENT, WAIT));
    has_none(d[1], 1);
    has_none(d[0], 1);
    at(d[0], 3);
    ok(ddict_put(d[0], other, olen, "other", 5, DDICT_PERSISTENT, WAIT));
    is_awaited(d[1], 2); /* nothing was put nor removed in the window */
    ok(ddict_put(d[0], other, olen, "other", 5, DDICT_PERSISTENT, WAIT));
    items_become(4); /* W, and of `other` the index and two values */
    ok(put(d[1], 2, "two"));
    has(d[0], 2, "two");
    end();
}
END_TEST

/* A put at the checkpoint is not over in time, because of what the sentence says. (With little time it
 * may be because of a machine that is busy.) */
static void put_awaits(ddict_t *of, uint64_t id, const char *k, size_t len, const char *what) {
    int ms = 50;
    at(of, id);
    do
        fails(-ETIMEDOUT, ddict_put(of, k, len, "v", 1, 0, ms *= 2));
    while (!strstr(ddict_errmsg(), what) && ms < 8000);
    ck_assert_msg(strstr(ddict_errmsg(), what), "%s", ddict_errmsg());
}

START_TEST(a_read_says_that_its_key_did_not_appear) {
    begin("3,wait-for-keys");
    EACH(0)
    for (unsigned i = 0; i < NODES; i++) {
        const char *says = "did not appear at checkpoint 1 within";
        struct ddict_view v;
        int ms = 50;
        at(d[i], 1);
        do
            fails(-ETIMEDOUT, ddict_view(d[i], key, klen, &v, i ? DDICT_WAIT : 0, ms *= 2));
        while (!strstr(ddict_errmsg(), says) && ms < 2000);
        ck_assert_msg(strstr(ddict_errmsg(), says), "of manager %u, on node %u: %s", m_, i,
                      ddict_errmsg());
    }
    end();
}
END_TEST

START_TEST(a_checkpoint_is_retired_when_the_next_has_its_keys) {
    begin("2,wait-for-keys");
    char other[32];
    size_t olen = key_of(d[0], 1, 7, other, sizeof other);
    klen = key_of(d[0], 2, 7, key, sizeof key);
    persistent(d[0], 0, "kept");
    klen = key_of(d[0], 0, 7, key, sizeof key);
    ok(put(d[0], 0, "zero"));
    put_awaits(d[0], 2, other, olen, key);
    has(d[1], 0, "zero");
    pid_t p = fork();
    if (p == 0) {
        at(d[0], 2);
        ok(ddict_put(d[0], other, olen, "v", 1, 0, WAIT));
        _exit(0);
    }
    usleep(150000);
    ck_assert_int_eq(waitpid(p, NULL, WNOHANG), 0);
    ok(put(d[1], 1, "one"));
    expect_exit(p, 0);
    is_retired(d[1], 0);
    has(d[1], 1, "one");
    is_awaited(d[1], 2);
    klen = key_of(d[0], 2, 7, key, sizeof key);
    has(d[1], 2, "kept");
    end();
}
END_TEST

START_TEST(a_waiting_read_ends_when_its_key_comes) {
    begin("2,wait-for-keys");
    klen = key_of(d[0], 1, 0, key, sizeof key);
    int up[2];
    ck_assert(pipe(up) == 0);
    pid_t p = fork();
    if (p == 0) {
        tell(up[1]);
        has(d[1], 0, "came");
        _exit(0);
    }
    await(up[0]);
    usleep(50000);
    ok(put(d[0], 0, "came"));
    expect_exit(p, 0);
    end();
}
END_TEST

/* --- waiting for writers --- */
START_TEST(a_checkpoint_is_retired_when_its_writers_have_gone_on) {
    begin("2,wait-for-writers");
    klen = key_of(d[0], 1, 0, key, sizeof key);
    ok(put(d[0], 0, "mine"));
    ok(put(d[1], 0, "yours"));
    put_awaits(d[0], 2, key, klen, "client");
    ok(put(d[0], 1, "one"));
    put_awaits(d[0], 2, key, klen, "client"); /* d[1] has not gone on */
    has(d[1], 0, "yours");
    has(d[1], 2, "one"); /* reads at a later one: it has */
    ok(put(d[0], 2, "two"));
    is_retired(d[1], 0);
    end();
}
END_TEST

START_TEST(a_dead_writer_is_not_awaited) {
    begin("2,wait-for-writers");
    klen = key_of(d[0], 1, 0, key, sizeof key);
    int up[2];
    ck_assert(pipe(up) == 0);
    pid_t p = fork();
    if (p == 0) {
        ok(put(d[1], 0, "dead"));
        tell(up[1]);
        pause();
    }
    await(up[0]);
    put_awaits(d[0], 2, key, klen, "client");
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
    ok(put(d[0], 2, "two"));
    has(d[0], 1, "dead");
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        keys_are_awaited_at_each_checkpoint,
        a_read_says_that_its_key_did_not_appear,
        a_removal_is_an_answer_while_its_checkpoint_is_in_the_window,
        a_checkpoint_is_retired_when_the_next_has_its_keys,
        a_waiting_read_ends_when_its_key_comes,
        a_checkpoint_is_retired_when_its_writers_have_gone_on,
        a_dead_writer_is_not_awaited,
    };
    return tests_main("client_window_waits", argc, argv, tests, sizeof tests / sizeof *tests);
}
