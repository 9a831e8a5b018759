/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.h - `ddict save` and `ddict restore`: what its files share.
 *
 *     front    cmd/save_front.c,          what the user started; makes and names the folder. If
 *              cmd/save_state.c            the dictionary has several nodes it starts a worker on
 *                                          each by an srun, otherwise it is the only worker itself
 *     stage    stage.c                     a worker for the lifetime of a dictionary; ddictd tells
 *                                          it when to save (--ddict-save)
 *     worker   save.c, files.c, restore.c  threads, each with a manager of this node (save) or a
 *                                          part (restore) at a time
 *
 * A worker tells the front how far it is by lines on stderr (progress.c), and what it wrote by a
 * file in the folder (manifest.c).
 */
#ifndef DDICT_SAVE_SAVE_H
#define DDICT_SAVE_SAVE_H

#include "dump.h"
#include <base/persist_text.h>
#include <ddict.h>

#include <common/lost_keys.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* of a worker: enough to keep a file system busy, and leaves cores to the training */
#define SAVE_THREADS 4u
/* bytes of a part, about; so small that many nodes can share them when they are read back */
#define SAVE_PART  (2ull << 30)
#define SAVE_BATCH 256u /* keys looked up together */

struct save_run {
    ddict_t *d;
    struct ddict_info info;
    /* where parts go, or the files; restore: the saved folder or file */
    const char *folder;
    const uint8_t *prefix; /* of keys, in their stored form; NULL: all */
    size_t prefix_len;
    uint8_t id[DUMP_ID];
    unsigned worker, workers;
    /* --stage, borrowed: [managers], whether we save this one of another node, too, because it is
     * lost; [workers], whether this one took no part. NULL: none */
    const bool *more, *without;
    bool one_file;   /* folder is a file */
    bool alone;      /* there is no other worker: all managers are ours */
    bool keep;       /* restore: leave keys that are there as they are */
    bool no_pickles; /* restore: leave pickles out */
    bool verify;     /* restore: only read and check */
    bool restoring;  /* of a dictionary that is read-only: nobody but the restore may write */
    /* the dictionary has a working set; the checkpoint that is saved, or at which is put */
    bool window;
    uint64_t checkpoint;
    bool after_load; /* --stage: refuse without a key of loaded_key() */
    int lost;        /* atomic: keys were lost with a node before they could be saved (--refill) */
    /* --stage: begins the names of our parts, because others may be in the folder; else "" */
    char tag[9];
    /* --stage: gives what earlier passes have written of a manager; NULL: nothing is known */
    struct save_seen *(*seen)(unsigned manager);
    /* From here to `stopped` atomic. same: how many of items were there already (files, --keep) */
    uint64_t items, bytes, same;
    uint64_t moved;           /* grows with all progress, within one value, too */
    uint64_t claimed;         /* managers, or parts, that a thread has taken */
    uint64_t number;          /* of the next part */
    uint64_t left_out;        /* items that cannot be a file; restore: pickles */
    uint64_t already;         /* workers whose share another one has restored (--once) */
    int stopped;              /* a thread failed, or a signal came */
    json_t *parts;            /* under lock: written, or to be read */
    char why[1024];           /* under lock: the first failure */
    char first_left_out[512]; /* under lock */
    pthread_mutex_t lock;
};

/* With a working set: take the handle to the checkpoint (NULL: the newest). 0 or a negative code with
 * the sentence set. */
int save_checkpoint(struct save_run *run, const uint64_t *checkpoint);
bool save_stopped(const struct save_run *run);
/* Stop the run by this thread's failure, whose sentence dd_errmsg() becomes run->why if it is the
 * first. */
void save_fail(struct save_run *run);
/* Leave an item out: it is counted, and the first one is noted with the reason. Returns 0. */
int save_left_out(struct save_run *run, const char *name, const char *why);
/* Run body in n threads. 0; -1: one failed, and run->why says why. */
int save_threads(struct save_run *run, unsigned n, void (*body)(struct save_run *run));
#define SAVE_LOADED     "ddict.loaded" /* begins str keys: what --load and --restore bring is there */
#define SAVE_LOADED_LEN 13u
#define SAVE_LOADED_N   8u /* of them with --refill, all alike: most likely one is left */
#define SAVE_LOADED_CAP 24u
/* Write the stored form of number n = 0, 1, ... of these keys; its length. */
static inline size_t loaded_key(char key[SAVE_LOADED_CAP], unsigned n) {
    return (size_t)snprintf(key, SAVE_LOADED_CAP, n == 0 ? "s" SAVE_LOADED : "s" SAVE_LOADED "/%u",
                            n);
}
/* How many of them there are. */
static inline unsigned loaded_keys(ddict_t *d) {
    return ddict_refills(d) == 1 ? SAVE_LOADED_N : 1;
}
/* Whether the key says who holds something: of locks, semaphores, barriers, conditions and the
 * tasks of queues (FORMAT 7). A client of that number is somebody else in another dictionary. */
static inline bool save_holders(const void *key, size_t klen) {
    static const char *const first[] = {"sddict.lock",    "sddict.rlock",     "sddict.semaphore",
                                        "sddict.barrier", "sddict.condition", "sddict.tasks"};
    const uint8_t *k = key;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        size_t len = strlen(first[i]);
        if (klen >= 5 + len && k[0] == 't' && k[1] == len && memcmp(k + 2, "\0\0", 3) == 0 &&
            memcmp(k + 5, first[i], len) == 0)
            return true;
    }
    return false;
}
/* Whether it begins with head, of len bytes, behind the manager that it may be directed to (FORMAT 6). */
static inline bool save_headed(const void *key, size_t klen, const char *head, size_t len) {
    static const char at[] = "\0ddict.at/";
    const char *k = key;
    size_t skip = sizeof at - 1 + sizeof(uint32_t);
    if (klen >= skip && memcmp(k, at, sizeof at - 1) == 0) {
        k += skip;
        klen -= skip;
    }
    return klen >= len && memcmp(k, head, len) == 0;
}
/* Whether it is an item of what is published (FORMAT 8), which is of clients, and may be half of a
 * value; or a value that a key's link names (FORMAT 10): it is saved under that key. */
static inline bool save_elsewhere(const void *key, size_t klen) {
    static const char pub[] = "\0ddict.pub/", near[] = "\0ddict.near/";
    return save_headed(key, klen, pub, sizeof pub - 1) ||
           save_headed(key, klen, near, sizeof near - 1);
}
/* Whether the key is a word between the starters of one dictionary, or of a copy, of no use in another
 * one. */
static inline bool save_word(const void *key, size_t klen) {
    return save_holders(key, klen) || save_elsewhere(key, klen) ||
           (klen == PERSIST_KEY_LEN && memcmp(key, PERSIST_KEY, PERSIST_KEY_LEN) == 0) ||
           (klen >= 16 && memcmp(key, "sddict.restored/", 16) == 0) ||
           (klen >= sizeof SET_COPY_HEAD - 1 &&
            memcmp(key, SET_COPY_HEAD, sizeof SET_COPY_HEAD - 1) == 0) ||
           (klen >= SAVE_LOADED_LEN && memcmp(key, "s" SAVE_LOADED, SAVE_LOADED_LEN) == 0 &&
            (klen == SAVE_LOADED_LEN || ((const char *)key)[SAVE_LOADED_LEN] == '/'));
}
/* Whether the key begins with the prefix and is no such word. */
static inline bool save_wanted(const struct save_run *run, const void *key, size_t klen) {
    return (run->prefix_len == 0 ||
            (klen >= run->prefix_len && memcmp(key, run->prefix, run->prefix_len) == 0)) &&
           !save_word(key, klen);
}
/* Whether this worker saves manager i. */
static inline bool save_ours(const struct save_run *run, uint64_t i) {
    return run->alone || i % run->info.nodes == run->info.node_id || (run->more && run->more[i]);
}
struct save_item {
    const void *key;
    size_t klen;
    struct ddict_view view;
};
/* Call each() for every wanted item of a manager; the item is valid until it returns. A negative
 * code of each() ends that and is returned. Else 0 or a negative code with the sentence set. */
int save_each(struct save_run *run, unsigned manager,
              int (*each)(struct save_run *run, void *arg, const struct save_item *item),
              void *arg);

/* The same, with up to `some` (at most SAVE_BATCH) items at a time: call give() for them. */
typedef int save_wants(struct save_run *run, void *arg, const struct ddict_want *want, unsigned n);
int save_each_some(struct save_run *run, unsigned manager, unsigned some, save_wants *give,
                   void *arg);
/* Of a want that give() has: 1: it was found; 0: it was removed, or lost, since it was listed;
 * negative with the sentence set: to be returned. */
int save_found(struct save_run *run, const struct ddict_want *w);

/* Set run->lost if a manager that this worker saves has lost keys. wait_ms: how long to wait where they
 * are read again now. 0; 1: they still are; or a negative code with the sentence set. */
int save_look_lost(struct save_run *run, int wait_ms);
/* Write this worker's share into parts. 0; -1: run->why says why. */
int save_parts(struct save_run *run);
/* Write the items of one manager into new parts, and add their entries of the manifest to parts. 0
 * or a negative code with the sentence set. */
int save_manager(struct save_run *run, unsigned manager, json_t *parts);

#endif
