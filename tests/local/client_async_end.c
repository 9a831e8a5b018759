/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_async_end.c - what is under way when something ends: the process forks, the handle or the
 * set of operations is closed, managers hang or die. Invariants: operations end in time whatever
 * happens to managers, handle or process; nothing is left after close.
 */
#include "client_async.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

START_TEST(a_child_has_no_part_in_the_operations_of_its_parent) {
    begin(2);
    char key[32];
    size_t klen = key_of(d, 1, 0, key, 32);
    struct ddict_op j = op_of(DDICT_OP_VIEW, key, klen, NULL, 0, 0), done;
    j.flags = DDICT_WAIT;
    submit_one(q, &j, 1);
    pid_t pid = fork();
    if (pid == 0) {
        int rc = ddict_async_poll(q, &done, 1, 0) == -ECANCELED &&
                         ddict_async_submit(q, &j, 1) == -ECANCELED &&
                         ddict_async_cancel(q, 1) == -ECANCELED
                     ? 0
                     : 1;
        ddict_async_t *mine;
        if (rc == 0 && ddict_async_open(d, &mine) < 0)
            rc = 2;
        ddict_async_close(q);
        struct ddict_op p = op_of(DDICT_OP_PUT, key, klen, (void *)(uintptr_t) "child", 5, 0);
        if (rc == 0 && (ddict_async_submit(mine, &p, 1) != 1 ||
                        ddict_async_poll(mine, &done, 1, 10000) != 1 || done.status != 0))
            rc = 3;
        if (rc == 0)
            ddict_async_close(mine);
        _exit(rc);
    }
    int status;
    ck_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    loop_until(q, &done, 1);
    ck_assert(done.status == 0 && done.view.len == 5 && memcmp(done.view.data, "child", 5) == 0);
    ddict_release(&done.view);
    end();
}
END_TEST

static void *poll_one(void *arg) {
    struct ddict_op *done = arg;
    ok(ddict_async_poll(q, done, 1, 30000));
    return arg;
}

START_TEST(detach_ends_what_is_under_way) {
    begin(2);
    char key[32];
    size_t klen = key_of(d, 1, 0, key, 32);
    unsigned char val[5000];
    struct ddict_op done[3], first;
    value_fill(val, sizeof val, 1);
    ok(ddict_put(d, key, klen, val, sizeof val, 0, -1));
    struct ddict_op j = op_of(DDICT_OP_VIEW, key, klen, NULL, 0, 1),
                    w = op_of(DDICT_OP_VIEW, "never", 5, NULL, 0, 2);
    w.flags = DDICT_WAIT;
    submit_one(q, &w, 1);
    submit_one(q, &w, 1);
    pthread_t t;
    ck_assert_int_eq(pthread_create(&t, NULL, poll_one, &first), 0);
    usleep(30000);
    submit_one(q, &j, 1);
    pthread_join(t, NULL); /* it has the view */
    ck_assert(first.status == 0);
    submit_one(q, &j, 1);
    double s = now_s();
    while (!readable(q, 1000) && now_s() < s + 20) {
    }
    ddict_async_poll(q, done, 0, 0);
    usleep(30000);
    ddict_detach(d);
    struct ddict_op more = w;
    fails(-ECANCELED, ddict_async_submit(q, &more, 1));
    loop_until(q, done, 3);
    unsigned cancelled = 0;
    for (int i = 0; i < 3; i++) {
        cancelled += done[i].status == -ECANCELED;
        if (done[i].status == 0) {
            ck_assert(value_is(done[i].view.data, sizeof val, 1));
            ddict_release(&done[i].view);
        }
        free(done[i].text);
    }
    ck_assert_uint_ge(cancelled, 2);
    ck_assert(quiet(q));
    ck_assert(value_is(first.view.data, sizeof val, 1));
    ddict_release(&first.view);
    ddict_async_close(q);
    dict_stop(&x);
}
END_TEST

/* Close with all stages of operations in it. */
START_TEST(close_drops_everything) {
    begin(2);
    char key[32];
    size_t klen = key_of(d, 1, 0, key, 32);
    static unsigned char val[4 * MIB];
    ok(ddict_put(d, key, klen, val, 100000, 0, -1));
    for (int turn = 0; turn < 20; turn++) {
        ddict_async_t *mine;
        ok(ddict_async_open(d, &mine));
        struct ddict_op j[3] = {op_of(DDICT_OP_VIEW, key, klen, NULL, 0, 0),
                                op_of(DDICT_OP_VIEW, "never", 5, NULL, 0, 0),
                                op_of(DDICT_OP_PUT, key, klen, val, turn % 2 ? 4 * MIB : 10, 0)};
        j[1].flags = DDICT_WAIT;
        ok(ddict_async_submit(mine, j, 3));
        usleep((useconds_t)(turn % 4) * 1000);
        ddict_async_close(mine);
    }
    struct ddict_manager_stats *s;
    double end_s = now_s() + 20;
    for (;;) { /* all of the transit blocks are free again */
        ok(ddict_put(d, key, klen, val, 4 * MIB, 0, -1));
        ok(ddict_stats(d, &s, sizeof *s, -1));
        uint64_t leased = s[0].leased_bytes + s[1].leased_bytes;
        free(s);
        if (leased == 0)
            break;
        ck_assert(now_s() < end_s);
        usleep(10000);
    }
    end();
}
END_TEST

START_TEST(operations_end_in_time_when_managers_hang) {
    begin(2);
    static unsigned char val[MIB];
    struct ddict_op done[3];
    for (int m = 0; m < 2; m++)
        kill(x.manager[m], SIGSTOP);
    usleep(20000);
    char key[32];
    struct ddict_op j[3] = {op_of(DDICT_OP_PUT, "a", 1, val, MIB, 0),
                            op_of(DDICT_OP_VIEW, key, key_of(d, 1, 0, key, 32), NULL, 0, 1),
                            op_of(DDICT_OP_DEL, "b", 1, NULL, 0, 2)};
    for (int i = 0; i < 3; i++)
        j[i].timeout_ms = 200;
    double s = now_s();
    ck_assert_int_eq(ddict_async_submit(q, j, 3), 3);
    loop_until(q, done, 3);
    ck_assert(now_s() - s > 0.19 && now_s() - s < 10);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(done[i].status, -ETIMEDOUT);
        free(done[i].text);
    }
    for (int m = 0; m < 2; m++)
        kill(x.manager[m], SIGCONT);
    ok(ddict_put(d, "a", 1, "x", 1, 0, 20000)); /* the lanes go on */
    end();
}
END_TEST

START_TEST(operations_end_when_a_manager_dies) {
    setenv("DDICT_RESTARTS", "0", 1); /* a manager that dies is not started again */
    begin(2);
    struct ddict_op done[2], w = op_of(DDICT_OP_VIEW, "never", 5, NULL, 0, 2);
    w.flags = DDICT_WAIT;
    w.timeout_ms = 100000;
    submit_one(q, &w, 1);
    w.key = "never2";
    w.klen = 6;
    submit_one(q, &w, 1);
    ck_assert_int_eq(ddict_async_poll(q, done, 2, 50), 0);
    x.broken = true;
    double s = now_s();
    kill(x.manager[0], SIGKILL);
    loop_until(q, done, 2);
    ck_assert(now_s() - s < 10);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(done[i].status == DDICT_ELOST || done[i].status == DDICT_EGONE, "%d",
                      done[i].status);
        ck_assert(done[i].text != NULL);
        free(done[i].text);
    }
    usleep(300000); /* ddictd is gone, too */
    struct ddict_op r;
    ck_assert_int_eq(ddict_async_poll(q, &r, 1, 0), 0);
    ck_assert_msg(quiet(q), "nothing to do, and yet it is readable");
    end();
}
END_TEST

ASYNC_MAIN("client_async_end", a_child_has_no_part_in_the_operations_of_its_parent,
           detach_ends_what_is_under_way, close_drops_everything,
           operations_end_in_time_when_managers_hang, operations_end_when_a_manager_dies)
