/* SPDX-License-Identifier: Apache-2.0 */
/* array.h - arrays of numbers as records: from the bytes of IDX and .npy to values of doc/FORMAT.md
 * */
#ifndef DDICT_LOAD_FORMAT_ARRAY_H
#define DDICT_LOAD_FORMAT_ARRAY_H

#include "source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_DIMS 32u

struct array {
    char dtype[12]; /* as stored: "<f4", "|u1" */
    size_t item;    /* bytes of an element */
    bool swap;      /* the source's bytes are big endian */
    bool fortran;   /* and its order is Fortran's */
    unsigned ndim;
    uint64_t shape[ARRAY_DIMS];
    uint64_t records;      /* shape[0], or 1 */
    uint64_t record_bytes; /* of the source; one record */
    uint64_t bytes;        /* of all */
};

/* Set the sizes that follow from the shape. False: they overflow or are beyond 2^62. */
bool array_measure(struct array *a);
/* Bytes of the value of one record, or of the whole array as one value (whole). */
uint64_t array_value_bytes(const struct array *a, bool whole);
/* Give s the value of one record, whose bytes in C order are changed in place. Returns what
 * sink_add() and then sink_end() return. */
int array_record(struct sink *s, const struct array *a, uint8_t *bytes);
/* Give s the whole array as one value, which sink_begin() has begun. */
int array_whole(struct sink *s, const struct array *a, const uint8_t *bytes);
/* Parse the header of a .npy file, which begins with the n bytes of head. Returns the length of the
 * header, 0: more bytes are needed, or -EINVAL with a sentence in why. */
int npy_header(struct array *a, const uint8_t *head, size_t n, char *why, size_t cap);
#define NPY_HEADER_MAX (64u << 10)

/* --- array_file.c: a file that is a header and one array --- */
struct input;
/* Read the header. Returns its length, or a negative code with the sentence set. */
typedef int array_header(struct input *in, struct array *a);
/* plan() of such a file, whose header was read. */
int array_units(struct load_plan *p, const struct input *in, const struct array *a);
/* read() of one of these units. */
int array_unit_read(struct sink *s, const char *text, const void *work, size_t len,
                    array_header *header);

#endif
