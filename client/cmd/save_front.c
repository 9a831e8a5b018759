/* SPDX-License-Identifier: Apache-2.0 */
/* save_front.c - `ddict save PATH` and `ddict restore PATH`: the folder, the workers, the summary. */
#include "cmd.h"
#include "save_line.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/size.h>
#include <base/verb.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <save/manifest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As front_spread(). */
static int workers_run(const struct save_line *l) {
    char id[2 * DUMP_ID + 1], at[24];
    const char *name = cmd_name() ? cmd_name() : getenv("DDICT_NAME");
    for (unsigned i = 0; i < DUMP_ID; i++)
        snprintf(id + 2 * i, 3, "%02x", save_run.id[i]);
    const char *argv[24] = {"", line_verb(l), "--worker", id};
    int k = 4;
    if (l->prefix)
        argv[k++] = "--prefix", argv[k++] = l->prefix;
    if (l->files)
        argv[k++] = "--files";
    if (l->keep)
        argv[k++] = "--keep";
    if (l->no_pickles)
        argv[k++] = "--no-pickles";
    if (l->once)
        argv[k++] = "--once";
    if (l->pass)
        argv[k++] = "--pass", argv[k++] = l->pass;
    if (save_run.restoring)
        argv[k++] = "--restoring";
    if (save_run.window) {
        snprintf(at, sizeof at, "%llu", (unsigned long long)save_run.checkpoint);
        argv[k++] = "--checkpoint", argv[k++] = at;
    }
    if (l->quiet)
        argv[k++] = "--quiet";
    if (name && *name != 0)
        argv[k++] = "--name", argv[k++] = name;
    argv[k++] = "--";
    argv[k++] = save_run.folder;
    const struct front front = line_front(l);
    return front_spread(&front, name, argv);
}

int line_summary(const struct save_line *l, uint64_t began) {
    double s = (double)(clock_ns() - began) / 1e9;
    char a[24], b[24], there[64] = "";
    /* a restore leaves items out only on request (--no-pickles) */
    int rc = save_run.left_out > 0 && !l->restore ? EXIT_FAILED : EXIT_OK;
    if (save_run.lost && !l->restore && !l->report)
        verb_say("keys were lost with a node before they could be saved: %s is without them",
                 l->path);
    if (l->json) {
        json_t *o = json_pack("{s:b,s:s,s:I,s:I,s:I,s:I,s:f,s:I}", "already",
                              save_run.already > 0 && save_run.already == save_run.workers, "path",
                              l->path, "items", (json_int_t)save_run.items, "bytes",
                              (json_int_t)save_run.bytes, "there_already",
                              (json_int_t)save_run.same, "left_out", (json_int_t)save_run.left_out,
                              "seconds", s, "nodes", (json_int_t)save_run.workers);
        if (o && save_run.lost && !l->restore)
            json_object_set_new(o, "lost", json_true());
        int said = cmd_json_print(o);
        return said != EXIT_OK ? said : rc;
    }
    if (save_run.left_out > 0)
        verb_say("%llu items were left out, such as %s", (unsigned long long)save_run.left_out,
                 save_run.first_left_out);
    if (!l->quiet) {
        if (save_run.same > 0)
            snprintf(there, sizeof there, "; %llu of them were there already",
                     (unsigned long long)save_run.same);
        verb_say("%s %llu items, %s in %.2f s (%s/s, %u node%s)%s",
                 l->restore ? "restored" : "saved", (unsigned long long)save_run.items,
                 size_format(a, sizeof a, save_run.bytes), s,
                 size_format(b, sizeof b, (uint64_t)((double)save_run.bytes / (s > 0 ? s : 1))),
                 save_run.workers, save_run.workers == 1 ? "" : "s", there);
    }
    return rc;
}

int line_aside_make(const struct save_line *l, char *aside, size_t cap) {
    struct stat st;
    *aside = 0;
    if (l->restore)
        return 0;
    if (l->files)
        return mkdir(save_run.folder, 0777) < 0 && errno != EEXIST
                   ? dd_error(-errno, "cannot make %s: %s", save_run.folder, strerror(errno))
                   : 0;
    if (!l->persist && lstat(save_run.folder, &st) == 0)
        return dd_error(-EEXIST, "%s is there already; a save is not written over another one",
                        save_run.folder);
    int n = snprintf(aside, cap, "%s.part-", save_run.folder);
    for (unsigned i = 0; i < 4; i++)
        n += snprintf(aside + n, cap - (size_t)n, "%02x", save_run.id[i]);
    if (!save_run.one_file && mkdir(aside, 0700) < 0) {
        int rc = dd_error(-errno, "cannot make %s: %s", aside, strerror(errno));
        *aside = 0;
        return rc;
    }
    return 0;
}

static int aside_name(const struct save_line *l, const char *aside) {
    char parent[PATH_MAX];
    const char *slash = strrchr(l->path, '/');
    snprintf(parent, sizeof parent, "%.*s",
             !slash             ? 1
             : slash == l->path ? 1
                                : (int)(slash - l->path),
             !slash ? "." : l->path);
    int rc = renameat2(AT_FDCWD, aside, AT_FDCWD, l->path, RENAME_NOREPLACE);
    /* NFS, for one, does not support RENAME_NOREPLACE */
    if (rc < 0 && (errno == EINVAL || errno == ENOSYS))
        rc = rename(aside, l->path);
    if (rc < 0)
        return dd_error(-errno, "cannot name it %s: %s", l->path, strerror(errno));
    return folder_sync(parent);
}

int line_spread(struct save_line *l, bool alone) {
    int rc = alone ? -ENOENT : workers_run(l);
    if (rc != -ENOENT)
        return rc;
    if (!save_run.d)
        return save_failed(ddict_errmsg()) + 1;
    save_run.alone = true;
    return line_work(l) < 0 ? save_failed(dd_errmsg()) + 1 : 0;
}

int line_look_lost(const struct save_line *l) {
    save_run.alone = true;
    int rc = save_look_lost(&save_run, 0), lost;
    if (rc == 1 && !l->restore) {
        if (!l->quiet)
            verb_say("keys that were lost with a node are read again now; waiting for that");
        rc = save_look_lost(&save_run, DD_REFILL_MS);
    }
    lost = save_run.lost;
    save_run.alone = false;
    save_run.lost = false;
    return rc < 0 ? rc : lost;
}

int line_run_front(struct save_line *l) {
    char aside[PATH_MAX + 16];
    uint64_t began = clock_ns();
    const char *dot = strrchr(l->path, '.');
    save_run.one_file = !l->restore && !l->files && dot && strcmp(dot, ".ddict") == 0;
    int rc = ddict_attach(&save_run.d, cmd_name(), -1);
    bool login = rc == DDICT_ENODICT && !getenv("SLURMD_NODENAME");
    if (rc == 0)
        rc = ddict_get_info(save_run.d, &save_run.info);
    if (rc < 0 && !login)
        return save_failed(ddict_errmsg());
    int lost = rc == 0 ? line_look_lost(l) : 0;
    if (lost < 0)
        return save_failed(dd_errmsg());
    if (rc == 0 && save_checkpoint(&save_run, l->checkpoint ? &l->checkpoint_id : NULL) < 0)
        return save_failed(dd_errmsg());
    if (login && save_run.one_file && (rc = cmd_relay(cmd_name(), NULL)) >= 0)
        return rc; /* a node did the work */
    if (line_aside_make(l, aside, sizeof aside) < 0)
        return save_failed(dd_errmsg());
    if (*aside != 0)
        save_run.folder = aside;
    int code = line_spread(l, !login && (save_run.info.nodes == 1 || save_run.one_file || lost));
    if (code == 0 && *aside != 0 &&
        ((!save_run.one_file && manifest_write(&save_run, l->prefix) < 0) ||
         aside_name(l, aside) < 0))
        code = save_failed(dd_errmsg()) + 1;
    if (code != 0 && *aside != 0) {
        if (save_run.one_file)
            unlink(aside);
        else
            folder_remove(aside);
    }
    return code != 0 ? code - 1 : line_summary(l, began);
}
