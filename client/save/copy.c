/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - a worker that puts its share of a dictionary into others. Values are read in place. */
#include "copy.h"

#include "save.h"
#include <base/error.h>

#include <common/key_text.h>
#include <errno.h>
#include <string.h>

/* A queue has many values under one key, of which all but queue calls see the first one. */
#define QUEUE_HEAD "t\x0c\0\0\0sddict.Queue"

static struct copy_run *copying; /* one in a process; for the bodies of threads */

static bool copy_wants(const struct ddict_want *w) {
    return w->klen < sizeof QUEUE_HEAD - 1 ||
           memcmp(w->key, QUEUE_HEAD, sizeof QUEUE_HEAD - 1) != 0;
}

static int pairs_put(const struct copy_to *to, struct ddict_pair *pairs, size_t n, uint64_t *same) {
    /* no checkpoint of a working set waits for what was copied */
    bool lasts = ddict_working_set(to->d, NULL) > 0;
    for (size_t i = 0; i < n; i++)
        pairs[i].flags = (pairs[i].flags & ~DDICT_PERSISTENT) | (lasts ? DDICT_PERSISTENT : 0);
    ssize_t put = n > 0 ? ddict_put_many(to->d, pairs, n, -1) : 0;
    if (put < 0)
        return dd_error((int)put, "%s: %s", to->name, ddict_errmsg());
    for (size_t i = 0; i < n; i++) {
        *same += pairs[i].status == DDICT_EEXISTS;
        if (pairs[i].status < 0 && pairs[i].status != DDICT_EEXISTS &&
            pairs[i].status != -ECANCELED) /* another pair says why */
            return dd_error(pairs[i].status, "%s: cannot store all: %s", to->name, ddict_errmsg());
    }
    for (size_t i = 0; i < n; i++)
        if (pairs[i].status == -ECANCELED)
            return dd_error(-ECANCELED, "%s: %s", to->name, ddict_errmsg());
    return 0;
}

static int wants_put(struct save_run *run, void *arg, const struct ddict_want *want, unsigned n) {
    struct ddict_pair pairs[SAVE_BATCH];
    uint64_t bytes = 0, same = 0;
    size_t k = 0;
    int rc = 0;
    (void)arg;
    for (unsigned i = 0; i < n; i++) {
        const struct ddict_want *w = &want[i];
        if ((rc = save_found(run, w)) < 0)
            return rc;
        if (rc == 0 || !copy_wants(w))
            continue;
        pairs[k++] =
            (struct ddict_pair){.key = w->key,
                                .klen = w->klen,
                                .val = w->view.data,
                                .vlen = w->view.len,
                                .flags = DDICT_TAG(w->view.tag) | (run->keep ? DDICT_NEW : 0)};
        bytes += w->view.len;
    }
    rc = 0;
    for (unsigned t = 0; t < copying->n && rc == 0; t++)
        rc = pairs_put(&copying->to[t], pairs, k, &same);
    if (rc < 0)
        return rc;
    __atomic_fetch_add(&run->items, k, __ATOMIC_RELAXED); /* figures alone */
    __atomic_fetch_add(&run->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&run->same, same, __ATOMIC_RELAXED);
    return 0;
}

/* --- compare --- */

static int item_differs(struct save_run *run, const struct ddict_want *w, const char *why) {
    struct bytes name = {0};
    int rc = key_show(&name, w->key, w->klen, NULL);
    rc = rc < 0 ? rc : bytes_add(&name, "", 1);
    if (rc == 0)
        save_left_out(run, (const char *)name.data, why);
    bytes_free(&name);
    return rc < 0 ? dd_error(-ENOMEM, "out of memory") : 0;
}

/* Compare what was found with what is there. */
static int pair_compare(struct save_run *run, const struct copy_to *to, const struct ddict_want *w,
                        const struct ddict_want *there) {
    if (key_is_absent(there->status))
        return item_differs(run, w, "is not there");
    if (there->status < 0)
        return dd_error(there->status, "%s: %s", to->name, ddict_strerror(there->status));
    if (there->view.tag != w->view.tag || there->view.len != w->view.len ||
        memcmp(there->view.data, w->view.data, w->view.len) != 0)
        return item_differs(run, w, "has another value");
    return 0;
}

static int wants_compare(struct save_run *run, void *arg, const struct ddict_want *want,
                         unsigned n) {
    struct ddict_want there[SAVE_BATCH];
    const struct ddict_want *from[SAVE_BATCH];
    unsigned k = 0;
    int rc = 0;
    (void)arg;
    for (unsigned i = 0; i < n; i++) {
        if ((rc = save_found(run, &want[i])) < 0)
            return rc;
        if (rc == 0 || !copy_wants(&want[i]))
            continue;
        from[k] = &want[i];
        there[k++] = (struct ddict_want){.key = want[i].key, .klen = want[i].klen};
        __atomic_fetch_add(&run->bytes, want[i].view.len, __ATOMIC_RELAXED); /* a figure alone */
    }
    rc = 0;
    for (unsigned t = 0; t < copying->n && k > 0 && rc == 0; t++) {
        ssize_t found = ddict_get_many(copying->to[t].d, there, k, 0, -1);
        if (found < 0)
            return dd_error((int)found, "%s: %s", copying->to[t].name, ddict_errmsg());
        for (unsigned i = 0; i < k; i++) {
            if (rc == 0)
                rc = pair_compare(run, &copying->to[t], from[i], &there[i]);
            if (there[i].status == 0)
                ddict_release(&there[i].view);
        }
    }
    __atomic_fetch_add(&run->items, k, __ATOMIC_RELAXED); /* a figure alone */
    return rc;
}

/* Managers one after another until there is none left. */
static void managers_copy(struct save_run *run) {
    int rc = 0;
    /* a number for one thread */
    for (uint64_t i; rc == 0 && (i = __atomic_fetch_add(&run->claimed, 1, __ATOMIC_RELAXED),
                                i < run->info.managers);)
        if (i % run->workers == run->worker)
            rc = save_each_some(run, (unsigned)i, copying->some,
                                copying->compare ? wants_compare : wants_put, NULL);
    if (rc < 0)
        save_fail(run);
}

int copy_items(struct copy_run *copy) {
    copying = copy;
    return save_threads(copy->run, SAVE_THREADS, managers_copy);
}
