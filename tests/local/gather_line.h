/* SPDX-License-Identifier: Apache-2.0 */
/* gather_line.h - for tests that start ddictds without a starter: its line `gather` (STARTUP 2). */
#ifndef DDICT_TEST_GATHER_LINE_H
#define DDICT_TEST_GATHER_LINE_H

#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* all: the node infos in base64, with a blank between. */
static inline void gather_line_write(int fd, const char *all, const uint8_t secret[32]) {
    uint8_t digest[32];
    char text[2][sodium_base64_ENCODED_LEN(32, sodium_base64_VARIANT_ORIGINAL)];
    crypto_generichash(digest, sizeof digest, (const uint8_t *)all, strlen(all), NULL, 0);
    sodium_bin2base64(text[0], sizeof text[0], digest, 32, sodium_base64_VARIANT_ORIGINAL);
    sodium_bin2base64(text[1], sizeof text[1], secret, 32, sodium_base64_VARIANT_ORIGINAL);
    dprintf(fd, "gather %s %s %.*s\n", text[0], text[1], (int)strcspn(all, " "), all);
}

#endif
