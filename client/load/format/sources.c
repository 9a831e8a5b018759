/* SPDX-License-Identifier: Apache-2.0 */
/* sources.c - find the kind of a source. */
#include "sources.h"

#include "input.h"
#include <base/error.h>

#include <errno.h>
#include <load/format/sources.h>
#include <load/load.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define HEAD_BYTES 1024u

/* in the order of the tests: special kinds before general ones */
static const struct source_kind *const kinds[] = {&source_s3,  &source_dir, &source_npz,
                                                  &source_zip, &source_npy, &source_fasta,
                                                  &source_tar, &source_idx, &source_lines};
#define KINDS (sizeof kinds / sizeof kinds[0])

void sources_names(char *text, size_t cap) {
    size_t n = 0;
    for (size_t i = 0; i < KINDS && n < cap; i++)
        n += (size_t)snprintf(text + n, cap - n, "%s%s", i > 0 ? ", " : "", kinds[i]->name);
}

const struct source_kind *source_named(const char *name) {
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

static bool path_ends_with(const char *path, size_t len, const char *word, size_t n) {
    return len > n && strncasecmp(path + len - n, word, n) == 0;
}

bool path_ends(const char *path, const char *words) {
    static const char *const pressed[] = {".gz", ".zst", ".bz2", ".xz"};
    size_t len = strlen(path);
    for (unsigned i = 0; i < 4; i++)
        if (path_ends_with(path, len, pressed[i], strlen(pressed[i]))) {
            len -= strlen(pressed[i]);
            break;
        }
    while (*words != 0) {
        size_t n = strcspn(words, " ");
        if (path_ends_with(path, len, words, n))
            return true;
        words += n + (words[n] == ' ');
    }
    return false;
}

bool text_is_utf8(const uint8_t *t, size_t len) {
    for (size_t i = 0; i < len;) {
        uint8_t c = t[i];
        size_t n = c < 0x80                ? 1
                   : c >= 0xc2 && c < 0xe0 ? 2
                   : c >= 0xe0 && c < 0xf0 ? 3
                   : c >= 0xf0 && c < 0xf5 ? 4
                                           : 0;
        if (n == 0 || n > len - i)
            return false;
        for (size_t k = 1; k < n; k++)
            if ((t[i + k] & 0xc0) != 0x80)
                return false;
        if ((c == 0xe0 && t[i + 1] < 0xa0) || (c == 0xed && t[i + 1] > 0x9f) ||
            (c == 0xf0 && t[i + 1] < 0x90) || (c == 0xf4 && t[i + 1] > 0x8f))
            return false;
        i += n;
    }
    return true;
}

/* Read the first bytes, decompressed. Returns their number, or negative. */
static ssize_t first_bytes_read(const char *path, uint8_t *head) {
    struct input in;
    size_t n = 0;
    ssize_t got = 0;
    int rc = input_open(&in, path, 0, UINT64_MAX);
    while (rc == 0 && n < HEAD_BYTES && (got = input_read(&in, head + n, HEAD_BYTES - n)) > 0)
        n += (size_t)got;
    input_close(&in);
    /* an error further on is reported when the file is read */
    return rc < 0 ? rc : got < 0 && n == 0 ? got : (ssize_t)n;
}

const struct source_kind *source_find(const char *text, const char *as) {
    uint8_t head[HEAD_BYTES];
    struct stat st;
    ssize_t n = 0;
    bool folder = false;
    char names[200];
    if (!strstr(text, "://")) {
        if (stat(text, &st) < 0) {
            dd_error(-errno, "%s: %s", text, strerror(errno));
            return NULL;
        }
        folder = S_ISDIR(st.st_mode);
        if (!folder && (n = first_bytes_read(text, head)) < 0)
            return NULL;
    }
    for (size_t i = 0; i < KINDS; i++)
        if (as ? strcmp(kinds[i]->name, as) == 0 : kinds[i]->match(text, folder, head, (size_t)n))
            return kinds[i];
    sources_names(names, sizeof names);
    if (as)
        dd_error(-EINVAL, "--as=%s: want one of %s", as, names);
    else
        dd_error(-EINVAL, "%s: cannot tell what this is; say it by --as, one of %s", text, names);
    return NULL;
}

int source_stamp(const struct source_kind *kind, const char *text, char *stamp, size_t cap) {
    struct stat st;
    if (kind->stamp)
        return kind->stamp(text, stamp, cap);
    if (stat(text, &st) < 0)
        return dd_error(-errno, "%s: %s", text, strerror(errno));
    snprintf(stamp, cap, "%llu %lld.%09ld",
             (unsigned long long)(S_ISDIR(st.st_mode) ? 0 : st.st_size),
             (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return 0;
}
