/* SPDX-License-Identifier: Apache-2.0 */
/* base_copy.c - copies past the caches: every byte, at every alignment, and none beside. */
#include <base/copy.h>

#include <check.h>
#include <stdlib.h>

#define ROOM 5000u

static void copies(size_t to, size_t from, size_t n) {
    static uint8_t dst[ROOM] __attribute__((aligned(64))), src[ROOM] __attribute__((aligned(64)));
    for (size_t i = 0; i < ROOM; i++) {
        dst[i] = 0xaa;
        src[i] = (uint8_t)(i * 31 + i / 256 + 1);
    }
    copy_value(dst + to, src + from, n, DD_COPY_PAST);
    for (size_t i = 0; i < ROOM; i++)
        if (dst[i] != (i >= to && i < to + n ? src[from + i - to] : 0xaa))
            ck_abort_msg("byte %zu of a copy of %zu from %zu to %zu", i, n, from, to);
}

START_TEST(every_length_and_alignment) {
    for (size_t n = 0; n < 700; n += n < 300 ? 1 : 37)
        copies(64 + n % 67, 64 + n % 41, n);
    for (size_t to = 0; to < 66; to++)
        for (size_t from = 0; from < 66; from += 13)
            copies(128 + to, 128 + from, 4096 + to);
}
END_TEST

START_TEST(a_large_value) {
    size_t n = 2 * DD_COPY_PAST + 77;
    uint8_t *a = malloc(n), *b = calloc(1, n);
    for (size_t i = 0; i < n; i++)
        a[i] = (uint8_t)(i ^ i >> 9);
    copy_value(b, a, n, n);
    ck_assert(memcmp(a, b, n) == 0);
    free(a);
    free(b);
}
END_TEST

int main(void) {
    Suite *s = suite_create("base_copy");
    TCase *t = tcase_create("copy");
    tcase_set_timeout(t, 30);
    tcase_add_test(t, every_length_and_alignment);
    tcase_add_test(t, a_large_value);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
