/* SPDX-License-Identifier: Apache-2.0 */
#include "get_files.h"

#include "cmd.h"
#include "results/results_file.h"
#include "value_file.h"
#include <base/error.h>
#include <base/text.h>
#include <base/verb.h>

#include <common/folder_below.h>
#include <common/key_text.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct extract {
    ddict_t *d;
    const char *dir;
    int folder;
    size_t cut; /* bytes of a key that are no part of its path */
    bool raw;
    uint64_t count, refused;
    struct bytes path;    /* of the file, 0-terminated */
    struct bytes example; /* first key that is refused, 0-terminated */
};

static int refuse(struct extract *x, const void *key, size_t klen) {
    return x->refused++ > 0 ? 0 : key_show(&x->example, key, klen, NULL);
}

/* The path below the folder, into x->path. 0, or -EINVAL: the key gives none. */
static int path_of(struct extract *x, const char *key, size_t klen) {
    if (!results_path_ok(key + x->cut, klen - x->cut)) /* it begins with no '/': one key a path */
        return -EINVAL;
    x->path.len = 0;
    int rc = bytes_add(&x->path, key + x->cut, klen - x->cut);
    return rc < 0 ? rc : bytes_add(&x->path, "", 1);
}

/* Whether an error is one of this path alone, as where one key is "a" and another one "a/b", or
 * the file is a FIFO. */
static bool error_is_of_path(int rc) {
    return rc == -ENOTDIR || rc == -EISDIR || rc == -ELOOP || rc == -ENAMETOOLONG || rc == -ENXIO;
}

static int file_write(struct extract *x, const struct ddict_view *v) {
    const char *name;
    int folder = folder_below_open(x->folder, (const char *)x->path.data, &name);
    if (folder < 0)
        return folder;
    int fd = openat(folder, name,
                    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    int rc = fd < 0 ? -errno : value_file_write(fd, v, x->raw, false);
    if (fd >= 0 && close(fd) != 0 && rc == 0)
        rc = -errno;
    close(folder);
    return rc;
}

/* EXIT_OK, or the exit code after telling the user. */
static int key_extract(struct extract *x, const void *key, size_t klen) {
    struct ddict_view v;
    int rc = path_of(x, key, klen);
    if (rc == -EINVAL)
        rc = refuse(x, key, klen);
    else if (rc == 0) {
        if ((rc = ddict_view(x->d, key, klen, &v, 0, -1)) < 0)
            return key_is_absent(rc) ? EXIT_OK : cmd_failed((const char *)x->path.data, rc);
        rc = file_write(x, &v);
        ddict_release(&v);
        x->count += rc == 0;
        if (error_is_of_path(rc))
            rc = refuse(x, key, klen);
    }
    if (rc == 0)
        return EXIT_OK;
    verb_say("%s/%s: %s", x->dir, x->path.data ? (const char *)x->path.data : "", strerror(-rc));
    return EXIT_FAILED;
}

static int folder_open(const char *dir) {
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return -errno;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int keys_extract(struct extract *x, const struct bytes *prefix, uint64_t limit) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    int code = EXIT_OK;
    int rc = ddict_iter_open_prefix(x->d, -1, prefix->data, prefix->len, &it, -1);
    if (rc < 0)
        return cmd_failed(NULL, rc);
    while (code == EXIT_OK && x->count < limit && (rc = ddict_iter_next(it, &key, &klen)) == 1)
        code = key_extract(x, key, klen);
    ddict_iter_close(it);
    return code == EXIT_OK && rc < 0 ? cmd_failed(NULL, rc) : code;
}

int get_files(ddict_t *d, const char *prefix, uint64_t limit, bool raw, const char *dir) {
    struct extract x = {.d = d, .dir = dir, .raw = raw, .folder = folder_open(dir)};
    struct bytes key = {0};
    if (x.folder < 0) {
        verb_say("%s: %s", dir, strerror(-x.folder));
        return EXIT_FAILED;
    }
    int code = EXIT_FAILED;
    if (key_of_str(&key, prefix) < 0) {
        verb_say("no memory");
    } else {
        x.cut = key.len;
        while (x.cut > 1 && key.data[x.cut - 1] != '/')
            x.cut--;
        code = keys_extract(&x, &key, limit);
    }
    if (code == EXIT_OK && x.refused > 0) {
        verb_say("%" PRIu64 " %s not written: no file below %s can have the name of %s", x.refused,
                 x.refused == 1 ? "key was" : "keys were", dir, x.example.data);
        code = EXIT_FAILED;
    } else if (code == EXIT_OK && x.count == 0) {
        verb_say("no key begins with \"%s\"", prefix);
        code = EXIT_NO_KEY;
    }
    close(x.folder);
    bytes_free(&key);
    bytes_free(&x.path);
    bytes_free(&x.example);
    return code;
}
