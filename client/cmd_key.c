/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_key.h"

#define TUPLE_DEPTH 16 /* deeper tuples are printed raw */

size_t key_encode(enum key_form form, const char *text, char *buf, const char **why) {
    size_t n = strlen(text);
    if (n + 1 > DDICT_KEY_MAX) {
        *why = "the key is longer than 65,535 bytes";
        return 0;
    }
    if (form == KEY_RAW) {
        if (n == 0) *why = "a raw key has at least one byte";
        memcpy(buf, text, n);
        return n;
    }
    if (form == KEY_INT) {
        char *end;
        errno = 0;
        long long v = strtoll(text, &end, 10);
        if (end == text || *end || errno) {
            *why = "--int wants a decimal number of at most 64 bits";
            return 0;
        }
        return (size_t)sprintf(buf, "i%lld", v);
    }
    buf[0] = 's';
    memcpy(buf + 1, text, n);
    return n + 1;
}

const char *key_text(const void *key, size_t len, size_t *text_len) {
    const char *k = key;
    if (len == 0 || k[0] != 's') return NULL;
    *text_len = len - 1;
    return k + 1;
}

static bool decimal(const char *k, size_t n) {
    size_t i = n > 1 && k[0] == '-';
    if (i == n) return false;
    for (; i < n; i++)
        if (k[i] < '0' || k[i] > '9') return false;
    return true;
}

static uint32_t part_len(const char *k) {
    const unsigned char *u = (const unsigned char *)k;
    return u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

static bool well_formed(const char *k, size_t n, int depth) {
    if (n == 0) return false;
    if (k[0] == 's' || k[0] == 'b') return true;
    if (k[0] == 'i') return decimal(k + 1, n - 1);
    if (k[0] != 't' || depth == TUPLE_DEPTH) return false;
    for (size_t at = 1; at < n;) {
        if (n - at < 4) return false;
        uint32_t part = part_len(k + at);
        at += 4;
        if (part > n - at || !well_formed(k + at, part, depth + 1)) return false;
        at += part;
    }
    return true;
}

static void quoted(FILE *out, const char *k, size_t n, bool utf8) {
    fputc('\'', out);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)k[i];
        if (c == '\\' || c == '\'') fprintf(out, "\\%c", c);
        else if (c == '\n') fputs("\\n", out);
        else if (c == '\t') fputs("\\t", out);
        else if (c < 32 || c == 127 || (c > 127 && !utf8)) fprintf(out, "\\x%02x", c);
        else fputc(c, out);
    }
    fputc('\'', out);
}

static void print_form(FILE *out, const char *k, size_t n) {
    if (k[0] == 's') quoted(out, k + 1, n - 1, true);
    else if (k[0] == 'b') {
        fputc('b', out);
        quoted(out, k + 1, n - 1, false);
    } else if (k[0] == 'i') fwrite(k + 1, 1, n - 1, out);
    else {
        unsigned parts = 0;
        fputc('(', out);
        for (size_t at = 1; at < n; parts++) {
            uint32_t part = part_len(k + at);
            if (parts) fputs(", ", out);
            print_form(out, k + at + 4, part);
            at += 4 + part;
        }
        fputs(parts == 1 ? ",)" : ")", out);
    }
}

void key_print(FILE *out, const void *key, size_t len) {
    const char *k = key;
    if (well_formed(k, len, 0)) {
        print_form(out, k, len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)k[i];
        if (c < 32 || c > 126 || c == '\\') fprintf(out, "\\x%02x", c);
        else fputc(c, out);
    }
}
