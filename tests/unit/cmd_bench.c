/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench.c - the benchmark looks at what it reads: each word that it samples counts, and a
 * value of another key is not taken for the right one. */
#include "unit.h"

#include <cmd/bench/bench.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64u

unsigned ddict_owner(ddict_t *d, const void *key, size_t klen) {
    return klen ? ((const unsigned char *)key)[klen - 1] % 4u : 0;
}

static const size_t lens[] = {
    8, 16, 56, 64, 72, 128, 1000, 4096, 65536, 100000, (1u << 20) + 8, 5u << 20};
#define LENS (sizeof lens / sizeof lens[0])

static void flipped(unsigned char *val, size_t len, size_t at, unsigned bit) {
    val[at + bit / 8] ^= (unsigned char)(1u << bit % 8);
    if (bench_check(val, len, 12345) != -EILSEQ)
        ck_abort_msg("%zu bytes: bit %u at %zu is not noticed", len, bit, at);
    val[at + bit / 8] ^= (unsigned char)(1u << bit % 8);
}

START_TEST(one_bit_of_any_word_that_is_looked_at_counts) {
    for (size_t i = 0; i < LENS; i++) {
        size_t len = lens[i], lines = (len + LINE - 1) / LINE;
        unsigned char *val = malloc(len);
        ck_assert_ptr_nonnull(val);
        bench_fill(val, len, 12345);
        ck_assert_int_eq(bench_check(val, len, 12345), 0);
        /* Of long ones some lines: each look reads all. */
        size_t step = lines < 64 ? 1 : lines / 16 + 1;
        for (size_t line = 0; line < lines; line += step)
            flipped(val, len, line * LINE, (unsigned)(line * 7 % 64));
        for (unsigned bit = 0; bit < 64; bit++)
            flipped(val, len < 65536 ? len : 64, 0, bit);
        flipped(val, len, (lines - 1) * LINE, 63);
        ck_assert_int_eq(bench_check(val, len, 12345), 0);
        free(val);
    }
}
END_TEST

START_TEST(the_value_of_another_key_is_noticed) {
    for (size_t i = 0; i < LENS; i++) {
        unsigned char *val = malloc(lens[i]);
        ck_assert_ptr_nonnull(val);
        for (uint64_t index = 0; index < 100000; index = index * 3 + 1) {
            bench_fill(val, lens[i], index);
            ck_assert_int_eq(bench_check(val, lens[i], index), 0);
            ck_assert_int_eq(bench_check(val, lens[i], index + 1), -EILSEQ);
            ck_assert_int_eq(bench_check(val, lens[i], index + (1u << 20)), -EILSEQ);
        }
        free(val);
    }
}
END_TEST

START_TEST(a_value_that_is_cut_or_of_another_length_is_noticed) {
    for (size_t i = 1; i < LENS; i++) {
        unsigned char *val = calloc(1, lens[i]);
        ck_assert_ptr_nonnull(val);
        bench_fill(val, lens[i] / 2 / 8 * 8, 7);
        if (lens[i] > LINE)
            ck_assert_int_eq(bench_check(val, lens[i], 7), -EILSEQ);
        free(val);
    }
}
END_TEST

START_TEST(keys_belong_to_the_managers_in_turn_and_all_differ) {
    static const unsigned owner[] = {2, 0, 3};
    struct bench_keys k = {.prefix = "bench.7.", .owner = owner, .owners = 3};
    char seen[300][BENCH_KEY_MAX];
    size_t len[300];
    for (unsigned i = 0; i < 300; i++) {
        len[i] = bench_key(&k, NULL, seen[i], i);
        ck_assert_uint_le(len[i], BENCH_KEY_MAX);
        ck_assert_uint_eq(ddict_owner(NULL, seen[i], len[i]), owner[i % 3]);
        ck_assert_int_eq(memcmp(seen[i], "bench.7.", 8), 0);
        for (unsigned j = 0; j < i; j++)
            ck_assert(len[i] != len[j] || memcmp(seen[i], seen[j], len[i]) != 0);
    }
}
END_TEST

UNIT_MAIN("client_bench", one_bit_of_any_word_that_is_looked_at_counts,
          the_value_of_another_key_is_noticed, a_value_that_is_cut_or_of_another_length_is_noticed,
          keys_belong_to_the_managers_in_turn_and_all_differ)
