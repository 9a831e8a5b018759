/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - the bytes of a file, decompressed if it is compressed (gzip, zstd, bzip2, xz). An input
 * is used by one thread. */
#ifndef DDICT_LOAD_FORMAT_INPUT_H
#define DDICT_LOAD_FORMAT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct archive;
struct gunzip;

struct input {
    const char *path; /* borrowed, for sentences */
    int fd;
    bool compressed;
    struct gunzip *gz; /* if it is gzip */
    struct archive *a; /* if it is compressed otherwise */
    uint8_t *buf;      /* compressed bytes */
    uint64_t at, end;  /* offsets in the file: of the next read, and where to stop */
    uint64_t size;     /* of the file */
    bool over;         /* compressed: all bytes were given */
};

/* Let libarchive undo these four compressions and no others: some of its filters start programs
 * that they find in PATH. */
void input_filters(struct archive *a);
/* Whether a file that begins with the n bytes of head is compressed. */
bool input_compressed(const uint8_t *head, size_t n);
/* Open bytes begin to end of a file (UINT64_MAX: to its end); a compressed file is read as a whole.
 * 0 or a negative code with the sentence set; input_close() in either case. */
int input_open(struct input *in, const char *path, uint64_t begin, uint64_t end);
/* Read at most n bytes. Returns their number, 0 at the end, or a negative code with the sentence
 * set (a compressed file that is cut short). */
ssize_t input_read(struct input *in, void *buf, size_t n);
/* Read all n bytes. 0 or a negative code with the sentence set; -ENODATA: the file is too short. */
int input_read_all(struct input *in, void *buf, size_t n);
/* Offset in the file up to which it was read. */
static inline uint64_t input_position(const struct input *in) {
    return in->at;
}
/* Bytes of a buffer that takes all of a file which is shorter than `most`; else `most`. */
static inline size_t input_room(const struct input *in, size_t most) {
    return in->compressed || in->size >= most ? most : (size_t)in->size + 1;
}
void input_close(struct input *in);

#endif
