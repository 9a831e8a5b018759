/* SPDX-License-Identifier: Apache-2.0 */
/* save_state.c - `ddict save --persist=N` and `ddict restore --persist=N` (SAVE 4). */
#include "cmd.h"
#include "save_line.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>
#include <limits.h>
#include <save/manifest.h>
#include <save/persist.h>
#include <string.h>

/* 0 or the exit code + 1. */
static int exact_prepare(struct save_line *l, bool alone) {
    static const char *const passes[] = {PASS_VERIFY, PASS_CLEAR};
    int rc = persist_is_empty(&save_run), code = 0;
    if (rc < 0)
        return save_failed(dd_errmsg()) + 1;
    for (unsigned i = 0; rc == 0 && code == 0 && i < 2; i++) {
        l->pass = passes[i];
        if (i == 1)
            front_consequence("; the dictionary has only a part of the state now");
        code = line_spread(l, alone);
        front_figures_reset(&save_run);
    }
    l->pass = NULL;
    return code;
}

int line_run_state(struct save_line *l) {
    char aside[PATH_MAX + 16];
    struct persist p;
    uint64_t began = clock_ns();
    int rc = ddict_attach(&save_run.d, cmd_name(), -1);
    if (rc == 0)
        rc = ddict_get_info(save_run.d, &save_run.info);
    if (rc < 0)
        return save_failed(ddict_errmsg());
    int lost = line_look_lost(l);
    if (lost < 0 ||
        (rc = persist_begin(&p, &save_run, l->persist_id, l->restore, l->turn_version)) < 0)
        return front_failed(dd_errmsg(), lost < 0 ? -EIO : rc);
    l->path = save_run.folder = p.path;
    rc = save_checkpoint(&save_run, l->restore ? NULL : &l->persist_id);
    *aside = 0;
    int code =
        rc < 0 || line_aside_make(l, aside, sizeof aside) < 0 ? save_failed(dd_errmsg()) + 1 : 0;
    bool alone = save_run.info.nodes == 1 || lost;
    if (code == 0 && *aside != 0)
        save_run.folder = aside;
    if (code == 0 && l->restore)
        code = exact_prepare(l, alone);
    if (code == 0 && l->restore && save_run.window) {
        save_run.checkpoint = p.id;
        code = persist_window(&save_run, p.id) < 0 ? save_failed(dd_errmsg()) + 1 : 0;
    }
    if (code == 0)
        code = line_spread(l, alone);
    if (code == 0 &&
        (l->restore                            ? persist_restored(&p, &save_run)
         : manifest_write(&save_run, NULL) < 0 ? -1
                                               : persist_name(&p, &save_run, aside)) < 0)
        code = save_failed(dd_errmsg()) + 1;
    if (code != 0 && *aside != 0)
        folder_remove(aside);
    persist_end(&p, &save_run);
    return code != 0 ? code - 1 : line_summary(l, began);
}
