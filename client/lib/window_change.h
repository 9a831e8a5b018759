/* SPDX-License-Identifier: Apache-2.0 */
/* window_change.h - a change of one key of a working set (W3). */
#ifndef DDICT_LIB_WINDOW_CHANGE_H
#define DDICT_LIB_WINDOW_CHANGE_H

#include "window.h"

/* of a judge: refuse with `refusal`, by what the key has */
#define WINDOW_REFUSED 1
/* what is left over is removed within this time, in ms, though the call's own be over */
#define WINDOW_TIDY_MS 200

struct window_change {
    bool removes; /* else it puts */
    bool waits;   /* until there is something to remove */
    unsigned flags;
    const struct iovec *iov;
    int n;
    uint64_t length; /* of the pieces */
    /* Decides by what is seen, NULL: the key is absent. 0: do it; WINDOW_REFUSED; DDICT_ECHANGED: look
     * again; or a negative code. */
    int (*judge)(struct window_call *c, struct window_change *g, const struct window_entry *e);
    int refusal;
    struct ddict_view *view; /* of pop */
    uint64_t version,
        is; /* of put_if, del_if: the expected one, and when refused the present one */
    /* of the library */
    bool refused;
    bool stored;   /* the value is, as put says */
    bool replaced; /* another value of that checkpoint */
    bool unknown;  /* whether it was done */
    struct window_entry put;
};
/* 0, or a negative code: nothing was changed, unless it is -ETIMEDOUT, DDICT_ELOST or DDICT_EGONE. */
int window_change(struct window_call *c, struct window_change *g);

#endif
