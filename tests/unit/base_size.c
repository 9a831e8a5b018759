/* SPDX-License-Identifier: Apache-2.0 */
/* base_size.c - sizes and counts as people write them. */
#include "unit.h"
#include <base/size.h>

#include <errno.h>

START_TEST(suffixes_are_powers_of_1024_in_any_case) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"4096", 4096},
        {"7B", 7},
        {"1K", 1024},
        {"1k", 1024},
        {"1KB", 1024},
        {"1KiB", 1024},
        {"1kib", 1024},
        {"16M", 16ull << 20},
        {"16G", 16ull << 30},
        {"2T", 2ull << 40},
        {"1.5G", 3ull << 29},
        {"0.25K", 256},
        {"0.1K", 102},
        {"00012", 12},
        {"9223372036854775807", INT64_MAX},
        {"8388607T", 8388607ull << 40},
        {"1.00000000000000000000000001K", 1024},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t n = 99;
        ck_assert_msg(size_parse(good[i].text, &n) == 0, "%s", good[i].text);
        ck_assert_msg(n == good[i].bytes, "%s gives %llu", good[i].text, (unsigned long long)n);
    }
}
END_TEST

START_TEST(what_is_no_size_is_refused_and_nothing_is_stored) {
    static const char *const bad[] = {
        "",     " ",  "-1", "+1",  "G",      "16Q",  "16GG", "16 G", " 16", "16G ", "1e9",
        "0x10", "1.", ".5", "1.G", "1.5.5G", "1KBB", "1iB",  "1Ki",  "nan", "1,5G", "1P"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t n = 99;
        ck_assert_msg(size_parse(bad[i], &n) == -EINVAL, "%s", bad[i]);
        ck_assert_uint_eq(n, 99);
    }
}
END_TEST

START_TEST(sizes_beyond_63_bits_are_out_of_range) {
    static const char *const big[] = {"9223372036854775808", "8388608T",
                                      "99999999999999999999999999999999999999999999", "8589934592G",
                                      "99999999999999999999999999999T"};
    for (size_t i = 0; i < sizeof big / sizeof *big; i++) {
        uint64_t n = 99;
        ck_assert_msg(size_parse(big[i], &n) == -ERANGE, "%s", big[i]);
        ck_assert_uint_eq(n, 99);
    }
}
END_TEST

START_TEST(counts_are_digits_within_bounds) {
    uint64_t n = 99;
    ck_assert_int_eq(count_parse("1", 1, 65535, &n), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(count_parse("65535", 1, 65535, &n), 0);
    ck_assert_uint_eq(n, 65535);
    ck_assert_int_eq(count_parse("18446744073709551615", 0, UINT64_MAX, &n), 0);
    ck_assert_uint_eq(n, UINT64_MAX);
    n = 99;
    ck_assert_int_eq(count_parse("0", 1, 65535, &n), -ERANGE);
    ck_assert_int_eq(count_parse("65536", 1, 65535, &n), -ERANGE);
    ck_assert_int_eq(count_parse("18446744073709551616", 0, UINT64_MAX, &n), -ERANGE);
    ck_assert_int_eq(count_parse("99999999999999999999999", 0, 10, &n), -ERANGE);
    static const char *const bad[] = {
        "", "-1", "+1", " 1", "1 ", "1.0", "4K", "x", "99999999999999999999999x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(count_parse(bad[i], 0, UINT64_MAX, &n) == -EINVAL, "%s", bad[i]);
    ck_assert_uint_eq(n, 99);
}
END_TEST

START_TEST(sizes_are_printed_with_one_decimal) {
    char b[16];
    ck_assert_str_eq(size_format(b, sizeof b, 0), "0 B");
    ck_assert_str_eq(size_format(b, sizeof b, 1023), "1023 B");
    ck_assert_str_eq(size_format(b, sizeof b, 1024), "1.0 KiB");
    ck_assert_str_eq(size_format(b, sizeof b, 1536), "1.5 KiB");
    ck_assert_str_eq(size_format(b, sizeof b, (1 << 20) - 1), "1.0 MiB");
    ck_assert_str_eq(size_format(b, sizeof b, 16ull << 30), "16.0 GiB");
    ck_assert_str_eq(size_format(b, sizeof b, UINT64_MAX), "16.0 EiB");
}
END_TEST

START_TEST(huge_pages_are_a_word_or_a_power_of_two) {
    static const char *const bad[] = {"", "yes", "0", "3M", "4K", "2MX", "-2M", "1T"};
    uint64_t page = 9;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(hugepages_parse(bad[i], &page) == -EINVAL, "%s", bad[i]);
    ck_assert_uint_eq(page, 9);
    ck_assert(hugepages_parse("no", &page) == 0 && page == 0);
    ck_assert(hugepages_parse("advise", &page) == 0 && page == 1);
    ck_assert(hugepages_parse("2M", &page) == 0 && page == 2 << 20);
    ck_assert(hugepages_parse("1GiB", &page) == 0 && page == 1 << 30);
}
END_TEST

UNIT_MAIN("base_size", suffixes_are_powers_of_1024_in_any_case,
          what_is_no_size_is_refused_and_nothing_is_stored, sizes_beyond_63_bits_are_out_of_range,
          counts_are_digits_within_bounds, huge_pages_are_a_word_or_a_power_of_two,
          sizes_are_printed_with_one_decimal)
