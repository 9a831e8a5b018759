/* SPDX-License-Identifier: Apache-2.0 */
/* base_error.c - codes have texts, sentences belong to their thread. */
#include "unit.h"
#include <base/error.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

START_TEST(every_own_code_has_a_text_of_its_own) {
    for (int a = DDICT_ENOKEY; a >= DDICT_ESMALL; a--) {
        ck_assert_str_ne(dd_strerror(a), "unknown error code");
        for (int b = a - 1; b >= DDICT_ESMALL; b--)
            ck_assert_str_ne(dd_strerror(a), dd_strerror(b));
    }
}
END_TEST

START_TEST(errno_values_have_the_texts_of_libc) {
    ck_assert_str_eq(dd_strerror(-ENOMEM), strerror(ENOMEM));
    ck_assert_str_eq(dd_strerror(-ETIMEDOUT), strerror(ETIMEDOUT));
}
END_TEST

START_TEST(numbers_that_are_no_code_are_named_so) {
    ck_assert_str_eq(dd_strerror(-100000), "unknown error code");
    ck_assert_str_eq(dd_strerror(DDICT_ELINK - 1), "unknown error code");
    ck_assert_str_eq(dd_strerror(0), "success");
    ck_assert_str_eq(dd_strerror(3), "success (a count)");
}
END_TEST

START_TEST(the_sentence_is_kept_and_the_code_returned) {
    ck_assert_str_eq(dd_errmsg(), "");
    ck_assert_int_eq(dd_error(DDICT_EFULL, "manager %d is full", 3), DDICT_EFULL);
    ck_assert_str_eq(dd_errmsg(), "manager 3 is full");
}
END_TEST

START_TEST(a_sentence_may_be_built_from_the_last_one) {
    dd_error(-EIO, "inner");
    dd_error(-EIO, "outer: %s", dd_errmsg());
    ck_assert_str_eq(dd_errmsg(), "outer: inner");
}
END_TEST

START_TEST(a_plain_failure_gives_the_text_of_its_code) {
    dd_error(-EIO, "old");
    ck_assert_int_eq(dd_error_plain(DDICT_ENOKEY), DDICT_ENOKEY);
    ck_assert_str_eq(dd_errmsg(), dd_strerror(DDICT_ENOKEY));
    dd_error(-EIO, "new");
    ck_assert_str_eq(dd_errmsg(), "new");
}
END_TEST

START_TEST(a_long_sentence_is_cut) {
    char text[2 * DD_ERRMSG_MAX];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    dd_error(-EIO, "%s", text);
    ck_assert_uint_eq(strlen(dd_errmsg()), DD_ERRMSG_MAX - 1);
}
END_TEST

static void *other_thread(void *arg) {
    ck_assert_str_eq(dd_errmsg(), "");
    dd_error(-EIO, "theirs");
    return NULL;
}

START_TEST(threads_do_not_share_the_sentence) {
    pthread_t t;
    dd_error(-EIO, "mine");
    ck_assert_int_eq(pthread_create(&t, NULL, other_thread, NULL), 0);
    pthread_join(t, NULL);
    ck_assert_str_eq(dd_errmsg(), "mine");
}
END_TEST

UNIT_MAIN("base_error", every_own_code_has_a_text_of_its_own, errno_values_have_the_texts_of_libc,
          numbers_that_are_no_code_are_named_so, the_sentence_is_kept_and_the_code_returned,
          a_sentence_may_be_built_from_the_last_one, a_plain_failure_gives_the_text_of_its_code,
          a_long_sentence_is_cut, threads_do_not_share_the_sentence)
