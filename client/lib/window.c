/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - the checkpoint of a handle. */
#include "window.h"

#include <errno.h>

/* The session of a dictionary with a working set. */
static int window_enter(ddict_t *d, struct session **s, int timeout_ms) {
    int rc = session_enter(d, s, timeout_ms);
    if (rc < 0)
        return rc;
    return (*s)->working_set > 0
               ? 0
               : dd_error(-EINVAL,
                          "the dictionary has no working set, and so no checkpoints: start "
                          "it with --ddict-working-set=K (ddict up --working-set=K)");
}

int ddict_checkpoint(ddict_t *d) {
    struct session *s;
    int rc = window_enter(d, &s, -1);
    if (rc == 0)
        __atomic_add_fetch(&d->checkpoint, 1, __ATOMIC_RELAXED);
    return rc;
}

int ddict_rollback(ddict_t *d) {
    struct session *s;
    int rc = window_enter(d, &s, -1);
    uint64_t is = __atomic_load_n(&d->checkpoint, __ATOMIC_RELAXED);
    while (rc == 0 && is > 0 &&
           !__atomic_compare_exchange_n(&d->checkpoint, &is, is - 1, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    return rc;
}

int64_t ddict_checkpoint_id(ddict_t *d) {
    struct session *s;
    int rc = window_enter(d, &s, -1);
    return rc < 0 ? rc : (int64_t)__atomic_load_n(&d->checkpoint, __ATOMIC_RELAXED);
}

int ddict_set_checkpoint_id(ddict_t *d, uint64_t id) {
    struct session *s;
    int rc = window_enter(d, &s, -1);
    if (rc == 0 && id > WINDOW_CHECKPOINT_MAX)
        return dd_error(-EINVAL, "there is no checkpoint %llu", (unsigned long long)id);
    if (rc == 0)
        __atomic_store_n(&d->checkpoint, id, __ATOMIC_RELAXED);
    return rc;
}

int64_t ddict_sync_to_newest_checkpoint(ddict_t *d, int timeout_ms) {
    struct window_call c = {.d = d, .timeout_ms = timeout_ms};
    int rc = window_enter(d, &c.s, timeout_ms);
    if (rc < 0)
        return rc;
    call_deadline_init(&c.w, c.s, timeout_ms);
    if ((rc = window_state_look(&c)) < 0)
        return rc;
    uint64_t newest = window_newest(&c);
    __atomic_store_n(&d->checkpoint, newest, __ATOMIC_RELAXED);
    return (int64_t)newest;
}
