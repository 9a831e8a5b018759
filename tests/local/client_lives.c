/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives.c - a manager is killed, and ddictd starts it again over its arena (--restarts).
 * Invariants: reads in place go on meanwhile and never see another value; what was acknowledged is
 * there; no byte of a view changes, of a forked child neither; queues, the frozen state and the
 * connections of other nodes go on, and a subscriber is told what it missed; each change is made
 * once. A death that takes something along, or one too many, ends the dictionary.
 */
#include "client_lives_dict.h"
#include "client_lives_once.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static bool stop; /* atomic */

/* Keys of local managers, without a break. */
static void *reader(void *arg) {
    unsigned char buf[LEN];
    intptr_t reads = 0;
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++, reads++) {
        char key[16];
        size_t len, n = name_of(key, i % KEYS);
        if (ddict_get(d, key, n, buf, sizeof buf, &len, NULL, 0, 20000) != 0 ||
            !value_is(buf, len, i % KEYS))
            return NULL;
    }
    return (void *)(reads + 1);
}

START_TEST(it_comes_back_and_readers_do_not_notice) {
    pthread_t t[2];
    begin(1, 2, "16");
    keys_put(0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, reader, NULL), 0);
    for (unsigned round = 0; round < 6; round++) {
        quiet_wait();
        manager_kill((int)(round % 2));
        ok(ddict_put(d, "another", 7, val, LEN, 0, 20000));
        ok(ddict_del(d, "another", 7, 20000));
        manager_came_back((int)(round % 2));
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) {
        void *reads;
        pthread_join(t[i], &reads);
        ck_assert_msg(reads != NULL, "a reader saw something else");
    }
    keys_check(0);
    keys_put(1000);
    keys_check(1000);
    end();
}
END_TEST

START_TEST(views_keep_their_bytes) {
    struct ddict_view v[KEYS];
    int child[2], parent[2];
    begin(1, 2, "16");
    ck_assert(pipe(child) == 0 && pipe(parent) == 0);
    keys_put(0);
    for (unsigned i = 0; i < KEYS; i++) {
        char key[16];
        size_t n = name_of(key, i);
        ok(ddict_view(d, key, n, &v[i], 0, -1));
    }
    pid_t p = fork();
    if (p == 0) {
        await(child[0]);
        for (unsigned i = 0; i < KEYS; i++)
            if (!value_is(v[i].data, v[i].len, i))
                _exit(1);
        _exit(0);
    }
    for (unsigned i = 0; i < KEYS; i += 2) /* held by the child alone */
        ddict_release(&v[i]);
    keys_put(500); /* now leases alone name what is viewed */
    quiet_wait();
    for (int m = 0; m < 2; m++)
        manager_kill(m);
    /* all memory that is not in use is used again, some times over */
    for (unsigned round = 1; round < 120; round++)
        keys_put(round * 1000);
    for (unsigned i = 1; i < KEYS; i += 2) {
        ck_assert(value_is(v[i].data, v[i].len, i));
        ddict_release(&v[i]);
    }
    tell(child[1]);
    expect_exit(p, 0);
    keys_check(119 * 1000);
    end();
}
END_TEST

START_TEST(what_was_popped_and_not_taken_is_kept) {
    ddict_async_t *q;
    struct ddict_op pop = {.what = DDICT_OP_POP, .key = "popped", .klen = 6, .timeout_ms = -1},
                    done;
    begin(1, 1, "16");
    value_fill(val, LEN, 77);
    ok(ddict_put(d, "popped", 6, val, LEN, 0, -1));
    keys_put(0);
    ok(ddict_async_open(d, &q));
    ck_assert_int_eq(ddict_async_submit(q, &pop, 1), 1);
    quiet_wait(); /* the answer is there, and nobody looks */
    manager_kill(0);
    pid_t p = fork();
    if (p == 0) { /* who has no part in that lane uses all other memory again */
        for (unsigned round = 1; round < 120; round++)
            keys_put(round * 1000);
        _exit(0);
    }
    expect_exit(p, 0);
    ck_assert_int_eq(ddict_async_poll(q, &done, 1, 20000), 1);
    ck_assert_int_eq(done.status, 0);
    ck_assert(value_is(done.view.data, done.view.len, 77));
    ddict_release(&done.view);
    ddict_async_close(q);
    keys_check(119 * 1000);
    end();
}
END_TEST

START_TEST(queues_and_freeze_and_events_go_on) {
    ddict_sub_t *sub;
    struct ddict_event e;
    struct ddict_view v;
    begin(1, 1, "16");
    keys_put(0);
    for (unsigned i = 0; i < 50; i++) {
        value_fill(val, LEN, 5000 + i);
        ok(ddict_push(d, "queue", 5, val, LEN, 0, 0, -1));
    }
    ok(ddict_subscribe(d, "e", 1, 0, &sub, -1));
    ok(ddict_put(d, "e1", 2, "1", 1, 0, -1));
    ck_assert_int_eq(ddict_next_event(sub, &e, 20000), 1);
    ck_assert(e.kind == DDICT_EVENT_PUT && e.klen == 2 && memcmp(e.key, "e1", 2) == 0);
    quiet_wait();
    manager_kill(0);
    for (unsigned i = 0; i < 50; i++) {
        ok(ddict_pop(d, "queue", 5, &v, 0, 20000));
        ck_assert(value_is(v.data, v.len, 5000 + i));
        ddict_release(&v);
    }
    fails(DDICT_ENOKEY, ddict_pop(d, "queue", 5, &v, 0, -1));
    ck_assert_int_eq(ddict_next_event(sub, &e, 20000), 1);
    ck_assert_int_eq(e.kind, DDICT_EVENT_MISSED);
    ok(ddict_put(d, "e2", 2, "1", 1, 0, -1));
    ck_assert_int_eq(ddict_next_event(sub, &e, 20000), 1);
    ck_assert(e.kind == DDICT_EVENT_PUT && e.klen == 2 && memcmp(e.key, "e2", 2) == 0);
    ddict_unsubscribe(sub);
    ok(ddict_freeze(d, -1));
    quiet_wait();
    dict_managers(&x, d);
    quiet_wait();
    manager_kill(0);
    fails(DDICT_EFROZEN, ddict_put(d, "f", 1, "1", 1, 0, 20000));
    ok(ddict_unfreeze(d, 20000));
    ok(ddict_del(d, "e1", 2, 20000));
    ok(ddict_del(d, "e2", 2, 20000));
    keys_check(0);
    end();
}
END_TEST

START_TEST(other_nodes_connect_again) {
    begin(2, 4, "16");
    keys_put(0);
    for (int m = 0; m < 4; m++) { /* 0 and 2 are our proxies, 1 and 3 the owners */
        quiet_wait();
        manager_kill(m);
        /* what the others noticed before the first request */
        usleep(200000);
        keys_check(0);
        dict_managers(&x, d);
    }
    keys_put(1000);
    keys_check(1000);
    end();
}
END_TEST

START_TEST(one_death_too_many_ends_it) {
    begin(1, 2, NULL);
    keys_put(0);
    double first = now_s();
    for (int i = 0; i < 2; i++) {
        quiet_wait();
        manager_kill(1);
        manager_came_back(1);
    }
    quiet_wait();
    x.broken = true;
    manager_kill(1);
    if (now_s() - first < 9) { /* a machine that is slow needs longer than deaths are counted */
        char key[32];
        size_t n = key_of(d, 1, 0, key, sizeof key);
        fails(DDICT_ELOST, ddict_put(d, key, n, "", 0, 0, 20000));
        ck_assert(strstr(ddict_errmsg(), "died (signal 9)"));
    }
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* All memory that ddictd, and what it starts, may map is used up. */
static void memory_limit(pid_t p) {
    char path[64], line[128];
    unsigned long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)p);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (kb == 0 && fgets(line, sizeof line, f))
        (void)!sscanf(line, "VmSize: %lu", &kb);
    fclose(f);
    struct rlimit most = {.rlim_cur = (kb + 8192) * 1024, .rlim_max = RLIM_INFINITY};
    ck_assert_int_eq(prlimit(p, RLIMIT_AS, &most, NULL), 0);
}

static void state_await(pid_t p, bool stopped) {
    int status;
    ck_assert_int_eq(waitpid(p, &status, stopped ? WUNTRACED : WCONTINUED), p);
    ck_assert(stopped ? WIFSTOPPED(status) : WIFCONTINUED(status));
}

/*
 * A life that can't open its arena says why, and exits; ddictd hears of both at once, of the exit
 * first. It ends the dictionary with the reason, and tries no further life.
 */
START_TEST(a_life_that_can_not_begin_says_why) {
    setenv("DDICT_TEST_READY_MS", "500", 1);
    begin(1, 1, "1");
    unsetenv("DDICT_TEST_READY_MS");
    quiet_wait();
    memory_limit(x.pid[0]);
    x.broken = true;
    manager_kill(0);
    usleep(200000); /* the next life sleeps before it says so */
    ck_assert_int_eq(kill(x.pid[0], SIGSTOP), 0);
    state_await(x.pid[0], true);
    ck_assert_int_eq(kill(x.pid[0], SIGCHLD), 0); /* it will look who has ended, before all else */
    usleep(1500000);
    ck_assert_int_eq(kill(x.pid[0], SIGCONT), 0);
    state_await(x.pid[0], false);
    fails(DDICT_ELOST, ddict_put(d, "k", 1, "", 0, 0, 20000));
    ck_assert_msg(strstr(ddict_errmsg(), "can not start again"), "%s", ddict_errmsg());
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* Nobody who waits is forgotten: without memory for all of them there is no next life. */
START_TEST(a_life_without_memory_for_who_waits_says_so) {
    setenv("DDICT_TEST_LIST_REFUSED", "1", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_LIST_REFUSED");
    quiet_wait();
    x.broken = true;
    manager_kill(0);
    fails(DDICT_ELOST, ddict_put(d, "k", 1, "", 0, 0, 20000));
    ck_assert_msg(
        strstr(ddict_errmsg(), "can not start again: no memory for the requests that wait"), "%s",
        ddict_errmsg());
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- each change is made once --- */
static struct once once = {.queue = "all", .sum = "sum", .count = "count", .rounds = 250};

static size_t own_len(unsigned i) {
    return 500; /* those in pieces: client_lives_stream */
}

static void kill_at_random(unsigned times) {
    unsigned seed = 12345;
    for (unsigned i = 0; i < times; i++) {
        seed = seed * 1103515245 + 12345;
        usleep(20000 + seed / 65536 % 60000);
        manager_kill(0);
        manager_came_back(0);
    }
}

static void writers_check(unsigned kills) {
    static char name[ONCE_WRITERS][ONCE_OWN][16];
    for (unsigned w = 0; w < ONCE_WRITERS; w++)
        for (unsigned i = 0; i < ONCE_OWN; i++) {
            sprintf(name[w][i], "own %u %u", w, i);
            once.own[w][i] = name[w][i];
        }
    once.len = own_len;
    once.kills = kill_at_random;
    dict_managers(&x, d);
    once_check(d, &once, kills);
}

START_TEST(writers_notice_no_kill) {
    begin(1, 1, "16");
    writers_check(12);
    end();
}
END_TEST

/* The manager kills itself at every so many steps of this kind. */
static void once_dies(const char *step) {
    setenv("DDICT_TEST_DIE", step, 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    dict_managers(&x, d);
    pid_t first = x.manager[0];
    writers_check(0);
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[0], first);
    end();
}

START_TEST(a_request_that_was_begun_is_carried_out) {
    once_dies("begun:101");
}
END_TEST

START_TEST(a_request_that_was_carried_out_is_answered) {
    once_dies("changed:109");
}
END_TEST

START_TEST(a_request_that_was_answered_is_over) {
    once_dies("answered:113");
}
END_TEST

/* Nor is one taken again that changed nothing: a pop might find something by then. */
START_TEST(a_request_that_found_nothing_is_answered_once) {
    enum { POPS = 400 };
    struct ddict_manager_stats *s;
    struct ddict_view v;
    setenv("DDICT_TEST_DIE", "answered:37", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_DIE");
    dict_managers(&x, d);
    pid_t first = x.manager[0];
    for (unsigned i = 0; i < POPS; i++)
        fails(DDICT_ENOKEY, ddict_pop(d, "absent", 6, &v, 0, 20000));
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[0], first);
    ck_assert_int_eq(ddict_stats(d, &s, sizeof *s, 20000), 1);
    ck_assert_uint_eq(s->misses, POPS);
    free(s);
    end();
}
END_TEST

START_TEST(what_follows_a_request_is_done) {
    once_dies("taken:127");
}
END_TEST

/* --- requests that wait --- */
START_TEST(writers_that_wait_notice_no_kill) {
    once.wait = DDICT_WAIT;
    begin(1, 1, "16");
    writers_check(12);
    end();
}
END_TEST

START_TEST(a_request_that_waited_is_carried_out) {
    once.wait = DDICT_WAIT;
    once_dies("begun:131");
}
END_TEST

START_TEST(a_request_that_waited_and_was_carried_out_is_answered) {
    once.wait = DDICT_WAIT;
    once_dies("changed:103");
}
END_TEST

START_TEST(a_request_that_waited_and_was_answered_is_over) {
    once.wait = DDICT_WAIT;
    once_dies("answered:107");
}
END_TEST

START_TEST(what_follows_a_request_that_waited_is_done) {
    once.wait = DDICT_WAIT;
    once_dies("taken:139");
}
END_TEST

static void *waits(void *arg) {
    struct ddict_view v;
    return (void *)(intptr_t)ddict_pop(d, arg, strlen(arg), &v, DDICT_WAIT, 60000);
}

START_TEST(a_death_that_takes_a_request_along_ends_it) {
    static char key[DDICT_KEY_MAX + 1]; /* the ledger has no room for that */
    pthread_t t;
    void *rc;
    memset(key, 'k', DDICT_KEY_MAX);
    setenv("DDICT_TEST_LEDGER", "1", 1);
    begin(1, 1, "16");
    unsetenv("DDICT_TEST_LEDGER");
    dict_managers(&x, d);
    ck_assert_int_eq(pthread_create(&t, NULL, waits, key), 0);
    quiet_wait();
    x.broken = true;
    manager_kill(0);
    pthread_join(t, &rc);
    ck_assert_int_eq((intptr_t)rc, DDICT_ELOST);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {it_comes_back_and_readers_do_not_notice,
                                  views_keep_their_bytes,
                                  what_was_popped_and_not_taken_is_kept,
                                  queues_and_freeze_and_events_go_on,
                                  other_nodes_connect_again,
                                  one_death_too_many_ends_it,
                                  a_life_that_can_not_begin_says_why,
                                  a_life_without_memory_for_who_waits_says_so,
                                  a_death_that_takes_a_request_along_ends_it,
                                  writers_notice_no_kill,
                                  a_request_that_was_begun_is_carried_out,
                                  a_request_that_was_carried_out_is_answered,
                                  a_request_that_was_answered_is_over,
                                  a_request_that_found_nothing_is_answered_once,
                                  what_follows_a_request_is_done,
                                  writers_that_wait_notice_no_kill,
                                  a_request_that_waited_is_carried_out,
                                  a_request_that_waited_and_was_carried_out_is_answered,
                                  a_request_that_waited_and_was_answered_is_over,
                                  what_follows_a_request_that_waited_is_done};
    return tests_main("client_lives", argc, argv, tests, sizeof tests / sizeof *tests);
}
