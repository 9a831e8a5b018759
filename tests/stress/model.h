/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - what a dictionary may hold, known to all processes of a random run (model.py) by a file
 * that they share.
 *
 * A key has one owner, which alone changes it, one operation after the other, and numbers them. An
 * operation is entered before it begins and its outcome when it has ended, so every reader can say
 * which operations it may see: the last that had its effect when the read began (or a later one
 * that somebody had seen), or one behind it that has begun and has not failed. A value's bytes come
 * of its key and of the operation that made it. An operation that ran out of time or whose process
 * was killed has an unknown outcome; the owner leaves the key alone for MODEL_QUARANTINE_MS then
 * and looks, which settles it. Elements of queues are entered one by one: pushed, popped.
 *
 * Functions that find a difference say it, in the file and on stderr, and return -1; the run ends
 * by that.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_API __attribute__((visibility("default")))

enum {
    MODEL_WORKERS = 6,
    MODEL_KEYS = 96, /* of each worker */
    MODEL_ALL = MODEL_WORKERS * MODEL_KEYS,
    MODEL_RING = 2048, /* operations of a key that are remembered */
    MODEL_QUEUES = 3,
    MODEL_ELEMENTS = 1 << 20, /* of a queue in a run */
    MODEL_COUNTS = 80,
    MODEL_TEXTS = 16,
    MODEL_KEY_MAX = 65536,
    MODEL_VALUE_MAX = 5 << 20,
    MODEL_QUARANTINE_MS = 8000,
};

enum { MODEL_RUN, MODEL_SETTLE, MODEL_AUDIT, MODEL_END }; /* phases */
/* kinds of operations */
enum { MODEL_PUT = 1, MODEL_DEL, MODEL_CLEARED, MODEL_RESTORED };
enum { MODEL_PENDING, MODEL_OK, MODEL_FAILED, MODEL_UNKNOWN }; /* outcomes */

struct model_op {
    _Atomic uint32_t state;
    uint32_t kind, len;       /* len: of its bytes, without head */
    uint32_t head;            /* bytes before them: those of Python's arrays */
    uint64_t content;         /* number of the operation that made the bytes */
    _Atomic uint64_t version; /* as somebody saw it; 0: nobody did */
};

struct model_key {
    _Atomic uint64_t begun; /* last operation that has begun */
    _Atomic uint64_t floor; /* last one that certainly had its effect */
    _Atomic uint64_t seen;  /* last one that a reader saw */
    /* ns: until then the owner leaves it alone; 0: its state is known */
    _Atomic uint64_t quarantine;
    struct model_op op[MODEL_RING];
};

struct model_slot {
    _Atomic uint64_t pid, life, beat, settled, audited, ended;
    _Atomic uint32_t popping; /* queue + 1 */
    char doing[64];
    _Atomic uint64_t count[MODEL_COUNTS], bytes, views;
};

struct model_queue {
    _Atomic uint64_t next;     /* element; the first is 1 */
    _Atomic uint64_t may_lose; /* pops that nobody knows the end of */
    _Atomic uint64_t lost, scanned;
    _Atomic uint32_t element[MODEL_ELEMENTS]; /* bits below, and the pusher */
};
enum { MODEL_PUSH = 1, MODEL_PUSHED = 2, MODEL_REFUSED = 4, MODEL_POPPED = 8, MODEL_PUSHER = 256 };

struct model_table {
    uint64_t seed;
    _Atomic uint64_t phase, round;
    _Atomic uint64_t wrong; /* differences found */
    char text[MODEL_TEXTS][768];
    char counted[MODEL_COUNTS][24]; /* names of what is counted */
    struct model_slot slot[MODEL_WORKERS];
    struct model_queue queue[MODEL_QUEUES];
    struct model_key key[MODEL_ALL];
};

/* Map the file, as worker 0 .. MODEL_WORKERS - 1, or as the one who watches them, -1, who makes it.
 * A worker that was killed is entered as such: what it had begun is unknown. */
MODEL_API struct model_table *model_open(const char *path, int worker, uint64_t seed);
MODEL_API int model_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
MODEL_API int model_say(const char *text); /* model_wrong() for who has no format */
MODEL_API uint64_t model_now(void);        /* ns */
MODEL_API uint64_t model_random(void);     /* of seed, worker and life */
MODEL_API void model_doing(const char *what);
MODEL_API void model_count(const char *what, uint64_t n);
MODEL_API uint64_t model_phase(void); /* and a sign of life */
MODEL_API uint64_t model_round(void);
MODEL_API void model_reached(uint64_t phase, uint64_t round);
MODEL_API void model_killed(int worker); /* by who killed it */

/* of MODEL_KEY_MAX bytes; its length */
MODEL_API size_t model_name(unsigned id, void *key);
MODEL_API int model_id(const void *key, size_t len); /* -1: not of the model */
/* of a new value, 0 to MODEL_VALUE_MAX / part; another than the key's last ones, as events may say
 * no more */
MODEL_API size_t model_len(unsigned id, unsigned part);
MODEL_API void model_fill(void *val, uint64_t id, uint64_t content, size_t len);
MODEL_API bool model_same(const void *val, uint64_t id, uint64_t content, size_t len);

/* The owner's. */
/* its state is known, nothing is under way */
MODEL_API bool model_free(unsigned id);
MODEL_API bool model_there(unsigned id);
MODEL_API uint64_t model_begin(unsigned id, uint32_t kind, size_t len, uint32_t head);
MODEL_API int model_end(unsigned id, uint64_t op, uint32_t state);
/* it is to be read, and model_settled() called */
MODEL_API bool model_due(unsigned id);
/* val NULL: absent */
MODEL_API int model_settled(unsigned id, const void *val, size_t len, unsigned tag);
/* own keys whose state is not known */
MODEL_API uint64_t model_settle_left(void);

/* A reader's: what model_look() gave goes into model_seen(). version 0: not known. *content (may be
 * NULL): of the value. */
MODEL_API uint64_t model_look(unsigned id);
MODEL_API int model_seen(unsigned id, uint64_t look, const void *val, size_t len, unsigned tag,
                         uint64_t version, uint64_t *content, const char *how);
MODEL_API int model_seen_len(unsigned id, uint64_t look, bool there, size_t len, const char *how);

/* Listing of keys: begin, each key, end. worker: those of one, -1 all. */
MODEL_API void model_list(void);
MODEL_API void model_listed(int id);
/* of (may be NULL): 1 for each key that was asked for */
MODEL_API int model_list_end(int worker, const uint8_t *of, const char *how);
MODEL_API uint64_t model_present(void);

/* Events. before and after the subscription; each event; how many are still owed. */
MODEL_API void model_sub_before(void);
MODEL_API void model_sub_after(bool dels);
MODEL_API int model_event(int kind, const void *key, size_t klen, const void *val, size_t vlen,
                          size_t len, unsigned tag, uint64_t version);
MODEL_API uint64_t model_sub_owed(char *text, size_t cap);

/* Queues. */
MODEL_API size_t model_queue_name(unsigned q, void *key);
/* an element, entered; 0: there are no more */
MODEL_API uint64_t model_push(unsigned q, size_t *len);
MODEL_API void model_pushed(unsigned q, uint64_t e, uint32_t state);
MODEL_API void model_pop(unsigned q);
/* val NULL: nothing */
MODEL_API int model_popped(unsigned q, const void *val, size_t len, bool unknown);
/* it is empty, and nobody pushes */
MODEL_API int model_queue_audit(unsigned q);

/* By who watches. The figure of a slot (or of all: -1) or of the run: "pid", "life", "beat",
 * "settled", "audited", "ended", "bytes", "wrong", "lost", "may_lose", "elements", "operations". */
MODEL_API uint64_t model_figure(const char *what, int worker);
/* a difference, or what worker i does */
MODEL_API const char *model_text(unsigned i, bool doing);
MODEL_API const char *model_counted(unsigned i, uint64_t *sum); /* NULL: no more */
MODEL_API void model_phase_set(uint64_t phase, uint64_t round);
/* While all are settled. */
/* MODEL_CLEARED; MODEL_RESTORED: and put back. Before it is done */
MODEL_API void model_all(uint32_t kind);

#endif
