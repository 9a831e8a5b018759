/* SPDX-License-Identifier: Apache-2.0 */
/* window_index.c - the index of a key in a working set: see window_index.h. */
#include "window_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct window_index *window_index_read(const void *bytes, size_t len) {
    const struct window_index *x = bytes;
    if (len < sizeof *x || (len - sizeof *x) / sizeof x->entry[0] != x->n ||
        (len - sizeof *x) % sizeof x->entry[0] != 0)
        return NULL;
    return x;
}

/* How many entries are at the checkpoint or before. */
static uint32_t entries_to(const struct window_index *x, uint64_t checkpoint) {
    uint32_t n = x->n;
    while (n > 0 && x->entry[n - 1].checkpoint > checkpoint)
        n--;
    return n;
}

const struct window_entry *window_index_at(const struct window_index *x, uint64_t checkpoint) {
    uint32_t n = x ? entries_to(x, checkpoint) : 0;
    return n > 0 ? &x->entry[n - 1] : NULL;
}

static void drop(struct window_edit *e, const struct window_entry *from, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!(from[i].flags & WINDOW_REMOVED))
            e->dropped[e->ndropped++] = from[i];
}

/* Take the entries from .. from + n out. */
static void cut(struct window_edit *e, uint32_t from, uint32_t n) {
    struct window_index *x = e->now;
    drop(e, x->entry + from, n);
    memmove(x->entry + from, x->entry + from + n, (x->n - from - n) * sizeof x->entry[0]);
    x->n -= n;
}

int window_edit_begin(struct window_edit *e, const struct window_index *x, uint64_t oldest,
                      bool keeps) {
    uint32_t n = x ? x->n : 0;
    *e = (struct window_edit){.keeps = keeps,
                              .now = calloc(1, window_index_size(n + 1)),
                              .dropped = malloc((n + 1) * sizeof *e->dropped)};
    if (!e->now || !e->dropped) {
        window_edit_end(e);
        return -ENOMEM;
    }
    if (x)
        memcpy(e->now, x, window_index_size(n));
    if (e->now->floor < oldest)
        e->now->floor = oldest;
    uint32_t old = entries_to(e->now, oldest);
    const struct window_entry *is = &e->now->entry[old > 0 ? old - 1 : 0];
    if (old > 0 && (!(is->flags & WINDOW_REMOVED) || (keeps && is->checkpoint == oldest)))
        old--; /* that one is still seen */
    cut(e, 0, old);
    return 0;
}

void window_edit_put(struct window_edit *e, const struct window_entry *put) {
    struct window_index *x = e->now;
    uint32_t n = entries_to(x, put->checkpoint);
    if (n > 0 && x->entry[n - 1].checkpoint == put->checkpoint)
        cut(e, --n, 1);
    memmove(x->entry + n + 1, x->entry + n, (x->n - n) * sizeof x->entry[0]);
    x->entry[n] = *put;
    x->n++;
    /* what the oldest checkpoint has now hides what was before it */
    if (put->checkpoint <= x->floor)
        cut(e, 0, n);
}

void window_edit_remove(struct window_edit *e, uint64_t checkpoint, uint64_t version) {
    struct window_index *x = e->now;
    uint32_t n = entries_to(x, checkpoint);
    bool had = n > 0 && !(x->entry[n - 1].flags & WINDOW_REMOVED);
    if (checkpoint <= x->floor) {
        cut(e, 0, n);
        n = 0;
    } else if (n > 0 && x->entry[n - 1].checkpoint == checkpoint) {
        cut(e, --n, 1);
    }
    if (e->keeps ? had : n > 0 && !(x->entry[n - 1].flags & WINDOW_REMOVED))
        window_edit_put(e, &(struct window_entry){.checkpoint = checkpoint,
                                                  .version = version,
                                                  .flags = WINDOW_REMOVED});
}

void window_edit_withdraw(struct window_edit *e, uint64_t checkpoint,
                          const struct window_entry *before) {
    uint32_t n = entries_to(e->now, checkpoint);
    if (n > 0 && e->now->entry[n - 1].checkpoint == checkpoint)
        cut(e, n - 1, 1);
    if (before && before->flags & WINDOW_REMOVED)
        window_edit_remove(e, checkpoint, before->version);
    else if (before)
        window_edit_put(e, before);
}

void window_edit_end(struct window_edit *e) {
    free(e->now);
    free(e->dropped);
    *e = (struct window_edit){0};
}
