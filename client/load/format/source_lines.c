/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_lines.c - a text file: each line is a record. The lines are counted first if the number of
 * a line must be known before the lines in front of it are read (several files, or several nodes).
 */
#include "input.h"
#include "lines.h"
#include "sources.h"
#include <base/error.h>

#include <errno.h>
#include <load/load.h>
#include <load/plan.h>
#include <stdlib.h>
#include <string.h>

#define PIECE (1u << 20)
/* a smaller file is one unit: counting its lines would take as long as reading it */
#define ALONE_BYTES (64u << 20)

static bool is_text(const char *text, bool folder, const unsigned char *head, size_t n) {
    return !folder && !strstr(text, "://") &&
           path_ends(text, ".txt .csv .tsv .jsonl .ndjson .text .list .lst .log");
}

static int unit_put(struct load_plan *p, uint64_t begin, uint64_t end, uint64_t first,
                    int64_t items, uint64_t bytes) {
    struct pack work = {0};
    struct unit_facts f = {
        .read = bytes, .items = items, .bytes = items < 0 ? -1 : (int64_t)bytes, .largest = -1};
    pack_u64(&work, begin);
    pack_u64(&work, end);
    pack_u64(&work, first);
    int rc = work.bad ? dd_error(-ENOMEM, "out of memory") : plan_unit(p, &f, work.data, work.len);
    pack_free(&work);
    return rc;
}

/* Make units that end at line ends. whole: one unit for all. */
static int lines_count_units(struct load_plan *p, struct input *in, bool whole) {
    size_t room = input_room(in, PIECE);
    uint8_t *buf = malloc(room);
    uint64_t begin = 0, at = 0, lines = 0;
    bool open = false; /* the last line has no newline yet */
    ssize_t n = 0;
    int rc = !buf ? dd_error(-ENOMEM, "out of memory") : 0;
    while (rc == 0 && (n = input_read(in, buf, room)) > 0) {
        for (const uint8_t *b = buf, *end = buf + n, *nl; b < end && rc == 0; b = nl + 1) {
            nl = memchr(b, '\n', (size_t)(end - b));
            open = !nl;
            if (open)
                break;
            lines++;
            uint64_t here = at + (uint64_t)(nl + 1 - buf);
            if (!whole && (here - begin >= LOAD_UNIT_BYTES || lines >= LOAD_UNIT_ITEMS)) {
                rc = unit_put(p, begin, here, plan_number(p, lines), (int64_t)lines, here - begin);
                begin = here;
                lines = 0;
            }
        }
        at += (uint64_t)n;
        if (load_stopped())
            rc = -ECANCELED;
    }
    free(buf);
    lines += open;
    if (rc == 0 && n < 0)
        rc = plan_failed(p, NULL, 0, "%s", dd_errmsg());
    if (rc == 0 && lines > 0)
        rc = unit_put(p, begin, whole ? UINT64_MAX : at, plan_number(p, lines), (int64_t)lines,
                      whole ? in->size : at - begin);
    return rc;
}

static int lines_plan(struct load_plan *p, const char *text) {
    struct input in;
    int rc = input_open(&in, text, 0, UINT64_MAX);
    if (rc == 0 && the_load.o->nsources == 1 &&
        (in.compressed || in.size <= ALONE_BYTES || the_load.workers == 1))
        rc = unit_put(p, 0, UINT64_MAX, 0, -1, in.size);
    else if (rc == 0)
        rc = lines_count_units(p, &in, in.compressed);
    input_close(&in);
    return rc;
}

struct numbering {
    struct sink *s;
    uint64_t next;
};

static int line_take(void *arg, const uint8_t *line, size_t len) {
    struct numbering *n = arg;
    if (len > 0 && line[len - 1] == '\r')
        len--;
    int rc = sink_begin_number(n->s, n->next++, (int64_t)len);
    if (rc == 1 && (rc = sink_add(n->s, line, len)) == 0)
        rc = sink_end(n->s, text_is_utf8(line, len) ? LOAD_TAG_STR : LOAD_TAG_BYTES);
    return rc < 0 ? rc : 0;
}

static int lines_read(struct sink *s, const char *text, const void *work, size_t len) {
    struct unpack u = {.at = work, .left = len};
    uint64_t begin = unpack_u64(&u), end = unpack_u64(&u), first = unpack_u64(&u);
    struct numbering n = {s, first};
    int rc = lines_each(s, text, begin, end, first, line_take, &n);
    return rc < 0 ? rc : 0;
}

const struct source_kind source_lines = {
    .name = "lines", .numbered = true, .match = is_text, .plan = lines_plan, .read = lines_read};
