/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - which bytes are printable. */
#include "text.h"

#include <stdbool.h>
#include <string.h>

size_t utf8_length(const uint8_t *p, size_t len) {
    size_t n = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (n == 0 || n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    uint32_t c =
        n == 2   ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
        : n == 3 ? (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu)
                 : (p[0] & 7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
    bool whole = (n == 2 || (n == 3 && c >= 0x800 && (c < 0xd800 || c > 0xdfff)) ||
                  (n == 4 && c >= 0x10000 && c <= 0x10ffff));
    return whole && c >= 0xa0 ? n : 0;
}

char *text_plain(char *text) {
    uint8_t *at = (uint8_t *)text;
    size_t left = strlen(text);
    while (left > 0) {
        size_t n = *at < 0x80 ? 0 : utf8_length(at, left);
        if (n == 0 && (*at < 0x20 || *at >= 0x7f))
            *at = '?';
        n += n == 0;
        at += n;
        left -= n;
    }
    return text;
}
