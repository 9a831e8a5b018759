/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - keys and values that follow from a number. */
#include "peers.h"

#include <errno.h>
#include <string.h>

#define A    0x9E3779B97F4A7C15ull
#define B    0xC2B2AE3D27D4EB4Full
#define LINE 8u /* words */

void pair_key(char key[KEY_BYTES], uint64_t index) {
    static const char hex[] = "0123456789abcdef";
    uint64_t x = index * A;
    for (unsigned i = 0; i < KEY_BYTES; i++, x >>= 4)
        key[i] = hex[x & 15];
}

uint64_t pair_number(const struct where *w, uint64_t i) {
    return w->number ? w->number[i] : i;
}

void pair_fill(void *val, size_t len, uint64_t index) {
    uint64_t *w = val, x = index * A;
    for (size_t j = 0; j < len / 8; j++, x += B)
        w[j] = x;
}

int pair_check(const void *val, size_t len, uint64_t index) {
    const uint64_t *w = val;
    uint64_t n = len / 8, lines = (n + LINE - 1) / LINE, sum = 0;
    for (uint64_t j = 0; j < n; j += LINE)
        sum += w[j];
    uint64_t steps = lines % 2 ? lines * ((lines - 1) / 2) : lines / 2 * (lines - 1);
    return sum == lines * index * A + steps * LINE * B ? 0 : -EILSEQ;
}

uint64_t random_below(struct random *r, uint64_t n) {
    r->x ^= r->x << 13;
    r->x ^= r->x >> 7;
    r->x ^= r->x << 17;
    return (uint64_t)(((unsigned __int128)r->x * n) >> 64);
}
