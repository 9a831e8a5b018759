/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_dir.c - a folder with everything below it. Symbolic links are followed, as by
 * torchvision's ImageFolder, but not in circles. A chain of n folders with two links each to the
 * next one has 2^n paths; therefore links below links enter a folder at most WAYS_MAX times. Links
 * that are not below another link have no such limit.
 */
#include "sources.h"
#include <base/error.h>
#include <base/io.h>
#include <base/vec.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <load/load.h>
#include <load/plan.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define DEPTH_MAX 256
#define WAYS_MAX  100

struct file {
    char *path; /* relative to the folder; owned */
    uint64_t size;
};

struct target { /* a folder to which a link below another link leads */
    dev_t dev;
    ino_t ino;
    unsigned ways;
};

struct walk {
    struct load_plan *p;
    struct file *file;
    size_t n, cap;
    void *targets; /* tree (tsearch) of struct target */
    /* the folders from the top to the present one; links: how many links the path to it has */
    struct {
        dev_t dev;
        ino_t ino;
        unsigned links;
    } above[DEPTH_MAX];
};

static bool is_folder(const char *text, bool folder, const unsigned char *head, size_t n) {
    return folder;
}

/* Not the time of the bytes: whoever copies or unpacks a file may set that, and a rename keeps it. */
static int64_t changed_at(const struct stat *st) {
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

static void newest_note(struct load_plan *p, const struct stat *st) {
    if (changed_at(st) > p->newest)
        p->newest = changed_at(st);
}

/* Of what a path leads to, and of the link that it may be itself. */
static bool is_changed(int folder, const char *path) {
    struct stat st, own;
    return fstatat(folder, path, &st, 0) < 0 ||
           fstatat(folder, path, &own, AT_SYMLINK_NOFOLLOW) < 0 ||
           changed_at(&st) > the_load.newest || changed_at(&own) > the_load.newest;
}

static int file_add(struct walk *w, const char *path, uint64_t size) {
    if (VEC_ROOM(&w->file, &w->cap, w->n + 1, 1024) < 0)
        return dd_error(-ENOMEM, "out of memory");
    w->file[w->n].path = strdup(path);
    w->file[w->n].size = size;
    return w->file[w->n++].path ? 0 : dd_error(-ENOMEM, "out of memory");
}

static int target_compare(const void *a, const void *b) {
    const struct target *x = a, *y = b;
    return x->dev != y->dev   ? (x->dev < y->dev ? -1 : 1)
           : x->ino != y->ino ? (x->ino < y->ino ? -1 : 1)
                              : 0;
}

/* Count that one more link below a link leads to this folder. Returns the number so far, or a
 * negative code. */
static int target_count(struct walk *w, const struct stat *st) {
    struct target key = {.dev = st->st_dev, .ino = st->st_ino};
    void *found = tfind(&key, &w->targets, target_compare);
    struct target *t = found ? *(struct target **)found : calloc(1, sizeof *t);
    if (!found && t) {
        *t = key;
        if (!tsearch(t, &w->targets, target_compare)) {
            free(t);
            t = NULL;
        }
    }
    if (!t)
        return dd_error(-ENOMEM, "out of memory");
    t->ways += t->ways <= WAYS_MAX + 1;
    return (int)t->ways;
}

static int folder_walk(struct walk *w, int fd, const char *path, int depth);

static int entry_take(struct walk *w, int folder, const char *name, const char *path, int depth) {
    struct stat st, own;
    if (fstatat(folder, name, &st, 0) < 0 || ((S_ISDIR(st.st_mode) || the_load.refills) &&
                                              fstatat(folder, name, &own, AT_SYMLINK_NOFOLLOW) < 0))
        return plan_failed(w->p, path, strlen(path), "%s", strerror(errno));
    if (the_load.refills) {
        newest_note(w->p, &st);
        newest_note(w->p, &own);
    }
    if (!S_ISDIR(st.st_mode))
        return file_add(w, path, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0);
    for (int i = 0; i <= depth; i++)
        if (w->above[i].dev == st.st_dev && w->above[i].ino == st.st_ino)
            return plan_failed(w->p, path, strlen(path), "a link to a folder above it");
    if (depth + 1 >= DEPTH_MAX)
        return plan_failed(w->p, path, strlen(path), "more than %d folders deep", DEPTH_MAX);
    w->p->folders ^= XXH3_64bits_withSeed(path, strlen(path), st.st_ino);
    unsigned links = w->above[depth].links + S_ISLNK(own.st_mode);
    if (S_ISLNK(own.st_mode) && links > 1) {
        int ways = target_count(w, &st);
        if (ways < 0 || ways > WAYS_MAX + 1) /* reported once already */
            return ways < 0 ? ways : 0;
        if (ways > WAYS_MAX)
            return plan_failed(w->p, path, strlen(path),
                               "links below links lead to this folder in more than %d ways: here "
                               "and from now on they are not followed",
                               WAYS_MAX);
    }
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return plan_failed(w->p, path, strlen(path), "%s", strerror(errno));
    w->above[depth + 1].dev = st.st_dev;
    w->above[depth + 1].ino = st.st_ino;
    w->above[depth + 1].links = links;
    return folder_walk(w, fd, path, depth + 1);
}

/* Takes over fd. */
static int folder_walk(struct walk *w, int fd, const char *path, int depth) {
    DIR *d = fdopendir(fd);
    struct dirent *e;
    int rc = 0;
    if (!d) {
        close(fd);
        return dd_error(-errno, "%s: %s", path, strerror(errno));
    }
    while (rc == 0 && (errno = 0, e = readdir(d))) {
        char *below;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (asprintf(&below, "%s%s%s", path, *path != 0 ? "/" : "", e->d_name) < 0)
            rc = dd_error(-ENOMEM, "out of memory");
        else {
            rc = load_stopped() ? -ECANCELED : entry_take(w, dirfd(d), e->d_name, below, depth);
            free(below);
        }
    }
    if (rc == 0 && errno != 0)
        rc = plan_failed(w->p, *path != 0 ? path : NULL, strlen(path), "%s", strerror(errno));
    closedir(d);
    return rc;
}

static int file_compare(const void *a, const void *b) {
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static int units_cut(struct walk *w) {
    int rc = 0;
    for (size_t i = 0; i < w->n && rc == 0;) {
        struct unit_facts f = {.largest = 0};
        struct pack work = {0};
        for (; i < w->n && f.items < LOAD_UNIT_ITEMS &&
               (f.items == 0 || (int64_t)w->file[i].size <= LOAD_UNIT_BYTES - f.bytes);
             i++, f.items++) {
            pack_text(&work, w->file[i].path, strlen(w->file[i].path));
            pack_u64(&work, w->file[i].size);
            f.bytes = bytes_add(f.bytes, (int64_t)w->file[i].size);
            if ((int64_t)w->file[i].size > f.largest)
                f.largest = (int64_t)w->file[i].size;
        }
        f.read = (uint64_t)f.bytes;
        rc = work.bad ? dd_error(-ENOMEM, "out of memory")
                      : plan_unit(w->p, &f, work.data, work.len);
        pack_free(&work);
    }
    return rc;
}

static int dir_plan(struct load_plan *p, const char *text) {
    struct walk *w = calloc(1, sizeof *w);
    struct stat st;
    int fd = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;
    if (!w || fd < 0 || fstat(fd, &st) < 0) {
        rc = dd_error(-errno, "%s: %s", text, strerror(errno));
        if (fd >= 0)
            close(fd);
        free(w);
        return rc;
    }
    w->p = p;
    p->tops ^= XXH3_64bits_withSeed(text, strlen(text), st.st_ino);
    w->above[0].dev = st.st_dev;
    w->above[0].ino = st.st_ino;
    rc = folder_walk(w, fd, "", 0);
    if (rc == 0 && w->n > 0) {
        qsort(w->file, w->n, sizeof *w->file, file_compare);
        rc = units_cut(w);
    }
    for (size_t i = 0; i < w->n; i++)
        free(w->file[i].path);
    free(w->file);
    tdestroy(w->targets, free);
    free(w);
    return rc;
}

/* 0, or negative: stop. */
static int file_bytes(struct sink *s, int fd, const char *name, size_t len, uint64_t size) {
    uint64_t at = 0;
    char more;
    int rc = sink_begin(s, name, len, (int64_t)size);
    if (rc == 0)
        sink_advance(s, size);
    if (rc <= 0)
        return rc;
    uint8_t *room = sink_room(s, size, &rc);
    if (!room)
        return rc < 0 ? rc : 0;
    for (size_t piece; at < size; at += piece) {
        piece = size - at < (4u << 20) ? size - at : 4u << 20;
        ssize_t n = read_all_at(fd, room + at, piece, at);
        if (n != (ssize_t)piece || load_stopped()) {
            sink_cancel(s);
            return load_stopped() ? -ECANCELED
                                  : sink_failed(s, name, len, "%s",
                                                n < 0 ? strerror((int)-n)
                                                      : "it became shorter while it was read");
        }
        sink_advance(s, piece);
    }
    if (pread(fd, &more, 1, (off_t)size) == 1) {
        sink_cancel(s);
        return sink_failed(s, name, len, "it became longer while it was read");
    }
    return sink_end(s, LOAD_TAG_BYTES);
}

/* In a refill: whether the file may be another one than was loaded. Where folders came or went, one
 * that it is in may be another, too, with files as old as they were. */
static bool is_another(int folder, const char *name) {
    bool is = is_changed(folder, name);
    for (const char *slash = strchr(name, '/'); the_load.moved && slash && !is;
         slash = strchr(slash + 1, '/')) {
        char *above = strndup(name, (size_t)(slash - name));
        is = !above || is_changed(folder, above);
        free(above);
    }
    return is;
}

static int file_read(struct sink *s, int folder, const char *name, size_t len, uint64_t planned) {
    struct stat st;
    if (the_load.wanted && sink_has(s, name, len, (int64_t)planned)) {
        sink_advance(s, planned);
        return 0;
    }
    int fd = -1, rc = fstatat(folder, name, &st, 0) < 0 ? errno : 0;
    /* only a regular file is opened: opening a FIFO or a tape has side effects */
    if (rc == 0 && S_ISREG(st.st_mode)) {
        fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        rc = fd < 0 || fstat(fd, &st) < 0 ? errno : 0;
    }
    if (rc == 0 && !S_ISREG(st.st_mode)) {
        sink_left_out(s, name, len, "no regular file");
        rc = 0;
    } else if (rc != 0 || (the_load.wanted && is_another(folder, name))) {
        rc = sink_failed(s, name, len, "%s",
                         rc != 0 ? strerror(rc) : "it has changed since it was loaded");
        sink_advance(s, planned);
    } else {
        rc = file_bytes(s, fd, name, len, (uint64_t)st.st_size);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static int dir_read(struct sink *s, const char *text, const void *work, size_t len) {
    struct unpack u = {.at = work, .left = len};
    int folder = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    if (folder < 0)
        return dd_error(-errno, "%s: %s", text, strerror(errno));
    while (rc == 0 && u.left > 0 && !u.bad) {
        size_t n;
        const char *path = unpack_text(&u, &n);
        uint64_t size = unpack_u64(&u);
        char *name = strndup(path, n);
        rc = !name   ? dd_error(-ENOMEM, "out of memory")
             : u.bad ? dd_error(-EBADMSG, "%s: the unit cannot be read", text)
                     : file_read(s, folder, name, n, size);
        free(name);
    }
    close(folder);
    return rc;
}

const struct source_kind source_dir = {
    .name = "dir", .sorted = true, .match = is_folder, .plan = dir_plan, .read = dir_read};
