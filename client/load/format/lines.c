/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - a file of text, line by line; a line may be as long as a value can be. */
#include "lines.h"

#include "input.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <load/load.h>
#include <stdlib.h>
#include <string.h>

#define PIECE (1u << 20)

struct reader {
    struct sink *s;
    struct input in;
    uint8_t *buf;
    size_t have, cap; /* bytes of the incomplete last line; size of buf */
    uint64_t lines;
};

/* Pass on the complete lines; n new bytes follow the `have` bytes of the incomplete line. */
static int pieces_give(struct reader *r, size_t n,
                       int (*take)(void *arg, const uint8_t *line, size_t len), void *arg) {
    const uint8_t *b = r->buf, *nl;
    size_t left = r->have + n, seen = r->have;
    int rc = 0;
    while (rc == 0 && (nl = memchr(b + seen, '\n', left - seen))) {
        rc = take(arg, b, (size_t)(nl - b));
        left -= (size_t)(nl + 1 - b);
        b = nl + 1;
        seen = 0;
        r->lines++;
    }
    memmove(r->buf, b, left);
    r->have = left;
    return rc;
}

static int room_make(struct reader *r) {
    if (r->cap > the_load.manager_bytes || VEC_ROOM(&r->buf, &r->cap, r->cap + 1, PIECE) < 0)
        return dd_error(DDICT_EVALSIZE, "%s: line %llu is longer than a manager can hold",
                        r->in.path, (unsigned long long)r->lines + 1);
    return 0;
}

int lines_each(struct sink *s, const char *text, uint64_t begin, uint64_t end, uint64_t before,
               int (*take)(void *arg, const uint8_t *line, size_t len), void *arg) {
    struct reader r = {.s = s, .lines = before};
    uint64_t told = begin;
    ssize_t got = 0;
    int rc = input_open(&r.in, text, begin, end);
    if (rc == 0) {
        r.cap = input_room(&r.in, PIECE);
        r.buf = malloc(r.cap);
        rc = !r.buf ? dd_error(-ENOMEM, "out of memory") : 0;
    }
    if (rc == 0 && end != UINT64_MAX && r.in.size < end)
        rc = dd_error(-ENODATA, "%s: it became shorter while it was read", text);
    while (rc == 0 && (got = input_read(&r.in, r.buf + r.have, r.cap - r.have)) > 0) {
        rc = pieces_give(&r, (size_t)got, take, arg);
        sink_advance(s, input_position(&r.in) - told);
        told = input_position(&r.in);
        if (rc == 0 && load_stopped())
            rc = -ECANCELED;
        if (rc == 0 && r.have == r.cap)
            rc = room_make(&r);
    }
    if (rc == 0 && got < 0) {
        const char *why = dd_errmsg();
        /* sink_failed() puts the name in front again */
        why += strncmp(why, text, strlen(text)) == 0 ? strlen(text) + 2 : 0;
        rc = sink_failed(s, NULL, 0, "%s; what follows line %llu of it is missing", why,
                         (unsigned long long)r.lines);
        rc = rc == 0 ? 1 : rc;
    } else if (rc == 0 && r.have > 0) {
        rc = take(arg, r.buf, r.have);
    }
    input_close(&r.in);
    free(r.buf);
    return rc;
}
