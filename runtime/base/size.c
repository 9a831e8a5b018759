/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - sizes and counts in the form in which people write them. */
#include "size.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SIZE_LIMIT ((uint64_t)INT64_MAX)

/* Power of two of a suffix ("", "B", "K", "KB", "KiB", ...); -EINVAL. */
static int suffix_shift(const char *s) {
    static const char letters[] = "kmgt";
    if (*s == 0 || strcasecmp(s, "b") == 0)
        return 0;
    const char *at = strchr(letters, tolower((unsigned char)*s));
    if (!at)
        return -EINVAL;
    s++;
    if (*s && strcasecmp(s, "b") && strcasecmp(s, "ib"))
        return -EINVAL;
    return 10 * (int)(at - letters + 1);
}

int size_parse(const char *text, uint64_t *bytes) {
    const char *p = text;
    unsigned __int128 whole = 0;
    uint64_t part = 0, scale = 1;
    if (!isdigit((unsigned char)*p))
        return -EINVAL;
    int range = 0;
    for (; isdigit((unsigned char)*p); p++) {
        whole = whole * 10 + (unsigned)(*p - '0');
        if (whole > SIZE_LIMIT) {
            whole = SIZE_LIMIT;
            range = 1;
        }
    }
    if (*p == '.') {
        if (!isdigit((unsigned char)*++p))
            return -EINVAL;
        for (; isdigit((unsigned char)*p); p++)
            if (scale < 1000000000u) {
                part = part * 10 + (unsigned)(*p - '0');
                scale *= 10;
            }
    }
    int shift = suffix_shift(p);
    if (shift < 0)
        return shift;
    if (range)
        return -ERANGE;
    whole <<= shift;
    whole += ((unsigned __int128)part << shift) / scale;
    if (whole > SIZE_LIMIT)
        return -ERANGE;
    *bytes = (uint64_t)whole;
    return 0;
}

int count_parse(const char *text, uint64_t lo, uint64_t hi, uint64_t *n) {
    uint64_t v = 0;
    int range = 0;
    if (!*text)
        return -EINVAL;
    for (const char *p = text; *p; p++) {
        if (!isdigit((unsigned char)*p))
            return -EINVAL;
        uint64_t digit = (uint64_t)(*p - '0');
        if (v > (UINT64_MAX - digit) / 10)
            range = 1;
        else
            v = v * 10 + digit;
    }
    if (range || v < lo || v > hi)
        return -ERANGE;
    *n = v;
    return 0;
}

char *size_format(char *buf, size_t cap, uint64_t bytes) {
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(buf, cap, "%u B", (unsigned)bytes);
        return buf;
    }
    double v = (double)bytes / 1024;
    size_t i = 0;
    while (v >= 1023.95 && i + 1 < sizeof unit / sizeof *unit) {
        v /= 1024;
        i++;
    }
    snprintf(buf, cap, "%.1f %s", v, unit[i]);
    return buf;
}

int hugepages_parse(const char *text, uint64_t *page) {
    uint64_t n;
    if (strcmp(text, "no") == 0)
        *page = 0;
    else if (strcmp(text, "advise") == 0)
        *page = 1;
    else if (size_parse(text, &n) < 0 || n < 64u << 10 || n > 64ull << 30 || (n & (n - 1)))
        return -EINVAL;
    else
        *page = n;
    return 0;
}
