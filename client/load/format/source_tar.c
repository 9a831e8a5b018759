/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_tar.c - tar, plain or compressed. A plain tar is cut into ranges at its headers, which are
 * found by seeks from one to the next; a compressed tar is read once, from its beginning, by one
 * thread. A member that is a tar itself is unpacked too: a.jpg in NAME.tar becomes NAME/a.jpg.
 */
#include "gunzip.h"
#include "input.h"
#include "source_archive.h"
#include "sources.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <fcntl.h>
#include <load/load.h>
#include <load/names.h>
#include <load/plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define TAR_DEPTH 8
#define BLOCK     512u

static bool is_tar(const char *text, bool folder, const unsigned char *head, size_t n) {
    return n >= 265 ? memcmp(head + 257, "ustar", 5) == 0 || path_ends(text, ".tar .tgz")
                    : path_ends(text, ".tar .tgz");
}

static bool is_inner(const char *name, size_t len) {
    return len > 4 && memcmp(name + len - 4, ".tar", 4) == 0 && name[len - 5] != '/';
}

/* --- plan --- */

struct range {
    uint64_t begin, end;
    struct unit_facts f;
    struct pack again; /* one u64 each: positions of headers whose names appear again later */
};

struct cut {
    struct range *range;
    uint64_t n;
    size_t cap;
};

static int range_begin(struct cut *c, uint64_t at) {
    if (VEC_ROOM(&c->range, &c->cap, c->n + 1, 64) < 0)
        return dd_error(-ENOMEM, "out of memory");
    if (c->n > 0)
        c->range[c->n - 1].end = at;
    c->range[c->n++] = (struct range){.begin = at};
    return 0;
}

/* A name appears again: note that the earlier member is left out. */
static int again_note(struct cut *c, uint64_t position) {
    uint64_t i = c->n;
    while (i > 0 && c->range[i - 1].begin > position)
        i--;
    pack_u64(&c->range[i - 1].again, position);
    return c->range[i - 1].again.bad ? dd_error(-ENOMEM, "out of memory") : 0;
}

static int member_plan(struct cut *c, struct names *names, struct archive *a,
                       struct archive_entry *e) {
    uint64_t at = (uint64_t)archive_read_header_position(a), before;
    size_t len;
    const char *name = member_name(e, &len);
    int64_t size = archive_entry_size(e) > 0 ? archive_entry_size(e) : 0;
    struct range *r = c->n > 0 ? &c->range[c->n - 1] : NULL;
    int rc = 0;
    if (!r || r->f.largest >= LOAD_UNIT_ITEMS || at - r->begin >= LOAD_UNIT_BYTES ||
        (at > r->begin && at - r->begin + (uint64_t)size > 2 * LOAD_UNIT_BYTES)) {
        rc = range_begin(c, !r ? 0 : at);
        r = rc == 0 ? &c->range[c->n - 1] : NULL;
    }
    if (rc < 0 || archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e))
        return rc;
    r->f.largest++; /* counts members until the end of the plan */
    r->f.bytes = bytes_add(r->f.bytes, size);
    if (name && is_inner(name, len)) {
        r->f.items = -1;
        return 0;
    }
    if (r->f.items >= 0)
        r->f.items++;
    struct pack clean = {0};
    if (name && name_clean(&clean, name, len) == 0) {
        rc = names_add(names, XXH3_64bits(clean.data, clean.len), at, &before);
        if (rc == 1)
            rc = again_note(c, before);
    }
    pack_free(&clean);
    return rc;
}

/* Whether the block after the last member is all zeros; else the archive may have been cut. */
static bool is_ended(const struct file_part *f, uint64_t at) {
    uint8_t block[BLOCK];
    if (pread(f->fd, block, sizeof block, (off_t)at) != sizeof block)
        return false;
    for (unsigned i = 0; i < sizeof block; i++)
        if (block[i] != 0)
            return false;
    return true;
}

static int ranges_put(struct load_plan *p, struct cut *c, uint64_t size) {
    int rc = 0;
    if (c->n > 0)
        c->range[c->n - 1].end = size;
    for (uint64_t i = 0; i < c->n; i++) {
        struct range *r = &c->range[i];
        struct pack work = {0};
        pack_u64(&work, r->begin);
        pack_u64(&work, r->end);
        pack_bytes(&work, r->again.data, r->again.len);
        r->f.read = r->end - r->begin;
        r->f.largest = -1;
        if (rc == 0)
            rc = work.bad ? dd_error(-ENOMEM, "out of memory")
                          : plan_unit(p, &r->f, work.data, work.len);
        pack_free(&work);
        pack_free(&r->again);
    }
    free(c->range);
    return rc;
}

static int plain_plan(struct load_plan *p, const char *text) {
    struct file_part f;
    struct archive *a;
    struct archive_entry *e;
    struct cut c = {0};
    struct names *names = names_new();
    uint64_t end = 0;
    int rc = part_open(&f, &a, text, FORM_TAR, 0, UINT64_MAX), h = ARCHIVE_EOF;
    if (rc == 0 && !names)
        rc = dd_error(-ENOMEM, "out of memory");
    while (rc == 0 && (h = archive_read_next_header(a, &e)) >= ARCHIVE_WARN && h != ARCHIVE_EOF) {
        end = (uint64_t)archive_filter_bytes(a, 0) +
              (!archive_entry_hardlink(e)
                   ? ((uint64_t)archive_entry_size(e) + BLOCK - 1) / BLOCK * BLOCK
                   : 0);
        rc = load_stopped() ? -ECANCELED : member_plan(&c, names, a, e);
    }
    if (rc == 0 && h != ARCHIVE_EOF) {
        rc = plan_failed(p, NULL, 0, "%s",
                         archive_error_string(a) ? archive_error_string(a) : "cannot be read");
        /* read the members that are complete */
        f.size = c.n > 0 ? (uint64_t)archive_read_header_position(a) : 0;
    } else if (rc == 0 && c.n > 0 && archive_entry_sparse_count(e) == 0 && !is_ended(&f, end) &&
               !is_ended(&f, (uint64_t)archive_read_header_position(a))) {
        rc = plan_failed(p, NULL, 0,
                         "it ends without an end-of-archive mark, after %llu bytes: was it cut?",
                         (unsigned long long)f.size);
    }
    if (rc < 0) {
        for (uint64_t i = 0; i < c.n; i++)
            pack_free(&c.range[i].again);
        free(c.range);
    } else {
        rc = ranges_put(p, &c, f.size);
    }
    names_free(names);
    part_close(&f, a);
    return rc;
}

static int tar_plan(struct load_plan *p, const char *text) {
    uint8_t head[8];
    struct input in;
    int rc = input_open(&in, text, 0, UINT64_MAX);
    ssize_t n = rc == 0 ? pread(in.fd, head, sizeof head, 0) : 0;
    struct unit_facts f = {.read = in.size, .items = -1, .bytes = -1, .largest = -1};
    input_close(&in);
    if (rc < 0)
        return rc;
    if (n < 0 || !input_compressed(head, (size_t)n))
        return plain_plan(p, text);
    struct pack work = {0};
    pack_u64(&work, 0);
    pack_u64(&work, UINT64_MAX);
    rc = plan_unit(p, &f, work.data, work.len);
    pack_free(&work);
    return rc;
}

/* --- read --- */

struct reading {
    struct sink *s;
    struct file_part f;
    struct unpack again;
};

static void reading_advance(struct reading *r) {
    sink_advance(r->s, r->f.at - r->f.told);
    r->f.told = r->f.at;
}

static bool is_again(const struct reading *r, uint64_t position) {
    for (size_t i = 0; i + 8 <= r->again.left; i += 8) {
        uint64_t v;
        memcpy(&v, r->again.at + i, 8);
        if (le64toh(v) == position)
            return true;
    }
    return false;
}

/* Write the member's bytes to the sink. 0, or negative: stop; *fatal: the archive cannot be read
 * any further. */
static int member_bytes(struct reading *r, struct archive *a, struct archive_entry *e,
                        const char *name, size_t len, bool *fatal) {
    int64_t size = archive_entry_size_is_set(e) ? archive_entry_size(e) : -1, left = size;
    int rc = sink_begin(r->s, name, len, size);
    if (rc <= 0)
        return rc;
    while (left != 0) {
        size_t want = left > 0 && left < (1 << 20) ? (size_t)left : 1u << 20;
        uint8_t *room = sink_room(r->s, want, &rc);
        if (!room)
            return rc < 0 ? rc : 0;
        la_ssize_t n = archive_read_data(a, room, want);
        reading_advance(r);
        if (load_stopped())
            return -ECANCELED;
        if (n < 0 || (n == 0 && left > 0)) {
            *fatal = n <= ARCHIVE_FATAL;
            sink_cancel(r->s);
            return sink_failed(r->s, name, len, "%s",
                               n < 0 && archive_error_string(a)
                                   ? archive_error_string(a)
                                   : "it has fewer bytes than its header says");
        }
        sink_unroom(r->s, want - (size_t)n);
        if (n == 0)
            break;
        if (left > 0)
            left -= n;
    }
    return sink_end(r->s, LOAD_TAG_BYTES);
}

static int archive_walk(struct reading *r, struct archive *a, const char *prefix, size_t prefix_len,
                        int depth);

struct inner {
    struct archive *outer;
    struct reading *r;
};

static la_ssize_t inner_read(struct archive *a, void *arg, const void **block) {
    struct inner *in = arg;
    size_t n = 0;
    la_int64_t at;
    int rc = archive_read_data_block(in->outer, block, &n, &at);
    reading_advance(in->r);
    if (rc == ARCHIVE_EOF)
        return 0;
    if (rc < ARCHIVE_WARN) {
        archive_set_error(a, EIO, "%s",
                          archive_error_string(in->outer) ? archive_error_string(in->outer)
                                                          : "cannot be read");
        return -1;
    }
    return (la_ssize_t)n;
}

static int inner_walk(struct reading *r, struct archive *outer, const char *name, size_t len,
                      int depth) {
    struct inner in = {outer, r};
    struct archive *a = archive_read_new();
    int rc;
    if (!a)
        return dd_error(-ENOMEM, "out of memory");
    archive_read_support_format_tar(a);
    archive_read_support_format_empty(a);
    if (archive_read_open(a, &in, NULL, inner_read, NULL) != ARCHIVE_OK)
        rc = load_stopped() ? -ECANCELED
                            : sink_failed(r->s, name, len, "%s", archive_error_string(a));
    else
        rc = archive_walk(r, a, name, len, depth + 1);
    archive_read_free(a);
    return rc;
}

/* A hard link's target is a name in the same archive, so it gets the same prefix as ours. */
static int link_take(struct reading *r, const char *name, size_t len, size_t before,
                     const char *target) {
    struct pack to = {0};
    pack_bytes(&to, name, before);
    pack_bytes(&to, target, strlen(target));
    int rc = to.bad ? dd_error(-ENOMEM, "out of memory")
                    : sink_link(r->s, name, len, (const char *)to.data, to.len);
    pack_free(&to);
    return rc;
}

/* Take a member that is no directory. before: length of the part of its name that comes from the
 * archives around a. */
static int member_take(struct reading *r, struct archive *a, struct archive_entry *e,
                       const char *name, size_t len, size_t before, int depth, bool *fatal) {
    const char *target = archive_entry_hardlink(e);
    if (depth == 0 && is_again(r, r->f.begin + (uint64_t)archive_read_header_position(a)))
        return 0;
    if (target)
        return link_take(r, name, len, before, target);
    if (archive_entry_filetype(e) == AE_IFLNK) {
        sink_left_out(r->s, name, len, "a symbolic link");
        return 0;
    }
    if (archive_entry_filetype(e) != AE_IFREG) {
        sink_left_out(r->s, name, len, "no regular file");
        return 0;
    }
    if (is_inner(name, len) && depth < TAR_DEPTH)
        return inner_walk(r, a, name, len - 4, depth);
    return member_bytes(r, a, e, name, len, fatal);
}

/* Read all members of a; their names get prefix (if any) and a slash in front. */
static int archive_walk(struct reading *r, struct archive *a, const char *prefix, size_t prefix_len,
                        int depth) {
    struct archive_entry *e;
    struct pack name = {0};
    bool fatal = false;
    int rc = 0, h = ARCHIVE_EOF;
    while (rc == 0 && !fatal && (h = archive_read_next_header(a, &e)) >= ARCHIVE_WARN &&
           h != ARCHIVE_EOF) {
        size_t len;
        const char *path = member_name(e, &len);
        if (archive_entry_filetype(e) == AE_IFDIR)
            continue;
        if (!path) {
            rc = sink_failed(r->s, depth > 0 ? prefix : NULL, prefix_len,
                             "a member has a name that cannot be read");
            continue;
        }
        name.len = 0;
        if (depth > 0) {
            pack_bytes(&name, prefix, prefix_len);
            pack_bytes(&name, "/", 1);
        }
        pack_bytes(&name, path, len);
        rc = name.bad         ? dd_error(-ENOMEM, "out of memory")
             : load_stopped() ? -ECANCELED
                              : member_take(r, a, e, (const char *)name.data, name.len,
                                            name.len - len, depth, &fatal);
        reading_advance(r);
    }
    if (rc == 0 && h < ARCHIVE_WARN && !fatal) {
        const char *why = archive_error_string(a);
        rc = load_stopped()
                 ? -ECANCELED
                 : sink_failed(r->s, depth > 0 ? prefix : NULL, prefix_len, "%s%s",
                               why ? why : "cannot be read", "; what follows is missing");
    }
    pack_free(&name);
    return rc;
}

static int tar_read(struct sink *s, const char *text, const void *work, size_t len) {
    struct reading r = {.s = s};
    struct archive *a;
    struct unpack u = {.at = work, .left = len};
    uint64_t begin = unpack_u64(&u), end = unpack_u64(&u);
    r.again = u;
    int rc = u.bad ? dd_error(-EBADMSG, "%s: the unit cannot be read", text)
                   : part_open(&r.f, &a, text, FORM_TAR, begin, end);
    if (u.bad)
        return rc;
    if (rc == 0 && r.f.begin < begin)
        rc = dd_error(-ENODATA, "%s: it became shorter while it was read", text);
    if (rc == 0)
        rc = archive_walk(&r, a, NULL, 0, 0);
    if (rc == 0 && part_finish(&r.f) < 0)
        rc = load_stopped() ? -ECANCELED : sink_failed(s, NULL, 0, "%s", gunzip_why(r.f.gz));
    reading_advance(&r);
    part_close(&r.f, a);
    return rc;
}

const struct source_kind source_tar = {
    .name = "tar", .sorted = true, .match = is_tar, .plan = tar_plan, .read = tar_read};
