/* SPDX-License-Identifier: Apache-2.0 */
/* startup_lines.h - a stream cut into lines, and which of them are the handshake's. libc only: the
 * plugin uses it too. */
#ifndef DDICT_LAUNCH_STARTUP_LINES_H
#define DDICT_LAUNCH_STARTUP_LINES_H

#include <stddef.h>

/* bytes in the line `gather` (STARTUP 2) */
#define STARTUP_DIGEST 32
#define STARTUP_SECRET 32

struct lines {
    char *buf; /* ours: the unfinished line */
    size_t len, room;
    size_t max; /* a longer line is dropped whole; set it before the first feed */
    int dropping;
};

enum line_kind {
    LINE_OTHER,
    LINE_START,
    LINE_READY,
    LINE_ERROR,
    LINE_REPORT,
    LINE_END,
    LINE_CARD,
    LINE_EXISTS,
    LINE_WARN,
    LINE_UNSAVED, /* a warning: not all that was to be saved was */
    LINE_SUMMARY,
    LINE_LOADING,
    LINE_SAVING
};

/* fn gets each finished line, 0-terminated, without \n and \r, to keep only during the call. 0 or
 * -ENOMEM (the line was dropped). */
int lines_feed(struct lines *l, const char *bytes, size_t n, void (*fn)(void *arg, char *line),
               void *arg);
void lines_free(struct lines *l);

/* What a line is; *rest (may be NULL): behind the word, without leading blanks. */
enum line_kind line_parse(const char *line, const char **rest);
/* The value of `key=` in "a=1 b=2"; copied, at most cap - 1 bytes. Returns its length or -1. */
int line_value(const char *text, const char *key, char *value, size_t cap);

#endif
