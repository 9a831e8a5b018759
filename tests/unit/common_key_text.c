/* SPDX-License-Identifier: Apache-2.0 */
/* common_key_text.c - keys to text and back: what is printed is what may be typed, and nothing else
 * is taken. */
#include <check.h>
#include <common/key_text.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key;
    size_t len;
    const char *text;
} python[] = {
    {"s", 1, "''"},
    {"sepoch", 6, "'epoch'"},
    {"sa'b", 4, "\"a'b\""},
    {"sa'\"b", 5, "'a\\'\"b'"},
    {"sa\\b\n\t\r\x01", 8, "'a\\\\b\\n\\t\\r\\x01'"},
    {"sgr\xc3\xbc\xc3\x9f", 7, "'gr\xc3\xbc\xc3\x9f'"},
    {"s\xe2\x82\xac\xf0\x9f\x98\x80", 8, "'\xe2\x82\xac\xf0\x9f\x98\x80'"},
    {"s\xff"
     "a",
     3, "'\\udcffa'"},
    {"b", 1, "b''"},
    {"b\x00\xff'", 4, "b\"\\x00\\xff'\""},
    {"i0", 2, "0"},
    {"i-12", 4, "-12"},
    {"i123456789012345678901234567890", 31, "123456789012345678901234567890"},
    {"t", 1, "()"},
    {"t\x02\0\0\0i1", 7, "(1,)"},
    {"t\x02\0\0\0sx\x02\0\0\0i3", 13, "('x', 3)"},
    {"t\x07\0\0\0t\x02\0\0\0i1\x02\0\0\0bz", 18, "((1,), b'z')"},
};

START_TEST(keys_of_python_are_shown_as_python_writes_them) {
    struct bytes out = {0}, back = {0};
    for (size_t i = 0; i < sizeof python / sizeof *python; i++) {
        bool is = false;
        ck_assert_int_eq(key_show(&out, python[i].key, python[i].len, &is), 0);
        ck_assert(is);
        ck_assert_str_eq((char *)out.data, python[i].text);
        ck_assert_msg(key_of_literal(&back, python[i].text) == 0, "%s", python[i].text);
        ck_assert_msg(back.len == python[i].len && memcmp(back.data, python[i].key, back.len) == 0,
                      "%s", python[i].text);
    }
    bytes_free(&out);
    bytes_free(&back);
}
END_TEST

START_TEST(other_keys_are_shown_as_bytes) {
    static const struct {
        const char *key;
        size_t len;
        const char *text;
    } raw[] = {
        {"key", 3, "key"},
        {"a\0b", 3, "a\\x00b"},
        {"a\\b", 3, "a\\\\b"},
        {"i01", 3, "i01"},
        {"i-", 2, "i-"},
        {"i-0", 3, "i-0"},
        {"t\x05\0\0\0i1", 7, "t\\x05\\x00\\x00\\x00i1"},
        {"t\x01", 2, "t\\x01"},
        {"t\x01\0\0\0x", 6, "t\\x01\\x00\\x00\\x00x"},
        {"\xff", 1, "\\xff"},
        {"x\xc3\xbc", 3, "x\xc3\xbc"},
    };
    struct bytes out = {0}, back = {0};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        bool is = true;
        ck_assert_int_eq(key_show(&out, raw[i].key, raw[i].len, &is), 0);
        ck_assert(!is);
        ck_assert_str_eq((char *)out.data, raw[i].text);
        ck_assert_int_eq(key_of_raw(&back, raw[i].text), 0);
        ck_assert(back.len == raw[i].len && memcmp(back.data, raw[i].key, back.len) == 0);
    }
    bytes_free(&out);
    bytes_free(&back);
}
END_TEST

/* Any bytes: shown, and typed again, they are the same bytes. */
START_TEST(random_keys_come_back) {
    struct bytes out = {0}, back = {0};
    srandom(1);
    for (int i = 0; i < 200000; i++) {
        uint8_t key[24];
        size_t len = 1 + (size_t)random() % sizeof key;
        for (size_t k = 0; k < len; k++)
            key[k] =
                (uint8_t)(random() % 4 == 0 ? random() : "sbit0-\xc3\xbc\x01\0"[random() % 11]);
        if (i % 3 == 0)
            key[0] = (uint8_t) "sbit"[i % 4];
        bool is;
        ck_assert_int_eq(key_show(&out, key, len, &is), 0);
        ck_assert_uint_eq(strlen((char *)out.data), out.len);
        int rc = is ? key_of_literal(&back, (char *)out.data) : key_of_raw(&back, (char *)out.data);
        ck_assert_msg(rc == 0 && back.len == len && memcmp(back.data, key, len) == 0, "%s",
                      (char *)out.data);
    }
    bytes_free(&out);
    bytes_free(&back);
}
END_TEST

START_TEST(what_is_no_literal_is_refused) {
    static const char *const bad[] = {
        "",           "'",      "'a",      "a",         "b",
        "b'",         "1.5",    "01",      "-",         "-0",
        "--1",        "(",      "(1",      "(1)",       "(,)",
        "(1 2)",      "(1,,2)", "'a' 'b'", "1 x",       "b'\xc3\xbc'",
        "'\\q'",      "'\\x1'", "'\\u12'", "'\\ud800'", "'\\U00110000'",
        "b'\\u0041'", "'\\",    "('a',",   "()x",       "None"};
    struct bytes out = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(key_of_literal(&out, bad[i]) == -EINVAL, "%s", bad[i]);
    char deep[200];
    memset(deep, '(', 100);
    memset(deep + 100, ')', 99);
    deep[199] = 0;
    ck_assert_int_eq(key_of_literal(&out, deep), -EINVAL);
    ck_assert_int_eq(key_of_int(&out, "x"), -EINVAL);
    ck_assert_int_eq(key_of_int(&out, "007"), -EINVAL);
    ck_assert_int_eq(key_of_raw(&out, "a\\"), -EINVAL);
    ck_assert_int_eq(key_of_raw(&out, "\\n"), -EINVAL);
    ck_assert_int_eq(key_of_raw(&out, "\\xg0"), -EINVAL);
    ck_assert_int_eq(key_of_literal(&out, "  ( 'a' ,\t1 , ) "), 0);
    ck_assert(out.len == 13 && memcmp(out.data, "t\x02\0\0\0sa\x02\0\0\0i1", 13) == 0);
    bytes_free(&out);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_keytext");
    TCase *t = tcase_create("keytext");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, keys_of_python_are_shown_as_python_writes_them);
    tcase_add_test(t, other_keys_are_shown_as_bytes);
    tcase_add_test(t, random_keys_come_back);
    tcase_add_test(t, what_is_no_literal_is_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
