/* SPDX-License-Identifier: Apache-2.0 */
/* source_zip.c - zip. The table of contents is at the end of the file; every thread finds its
 * members in it. */
#include "source_archive.h"
#include "sources.h"
#include <base/error.h>

#include <errno.h>
#include <load/load.h>
#include <load/plan.h>
#include <stdlib.h>
#include <string.h>

static bool is_zip(const char *text, bool folder, const unsigned char *head, size_t n) {
    return n >= 4 && (memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0);
}

static int member_bytes(struct sink *s, struct archive *a, struct archive_entry *e,
                        const char *name, size_t len, bool *fatal) {
    int64_t size = archive_entry_size_is_set(e) ? archive_entry_size(e) : -1, got = 0;
    int rc = sink_begin(s, name, len, size);
    if (rc == 0 && size > 0)
        sink_advance(s, (uint64_t)size);
    if (rc <= 0)
        return rc;
    for (;;) { /* read to the end, because libarchive checks the checksum there */
        size_t want = size >= 0 && size - got < (1 << 20) ? (size_t)(size - got) + 1 : 1u << 20;
        uint8_t *room = sink_room(s, want, &rc);
        if (!room)
            return rc < 0 ? rc : 0;
        la_ssize_t n = archive_read_data(a, room, want);
        if (load_stopped())
            return -ECANCELED;
        if (n < 0 || (size >= 0 && (got + n > size || (n == 0 && got < size)))) {
            *fatal = n <= ARCHIVE_FATAL;
            sink_cancel(s);
            return sink_failed(s, name, len, "%s",
                               n < 0 && archive_error_string(a)
                                   ? archive_error_string(a)
                                   : "it has another size than the table of contents says");
        }
        sink_unroom(s, want - (size_t)n);
        sink_advance(s, (uint64_t)n);
        got += n;
        if (n == 0)
            return sink_end(s, LOAD_TAG_BYTES);
    }
}

static int member_take(struct sink *s, struct archive *a, struct archive_entry *e, bool *fatal) {
    size_t n;
    const char *name = member_name(e, &n);
    if (!name)
        return sink_failed(s, NULL, 0, "a member has a name that cannot be read");
    if (archive_entry_filetype(e) == AE_IFREG)
        return member_bytes(s, a, e, name, n, fatal);
    sink_left_out(s, name, n,
                  archive_entry_filetype(e) == AE_IFLNK ? "a symbolic link" : "no regular file");
    return 0;
}

static int zip_read(struct sink *s, const char *text, const void *work, size_t len) {
    return zip_read_unit(s, text, work, len, member_take);
}

const struct source_kind source_zip = {
    .name = "zip", .sorted = true, .match = is_zip, .plan = zip_plan, .read = zip_read};
