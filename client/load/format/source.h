/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - what `ddict load` reads. Each kind of source (tar, directory, FASTA, ...) is one
 * struct source_kind in a file of its own, listed in sources.c.
 *
 *     one worker, the leader                      every thread of every worker, on all nodes
 *     plan(): cut the source into units           claim a unit; read(): its records go into the
 *                                                 sink of the thread
 *
 * A unit is what one thread reads from its beginning to its end: a range of a file, some files of a
 * folder, a page of objects, or a whole compressed archive. What read() needs to know of it is its
 * `work`, bytes that only this kind understands (pack.h); they travel through the dictionary, so
 * they name everything by absolute paths or URLs and hold no pointer. Aim at units of
 * LOAD_UNIT_BYTES and at most LOAD_UNIT_ITEMS records.
 *
 * A load that stopped is continued: units that were finished are not read again. One that was begun
 * is read again, and for each record whose value is there with the same size sink_begin() says 0:
 * then its bytes are passed over, by a seek or without asking for them where the source allows it.
 *
 * plan() and read() return 0 or a negative code with the sentence set (dd_error()), which names the
 * source or the member. In read() what is wrong with one record alone goes to sink_failed(), which
 * says whether to go on (--on-error). Both look at load_stopped() in loops that could take more
 * than a second, and return -ECANCELED then. Nothing waits without a limit; nothing is written to a
 * file. They run in several threads at once: no static state.
 */
#ifndef DDICT_LOAD_FORMAT_SOURCE_H
#define DDICT_LOAD_FORMAT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* some hundred units for a few GB: the nodes end at about the same time */
#define LOAD_UNIT_BYTES (16u << 20)
#define LOAD_UNIT_ITEMS 16384u /* a unit that is read again after a kill costs little */

struct load_plan;
struct sink;

/* Sizes that a file names may be anything: their sum, INT64_MAX at the most. Neither is negative.
 * */
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
    /* records are known by their number: sink_begin_number(). Else by name: sink_begin() */
    bool numbered;
    /* the set is in order of the names (files, members, objects), else in order of the source */
    bool sorted;
    /*
     * Is text of this kind? head: its first n bytes (0 where text is no file; a compressed one:
     * decompressed). Kinds are asked in the order of sources.c. folder: it is a folder.
     */
    bool (*match)(const char *text, bool folder, const unsigned char *head, size_t n);
    /*
     * What changes when the source changes, as text: a load of another stamp is another load, not
     * the continuation of this one. NULL: size and time of change of the file text. 0 or a negative
     * code (the source is not there, may not be read).
     */
    int (*stamp)(const char *text, char *stamp, size_t cap);
    int (*plan)(struct load_plan *p, const char *text);
    int (*read)(struct sink *s, const char *text, const void *work, size_t len);
};

/* Of the load in this process: somebody failed or was told to end. */
bool load_stopped(void);

/* --- plan.c: units, for plan() --- */

struct unit_facts {
    /* what its sink_advance() will sum up to: bytes of the file, objects, ...: for the progress bar
     * */
    uint64_t read;
    int64_t items; /* records; -1 not known before it is read */
    /* of their values; -1 not known. Does it fit is asked with what is known */
    int64_t bytes;
    int64_t largest; /* of them; -1 not known */
};
int plan_unit(struct load_plan *p, const struct unit_facts *f, const void *work, size_t len);
/* numbered kinds: the number of the next record, counted over all sources of the load; count more
 * are taken. The unit's work has to have it. */
uint64_t plan_number(struct load_plan *p, uint64_t count);
/* What one record is, for kinds of arrays: "|u1" and its dimensions. Before plan_number(). */
void plan_array(struct load_plan *p, const char *dtype, const uint64_t *shape, unsigned ndim);
/*
 * A part of the source is wrong (a truncated archive), name NULL: the source itself. 0: go on with
 * the rest (--on-error=skip: it was noted, and is shown), or negative: return this.
 */
int plan_failed(struct load_plan *p, const char *name, size_t len, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* --- batch_writer.c: records, for read(). One record at a time: begin, add..., end. --- */

/*
 * A record begins. name: its path below the source, len bytes of any encoding; leading slashes and
 * "./" are taken off, a part ".." is refused (as by sink_failed()). size: bytes of its value, -1
 * not known. 1: go on with sink_add(). 0: not wanted (it is there already, or it was refused and
 * --on-error=skip): pass over it, no sink_end(). Negative: end reading, return this.
 */
int sink_begin(struct sink *s, const char *name, size_t len, int64_t size);
/* Would sink_begin() say 0, as it is there already? For who has to ask for bytes ahead of time. */
bool sink_has(struct sink *s, const char *name, size_t len, int64_t size);
int sink_begin_number(struct sink *s, uint64_t n, int64_t size);
/* The next bytes of the value. 0, or negative: end reading. What does not fit in a manager is
 * noticed here or in sink_begin(): then 1: pass over the rest, no sink_end(). */
int sink_add(struct sink *s, const void *bytes, size_t len);
/* The same without a copy: room for len bytes, to be filled before the next call; NULL: as
 * sink_add()'s other results, *rc. */
void *sink_room(struct sink *s, size_t len, int *rc);
void sink_unroom(struct sink *s, size_t len); /* so many of them were not needed */
/* The record is complete. tag: of doc/FORMAT.md. 0, or negative: end reading. */
int sink_end(struct sink *s, unsigned tag);
/* The record that was begun cannot be completed: sink_failed() says why next. */
void sink_cancel(struct sink *s);
/*
 * name (NULL: the source) is wrong: the sentence without the name. 0: go on with the next one (it
 * was noted, and is shown), or negative: end reading, return this.
 */
int sink_failed(struct sink *s, const char *name, size_t len, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A member that has no bytes of its own. A hard link becomes a copy of target's value when all is
 * read; others are counted and named in the summary. */
int sink_link(struct sink *s, const char *name, size_t len, const char *target, size_t target_len);
void sink_left_out(struct sink *s, const char *name, size_t len, const char *what);
/* So many more bytes of unit_facts.read are done. */
void sink_advance(struct sink *s, uint64_t bytes);

#endif
