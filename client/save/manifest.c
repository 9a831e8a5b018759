/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - write and read the manifest of a saved dictionary: SAVE, section 1. */
#include "manifest.h"

#include "dump_format.h"
#include "save.h"
#include <base/error.h>

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_CAP 4352
#define KEPT     "manifest-before-loss.json" /* names what was saved before keys were lost */

static int io_error(const char *what, const char *path) {
    return dd_error(-errno, "cannot %s %s: %s", what, path, strerror(errno));
}

int folder_sync(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return io_error("open", path);
    /* some file systems cannot sync folders */
    int rc = fsync(fd) < 0 && errno != EINVAL && errno != ENOSYS ? io_error("sync", path) : 0;
    close(fd);
    return rc;
}

void folder_remove(const char *path) {
    char file[PATH_CAP];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' &&
            snprintf(file, sizeof file, "%s/%s", path, e->d_name) < (int)sizeof file)
            unlink(file);
    if (d)
        closedir(d);
    rmdir(path);
}

static void hex_of(char *out, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        sprintf(out + 2 * i, "%02x", bytes[i]);
}

static int json_write(const json_t *o, const char *path) {
    char *text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
    if (!text)
        return dd_error(-ENOMEM, "out of memory");
    int rc = 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f) {
        rc = io_error("write", path);
        if (fd >= 0)
            close(fd);
    } else {
        bool bad =
            fputs(text, f) < 0 || fputc('\n', f) < 0 || fflush(f) != 0 || fsync(fileno(f)) < 0;
        if (bad)
            rc = io_error("write", path);
        if (fclose(f) != 0 && rc == 0)
            rc = io_error("write", path);
    }
    free(text);
    return rc;
}

static json_t *json_read(const char *path) {
    json_error_t e;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    json_t *o = f ? json_loadf(f, JSON_REJECT_DUPLICATES, &e) : NULL;
    if (!f) {
        io_error("read", path);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    fclose(f);
    if (!o)
        dd_error(-EBADMSG, "%s is damaged: line %d: %s", path, e.line, e.text);
    return o;
}

int manifest_foreign(const char *folder) {
    char path[PATH_CAP];
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return 0;
    json_t *o = json_read(path);
    bool good = json_is_integer(json_object_get(o, "version")) &&
                json_is_string(json_object_get(o, "id")) &&
                json_is_array(json_object_get(o, "parts"));
    json_decref(o);
    return good ? 0
                : dd_error(-EEXIST, "manifest.json in it is not of a saved dictionary; saving "
                                    "needs a folder of its own");
}

/* What the manifest says of the dictionary and of this process's parts. */
static json_t *manifest_describe(const struct save_run *run) {
    char dictionary[33];
    hex_of(dictionary, run->info.id, sizeof run->info.id);
    json_t *o = json_pack("{s:s,s:s,s:I,s:I,s:O}", "dictionary", dictionary, "name", run->info.name,
                          "managers", (json_int_t)run->info.managers, "nodes",
                          (json_int_t)run->info.nodes, "parts", run->parts);
    if (o && run->lost)
        json_object_set_new(o, "lost", json_true());
    return o;
}

static void worker_path(const struct save_run *run, unsigned worker, char path[PATH_CAP]) {
    if (*run->tag != 0)
        snprintf(path, PATH_CAP, "%s/.ddict-%s-%u.json", run->folder, run->tag, worker);
    else
        snprintf(path, PATH_CAP, "%s/worker-%u.json", run->folder, worker);
}

int manifest_worker_write(const struct save_run *run) {
    char path[PATH_CAP];
    json_t *o = manifest_describe(run);
    worker_path(run, run->worker, path);
    if (*run->tag != 0)
        unlink(path); /* of a pass that was not published */
    int rc = json_write(o, path);
    json_decref(o);
    return rc;
}

/* Join what the workers wrote. NULL with the sentence set. */
static json_t *workers_read(const struct save_run *run) {
    char path[PATH_CAP];
    json_t *all = NULL;
    for (unsigned w = 0; w < run->workers; w++) {
        worker_path(run, w, path);
        if (run->without && run->without[w]) {
            unlink(path); /* of an earlier pass */
            continue;
        }
        json_t *o = json_read(path);
        bool bad =
            o && all &&
            json_array_extend(json_object_get(all, "parts"), json_object_get(o, "parts")) < 0;
        if (o && !all)
            all = json_incref(o);
        if (json_is_true(json_object_get(o, "lost")))
            json_object_set_new(all, "lost", json_true());
        json_decref(o);
        if (!o || bad) {
            if (bad)
                dd_error(-ENOMEM, "out of memory");
            else if (access(path, F_OK) < 0)
                dd_error(-ENOENT,
                         "%s: what worker %u of %u wrote is not there; the folder has to be on "
                         "storage that all nodes share",
                         run->folder, w, run->workers);
            json_decref(all);
            return NULL;
        }
        unlink(path);
    }
    return all;
}

static bool has_part(const json_t *manifest, const char *name) {
    const json_t *part;
    size_t i;
    json_array_foreach(json_object_get(manifest, "parts"), i,
                       part) if (json_is_string(json_object_get(part, "file")) &&
                                 strcmp(json_string_value(json_object_get(part, "file")), name) ==
                                     0) return true;
    return false;
}

/* NULL: there is none. */
static json_t *kept_read(const struct save_run *run) {
    char path[PATH_CAP];
    snprintf(path, sizeof path, "%s/" KEPT, run->folder);
    return json_load_file(path, 0, NULL);
}

void manifest_drop(const struct save_run *run, const json_t *parts) {
    char path[PATH_CAP];
    const json_t *part;
    size_t i;
    if (json_array_size(parts) == 0)
        return;
    snprintf(path, sizeof path, "%s/manifest.json", run->folder);
    json_t *now = json_load_file(path, 0, NULL);
    if (!now && (access(path, F_OK) == 0 || errno != ENOENT))
        return; /* the manifest may name them */
    json_t *kept = kept_read(run);
    json_array_foreach(parts, i, part) {
        const char *name = json_string_value(json_object_get(part, "file"));
        if (!has_part(now, name) && !has_part(kept, name) &&
            snprintf(path, sizeof path, "%s/%s", run->folder, name) < (int)sizeof path)
            unlink(path);
    }
    json_decref(now);
    json_decref(kept);
}

/* TAG-W-N.part: only a pass of --save names a file so. */
static bool part_ours(const char *name) {
    int at = 0;
    unsigned w;
    unsigned long long n;
    return strspn(name, "0123456789abcdef") == 8 && name[8] == '-' &&
           sscanf(name + 9, "%u-%llu.part%n", &w, &n, &at) == 2 && at > 0 && name[9 + at] == 0;
}

bool manifest_parts_there(const struct save_run *run, const json_t *parts) {
    char path[PATH_CAP];
    struct stat st;
    const json_t *part;
    size_t i;
    json_array_foreach(parts, i, part) {
        snprintf(path, sizeof path, "%s/%s", run->folder,
                 json_string_value(json_object_get(part, "file")));
        /* not stat: NFS looks anew when a file is opened */
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        bool there = fd >= 0 && fstat(fd, &st) == 0 &&
                     st.st_size == (off_t)json_integer_value(json_object_get(part, "size"));
        if (fd >= 0)
            close(fd);
        if (!there)
            return false;
    }
    return true;
}

/* Remove parts that nobody will read any more: of the manifest before, of our earlier passes, and
 * those that killed jobs left a day ago. Other files are the user's. */
static void parts_remove(const struct save_run *run, const json_t *before, const json_t *now) {
    char path[PATH_CAP];
    struct stat st;
    json_t *kept = kept_read(run);
    DIR *d = opendir(run->folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n <= 5 || strcmp(e->d_name + n - 5, ".part") != 0 || has_part(now, e->d_name) ||
            has_part(kept, e->d_name) ||
            snprintf(path, sizeof path, "%s/%s", run->folder, e->d_name) >= (int)sizeof path)
            continue;
        bool ours = part_ours(e->d_name);
        if (has_part(before, e->d_name) || (ours && strncmp(e->d_name, run->tag, 8) == 0) ||
            (ours && stat(path, &st) == 0 && st.st_mtime < time(NULL) - 86400))
            unlink(path);
    }
    if (d)
        closedir(d);
    json_decref(kept);
}

/* What was saved before keys were lost is kept, for it may have them. */
static int manifest_keep(const struct save_run *run, const json_t *before) {
    char aside[PATH_CAP], path[PATH_CAP];
    snprintf(path, sizeof path, "%s/" KEPT, run->folder);
    snprintf(aside, sizeof aside, "%s/.ddict-%s-" KEPT, run->folder, run->tag);
    unlink(aside);
    int rc = json_write(before, aside);
    return rc < 0 ? rc : rename(aside, path) < 0 ? io_error("name", path) : 0;
}

/* Replace an earlier manifest. */
static int manifest_replace(const struct save_run *run, const json_t *o) {
    char aside[PATH_CAP], path[PATH_CAP];
    if (!manifest_parts_there(run, json_object_get(o, "parts")))
        return dd_error(-ENOENT,
                        "parts in %s are gone: another job saves there, too, or somebody removed "
                        "them; a folder of its own: --ddict-save=NAME.%%j",
                        run->folder);
    snprintf(path, sizeof path, "%s/manifest.json", run->folder);
    snprintf(aside, sizeof aside, "%s/.ddict-%s-manifest.json", run->folder, run->tag);
    unlink(aside);
    int rc = json_write(o, aside);
    if (rc < 0)
        return rc;
    /* the parts' names must be on disk before the manifest that has them */
    if ((rc = folder_sync(run->folder)) < 0)
        return rc;
    json_t *before = json_load_file(path, 0, NULL);
    if (before && json_object_get(o, "lost") && !json_object_get(before, "lost"))
        rc = manifest_keep(run, before);
    rc = rc < 0 ? rc : rename(aside, path) < 0 ? io_error("name", path) : folder_sync(run->folder);
    if (rc == 0)
        parts_remove(run, before, o);
    json_decref(before);
    return rc;
}

int manifest_write(struct save_run *run, const char *prefix) {
    char path[PATH_CAP], id[2 * DUMP_ID + 1];
    json_int_t items = 0, bytes = 0;
    json_t *part;
    size_t i;
    worker_path(run, 0, path);
    json_t *o =
        run->workers > 1 || access(path, F_OK) == 0 ? workers_read(run) : manifest_describe(run);
    if (!o)
        return -EBADMSG;
    json_array_foreach(json_object_get(o, "parts"), i, part) {
        items += json_integer_value(json_object_get(part, "items"));
        bytes += json_integer_value(json_object_get(part, "bytes"));
    }
    hex_of(id, run->id, DUMP_ID);
    bool bad = json_object_set_new(o, "version", json_integer(DUMP_VERSION)) < 0 ||
               json_object_set_new(o, "id", json_string(id)) < 0 ||
               json_object_set_new(o, "saved", json_integer(time(NULL))) < 0 ||
               json_object_set_new(o, "items", json_integer(items)) < 0 ||
               json_object_set_new(o, "bytes", json_integer(bytes)) < 0 ||
               (prefix && json_object_set_new(o, "prefix", json_string(prefix)) < 0);
    snprintf(path, sizeof path, "%s/manifest.json", run->folder);
    int rc = bad              ? dd_error(-ENOMEM, "out of memory")
             : *run->tag != 0 ? manifest_replace(run, o)
                              : json_write(o, path);
    json_decref(o);
    run->items = (uint64_t)items;
    run->bytes = (uint64_t)bytes;
    return rc < 0 ? rc : folder_sync(run->folder);
}

/* --- reading --- */

/* A dictionary saved as one file: its begin and end say what a manifest would. */
static int file_describe(struct save_run *run, const char *path) {
    struct dump_header h;
    struct dump_end e;
    struct stat st;
    char hex[17];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        rc = io_error("read", path);
    else if (st.st_size < (off_t)(sizeof h + sizeof e) || pread(fd, &h, sizeof h, 0) != sizeof h ||
             pread(fd, &e, sizeof e, st.st_size - (off_t)sizeof e) != sizeof e ||
             memcmp(h.magic, (uint8_t[])DUMP_MAGIC, sizeof h.magic) != 0 ||
             le32toh(e.magic) != DUMP_END)
        rc = dd_error(-EBADMSG, "%s is no saved dictionary, or it is not complete", path);
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        return rc;
    memcpy(run->id, h.id, DUMP_ID);
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)le64toh(e.sum));
    run->parts = json_pack("[{s:s,s:I,s:I,s:I,s:s}]", "file", path, "items",
                           (json_int_t)le64toh(e.items), "bytes", (json_int_t)le64toh(e.bytes),
                           "size", (json_int_t)st.st_size, "sum", hex);
    return run->parts ? 0 : dd_error(-ENOMEM, "out of memory");
}

static bool part_good(const json_t *part) {
    const char *file = json_string_value(json_object_get(part, "file")),
               *sum = json_string_value(json_object_get(part, "sum"));
    return file && *file != 0 && *file != '.' && !strchr(file, '/') && sum && strlen(sum) == 16 &&
           json_is_integer(json_object_get(part, "items")) &&
           json_is_integer(json_object_get(part, "bytes")) &&
           json_is_integer(json_object_get(part, "size"));
}

static int id_parse(uint8_t id[DUMP_ID], const char *text) {
    if (!text || strlen(text) != 2 * DUMP_ID || strspn(text, "0123456789abcdef") != 2 * DUMP_ID)
        return -1;
    for (unsigned i = 0; i < DUMP_ID; i++) {
        unsigned byte;
        sscanf(text + 2 * i, "%2x", &byte);
        id[i] = (uint8_t)byte;
    }
    return 0;
}

static int folder_describe(struct save_run *run) {
    char path[PATH_CAP];
    int rc = 0;
    json_t *part;
    size_t i;
    snprintf(path, sizeof path, "%s/manifest.json", run->folder);
    json_t *o = json_read(path);
    if (!o)
        return access(path, F_OK) < 0
                   ? dd_error(-ENOENT, "%s is no saved dictionary: it has no manifest.json",
                              run->folder)
                   : -EBADMSG;
    json_t *version = json_object_get(o, "version"), *parts = json_object_get(o, "parts");
    if (json_is_integer(version) && json_integer_value(version) > (json_int_t)DUMP_VERSION)
        rc = dd_error(-EBADMSG, "%s is of version %lld, and this program reads version %u", path,
                      (long long)json_integer_value(version), DUMP_VERSION);
    else if (!json_is_integer(version) || !json_is_array(parts) ||
             id_parse(run->id, json_string_value(json_object_get(o, "id"))) < 0)
        rc = dd_error(-EBADMSG, "%s is damaged: version, id and parts are wanted", path);
    run->lost = json_is_true(json_object_get(o, "lost"));
    json_array_foreach(parts, i, part) if (rc == 0 && !part_good(part)) rc =
        dd_error(-EBADMSG, "%s is damaged: part %zu", path, i);
    if (rc == 0)
        run->parts = json_incref(parts);
    json_decref(o);
    return rc;
}

int manifest_read(struct save_run *run, uint64_t *items, uint64_t *bytes) {
    struct stat st;
    json_t *part;
    size_t i;
    if (stat(run->folder, &st) < 0)
        return io_error("read", run->folder);
    run->one_file = !S_ISDIR(st.st_mode);
    json_decref(run->parts);
    run->parts = NULL;
    int rc = run->one_file ? file_describe(run, run->folder) : folder_describe(run);
    *items = *bytes = 0;
    if (rc < 0)
        return rc;
    json_array_foreach(run->parts, i, part) {
        *items += (uint64_t)json_integer_value(json_object_get(part, "items"));
        *bytes += (uint64_t)json_integer_value(json_object_get(part, "bytes"));
    }
    return 0;
}

/* The parts as they are on disk. Their content is not read. */
static int parts_about(const struct save_run *run, struct manifest_about *about) {
    char path[PATH_CAP];
    struct stat st;
    const json_t *part;
    size_t i;
    json_array_foreach(run->parts, i, part) {
        json_int_t size = json_integer_value(json_object_get(part, "size"));
        snprintf(path, sizeof path, "%s/%s", run->folder,
                 json_string_value(json_object_get(part, "file")));
        if (stat(path, &st) < 0)
            return io_error("read", path);
        if (st.st_size != (off_t)size)
            return dd_error(-EBADMSG, "%s is damaged: it has %lld bytes, and had %lld", path,
                            (long long)st.st_size, (long long)size);
        about->size += (uint64_t)size;
    }
    return 0;
}

int manifest_about(const char *folder, struct manifest_about *about) {
    struct save_run run = {.folder = folder};
    char path[PATH_CAP];
    memset(about, 0, sizeof *about);
    int rc = manifest_read(&run, &about->items, &about->bytes);
    if (rc == 0)
        rc = parts_about(&run, about);
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    json_t *o = rc == 0 ? json_read(path) : NULL;
    if (rc == 0 && !o)
        rc = -EBADMSG;
    about->saved = json_integer_value(json_object_get(o, "saved"));
    about->nodes = (unsigned)json_integer_value(json_object_get(o, "nodes"));
    about->managers = (unsigned)json_integer_value(json_object_get(o, "managers"));
    about->lost = run.lost;
    json_decref(o);
    json_decref(run.parts);
    return rc;
}
