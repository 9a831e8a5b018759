/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - a worker that writes the items of its node's managers into parts. Values are written
 * straight from the arena. */
#include "save.h"

#include "dump_out.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/text.h>
#include <base/vec.h>

#include <common/lost_keys.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- threads --- */

bool save_stopped(const struct save_run *run) {
    return __atomic_load_n(&run->stopped, __ATOMIC_RELAXED) != 0; /* only a flag */
}

void save_fail(struct save_run *run) {
    pthread_mutex_lock(&run->lock);
    if (*run->why == 0)
        snprintf(run->why, sizeof run->why, "%s", dd_errmsg());
    pthread_mutex_unlock(&run->lock);
    __atomic_store_n(&run->stopped, 1, __ATOMIC_RELAXED);
}

int save_left_out(struct save_run *run, const char *name, const char *why) {
    pthread_mutex_lock(&run->lock);
    if (run->left_out++ == 0)
        snprintf(run->first_left_out, sizeof run->first_left_out, "%.300s: %s", name, why);
    text_plain(run->first_left_out);
    pthread_mutex_unlock(&run->lock);
    return 0;
}

struct runner {
    struct save_run *run;
    void (*body)(struct save_run *run);
};

static void *thread_run(void *arg) {
    const struct runner *r = arg;
    r->body(r->run);
    return NULL;
}

int save_threads(struct save_run *run, unsigned n, void (*body)(struct save_run *run)) {
    pthread_t thread[SAVE_THREADS];
    struct runner r = {run, body};
    unsigned started = 0;
    if (n > SAVE_THREADS)
        n = SAVE_THREADS;
    while (started + 1 < n && pthread_create(&thread[started], NULL, thread_run, &r) == 0)
        started++;
    body(run);
    for (unsigned i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return save_stopped(run) ? -1 : 0;
}

/* --- keys that were lost with a node --- */

static void save_note_lost(struct save_run *run) {
    __atomic_store_n(&run->lost, 1, __ATOMIC_RELAXED); /* only a flag */
}

int save_look_lost(struct save_run *run, int wait_ms) {
    struct deadline d;
    int rc = 0;
    deadline_start(&d, wait_ms);
    for (unsigned i = 0; i < run->info.managers && rc >= 0 && ddict_refills(run->d) == 1; i++) {
        if (!save_ours(run, i))
            continue;
        do
            rc = manager_lost_keys_within(run->d, i, LOST_LOOK_MS);
        while (rc == -ETIMEDOUT && !save_stopped(run) && !deadline_over(&d));
        if (rc == 1 || rc == -ETIMEDOUT)
            save_note_lost(run);
    }
    if (rc == -ETIMEDOUT)
        return 1;
    return rc < 0 ? dd_error(rc, "%s", ddict_errmsg()) : 0;
}

int save_checkpoint(struct save_run *run, const uint64_t *checkpoint) {
    int k = ddict_working_set(run->d, NULL);
    int64_t at = k <= 0        ? k
                 : !checkpoint ? ddict_sync_to_newest_checkpoint(run->d, -1)
                               : ddict_set_checkpoint_id(run->d, *checkpoint);
    if (at < 0)
        return dd_error((int)at, "%s", ddict_errmsg());
    run->window = k > 0;
    run->checkpoint = checkpoint ? *checkpoint : (uint64_t)at;
    return 0;
}

/* --- items --- */

struct batch {
    struct ddict_want want[SAVE_BATCH];
    uint8_t *keys;
    size_t len, cap, at[SAVE_BATCH];
    unsigned n;
};

static int client_error(int code) {
    return dd_error(code, "%s", ddict_errmsg());
}

static int batch_add(struct batch *b, const void *key, size_t klen) {
    if (VEC_ROOM(&b->keys, &b->cap, b->len + klen, 65536) < 0)
        return dd_error(-ENOMEM, "out of memory");
    memcpy(b->keys + b->len, key, klen);
    b->want[b->n] = (struct ddict_want){.klen = klen};
    b->at[b->n++] = b->len;
    b->len += klen;
    return 0;
}

static int batch_give(struct save_run *run, struct batch *b, save_wants *give, void *arg) {
    for (unsigned i = 0; i < b->n; i++)
        b->want[i].key = b->keys + b->at[i];
    ssize_t n = b->n > 0 ? ddict_get_many(run->d, b->want, b->n, 0, -1) : 0;
    if (n < 0)
        return client_error((int)n);
    int rc = give(run, arg, b->want, b->n);
    for (unsigned i = 0; i < b->n; i++)
        if (b->want[i].status == 0)
            ddict_release(&b->want[i].view);
    b->n = 0;
    b->len = 0;
    return rc;
}

int save_found(struct save_run *run, const struct ddict_want *w) {
    if (w->status == DDICT_EKEYLOST)
        save_note_lost(run);
    if (key_is_absent(w->status))
        return 0;
    if (w->status < 0)
        return dd_error(w->status, "%s", ddict_strerror(w->status));
    return save_stopped(run) ? -ECANCELED : 1;
}

int save_each_some(struct save_run *run, unsigned manager, unsigned some, save_wants *give,
                   void *arg) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    struct batch *b = calloc(1, sizeof *b);
    int rc = b ? ddict_iter_open_flags(run->d, (int)manager, NULL, 0, DDICT_ITER_HIDDEN, &it, -1)
               : dd_error(-ENOMEM, "out of memory");
    if (rc < 0) {
        free(b);
        return b ? client_error(rc) : rc;
    }
    while (rc == 0) {
        int more = ddict_iter_next(it, &key, &klen);
        if (more < 0)
            rc = client_error(more);
        else if (more == 1 && save_wanted(run, key, klen))
            rc = batch_add(b, key, klen);
        if (rc == 0 && (more == 0 || b->n == some))
            rc = batch_give(run, b, give, arg);
        if (more == 0)
            break;
        if (rc == 0 && save_stopped(run))
            rc = -ECANCELED;
    }
    ddict_iter_close(it);
    free(b->keys);
    free(b);
    return rc;
}

struct one_by_one {
    int (*each)(struct save_run *run, void *arg, const struct save_item *item);
    void *arg;
};

static int give_each(struct save_run *run, void *arg, const struct ddict_want *want, unsigned n) {
    const struct one_by_one *o = arg;
    int rc = 0;
    for (unsigned i = 0; i < n && rc == 0; i++)
        if ((rc = save_found(run, &want[i])) == 1)
            rc = o->each(run, o->arg, &(struct save_item){want[i].key, want[i].klen, want[i].view});
    return rc;
}

int save_each(struct save_run *run, unsigned manager,
              int (*each)(struct save_run *run, void *arg, const struct save_item *item),
              void *arg) {
    struct one_by_one o = {each, arg};
    return save_each_some(run, manager, SAVE_BATCH, give_each, &o);
}

/* --- parts --- */

struct writer {
    struct dump_out out;
    char name[64];
    bool open;
    json_t *parts; /* NULL: the run's */
};

static int part_close(struct save_run *run, struct writer *w) {
    struct dump_sum sum;
    char hex[17];
    if (!w->open)
        return 0;
    w->open = false;
    int rc = dump_finish(&w->out, &sum);
    if (rc < 0)
        return rc;
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)sum.sum);
    pthread_mutex_lock(&run->lock);
    rc = json_array_append_new(w->parts ? w->parts : run->parts,
                               json_pack("{s:s,s:I,s:I,s:I,s:s}", "file", w->name, "items",
                                         (json_int_t)sum.items, "bytes", (json_int_t)sum.bytes,
                                         "size", (json_int_t)sum.size, "sum", hex));
    pthread_mutex_unlock(&run->lock);
    return rc < 0 ? dd_error(-ENOMEM, "out of memory") : 0;
}

static int part_open(struct save_run *run, struct writer *w) {
    char path[4096 + sizeof w->name + 2];
    int rc;
    do {
        /* a number for one thread */
        uint64_t number = __atomic_fetch_add(&run->number, 1, __ATOMIC_RELAXED);
        snprintf(w->name, sizeof w->name, "%s%s%u-%llu.part", run->tag, *run->tag != 0 ? "-" : "",
                 run->worker, (unsigned long long)number);
        snprintf(path, sizeof path, "%s%s%s", run->folder, run->one_file ? "" : "/",
                 run->one_file ? "" : w->name);
        rc = dump_create(&w->out, path, run->id, run->worker, (uint32_t)number);
    } while (rc == -EEXIST && *run->tag != 0); /* of one that saved here before us and was killed */
    w->open = rc == 0;
    if (w->open)
        w->out.moved = &run->moved;
    return rc;
}

static int part_add(struct save_run *run, void *arg, const struct save_item *item) {
    struct writer *w = arg;
    int rc = w->open ? 0 : part_open(run, w);
    rc = rc < 0 ? rc
                : dump_add(&w->out, item->key, item->klen, item->view.data, item->view.len,
                           item->view.tag);
    if (rc == 0 && !run->one_file && w->out.total.size >= SAVE_PART)
        rc = part_close(run, w);
    __atomic_fetch_add(&run->items, 1, __ATOMIC_RELAXED); /* figures alone */
    __atomic_fetch_add(&run->bytes, item->view.len, __ATOMIC_RELAXED);
    return rc;
}

int save_manager(struct save_run *run, unsigned manager, json_t *parts) {
    struct writer w = {.parts = parts};
    int rc = save_each(run, manager, part_add, &w);
    if (rc == 0)
        return part_close(run, &w);
    if (w.open)
        dump_abandon(&w.out);
    return rc;
}

/* Managers one after another until there is none left. */
static void parts_write(struct save_run *run) {
    struct writer w = {.open = false};
    int rc = run->one_file ? part_open(run, &w) : 0;
    /* a number for one thread */
    for (uint64_t i; rc == 0 && (i = __atomic_fetch_add(&run->claimed, 1, __ATOMIC_RELAXED),
                                i < run->info.managers);)
        if (save_ours(run, i))
            rc = save_each(run, (unsigned)i, part_add, &w);
    if (rc == 0)
        rc = part_close(run, &w);
    else if (w.open)
        dump_abandon(&w.out);
    if (rc < 0)
        save_fail(run);
}

int save_parts(struct save_run *run) {
    return save_threads(run,
                        run->one_file ? 1
                        : run->alone  ? run->info.managers
                                      : run->info.local_managers,
                        parts_write);
}
