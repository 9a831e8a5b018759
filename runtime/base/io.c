/* SPDX-License-Identifier: Apache-2.0 */
/* io.c - loops around read(2), write(2) and their kin. */
#include "io.h"

#include <errno.h>
#include <unistd.h>

#define CALL_MAX ((size_t)1 << 30) /* the kernel takes 2 GiB less a page at most */

static size_t piece(size_t left) {
    return left < CALL_MAX ? left : CALL_MAX;
}

/* What a call that returned n means: 1 go on, 0 nothing more, negative. */
static int judge(ssize_t n) {
    if (n > 0 || (n < 0 && errno == EINTR))
        return 1;
    return n < 0 ? -errno : 0;
}

static size_t counted(ssize_t n) {
    return n > 0 ? (size_t)n : 0;
}

int write_all(int fd, const void *bytes, size_t len) {
    const uint8_t *from = bytes;
    int rc = 1;
    for (size_t done = 0; rc > 0 && done < len;) {
        ssize_t n = write(fd, from + done, piece(len - done));
        rc = judge(n);
        done += counted(n);
    }
    return rc > 0 ? 0 : rc < 0 ? rc : -ENOSPC;
}

int write_all_at(int fd, const void *bytes, size_t len, uint64_t at) {
    const uint8_t *from = bytes;
    int rc = 1;
    for (size_t done = 0; rc > 0 && done < len;) {
        ssize_t n = pwrite(fd, from + done, piece(len - done), (off_t)(at + done));
        rc = judge(n);
        done += counted(n);
    }
    return rc > 0 ? 0 : rc < 0 ? rc : -ENOSPC;
}

ssize_t read_all(int fd, void *bytes, size_t len) {
    uint8_t *to = bytes;
    size_t done = 0;
    int rc = 1;
    while (rc > 0 && done < len) {
        ssize_t n = read(fd, to + done, piece(len - done));
        rc = judge(n);
        done += counted(n);
    }
    return rc < 0 ? rc : (ssize_t)done;
}

ssize_t read_all_at(int fd, void *bytes, size_t len, uint64_t at) {
    uint8_t *to = bytes;
    size_t done = 0;
    int rc = 1;
    while (rc > 0 && done < len) {
        ssize_t n = pread(fd, to + done, piece(len - done), (off_t)(at + done));
        rc = judge(n);
        done += counted(n);
    }
    return rc < 0 ? rc : (ssize_t)done;
}
