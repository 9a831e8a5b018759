/* SPDX-License-Identifier: Apache-2.0 */
/* bench_keys.c - keys and values of the benchmark. */
#include "bench.h"

#include <errno.h>
#include <string.h>

#define A    0x9E3779B97F4A7C15ull
#define B    0xC2B2AE3D27D4EB4Full
#define LINE 8u /* words of a cache line */

const char *const bench_op_name[OP_N] = {"put",  "put_many", "add",  "get",
                                         "view", "get_many", "mixed"};
const char *const bench_place_name[PLACE_N] = {"local", "remote"};

static size_t hex_put(char *out, uint64_t n, unsigned digits) {
    static const char digit[] = "0123456789abcdef";
    for (unsigned i = digits; i-- > 0; n >>= 4)
        out[i] = digit[n & 15];
    return digits;
}

/* The key is the index and a counter, which is raised until the right manager owns the key. */
static size_t key_make(const struct bench_keys *k, ddict_t *d, char key[BENCH_KEY_MAX],
                       uint64_t index, bool sum) {
    size_t n = strlen(k->prefix);
    unsigned want = k->owner[index % k->owners];
    memcpy(key, k->prefix, n);
    if (sum)
        key[n++] = '+';
    n += hex_put(key + n, index, 10);
    for (uint64_t salt = 0;; salt++) {
        size_t len = n + hex_put(key + n, salt, 6);
        if (ddict_owner(d, key, len) == want)
            return len;
    }
}

size_t bench_key(const struct bench_keys *k, ddict_t *d, char key[BENCH_KEY_MAX], uint64_t index) {
    return key_make(k, d, key, index, false);
}

size_t bench_sum_key(const struct bench_keys *k, ddict_t *d, char key[BENCH_KEY_MAX],
                     uint64_t index) {
    return key_make(k, d, key, index, true);
}

void bench_fill(void *val, size_t len, uint64_t index) {
    uint64_t *w = val, x = index * A;
    for (size_t j = 0; j < len / 8; j++, x += B)
        w[j] = x;
}

int bench_check(const void *val, size_t len, uint64_t index) {
    const uint64_t *w = val;
    uint64_t n = len / 8, lines = (n + LINE - 1) / LINE, sum = 0;
    for (uint64_t j = 0; j < n; j += LINE)
        sum += w[j];
    uint64_t steps = lines % 2 ? lines * ((lines - 1) / 2) : lines / 2 * (lines - 1);
    return sum == lines * index * A + steps * LINE * B ? 0 : -EILSEQ;
}
