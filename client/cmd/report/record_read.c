/* SPDX-License-Identifier: Apache-2.0 */
/* record_read.c - read record files line by line, and collect the lines of each dictionary. */
#include "record_read.h"

#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES ((size_t)512 << 20) /* with 65,535 managers the figures have some 100 MB */
#define READ_BYTES     ((size_t)64 << 10)

/* Result of reading one file. */
struct reading {
    const char *path;
    json_t *path_json;
    size_t lines, skipped, taken;
    size_t first_number; /* number of the first skipped line */
    char first_why[160];
    bool no_memory;
};

int record_init(struct record *r) {
    *r = (struct record){.by_id = json_object(), .files = json_array()};
    return !r->by_id || !r->files ? -ENOMEM : 0;
}

void record_free(struct record *r) {
    for (size_t i = 0; i < r->count; i++) {
        json_decref(r->dict[i].start);
        json_decref(r->dict[i].end);
        json_decref(r->dict[i].events);
        json_decref(r->dict[i].files);
    }
    free(r->dict);
    free(r->seen);
    json_decref(r->by_id);
    json_decref(r->files);
    *r = (struct record){0};
}

/* The dictionary with this id, made if necessary; NULL without memory. */
static struct dictionary *dictionary_of(struct record *r, const char *id) {
    json_t *at = json_object_get(r->by_id, id);
    if (at)
        return &r->dict[json_integer_value(at)];
    if (VEC_ROOM(&r->dict, &r->room, r->count + 1, 8) < 0)
        return NULL;
    struct dictionary d = {.events = json_array(), .files = json_array()};
    if (!d.events || !d.files ||
        json_object_set_new(r->by_id, id, json_integer((json_int_t)r->count)) < 0) {
        json_decref(d.events);
        json_decref(d.files);
        return NULL;
    }
    d.id = json_object_iter_key(json_object_iter_at(r->by_id, id));
    r->dict[r->count] = d;
    return &r->dict[r->count++];
}

static bool file_add(struct dictionary *d, json_t *path) {
    size_t n = json_array_size(d->files);
    if (n > 0 && json_equal(json_array_get(d->files, n - 1), path))
        return true;
    return json_array_append(d->files, path) == 0;
}

/* Store a parsed line; takes over its reference. 0, -EINVAL: not a line of a record; -ENOMEM. */
static int line_take(struct record *r, struct reading *rd, json_t *line) {
    const char *event = json_string_value(json_object_get(line, "event")),
               *id = json_string_value(json_object_get(line, "dict"));
    if (!event || !id || *id == 0) {
        json_decref(line);
        return -EINVAL;
    }
    struct dictionary *d = dictionary_of(r, id);
    if (!d || !file_add(d, rd->path_json)) {
        json_decref(line);
        return -ENOMEM;
    }
    json_t **place = strcmp(event, "start") == 0     ? &d->start
                     : strcmp(event, "job_end") == 0 ? &d->end
                                                     : NULL;
    if (!place)
        return json_array_append_new(d->events, line) < 0 ? -ENOMEM : 0;
    json_decref(*place);
    *place = line;
    return 0;
}

static void line_skip(struct reading *rd, const char *why) {
    if (rd->skipped++ > 0)
        return;
    rd->first_number = rd->lines;
    snprintf(rd->first_why, sizeof rd->first_why, "%s", why);
}

/* Read one line. A line that was cut short (the disk was full) may be followed by the next one
 * without a newline: look for that, too. */
static void line_read(struct record *r, struct reading *rd, const char *text, size_t len) {
    static const char begin[] = "{\"event\"";
    json_error_t e;
    rd->lines++;
    if (len > 0 && text[len - 1] == '\r')
        len--;
    if (len == 0)
        return;
    json_t *line = json_loadb(text, len, 0, &e);
    if (!line) {
        line_skip(rd, e.text);
        const char *again = len > 1 ? memmem(text + 1, len - 1, begin, sizeof begin - 1) : NULL;
        for (; again && !line;
             again = memmem(again + 1, len - (size_t)(again + 1 - text), begin, sizeof begin - 1))
            line = json_loadb(again, len - (size_t)(again - text), 0, NULL);
        if (!line)
            return;
    }
    int rc = line_take(r, rd, line);
    if (rc == 0)
        rd->taken++;
    else if (rc == -EINVAL)
        line_skip(rd, "not a line of a record");
    else
        rd->no_memory = true;
}

static int lines_read(struct record *r, struct reading *rd, int fd) {
    char *buf = NULL;
    size_t len = 0, room = 0;
    bool skipping = false; /* inside a line that is too long */
    int rc = 0;
    for (;;) {
        rc = VEC_ROOM(&buf, &room, len + READ_BYTES, 2 * READ_BYTES);
        if (rc < 0)
            break;
        ssize_t n = read(fd, buf + len, READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            rc = n < 0 ? -errno : 0;
            break;
        }
        char *line = buf, *end, *look = buf + len;
        len += (size_t)n;
        while ((end = memchr(look, '\n', (size_t)(buf + len - look)))) {
            if (!skipping)
                line_read(r, rd, line, (size_t)(end - line));
            skipping = false;
            line = look = end + 1;
        }
        len = (size_t)(buf + len - line);
        memmove(buf, line, len);
        if (len > LINE_MAX_BYTES) {
            rd->lines++;
            line_skip(rd, "a line of more than 512 MiB");
            skipping = true;
        }
        if (skipping)
            len = 0;
    }
    if (rc == 0 && len > 0)
        line_read(r, rd, buf, len);
    free(buf);
    return rc == 0 && rd->no_memory ? -ENOMEM : rc;
}

/* A descriptor, or a negative code with the sentence set. -EEXIST: the file was read already. */
static int file_open(struct record *r, const char *path) {
    struct stat st;
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO)
                                    : open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return dd_error(-errno, "%s: %s", path, strerror(errno));
    if (strcmp(path, "-") == 0)
        return fd;
    int rc = 0;
    if (fstat(fd, &st) < 0)
        rc = dd_error(-errno, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = dd_error(-EINVAL, "%s: %s, not a file with records%s", path,
                      S_ISDIR(st.st_mode)    ? "a directory"
                      : S_ISFIFO(st.st_mode) ? "a pipe"
                                             : "a device or socket",
                      S_ISFIFO(st.st_mode) ? "; \"-\" reads stdin" : "");
    for (size_t i = 0; rc == 0 && i < r->seen_count; i++)
        if (r->seen[i].dev == st.st_dev && r->seen[i].ino == st.st_ino)
            rc = -EEXIST;
    struct file_id *seen = rc == 0 ? reallocarray(r->seen, r->seen_count + 1, sizeof *seen) : NULL;
    if (rc == 0 && !seen)
        rc = dd_error(-ENOMEM, "%s: no memory", path);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    r->seen = seen;
    r->seen[r->seen_count++] = (struct file_id){st.st_dev, st.st_ino};
    return fd;
}

int record_read(struct record *r, const char *path, char **complaint) {
    struct reading rd = {.path = path};
    *complaint = NULL;
    int fd = file_open(r, path);
    if (fd < 0)
        return fd == -EEXIST ? 0 : fd;
    rd.path_json = json_string(path);
    if (!rd.path_json)
        rd.path_json = json_string("?"); /* the path is not UTF-8 */
    int rc = !rd.path_json ? -ENOMEM : lines_read(r, &rd, fd);
    close(fd);
    if (rc == 0 &&
        json_array_append_new(r->files, json_pack("{s:O,s:I,s:I}", "file", rd.path_json, "lines",
                                                  (json_int_t)rd.lines, "skipped",
                                                  (json_int_t)rd.skipped)) < 0)
        rc = -ENOMEM;
    json_decref(rd.path_json);
    if (rc < 0)
        return dd_error(rc, "%s: %s", path, strerror(-rc));
    if (rd.taken == 0 && rd.lines == 0)
        return dd_error(-ENODATA, "%s: an empty file", path);
    if (rd.taken == 0)
        return dd_error(-ENODATA, "%s: no record of a dictionary (line %zu: %s)", path,
                        rd.first_number, rd.first_why);
    if (rd.skipped > 0 &&
        asprintf(complaint, "%s: %zu of %zu lines skipped, the first of them line %zu: %s", path,
                 rd.skipped, rd.lines, rd.first_number, rd.first_why) < 0)
        *complaint = NULL;
    return 0;
}

const char *record_text(const struct dictionary *d, const char *member) {
    const char *s = json_string_value(json_object_get(d->start, member));
    if (!s)
        s = json_string_value(json_object_get(d->end, member));
    for (size_t i = 0; !s && i < json_array_size(d->events); i++)
        s = json_string_value(json_object_get(json_array_get(d->events, i), member));
    return s ? s : "";
}

time_t record_time(const json_t *line, int *ms) {
    const char *s = json_string_value(json_object_get(line, "time"));
    struct tm tm = {0};
    int thousandths = 0;
    const char *rest = s ? strptime(s, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (!rest)
        return -1;
    if (*rest == '.')
        sscanf(rest + 1, "%3d", &thousandths);
    if (ms)
        *ms = thousandths;
    return timegm(&tm);
}
