/* SPDX-License-Identifier: Apache-2.0 */
/* source_fasta.c - FASTA: ">identifier description", then lines of the sequence. A plain file is
 * cut before a ">", so that each thread reads a part of it. */
#include "input.h"
#include "lines.h"
#include "sources.h"
#include <base/error.h>
#include <base/io.h>

#include <errno.h>
#include <load/load.h>
#include <load/plan.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_fasta(const char *text, bool folder, const unsigned char *head, size_t n) {
    return !folder && path_ends(text, ".fa .fasta .fna .ffn .faa .frn .fas");
}

static int unit_put(struct load_plan *p, uint64_t begin, uint64_t end, uint64_t size) {
    struct pack work = {0};
    struct unit_facts f = {.read = size,
                           .items = -1,
                           .bytes = end == UINT64_MAX ? -1 : (int64_t)(end - begin),
                           .largest = -1};
    pack_u64(&work, begin);
    pack_u64(&work, end);
    int rc = work.bad ? dd_error(-ENOMEM, "out of memory") : plan_unit(p, &f, work.data, work.len);
    pack_free(&work);
    return rc;
}

/* The offset of the first header at or after at, or of the file's end; negative: an error. */
static int64_t header_find(struct input *in, uint64_t at) {
    static const size_t step = 64 << 10;
    uint8_t *buf = malloc(step);
    int64_t found = (int64_t)in->size;
    bool line = false; /* the byte before was a newline */
    at--;              /* to see a newline before the header; at > 0 */
    while (buf && at < in->size && !load_stopped()) {
        ssize_t n = read_all_at(in->fd, buf, step, at);
        if (n <= 0) {
            found = n < 0 ? dd_error((int)n, "%s: %s", in->path, strerror((int)-n)) : found;
            break;
        }
        for (ssize_t i = 0; i < n; i++) {
            if (line && buf[i] == '>') {
                free(buf);
                return (int64_t)at + i;
            }
            line = buf[i] == '\n';
        }
        at += (uint64_t)n;
    }
    if (!buf)
        found = dd_error(-ENOMEM, "out of memory");
    free(buf);
    return found;
}

static int fasta_plan(struct load_plan *p, const char *text) {
    struct input in;
    int rc = input_open(&in, text, 0, UINT64_MAX);
    if (rc == 0 && in.compressed)
        rc = unit_put(p, 0, UINT64_MAX, in.size);
    for (uint64_t begin = 0; rc == 0 && !in.compressed && begin < in.size;) {
        int64_t end = begin + LOAD_UNIT_BYTES / 4 < in.size
                          ? header_find(&in, begin + LOAD_UNIT_BYTES / 4)
                          : (int64_t)in.size;
        rc = end < 0          ? (int)end
             : load_stopped() ? -ECANCELED
                              : unit_put(p, begin, (uint64_t)end, (uint64_t)end - begin);
        begin = (uint64_t)end;
    }
    input_close(&in);
    return rc;
}

struct parse {
    struct sink *s;
    uint64_t line, begin; /* begin: offset of the unit, for messages */
    char *id;             /* identifier of the open record; NULL: none */
    bool wanted, utf8;
    struct pack seq;
};

static int record_end(struct parse *p) {
    int rc = 0;
    if (p->id && p->wanted) {
        rc = p->seq.bad ? dd_error(-ENOMEM, "out of memory")
                        : sink_begin(p->s, p->id, strlen(p->id), (int64_t)p->seq.len);
        if (rc == 1 && (rc = sink_add(p->s, p->seq.data, p->seq.len)) == 0)
            rc = sink_end(p->s,
                          text_is_utf8(p->seq.data, p->seq.len) ? LOAD_TAG_STR : LOAD_TAG_BYTES);
    }
    free(p->id);
    p->id = NULL;
    p->seq.len = 0;
    return rc < 0 ? rc : 0;
}

static int line_take(void *arg, const uint8_t *line, size_t len) {
    struct parse *p = arg;
    p->line++;
    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' ' || line[len - 1] == '\t'))
        len--;
    if (len == 0 || *line == ';')
        return 0;
    if (*line != '>' && !p->wanted)
        return 0;
    if (*line != '>' && !p->id) {
        p->wanted = false; /* report it once */
        return sink_failed(
            p->s, NULL, 0, "line %llu%s: a sequence without a header (\">identifier\") before it",
            (unsigned long long)p->line, p->begin > 0 ? " of the part that was read" : "");
    }
    if (*line != '>') {
        pack_bytes(&p->seq, line, len);
        if (p->seq.len <= the_load.manager_bytes)
            return 0;
        p->wanted = false; /* skip the rest of the sequence */
        return sink_failed(p->s, p->id, strlen(p->id), "it is longer than a manager can hold");
    }
    int rc = record_end(p);
    if (rc < 0)
        return rc;
    size_t n = 1;
    while (n < len && line[n] != ' ' && line[n] != '\t')
        n++;
    p->wanted = n > 1 && !memchr(line, 0, n);
    if (!p->wanted)
        return sink_failed(p->s, NULL, 0, "line %llu%s: a header without an identifier",
                           (unsigned long long)p->line,
                           p->begin > 0 ? " of the part that was read" : "");
    p->id = strndup((const char *)line + 1, n - 1);
    return p->id ? 0 : dd_error(-ENOMEM, "out of memory");
}

static int fasta_read(struct sink *s, const char *text, const void *work, size_t len) {
    struct unpack u = {.at = work, .left = len};
    uint64_t begin = unpack_u64(&u), end = unpack_u64(&u);
    struct parse p = {.s = s, .begin = begin, .wanted = true};
    int rc = lines_each(s, text, begin, end, 0, line_take, &p);
    if (rc == 1) { /* the last sequence is incomplete */
        free(p.id);
        p.id = NULL;
        rc = 0;
    }
    if (rc == 0)
        rc = record_end(&p);
    free(p.id);
    pack_free(&p.seq);
    return rc;
}

const struct source_kind source_fasta = {
    .name = "fasta", .match = is_fasta, .plan = fasta_plan, .read = fasta_read};
