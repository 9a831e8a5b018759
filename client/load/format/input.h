/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - the bytes of a file, decompressed where it is compressed (gzip, zstd, bzip2, xz). One
 * thread. */
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
    struct gunzip *gz; /* where it is gzip */
    struct archive *a; /* where it is compressed otherwise */
    uint8_t *buf;      /* of what libarchive reads */
    uint64_t at, end;  /* of the file: what is read next, and where to stop */
    uint64_t size;     /* of the file */
    bool over;         /* compressed: all was given */
};

/* Have libarchive undo these four compressions and no others: some of its filters start programs
 * that they find on PATH. */
void input_filters(struct archive *a);
/* Is a file compressed that begins so? */
bool input_compressed(const uint8_t *head, size_t n);
/* From byte begin to end (UINT64_MAX: its end); of a compressed file only all of it. 0 or a
 * negative code with the sentence set; input_close() always. */
int input_open(struct input *in, const char *path, uint64_t begin, uint64_t end);
/* At most n bytes; 0 at the end, or negative (a compressed file that is cut). */
ssize_t input_read(struct input *in, void *buf, size_t n);
/* All n bytes; -ENODATA with the sentence when the file is too short. */
int input_read_all(struct input *in, void *buf, size_t n);
/* Bytes of the file that were read so far, from begin on. */
static inline uint64_t input_position(const struct input *in) {
    return in->at;
}
void input_close(struct input *in);

#endif
