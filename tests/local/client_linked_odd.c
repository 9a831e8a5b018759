/* SPDX-License-Identifier: Apache-2.0 */
/* client_linked_odd.c - values that lie near who put them (DDICT_NEAR), where something is odd: a link
 * without its value that nobody may remove, clients that lie about links, and a working set. */
#include "client_dict.h"
#include "raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB  1048576u
#define MUCH 300000u /* more than a message has */

static struct dict x;
static ddict_t *d[2];
static char key[64]; /* manager 0, of node 0, owns it */
static size_t klen;

static void before(void) {
    dict_begin_all(&x, d, 2, 4, 64 * MIB);
    klen = key_of(d[0], 0, 0, key, sizeof key);
}
static void after(void) {
    dict_end_all(&x, d);
}

/* --- a link without its value --- */

/* As a clear() that has come to the manager of the value alone. */
static void value_take_away(void) {
    ddict_iter_t *it;
    const void *k;
    size_t n;
    ok(ddict_iter_open_flags(d[0], -1, NULL, 0, DDICT_ITER_HIDDEN, &it, -1));
    while (ddict_iter_next(it, &k, &n) == 1)
        if (n != klen)
            ok(ddict_del(d[0], k, n, -1));
    ddict_iter_close(it);
}

static void unfreeze_and_put(void) {
    usleep(300000);
    if (ddict_unfreeze(d[0], -1) != 0 || ddict_put(d[1], key, klen, "new", 3, DDICT_NEAR, -1) != 0)
        _exit(1);
    _exit(0);
}

START_TEST(who_waits_for_a_cleared_value_waits_while_it_is_frozen) {
    struct rlimit stack = {.rlim_cur = 128 * 1024, .rlim_max = RLIM_INFINITY};
    ok(setrlimit(RLIMIT_STACK,
                 &stack)); /* who looks again and again does not do so deeper and deeper */
    for (int many = 0; many < 2; many++)
        for (int at = 0; at < 2; at++) {
            struct ddict_view v;
            struct ddict_want w = {.key = key, .klen = klen};
            ok(ddict_put(d[1], key, klen, "near", 4, DDICT_NEAR, -1));
            value_take_away();
            ok(ddict_freeze(d[0], -1));
            fails(DDICT_ENOKEY, ddict_view(d[at], key, klen, &v, 0, -1));
            double began = now_s();
            fails(-ETIMEDOUT, ddict_view(d[at], key, klen, &v, DDICT_WAIT, 500));
            ck_assert(now_s() - began > 0.4 && now_s() - began < 5);
            pid_t p = fork();
            if (p == 0)
                unfreeze_and_put();
            if (many)
                ck_assert_int_eq(ddict_get_many(d[at], &w, 1, DDICT_WAIT, 20000), 1);
            else
                ok(ddict_view(d[at], key, klen, &w.view, DDICT_WAIT, 20000));
            ck_assert(w.view.len == 3 && memcmp(w.view.data, "new", 3) == 0);
            ddict_release(&w.view);
            expect_exit(p, 0);
        }
}
END_TEST

/* --- freezes --- */

/* A freeze comes between the steps of a put again and again. */
START_TEST(freezes_in_the_midst_of_puts_leave_no_values) {
    pid_t p = fork();
    if (p == 0)
        for (int i = 0; i < 300; i++) {
            if (ddict_freeze(d[0], -1) != 0 || ddict_unfreeze(d[0], -1) != 0)
                _exit(1);
            usleep(300);
        }
    if (p == 0)
        _exit(0);
    int status, n = 0, refused = 0;
    while (waitpid(p, &status, WNOHANG) == 0) {
        int rc = ddict_put(d[1], key, klen, "near", 4, DDICT_NEAR, -1);
        ck_assert_msg(rc == 0 || rc == DDICT_EFROZEN, "%d %s", rc, ddict_errmsg());
        n += rc == 0;
        refused += rc != 0;
    }
    ck_assert(status == 0 && n > 10 && refused > 10);
    ok(ddict_put(d[1], key, klen, "near", 4, DDICT_NEAR, -1));
    struct ddict_manager_stats *s;
    uint64_t hidden = 0;
    ok(ddict_stats(d[0], &s, sizeof *s, -1));
    for (int m = 0; m < 4; m++)
        hidden += s[m].hidden_keys;
    free(s);
    ck_assert_uint_eq(hidden, 1);
}
END_TEST

/* --- asynchronous calls --- */

/* The answer that the key has a link is there, and nobody polls. */
START_TEST(a_set_that_is_closed_begins_no_new_requests) {
    char other[64], buf[8];
    size_t n = key_of(d[0], 0, 1, other, sizeof other), len;
    for (int detach = 0; detach < 2; detach++) {
        ddict_async_t *q;
        ddict_t *e = dict_attach(&x, 0);
        struct ddict_op done, o = {.what = DDICT_OP_PUT,
                                   .key = key,
                                   .klen = klen,
                                   .buf = (void *)"put",
                                   .len = 3,
                                   .timeout_ms = -1};
        ok(ddict_put(d[1], key, klen, "near", 4, DDICT_NEAR, -1));
        ok(ddict_async_open(e, &q));
        ck_assert_int_eq(ddict_async_submit(q, &o, 1), 1);
        usleep(100000);
        fails(DDICT_ENOKEY, ddict_del(e, other, n, -1)); /* takes both answers */
        if (detach) {
            ok(ddict_detach(e));
            ck_assert_int_eq(ddict_async_poll(q, &done, 1, 0), 1);
            ck_assert_int_eq(done.status, -ECANCELED);
            free(done.text);
        }
        ddict_async_close(q);
        ok(ddict_get(d[0], key, klen, buf, sizeof buf, &len, NULL, 0, -1));
        ck_assert(len == 4 && memcmp(buf, "near", 4) == 0);
        if (!detach)
            ok(ddict_detach(e));
    }
}
END_TEST

/* --- who lies --- */

/* A process of its own, of each node: a manager ends the lane of who breaks the rules, and raw.c the
 * process then. */
static void lie(unsigned flags, const void *k, size_t n, const void *val, size_t len) {
    for (int at = 0; at < 2; at++) {
        pid_t p = fork();
        if (p == 0) {
            struct raw r;
            struct raw_answer a = {0};
            setenv("DDICT_NODE", x.node[at], 1);
            setenv("PROBE_MS", "300", 1);
            raw_attach(&r);
            if (raw_put(&r, k, n, val, len, flags) == 0)
                raw_get(&r, MSG_HEAD, k, n, MSGF_LINK, 0, &a, false);
            _exit(0);
        }
        ck_assert(p > 0 && waitpid(p, NULL, 0) == p);
    }
}

static void works(void) {
    struct ddict_view v;
    for (int at = 0; at < 2; at++) {
        int rc = ddict_view(d[at], key, klen, &v, 0, 3000);
        ck_assert_msg(rc == DDICT_ENOKEY || rc == DDICT_EPROTO || rc == 0, "%d %s", rc,
                      ddict_errmsg());
        if (rc == 0)
            ddict_release(&v);
    }
    ok(ddict_put(d[1], key, klen, "near", 4, DDICT_NEAR, -1));
    for (int at = 0; at < 2; at++) {
        ok(ddict_view(d[at], key, klen, &v, 0, -1));
        ck_assert(v.len == 4 && memcmp(v.data, "near", 4) == 0);
        ddict_release(&v);
    }
    ok(ddict_del(d[0], key, klen, -1));
}

static uint64_t lives(void) {
    pid_t was[4];
    memcpy(was, x.manager, sizeof was);
    dict_managers(&x, d[0]);
    return memcmp(was, x.manager, sizeof was) == 0;
}

START_TEST(a_link_has_the_length_of_one_and_is_no_value_of_a_queue) {
    static const size_t lens[] = {0, 1, 8, 31, 33, 1000, MUCH};
    static uint8_t much[MUCH];
    dict_managers(&x, d[0]);
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        lie(MSGF_LINK, key, klen, much, lens[i]);
        works();
    }
    lie(MSGF_LINK | MSGF_APPEND, key, klen, much, 32);
    works();
    ck_assert(lives());
}
END_TEST

/* The value of a link whose name is its own, as of one whose value is again a link. */
START_TEST(a_hidden_key_has_no_link) {
    uint8_t self[100] = "\0ddict.at/";
    uint64_t link[4] = {4, 7, 7, 0}; /* FORMAT 10: of manager 0 on node 0 */
    uint64_t name[3] = {0, 7, 7};
    size_t n = 10;
    memset(self + n, 0, 4);
    n += 4;
    memcpy(self + n, "\0ddict.near/", 12);
    n += 12;
    memcpy(self + n, name, sizeof name);
    n += sizeof name;
    lie(MSGF_LINK, self, n, link, sizeof link);
    lie(MSGF_LINK, key, klen, link, sizeof link);
    works();
    dict_managers(&x, d[0]);
    link[3] = (uint64_t)77 << 32 | 99; /* there is no such manager or node */
    lie(MSGF_LINK, key, klen, link, sizeof link);
    works();
    ck_assert(lives());
}
END_TEST

/* --- a working set --- */

START_TEST(a_working_set_has_no_near_place) {
    struct dict y;
    ddict_t *e[1];
    struct ddict_place p;
    setenv("DDICT_TEST_WORKING_SET", "2", 1);
    dict_begin_all(&y, e, 1, 2, 64 * MIB);
    unsetenv("DDICT_TEST_WORKING_SET");
    fails(-EINVAL, ddict_reserve(e[0], "k", 1, 5, DDICT_NEAR, &p));
    ok(ddict_reserve(e[0], "k", 1, 5, 0, &p));
    memcpy(p.data, "value", 5);
    ok(ddict_commit(&p, -1));
    dict_end_all(&y, e);
    fails(-EINVAL, ddict_reserve(d[1], "sddict.k", 8, 5, DDICT_NEAR, &p));
    fails(-EINVAL, ddict_reserve(d[1], "k", 1, 5, DDICT_NEAR | DDICT_LOADED, &p));
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        who_waits_for_a_cleared_value_waits_while_it_is_frozen,
        freezes_in_the_midst_of_puts_leave_no_values,
        a_set_that_is_closed_begins_no_new_requests,
        a_link_has_the_length_of_one_and_is_no_value_of_a_queue,
        a_hidden_key_has_no_link,
        a_working_set_has_no_near_place,
    };
    return tests_main_with("client_linked_odd", before, after, argc, argv, tests,
                           sizeof tests / sizeof *tests);
}
