/* SPDX-License-Identifier: Apache-2.0 */
/* startup_lines.c - cut a stream into lines and know those of the handshake. */
#include "startup_lines.h"

#include <base/vec.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int lines_feed(struct lines *l, const char *bytes, size_t n, void (*fn)(void *arg, char *line),
               void *arg) {
    int rc = 0;

    while (n > 0) {
        const char *nl = memchr(bytes, '\n', n);
        size_t part = !nl ? n : (size_t)(nl - bytes);

        if (!l->dropping && l->len + part > l->max)
            l->dropping = 1;
        if (!l->dropping && VEC_ROOM(&l->buf, &l->room, l->len + part + 1, 256) < 0) {
            l->dropping = 1;
            rc = -ENOMEM;
        }
        if (!l->dropping) {
            memcpy(l->buf + l->len, bytes, part);
            l->len += part;
        }
        if (!nl)
            return rc;
        if (!l->dropping) {
            while (l->len > 0 && l->buf[l->len - 1] == '\r')
                l->len--;
            l->buf[l->len] = '\0';
            fn(arg, l->buf);
        }
        l->len = 0;
        l->dropping = 0;
        bytes += part + 1;
        n -= part + 1;
    }
    return rc;
}

void lines_free(struct lines *l) {
    free(l->buf);
    memset(l, 0, sizeof *l);
}

enum line_kind line_parse(const char *line, const char **rest) {
    static const struct {
        const char *word;
        enum line_kind kind;
    } words[] = {{"start", LINE_START},     {"ready", LINE_READY},   {"error", LINE_ERROR},
                 {"report", LINE_REPORT},   {"end", LINE_END},       {"card", LINE_CARD},
                 {"exists", LINE_EXISTS},   {"warn", LINE_WARN},     {"summary", LINE_SUMMARY},
                 {"loading", LINE_LOADING}, {"saving", LINE_SAVING}, {"unsaved", LINE_UNSAVED}};
    size_t i, n;

    if (strncmp(line, "ddict1 ", 7) != 0)
        return LINE_OTHER;
    line += 7;
    n = strcspn(line, " ");
    for (i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && memcmp(line, words[i].word, n) == 0) {
            if (rest)
                *rest = line + n + strspn(line + n, " ");
            return words[i].kind;
        }
    return LINE_OTHER;
}

int line_value(const char *text, const char *key, char *value, size_t cap) {
    size_t k = strlen(key), n;

    while (*text != '\0') {
        n = strcspn(text, " ");
        if (n > k && strncmp(text, key, k) == 0 && text[k] == '=') {
            n -= k + 1;
            if (n >= cap)
                return -1;
            memcpy(value, text + k + 1, n);
            value[n] = '\0';
            return (int)n;
        }
        text += n + strspn(text + n, " ");
    }
    return -1;
}
