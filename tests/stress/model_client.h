/* SPDX-License-Identifier: Apache-2.0 */
/* model_client.h - what the files of model_client.c share: the dictionary, chance, and the judgement
 * of an answer. One thread. */
#ifndef DDICT_TESTS_MODEL_CLIENT_H
#define DDICT_TESTS_MODEL_CLIENT_H

#include "model.h"
#include <ddict.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* LONG_MS: no call may take so long; MANY: keys of one call */
enum { LONG_MS = 120000, MANY = 40 };

extern ddict_t *d;
extern ddict_async_t *async;
extern unsigned me;
extern int bad;   /* a difference was found */
extern char *out; /* room for a value */

static inline uint64_t below(uint64_t n) {
    return model_random() % n;
}
static inline bool one_in(uint64_t n) {
    return below(n) == 0;
}
static inline unsigned any_key(void) {
    return (unsigned)below(MODEL_ALL);
}
static inline void found(int rc) {
    bad |= rc < 0;
}

struct key {
    unsigned id;
    size_t len;
    char name[MODEL_KEY_MAX];
};

/* --- model_client.c --- */
struct key *key_at(unsigned slot, unsigned id); /* until the slot, of MANY + 2, is taken again */
/* Up to n of our keys that are free, each once. */
unsigned own_keys(unsigned *ids, unsigned n);
int some_ms(void);
/* The outcome of a change; a code that can not be is said. */
uint32_t outcome(const char *what, unsigned id, int rc, int ms, unsigned flags, bool known,
                 bool there);

/* --- model_client_views.c --- */
/* Check a view and hold or release it. */
void viewed(const char *how, unsigned id, uint64_t look, struct ddict_view *v);
void let_one_go(void);
void let_all_go(void);

/* --- model_client_async.c --- */
void async_some(void);

/* --- model_client_queues.c --- */
void push_one(void);
void take_any(void);
int take_one(unsigned q, unsigned flags, int ms); /* the code of ddict_pop() */

#endif
