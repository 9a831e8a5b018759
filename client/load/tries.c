/* SPDX-License-Identifier: Apache-2.0 */
/* tries.c - what tries of a load leave in the dictionary, tries.h */
#include "tries.h"

#include "load.h"
#include "pack.h"
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int try_mark(void) {
    int rc = 0;
    for (int64_t n = 0; the_load.refills && n < LOAD_MARKS && rc == 0; n++)
        rc = state_put(the_load.id, "begun", n, -1, "", 0, 0);
    return rc;
}

int tries_clear(void) {
    int n = state_clear(the_load.id, "run");
    the_load.continued |= n > 0;
    return n < 0 ? n : 0;
}

/* Claims, beats and errors of all tries: the run of ours goes on. */
static int runs_delete(const struct claim *c) {
    int rc = 0;
    for (int64_t try = c->try; try >= 0; try--) {
        char who[256], run[LOAD_RUN_CAP] = "";
        unsigned workers = 0;
        if (state_text(the_load.id, "run", try, who, sizeof who) < 0)
            continue;
        sscanf(who, "%16s %*s %*d %u", run, &workers);
        for (uint64_t n = 0; n < the_load.units && rc >= 0; n++)
            rc = state_del(run, "claim", (int64_t)n, -1);
        for (unsigned w = 1; w < workers && rc >= 0 && strcmp(run, the_load.run) != 0; w++)
            rc = state_del(run, "beat", w, -1);
        state_del(run, "stop", -1, -1);
        if (strcmp(run, the_load.run) != 0)
            state_del(run, NULL, -1, -1);
    }
    return rc;
}

static int unit_delete(int64_t n) {
    uint8_t *value;
    size_t len;
    int rc = state_get(the_load.id, "done", n, -1, &value, &len);
    struct unpack u = {.at = value, .left = len};
    unpack_u32(&u);
    uint64_t parts = unpack_u64(&u);
    free(value);
    for (uint64_t i = 0; i < parts && rc >= 0; i++)
        rc = state_del(the_load.id, "part", n, (int64_t)i);
    if (rc >= 0 || rc == DDICT_ENOKEY)
        rc = state_del(the_load.id, "unit", n, -1);
    return rc < 0 ? rc : state_del(the_load.id, "done", n, -1);
}

int tries_delete(const struct claim *c) {
    int rc = runs_delete(c);
    for (uint64_t n = 0; n < the_load.units && rc >= 0; n++)
        rc = unit_delete((int64_t)n);
    if (rc >= 0)
        rc = state_del(the_load.id, "plan", -1, -1);
    for (int64_t n = 0; the_load.refills && n < LOAD_MARKS && rc >= 0; n++)
        rc = state_del(the_load.id, "begun", n, -1);
    if (rc >= 0)
        rc = state_del(c->name, "set", -1, -1);
    /* delete the first try last: while it is there no other process begins */
    for (int64_t try = c->try; try >= 0 && rc >= 0; try--)
        rc = state_del(the_load.id, "run", try, -1);
    return rc;
}
