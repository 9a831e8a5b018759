/* SPDX-License-Identifier: Apache-2.0 */
/* results_file.c - write a file under a temporary name and rename it. The temporary file of a
 * writer that was killed is overwritten by the next write of that file. */
#include "results_file.h"

#include <base/io.h>

#include <common/folder_below.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASIDE        ".ddict-" /* prefix of temporary names */
#define KEPT         ".before-loss"
#define NAME_LONGEST (NAME_MAX - 8)

bool results_path_ok(const char *path, size_t len) {
    if (len == 0 || len >= PATH_MAX || memchr(path, 0, len))
        return false;
    for (size_t at = 0; at <= len;) {
        const char *slash = memchr(path + at, '/', len - at);
        size_t n = slash ? (size_t)(slash - path) - at : len - at;
        const char *c = path + at;
        if (n == 0 || n > NAME_LONGEST || (n == 1 && c[0] == '.') ||
            (n == 2 && c[0] == '.' && c[1] == '.') ||
            (n >= strlen(ASIDE) && memcmp(c, ASIDE, strlen(ASIDE)) == 0))
            return false;
        at += n + 1;
    }
    return true;
}

static bool file_holds(int fd, const struct iovec *pieces, size_t n) {
    char buf[65536];
    struct stat st;
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += pieces[i].iov_len;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size != len)
        return false;
    for (size_t i = 0; i < n; i++) {
        for (size_t at = 0; at < pieces[i].iov_len;) {
            size_t want = pieces[i].iov_len - at < sizeof buf ? pieces[i].iov_len - at : sizeof buf;
            if (read_all(fd, buf, want) != (ssize_t)want ||
                memcmp(buf, (const char *)pieces[i].iov_base + at, want) != 0)
                return false;
            at += want;
        }
    }
    return true;
}

/* Bytes of the file from at on that the piece begins with. */
static size_t bytes_same(int fd, size_t at, const struct iovec *piece) {
    char buf[65536];
    const char *data = piece->iov_base;
    size_t same = 0;
    while (same < piece->iov_len) {
        size_t want = piece->iov_len - same < sizeof buf ? piece->iov_len - same : sizeof buf,
               i = 0;
        ssize_t got = pread(fd, buf, want, (off_t)(at + same));
        while (got > 0 && i < (size_t)got && buf[i] == data[same + i])
            i++;
        same += i;
        if (i < want)
            break;
    }
    return same;
}

static int file_replace(int dir, const char *name, const char *aside, const struct iovec *pieces,
                        size_t n) {
    int fd = openat(dir, aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                    0666);
    if (fd < 0)
        return -errno;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = write_all(fd, pieces[i].iov_base, pieces[i].iov_len);
    if (rc == 0 && fsync(fd) != 0)
        rc = -errno;
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && renameat(dir, aside, dir, name) != 0)
        rc = -errno;
    if (rc == 0)
        fsync(dir); /* not fatal: some file systems cannot sync a folder */
    else
        unlinkat(dir, aside, 0);
    return rc == 0 ? 1 : rc;
}

int results_file_write(int folder, const char *path, const struct iovec *pieces, size_t n) {
    const char *name = path;
    char aside[NAME_MAX + 1];
    int dir = folder_below_open(folder, path, &name);
    if (dir < 0)
        return dir;
    snprintf(aside, sizeof aside, ASIDE "%s", name);
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), rc;
    bool same = fd >= 0 && file_holds(fd, pieces, n);
    if (fd >= 0)
        close(fd);
    if (same) {
        unlinkat(dir, aside, 0);
        rc = 0;
    } else {
        rc = file_replace(dir, name, aside, pieces, n);
    }
    close(dir);
    return rc;
}

bool results_file_is_within(int folder, const char *path, const struct iovec *pieces, size_t n) {
    const char *name = path;
    struct stat st;
    size_t at = 0;
    int dir = folder_below_open(folder, path, &name);
    int fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool there = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    for (size_t i = 0; there && i < n; i++)
        at += bytes_same(fd, at, &pieces[i]);
    if (fd >= 0)
        close(fd);
    if (dir >= 0)
        close(dir);
    return !there || at == (size_t)st.st_size;
}

/* 1: it has that name; 0: another has it; or a negated errno. */
static int file_name_too(int dir, const char *name, const char *kept) {
    struct stat file, other;
    if (fstatat(dir, kept, &other, AT_SYMLINK_NOFOLLOW) == 0)
        return fstatat(dir, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && file.st_ino == other.st_ino;
    if (errno != ENOENT)
        return -errno;
    /* where a file can have one name only, the next write makes it anew */
    if (linkat(dir, name, dir, kept, 0) == 0 ||
        (errno != EEXIST && renameat(dir, name, dir, kept) == 0))
        return 1;
    return errno == EEXIST ? 0 : -errno;
}

int results_file_keep(int folder, const char *path) {
    const char *name = path;
    char kept[NAME_MAX + 1], number[12] = "";
    int dir = folder_below_open(folder, path, &name), rc = 0;
    if (dir < 0)
        return dir;
    for (unsigned i = 1; rc == 0; i++) {
        if (i > 1)
            snprintf(number, sizeof number, "-%u", i);
        snprintf(kept, sizeof kept, "%.*s" KEPT "%s", NAME_MAX - 24, name, number);
        rc = file_name_too(dir, name, kept);
    }
    close(dir);
    return rc == 1 ? 0 : rc;
}
