/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - a worker that writes each item into a file of its own, named by its key. A file is
 * written aside and renamed, so it is whole or absent. A file that has the same bytes already is
 * left, so the same command continues a save that stopped.
 */
#include "files.h"

#include "save.h"
#include "seen.h"
#include <base/error.h>
#include <base/io.h>

#include <common/folder_below.h>
#include <common/key_text.h>
#include <common/lost_keys.h>
#include <common/npy.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_CAP 4352
#define COMPARE  (1u << 20)
/* bytes between two looks whether the run is to stop */
#define WRITE (16u << 20)
enum { TAG_BUFFERS = 3, TAG_FLOAT = 6, TAG_ARRAY = 7, TAG_BOOL = 8 }; /* doc/FORMAT.md */

struct filer {
    struct bytes name, head, other;
    uint8_t *compare;       /* COMPARE bytes */
    int folder;             /* run->folder */
    int below;              /* the folder of it that was opened last, or -1 */
    char opened[PATH_CAP];  /* its path, as far as its last slash */
    struct save_seen *seen; /* what earlier passes wrote of the manager; NULL: not known */
    /* [managers]: their keys are read again now (--refill), and one that is not there is not saved */
    bool *late;
};

/* Make the path of a name below the folder; empty parts and "." are left out. NULL; else why it has
 * none. */
static const char *path_of(char *path, size_t cap, const char *folder, const char *name) {
    size_t n = (size_t)snprintf(path, cap, "%s", folder), begin = n;
    while (*name != 0) {
        size_t len = strcspn(name, "/");
        if (len == 2 && strncmp(name, "..", 2) == 0)
            return "a name with \"..\" is not written";
        if (len > 255 || n + len + 2 > cap)
            return "the name is too long for a file";
        if (len > 0 && !(len == 1 && *name == '.'))
            n += (size_t)snprintf(path + n, cap - n, "/%.*s", (int)len, name);
        name += len + (name[len] == '/');
    }
    return n > begin ? NULL : "a name of nothing but slashes";
}

/* Open the folder of path, which is below the run's folder, as f->below; *name: the file's name in
 * it. 0 or a negated errno. */
static int below_open(struct filer *f, const char *path, const char **name) {
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) + 1 : 0;
    *name = path + len;
    if (f->below >= 0 && strlen(f->opened) == len && memcmp(f->opened, path, len) == 0)
        return 0;
    int fd = folder_below_open(f->folder, path, name);
    if (fd < 0)
        return fd;
    if (f->below >= 0)
        close(f->below);
    f->below = fd;
    memcpy(f->opened, path, len);
    f->opened[len] = 0;
    return 0;
}

static bool same_bytes(int fd, uint64_t at, const uint8_t *bytes, size_t len, uint8_t *buffer) {
    for (size_t n; len > 0; bytes += n, at += n, len -= n) {
        n = len < COMPARE ? len : COMPARE;
        if (read_all_at(fd, buffer, n, at) != (ssize_t)n || memcmp(buffer, bytes, n) != 0)
            return false;
    }
    return true;
}

static bool there_already(struct filer *f, const char *name, const uint8_t *body, size_t len) {
    struct stat st;
    int fd = openat(f->below, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool same = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                (uint64_t)st.st_size == f->head.len + len &&
                same_bytes(fd, 0, f->head.data, f->head.len, f->compare) &&
                same_bytes(fd, f->head.len, body, len, f->compare);
    if (fd >= 0)
        close(fd);
    return same;
}

static int bytes_write(struct save_run *run, int fd, const uint8_t *bytes, size_t len) {
    int rc = 0;
    for (size_t n; rc == 0 && len > 0; bytes += n, len -= n) {
        n = len < WRITE ? len : WRITE;
        rc = save_stopped(run) ? -ECANCELED : write_all(fd, bytes, n);
        if (rc == 0)
            __atomic_fetch_add(&run->moved, n, __ATOMIC_RELAXED); /* a figure */
    }
    return rc;
}

static int file_write(struct save_run *run, struct filer *f, const char *name, const uint8_t *body,
                      size_t len) {
    char aside[80];
    snprintf(aside, sizeof aside, ".ddict-save-%u-%ld-%lx", run->worker, (long)getpid(),
             (unsigned long)pthread_self());
    unlinkat(f->below, aside, 0);
    int fd = openat(f->below, aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int rc = fd < 0 ? -errno : bytes_write(run, fd, f->head.data, f->head.len);
    rc = rc < 0 ? rc : bytes_write(run, fd, body, len);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && renameat(f->below, aside, f->below, name) < 0)
        rc = -errno;
    if (rc < 0)
        unlinkat(f->below, aside, 0);
    return rc;
}

/* Whether another key, the str key that is this name exactly, is saved, too: then the file is that
 * key's. 1, 0, or a negative code with the sentence set. */
static int named_so(struct save_run *run, struct filer *f, const uint8_t *key, size_t klen,
                    const char *name) {
    size_t len = strlen(name);
    if (klen == len + 1 && *key == 's' && memcmp(key + 1, name, len) == 0)
        return 0; /* it is this one */
    f->other.len = 0;
    if (bytes_add(&f->other, "s", 1) < 0 || bytes_add(&f->other, name, len) < 0)
        return dd_error(-ENOMEM, "out of memory");
    bool *late = &f->late[ddict_owner(run->d, f->other.data, f->other.len)];
    bool refills = ddict_refills(run->d) == 1;
    int rc =
        save_wanted(run, f->other.data, f->other.len) && !*late
            ? ddict_contains(run->d, f->other.data, f->other.len, NULL, refills ? LOST_LOOK_MS : -1)
            : 0;
    *late |= refills && rc == -ETIMEDOUT;
    if (key_is_absent(rc) || *late)
        return 0;
    return rc < 0 ? dd_error(rc, "%s", ddict_errmsg()) : rc;
}

/* Make the name of the item's file, f->name. 0 or a negative code with the sentence set. */
static int name_make(struct filer *f, const struct save_item *item) {
    const uint8_t *key = item->key;
    f->name.len = 0;
    int rc = key[0] == 's' && !memchr(key, 0, item->klen)
                 ? bytes_add(&f->name, key + 1, item->klen - 1)
                 : key_show(&f->name, key, item->klen, NULL);
    if (rc < 0 || bytes_add(&f->name, "", 1) < 0)
        return dd_error(-ENOMEM, "out of memory");
    return 0;
}

/* Make the content of the item's file: f->head, then the *len bytes at *body. 0; 1: the item cannot
 * be a file; or a negative code with the sentence set. */
static int content_make(struct filer *f, const struct save_item *item, const uint8_t **body,
                        size_t *len) {
    *body = item->view.data;
    *len = item->view.len;
    f->head.len = 0;
    if (item->view.tag == TAG_ARRAY) {
        size_t elements;
        if (npy_head(&f->head, *body, *len, &elements) == 0) { /* as numpy.load() reads it */
            *body += *len - elements;
            *len = elements;
        }
    } else if (item->view.tag == TAG_FLOAT && *len == sizeof(double)) {
        char text[32];
        double x;
        memcpy(&x, *body, sizeof x);
        int n = snprintf(text, sizeof text, "%.17g", x);
        if (bytes_add(&f->head, text, (size_t)n) < 0)
            return dd_error(-ENOMEM, "out of memory");
        *len = 0;
    } else if (item->view.tag == TAG_BOOL && *len == 1) {
        *body = (const uint8_t *)(**body ? "True" : "False");
        *len = strlen((const char *)*body);
    }
    return item->view.tag == TAG_BUFFERS;
}

static void item_count(struct save_run *run, size_t len, bool same) {
    __atomic_fetch_add(&run->items, 1, __ATOMIC_RELAXED); /* figures alone */
    __atomic_fetch_add(&run->bytes, len, __ATOMIC_RELAXED);
    if (same)
        __atomic_fetch_add(&run->same, 1, __ATOMIC_RELAXED);
}

static bool path_is_taken(int rc) {
    return rc == -ELOOP || rc == -EISDIR || rc == -ENOTDIR || rc == -ENOTEMPTY || rc == -EEXIST;
}

static int item_write(struct save_run *run, void *arg, const struct save_item *item) {
    struct filer *f = arg;
    char path[PATH_CAP];
    const uint8_t *body;
    size_t len;
    if (f->seen && save_seen_has(f->seen, item->key, item->klen, item->view.version)) {
        item_count(run, item->view.len, true);
        return 0;
    }
    int rc = name_make(f, item);
    rc = rc < 0 ? rc : content_make(f, item, &body, &len);
    if (rc < 0)
        return rc;
    const char *name = (const char *)f->name.data, *why, *file;
    if (rc == 1)
        return save_left_out(run, name,
                             "a pickle with buffers out of band is no file of its own; save "
                             "without --files keeps it");
    if ((why = path_of(path, sizeof path, run->folder, name)))
        return save_left_out(run, name, why);
    const char *below = path + strlen(run->folder) + 1;
    if ((rc = named_so(run, f, item->key, item->klen, below)) != 0)
        return rc < 0 ? rc : save_left_out(run, name, "the str key of this name has the file");
    rc = below_open(f, below, &file);
    bool same = rc == 0 && there_already(f, file, body, len);
    if (rc == 0 && !same)
        rc = file_write(run, f, file, body, len);
    if (path_is_taken(rc))
        return save_left_out(
            run, name,
            "another key needs a folder, or a file, of this name, or a symbolic link has it");
    if (rc < 0)
        return dd_error(rc, "cannot write %s: %s", path, strerror(-rc));
    if (f->seen)
        save_seen_note(f->seen, item->key, item->klen, item->view.version);
    item_count(run, f->head.len + len, same);
    return 0;
}

static void items_write(struct save_run *run) {
    struct filer f = {.compare = malloc(COMPARE),
                      .late = calloc(run->info.managers, sizeof *f.late),
                      .folder = open(run->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                      .below = -1};
    int rc = !f.compare || !f.late ? dd_error(-ENOMEM, "out of memory")
             : f.folder < 0 ? dd_error(-errno, "cannot open %s: %s", run->folder, strerror(errno))
                            : 0;
    /* a number for one thread */
    for (uint64_t i; rc == 0 && (i = __atomic_fetch_add(&run->claimed, 1, __ATOMIC_RELAXED),
                                i < run->info.managers);)
        if (save_ours(run, i)) {
            f.seen = run->seen ? run->seen((unsigned)i) : NULL;
            rc = save_each(run, (unsigned)i, item_write, &f);
        }
    if (rc < 0)
        save_fail(run);
    bytes_free(&f.name);
    bytes_free(&f.head);
    bytes_free(&f.other);
    free(f.compare);
    free(f.late);
    if (f.folder >= 0)
        close(f.folder);
    if (f.below >= 0)
        close(f.below);
}

int save_files(struct save_run *run) {
    return save_threads(run, run->alone ? run->info.managers : run->info.local_managers,
                        items_write);
}
