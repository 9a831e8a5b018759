/* SPDX-License-Identifier: Apache-2.0 */
/* key_text.c - convert keys to text and back. */
#include "key_text.h"

#include <base/text.h>
#include <base/vec.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32 /* nesting of tuples */

int bytes_add(struct bytes *b, const void *data, size_t len) {
    if (len > SIZE_MAX - b->len || VEC_ROOM(&b->data, &b->cap, b->len + len, 64) < 0)
        return -ENOMEM;
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    return 0;
}

void bytes_free(struct bytes *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

static int add_text(struct bytes *b, const char *text) {
    return bytes_add(b, text, strlen(text));
}

/* --- to text --- */

/* quote 0: no quotes. wide: valid UTF-8 is shown as it is, and an invalid byte as the lone
 * surrogate that Python uses for it. */
static int show_bytes(struct bytes *out, const uint8_t *p, size_t len, char quote, bool wide) {
    for (size_t i = 0; i < len;) {
        char e[16];
        size_t n = p[i] < 0x80 || !wide ? 0 : utf8_length(p + i, len - i);
        if (n > 0) {
            if (bytes_add(out, p + i, n) < 0)
                return -ENOMEM;
            i += n;
            continue;
        }
        uint8_t c = p[i++];
        if (c == '\\' || (quote != 0 && c == (uint8_t)quote))
            snprintf(e, sizeof e, "\\%c", c);
        else if (c >= 0x20 && c < 0x7f)
            snprintf(e, sizeof e, "%c", c);
        else if (quote != 0 && (c == '\n' || c == '\t' || c == '\r'))
            snprintf(e, sizeof e, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        else if (quote != 0 && wide && c >= 0x80)
            snprintf(e, sizeof e, "\\udc%02x", c);
        else
            snprintf(e, sizeof e, "\\x%02x", c);
        if (add_text(out, e) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int show_quoted(struct bytes *out, const uint8_t *p, size_t len, bool wide) {
    char quote[2] = {'\'', 0};
    if (memchr(p, '\'', len) && !memchr(p, '"', len))
        quote[0] = '"';
    if ((!wide && add_text(out, "b") < 0) || add_text(out, quote) < 0 ||
        show_bytes(out, p, len, quote[0], wide) < 0)
        return -ENOMEM;
    return add_text(out, quote);
}

static bool is_decimal(const uint8_t *p, size_t len) {
    size_t at = len > 0 && p[0] == '-';
    if (at == len || (p[at] == '0' && (at > 0 || len > 1)))
        return false;
    for (; at < len; at++)
        if (p[at] < '0' || p[at] > '9')
            return false;
    return true;
}

static int show_python(struct bytes *out, const uint8_t *p, size_t len, unsigned depth);

static int show_tuple(struct bytes *out, const uint8_t *p, size_t len, unsigned depth) {
    unsigned parts = 0;
    int rc = add_text(out, "(");
    for (size_t at = 0; rc == 0 && at < len; parts++) {
        if (len - at < 4)
            return -EINVAL;
        size_t n =
            p[at] | (size_t)p[at + 1] << 8 | (size_t)p[at + 2] << 16 | (size_t)p[at + 3] << 24;
        if (n > len - at - 4)
            return -EINVAL;
        if (parts > 0)
            rc = add_text(out, ", ");
        if (rc == 0)
            rc = show_python(out, p + at + 4, n, depth + 1);
        at += 4 + n;
    }
    return rc < 0 ? rc : add_text(out, parts == 1 ? ",)" : ")");
}

/* -EINVAL: the key has not Python's form. */
static int show_python(struct bytes *out, const uint8_t *p, size_t len, unsigned depth) {
    if (len == 0 || depth > DEPTH_MAX)
        return -EINVAL;
    switch (p[0]) {
    case 's':
        return show_quoted(out, p + 1, len - 1, true);
    case 'b':
        return show_quoted(out, p + 1, len - 1, false);
    case 'i':
        return is_decimal(p + 1, len - 1) ? bytes_add(out, p + 1, len - 1) : -EINVAL;
    case 't':
        return show_tuple(out, p + 1, len - 1, depth);
    default:
        return -EINVAL;
    }
}

int key_show(struct bytes *out, const void *key, size_t len, bool *python) {
    out->len = 0;
    int rc = show_python(out, key, len, 0);
    if (python)
        *python = rc == 0;
    if (rc == -EINVAL) {
        out->len = 0;
        rc = show_bytes(out, key, len, 0, true);
    }
    if (rc == 0)
        rc = bytes_add(out, "", 1);
    if (rc == 0)
        out->len--;
    return rc;
}

/* --- from text --- */

int key_of_str(struct bytes *out, const char *text) {
    out->len = 0;
    return bytes_add(out, "s", 1) == 0 ? add_text(out, text) : -ENOMEM;
}

int key_of_int(struct bytes *out, const char *text) {
    out->len = 0;
    if (!is_decimal((const uint8_t *)text, strlen(text)))
        return -EINVAL;
    return bytes_add(out, "i", 1) == 0 ? add_text(out, text) : -ENOMEM;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Read n hex digits at *at. */
static int hex_take(const char **at, int n, uint32_t *value) {
    *value = 0;
    for (; n > 0; n--) {
        int d = hex_digit(**at);
        if (d < 0)
            return -EINVAL;
        *value = *value << 4 | (uint32_t)d;
        (*at)++;
    }
    return 0;
}

static int add_character(struct bytes *out, uint32_t c) {
    uint8_t u[4];
    if (c >= 0xdc80 && c <= 0xdcff) { /* a lone surrogate stands for one byte */
        u[0] = (uint8_t)(c & 0xff);
        return bytes_add(out, u, 1);
    }
    if (c < 0x80) {
        u[0] = (uint8_t)c;
        return bytes_add(out, u, 1);
    }
    if (c < 0x800) {
        u[0] = (uint8_t)(0xc0 | c >> 6);
        u[1] = (uint8_t)(0x80 | (c & 0x3f));
        return bytes_add(out, u, 2);
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return -EINVAL;
    if (c < 0x10000) {
        u[0] = (uint8_t)(0xe0 | c >> 12);
        u[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        u[2] = (uint8_t)(0x80 | (c & 0x3f));
        return bytes_add(out, u, 3);
    }
    u[0] = (uint8_t)(0xf0 | c >> 18);
    u[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    u[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    u[3] = (uint8_t)(0x80 | (c & 0x3f));
    return bytes_add(out, u, 4);
}

/* Read the escape sequence after a backslash. wide: the text is a str. */
static int escape_take(struct bytes *out, const char **at, bool wide) {
    static const char from[] = "\\'\"ntr0", to[] = "\\'\"\n\t\r";
    char c = **at;
    uint32_t v;
    if (c == 0)
        return -EINVAL;
    (*at)++;
    const char *k = strchr(from, c);
    if (k)
        return bytes_add(out, &to[k - from], 1);
    if (c == 'x' && hex_take(at, 2, &v) == 0) {
        uint8_t b = (uint8_t)v;
        return wide ? add_character(out, v) : bytes_add(out, &b, 1);
    }
    if (wide && ((c == 'u' && hex_take(at, 4, &v) == 0) || (c == 'U' && hex_take(at, 8, &v) == 0)))
        return add_character(out, v);
    return -EINVAL;
}

static void space_skip(const char **at) {
    while (isspace((unsigned char)**at))
        (*at)++;
}

static int quoted_take(struct bytes *out, const char **at, bool wide) {
    char quote = *(*at)++;
    while (**at != quote) {
        int rc;
        if (**at == 0)
            return -EINVAL;
        if (**at == '\\') {
            (*at)++;
            rc = escape_take(out, at, wide);
        } else {
            if (!wide && (unsigned char)**at >= 0x80)
                return -EINVAL;
            rc = bytes_add(out, (*at)++, 1);
        }
        if (rc < 0)
            return rc;
    }
    (*at)++;
    return 0;
}

static int literal_take(struct bytes *out, const char **at, unsigned depth);

static int tuple_take(struct bytes *out, const char **at, unsigned depth) {
    bool comma = false;
    unsigned parts = 0;
    (*at)++;
    for (;;) {
        space_skip(at);
        if (**at == ')')
            break;
        if (parts > 0 && !comma)
            return -EINVAL;
        size_t head = out->len;
        int rc = bytes_add(out, "\0\0\0", 4);
        if (rc == 0)
            rc = literal_take(out, at, depth + 1);
        if (rc < 0)
            return rc;
        size_t n = out->len - head - 4;
        for (int i = 0; i < 4; i++)
            out->data[head + (size_t)i] = (uint8_t)(n >> 8 * i);
        parts++;
        space_skip(at);
        comma = **at == ',';
        if (comma)
            (*at)++;
    }
    (*at)++;
    return parts == 1 && !comma ? -EINVAL : 0; /* (1) is not a tuple */
}

static int literal_take(struct bytes *out, const char **at, unsigned depth) {
    if (depth > DEPTH_MAX)
        return -EINVAL;
    space_skip(at);
    const char *p = *at;
    if (*p == '\'' || *p == '"')
        return bytes_add(out, "s", 1) == 0 ? quoted_take(out, at, true) : -ENOMEM;
    if (*p == 'b' && (p[1] == '\'' || p[1] == '"')) {
        (*at)++;
        return bytes_add(out, "b", 1) == 0 ? quoted_take(out, at, false) : -ENOMEM;
    }
    if (*p == '(')
        return bytes_add(out, "t", 1) == 0 ? tuple_take(out, at, depth) : -ENOMEM;
    size_t n = (*p == '-') + strspn(p + (*p == '-'), "0123456789");
    if (!is_decimal((const uint8_t *)p, n))
        return -EINVAL;
    *at += n;
    return bytes_add(out, "i", 1) == 0 ? bytes_add(out, p, n) : -ENOMEM;
}

int key_of_literal(struct bytes *out, const char *text) {
    out->len = 0;
    int rc = literal_take(out, &text, 0);
    if (rc < 0)
        return rc;
    space_skip(&text);
    return *text == 0 ? 0 : -EINVAL;
}

int key_of_raw(struct bytes *out, const char *text) {
    out->len = 0;
    while (*text != 0) {
        int rc;
        if (*text == '\\') {
            text++;
            if (*text != 'x' && *text != '\\')
                return -EINVAL;
            rc = escape_take(out, &text, false);
        } else {
            rc = bytes_add(out, text++, 1);
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}
