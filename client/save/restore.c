/* SPDX-License-Identifier: Apache-2.0 */
/* restore.c - a worker that puts its share of the parts into the dictionary. */
#include "restore.h"

#include "dump_in.h"
#include "save.h"
#include <base/error.h>
#include <base/hidden_key.h>

#include <common/key_text.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_PICKLE = 2, TAG_BUFFERS = 3 }; /* doc/FORMAT.md */

static int pickle_left_out(struct save_run *run, const struct dump_item *it) {
    struct bytes name = {0};
    int rc = key_show(&name, it->key, it->klen, NULL);
    rc = rc < 0 ? rc : bytes_add(&name, "", 1);
    if (rc == 0)
        save_left_out(run, (const char *)name.data, "a pickle");
    bytes_free(&name);
    return rc < 0 ? dd_error(-ENOMEM, "out of memory") : 0;
}

/* In a working set nobody has to put again what was restored. */
static unsigned lasting(const struct save_run *run, const struct dump_item *it) {
    return run->window && !key_is_hidden(it->key, it->klen) ? DDICT_PERSISTENT : 0;
}

static int items_put(struct save_run *run, const struct dump_item *items, int n) {
    struct ddict_pair pairs[SAVE_BATCH];
    size_t k = 0;
    uint64_t bytes = 0, same = 0;
    for (int i = 0; i < n; i++) {
        const struct dump_item *it = &items[i];
        if (!save_wanted(run, it->key, it->klen))
            continue;
        if (run->no_pickles && (it->tag == TAG_PICKLE || it->tag == TAG_BUFFERS)) {
            int rc = pickle_left_out(run, it);
            if (rc < 0)
                return rc;
            continue;
        }
        pairs[k++] = (struct ddict_pair){.key = it->key,
                                         .klen = it->klen,
                                         .val = it->val,
                                         .vlen = it->vlen,
                                         .flags = DDICT_TAG(it->tag) | (run->keep ? DDICT_NEW : 0) |
                                                  lasting(run, it)};
        bytes += it->vlen;
    }
    ssize_t put = k > 0 && !run->verify ? ddict_put_many(run->d, pairs, k, -1) : 0;
    if (put < 0)
        return dd_error((int)put, "%s", ddict_errmsg());
    for (size_t i = 0; i < k && !run->verify; i++) {
        same += pairs[i].status == DDICT_EEXISTS;
        if (pairs[i].status < 0 && pairs[i].status != DDICT_EEXISTS)
            return dd_error(pairs[i].status, "cannot store a value of %zu bytes: %s", pairs[i].vlen,
                            put < (ssize_t)k ? ddict_errmsg() : ddict_strerror(pairs[i].status));
    }
    __atomic_fetch_add(&run->items, k, __ATOMIC_RELAXED); /* figures alone */
    __atomic_fetch_add(&run->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&run->same, same, __ATOMIC_RELAXED);
    return 0;
}

static int part_restore(struct save_run *run, const json_t *part) {
    struct dump_in in;
    struct dump_item items[SAVE_BATCH];
    const char *file = json_string_value(json_object_get(part, "file"));
    struct dump_sum want = {.items = (uint64_t)json_integer_value(json_object_get(part, "items")),
                            .bytes = (uint64_t)json_integer_value(json_object_get(part, "bytes")),
                            .size = (uint64_t)json_integer_value(json_object_get(part, "size"))};
    char path[4352];
    int rc;
    sscanf(json_string_value(json_object_get(part, "sum")), "%16lx", &want.sum);
    snprintf(path, sizeof path, "%s%s%s", run->one_file ? "" : run->folder,
             run->one_file ? "" : "/", file);
    if ((rc = dump_open(&in, path, run->id, &want)) < 0)
        return rc;
    while ((rc = dump_next(&in, items, SAVE_BATCH)) > 0 && !save_stopped(run))
        if ((rc = items_put(run, items, rc)) < 0)
            break;
    dump_close(&in);
    return rc < 0 ? rc : save_stopped(run) ? -ECANCELED : 0;
}

static void parts_read(struct save_run *run) {
    int rc = 0;
    /* a number for one thread */
    for (uint64_t i; rc == 0 && (i = __atomic_fetch_add(&run->claimed, 1, __ATOMIC_RELAXED),
                                i < json_array_size(run->parts));)
        if (i % run->workers == run->worker)
            rc = part_restore(run, json_array_get(run->parts, i));
    if (rc < 0)
        save_fail(run);
}

int restore_parts(struct save_run *run) {
    return save_threads(run, SAVE_THREADS, parts_read);
}
