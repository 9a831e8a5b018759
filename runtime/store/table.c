/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - open addressing with linear probing; removal moves later keys back, so there are no
 * tombstones. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_MIN    64u
#define MOVED        (~0ull) /* no key: keys are offsets of blocks */
#define MOVE_AT_ONCE 8192u   /* slots that are moved at once: some 50 us */
/* slots with each key that is added: half as many come before it is half full again */
#define MOVE_EACH 4u

static size_t home_slot(const struct table *t, uint64_t key) {
    return (size_t)((key * 0x9E3779B97F4A7C15ull) >> (64 - __builtin_ctzll(t->cap)));
}

static uint32_t *old_find(const struct table *t, uint64_t key) {
    const struct table o = {.key = t->old.key, .value = t->old.value, .cap = t->old.cap};
    for (size_t i = home_slot(&o, key);; i = (i + 1) & (o.cap - 1)) {
        if (o.key[i] == key)
            return &o.value[i];
        if (!o.key[i])
            return NULL;
    }
}

uint32_t *table_find(const struct table *t, uint64_t key) {
    if (!t->used)
        return NULL;
    for (size_t i = home_slot(t, key);; i = (i + 1) & (t->cap - 1)) {
        if (t->key[i] == key)
            return &t->value[i];
        if (!t->key[i])
            return t->old.cap ? old_find(t, key) : NULL;
    }
}

static void old_free(struct table *t) {
    free(t->old.key);
    free(t->old.value);
    memset(&t->old, 0, sizeof t->old);
}

static void table_place(struct table *t, uint64_t key, uint32_t value) {
    size_t i = home_slot(t, key);
    while (t->key[i])
        i = (i + 1) & (t->cap - 1);
    t->key[i] = key;
    t->value[i] = value;
}

/* A table that is half full begins to move into one twice as large. The move is over before that is
 * half full: the old one holds cap / 2 keys, and as many are added before. */
static void move_some(struct table *t, size_t n) {
    for (; n > 0 && t->old.at < t->old.cap; n--, t->old.at++) {
        uint64_t key = t->old.key[t->old.at];
        if (!key || key == MOVED)
            continue;
        table_place(t, key, t->old.value[t->old.at]);
        t->old.key[t->old.at] = MOVED; /* not 0: others are found behind it */
    }
    if (t->old.at == t->old.cap)
        old_free(t);
}

static int table_grow(struct table *t) {
    size_t cap = t->cap ? t->cap * 2 : TABLE_MIN;
    uint64_t *key = calloc(cap, sizeof *key);
    uint32_t *value = malloc(cap * sizeof *value);
    if (!key || !value) {
        free(key);
        free(value);
        return -1;
    }
    if (t->old.cap)
        move_some(t, t->old.cap);
    t->old.key = t->key;
    t->old.value = t->value;
    t->old.cap = t->cap;
    t->old.at = 0;
    t->key = key;
    t->value = value;
    t->cap = cap;
    if (t->old.cap <= MOVE_AT_ONCE)
        move_some(t, t->old.cap);
    return 0;
}

int table_make(struct table *t, size_t n) {
    size_t cap = TABLE_MIN;
    while (cap < 2 * n)
        cap *= 2;
    *t = (struct table){
        .cap = cap, .key = calloc(cap, sizeof *t->key), .value = malloc(cap * sizeof *t->value)};
    if (t->key && t->value)
        return 0;
    table_free(t);
    return -1;
}

uint32_t *table_add(struct table *t, uint64_t key) {
    uint32_t *v = table_find(t, key);
    if (v)
        return v;
    if (t->used * 2 >= t->cap && table_grow(t) < 0)
        return NULL;
    if (t->old.cap)
        move_some(t, MOVE_EACH);
    size_t i = home_slot(t, key);
    while (t->key[i])
        i = (i + 1) & (t->cap - 1);
    t->key[i] = key;
    t->value[i] = 0;
    t->used++;
    return &t->value[i];
}

void table_remove(struct table *t, uint64_t key) {
    uint32_t *v = table_find(t, key);
    if (!v)
        return;
    if (t->old.cap && v >= t->old.value && v < t->old.value + t->old.cap) {
        t->old.key[v - t->old.value] = MOVED;
        t->used--;
        return;
    }
    size_t hole = (size_t)(v - t->value), mask = t->cap - 1;
    for (size_t i = (hole + 1) & mask; t->key[i]; i = (i + 1) & mask) {
        size_t h = home_slot(t, t->key[i]);
        /* its home lies behind the hole */
        if (((i - h) & mask) < ((i - hole) & mask))
            continue;
        t->key[hole] = t->key[i];
        t->value[hole] = t->value[i];
        hole = i;
    }
    t->key[hole] = 0;
    t->used--;
}

void table_clear(struct table *t) {
    old_free(t);
    if (t->cap > TABLE_MIN && t->used * 16 < t->cap)
        table_free(t);
    else if (t->cap)
        memset(t->key, 0, t->cap * sizeof *t->key);
    t->used = 0;
}

void table_free(struct table *t) {
    old_free(t);
    free(t->key);
    free(t->value);
    memset(t, 0, sizeof *t);
}
