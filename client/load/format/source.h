/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - what `ddict load` reads. Each kind of source (tar, directory, FASTA, ...) is one
 * struct source_kind in a file of its own, listed in sources.c.
 *
 *     one worker, the leader                      every thread of every worker, on all nodes
 *     plan(): cut the source into units           claim a unit; read(): its records go into the
 *                                                 sink of the thread
 *
 * UNITS. One thread reads a unit from its beginning to its end: a range of a file, some files of a
 * folder, a page of objects, or a whole compressed archive. What read() needs to know of the unit
 * is its `work`: bytes that only this kind understands (pack.h). They travel through the
 * dictionary, so they name everything by absolute paths or URLs and hold no pointer. Aim at units
 * of LOAD_UNIT_BYTES and at most LOAD_UNIT_ITEMS records.
 *
 * CONTINUING. A load that stopped can be continued. Finished units are not read again. A unit that
 * was begun is, and for each record whose value is there with the same size sink_begin() returns 0:
 * read() passes over its bytes, by a seek or without asking for them if the source allows that.
 *
 * ERRORS. plan() and read() return 0 or a negative code with the sentence set (dd_error()), which
 * names the source or the member. If one record alone is wrong, read() calls sink_failed(), which
 * says whether to go on (--on-error). Both look at load_stopped() in loops that could take more
 * than a second, and return -ECANCELED if it is true.
 *
 * THREADS. Both run in several threads at once: no static state. They wait for nothing without a
 * limit, and write no file.
 */
#ifndef DDICT_LOAD_FORMAT_SOURCE_H
#define DDICT_LOAD_FORMAT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* some hundred units for a few GB, so that the nodes end at about the same time */
#define LOAD_UNIT_BYTES (16u << 20)
#define LOAD_UNIT_ITEMS 16384u /* a unit that is read again after a kill costs little */

struct load_plan;
struct sink;

/* Sum and product, at most INT64_MAX: a file may claim any size. No argument is negative. */
static inline int64_t bytes_add(int64_t a, int64_t b) {
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}
static inline int64_t bytes_times(uint64_t n, int64_t each) {
    return each > 0 && n > (uint64_t)(INT64_MAX / each) ? INT64_MAX : (int64_t)n * each;
}

/* Of doc/FORMAT.md */
enum {
    LOAD_TAG_BYTES = 0,
    LOAD_TAG_STR = 4,
    LOAD_TAG_INT = 5,
    LOAD_TAG_FLOAT = 6,
    LOAD_TAG_ARRAY = 7
};

struct source_kind {
    const char *name; /* of --as, and `kind` of the set (doc/SETS.md) */
    /* records have numbers, for sink_begin_number(); else names, for sink_begin() */
    bool numbered;
    /* the set is in the order of names (files, members, objects); else in that of the source */
    bool sorted;
    /*
     * Whether the source text is of this kind; the first in the order of sources.c wins. folder: it
     * is a folder. head: the first n bytes of a file, decompressed; n is 0 if text is no file.
     */
    bool (*match)(const char *text, bool folder, const unsigned char *head, size_t n);
    /*
     * Write what changes when the source changes into stamp: with another stamp it is another load,
     * not the continuation of this one. 0 or a negative code (the source is not there, or may not
     * be read). NULL: size and time of change of the file text are the stamp.
     */
    int (*stamp)(const char *text, char *stamp, size_t cap);
    int (*plan)(struct load_plan *p, const char *text);
    int (*read)(struct sink *s, const char *text, const void *work, size_t len);
};

/* Whether the load has to stop: a process has failed, or the user has ended it. */
bool load_stopped(void);

/* --- plan.c: units, for plan() --- */

struct unit_facts {
    /* what the unit's sink_advance() will sum up to (bytes of the file, objects, ...), for the
     * progress bar */
    uint64_t read;
    int64_t items; /* records; -1: not known before they are read */
    /* of their values; -1: not known. Whether the load fits is judged by what is known. */
    int64_t bytes;
    int64_t largest; /* bytes of the largest value; -1: not known */
};
/* Add a unit of the source that is being planned. */
int plan_unit(struct load_plan *p, const struct unit_facts *f, const void *work, size_t len);
/* For numbered kinds: take numbers for `count` records, counted over all sources of the load.
 * Returns the first of them, which belongs into the unit's work. */
uint64_t plan_number(struct load_plan *p, uint64_t count);
/* For kinds of arrays: what one record is, such as "|u1", and its dimensions. Before
 * plan_number(). */
void plan_array(struct load_plan *p, const char *dtype, const uint64_t *shape, unsigned ndim);
/*
 * A part of the source, or with a NULL name the source itself, is wrong (a truncated archive). 0:
 * go on with the rest (--on-error=skip: the error is noted and shown); negative: return this.
 */
int plan_failed(struct load_plan *p, const char *name, size_t len, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* --- batch_writer.c: records, for read(). One record at a time: begin, add..., end. --- */

/*
 * Begin a record. name: its path below the source, len bytes of any encoding; leading slashes and
 * "./" are taken off, a part ".." is refused (as by sink_failed()). size: bytes of its value, -1:
 * not known. Returns 1: go on with sink_add(); 0: the record is not wanted (it is there already, or
 * was refused and --on-error=skip): pass over it, without sink_end(); negative: end reading and
 * return this.
 */
int sink_begin(struct sink *s, const char *name, size_t len, int64_t size);
/* Whether sink_begin() would return 0 because the record is there already. For sources that have to
 * ask for bytes ahead of time. */
bool sink_has(struct sink *s, const char *name, size_t len, int64_t size);
/* As sink_begin(), of record number n. */
int sink_begin_number(struct sink *s, uint64_t n, int64_t size);
/* Add the next bytes of the value. 0; 1: the value does not fit in a manager (sink_begin() may also
 * notice that): pass over the rest, without sink_end(); negative: end reading. */
int sink_add(struct sink *s, const void *bytes, size_t len);
/* The same without a copy: room for len bytes, to be filled before the next call. NULL: *rc is what
 * sink_add() would return. */
void *sink_room(struct sink *s, size_t len, int *rc);
void sink_unroom(struct sink *s, size_t len); /* the last len bytes of the room were not needed */
/* End the record. tag: of doc/FORMAT.md. 0, or negative: end reading. */
int sink_end(struct sink *s, unsigned tag);
/* Drop the record that was begun and cannot be completed; tell why by sink_failed() next. */
void sink_cancel(struct sink *s);
/*
 * The record of that name (NULL: the source) is wrong; fmt: the sentence without the name. 0: go on
 * with the next one (the error is noted and shown); negative: end reading and return this.
 */
int sink_failed(struct sink *s, const char *name, size_t len, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A hard link: becomes a copy of target's value when all is read. */
int sink_link(struct sink *s, const char *name, size_t len, const char *target, size_t target_len);
/* Another member without bytes of its own: counted, and named in the summary. */
void sink_left_out(struct sink *s, const char *name, size_t len, const char *what);
/* `bytes` more of unit_facts.read are done. */
void sink_advance(struct sink *s, uint64_t bytes);

#endif
