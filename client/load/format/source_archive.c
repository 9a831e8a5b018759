/* SPDX-License-Identifier: Apache-2.0 */
/* source_archive.c - read a file, or a part of it, by libarchive; and plan a zip, which .npz is
 * too. */
#include "source_archive.h"

#include "gunzip.h"
#include "input.h"
#include "sources.h"
#include <base/error.h>
#include <base/io.h>
#include <base/vec.h>

#include <errno.h>
#include <fcntl.h>
#include <load/load.h>
#include <load/names.h>
#include <load/plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* larger than libarchive's own reads: faster on a shared file system */
#define BUF_BYTES (1u << 20)

static ssize_t on_pull(void *arg, const uint8_t **bytes) {
    struct file_part *f = arg;
    size_t want = f->end - f->at < BUF_BYTES ? f->end - f->at : BUF_BYTES;
    ssize_t n = load_stopped() ? -ECANCELED : read_all_at(f->fd, f->buf, want, f->at);
    if (n < 0) {
        errno = (int)-n;
        return -1;
    }
    f->at += (uint64_t)n;
    *bytes = f->buf;
    return n;
}

static la_ssize_t on_read(struct archive *a, void *arg, const void **block) {
    struct file_part *f = arg;
    const uint8_t *bytes = f->plain;
    ssize_t n = f->gz ? gunzip_read(f->gz, f->plain, BUF_BYTES) : on_pull(f, &bytes);
    if (n < 0)
        archive_set_error(a, f->gz ? EILSEQ : errno, "%s",
                          f->gz ? gunzip_why(f->gz) : strerror(errno));
    *block = bytes;
    return n;
}

static la_int64_t on_skip(struct archive *a, void *arg, la_int64_t n) {
    struct file_part *f = arg;
    uint64_t left = f->end - f->at, skip = n < 0 ? 0 : (uint64_t)n < left ? (uint64_t)n : left;
    f->at += skip;
    return (la_int64_t)skip;
}

static la_int64_t on_seek(struct archive *a, void *arg, la_int64_t to, int whence) {
    struct file_part *f = arg;
    int64_t base = whence == SEEK_SET   ? (int64_t)f->begin
                   : whence == SEEK_CUR ? (int64_t)f->at
                                        : (int64_t)f->end,
            at = base + to;
    if (at < (int64_t)f->begin)
        return ARCHIVE_FATAL;
    f->at = (uint64_t)at < f->end ? (uint64_t)at : f->end;
    return (la_int64_t)(f->at - f->begin);
}

int part_open(struct file_part *f, struct archive **out, const char *path, enum archive_form form,
              uint64_t begin, uint64_t end) {
    struct stat st;
    memset(f, 0, sizeof *f);
    *out = NULL;
    f->path = path;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return dd_error(-errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return dd_error(-EINVAL, "%s: not a regular file", path);
    f->size = (uint64_t)st.st_size;
    f->end = end < f->size ? end : f->size;
    f->begin = f->at = f->told = begin < f->end ? begin : f->end;
    f->buf = malloc(f->end - f->begin < BUF_BYTES ? f->end - f->begin + 1 : BUF_BYTES);
    struct archive *a = *out = archive_read_new();
    if (!f->buf || !a)
        return dd_error(-ENOMEM, "out of memory");
    uint8_t head[2];
    if (form == FORM_TAR && begin == 0 && pread(f->fd, head, sizeof head, 0) == sizeof head &&
        gunzip_is(head, sizeof head)) {
        f->plain = malloc(BUF_BYTES);
        f->gz = gunzip_new(on_pull, f);
        if (!f->plain || !f->gz)
            return dd_error(-ENOMEM, "out of memory");
    }
    if (form == FORM_TAR) {
        input_filters(a);
        archive_read_support_format_tar(a);
        archive_read_support_format_empty(a);
    } else {
        archive_read_support_format_zip_seekable(a);
    }
    archive_read_set_read_callback(a, on_read);
    if (!f->gz) {
        archive_read_set_skip_callback(a, on_skip);
        archive_read_set_seek_callback(a, on_seek);
    }
    archive_read_set_callback_data(a, f);
    if (archive_read_open1(a) != ARCHIVE_OK)
        return dd_error(-EBADMSG, "%s: %s", path, archive_error_string(a));
    return 0;
}

int part_finish(struct file_part *f) {
    ssize_t n = 0;
    while (f->gz && (n = gunzip_read(f->gz, f->plain, BUF_BYTES)) > 0)
        continue;
    return n < 0 ? -1 : 0;
}

void part_close(struct file_part *f, struct archive *a) {
    if (a)
        archive_read_free(a);
    gunzip_free(f->gz);
    free(f->buf);
    free(f->plain);
    if (f->fd >= 0)
        close(f->fd);
}

const char *member_name(struct archive_entry *e, size_t *len) {
    const char *name = archive_entry_pathname(e);
    if (!name)
        name = archive_entry_pathname_utf8(e);
    *len = name ? strlen(name) : 0;
    return name;
}

/* --- zip --- */

/* each unit reads the table of contents from the beginning, so there are few units; large members
 * may need more */
#define UNITS_MOST 32u

struct member {
    uint64_t hash;
    int64_t size; /* -1: the member is no record */
};

struct members {
    struct member *m;
    uint64_t n;
    size_t cap;
};

static int member_add(struct members *all, uint64_t hash, int64_t size) {
    if (VEC_ROOM(&all->m, &all->cap, all->n + 1, 1024) < 0)
        return dd_error(-ENOMEM, "out of memory");
    all->m[all->n++] = (struct member){hash, size};
    return 0;
}

static int unit_put(struct load_plan *p, const struct members *all, uint64_t first, uint64_t end,
                    const bool *again) {
    struct unit_facts f = {0};
    struct pack work = {0};
    pack_u64(&work, first);
    pack_u64(&work, end);
    for (uint64_t i = first; i < end; i++)
        if (again[i]) {
            pack_u64(&work, i);
        } else if (all->m[i].size >= 0) {
            f.items++;
            f.bytes = bytes_add(f.bytes, all->m[i].size);
            if (all->m[i].size > f.largest)
                f.largest = all->m[i].size;
        }
    f.read = (uint64_t)f.bytes;
    int rc = work.bad ? dd_error(-ENOMEM, "out of memory") : plan_unit(p, &f, work.data, work.len);
    pack_free(&work);
    return rc;
}

static int units_cut(struct load_plan *p, const struct members *all) {
    struct names *names = names_new();
    bool *again = calloc(all->n + 1, 1);
    int rc = !names || !again ? dd_error(-ENOMEM, "out of memory") : 0;
    /* backwards: of several members with one name the last one is kept */
    for (uint64_t i = all->n; i-- > 0 && rc >= 0;)
        if (all->m[i].size >= 0) {
            rc = names_add(names, all->m[i].hash, i, NULL);
            again[i] = rc == 1;
        }
    uint64_t most = all->n / UNITS_MOST > LOAD_UNIT_ITEMS ? all->n / UNITS_MOST : LOAD_UNIT_ITEMS;
    for (uint64_t i = 0; i < all->n && rc >= 0;) {
        uint64_t first = i;
        int64_t bytes = 0;
        for (; i < all->n && i - first < most &&
               (i == first || all->m[i].size <= LOAD_UNIT_BYTES - bytes);
             i++)
            bytes = bytes_add(bytes, all->m[i].size > 0 ? all->m[i].size : 0);
        rc = unit_put(p, all, first, i, again);
    }
    names_free(names);
    free(again);
    return rc < 0 ? rc : 0;
}

int zip_plan(struct load_plan *p, const char *text) {
    struct file_part f;
    struct archive *a;
    struct archive_entry *e;
    struct members all = {0};
    struct pack clean = {0};
    int rc = part_open(&f, &a, text, FORM_ZIP, 0, UINT64_MAX), h = ARCHIVE_OK;
    while (rc == 0 && (h = archive_read_next_header(a, &e)) >= ARCHIVE_WARN && h != ARCHIVE_EOF) {
        size_t len;
        const char *name = member_name(e, &len);
        bool record = archive_entry_filetype(e) == AE_IFREG;
        clean.len = 0;
        if (!name || name_clean(&clean, name, len) < 0)
            clean.len = 0; /* reading it reports the error */
        rc = member_add(&all, XXH3_64bits(clean.data, clean.len),
                        !record || clean.len == 0 ? -1
                        : archive_entry_size_is_set(e) && archive_entry_size(e) > 0
                            ? archive_entry_size(e)
                            : 0);
        if (load_stopped())
            rc = -ECANCELED;
    }
    if (rc == 0 && h != ARCHIVE_EOF)
        rc = plan_failed(p, NULL, 0, "%s",
                         archive_error_string(a) ? archive_error_string(a) : "cannot be read");
    if (rc == 0)
        rc = units_cut(p, &all);
    pack_free(&clean);
    free(all.m);
    part_close(&f, a);
    return rc;
}

struct zip_work {
    uint64_t first, end, twice; /* twice: number of members in `again` */
    const uint8_t *again;       /* one u64 for each member that a later one replaces */
};

static int work_read(struct zip_work *w, const void *work, size_t len) {
    struct unpack u = {.at = work, .left = len};
    w->first = unpack_u64(&u);
    w->end = unpack_u64(&u);
    w->twice = u.left / 8;
    w->again = u.at;
    return u.bad ? dd_error(-EBADMSG, "the unit cannot be read") : 0;
}

static bool is_again(const struct zip_work *w, uint64_t member) {
    for (uint64_t i = 0; i < w->twice; i++) {
        uint64_t v;
        memcpy(&v, w->again + 8 * i, 8);
        if (le64toh(v) == member)
            return true;
    }
    return false;
}

/* Read members from w->first on, which advances. 1: a member could not be read to its end, so the
 * archive has to be opened again. */
static int members_read(struct sink *s, const char *text, struct zip_work *w, zip_take *take) {
    struct file_part f;
    struct archive *a;
    struct archive_entry *e;
    bool fatal = false;
    uint64_t i = 0;
    int rc = part_open(&f, &a, text, FORM_ZIP, 0, UINT64_MAX), h = ARCHIVE_OK;
    for (; rc == 0 && i < w->end && !fatal &&
           (h = archive_read_next_header(a, &e)) >= ARCHIVE_WARN && h != ARCHIVE_EOF;
         i++) {
        if (load_stopped())
            rc = -ECANCELED;
        if (rc < 0 || i < w->first)
            continue;
        w->first = i + 1;
        if (!is_again(w, i) && archive_entry_filetype(e) != AE_IFDIR)
            rc = take(s, a, e, &fatal);
    }
    if (rc == 0 && !fatal && h < ARCHIVE_WARN)
        rc = sink_failed(s, NULL, 0, "%s; what follows is missing",
                         archive_error_string(a) ? archive_error_string(a) : "cannot be read");
    else if (rc == 0 && !fatal && i < w->end)
        rc = dd_error(-ENODATA, "%s: it changed while it was read", text);
    part_close(&f, a);
    return rc == 0 ? fatal : rc;
}

int zip_read_unit(struct sink *s, const char *text, const void *work, size_t len, zip_take *take) {
    struct zip_work w;
    int rc = work_read(&w, work, len);
    if (rc == 0)
        do
            rc = members_read(s, text, &w, take);
        while (rc == 1 && w.first < w.end);
    return rc < 0 ? rc : 0;
}
