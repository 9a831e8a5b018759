/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib_life.c - the manager at the other end of a lane has another life (PROTOCOL 12). Invariants: it is
 * asked for each request that has no answer, behind all that was sent before; what it has forgotten is
 * asked again where that changes nothing, sent from its header on where its last piece was not sent, and
 * else ends with DDICT_ELOST; nothing waits for a HOLD of the life before.
 */
#include "lane_ends.h"

#include <lib/async.h>
#include <lib/request.h>

static void say(unsigned type, uint64_t id) {
    struct msg m = {.len = MSG_HEADER, .type = (uint16_t)type, .id = id, .manager = 3};
    answer(&m, NULL);
}

/* All that is sent of this put, from its first piece to its last. */
static void value_take(const struct msg *put) {
    for (uint64_t at = 0; at < sizeof large;) {
        struct msg m;
        await(&m, payload);
        ck_assert(m.type == MSG_DATA && m.id == put->id && m.aux == at && m.rewind == 0);
        memcpy(came + at, payload, m.len - MSG_HEADER);
        at += m.len - MSG_HEADER;
    }
}

START_TEST(each_request_without_an_answer_is_asked_for) {
    struct requester a[20];
    struct msg m[20], k;
    char buf[20][8];
    bool asked[20] = {false};
    begin();
    for (int i = 0; i < 20; i++) {
        requester_start(&a[i], MSG_GET, SINK_BUFFER, buf[i], 8, 30000);
        await(&m[i], NULL);
    }
    struct msg r = reply_to(&m[7], DDICT_ENOKEY);
    answer(&r, NULL);
    ck_assert_int_eq(requester_end(&a[7]), DDICT_ENOKEY);
    say(MSG_LIFE, 0);
    for (int n = 0; n < 19; n++) {
        await(&k, NULL);
        ck_assert_uint_eq(k.type, MSG_KNOWS);
        int i = 0;
        while (i < 20 && m[i].id != k.id)
            i++;
        ck_assert(i < 20 && i != 7 && !asked[i]);
        asked[i] = true;
    }
    ck_assert(!next(&k, NULL));
    for (int i = 0; i < 20; i++) { /* this life knows them */
        r = reply_to(&m[i], DDICT_ENOKEY);
        if (i == 7)
            continue;
        answer(&r, NULL);
        ck_assert_int_eq(requester_end(&a[i]), DDICT_ENOKEY);
    }
    end();
}
END_TEST

/* What is asked, LIFE and FORGOT are answered so: the status that the call sees. */
static int forgotten(enum msg_type type) {
    struct requester a;
    struct msg m, k;
    begin();
    requester_start(&a, type, type == MSG_GET || type == MSG_KEYS ? SINK_MEMORY : SINK_NONE, NULL,
                    0, 30000);
    await(&m, NULL);
    say(MSG_LIFE, 0);
    await(&k, NULL);
    ck_assert(k.type == MSG_KNOWS && k.id == m.id);
    say(MSG_FORGOT, m.id);
    pthread_join(a.thread, NULL);
    ck_assert(a.rc != DDICT_ELOST || strstr(a.r.text, "it may have happened"));
    request_drop(&a.r);
    end();
    return a.rc;
}

START_TEST(what_only_reads_is_to_be_asked_again) {
    static const enum msg_type reads[] = {MSG_GET,   MSG_HEAD,   MSG_KEYS,   MSG_LEN,
                                          MSG_STATS, MSG_EVENTS, MSG_FREEZE, MSG_ALIVE};
    for (unsigned i = 0; i < sizeof reads / sizeof *reads; i++)
        ck_assert_msg(forgotten(reads[i]) == -ESTALE, "%s", msg_name(reads[i]));
}
END_TEST

START_TEST(a_change_may_have_happened) {
    static const enum msg_type changes[] = {MSG_PUT, MSG_POP, MSG_DEL, MSG_CLEAR, MSG_PROBE};
    for (unsigned i = 0; i < sizeof changes / sizeof *changes; i++)
        ck_assert_msg(forgotten(changes[i]) == DDICT_ELOST, "%s", msg_name(changes[i]));
}
END_TEST

/* So are the pieces of its value that came. */
START_TEST(a_value_of_which_pieces_came_is_to_be_read_anew) {
    struct requester a;
    struct msg m, k;
    begin();
    requester_start(&a, MSG_GET, SINK_BUFFER, came, sizeof came, 30000);
    await(&m, NULL);
    struct msg r = reply_to(&m, 0), d = r;
    r.flags = MSGF_STREAM;
    r.val_len = sizeof came;
    answer(&r, NULL);
    d.type = MSG_DATA;
    d.len = MSG_HEADER + 1000;
    answer(&d, large);
    say(MSG_LIFE, 0);
    await(&k, NULL);
    ck_assert(k.type == MSG_KNOWS && k.id == m.id);
    say(MSG_FORGOT, m.id);
    ck_assert_int_eq(requester_end(&a), -ESTALE);
    end();
}
END_TEST

static void put_answer(const struct msg *put, struct requester *a) {
    struct msg yes = reply_to(put, 0);
    answer(&yes, NULL);
    ck_assert_int_eq(requester_end(a), 0);
    ck_assert(memcmp(came, large, sizeof large) == 0);
}

/* Its header alone has come, or some pieces, or all that fits; another life may forget it again. */
START_TEST(a_put_whose_last_piece_was_not_sent_is_sent_from_its_header_on) {
    for (unsigned pieces = 0; pieces < 3; pieces++) {
        struct requester a;
        struct msg put, m;
        begin();
        large_fill();
        put_start(&a, large, sizeof large, 30000);
        await(&put, payload);
        for (unsigned lives = 0; lives < 2; lives++) {
            uint64_t id = put.id;
            for (unsigned i = 0; i < pieces; i++)
                await(&m, payload);
            say(MSG_LIFE, 0);
            do
                await(&m, payload);
            while (m.type == MSG_DATA);
            ck_assert(m.type == MSG_KNOWS && m.id == id);
            say(MSG_FORGOT, id);
            do
                await(&put, payload);
            while (put.type == MSG_DATA && put.id == id);
            ck_assert(put.type == MSG_PUT && put.id != id && put.val_len == sizeof large &&
                      put.flags & MSGF_STREAM && memcmp(payload, "key", 3) == 0);
        }
        value_take(&put);
        put_answer(&put, &a);
        end();
    }
}
END_TEST

START_TEST(a_put_that_was_sent_may_have_happened) {
    struct requester a;
    struct msg put, k;
    begin();
    large_fill();
    put_start(&a, large, sizeof large, 30000);
    await(&put, payload);
    value_take(&put);
    say(MSG_LIFE, 0);
    await(&k, NULL);
    ck_assert(k.type == MSG_KNOWS && k.id == put.id);
    say(MSG_FORGOT, put.id);
    ck_assert_int_eq(requester_end(&a), DDICT_ELOST);
    ck_assert(!next(&k, NULL)); /* nobody is told that it is over */
    end();
}
END_TEST

/* So the life that has forgotten it had only the last pieces. */
START_TEST(a_put_whose_last_piece_was_sent_to_this_life_is_sent_from_its_header_on) {
    struct requester a;
    struct msg put, m;
    begin();
    large_fill();
    put_start(&a, large, sizeof large, 30000);
    await(&put, payload);
    uint64_t id = put.id;
    for (unsigned lives = 0; lives < 2; lives++) {
        say(MSG_LIFE, 0);
        bool asked = false, last = false;
        while (!asked || !last) {
            await(&m, payload);
            ck_assert_uint_eq(m.id, id);
            asked |= m.type == MSG_KNOWS;
            last |= m.type == MSG_DATA && m.flags & MSGF_LAST;
        }
        usleep(20000 * lives); /* it waits for its answer, and sleeps */
        say(MSG_FORGOT, id);
        await(&put, payload);
        ck_assert(put.type == MSG_PUT && put.id != id && put.val_len == sizeof large);
        id = put.id;
    }
    value_take(&put);
    put_answer(&put, &a);
    end();
}
END_TEST

/* It was told to send it again, and had begun with that, or not. */
START_TEST(a_put_that_is_sent_again_is_sent_from_its_header_on) {
    struct msg rewind = {
        .len = MSG_HEADER, .type = MSG_REWIND, .aux = MIB, .manager = 3, .rewind = 1};
    for (int held = 0; held < 2; held++) {
        struct requester a;
        struct msg put, m, hold = {.len = MSG_HEADER, .type = MSG_HOLD, .manager = 3, .aux = 1};
        begin();
        large_fill();
        put_start(&a, large, sizeof large, 30000);
        await(&put, payload);
        value_take(&put);
        if (held)
            answer(&hold, NULL);
        rewind.id = put.id;
        answer(&rewind, NULL);
        say(MSG_LIFE, 0);
        do
            await(&m, payload);
        while (m.type == MSG_DATA);
        ck_assert(m.type == MSG_KNOWS && m.id == put.id);
        say(MSG_FORGOT, put.id);
        do
            await(&m, payload);
        while (m.type == MSG_DATA && m.id == put.id);
        ck_assert(m.type == MSG_PUT && m.id != put.id);
        value_take(&m);
        put_answer(&m, &a);
        end();
    }
}
END_TEST

START_TEST(what_waited_for_a_manager_that_was_held_goes_on) {
    struct requester a;
    struct msg m, hold = {.len = MSG_HEADER, .type = MSG_HOLD, .manager = 3, .aux = 1};
    begin();
    answer(&hold, NULL);
    client_lane_lock(&manager.lane);
    ck_assert_int_eq(client_lane_drain(&manager.lane), 1);
    client_lane_unlock(&manager.lane);
    put_start(&a, "v", 1, 30000);
    usleep(50000);
    ck_assert(!next(&m, payload));
    say(MSG_LIFE, 0);
    await(&m, payload);
    ck_assert_uint_eq(m.type, MSG_PUT);
    struct msg yes = reply_to(&m, 0);
    answer(&yes, NULL);
    ck_assert_int_eq(requester_end(&a), 0);
    end();
}
END_TEST

/* SQ is full of the pieces of a value. */
START_TEST(it_is_asked_when_there_is_room) {
    struct requester a, b;
    struct msg m, get;
    char buf[8];
    begin();
    large_fill();
    requester_start(&b, MSG_GET, SINK_BUFFER, buf, 8, 30000);
    await(&get, NULL);
    put_start(&a, large, sizeof large, 30000);
    uint64_t tail; /* until the ring is full and the requester sleeps */
    do {
        tail = __atomic_load_n(other.sq.tail, __ATOMIC_RELAXED);
        usleep(50000);
    } while (tail == other.sq.pos || tail != __atomic_load_n(other.sq.tail, __ATOMIC_RELAXED));
    say(MSG_LIFE, 0);
    unsigned asked = 0;
    while (asked < 2) {
        await(&m, payload);
        asked += m.type == MSG_KNOWS;
        if (m.type == MSG_KNOWS)
            say(MSG_FORGOT, m.id);
        else
            ck_assert(m.type == MSG_PUT || m.type == MSG_DATA);
    }
    ck_assert_int_eq(requester_end(&b), -ESTALE);
    do
        await(&m, payload);
    while (m.type != MSG_PUT);
    value_take(&m);
    put_answer(&m, &a);
    end();
}
END_TEST

static void *is_reading(void *arg) {
    struct requester *a = arg;
    call_deadline_init(&a->w, &session, a->timeout_ms);
    a->rc = request_call_within(&session, &manager, &a->out, &a->r, &a->w);
    return NULL;
}

/* It is asked again and again, while there is time. */
START_TEST(what_only_reads_is_late_not_lost) {
    struct requester a = {.timeout_ms = 300};
    struct msg m;
    begin();
    a.out.head = (struct msg){.type = MSG_LEN, .manager = 3};
    pthread_create(&a.thread, NULL, is_reading, &a);
    for (uint64_t end_at = clock_ns() + 500000000u; clock_ns() < end_at;)
        if (next(&m, NULL) && m.type == MSG_LEN)
            say(MSG_FORGOT, m.id);
    ck_assert_int_eq(requester_end(&a), -ETIMEDOUT);
    struct request r = {.status = -ESTALE}; /* it is told so at the last moment */
    ck_assert_int_eq(request_error(&session, &manager, &r, r.status), -ETIMEDOUT);
    end();
}
END_TEST

/* --- while SQ is full of other things --- */
static struct request fill[DD_LANE_RING / MSG_HEADER];
static unsigned filled;

/* Requests for a manager that is not held. */
static void ring_fill(void) {
    struct outgoing out;
    do
        out = (struct outgoing){.head = {.type = MSG_LEN, .manager = 5}};
    while (client_lane_try_send(&manager.lane, &out, &fill[filled]) == 1 && ++filled);
}

static void fill_end(void) {
    for (unsigned i = 0; i < filled; i++)
        client_lane_cancel(&manager.lane, &fill[i]);
    memset(fill, 0, sizeof fill);
    filled = 0;
}

static void wait_until_full(void) { /* and the requester sleeps */
    uint64_t tail;
    do {
        tail = __atomic_load_n(other.sq.tail, __ATOMIC_RELAXED);
        usleep(50000);
    } while (tail == other.sq.pos || tail != __atomic_load_n(other.sq.tail, __ATOMIC_RELAXED));
}

static void await_put(struct msg *m) {
    do
        await(m, payload);
    while (m->type != MSG_PUT);
}

START_TEST(an_op_that_is_sent_from_its_header_on_is_counted_once) {
    struct ddict_async q = {.session = &session, .epoll_fd = -1, .timer_fd = -1, .awake = 1};
    struct async_op *op = calloc(1, sizeof *op + 3);
    struct msg put;
    uint64_t ticket;
    begin();
    large_fill();
    pthread_mutex_init(&q.lock, NULL);
    q.done_end = &q.done;
    op->q = &q;
    op->m = &manager;
    op->timeout_ms = 30000;
    op->r = (struct request){.is_async_op = true};
    op->iov = (struct iovec){large, sizeof large};
    op->out = (struct outgoing){
        .head = {.type = MSG_PUT, .key_len = 3, .val_len = sizeof large, .manager = 3},
        .key = "key",
        .iov = &op->iov,
        .niov = 1};
    ck_assert(async_op_send(op, &ticket));
    client_lane_turn(&manager.lane);
    await_put(&put);
    ring_fill();
    say(MSG_FORGOT, put.id);
    client_lane_turn(&manager.lane); /* no room for its header */
    ck_assert(!op->out.begun);
    while (!q.done) {
        struct msg m;
        client_lane_turn(&manager.lane);
        ck_assert_uint_eq(manager.lane.sent[0], !q.done);
        if (next(&m, payload) && m.type == MSG_DATA && m.id != put.id && m.flags & MSGF_LAST) {
            struct msg yes = reply_to(&m, 0);
            answer(&yes, NULL);
        }
    }
    ck_assert_int_eq(op->r.status, 0);
    fill_end();
    end();
    pthread_mutex_destroy(&q.lock);
    free(q.op_table);
    free(q.unused);
    free(op);
}
END_TEST

static void *is_putting_two(void *arg) {
    struct ddict_pair p[] = {{.key = "key", .klen = 3, .val = large, .vlen = sizeof large},
                             {.key = "key", .klen = 3, .val = "later", .vlen = 5}};
    ck_assert_int_eq(ddict_put_many(arg, p, 2, 30000), 2);
    return NULL;
}

/* The owner is held, released and held again, and has forgotten the first put meanwhile. */
START_TEST(of_two_puts_of_one_key_the_later_one_stays_behind) {
    struct node_manager *of[] = {&manager};
    struct msg put, m, hold = {.len = MSG_HEADER, .type = MSG_HOLD, .manager = 0, .aux = 1},
                       go = {.len = MSG_HEADER, .type = MSG_HOLD, .manager = 0};
    struct ddict_handle h = {.session = &session};
    pthread_t t;
    begin();
    large_fill();
    session.deal = deal_known(1, 1, 1);
    session.managers = session.nlocal = 1;
    session.local = &manager;
    session.local_of = session.route_of = of;
    pthread_create(&t, NULL, is_putting_two, &h);
    wait_until_full();
    await_put(&put);
    answer(&hold, NULL);
    usleep(100000); /* the first is aside, the second put off */
    ring_fill();
    say(MSG_FORGOT, put.id);
    answer(&go, NULL);
    usleep(100000); /* it waits for room for the header */
    answer(&hold, NULL);
    usleep(100000);
    while (next(&m, payload))
        ck_assert(m.type != MSG_PUT);
    usleep(100000);
    answer(&go, NULL);
    await_put(&m);
    ck_assert_msg(m.val_len == sizeof large, "the later put came first");
    value_take(&m);
    struct msg yes = reply_to(&m, 0);
    answer(&yes, NULL);
    await_put(&m);
    ck_assert_uint_eq(m.val_len, 5);
    yes = reply_to(&m, 0);
    answer(&yes, NULL);
    pthread_join(t, NULL);
    fill_end();
    end();
}
END_TEST

/* Nothing is asked for it any more. */
START_TEST(what_is_given_up_meanwhile_is_no_matter) {
    struct requester a;
    struct msg m, c;
    begin();
    requester_start(&a, MSG_GET, SINK_NONE, NULL, 0, 50);
    await(&m, NULL);
    ck_assert_int_eq(requester_end(&a), -ETIMEDOUT);
    await(&c, NULL);
    ck_assert_uint_eq(c.type, MSG_CANCEL);
    say(MSG_LIFE, 0);
    say(MSG_FORGOT, m.id);
    client_lane_lock(&manager.lane);
    ck_assert_int_ge(client_lane_drain(&manager.lane), 0);
    ck_assert_uint_eq(manager.lane.unsure, 0);
    client_lane_unlock(&manager.lane);
    ck_assert(!next(&m, NULL));
    end();
}
END_TEST

int main(void) {
    Suite *s = suite_create("life");
    TCase *t = tcase_create("life");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, each_request_without_an_answer_is_asked_for);
    tcase_add_test(t, what_only_reads_is_to_be_asked_again);
    tcase_add_test(t, a_change_may_have_happened);
    tcase_add_test(t, a_value_of_which_pieces_came_is_to_be_read_anew);
    tcase_add_test(t, a_put_whose_last_piece_was_not_sent_is_sent_from_its_header_on);
    tcase_add_test(t, a_put_that_was_sent_may_have_happened);
    tcase_add_test(t, a_put_whose_last_piece_was_sent_to_this_life_is_sent_from_its_header_on);
    tcase_add_test(t, a_put_that_is_sent_again_is_sent_from_its_header_on);
    tcase_add_test(t, what_waited_for_a_manager_that_was_held_goes_on);
    tcase_add_test(t, it_is_asked_when_there_is_room);
    tcase_add_test(t, what_only_reads_is_late_not_lost);
    tcase_add_test(t, an_op_that_is_sent_from_its_header_on_is_counted_once);
    tcase_add_test(t, of_two_puts_of_one_key_the_later_one_stays_behind);
    tcase_add_test(t, what_is_given_up_meanwhile_is_no_matter);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
