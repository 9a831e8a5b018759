/* SPDX-License-Identifier: Apache-2.0 */
#include "typed.h"

#include <string.h>

size_t decimal_write(char text[DECIMAL_MAX], bool negative, uint64_t number) {
    char digits[DECIMAL_MAX + 1], *p = digits + sizeof digits;
    do
        *--p = (char)('0' + number % 10);
    while (number /= 10);
    if (negative)
        *--p = '-';
    size_t len = (size_t)(digits + sizeof digits - p);
    memcpy(text, p, len);
    return len;
}

size_t decimal_write_int(char text[DECIMAL_MAX], int64_t number) {
    return decimal_write(text, number < 0, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

bool decimal_is(const void *text, size_t len) {
    const char *p = text;
    size_t at = len > 0 && p[0] == '-';
    if (at == len || (p[at] == '0' && len > 1))
        return false;
    for (; at < len; at++)
        if (p[at] < '0' || p[at] > '9')
            return false;
    return true;
}

bool decimal_read_int(const void *text, size_t len, int64_t *number) {
    const char *p = text;
    bool negative = p[0] == '-';
    int64_t n = 0;
    for (size_t i = negative; i < len; i++) {
        int digit = p[i] - '0';
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, negative ? -digit : digit, &n))
            return false;
    }
    *number = n;
    return true;
}
