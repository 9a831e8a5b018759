/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_alive.c - who a client is, and whether it lives. Invariants: it lives from its attach to the
 * end of its process or handle, whatever its managers do; it is called dead soon after that, on every
 * node; and nothing that it asked for is done once it is called so.
 */
#include "client_dict.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB    (1u << 20)
#define WAIT   20000
#define SOON_S 20.0 /* dead is said at once; this is for a busy machine */

struct other { /* a process with a handle */
    pid_t pid;
    int say, hear;
    struct ddict_client who;
};

static struct dict x;
static ddict_t *d[2];

static void before(void) {
    dict_begin_all(&x, d, 2, 4, 128 * MIB);
}
static void after(void) {
    dict_end_all(&x, d);
}

/* A process of that node, which says who it is. With a key it puts that when it is told to. */
static struct other other_start(int node, const char *key, size_t klen) {
    int in[2], out[2];
    struct other o = {0};
    ck_assert(pipe(in) == 0 && pipe(out) == 0);
    o.pid = fork();
    if (o.pid == 0) {
        ddict_t *own = dict_attach(&x, node);
        struct ddict_client me;
        if (ddict_self(own, &me, WAIT) < 0 || write(out[1], &me, sizeof me) != sizeof me)
            _exit(98);
        close(in[1]);
        await(in[0]);
        if (key)
            ddict_put(own, key, klen, "late", 4, 0, WAIT);
        await(in[0]);
        ddict_detach(own);
        tell(out[1]);
        await(in[0]);
        _exit(0);
    }
    close(in[0]);
    close(out[1]);
    o.say = in[1];
    o.hear = out[0];
    ck_assert(read(o.hear, &o.who, sizeof o.who) == sizeof o.who);
    return o;
}

static void other_kill(struct other *o) {
    int status;
    kill(o->pid, SIGKILL);
    ck_assert(waitpid(o->pid, &status, 0) == o->pid && WIFSIGNALED(status));
    close(o->say);
    close(o->hear);
}

static int lives(const struct other *o, int node) {
    int rc = ddict_alive(d[node], o->who, WAIT);
    ok(rc);
    return rc;
}

static void dead_soon(const struct other *o) {
    double end = now_s() + SOON_S;
    for (int i = 0; i < 2; i++) {
        while (lives(o, i) == 1) {
            ck_assert_msg(now_s() < end, "node %d takes the dead client for alive", i);
            usleep(1000);
        }
        ck_assert_int_eq(lives(o, i), 0); /* for good */
    }
}

static void lives_for(const struct other *o, int node, double seconds) {
    for (double end = now_s() + seconds; now_s() < end; usleep(5000))
        ck_assert_int_eq(lives(o, node), 1);
}

START_TEST(a_client_lives_until_its_process_ends) {
    for (int node = 0; node < 2; node++) {
        struct other o = other_start(node, NULL, 0);
        ck_assert(o.who.node == (unsigned)node && o.who.id > 0);
        ck_assert(lives(&o, 0) == 1 && lives(&o, 1) == 1);
        kill(o.pid, SIGSTOP);
        lives_for(&o, 0, 0.5);
        lives_for(&o, 1, 0.5);
        other_kill(&o);
        dead_soon(&o);
        struct other p = other_start(node, NULL, 0);
        ck_assert(p.who.id != o.who.id); /* never again */
        other_kill(&p);
    }
}
END_TEST

START_TEST(a_client_is_one_handle_of_one_process) {
    struct ddict_client a, b, c;
    ddict_t *second = dict_attach(&x, 0);
    ok(ddict_self(d[0], &a, WAIT));
    ok(ddict_self(d[0], &b, 0));
    ck_assert(a.node == 0 && a.node == b.node && a.id == b.id);
    ok(ddict_self(second, &b, 0));
    ck_assert(b.node == 0 && a.id != b.id);
    ck_assert_int_eq(ddict_alive(d[0], a, 0), 1);
    fails(-ETIMEDOUT, ddict_alive(d[0], b, 0));
    ck_assert_int_eq(ddict_alive(d[0], b, WAIT), 1);
    pid_t p = fork();
    if (p == 0) {
        if (ddict_self(second, &c, WAIT) < 0 || c.id == b.id || ddict_alive(second, b, WAIT) != 1)
            _exit(1);
        _exit(ddict_alive(second, c, WAIT) == 1 ? 0 : 2);
    }
    expect_exit(p, 0);
    ck_assert_int_eq(ddict_alive(d[0], b, WAIT), 1);
    ddict_detach(second);
    struct other o = {.who = b};
    dead_soon(&o);
    fails(-EINVAL, ddict_alive(d[0], (struct ddict_client){0}, WAIT));
    fails(-EINVAL, ddict_alive(d[0], (struct ddict_client){.node = 2, .id = 1}, WAIT));
    ck_assert_int_eq(ddict_alive(d[0], (struct ddict_client){.node = 1, .id = 1ull << 60}, WAIT),
                     0);
}
END_TEST

START_TEST(a_client_outlives_its_managers) {
    struct other o = other_start(1, NULL, 0);
    x.broken = true;
    kill(x.manager[1], SIGKILL);
    lives_for(&o, 0, 0.3);
    lives_for(&o, 1, 0.3);
    kill(x.manager[3], SIGKILL);
    other_kill(&o); /* at the same moment */
    dead_soon(&o);
    dict_managers(&x, d[0]);
}
END_TEST

/* What a dead client asked of another node's manager, which does not take it. proxy: that of its own node
 * dies, too. */
static void late_put(bool proxy) {
    char key[32];
    struct ddict_view v;
    size_t k = key_of(d[0], 0, 0, key, sizeof key), vlen = 0;
    struct other o = other_start(1, key, k);
    ok(ddict_put(d[1], key, k, "first", 5, 0, WAIT)); /* so each of its managers has a connection */
    ok(ddict_len(d[1], WAIT));
    kill(x.manager[0], SIGSTOP);
    tell(o.say);
    usleep(300000); /* the put is on its way */
    other_kill(&o);
    if (proxy)
        for (int i = 1; i < 4; i += 2)
            kill(x.manager[i], SIGKILL);
    lives_for(&o, 1, 2);
    kill(x.manager[0], SIGCONT);
    dead_soon(&o);
    ok(ddict_contains(d[0], key, k, &vlen, WAIT));
    for (double end = now_s() + 0.5; now_s() < end; usleep(2000)) {
        ok(ddict_view(d[0], key, k, &v, 0, WAIT));
        ck_assert_uint_eq(v.len, vlen);
        ddict_release(&v);
    }
    if (!proxy)
        ck_assert_uint_eq(vlen, 4); /* else the connection that had it is gone, perhaps with it */
}

START_TEST(nothing_of_a_dead_client_is_done_later) {
    late_put(false);
}
END_TEST

START_TEST(nothing_of_a_dead_client_is_done_later_though_its_manager_died) {
    x.broken = true;
    late_put(true);
    dict_managers(&x, d[0]);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        a_client_lives_until_its_process_ends, a_client_is_one_handle_of_one_process,
        a_client_outlives_its_managers, nothing_of_a_dead_client_is_done_later,
        nothing_of_a_dead_client_is_done_later_though_its_manager_died};
    return tests_main_with("client_alive", before, after, argc, argv, tests,
                           sizeof tests / sizeof *tests);
}
