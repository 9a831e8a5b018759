/* SPDX-License-Identifier: Apache-2.0 */
/* persist.c - folders of states, and turns. Who holds the turn and is dead holds nothing. */
#include "persist.h"

#include "manifest.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/hidden_key.h>
#include <base/verb.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int client_error(int code) {
    return dd_error(code, "%s", ddict_errmsg());
}

/* --- turns --- */

static int item_read(struct save_run *run, struct persist_item *item, uint64_t *version) {
    struct ddict_view v;
    int rc = ddict_view(run->d, PERSIST_KEY, PERSIST_KEY_LEN, &v, 0, -1);
    *item = (struct persist_item){0};
    *version = 0;
    if (rc < 0)
        return key_is_absent(rc) ? 0 : client_error(rc);
    *version = v.version;
    if (v.len == sizeof *item)
        memcpy(item, v.data, sizeof *item);
    ddict_release(&v);
    return 0;
}

static int item_put(struct persist *p, struct save_run *run, uint64_t version) {
    return ddict_put_if(run->d, PERSIST_KEY, PERSIST_KEY_LEN, &p->item, sizeof p->item, 0, version,
                        &p->version, -1);
}

/* 1: the turn is nobody's. */
static int turn_is_free(struct save_run *run, const struct persist_item *item) {
    struct ddict_client by = {.node = item->node, .id = item->client};
    int rc = item->client == 0 ? 0 : ddict_alive(run->d, by, -1);
    return rc < 0 ? client_error(rc) : rc == 0;
}

static int turn_wait(struct save_run *run, uint64_t version, struct deadline *d,
                     const struct persist_item *item) {
    int rc =
        ddict_wait_change(run->d, PERSIST_KEY, PERSIST_KEY_LEN, version, NULL, PERSIST_LOOK_MS);
    if (save_stopped(run))
        return dd_error(-ECANCELED, "ended by a signal");
    if (deadline_over(d))
        return dd_error(-ETIMEDOUT,
                        "another process saves or restores, for more than %d s: client %" PRIu64
                        " of node %" PRIu64,
                        DD_PERSIST_TURN_MS / 1000, item->client, item->node);
    return rc < 0 && rc != -ETIMEDOUT ? client_error(rc) : 0;
}

/* Of a dictionary that is read-only: nobody but us and our workers may write. */
static int restoring_begin(struct save_run *run) {
    run->restoring = true;
    int rc = ddict_freeze_restoring(run->d, 1, -1);
    return rc < 0 ? client_error(rc) : 0;
}

/* The put of the turn was refused. 1: go on without a turn; 0: try again. */
static int turn_refused(const struct persist *p, struct save_run *run, int code) {
    if (code == DDICT_ECHANGED)
        return 0;
    if (code != DDICT_EFROZEN)
        return client_error(code);
    if (!p->restore)
        return 1; /* frozen by its user: nobody can take a turn, and nobody restores */
    if (!p->is.read_only)
        return dd_error(code, "the dictionary is frozen: unfreeze it before a restore");
    return restoring_begin(run);
}

static int turn_take(struct persist *p, struct save_run *run) {
    struct ddict_client me;
    struct deadline d;
    deadline_start(&d, DD_PERSIST_TURN_MS);
    int rc = ddict_self(run->d, &me, -1);
    if (rc < 0)
        return client_error(rc);
    for (;;) {
        uint64_t version;
        if ((rc = item_read(run, &p->item, &version)) < 0 || (rc = turn_is_free(run, &p->item)) < 0)
            return rc;
        if (rc == 0) {
            if ((rc = turn_wait(run, version, &d, &p->item)) < 0)
                return rc;
            continue;
        }
        p->item.node = me.node;
        p->item.client = me.id;
        if ((rc = item_put(p, run, version)) == 0)
            return 0;
        p->version = 0;
        if ((rc = turn_refused(p, run, rc)) != 0)
            return rc < 0 ? rc : 0;
    }
}

/* Who has it may have died since it started us; then it is another one's turn. */
static int turn_take_over(struct persist *p, struct save_run *run, uint64_t from) {
    struct ddict_client me;
    uint64_t version;
    int rc = ddict_self(run->d, &me, -1);
    if (rc < 0)
        return client_error(rc);
    if ((rc = item_read(run, &p->item, &version)) < 0)
        return rc;
    p->item.node = me.node;
    p->item.client = me.id;
    p->retires = true;
    rc = version == from ? item_put(p, run, version) : DDICT_ECHANGED;
    if (rc == 0)
        return 0;
    p->version = 0;
    return rc == DDICT_ECHANGED
               ? dd_error(rc, "it is another process's turn to save: the one that started this "
                              "save has lost it")
               : client_error(rc);
}

/* --- folders --- */

#define ASIDE_GONE "ffffffff" /* what is being removed */

/* ID.part-XXXXXXXX: of one that is being made or removed. */
static bool name_is_aside(const char *name) {
    size_t digits = strspn(name, "0123456789");
    const char *rest = name + digits;
    return digits > 0 && strncmp(rest, ".part-", 6) == 0 && strlen(rest) == 14 &&
           strspn(rest + 6, "0123456789abcdef") == 8;
}

/* Renamed first: a save that lives in spite of all, because it had no turn (a frozen dictionary), then
 * cannot give its name to what has only a part of its files. */
static void aside_remove(const struct persist *p, const char *path) {
    char gone[PATH_MAX];
    snprintf(gone, sizeof gone, "%s/0.part-" ASIDE_GONE, p->is.dir);
    folder_remove(gone);
    if (rename(path, gone) == 0)
        folder_remove(gone);
}

static void asides_remove(const struct persist *p) {
    char path[PATH_MAX];
    DIR *d = opendir(p->is.dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (name_is_aside(e->d_name) &&
            snprintf(path, sizeof path, "%s/%s", p->is.dir, e->d_name) < (int)sizeof path)
            aside_remove(p, path);
    if (d)
        closedir(d);
}

static int dir_make(const char *dir) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", dir);
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(path, 0777); /* what follows tells whether it is there */
        *slash = '/';
    }
    return mkdir(path, 0777) < 0 && errno != EEXIST
               ? dd_error(-errno, "cannot make %s: %s", dir, strerror(errno))
               : 0;
}

/* It is no state any more before its first file goes. */
static void state_remove(const struct persist *p, uint64_t id) {
    char path[PATH_MAX], aside[PATH_MAX];
    snprintf(path, sizeof path, "%s/%" PRIu64, p->is.dir, id);
    snprintf(aside, sizeof aside, "%s/%" PRIu64 ".part-00000000", p->is.dir, id);
    folder_remove(aside);
    if (rename(path, aside) < 0)
        verb_say("cannot remove %s: %s", path, strerror(errno));
    else
        folder_remove(aside);
}

/* Remove all states above `above`, or the oldest but `keep`; p->id stays. */
static int states_remove(const struct persist *p, struct save_run *run, bool later) {
    uint64_t *ids;
    ssize_t n = ddict_persisted_ids(run->d, &ids, -1), left = n;
    if (n < 0)
        return client_error((int)n);
    for (ssize_t i = 0; i < n; i++) {
        bool too_many = !later && p->is.count > 0 && (uint64_t)left > p->is.count;
        if (ids[i] == p->id || !(too_many || (later && ids[i] > p->id)))
            continue;
        state_remove(p, ids[i]);
        left--;
    }
    free(ids);
    return folder_sync(p->is.dir);
}

/* --- the front --- */

int persist_begin(struct persist *p, struct save_run *run, uint64_t id, bool restore,
                  uint64_t turn) {
    *p = (struct persist){.id = id, .restore = restore};
    int rc = ddict_get_persistence(run->d, &p->is);
    if (rc < 0)
        return client_error(rc);
    snprintf(p->path, sizeof p->path, "%s/%" PRIu64, p->is.dir, id);
    if (p->is.read_only && !restore)
        return dd_error(DDICT_EFROZEN, "the dictionary only reads the states in %s (read-only)",
                        p->is.dir);
    rc = restore ? 0 : dir_make(p->is.dir);
    rc = rc < 0 ? rc : turn != 0 ? turn_take_over(p, run, turn) : turn_take(p, run);
    /* again: who had the turn before may have frozen it since */
    if (rc == 0 && p->version != 0 && p->is.read_only)
        rc = restoring_begin(run);
    if (rc == 0 && p->version != 0 && !p->is.read_only)
        asides_remove(p);
    return rc;
}

/* Where a file system cannot exchange two names. The state before stays until the new one has its name. */
static int exchange(const char *aside, const char *path) {
    char before[PATH_MAX + 16];
    snprintf(before, sizeof before, "%s.part-00000000", path);
    folder_remove(before);
    bool had = rename(path, before) == 0;
    if (!had && errno != ENOENT)
        return -1;
    int rc = rename(aside, path), e = errno;
    if (rc == 0 && had)
        folder_remove(before);
    else if (had)
        rename(before, path);
    errno = e;
    return rc;
}

int persist_name(struct persist *p, struct save_run *run, const char *aside) {
    int rc = renameat2(AT_FDCWD, aside, AT_FDCWD, p->path, RENAME_EXCHANGE);
    if (rc == 0) {
        folder_remove(aside); /* the state before */
    } else if (errno == ENOENT) {
        rc = rename(aside, p->path);
    } else if (errno == EINVAL || errno == ENOSYS) { /* NFS, for one */
        rc = exchange(aside, p->path);
    }
    if (rc < 0)
        return dd_error(-errno, "cannot name it %s: %s", p->path, strerror(errno));
    if ((rc = folder_sync(p->is.dir)) < 0)
        return rc;
    if (p->retires)
        p->item.saved = p->id + 1; /* persist_end() says so */
    return states_remove(p, run, false);
}

int persist_restored(struct persist *p, struct save_run *run) {
    int rc = p->is.read_only ? 0 : states_remove(p, run, true);
    p->item.at = p->id + 1;
    p->item.saved = 0;
    if (rc == 0 && (rc = item_put(p, run, p->version)) < 0)
        client_error(rc);
    return rc;
}

void persist_end(struct persist *p, struct save_run *run) {
    int rc = 0;
    if (p->version != 0 && p->is.read_only) {
        rc = ddict_freeze(run->d, -1); /* the turn ends with this process */
    } else if (p->version != 0) {
        p->item.node = p->item.client = 0;
        item_put(p, run, p->version);
    }
    if (rc < 0)
        verb_say("the dictionary is not frozen: %s", ddict_errmsg());
}

/* --- exactly what was saved --- */

static int keys_each(struct save_run *run, int manager,
                     int (*each)(struct save_run *run, const void *key, size_t klen)) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    int rc = ddict_iter_open_flags(run->d, manager, NULL, 0, DDICT_ITER_HIDDEN, &it, -1), more = 1;
    if (rc < 0)
        return client_error(rc);
    while (rc == 0 && more == 1) {
        if ((more = ddict_iter_next(it, &key, &klen)) < 0)
            rc = client_error(more);
        else if (more == 1 && save_wanted(run, key, klen))
            rc = each(run, key, klen);
        if (rc == 0 && save_stopped(run))
            rc = -ECANCELED;
    }
    ddict_iter_close(it);
    return rc;
}

static int key_seen(struct save_run *run, const void *key, size_t klen) {
    (void)run, (void)key, (void)klen;
    return 1;
}

int persist_is_empty(struct save_run *run) {
    int rc = run->window ? ddict_contains(run->d, SAVE_WINDOW, SAVE_WINDOW_LEN, NULL, -1) : 0;
    rc = rc < 0 ? client_error(rc) : rc == 0 ? keys_each(run, -1, key_seen) : rc;
    return rc < 0 ? rc : rc == 0;
}

static int key_remove(struct save_run *run, const void *key, size_t klen) {
    if (run->window && !key_is_hidden(key, klen))
        return 0; /* goes with the items of the window */
    int rc = ddict_del(run->d, key, klen, -1);
    return rc < 0 && !key_is_absent(rc) ? client_error(rc) : 0;
}

/* The items of checkpoints: directed keys, and behind the manager's number this. */
static bool is_of_window(const uint8_t *key, size_t klen) {
    return klen >= DIRECT_HEAD + SAVE_WINDOW_LEN &&
           memcmp(key + DIRECT_HEAD, SAVE_WINDOW, SAVE_WINDOW_LEN) == 0;
}

static int items_clear(struct save_run *run, int manager) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    int more = 1;
    if (!run->window)
        return 0;
    int rc =
        ddict_iter_open_flags(run->d, manager, DIRECT_WORD, DIRECT_LEN, DDICT_ITER_HIDDEN, &it, -1);
    if (rc < 0)
        return client_error(rc);
    while (rc == 0 && more == 1) {
        if ((more = ddict_iter_next(it, &key, &klen)) < 0)
            rc = client_error(more);
        else if (more == 1 && is_of_window(key, klen) &&
                 (rc = ddict_del(run->d, key, klen, -1)) < 0)
            rc = key_is_absent(rc) ? 0 : client_error(rc);
    }
    ddict_iter_close(it);
    return rc;
}

int persist_window(struct save_run *run, uint64_t id) {
    struct {
        uint64_t oldest, closing;
    } state = {.oldest = id};
    int rc = ddict_put(run->d, SAVE_WINDOW, SAVE_WINDOW_LEN, &state, sizeof state, 0, -1);
    rc = rc < 0 ? rc : ddict_set_checkpoint_id(run->d, id);
    return rc < 0 ? client_error(rc) : 0;
}

static void managers_clear(struct save_run *run) {
    int rc = 0;
    /* a number for one thread */
    for (uint64_t i; rc == 0 && (i = __atomic_fetch_add(&run->claimed, 1, __ATOMIC_RELAXED),
                                i < run->info.managers);)
        if (save_ours(run, i))
            rc = (rc = keys_each(run, (int)i, key_remove)) < 0 ? rc : items_clear(run, (int)i);
    if (rc < 0)
        save_fail(run);
}

int persist_clear(struct save_run *run) {
    return save_threads(run, SAVE_THREADS, managers_clear);
}
