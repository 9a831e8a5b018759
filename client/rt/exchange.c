/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.c - an exchange through the dictionary. Each rank puts its piece. Rank 0 takes the
 * pieces, puts them all as one value, and deletes that after every rank has confirmed that it read
 * it:
 *
 *     rank 3   put piece/3                  view all    put read/3
 *     rank 0             take piece/1..  put all                    take read/1..  del all
 *
 * Each rank needs two keys, whatever the number of ranks, and no key is left over. Rules:
 *
 *  1. Keys are a zero byte, "ddict.rt/", the group, and the number of the exchange. No key of the
 *     Python binding begins like this.
 *  2. Each piece has a random number, which `all` repeats, so that a value that an earlier program
 *     of the same step left is not mistaken for ours.
 *  3. A length is used only after a check that the piece lies within the value.
 */
#include "exchange.h"

#include <base/defaults.h>
#include <base/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

struct part { /* of `all`: one for each rank; then their bytes, each at a multiple of 8 */
    uint64_t drawn;
    uint64_t len;
};

static size_t round8(size_t n) {
    return (n + 7) & ~(size_t)7;
}

static size_t key_make(char *key, size_t cap, const struct gather *g, const char *what, int rank) {
    int n = snprintf(key + 1, cap - 1, "ddict.rt/%s/%u/%s/%d", g->group, g->generation, what, rank);

    key[0] = '\0';
    return (size_t)n + 1 < cap ? (size_t)n + 1 : cap;
}

/* The time left for a call that changes something, in ms; such a call is not cut into slices. */
static int left_of(struct deadline *d) {
    uint64_t now;

    if (deadline_over(d))
        return 0;
    now = clock_ns();
    return d->at_ns <= now                             ? 0
           : d->at_ns - now > 2000000000ull * 1000000u ? 2000000000
                                                       : (int)((d->at_ns - now) / 1000000u + 1);
}

static int dict_failed(int rc, const char *what) {
    return dd_error(rc, "the dictionary, %s: %s", what, ddict_errmsg());
}

/* If the key was not put in time, the rank did not take part. */
static int rank_missing(int rc, const char *what, int rank) {
    if (key_is_absent(rc) || rc == -ETIMEDOUT)
        return dd_error(-ETIMEDOUT, "no %s of rank %d within the time", what, rank);
    return dict_failed(rc, what);
}

/* Wait for a key in slices, so that time in which we were suspended does not count as waiting. */
static int key_await(struct gather *g, const char *key, size_t klen, struct ddict_view *v,
                     struct deadline *d) {
    int rc;

    do {
        rc = ddict_view(g->d, key, klen, v, DDICT_WAIT, deadline_left(d, -1));
    } while ((key_is_absent(rc) || rc == -ETIMEDOUT) && !deadline_over(d));
    return rc;
}

int gather_open(struct gather *g, const char *group, int rank, int size, struct deadline *d) {
    int rc;

    memset(g, 0, sizeof *g);
    g->group = group;
    g->rank = rank;
    g->size = size;
    rc = ddict_attach(&g->d, NULL, left_of(d));
    return rc < 0 ? dict_failed(rc, "by which the ranks reach each other") : 0;
}

/* --- all ranks but rank 0 --- */

static int piece_put(struct gather *g, uint64_t drawn, const void *data, size_t len,
                     struct deadline *d) {
    struct iovec iov[2] = {{&drawn, sizeof drawn}, {(void *)(uintptr_t)data, len}};
    char key[400];
    size_t klen = key_make(key, sizeof key, g, "piece", g->rank);
    int rc = ddict_putv(g->d, key, klen, iov, len > 0 ? 2 : 1, 0, left_of(d));

    return rc < 0 ? dict_failed(rc, "giving our piece") : 0;
}

/* Check that each part lies within the value. 0, or -EPROTO. */
static int parts_check(const struct ddict_view *v, int size) {
    const struct part *part = v->data;
    size_t at = (size_t)size * sizeof *part;
    int r;

    if (v->len < at)
        return -EPROTO;
    for (r = 0; r < size; r++) {
        if (part[r].len > v->len - at)
            return -EPROTO;
        at += round8(part[r].len);
        if (at > v->len)
            return -EPROTO;
    }
    return 0;
}

static int parts_copy(const void *value, size_t len, int size, struct ddict_rt_bytes **all) {
    const struct part *part = value;
    size_t head = (size_t)size * sizeof **all, at = (size_t)size * sizeof *part;
    struct ddict_rt_bytes *out = malloc(head + len);
    int r;

    if (!out)
        return dd_error(-ENOMEM, "no memory for the pieces of %d ranks", size);
    memcpy((char *)out + head, value, len);
    for (r = 0; r < size; r++) {
        out[r].data = (char *)out + head + at;
        out[r].len = part[r].len;
        at += round8(part[r].len);
    }
    *all = out;
    return 0;
}

/* View `all` of this exchange; a value from an earlier program of the step is passed over. */
static int all_view(struct gather *g, uint64_t drawn, struct ddict_view *v, struct deadline *d) {
    char key[400];
    size_t klen = key_make(key, sizeof key, g, "all", 0);

    for (;;) {
        struct timespec nap = {0, 1000000};
        int rc = key_await(g, key, klen, v, d);

        if (rc < 0)
            return rank_missing(rc, "pieces of all", 0);
        if (parts_check(v, g->size) == 0 && ((const struct part *)v->data)[g->rank].drawn == drawn)
            return 0;
        ddict_release(v);
        if (deadline_over(d))
            return rank_missing(-ETIMEDOUT, "pieces of all", 0);
        nanosleep(&nap, NULL);
    }
}

static int other_exchange(struct gather *g, uint64_t drawn, const void *data, size_t len,
                          struct ddict_rt_bytes **all, struct deadline *d) {
    char key[400];
    struct ddict_view v;
    int rc = piece_put(g, drawn, data, len, d);

    rc = rc < 0 ? rc : all_view(g, drawn, &v, d);
    if (rc < 0)
        return rc;
    rc = parts_copy(v.data, v.len, g->size, all);
    ddict_release(&v);
    /* Not fatal: without it rank 0 waits in vain once. */
    (void)ddict_put(g->d, key, key_make(key, sizeof key, g, "read", g->rank), "", 0, 0, left_of(d));
    return rc;
}

/* --- rank 0 --- */

/* View, then delete: a pop whose answer comes too late would lose the piece. */
static int pieces_take(struct gather *g, struct ddict_view *views, struct deadline *d) {
    char key[400];
    int r;

    for (r = 1; r < g->size; r++) {
        size_t klen = key_make(key, sizeof key, g, "piece", r);
        int rc = key_await(g, key, klen, &views[r], d);

        if (rc < 0) {
            memset(&views[r], 0, sizeof views[r]);
            return rank_missing(rc, "piece", r);
        }
        if (views[r].len < sizeof(uint64_t))
            return dd_error(DDICT_EPROTO, "what rank %d gave is no piece of an exchange", r);
        (void)ddict_del(g->d, key, klen, left_of(d));
    }
    return 0;
}

/* Build `all`, malloc'ed; views[0] is our own piece. */
static void *all_make(struct gather *g, const struct ddict_view *views, size_t *len) {
    size_t at = (size_t)g->size * sizeof(struct part), n = at;
    struct part *part;
    int r;

    for (r = 0; r < g->size; r++)
        n += round8(views[r].len - sizeof part->drawn);
    part = calloc(1, n);
    for (r = 0; r < g->size && part; r++) {
        memcpy(&part[r].drawn, views[r].data, sizeof part[r].drawn);
        part[r].len = views[r].len - sizeof part[r].drawn;
        memcpy((char *)part + at, (const char *)views[r].data + sizeof part[r].drawn, part[r].len);
        at += round8(part[r].len);
    }
    *len = n;
    return part;
}

/* Wait until all ranks have read `all`. If the time ends before, the next exchange or the close
 * tries again. */
static void reads_take(struct gather *g, struct deadline *d) {
    struct ddict_view v;
    char key[400];

    for (; g->unread > 0; g->unread--) {
        size_t klen = key_make(key, sizeof key, g, "read", g->unread);

        if (key_await(g, key, klen, &v, d) < 0)
            return;
        ddict_release(&v);
        (void)ddict_del(g->d, key, klen, left_of(d));
    }
    (void)ddict_del(g->d, key, key_make(key, sizeof key, g, "all", 0), DD_TIMEOUT_MS);
}

static int first_exchange(struct gather *g, uint64_t drawn, const void *data, size_t len,
                          struct ddict_rt_bytes **all, struct deadline *d) {
    struct ddict_view *views = calloc((size_t)g->size, sizeof *views);
    char key[400], *mine = malloc(sizeof drawn + len);
    void *value = NULL;
    size_t n = 0;
    int r, rc = -ENOMEM;

    if (views && mine) {
        memcpy(mine, &drawn, sizeof drawn);
        if (len > 0)
            memcpy(mine + sizeof drawn, data, len);
        views[0].data = mine;
        views[0].len = sizeof drawn + len;
        rc = pieces_take(g, views, d);
    }
    if (rc == 0) {
        value = all_make(g, views, &n);
        rc = !value ? -ENOMEM : parts_copy(value, n, g->size, all);
    }
    for (r = 1; views && r < g->size; r++)
        ddict_release(&views[r]);
    free(views);
    free(mine);
    if (rc == -ENOMEM)
        dd_error(rc, "no memory for the pieces of %d ranks", g->size);
    if (rc == 0) {
        rc = ddict_put(g->d, key, key_make(key, sizeof key, g, "all", 0), value, n, 0, left_of(d));
        if (rc < 0) {
            rc = dict_failed(rc, "giving the pieces of all");
            free(*all);
        }
    }
    free(value);
    if (rc == 0) {
        g->unread = g->size - 1;
        reads_take(g, d);
    }
    return rc;
}

int gather_exchange(struct gather *g, const void *data, size_t len, struct ddict_rt_bytes **all,
                    struct deadline *d) {
    struct ddict_rt_bytes *out = NULL;
    uint64_t drawn = 0;
    int rc;

    if (g->unread > 0)
        reads_take(g, d);
    g->unread = 0;
    g->generation++;
    if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
        drawn = clock_ns() ^ (uint64_t)getpid() << 40;
    rc = g->rank == 0 ? first_exchange(g, drawn, data, len, &out, d)
                      : other_exchange(g, drawn, data, len, &out, d);
    if (rc == 0)
        *all = out;
    return rc;
}

void gather_close(struct gather *g, struct deadline *d) {
    if (!g->d)
        return;
    if (g->unread > 0)
        reads_take(g, d);
    ddict_detach(g->d);
    g->d = NULL;
}
