/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - open addressing with linear probing; removal moves later keys back, so there are no tombstones. */
#include <store/table.h>

#include <stdlib.h>
#include <string.h>

#define TABLE_MIN 64u

static size_t home(const struct table *t, uint64_t key) {
    return (size_t)((key * 0x9E3779B97F4A7C15ull) >> (64 - __builtin_ctzll(t->cap)));
}

uint32_t *table_find(const struct table *t, uint64_t key) {
    if (!t->used)
        return NULL;
    for (size_t i = home(t, key);; i = (i + 1) & (t->cap - 1)) {
        if (t->key[i] == key)
            return &t->value[i];
        if (!t->key[i])
            return NULL;
    }
}

static int grow(struct table *t) {
    struct table n = {.cap = t->cap ? t->cap * 2 : TABLE_MIN, .used = t->used};
    n.key = calloc(n.cap, sizeof *n.key);
    n.value = malloc(n.cap * sizeof *n.value);
    if (!n.key || !n.value) {
        table_free(&n);
        return -1;
    }
    for (size_t i = 0; i < t->cap; i++) {
        if (!t->key[i])
            continue;
        size_t at = home(&n, t->key[i]);
        while (n.key[at])
            at = (at + 1) & (n.cap - 1);
        n.key[at] = t->key[i];
        n.value[at] = t->value[i];
    }
    table_free(t);
    *t = n;
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
    if (t->used * 2 >= t->cap && grow(t) < 0)
        return NULL;
    size_t i = home(t, key);
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
    size_t hole = (size_t)(v - t->value), mask = t->cap - 1;
    for (size_t i = (hole + 1) & mask; t->key[i]; i = (i + 1) & mask) {
        size_t h = home(t, t->key[i]);
        if (((i - h) & mask) < ((i - hole) & mask))
            continue; /* its home lies behind the hole */
        t->key[hole] = t->key[i];
        t->value[hole] = t->value[i];
        hole = i;
    }
    t->key[hole] = 0;
    t->used--;
}

void table_clear(struct table *t) {
    if (t->cap > TABLE_MIN && t->used * 16 < t->cap)
        table_free(t);
    else if (t->cap)
        memset(t->key, 0, t->cap * sizeof *t->key);
    t->used = 0;
}

void table_free(struct table *t) {
    free(t->key);
    free(t->value);
    memset(t, 0, sizeof *t);
}
