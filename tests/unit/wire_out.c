/* SPDX-License-Identifier: Apache-2.0 */
/* wire_out.c - the output queue: bytes come out once and in order however the socket takes them;
 * done() is called once for each body. */
#include "wire_test.h"
#include <wire/out.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- a socket that takes as little as the test wants --- */
static size_t take_max = SIZE_MAX;
static struct iovec asked[8]; /* of the last call */
static size_t askeds;
static int fail_with, eintrs;
static uint8_t *taken;
static size_t taken_len;
ssize_t sendmsg(int fd, const struct msghdr *h, int flags) {
    ck_assert(flags & MSG_NOSIGNAL);
    if (eintrs > 0) {
        eintrs--;
        errno = EINTR;
        return -1;
    }
    if (fail_with) {
        errno = fail_with;
        return -1;
    }
    size_t n = 0;
    askeds = 0;
    for (size_t i = 0; i < h->msg_iovlen; i++) {
        if (i < sizeof asked / sizeof *asked)
            asked[askeds++] = h->msg_iov[i];
        size_t k = h->msg_iov[i].iov_len;
        if (k > take_max - n)
            k = take_max - n;
        if (k > 0)
            memcpy(taken + taken_len, h->msg_iov[i].iov_base, k);
        taken_len += k;
        n += k;
    }
    return (ssize_t)n;
}

static int dones;
static struct out *more; /* done() adds to it */
static void done(void *arg) {
    dones++;
    if (more) {
        struct out *o = more;
        more = NULL;
        ck_assert_int_eq(out_reserve(o, 5), 0);
        out_copy(o, "again", 5);
    }
}

START_TEST(bytes_come_out_in_order_whatever_the_socket_takes) {
    static const size_t sizes[] = {1,       7, 100, 4096, OUT_BLOCK - 1, OUT_BLOCK, OUT_BLOCK + 1,
                                   SIZE_MAX};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct out o = {0};
        uint64_t seed = 17;
        size_t total = 300000, at = 0, bodies = 0;
        uint8_t *all = malloc(total);
        taken = malloc(total);
        taken_len = 0;
        take_max = sizes[s];
        dones = 0;
        for (size_t i = 0; i < total; i++)
            all[i] = (uint8_t)test_random(&seed);
        while (at < total || o.count > 0) {
            size_t n = test_random(&seed) % 8 == 0 ? test_random(&seed) % 130000
                                                   : test_random(&seed) % 300;
            if (n > total - at)
                n = total - at;
            size_t head = n / 3;
            if (n > 0) {
                ck_assert_int_eq(out_reserve(&o, head), 0);
                out_copy(&o, all + at, head);
                out_body(&o, all + at + head, n - head, done, NULL);
                bodies++;
                at += n;
            }
            if (test_random(&seed) % 4 == 0 || at == total) {
                int e = out_write(&o, -1);
                if ((e == 1) != (o.count > 0))
                    ck_abort_msg("%d with %u left", e, o.count);
            }
        }
        ck_assert_uint_eq(o.bytes, 0);
        ck_assert_uint_eq(taken_len, total);
        ck_assert_int_eq(memcmp(all, taken, total), 0);
        ck_assert_uint_eq((size_t)dones, bodies);
        out_clear(&o);
        free(all);
        free(taken);
    }
}
END_TEST

START_TEST(errors_keep_what_was_not_written) {
    struct out o = {0};
    taken = malloc(100);
    taken_len = 0;
    take_max = SIZE_MAX;
    ck_assert_int_eq(out_reserve(&o, 3), 0);
    out_copy(&o, "abc", 3);
    fail_with = EAGAIN;
    ck_assert_int_eq(out_write(&o, -1), 1);
    fail_with = EPIPE;
    ck_assert_int_eq(out_write(&o, -1), -ECONNRESET);
    fail_with = ENETDOWN;
    ck_assert_int_eq(out_write(&o, -1), -ENETDOWN);
    ck_assert_uint_eq(o.bytes, 3);
    fail_with = 0;
    eintrs = 3;
    ck_assert_int_eq(out_write(&o, -1), 0);
    ck_assert_int_eq(memcmp(taken, "abc", 3), 0);
    out_clear(&o);
    free(taken);
}
END_TEST

START_TEST(bodies_are_sent_from_where_they_lie) {
    static uint8_t body[2][200000];
    struct out o = {0};
    taken = malloc(500000);
    taken_len = 0;
    take_max = SIZE_MAX;
    dones = 0;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(out_reserve(&o, 4), 0);
        out_copy(&o, "head", 4);
        out_body(&o, body[i], sizeof body[i], done, NULL);
    }
    ck_assert_int_eq(dones, 0); /* they may not change yet */
    take_max = 70000;
    ck_assert_int_eq(out_write(&o, -1), 1);
    ck_assert_uint_eq(askeds, 4);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(asked[2 * i].iov_len, 4);
        ck_assert_ptr_eq(asked[2 * i + 1].iov_base, body[i]);
        ck_assert_uint_eq(asked[2 * i + 1].iov_len, sizeof body[i]);
    }
    ck_assert_int_eq(dones, 0);
    take_max = SIZE_MAX;
    ck_assert_int_eq(out_write(&o, -1), 0);
    ck_assert_ptr_eq(asked[0].iov_base, body[0] + 70000 - 4); /* the rest of it */
    ck_assert_ptr_eq(asked[2].iov_base, body[1]);
    ck_assert_int_eq(dones, 2);
    out_clear(&o);
    free(taken);
}
END_TEST

START_TEST(done_may_add_and_bodies_may_be_empty) {
    struct out o = {0};
    taken = malloc(100);
    taken_len = 0;
    dones = 0;
    ck_assert_int_eq(out_reserve(&o, 3), 0);
    out_copy(&o, "abc", 3);
    out_body(&o, NULL, 0, done, NULL);
    more = &o;
    ck_assert_int_eq(out_write(&o, -1), 0);
    ck_assert_int_eq(dones, 1);
    ck_assert_uint_eq(taken_len, 8);
    ck_assert_int_eq(memcmp(taken, "abcagain", 8), 0);
    out_clear(&o);
    free(taken);
}
END_TEST

START_TEST(clearing_calls_every_done_once) {
    struct out o = {0};
    dones = 0;
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(out_reserve(&o, 1000), 0);
        out_copy(&o, (uint8_t[1000]){0}, 1000);
        out_body(&o, "body", 4, done, NULL);
    }
    out_clear(&o);
    ck_assert_int_eq(dones, 1000);
    ck_assert_uint_eq(o.bytes + o.count, 0);
    out_clear(&o);
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire_out");
    TCase *c = wire_case(s, "out", 30);
    tcase_add_test(c, bytes_come_out_in_order_whatever_the_socket_takes);
    tcase_add_test(c, errors_keep_what_was_not_written);
    tcase_add_test(c, bodies_are_sent_from_where_they_lie);
    tcase_add_test(c, done_may_add_and_bodies_may_be_empty);
    tcase_add_test(c, clearing_calls_every_done_once);
    return wire_main(s);
}
