/* SPDX-License-Identifier: Apache-2.0 */
/* spill_file.c - the file of a spill, in a folder of the node. */
#include "spill_file.h"

#include "layout.h"
#include <base/defaults.h>
#include <base/error.h>
#include <base/size.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

/* statfs(2) of OpenZFS: each write takes new space, and fallocate() promises none */
#define ZFS_MAGIC 0x2fc12fc1

/* For a file system without nameless files: a name that nobody can guess, removed before anything
 * is in the file. */
static int named_file(const char *dir) {
    char path[4200];
    uint64_t number[2];
    if (getrandom(number, sizeof number, 0) != (ssize_t)sizeof number)
        return -errno;
    int n = snprintf(path, sizeof path, "%s/.ddict-spill-%016llx%016llx", dir,
                     (unsigned long long)number[0], (unsigned long long)number[1]);
    if (n < 0 || n >= (int)sizeof path)
        return -ENAMETOOLONG;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    unlink(path);
    return fd;
}

static int nameless_file(const char *dir) {
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
        return -errno;
    return named_file(dir);
}

static bool fs_is_memory(const struct statfs *f) {
    return f->f_type == TMPFS_MAGIC || f->f_type == RAMFS_MAGIC || f->f_type == HUGETLBFS_MAGIC;
}

static uint64_t fs_free_bytes(const struct statfs *f) {
    return (uint64_t)f->f_bavail * (uint64_t)(f->f_frsize > 0 ? f->f_frsize : f->f_bsize);
}

int file_grow(int fd, uint64_t from, uint64_t to) {
    int rc;
    do
        rc = fallocate(fd, 0, (off_t)from, (off_t)(to - from));
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

/* Can it promise space, and be mapped? */
static int file_try(int fd, const char *dir) {
    int rc = file_grow(fd, 0, ARENA_PAGE);
    if (rc < 0)
        return dd_error(rc, "%s can not be used: its file system promises no space (%s)", dir,
                        dd_strerror(rc));
    volatile uint8_t *map = mmap(NULL, ARENA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return dd_error(-errno, "%s can not be used: its files can not be mapped (%s)", dir,
                        dd_strerror(-errno));
    *map = 0;
    munmap((void *)(uintptr_t)map, ARENA_PAGE);
    return 0;
}

static int size_choose(const struct statfs *f, const char *dir, unsigned sharers, uint64_t *size) {
    char want[24], have[24];
    struct rlimit most;
    uint64_t left = fs_free_bytes(f);
    if (*size > left / sharers)
        return dd_error(DDICT_EFULL, "%s of spill are wanted and %s has %s free",
                        size_format(want, sizeof want, *size * sharers), dir,
                        size_format(have, sizeof have, left));
    if (!*size)
        *size = (left - left / DD_SPILL_LEAVE) / sharers;
    if (*size > DD_SPILL_MAX)
        *size = DD_SPILL_MAX;
    *size &= ~(uint64_t)(ARENA_PAGE - 1);
    if (!*size)
        return dd_error(DDICT_EFULL, "%s has no space for a spill: %s free", dir,
                        size_format(have, sizeof have, left));
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
        most.rlim_cur < *size)
        return dd_error(-EFBIG, "files of %s may not be made: the limit is %s (ulimit -f)",
                        size_format(want, sizeof want, *size),
                        size_format(have, sizeof have, most.rlim_cur));
    return 0;
}

int spill_create(const char *dir, uint64_t size, unsigned sharers) {
    struct stat st;
    struct statfs f;
    if (stat(dir, &st) < 0)
        return dd_error(-errno, "%s can not be used: %s", dir, dd_strerror(-errno));
    if (!S_ISDIR(st.st_mode))
        return dd_error(-ENOTDIR, "%s is no folder", dir);
    if (statfs(dir, &f) == 0 && fs_is_memory(&f))
        return dd_error(-EINVAL, "%s is memory (tmpfs) and no disk", dir);
    int rc, fd = nameless_file(dir);
    if (fd < 0)
        return dd_error(fd, "no file can be made in %s: %s", dir, dd_strerror(fd));
    if (fstatfs(fd, &f) < 0) {
        rc = dd_error(-errno, "%s can not be used: %s", dir, dd_strerror(-errno));
        goto fail;
    }
    if (f.f_type == ZFS_MAGIC) {
        rc = dd_error(-EOPNOTSUPP, "%s can not be used: its file system, ZFS, promises no space",
                      dir);
        goto fail;
    }
    if (f.f_type == BTRFS_SUPER_MAGIC) {
        int flags = FS_NOCOW_FL; /* else a second write of a page would need new space */
        ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
    if ((rc = size_choose(&f, dir, sharers, &size)) < 0 || (rc = file_try(fd, dir)) < 0)
        goto fail;
    if (ftruncate(fd, (off_t)size) < 0) {
        char text[24];
        rc = dd_error(-errno, "no file of %s can be made in %s: %s",
                      size_format(text, sizeof text, size), dir, dd_strerror(-errno));
        goto fail;
    }
    return fd;
fail:
    close(fd);
    return rc;
}

uint64_t spill_size(int fd) {
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

const char *spill_folder(int fd, char *buf, size_t cap) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, buf, cap - 1);
    if (n <= 0)
        return "its folder";
    buf[n] = 0;
    char *slash = strrchr(buf, '/');
    if (slash && slash > buf)
        *slash = 0;
    return buf;
}

static const char *fs_name(const struct statfs *f) {
    static const struct {
        uint32_t magic;
        const char *name;
    } known[] = {{0xef53, "ext4"},
                 {0x58465342, "xfs"},
                 {BTRFS_SUPER_MAGIC, "btrfs"},
                 {NFS_SUPER_MAGIC, "nfs"},
                 {0x0bd00bd0, "lustre"},
                 {0x47504653, "gpfs"},
                 {FUSE_SUPER_MAGIC, "fuse"},
                 {OVERLAYFS_SUPER_MAGIC, "overlay"},
                 {TMPFS_MAGIC, "tmpfs"}};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if ((uint32_t)f->f_type == known[i].magic)
            return known[i].name;
    return "file system";
}

uint64_t spill_free_bytes(int fd) {
    struct statfs f;
    return fstatfs(fd, &f) == 0 ? fs_free_bytes(&f) : 0;
}

const char *spill_fs_name(int fd) {
    struct statfs f = {0};
    fstatfs(fd, &f);
    return fs_name(&f);
}
