/* SPDX-License-Identifier: Apache-2.0 */
/* save_work.c - a worker of `ddict save` or `ddict restore`, or its only process. */
#include "cmd.h"
#include "save_line.h"
#include <base/error.h>
#include <base/size.h>
#include <base/verb.h>

#include <errno.h>
#include <save/files.h>
#include <save/manifest.h>
#include <save/once.h>
#include <save/persist.h>
#include <save/restore.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int fit_check(uint64_t bytes) {
    char a[24], b[24];
    uint64_t room = save_run.info.total_bytes + save_run.info.spill_bytes;
    if (bytes <= room)
        return 0;
    return dd_error(
        DDICT_EFULL,
        "%s has values of %s, and the dictionary is of %s; more of it (--ddict-mem, --mem), or a "
        "folder on a disk of each node for the rest (--ddict-spill, --spill), would do",
        save_run.folder, size_format(a, sizeof a, bytes), size_format(b, sizeof b, room));
}

static bool is_pass(const struct save_line *l, const char *pass) {
    return l->pass && strcmp(l->pass, pass) == 0;
}

/* What is there besides the items: the place of a worker, the manifest of a restore. bytes: how much will
 * be put. 0, or negative with the sentence set. */
static int work_prepare(const struct save_line *l, uint64_t *bytes) {
    uint64_t items;
    struct stat st;
    int rc = ddict_get_info(save_run.d, &save_run.info);
    if (rc < 0)
        return dd_error(rc, "%s", ddict_errmsg());
    if (l->restoring && (rc = ddict_freeze_restoring(save_run.d, 0, -1)) < 0)
        return dd_error(rc, "%s", ddict_errmsg());
    if (l->worker &&
        (rc = save_checkpoint(&save_run, l->checkpoint ? &l->checkpoint_id : NULL)) < 0)
        return rc;
    if (l->worker) {
        save_run.worker = save_run.info.node_id; /* there is one on each node */
        save_run.workers = save_run.info.nodes;
        if (stat(save_run.folder, &st) < 0)
            return dd_error(
                -errno, "%s: %s, on node %s; the folder has to be on storage that all nodes share",
                save_run.folder, strerror(errno), save_run.info.node);
    }
    save_run.verify = is_pass(l, PASS_VERIFY);
    if (l->restore)
        rc = (rc = manifest_read(&save_run, &items, bytes)) < 0 ? rc : fit_check(*bytes);
    if (rc == 0 && save_run.lost && save_run.worker == 0)
        verb_say("%s was saved after keys were lost with a node; what was saved before that, if "
                 "anything, is what manifest-before-loss.json in it names",
                 save_run.folder);
    return rc;
}

struct worked {
    const struct save_line *l;
    int looked; /* of save_look_lost() */
};

static int items_work(void *arg) {
    struct worked *w = arg;
    int rc = is_pass(w->l, PASS_CLEAR) ? persist_clear(&save_run)
             : w->l->restore           ? restore_parts(&save_run)
             : w->l->files             ? save_files(&save_run)
                                       : save_parts(&save_run);
    if (!w->l->restore && rc == 0)
        w->looked = save_look_lost(&save_run, 0);
    return rc;
}

int line_work(struct save_line *l) {
    const struct front f = line_front(l);
    struct worked w = {.l = l};
    uint64_t bytes = 0;
    int rc = work_prepare(l, &bytes);
    if (rc < 0)
        return rc;
    if (l->once && (rc = once_begin(&save_run, front_signal)) != 0)
        return rc < 0 ? rc : 0;
    rc = front_work(&f, bytes, items_work, &w);
    if (l->once && (rc = once_end(&save_run, rc)) < 0 && *save_run.why == 0)
        return dd_error(rc, "%s", ddict_errmsg());
    if (rc < 0)
        return front_why(&save_run);
    return w.looked < 0 ? w.looked : 0;
}

/* Send our figures to the front. */
static int worker_report(const struct save_line *l) {
    int rc = l->restore || l->files ? 0 : manifest_worker_write(&save_run);
    if (rc == 0)
        front_worker_done(&save_run);
    return rc;
}

int line_run_worker(struct save_line *l) {
    const char *id = l->worker;
    for (unsigned i = 0; i < DUMP_ID; i++) {
        unsigned byte;
        if (sscanf(id + 2 * i, "%2x", &byte) != 1)
            return cmd_usage(l->usage, "--worker=%s: 32 hex digits are wanted", id);
        save_run.id[i] = (uint8_t)byte;
    }
    int rc = line_work(l);
    rc = rc < 0 ? rc : worker_report(l);
    return rc < 0 ? save_failed(dd_errmsg()) : EXIT_OK;
}
