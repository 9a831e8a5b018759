/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - read the bytes of a file, decompressed where needed. */
#include "input.h"

#include "gunzip.h"
#include <base/error.h>
#include <base/io.h>

#include <archive.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUF_BYTES (256u << 10)

bool input_compressed(const uint8_t *h, size_t n) {
    return (n >= 2 && h[0] == 0x1f && h[1] == 0x8b) ||
           (n >= 4 && memcmp(h, "\x28\xb5\x2f\xfd", 4) == 0) ||
           (n >= 3 && memcmp(h, "BZh", 3) == 0) ||
           (n >= 6 && memcmp(h,
                             "\xfd"
                             "7zXZ",
                             6) == 0);
}

void input_filters(struct archive *a) {
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_bzip2(a);
    archive_read_support_filter_xz(a);
    archive_read_support_filter_zstd(a);
}

static ssize_t file_read(struct input *in, void *buf, size_t n) {
    if (n > in->end - in->at)
        n = in->end - in->at;
    ssize_t got = read_all_at(in->fd, buf, n, in->at);
    if (got < 0) {
        errno = (int)-got;
        return -1;
    }
    in->at += (uint64_t)got;
    return got;
}

static la_ssize_t on_read(struct archive *a, void *arg, const void **block) {
    struct input *in = arg;
    ssize_t got = file_read(in, in->buf, BUF_BYTES);
    *block = in->buf;
    if (got < 0)
        archive_set_error(a, errno, "%s", strerror(errno));
    return got;
}

static ssize_t on_pull(void *arg, const uint8_t **bytes) {
    struct input *in = arg;
    *bytes = in->buf;
    return file_read(in, in->buf, BUF_BYTES);
}

static int decompress_begin(struct input *in, bool gzip) {
    struct archive_entry *e;
    in->buf = malloc(in->size < BUF_BYTES ? in->size + 1 : BUF_BYTES); /* file_read() ends there */
    if (gzip)
        in->gz = gunzip_new(on_pull, in);
    else
        in->a = archive_read_new();
    if (!in->buf || (gzip ? !in->gz : !in->a))
        return dd_error(-ENOMEM, "out of memory");
    if (gzip)
        return 0;
    input_filters(in->a);
    archive_read_support_format_raw(in->a);
    archive_read_support_format_empty(in->a);
    int rc = archive_read_open(in->a, in, NULL, on_read, NULL);
    if (rc == ARCHIVE_OK)
        rc = archive_read_next_header(in->a, &e);
    if (rc == ARCHIVE_EOF)
        in->over = true;
    else if (rc < ARCHIVE_WARN)
        return dd_error(-EBADMSG, "%s: %s", in->path, archive_error_string(in->a));
    return 0;
}

int input_open(struct input *in, const char *path, uint64_t begin, uint64_t end) {
    uint8_t head[8];
    struct stat st;
    memset(in, 0, sizeof *in);
    in->path = path;
    in->fd = -1;
    if (stat(path, &st) < 0)
        return dd_error(-errno, "%s: %s", path, strerror(errno));
    /* only a regular file is opened: opening a FIFO or a tape has side effects */
    if (S_ISREG(st.st_mode)) {
        in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (in->fd < 0 || fstat(in->fd, &st) < 0)
            return dd_error(-errno, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode))
        return dd_error(-EINVAL, "%s: not a regular file", path);
    in->size = (uint64_t)st.st_size;
    in->end = end < in->size ? end : in->size;
    in->at = begin < in->end ? begin : in->end;
    if (begin > 0)
        return 0;
    ssize_t n = pread(in->fd, head, sizeof head, 0);
    if (n < 0)
        return dd_error(-errno, "%s: %s", path, strerror(errno));
    if (!input_compressed(head, (size_t)n))
        return 0;
    in->end = in->size;
    in->compressed = true;
    return decompress_begin(in, gunzip_is(head, (size_t)n));
}

ssize_t input_read(struct input *in, void *buf, size_t n) {
    if (in->over)
        return 0;
    ssize_t got = in->gz  ? gunzip_read(in->gz, buf, n)
                  : in->a ? archive_read_data(in->a, buf, n)
                          : file_read(in, buf, n);
    if (got < 0)
        return dd_error(-EBADMSG, "%s: %s", in->path,
                        in->gz  ? gunzip_why(in->gz)
                        : in->a ? archive_error_string(in->a)
                                : strerror(errno));
    if (got == 0 && in->compressed)
        in->over = true;
    return got;
}

int input_read_all(struct input *in, void *buf, size_t n) {
    size_t have = 0;
    while (have < n) {
        ssize_t got = input_read(in, (uint8_t *)buf + have, n - have);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return dd_error(-ENODATA, "%s: it ends too early, cut?", in->path);
        have += (size_t)got;
    }
    return 0;
}

void input_close(struct input *in) {
    if (in->a)
        archive_read_free(in->a);
    gunzip_free(in->gz);
    free(in->buf);
    if (in->fd >= 0)
        close(in->fd);
    memset(in, 0, sizeof *in);
    in->fd = -1;
}
