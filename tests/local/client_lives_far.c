/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_lives_far.c - the manager of another node is killed while it is asked, and started again
 * (--restarts). Invariants: what reads is answered, each time, with the right value; who waits goes
 * on waiting, once, with what is left of his time; each change is made once, and what was popped
 * comes to who popped it, but is not kept for longer.
 */
#include "client_dict.h"
#include "client_lives_once.h"
#include "client_strays.h"
#include <base/defaults.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB  (1u << 20)
#define KEYS 40u
#define LEN  3000u
#define LONG 100000u /* one message all the same; a view of it goes into a block of the proxy */

enum { PROXY, OWNER }; /* managers; we are on the node of the first */

static struct dict x;
static ddict_t *d;
static unsigned char val[LONG];
static char keys[KEYS][32]; /* of the owner */

static void begin(void) {
    setenv("DDICT_RESTARTS", "16", 1);
    d = dict_begin(&x, 2, 2, 64 * MIB);
    for (unsigned i = 0; i < KEYS; i++)
        key_of(d, OWNER, i, keys[i], sizeof keys[i]);
}

static void end(void) {
    ck_assert(!strays_came(d)); /* each request was answered once */
    dict_managers(&x, d);       /* those that dict_stop() waits for */
    dict_end(&x, d);
}

static size_t longer = LONG;

static size_t len_of(unsigned i) {
    return i % 2 ? LEN : longer;
}

static void keys_put(void) {
    for (unsigned i = 0; i < KEYS; i++) {
        value_fill(val, len_of(i), i);
        ok(ddict_put(d, keys[i], strlen(keys[i]), val, len_of(i), 0, 20000));
    }
}

/* By a process of the owner's node. */
static void keys_put_there(void) {
    ddict_t *here = d;
    d = dict_attach(&x, OWNER);
    keys_put();
    ddict_detach(d);
    d = here;
}

static void manager_kill(int m) {
    pid_t was = x.manager[m];
    ck_assert(was > 0 && kill(was, SIGKILL) == 0);
    while (kill(was, 0) == 0) /* ddictd has waited for it */
        usleep(500);
    dict_managers(&x, d); /* asks it */
    ck_assert_int_ne(x.manager[m], was);
}

static void owner_kill(void) {
    manager_kill(OWNER);
}

/* At random, the first or the second of these each time. */
static void managers_kill(unsigned times, int one, int other) {
    unsigned seed = 4711;
    for (unsigned i = 0; i < times; i++) {
        seed = seed * 1103515245 + 12345;
        usleep(50000 + seed / 65536 % 300000);
        manager_kill(seed / 4096 % 2 ? one : other);
    }
}

static void owner_kills(unsigned times) {
    managers_kill(times, OWNER, OWNER);
}

static void proxy_kills(unsigned times) {
    managers_kill(times, PROXY, PROXY);
}

/* --- what reads --- */
static int get_one(unsigned i) {
    unsigned char buf[LONG];
    size_t len;
    int rc = ddict_get(d, keys[i], strlen(keys[i]), buf, sizeof buf, &len, NULL, 0, 20000);
    return rc < 0 || (len == len_of(i) && value_is(buf, len, i)) ? rc : -EBADMSG;
}

static int view_one(unsigned i) {
    struct ddict_view v;
    int rc = ddict_view(d, keys[i], strlen(keys[i]), &v, 0, 20000);
    if (rc < 0)
        return rc;
    if (v.len != len_of(i) || !value_is(v.data, v.len, i))
        rc = -EBADMSG;
    ddict_release(&v);
    return rc;
}

static int get_all(unsigned first) {
    struct ddict_want w[KEYS];
    int bad = 0;
    for (unsigned i = 0; i < KEYS; i++)
        w[i] = (struct ddict_want){.key = keys[i], .klen = strlen(keys[i])};
    ssize_t n = ddict_get_many(d, w, KEYS, 0, 20000);
    for (unsigned i = 0; n >= 0 && i < KEYS; i++) {
        if (w[i].status < 0)
            bad = w[i].status;
        else if (w[i].view.len != len_of(i) || !value_is(w[i].view.data, len_of(i), i))
            bad = -EBADMSG;
        if (w[i].status == 0)
            ddict_release(&w[i].view);
    }
    return n < 0 ? (int)n : bad;
}

static int count(unsigned i) {
    int64_t n = ddict_len(d, 20000);
    return n == KEYS || n < 0 ? (int)n : -EBADMSG;
}

static int figures(unsigned i) {
    struct ddict_manager_stats *s;
    int n = ddict_stats(d, &s, sizeof *s, 20000);
    if (n > 0)
        free(s);
    return n == 2 || n < 0 ? n : -EBADMSG;
}

static int list(unsigned i) {
    ddict_iter_t *it;
    const void *key;
    size_t n;
    unsigned found = 0;
    int rc = ddict_iter_open_prefix(d, -1, "k", 1, &it, 20000);
    if (rc < 0)
        return rc;
    while ((rc = ddict_iter_next(it, &key, &n)) > 0)
        found++;
    ddict_iter_close(it);
    return rc < 0 || found == KEYS ? rc : -EBADMSG;
}

static const struct {
    const char *name;
    int (*once)(unsigned i);
} reads[] = {{"get", get_one}, {"view", view_one}, {"get_many", get_all},
             {"len", count},   {"stats", figures}, {"list", list}};
#define READS (sizeof reads / sizeof *reads)

static bool stop; /* atomic */

struct reader {
    pthread_t thread;
    size_t what;
    unsigned n;
    int rc;
};

static void *is_reading(void *arg) {
    struct reader *r = arg;
    while (r->rc >= 0 && !__atomic_load_n(&stop, __ATOMIC_RELAXED))
        r->rc = reads[r->what].once(r->n++ % KEYS);
    if (r->rc < 0)
        fprintf(stderr, "%s: %d %s\n", reads[r->what].name, r->rc, ddict_errmsg());
    return NULL;
}

/* Who reads all the while notices nothing. */
static void reads_go_on(int one, int other) {
    struct reader r[READS];
    begin();
    keys_put();
    for (size_t i = 0; i < READS; i++) {
        r[i] = (struct reader){.what = i};
        ck_assert_int_eq(pthread_create(&r[i].thread, NULL, is_reading, &r[i]), 0);
    }
    managers_kill(14, one, other);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < READS; i++) {
        pthread_join(r[i].thread, NULL);
        ck_assert_msg(r[i].rc >= 0, "%s: %d", reads[i].name, r[i].rc);
        ck_assert_uint_gt(r[i].n, 0);
    }
    end();
}

START_TEST(what_reads_does_not_notice) {
    reads_go_on(OWNER, OWNER);
}
END_TEST

/* The proxy dies, too: what it had asked is asked by its next life. */
START_TEST(what_reads_does_not_notice_the_death_of_its_proxy) {
    longer = 5000; /* views go into a block all the same, and CQ has room for all answers */
    reads_go_on(PROXY, OWNER);
}
END_TEST

/* It kills itself at every so many steps of this kind. */
static void reads_die(const char *step) {
    struct ddict_view v;
    longer = 5000;
    setenv("DDICT_TEST_DIE", step, 1);
    setenv("DDICT_TEST_MANAGER", "0", 1);
    begin();
    pid_t first = x.manager[PROXY];
    keys_put_there();
    for (unsigned i = 0; i < 1000; i++) {
        for (size_t k = 0; k < READS; k++)
            ck_assert_int_ge(reads[k].once(i % KEYS), 0);
        fails(DDICT_ENOKEY, ddict_view(d, "absent", 6, &v, 0, 20000));
    }
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[PROXY], first);
    end();
}

START_TEST(a_read_that_was_begun_by_the_proxy_is_answered_once) {
    reads_die("begun:71");
}
END_TEST

START_TEST(a_read_that_was_answered_by_the_proxy_is_answered_once) {
    reads_die("answered:73");
}
END_TEST

START_TEST(a_read_that_was_taken_by_the_proxy_is_answered_once) {
    reads_die("taken:67");
}
END_TEST

/* Nobody waits for what is fetched for the cache: it is forgotten. */
START_TEST(what_is_prefetched_may_be_lost) {
    struct iovec want[KEYS];
    begin();
    keys_put();
    for (unsigned i = 0; i < KEYS; i++)
        want[i] = (struct iovec){.iov_base = keys[i], .iov_len = strlen(keys[i])};
    ok(ddict_freeze(d, 20000));
    usleep(1500000); /* all else is over */
    pid_t was = x.manager[PROXY];
    ck_assert_int_eq(kill(x.manager[OWNER], SIGSTOP), 0);
    ck_assert_int_eq(ddict_prefetch(d, want, KEYS, 20000), KEYS);
    ck_assert_int_eq(kill(was, SIGKILL), 0);
    while (kill(was, 0) == 0)
        usleep(500);
    ck_assert_int_eq(kill(x.manager[OWNER], SIGCONT), 0);
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[PROXY], was);
    for (unsigned i = 0; i < KEYS; i++)
        ck_assert_int_eq(get_one(i), 0);
    ok(ddict_unfreeze(d, 20000));
    end();
}
END_TEST

/* --- what waits --- */
struct blocked {
    pthread_t thread;
    const char *key;
    int timeout_ms, rc;
    unsigned seed;
    double took;
};

static void *is_blocked(void *arg) {
    struct blocked *b = arg;
    struct ddict_view v;
    double began = now_s();
    b->rc = ddict_view(d, b->key, strlen(b->key), &v, DDICT_WAIT, b->timeout_ms);
    b->took = now_s() - began;
    if (b->rc == 0 && (v.len != len_of(b->seed) || !value_is(v.data, v.len, b->seed)))
        b->rc = -EBADMSG;
    if (b->rc == 0)
        ddict_release(&v);
    return NULL;
}

static void who_waits(void (*kills)(unsigned times)) {
    struct blocked view[KEYS], late = {.timeout_ms = 9000};
    char never[32];
    begin();
    key_of(d, OWNER, KEYS, never, sizeof never);
    late.key = never;
    for (unsigned i = 0; i < KEYS; i++) {
        view[i] = (struct blocked){.key = keys[i], .timeout_ms = 60000, .seed = i};
        ck_assert_int_eq(pthread_create(&view[i].thread, NULL, is_blocked, &view[i]), 0);
    }
    ck_assert_int_eq(pthread_create(&late.thread, NULL, is_blocked, &late), 0);
    usleep(500000);
    kills(4);
    keys_put();
    for (unsigned i = 0; i < KEYS; i++) {
        pthread_join(view[i].thread, NULL);
        ck_assert_msg(view[i].rc == 0, "%u: %d", i, view[i].rc);
    }
    pthread_join(late.thread, NULL);
    ck_assert_int_eq(late.rc, -ETIMEDOUT);
    ck_assert_msg(late.took > 8.9 && late.took < 16, "after %.1f s", late.took);
    end();
}

START_TEST(who_waits_is_answered_by_the_next_life) {
    who_waits(owner_kills);
}
END_TEST

START_TEST(who_waits_is_answered_by_the_next_life_of_the_proxy) {
    longer = 5000;
    who_waits(proxy_kills);
}
END_TEST

/* Where no connection can be opened at once, it is tried again. */
START_TEST(who_waits_goes_on_when_the_proxy_can_connect_again) {
    struct blocked view = {.key = keys[0], .timeout_ms = 60000};
    struct rlimit was, none;
    begin();
    ck_assert_int_eq(pthread_create(&view.thread, NULL, is_blocked, &view), 0);
    usleep(500000);
    ck_assert_int_eq(prlimit(x.manager[PROXY], RLIMIT_NOFILE, NULL, &was), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = was.rlim_max};
    ck_assert_int_eq(prlimit(x.manager[PROXY], RLIMIT_NOFILE, &none, NULL), 0);
    ck_assert_int_eq(kill(x.manager[OWNER], SIGKILL), 0);
    usleep(500000); /* some of DD_PEER_TRIES */
    ck_assert_int_eq(prlimit(x.manager[PROXY], RLIMIT_NOFILE, &was, NULL), 0);
    keys_put();
    pthread_join(view.thread, NULL);
    ck_assert_int_eq(view.rc, 0);
    end();
}
END_TEST

/* A subscriber is told what it missed; behind that, each event once. */
START_TEST(who_waits_for_events_is_told_what_it_missed) {
    ddict_sub_t *sub;
    struct ddict_event e;
    begin();
    ok(ddict_subscribe(d, "k", 1, 0, &sub, -1));
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(ddict_next_event(sub, &e, 300), 0); /* it waits there */
        owner_kill();
        ck_assert_int_eq(ddict_next_event(sub, &e, 20000), 1);
        ck_assert_int_eq(e.kind, DDICT_EVENT_MISSED);
        ok(ddict_put(d, keys[i], strlen(keys[i]), &i, sizeof i, 0, 20000));
        ck_assert_int_eq(ddict_next_event(sub, &e, 20000), 1);
        ck_assert(e.kind == DDICT_EVENT_PUT && e.klen == strlen(keys[i]) &&
                  memcmp(e.key, keys[i], e.klen) == 0);
        ck_assert_int_eq(ddict_next_event(sub, &e, 300), 0);
    }
    ddict_unsubscribe(sub);
    end();
}
END_TEST

/* Its proxy has answered that the owner can't be reached: that is not why. */
START_TEST(who_is_answered_behind_the_end_is_told_why) {
    ddict_async_t *q;
    struct ddict_op done, wait = {.what = DDICT_OP_VIEW, .flags = DDICT_WAIT, .timeout_ms = 60000};
    begin();
    wait.key = keys[0];
    wait.klen = strlen(keys[0]);
    ok(ddict_async_open(d, &q));
    ck_assert_int_eq(ddict_async_submit(q, &wait, 1), 1);
    usleep(500000); /* it waits there */
    x.broken = true;
    ck_assert_int_eq(kill(x.pid[1], SIGKILL), 0);
    for (double end = now_s() + 30; kill(x.manager[PROXY], 0) == 0; usleep(10000))
        ck_assert_msg(now_s() < end, "the dictionary does not end");
    ck_assert_int_eq(ddict_async_poll(q, &done, 1, 20000), 1);
    ck_assert_int_eq(done.status, DDICT_ELOST);
    ck_assert_msg(strstr(done.text, "is lost: its ddictd ended"), "%s", done.text);
    free(done.text);
    ddict_async_close(q);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

/* --- each change is made once --- */
#define QUEUE keys[30]
static struct once once = {.queue = QUEUE, .sum = keys[31], .count = keys[32], .rounds = 120};

static size_t own_len(unsigned i) {
    return i % 16 ? 500 : LONG;
}

static void writers_check(unsigned kills) {
    for (unsigned w = 0; w < ONCE_WRITERS; w++)
        for (unsigned i = 0; i < ONCE_OWN; i++)
            once.own[w][i] = keys[w * ONCE_OWN + i];
    once.len = own_len;
    once.kills = owner_kills;
    once_check(d, &once, kills);
}

START_TEST(writers_notice_no_kill) {
    begin();
    writers_check(12);
    end();
}
END_TEST

/* The owner kills itself at every so many steps of this kind. */
static void once_dies(const char *step) {
    setenv("DDICT_TEST_DIE", step, 1);
    setenv("DDICT_TEST_MANAGER", "1", 1);
    begin();
    pid_t first = x.manager[OWNER];
    writers_check(0);
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[OWNER], first);
    end();
}

START_TEST(a_change_that_was_begun_is_made) {
    once_dies("begun:71");
}
END_TEST

START_TEST(a_change_that_was_made_is_answered) {
    once_dies("changed:11");
}
END_TEST

START_TEST(a_change_whose_answer_was_not_sent_is_answered) {
    once_dies("answered:67");
}
END_TEST

/* Both sides live; each so many messages that come to one of them the connection ends. */
static void cut_begin(const char *manager, const char *each) {
    setenv("DDICT_TEST_CUT_EACH", each, 1);
    setenv("DDICT_TEST_MANAGER", manager, 1);
    begin();
}

static void once_cut(const char *manager, const char *each) {
    cut_begin(manager, each);
    pid_t first = x.manager[OWNER];
    writers_check(0);
    dict_managers(&x, d);
    ck_assert_int_eq(x.manager[OWNER], first);
    end();
}

START_TEST(a_change_whose_request_was_lost_is_made) {
    once_cut("1", "23");
}
END_TEST

START_TEST(a_change_whose_answer_was_lost_is_not_made_again) {
    once_cut("0", "23");
}
END_TEST

START_TEST(writers_that_wait_notice_no_cut) {
    once.wait = DDICT_WAIT;
    once_cut("0", "19");
}
END_TEST

START_TEST(writers_that_wait_notice_no_lost_request) {
    once.wait = DDICT_WAIT;
    once_cut("1", "19");
}
END_TEST

START_TEST(writers_that_wait_notice_no_kill) {
    once.wait = DDICT_WAIT;
    begin();
    writers_check(12);
    end();
}
END_TEST

START_TEST(a_pop_that_waited_and_was_made_is_answered) {
    once.wait = DDICT_WAIT;
    once_dies("changed:61");
}
END_TEST

static void *is_pushing(void *arg) {
    struct blocked *b = arg;
    uint64_t n = b->seed;
    b->rc = ddict_push(d, b->key, strlen(b->key), &n, sizeof n, DDICT_WAIT, 1, b->timeout_ms);
    return NULL;
}

/* Each value that waits for room comes in once, in the order of their senders. */
START_TEST(who_waits_for_room_is_let_in_once) {
    enum { PUSHES = 6 };
    struct blocked push[PUSHES];
    struct ddict_view v;
    uint64_t n = 0;
    begin();
    ok(ddict_push(d, QUEUE, strlen(QUEUE), &n, sizeof n, 0, 1, 20000));
    for (unsigned i = 0; i < PUSHES; i++) {
        push[i] = (struct blocked){.key = QUEUE, .timeout_ms = 60000, .seed = i + 1};
        ck_assert_int_eq(pthread_create(&push[i].thread, NULL, is_pushing, &push[i]), 0);
        usleep(400000); /* in this order */
    }
    for (unsigned i = 0; i <= PUSHES; i++) {
        if (i % 2 == 0)
            owner_kill();
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

static void *is_pushing_long(void *arg) {
    struct blocked *b = arg;
    b->rc = ddict_push(d, QUEUE, strlen(QUEUE), val, LONG, DDICT_WAIT, 1, 60000);
    if (b->rc == DDICT_EBUSY && !strstr(ddict_errmsg(), "wait at managers of other nodes as may"))
        b->rc = -EBADMSG;
    return NULL;
}

/* The proxy keeps copies of values that wait for room: it refuses what would be too much. */
START_TEST(values_that_wait_for_room_are_kept_up_to_a_limit) {
    enum { PUSHES = 120, KEPT = DD_COPIES_MAX / LONG + 1 };
    struct blocked push[PUSHES];
    struct ddict_view v;
    unsigned in = 0, done = 0;
    int rc;
    begin();
    value_fill(val, LONG, 7);
    ok(ddict_push(d, QUEUE, strlen(QUEUE), val, LONG, 0, 1, 20000));
    for (unsigned i = 0; i < PUSHES; i++) {
        push[i] = (struct blocked){.rc = 1};
        ck_assert_int_eq(pthread_create(&push[i].thread, NULL, is_pushing_long, &push[i]), 0);
    }
    usleep(1000000); /* all were taken */
    owner_kill();
    /* a pop that waits is not refused */
    while ((rc = ddict_pop(d, QUEUE, strlen(QUEUE), &v, DDICT_WAIT, in <= KEPT ? 20000 : 3000)) ==
           0) {
        ck_assert(v.len == LONG && value_is(v.data, LONG, 7));
        ddict_release(&v);
        in++;
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    for (unsigned i = 0; i < PUSHES; i++) {
        pthread_join(push[i].thread, NULL);
        ck_assert_msg(push[i].rc == 0 || push[i].rc == DDICT_EBUSY, "%u: %d", i, push[i].rc);
        done += push[i].rc == 0;
    }
    ck_assert_uint_eq(in, done + 1);
    ck_assert_msg(done >= KEPT && done <= 2 * KEPT + 1, "%u were kept", done);
    end();
}
END_TEST

static void *is_putting(void *arg) {
    struct blocked *b = arg;
    b->rc = ddict_put(d, b->key, strlen(b->key), "new", 3, 0, b->timeout_ms);
    return NULL;
}

/* Ids go on over the lives of a proxy: a result of an earlier one is not taken for its own. */
START_TEST(a_proxy_that_came_back_asks_for_no_result_of_before) {
    struct blocked put = {.key = keys[0], .timeout_ms = 20000};
    char got[8];
    size_t n = 0;
    begin();
    ok(ddict_put(d, keys[0], strlen(keys[0]), "old", 3, 0, 20000)); /* the second it asks */
    usleep(1500000);                                                /* the answer is read */
    manager_kill(PROXY);                                            /* the first of the next life */
    ck_assert_int_eq(kill(x.manager[OWNER], SIGSTOP), 0);
    ck_assert_int_eq(pthread_create(&put.thread, NULL, is_putting, &put), 0);
    usleep(500000); /* the second is in the owner's socket, and goes with it */
    owner_kill();
    pthread_join(put.thread, NULL);
    ck_assert_int_eq(put.rc, 0);
    ok(ddict_get(d, keys[0], strlen(keys[0]), got, sizeof got, &n, NULL, 0, 20000));
    ck_assert(n == 3 && memcmp(got, "new", 3) == 0);
    end();
}
END_TEST

/* --- values in pieces --- */
#define LARGE_N   16u
#define LARGE_LEN (1500u << 10)
static unsigned char large[LARGE_LEN];

/* Gets and views of a quarter each: what a view has brought to the node would go out in pieces to a
 * get of the same moment, and no life can go on with that. */
static void *is_reading_large(void *arg) {
    unsigned char *buf = malloc(LARGE_LEN);
    struct reader *r = arg;
    while (r->rc >= 0 && !__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        unsigned i = LARGE_N / 2 + (r->what ? LARGE_N / 4 : 0) + r->n++ % (LARGE_N / 4);
        struct ddict_view v = {.data = buf};
        size_t n = strlen(keys[i]);
        r->rc = r->what ? ddict_view(d, keys[i], n, &v, 0, 20000)
                        : ddict_get(d, keys[i], n, buf, LARGE_LEN, &v.len, NULL, 0, 20000);
        if (r->rc == 0 && (v.len != LARGE_LEN || !value_is(v.data, LARGE_LEN, i)))
            r->rc = -EBADMSG;
        if (r->rc == 0 && r->what)
            ddict_release(&v);
    }
    if (r->rc < 0)
        fprintf(stderr, "large %u: %d %s\n", (unsigned)r->what, r->rc, ddict_errmsg());
    free(buf);
    return NULL;
}

/* Pops the first half, in time with the kills. */
static void *is_popping_large(void *arg) {
    struct reader *r = arg;
    for (unsigned i = 0; r->rc == 0 && i < LARGE_N / 2; i++) {
        struct ddict_view v;
        usleep(100000);
        r->rc = ddict_pop(d, keys[i], strlen(keys[i]), &v, 0, 20000);
        if (r->rc == 0 && (v.len != LARGE_LEN || !value_is(v.data, LARGE_LEN, i)))
            r->rc = -EBADMSG;
        if (r->rc == 0)
            ddict_release(&v);
    }
    return NULL;
}

static void values_come_whole(int one, int other) {
    struct reader r[5] = {{.what = 0}, {.what = 0}, {.what = 1}, {.what = 1}, {.what = 2}};
    begin();
    for (unsigned i = 0; i < LARGE_N; i++) {
        value_fill(large, LARGE_LEN, i);
        ok(ddict_put(d, keys[i], strlen(keys[i]), large, LARGE_LEN, 0, 20000));
    }
    usleep(100000); /* the last turn of that is over */
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(pthread_create(&r[i].thread, NULL,
                                        r[i].what < 2 ? is_reading_large : is_popping_large, &r[i]),
                         0);
    managers_kill(12, one, other);
    pthread_join(r[4].thread, NULL);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 4; i++)
        pthread_join(r[i].thread, NULL);
    for (size_t i = 0; i < 5; i++)
        ck_assert_msg(r[i].rc == 0, "%zu: %d", i, r[i].rc);
    ck_assert_int_eq(ddict_len(d, 20000), LARGE_N / 2);
    end();
}

START_TEST(values_in_pieces_come_whole) {
    values_come_whole(OWNER, OWNER);
}
END_TEST

START_TEST(values_in_pieces_come_whole_when_their_proxy_dies) {
    values_come_whole(PROXY, PROXY);
}
END_TEST

START_TEST(values_in_pieces_come_whole_when_either_dies) {
    values_come_whole(PROXY, OWNER);
}
END_TEST

static void large_put_there(void) {
    ddict_t *there = dict_attach(&x, OWNER);
    for (unsigned i = 0; i < LARGE_N; i++) {
        value_fill(large, LARGE_LEN, i);
        ok(ddict_put(there, keys[i], strlen(keys[i]), large, LARGE_LEN, 0, 20000));
    }
    ddict_detach(there);
}

/* The proxy dies at each so many parts of what it passes on. */
static void parts_die(const char *step) {
    size_t n;
    setenv("DDICT_TEST_DIE", step, 1);
    setenv("DDICT_TEST_MANAGER", "0", 1);
    begin();
    pid_t first = x.manager[PROXY];
    large_put_there();
    for (unsigned i = 0; i < 3 * LARGE_N; i++) {
        const char *key = keys[i % LARGE_N];
        memset(large, 0, sizeof large);
        ok(ddict_get(d, key, strlen(key), large, LARGE_LEN, &n, NULL, 0, 20000));
        ck_assert(n == LARGE_LEN && value_is(large, n, i % LARGE_N));
    }
    dict_managers(&x, d);
    ck_assert_int_ne(x.manager[PROXY], first);
    end();
}

START_TEST(a_part_that_was_noted_comes_once) {
    parts_die("noted:29");
}
END_TEST

START_TEST(a_part_that_was_passed_on_comes_once) {
    parts_die("passed:31");
}
END_TEST

START_TEST(the_beginning_of_a_value_comes_once) {
    parts_die("noted:1");
}
END_TEST

#define OTHER 100u /* what value i is replaced by has the bytes of value i + OTHER */

static void *is_replacing_large(void *arg) {
    unsigned char *value = malloc(LARGE_LEN);
    ddict_t *there = arg;
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
        unsigned k = i % 4;
        value_fill(value, LARGE_LEN, i % 8 < 4 ? k + OTHER : k);
        ok(ddict_put(there, keys[k], strlen(keys[k]), value, LARGE_LEN, 0, 20000));
    }
    free(value);
    return NULL;
}

/* The connection ends on the way of some, and what comes behind it is another value. */
START_TEST(a_value_that_was_replaced_on_its_way_is_read_anew) {
    pthread_t writer;
    ddict_t *there;
    size_t n;
    cut_begin("0", "47");
    large_put_there();
    there = dict_attach(&x, OWNER);
    ck_assert_int_eq(pthread_create(&writer, NULL, is_replacing_large, there), 0);
    for (unsigned i = 0; i < 10 * LARGE_N; i++) {
        struct ddict_want want = {.key = keys[i % 4], .klen = strlen(keys[i % 4])};
        if (i % 8 < 4) {
            ok(ddict_get(d, want.key, want.klen, large, LARGE_LEN, &n, NULL, 0, 20000));
            ck_assert_uint_eq(n, LARGE_LEN);
            ck_assert(value_is(large, n, i % 4) || value_is(large, n, i % 4 + OTHER));
            continue;
        }
        ck_assert_int_eq(ddict_get_many(d, &want, 1, 0, 20000), 1);
        ck_assert_msg(want.status == 0, "%d %s", want.status, ddict_errmsg());
        ck_assert(value_is(want.view.data, want.view.len, i % 4) ||
                  value_is(want.view.data, want.view.len, i % 4 + OTHER));
        ddict_release(&want.view);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(writer, NULL);
    ddict_detach(there);
    end();
}
END_TEST

static uint64_t bytes_out(void) {
    struct ddict_manager_stats *s;
    ck_assert_int_eq(ddict_stats(d, &s, sizeof *s, 20000), 2);
    uint64_t n = s[OWNER].bytes_out;
    free(s);
    return n;
}

/* A value for which the proxy has no room passes through it. The connection ends on the way of
 * some. */
static void popped_go_on(void) {
    struct ddict_view kept[2], v;
    large_put_there();
    for (unsigned i = 0; i < 2; i++)
        ok(ddict_view(d, keys[i], strlen(keys[i]), &kept[i], 0, 20000));
    uint64_t before = bytes_out();
    for (unsigned i = 2; i < LARGE_N; i++) {
        ok(ddict_pop(d, keys[i], strlen(keys[i]), &v, 0, 20000));
        ck_assert(v.len == LARGE_LEN && value_is(v.data, LARGE_LEN, i));
        ddict_release(&v);
        fails(DDICT_ENOKEY, ddict_pop(d, keys[i], strlen(keys[i]), &v, 0, 20000));
    }
    ck_assert_uint_gt(bytes_out() - before, (LARGE_N - 2) * (uint64_t)LARGE_LEN); /* some twice */
    for (unsigned i = 0; i < 2; i++)
        ddict_release(&kept[i]);
    end();
}

START_TEST(popped_values_in_pieces_go_on_behind_their_beginning) {
    cut_begin("0", "47");
    popped_go_on();
}
END_TEST

START_TEST(popped_values_in_pieces_go_on_when_their_proxy_dies) {
    setenv("DDICT_TEST_DIE", "noted:29", 1);
    setenv("DDICT_TEST_MANAGER", "0", 1);
    begin();
    popped_go_on();
}
END_TEST

/* The owner keeps no value that its proxy has got; a proxy that comes back asks for none. */
START_TEST(what_was_popped_is_not_kept) {
    ddict_async_t *q;
    struct ddict_op pop[KEYS], done;
    begin();
    for (unsigned round = 0; round < 3; round++) {
        keys_put();
        ok(ddict_async_open(d, &q));
        for (unsigned i = 0; i < KEYS; i++)
            pop[i] = (struct ddict_op){
                .what = DDICT_OP_POP, .key = keys[i], .klen = strlen(keys[i]), .timeout_ms = 20000};
        ck_assert_int_eq(ddict_async_submit(q, pop, KEYS), KEYS);
        if (round == 1)
            owner_kill();
        for (unsigned i = 0; i < KEYS; i++) {
            ck_assert_int_eq(ddict_async_poll(q, &done, 1, 20000), 1);
            ck_assert_int_eq(done.status, 0);
            ddict_release(&done.view);
        }
        ddict_async_close(q);
        double end = now_s() + 30;
        while (dict_retired(d) > LONG && now_s() < end) {
            ok(ddict_put(d, keys[0], strlen(keys[0]), "", 0, 0, 20000)); /* lets it look */
            ok(ddict_del(d, keys[0], strlen(keys[0]), 20000));
            usleep(20000);
        }
        ck_assert_uint_le(dict_retired(d), LONG);
    }
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {what_reads_does_not_notice,
                                  what_reads_does_not_notice_the_death_of_its_proxy,
                                  a_read_that_was_begun_by_the_proxy_is_answered_once,
                                  a_read_that_was_answered_by_the_proxy_is_answered_once,
                                  a_read_that_was_taken_by_the_proxy_is_answered_once,
                                  what_is_prefetched_may_be_lost,
                                  who_waits_is_answered_by_the_next_life_of_the_proxy,
                                  who_waits_is_answered_by_the_next_life,
                                  who_waits_goes_on_when_the_proxy_can_connect_again,
                                  who_waits_for_events_is_told_what_it_missed,
                                  who_is_answered_behind_the_end_is_told_why,
                                  writers_notice_no_kill,
                                  a_change_that_was_begun_is_made,
                                  a_change_that_was_made_is_answered,
                                  a_change_whose_answer_was_not_sent_is_answered,
                                  a_change_whose_request_was_lost_is_made,
                                  a_change_whose_answer_was_lost_is_not_made_again,
                                  writers_that_wait_notice_no_cut,
                                  writers_that_wait_notice_no_lost_request,
                                  writers_that_wait_notice_no_kill,
                                  a_value_that_was_replaced_on_its_way_is_read_anew,
                                  popped_values_in_pieces_go_on_behind_their_beginning,
                                  popped_values_in_pieces_go_on_when_their_proxy_dies,
                                  a_pop_that_waited_and_was_made_is_answered,
                                  who_waits_for_room_is_let_in_once,
                                  values_that_wait_for_room_are_kept_up_to_a_limit,
                                  a_proxy_that_came_back_asks_for_no_result_of_before,
                                  values_in_pieces_come_whole,
                                  values_in_pieces_come_whole_when_their_proxy_dies,
                                  values_in_pieces_come_whole_when_either_dies,
                                  a_part_that_was_noted_comes_once,
                                  a_part_that_was_passed_on_comes_once,
                                  the_beginning_of_a_value_comes_once,
                                  what_was_popped_is_not_kept};
    return tests_main("client_lives_far", argc, argv, tests, sizeof tests / sizeof *tests);
}
