/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib_lane.c - the client's end of a lane; the test is the manager at the other end, an honest
 * one and one that writes nonsense. Invariants: an answer reaches its request and no other;
 * whatever stands in the completion queue, no byte is written outside the requester's buffer, and
 * the call ends; what is given up is told to the manager; after a refusal the lane goes on.
 */
#include "lane_ends.h"

#include <stdio.h>

/* Under a sanitizer: malloc gives NULL for too much, as without it. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "allocator_may_return_null=1";
}

/* --- honest --- */

START_TEST(answers_in_any_order_reach_their_requesters) {
    begin();
    struct requester a[20];
    struct msg m[20];
    char buf[20][8];
    for (int i = 0; i < 20; i++) {
        requester_start(&a[i], MSG_GET, SINK_BUFFER, buf[i], 8, 30000);
        await(&m[i], NULL);
        ck_assert(m[i].type == MSG_GET && m[i].key_len == 3 && m[i].manager == 3);
        for (int k = 0; k < i; k++)
            ck_assert_uint_ne(m[k].id, m[i].id);
    }
    for (int i = 19; i >= 0; i--) {
        struct msg r = reply_to(&m[i], 0);
        r.len += 4;
        r.val_len = 4;
        answer(&r, (char[]){'v', 'a', 'l', (char)i});
    }
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(requester_end(&a[i]), 0);
        ck_assert(a[i].r.got == 4 && buf[i][3] == i);
    }
    end();
}
END_TEST

START_TEST(a_large_value_goes_out_in_pieces) {
    begin();
    static unsigned char val[3 * MIB + 5], got[3 * MIB + 5];
    for (size_t i = 0; i < sizeof val; i++)
        val[i] = (unsigned char)(i * 7 ^ i >> 9);
    struct requester a;
    struct msg m, first;
    put_start(&a, val, sizeof val, 30000);
    await(&first, payload);
    ck_assert(first.type == MSG_PUT && (first.flags & MSGF_STREAM) && first.val_len == sizeof val &&
              memcmp(payload, "key", 3) == 0);
    size_t at = 0;
    do {
        await(&m, payload);
        ck_assert(m.type == MSG_DATA && m.id == first.id && m.aux == at &&
                  at + m.len - MSG_HEADER <= sizeof val);
        memcpy(got + at, payload, m.len - MSG_HEADER);
        at += m.len - MSG_HEADER;
    } while (!(m.flags & MSGF_LAST));
    ck_assert(at == sizeof val && memcmp(val, got, at) == 0);
    struct msg r = reply_to(&first, 0);
    answer(&r, NULL);
    ck_assert_int_eq(requester_end(&a), 0);
    end();
}
END_TEST

START_TEST(a_stream_lets_other_threads_between_its_pieces) {
    begin();
    static unsigned char val[MIB];
    struct requester small;
    struct request r = {.sink = SINK_NONE};
    struct iovec iov = {val, sizeof val};
    struct outgoing out = {
        .head = {.type = MSG_PUT, .key_len = 3, .val_len = sizeof val, .manager = 3},
        .key = "key",
        .iov = &iov,
        .niov = 1};
    struct msg m;
    client_lane_lock(&manager.lane);
    put_start(&small, "v", 1, 30000);
    for (uint64_t end_at = clock_ns() + 30000000000u;
         __atomic_load_n(&manager.lane.wanted, __ATOMIC_RELAXED) == 0 && clock_ns() < end_at;)
        usleep(100);
    ck_assert_int_eq(client_lane_push(&manager.lane, &out, &r), 0);
    ck_assert_msg(r.need == 0 && out.sent == DD_MSG_PIECE,
                  "%llu bytes went while another thread waited", (unsigned long long)out.sent);
    client_lane_unlock(&manager.lane);
    await(&m, NULL);
    ck_assert(m.type == MSG_PUT && (m.flags & MSGF_STREAM));
    await(&m, NULL);
    ck_assert(m.type == MSG_DATA);
    await(&m, NULL);
    ck_assert(m.type == MSG_PUT && m.val_len == 1);
    struct msg yes = reply_to(&m, 0);
    answer(&yes, NULL);
    ck_assert_int_eq(requester_end(&small), 0);
    client_lane_lock(&manager.lane);
    /* nobody waits: as much as there is room for */
    ck_assert_int_eq(client_lane_push(&manager.lane, &out, &r), 0);
    ck_assert(r.need != 0 && out.sent >= 3 * DD_MSG_PIECE);
    request_give_up(&manager.lane, &r);
    client_lane_unlock(&manager.lane);
    request_drop(&r);
    end();
}
END_TEST

START_TEST(a_refusal_in_the_middle_ends_the_stream_with_abort) {
    begin();
    static unsigned char val[8 * MIB];
    struct requester a;
    struct msg m, first;
    put_start(&a, val, sizeof val, 30000);
    await(&first, NULL);
    struct msg r = reply_to(&first, DDICT_EFULL);
    r.len += 7;
    answer(&r, "no room");
    unsigned pieces = 0;
    do {
        await(&m, NULL);
        ck_assert_uint_eq(m.id, first.id);
        pieces += m.type == MSG_DATA;
    } while (m.type != MSG_ABORT);
    pthread_join(a.thread, NULL);
    ck_assert_int_eq(a.rc, DDICT_EFULL);
    ck_assert_str_eq(a.r.text, "no room");
    request_drop(&a.r);
    ck_assert_uint_lt(pieces, sizeof val / DD_MSG_PIECE);
    ck_assert(!next(&m, NULL));
    end();
}
END_TEST

START_TEST(a_refusal_while_the_ring_is_full_is_answered_when_there_is_room) {
    begin();
    static unsigned char val[8 * MIB];
    struct requester a;
    struct msg m, first;
    put_start(&a, val, sizeof val, 30000);
    uint64_t tail; /* until the ring is full and the requester sleeps */
    do {
        tail = __atomic_load_n(other.sq.tail, __ATOMIC_RELAXED);
        usleep(50000);
    } while (tail == other.sq.pos || tail != __atomic_load_n(other.sq.tail, __ATOMIC_RELAXED));
    ck_assert(next(&first, NULL));
    struct msg r = reply_to(&first, DDICT_EFULL);
    answer(&r, NULL);
    usleep(50000);
    do {
        await(&m, NULL);
        ck_assert_uint_eq(m.id, first.id);
    } while (m.type != MSG_ABORT);
    ck_assert_int_eq(requester_end(&a), DDICT_EFULL);
    end();
}
END_TEST

/* --- values that are sent again --- */
static void rewind_to(const struct msg *put, uint64_t at, uint32_t number) {
    struct msg r = {.len = MSG_HEADER,
                    .type = MSG_REWIND,
                    .id = put->id,
                    .aux = at,
                    .manager = 3,
                    .rewind = number};
    answer(&r, NULL);
}

/* Its pieces from byte `at` on, up to `to`; those of before may come first. */
static void pieces_take(const struct msg *put, uint64_t at, uint64_t to, uint32_t number) {
    while (at < to) {
        struct msg m;
        await(&m, payload);
        ck_assert(m.type == MSG_DATA && m.id == put->id && m.rewind <= number);
        if (m.rewind < number)
            continue;
        uint64_t n = m.len - MSG_HEADER;
        ck_assert(m.aux == at && at + n <= sizeof large);
        memcpy(came + at, payload, n);
        at += n;
        ck_assert_int_eq((m.flags & MSGF_LAST) != 0, at == sizeof large);
    }
}

/* Behind the last piece, in the middle, and before an earlier one was obeyed; out of several buffers. */
START_TEST(a_value_is_sent_again_from_where_its_manager_says) {
    begin();
    static struct iovec part[4];
    struct requester a = {.timeout_ms = 30000};
    struct msg put;
    large_fill();
    part[0] = (struct iovec){large, 1};
    part[1] = (struct iovec){large + 1, 0};
    part[2] = (struct iovec){large + 1, MIB};
    part[3] = (struct iovec){large + 1 + MIB, sizeof large - 1 - MIB};
    a.out = (struct outgoing){
        .head = {.type = MSG_PUT, .key_len = 3, .val_len = sizeof large, .manager = 3},
        .key = "key",
        .iov = part,
        .niov = 4};
    pthread_create(&a.thread, NULL, requester_run, &a);
    await(&put, payload);
    pieces_take(&put, 0, sizeof large, 0);
    usleep(20000); /* it sleeps */
    rewind_to(&put, MIB + 1, 1);
    pieces_take(&put, MIB + 1, 2 * MIB, 1);
    memset(came, 0, sizeof came);
    rewind_to(&put, 0, 3); /* a number may be left out */
    pieces_take(&put, 0, MIB, 3);
    rewind_to(&put, 1, 4);
    rewind_to(&put, MIB / 2, 5);
    pieces_take(&put, MIB / 2, sizeof large, 5);
    rewind_to(&put, sizeof large - 1, 6);
    pieces_take(&put, sizeof large - 1, sizeof large, 6);
    struct msg r = reply_to(&put, 0);
    answer(&r, NULL);
    ck_assert_int_eq(requester_end(&a), 0);
    ck_assert(memcmp(came, large, sizeof large) == 0);
    end();
}
END_TEST

/* As any thread does that uses the lane. */
static void notices_send(void) {
    client_lane_lock(&manager.lane);
    ck_assert_int_ge(client_lane_drain(&manager.lane), 0);
    client_lane_unlock(&manager.lane);
}

/* As long as it has not sent the last piece again it says ABORT, which is no CANCEL. */
START_TEST(a_value_that_is_sent_again_is_given_up) {
    for (int refused = 0; refused < 2; refused++) {
        begin();
        struct requester a;
        struct msg m, put;
        large_fill();
        put_start(&a, large, sizeof large, refused ? 30000 : 500);
        await(&put, payload);
        pieces_take(&put, 0, sizeof large, 0);
        rewind_to(&put, 0, 1);
        struct msg no = reply_to(&put, DDICT_EFULL);
        if (refused)
            answer(&no, NULL);
        else /* nobody takes what it sends */
            ck_assert_int_eq(requester_end(&a), -ETIMEDOUT);
        do {
            await(&m, payload);
            notices_send();
        } while (m.type == MSG_DATA && m.id == put.id && !(m.flags & MSGF_LAST));
        ck_assert(m.type == MSG_ABORT && m.id == put.id);
        if (refused)
            ck_assert_int_eq(requester_end(&a), DDICT_EFULL);
        ck_assert(!next(&m, NULL));
        rewind_to(&put, 0, 2); /* it is given up */
        put_start(&a, "v", 1, 30000);
        await(&put, payload);
        struct msg yes = reply_to(&put, 0);
        answer(&yes, NULL);
        ck_assert_int_eq(requester_end(&a), 0);
        end();
    }
}
END_TEST

START_TEST(a_manager_that_always_wants_a_value_again_is_left_in_time) {
    begin();
    struct requester a;
    struct msg m, put;
    uint32_t number = 0;
    large_fill();
    put_start(&a, large, sizeof large, 1000);
    await(&put, payload);
    uint64_t end_at = clock_ns() + 30000000000u;
    while (pthread_tryjoin_np(a.thread, NULL) != 0) {
        ck_assert_msg(clock_ns() < end_at, "it was sent again %u times", number);
        if (next(&m, payload) && m.type == MSG_DATA && (m.flags & MSGF_LAST))
            rewind_to(&put, sizeof large - 1, ++number);
    }
    ck_assert_int_eq(a.rc, -ETIMEDOUT);
    ck_assert_uint_gt(number, 0);
    request_drop(&a.r);
    end();
}
END_TEST

START_TEST(a_value_that_is_to_be_sent_again_is_refused_while_its_manager_is_held) {
    begin();
    struct requester a;
    struct msg put;
    large_fill();
    put_start(&a, large, sizeof large, 60000);
    await(&put, payload);
    pieces_take(&put, 0, sizeof large, 0);
    struct msg hold = {.len = MSG_HEADER, .type = MSG_HOLD, .manager = 3, .aux = 1};
    answer(&hold, NULL);
    rewind_to(&put, 0, 1);
    uint64_t end_at = clock_ns() + 30000000000u;
    for (bool waits = false; !waits;) {
        ck_assert_msg(clock_ns() < end_at, "it does not wait until its manager is released");
        usleep(100);
        client_lane_lock(&manager.lane);
        waits = a.r.need == NEED_GO && a.r.asleep != AWAKE;
        client_lane_unlock(&manager.lane);
    }
    uint64_t t = clock_ns();
    struct msg no = reply_to(&put, DDICT_ELOST);
    answer(&no, NULL);
    ck_assert_int_eq(requester_end(&a), DDICT_ELOST);
    ck_assert(clock_ns() - t < 30000000000u);
    end();
}
END_TEST

START_TEST(only_the_value_of_a_put_is_sent_again) {
    struct requester a;
    struct msg m;
    begin();
    requester_start(&a, MSG_GET, SINK_NONE, NULL, 0, 30000);
    await(&m, NULL);
    rewind_to(&m, 0, 1);
    ck_assert_int_eq(requester_end(&a), DDICT_EPROTO);
    put_start(&a, "value", 5, 30000);
    await(&m, payload);
    rewind_to(&m, 0, 1);
    ck_assert_int_eq(requester_end(&a), DDICT_EPROTO);
    large_fill();
    put_start(&a, large, sizeof large, 30000);
    await(&m, payload);
    pieces_take(&m, 0, sizeof large, 0);
    rewind_to(&m, sizeof large - 1, 2);
    pieces_take(&m, sizeof large - 1, sizeof large, 2);
    rewind_to(&m, 0, 2); /* no number comes twice */
    ck_assert_int_eq(requester_end(&a), DDICT_EPROTO);
    put_start(&a, large, sizeof large, 30000);
    await(&m, payload);
    pieces_take(&m, 0, sizeof large, 0);
    rewind_to(&m, sizeof large, 1); /* it has no such byte */
    ck_assert_int_eq(requester_end(&a), DDICT_EPROTO);
    end();
}
END_TEST

START_TEST(a_streamed_answer_fills_the_buffer_or_memory) {
    begin();
    static unsigned char val[2 * MIB], buf[2 * MIB];
    for (size_t i = 0; i < sizeof val; i++)
        val[i] = (unsigned char)(i * 11 ^ i >> 10);
    for (int memory = 0; memory < 2; memory++) {
        struct requester a;
        struct msg m;
        requester_start(&a, MSG_GET, memory ? SINK_MEMORY : SINK_BUFFER, memory ? NULL : buf,
                        memory ? 0 : sizeof buf, 30000);
        await(&m, NULL);
        struct msg r = reply_to(&m, 0), d = r;
        r.flags = MSGF_STREAM;
        r.val_len = sizeof val;
        answer(&r, NULL);
        d.type = MSG_DATA;
        for (size_t at = 0; at < sizeof val; at += 100000) {
            size_t n = sizeof val - at < 100000 ? sizeof val - at : 100000;
            d.len = MSG_HEADER + (uint32_t)n;
            d.aux = at;
            d.flags = at + n == sizeof val ? MSGF_LAST : 0;
            answer(&d, val + at);
        }
        pthread_join(a.thread, NULL);
        ck_assert_int_eq(a.rc, 0);
        ck_assert(a.r.got == sizeof val && memcmp(a.r.buf, val, sizeof val) == 0);
        ck_assert(!memory || (uintptr_t)a.r.buf % 64 == 0);
        request_drop(&a.r);
    }
    end();
}
END_TEST

START_TEST(what_is_given_up_is_told_and_its_answer_is_dropped) {
    begin();
    struct requester a;
    struct msg m, c;
    char buf[8] = "unseen";
    requester_start(&a, MSG_GET, SINK_BUFFER, buf, 8, 50);
    await(&m, NULL);
    ck_assert_int_eq(requester_end(&a), -ETIMEDOUT);
    await(&c, NULL);
    ck_assert(c.type == MSG_CANCEL && c.aux == m.id);
    struct msg r = reply_to(&m, 0); /* it comes late */
    r.len += 4;
    r.val_len = 4;
    answer(&r, "late");
    requester_start(&a, MSG_GET, SINK_BUFFER, buf, 8, 30000);
    await(&m, NULL);
    r.id = m.id;
    answer(&r, "next");
    ck_assert_int_eq(requester_end(&a), 0);
    ck_assert(memcmp(buf, "next", 4) == 0);
    static unsigned char val[8 * MIB];
    put_start(&a, val, sizeof val, 100); /* the ring fills, nobody takes it */
    ck_assert_int_eq(requester_end(&a), -ETIMEDOUT);
    await(&m, NULL);
    uint64_t id = m.id;
    requester_start(&a, MSG_GET, SINK_BUFFER, buf, 8, 30000);
    bool aborted = false;
    for (;;) {
        await(&m, NULL);
        if (m.type == MSG_GET)
            break;
        ck_assert(m.id == id && !aborted && !(m.flags & MSGF_LAST));
        aborted |= m.type == MSG_ABORT;
    }
    ck_assert(aborted);
    r.id = m.id;
    answer(&r, "live");
    ck_assert_int_eq(requester_end(&a), 0);
    end();
}
END_TEST

/* Of all objects of this test (-Wl,--wrap=realloc). */
static bool memory_ends;
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size) {
    return memory_ends ? NULL : __real_realloc(old, size);
}

START_TEST(what_is_given_up_is_told_without_memory_too) {
    begin();
    static struct request r[4 * CLIENT_LANE_NOTICES];
    unsigned n = 0, told = 0;
    struct msg m;
    int rc = 1;
    client_lane_lock(&manager.lane);
    while (rc > 0 && n < 4 * CLIENT_LANE_NOTICES) { /* from the third on there is no memory */
        struct outgoing out = {.head = {.type = MSG_POP,
                                        .flags = MSGF_WAIT,
                                        .key_len = 3,
                                        .aux = 1000000,
                                        .manager = 3},
                               .key = "key"};
        memory_ends = n >= 2;
        r[n] = (struct request){.sink = SINK_NONE};
        rc = client_lane_push(&manager.lane, &out, &r[n]);
        n += rc > 0;
    }
    ck_assert_int_eq(rc, -ENOMEM); /* nothing of it went out */
    ck_assert_str_eq(ddict_errmsg(), "no memory for another request");
    ck_assert_uint_eq(n, CLIENT_LANE_NOTICES);
    /* one is answered: another may go out */
    while (ring_peek(&other.sq, &m, &(const uint8_t *){NULL}) > 0 && m.id == 1) {
        ring_consume(&other.sq, &m);
        struct msg no = reply_to(&m, DDICT_ENOKEY);
        answer(&no, NULL);
    }
    ck_assert_int_eq(client_lane_drain(&manager.lane), 1);
    struct outgoing out = {
        .head = {.type = MSG_POP, .flags = MSGF_WAIT, .key_len = 3, .aux = 1000000, .manager = 3},
        .key = "key"};
    r[n] = (struct request){.sink = SINK_NONE};
    ck_assert_int_eq(client_lane_push(&manager.lane, &out, &r[n]), 1);
    for (unsigned i = 0; i <= n; i++)
        request_give_up(&manager.lane, &r[i]);
    memory_ends = false;
    client_lane_unlock(&manager.lane);
    static bool cancelled[4 * CLIENT_LANE_NOTICES];
    while (next(&m, NULL))
        if (m.type == MSG_CANCEL) {
            ck_assert(m.aux > 1 && m.aux <= n + 1 && !cancelled[m.aux]);
            cancelled[m.aux] = true;
            told++;
        }
    ck_assert_uint_eq(told, n);
    ck_assert(manager.lane.notices_n == 0 && manager.lane.notices_reserved == 0);
    end();
}
END_TEST

START_TEST(an_abort_for_which_there_is_no_room_is_sent_later) {
    begin();
    static unsigned char val[8 * MIB];
    struct iovec iov = {val, sizeof val};
    struct outgoing out = {
        .head = {.type = MSG_PUT, .key_len = 3, .val_len = sizeof val, .manager = 3},
        .key = "key",
        .iov = &iov,
        .niov = 1};
    struct outgoing ask = {.head = {.type = MSG_GET, .key_len = 3, .manager = 3}, .key = "key"};
    struct request r = {.sink = SINK_NONE}, get = {.sink = SINK_NONE};
    static struct request more[8192];
    struct msg m;
    unsigned aborted = 0, cancelled = 0, n = 0;
    client_lane_lock(&manager.lane);
    ck_assert_int_eq(client_lane_push(&manager.lane, &ask, &get), 1);
    ck_assert_int_eq(client_lane_push(&manager.lane, &out, &r), 0);
    /* until there is no room for one header more */
    for (ask.begun = false; n < 8192 && client_lane_push(&manager.lane, &ask, &more[n]) > 0;
         ask.begun = false)
        n++;
    ck_assert_uint_lt(n, 8192);
    struct msg no = {.len = MSG_HEADER,
                     .type = MSG_REPLY,
                     .id = out.head.id,
                     .status = DDICT_EFULL,
                     .manager = 3};
    answer(&no, NULL);
    request_give_up(&manager.lane, &get); /* owed, and before all else */
    ck_assert(client_lane_drain(&manager.lane) == 1 && r.done && r.sending);
    /* as a caller whose time is over then */
    ck_assert_int_eq(client_lane_push(&manager.lane, &out, &r), 0);
    client_lane_unlock(&manager.lane);
    while (next(&m, NULL)) {
    }
    client_lane_lock(&manager.lane);
    client_lane_notices_send(&manager.lane);
    client_lane_unlock(&manager.lane);
    while (next(&m, NULL)) {
        aborted += m.type == MSG_ABORT && m.id == out.head.id;
        cancelled += m.type == MSG_CANCEL;
    }
    ck_assert(aborted == 1 && cancelled == 1);
    end();
}
END_TEST

START_TEST(a_manager_that_sleeps_or_left_the_lane_is_rung_and_a_busy_one_is_not) {
    begin();
    struct requester a;
    struct msg m;
    uint64_t n;
    for (int how = 0; how < 3; how++) {
        header->sleeping = how == 1;
        other.page->unwatched = how == 2;
        requester_start(&a, MSG_LEN, SINK_NONE, NULL, 0, 30000);
        await(&m, NULL);
        struct msg r = reply_to(&m, 0);
        answer(&r, NULL);
        ck_assert_int_eq(requester_end(&a), 0);
        ck_assert_int_eq(read(event_fd, &n, 8), how > 0 ? 8 : -1);
    }
    end();
}
END_TEST

/* --- dishonest --- */

enum {
    WRONG_ORDER,
    TOO_MUCH,
    PIECE_FIRST,
    TWO_REPLIES,
    PLACED_UNASKED,
    HUGE_STREAM,
    SHORT_STREAM,
    LONG_INLINE,
    LIES
};

START_TEST(lies_about_a_value_end_in_an_error) {
    static unsigned char junk[MSG_LEN_MAX];
    for (int lie = 0; lie < LIES; lie++) {
        begin();
        struct requester a;
        struct msg m;
        unsigned char buf[4096 + 64];
        memset(buf, 0x5a, sizeof buf);
        memset(junk, 0xee, sizeof junk);
        requester_start(&a, MSG_GET, lie == HUGE_STREAM ? SINK_MEMORY : SINK_BUFFER,
                        lie == HUGE_STREAM ? NULL : buf, 4096, 3000);
        await(&m, NULL);
        struct msg r = reply_to(&m, 0), d = r;
        r.flags = MSGF_STREAM;
        r.val_len = 4096;
        d.type = MSG_DATA;
        d.len = MSG_HEADER + 2048;
        switch (lie) {
        case WRONG_ORDER:
            answer(&r, NULL);
            d.aux = 2048;
            answer(&d, junk);
            break;
        case TOO_MUCH:
            answer(&r, NULL);
            d.len = MSG_HEADER + 8192;
            answer(&d, junk);
            break;
        case PIECE_FIRST:
            answer(&d, junk);
            break;
        case TWO_REPLIES:
            answer(&r, NULL);
            answer(&r, NULL);
            break;
        case PLACED_UNASKED:
            r.flags = MSGF_PLACED;
            r.aux = 1u << 30;
            answer(&r, NULL);
            break;
        case HUGE_STREAM:
            r.val_len = 1ull << 60;
            answer(&r, NULL);
            break;
        case SHORT_STREAM:
            answer(&r, NULL);
            d.flags = MSGF_LAST;
            answer(&d, junk);
            break;
        case LONG_INLINE:
            r.flags = 0;
            r.val_len = 16;
            r.len = MSG_HEADER + 8192;
            answer(&r, junk);
            break;
        }
        int rc = requester_end(&a);
        ck_assert_msg(rc == (lie == HUGE_STREAM ? -ENOMEM : DDICT_EPROTO), "lie %d: %d", lie, rc);
        for (int i = 4096; i < 4096 + 64; i++)
            ck_assert_msg(buf[i] == 0x5a, "lie %d wrote beyond the buffer", lie);
        end();
    }
}
END_TEST

START_TEST(a_damaged_ring_ends_all_calls) {
    for (int how = 0; how < 3; how++) {
        begin();
        struct requester a, b;
        struct msg m;
        requester_start(&a, MSG_LEN, SINK_NONE, NULL, 0, 30000);
        await(&m, NULL);
        requester_start(&b, MSG_LEN, SINK_NONE, NULL, 0, 30000);
        await(&m, NULL);
        if (how == 0) { /* a record that is longer than the ring has */
            bool bad = false;
            struct msg r = reply_to(&m, 0);
            r.len = 4000;
            memcpy(ring_reserve(&other.cq, MSG_HEADER, &bad), &r, sizeof r);
            ring_commit(&other.cq);
            lane_wake_sleepers(&other);
        } else if (how == 1) { /* a tail that is nowhere */
            __atomic_store_n(&other.page->cq_tail, 12345678, __ATOMIC_RELEASE);
            lane_wake_sleepers(&other);
        } else {
            __atomic_store_n(&other.page->sq_head, ~0ull, __ATOMIC_RELEASE);
            answer(&(struct msg){.len = 128, .type = MSG_TYPE_N + 5}, (char[64]){0});
        }
        uint64_t t = clock_ns();
        int ra = requester_end(&a), rb = requester_end(&b);
        ck_assert_msg((ra == DDICT_EPROTO || ra == 0) && (rb == DDICT_EPROTO || rb == 0) &&
                          (ra != 0 || rb != 0),
                      "%d: %d %d", how, ra, rb);
        ck_assert(clock_ns() - t < 15000000000u);
        requester_start(&a, MSG_LEN, SINK_NONE, NULL, 0, 3000);
        ck_assert_int_eq(requester_end(&a), DDICT_EPROTO);
        end();
    }
}
END_TEST

START_TEST(random_answers_never_hurt) {
    begin();
    srandom(7);
    static unsigned char buf[10064], junk[MSG_LEN_MAX];
    memset(buf, 0x5a, sizeof buf);
    unsigned fine = 0;
    /* a slow machine ends more of them by their timeout */
    for (int i = 0; i < 3000 || (fine <= 50 && i < 30000); i++) {
        struct requester a;
        struct msg m;
        requester_start(&a, MSG_GET, i % 2 ? SINK_BUFFER : SINK_MEMORY, i % 2 ? buf : NULL, 10000,
                        30);
        await(&m, NULL);
        while (m.type != MSG_GET)
            await(&m, NULL);
        for (int k = random() % 4; k >= 0; k--) {
            struct msg r = {.type = random() % 2 ? MSG_REPLY : MSG_DATA,
                            .id = m.id - (uint64_t)(random() % 8 == 0),
                            .manager = 3};
            r.len = MSG_HEADER + (random() % 2 ? (uint32_t)(random() % 12000) : 1);
            r.flags =
                (uint16_t)(random() & (r.type == MSG_DATA ? MSGF_LAST : MSGF_STREAM | MSGF_PLACED));
            r.val_len = random() % 2 ? r.len - MSG_HEADER : (uint64_t)(random() % 20000);
            r.aux = random() % 3 ? 0 : (uint64_t)random();
            r.status = random() % 5 ? 0 : -(int)(random() % 5000);
            answer(&r, junk);
        }
        int rc = requester_end(&a);
        fine += rc == 0;
        for (int k = 10000; k < 10064; k++)
            ck_assert(buf[k] == 0x5a);
    }
    ck_assert_uint_gt(fine, 50);
    end();
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_port");
    TCase *t = tcase_create("port");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, answers_in_any_order_reach_their_requesters);
    tcase_add_test(t, a_large_value_goes_out_in_pieces);
    tcase_add_test(t, a_stream_lets_other_threads_between_its_pieces);
    tcase_add_test(t, a_refusal_in_the_middle_ends_the_stream_with_abort);
    tcase_add_test(t, a_refusal_while_the_ring_is_full_is_answered_when_there_is_room);
    tcase_add_test(t, a_value_is_sent_again_from_where_its_manager_says);
    tcase_add_test(t, a_value_that_is_sent_again_is_given_up);
    tcase_add_test(t, a_manager_that_always_wants_a_value_again_is_left_in_time);
    tcase_add_test(t, a_value_that_is_to_be_sent_again_is_refused_while_its_manager_is_held);
    tcase_add_test(t, only_the_value_of_a_put_is_sent_again);
    tcase_add_test(t, a_streamed_answer_fills_the_buffer_or_memory);
    tcase_add_test(t, what_is_given_up_is_told_and_its_answer_is_dropped);
    tcase_add_test(t, what_is_given_up_is_told_without_memory_too);
    tcase_add_test(t, an_abort_for_which_there_is_no_room_is_sent_later);
    tcase_add_test(t, a_manager_that_sleeps_or_left_the_lane_is_rung_and_a_busy_one_is_not);
    tcase_add_test(t, lies_about_a_value_end_in_an_error);
    tcase_add_test(t, a_damaged_ring_ends_all_calls);
    tcase_add_test(t, random_answers_never_hurt);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
