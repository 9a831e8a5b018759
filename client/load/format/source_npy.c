/* SPDX-License-Identifier: Apache-2.0 */
/* source_npy.c - NumPy's .npy: each entry of the first dimension is a record; and .npz, a zip of
 * .npy files: each file is a record. */
#include "array.h"
#include "input.h"
#include "source_archive.h"
#include "sources.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <load/load.h>
#include <load/plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_npy(const char *text, bool folder, const unsigned char *head, size_t n) {
    return n >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

static bool is_npz(const char *text, bool folder, const unsigned char *head, size_t n) {
    return n >= 4 && memcmp(head, "PK", 2) == 0 && path_ends(text, ".npz");
}

/* Read the header; its size in bytes, or negative. */
static int header_read(struct input *in, struct array *a) {
    uint8_t *head = malloc(NPY_HEADER_MAX);
    char why[200];
    size_t n = 12;
    int rc = !head ? dd_error(-ENOMEM, "out of memory") : input_read_all(in, head, n), len = 0;
    while (rc == 0 && (len = npy_header(a, head, n, why, sizeof why)) == 0 && n < NPY_HEADER_MAX) {
        rc = input_read_all(in, head + n, 1);
        n++;
    }
    free(head);
    if (rc < 0)
        return rc;
    if (len <= 0)
        return dd_error(-EBADMSG, "%s: %s", in->path, len < 0 ? why : "its header cannot be read");
    uint64_t want = (uint64_t)len + a->bytes;
    if (!in->compressed && in->size != want)
        return dd_error(-EBADMSG, "%s: %llu bytes, and its header says %llu%s", in->path,
                        (unsigned long long)in->size, (unsigned long long)want,
                        in->size < want ? ": was it cut?" : "");
    if (in->compressed && a->fortran && a->ndim > 1)
        return dd_error(-EINVAL,
                        "%s: an array in Fortran order can be loaded when it is not compressed",
                        in->path);
    return len;
}

static int npy_plan(struct load_plan *p, const char *text) {
    struct input in;
    struct array a;
    int rc = input_open(&in, text, 0, UINT64_MAX);
    if (rc == 0)
        rc = header_read(&in, &a);
    if (rc > 0)
        rc = array_units(p, &in, &a);
    input_close(&in);
    return rc;
}

static int npy_read(struct sink *s, const char *text, const void *work, size_t len) {
    return array_unit_read(s, text, work, len, header_read);
}

/* --- npz --- */

/* Read the whole member; malloc'ed. 0, or -1 with why: it is damaged. */
static int member_all(struct archive *a, struct archive_entry *e, uint8_t **out, size_t *len,
                      char *why, size_t cap, bool *fatal) {
    size_t room = archive_entry_size_is_set(e) ? (size_t)archive_entry_size(e) + 1 : 1u << 20,
           n = 0;
    la_ssize_t got = 0;
    *out = NULL;
    snprintf(why, cap, "it is more than a manager can hold");
    if (room - 1 > the_load.manager_bytes + NPY_HEADER_MAX)
        return -1;
    uint8_t *bytes = malloc(room);
    while (bytes && (got = archive_read_data(a, bytes + n, room - n)) > 0 && !load_stopped()) {
        n += (size_t)got;
        if (n == room) {
            if (n > the_load.manager_bytes + NPY_HEADER_MAX ||
                VEC_ROOM(&bytes, &room, n + 1, 1) < 0) {
                free(bytes);
                return -1;
            }
        }
    }
    if (!bytes || got < 0) {
        *fatal = got <= ARCHIVE_FATAL;
        snprintf(why, cap, "%s",
                 !bytes                    ? "out of memory"
                 : archive_error_string(a) ? archive_error_string(a)
                                           : "cannot be read");
        free(bytes);
        return -1;
    }
    *out = bytes;
    *len = n;
    return 0;
}

static int member_read(struct sink *s, struct archive *a, struct archive_entry *e, const char *name,
                       size_t name_len, bool *fatal) {
    struct array array;
    uint8_t *bytes;
    size_t len;
    char why[200];
    int rc = 0, head;
    if (member_all(a, e, &bytes, &len, why, sizeof why, fatal) < 0)
        return load_stopped() ? -ECANCELED : sink_failed(s, name, name_len, "%s", why);
    sink_advance(s, len);
    head = npy_header(&array, bytes, len, why, sizeof why);
    if (head <= 0)
        rc = sink_failed(s, name, name_len, "%s", head == 0 ? "its header is cut" : why);
    else if (len - (size_t)head != array.bytes)
        rc = sink_failed(s, name, name_len, "%zu bytes of elements, and its header says %llu",
                         len - (size_t)head, (unsigned long long)array.bytes);
    else {
        rc = sink_begin(s, name, name_len - 4, (int64_t)array_value_bytes(&array, true));
        if (rc == 1)
            rc = array_whole(s, &array, bytes + head);
    }
    free(bytes);
    return rc < 0 ? rc : 0;
}

static int member_take(struct sink *s, struct archive *a, struct archive_entry *e, bool *fatal) {
    size_t n;
    const char *name = member_name(e, &n);
    if (archive_entry_filetype(e) != AE_IFREG)
        return 0;
    if (!name || n < 5 || strcmp(name + n - 4, ".npy") != 0)
        return sink_failed(s, name, n, "it is no array (.npy)");
    return member_read(s, a, e, name, n, fatal);
}

static int npz_read(struct sink *s, const char *text, const void *work, size_t len) {
    return zip_read_unit(s, text, work, len, member_take);
}

const struct source_kind source_npy = {
    .name = "npy", .numbered = true, .match = is_npy, .plan = npy_plan, .read = npy_read};
const struct source_kind source_npz = {
    .name = "npz", .match = is_npz, .plan = zip_plan, .read = npz_read};
