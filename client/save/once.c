/* SPDX-License-Identifier: Apache-2.0 */
/* once.c - `ddict restore --once`: of several starters, one restores. */
#include "once.h"

#include <base/clock.h>
#include <base/error.h>

#include <common/key_text.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ONCE_BEGUN   "begun"
#define ONCE_DONE    "done"
#define ONCE_LOOK_MS 200   /* between looks at the key */
#define ONCE_LOST_MS 30000 /* without a new count */

static struct bytes once_key;

void once_beat(struct save_run *run) {
    static unsigned n;
    char state[32];
    int len = snprintf(state, sizeof state, ONCE_BEGUN " %u", ++n);
    /* if this fails, the restore fails too and reports the error */
    ddict_put(run->d, once_key.data, once_key.len, state, (size_t)len, DDICT_EXISTING, -1);
}

int once_begin(struct save_run *run, int (*signal_came)(void)) {
    char name[PATH_MAX + 64], state[32], before[32] = "";
    size_t before_len = 0;
    uint64_t since = clock_ms();
    snprintf(name, sizeof name, "ddict.restored/%u/%s", run->worker, run->folder);
    if (key_of_str(&once_key, name) < 0)
        return dd_error(-EINVAL, "%s: not UTF-8", run->folder);
    for (;;) {
        int rc = ddict_put(run->d, once_key.data, once_key.len, ONCE_BEGUN, strlen(ONCE_BEGUN),
                           DDICT_NEW, -1);
        if (rc != DDICT_EEXISTS)
            return rc < 0 ? dd_error(rc, "%s", ddict_errmsg()) : 0;
        size_t len = 0;
        rc = ddict_get(run->d, once_key.data, once_key.len, state, sizeof state, &len, NULL, 0, -1);
        if (rc == 0 && len == strlen(ONCE_DONE) && memcmp(state, ONCE_DONE, len) == 0) {
            /* for the summary; it orders nothing */
            __atomic_store_n(&run->already, 1, __ATOMIC_RELAXED);
            return 1;
        }
        if (rc < 0 && !key_is_absent(rc))
            return dd_error(rc, "%s", ddict_errmsg());
        if (rc < 0 || len != before_len || memcmp(state, before, len) != 0) {
            before_len = rc < 0 ? 0 : len;
            memcpy(before, state, before_len);
            since = clock_ms();
        } else if (clock_ms() - since > ONCE_LOST_MS) {
            ddict_del(run->d, once_key.data, once_key.len, -1);
        }
        if (save_stopped(run))
            return dd_error(-ECANCELED, "%s", strsignal(signal_came()));
        if (rc == 0)
            nanosleep(&(struct timespec){.tv_nsec = ONCE_LOOK_MS * 1000000}, NULL);
    }
}

int once_end(struct save_run *run, int rc) {
    if (rc < 0) {
        ddict_del(run->d, once_key.data, once_key.len, -1); /* another starter may try */
        return rc;
    }
    return ddict_put(run->d, once_key.data, once_key.len, ONCE_DONE, strlen(ONCE_DONE), 0, -1);
}

void once_free(void) {
    bytes_free(&once_key);
}
