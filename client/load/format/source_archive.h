/* SPDX-License-Identifier: Apache-2.0 */
/* source_archive.h - archives by libarchive, for tar, zip and npz. */
#ifndef DDICT_LOAD_FORMAT_SOURCE_ARCHIVE_H
#define DDICT_LOAD_FORMAT_SOURCE_ARCHIVE_H

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>
#include <stdint.h>

struct load_plan;
struct sink;

struct file_part {    /* what libarchive reads: bytes begin to end of a file */
    const char *path; /* borrowed */
    int fd;
    uint64_t begin, at, end, size; /* of the file */
    uint64_t told;                 /* `at` at the last call of sink_advance() */
    uint8_t *buf, *plain;          /* plain: what was decompressed */
    struct gunzip *gz;             /* a tar in gzip */
};

enum archive_form { FORM_TAR, FORM_ZIP };
/* Open bytes begin to end of a file as an archive. 0 or a negative code with the sentence set;
 * part_close() in either case. */
int part_open(struct file_part *f, struct archive **a, const char *path, enum archive_form form,
              uint64_t begin, uint64_t end);
/* Read on to the checksum of a tar in gzip, which is behind its last member. 0; -1: gunzip_why()
 * has the reason. */
int part_finish(struct file_part *f);
void part_close(struct file_part *f, struct archive *a);
/* The path of a member as *len bytes; NULL: it has none that can be read. */
const char *member_name(struct archive_entry *e, size_t *len);
/* Plan a zip. A unit is the members from `first` to before `end`, and the numbers of those among
 * them whose name appears again later: these are left out. */
int zip_plan(struct load_plan *p, const char *text);
/*
 * Read a unit of a zip: call take() for each of its members that is no folder and whose name does
 * not appear again later. take() returns 0, or a negative code to end; it sets *fatal if the
 * archive cannot be read any further in this member, after it has reported that. Then the archive
 * is opened again for the members behind it.
 */
typedef int zip_take(struct sink *s, struct archive *a, struct archive_entry *e, bool *fatal);
int zip_read_unit(struct sink *s, const char *text, const void *work, size_t len, zip_take *take);

#endif
