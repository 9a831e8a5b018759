/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_read.h - the records of dictionaries (RECORD), read for people and scripts. Lines of one
 * dictionary are gathered by its id from all files that are read, in any order, so that a file that
 * was rotated away and its successor make one whole.
 */
#ifndef DDICT_CMD_REPORT_RECORD_READ_H
#define DDICT_CMD_REPORT_RECORD_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct dictionary {
    const char *id;      /* borrowed from by_id */
    json_t *start, *end; /* owned; NULL: there is no such line */
    json_t *events;      /* owned array: all other lines, as they came */
    json_t *files;       /* owned array: paths that have lines of it */
};
struct record {
    struct dictionary *dict; /* in the order of their first lines */
    size_t count, room;
    json_t *by_id; /* id -> index in dict */
    json_t *files; /* array of {file, lines, skipped} */
    struct file_id {
        dev_t dev;
        ino_t ino;
    } * seen;
    size_t seen_count;
};
int record_init(struct record *r); /* 0 or -ENOMEM */
void record_free(struct record *r);

/*
 * Read one file, "-": stdin. Only regular files are opened, so that nothing waits; one that was
 * read already is read once. 0, or a negative code with the sentence set: it cannot be read, or has
 * no line of a record (-ENODATA). Lines that cannot be understood are skipped, counted, and told in
 * *complaint (malloc'ed sentence, NULL: none).
 */
int record_read(struct record *r, const char *path, char **complaint);

/* A member of start, end or any event of the dictionary, whichever has it: dict, name, job, scope,
 * step. "" when none has it. */
const char *record_text(const struct dictionary *d, const char *member);
/* Seconds since 1970 of a line's `time`, milliseconds in *ms when not NULL; -1 when it has none. */
time_t record_time(const json_t *line, int *ms);

#endif
