/* SPDX-License-Identifier: Apache-2.0 */
/* window_change.h - a change of one key of a working set (W3). */
#ifndef DDICT_LIB_WINDOW_CHANGE_H
#define DDICT_LIB_WINDOW_CHANGE_H

#include "window_ask.h"

#include <errno.h>

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
    bool stored; /* the value is, or may be, as put says */
    bool had;    /* before: what the key had at the checkpoint, */
    bool
        kept; /* and it is not in the index any more, but its value is there yet (window_confirm()) */
    bool unknown; /* whether it was done */
    bool marked;  /* the index says that the key was removed */
    bool asked;   /* the value is under way, by `ask` */
    struct window_entry put, before;
    struct window_ask ask;
};
/* 0, or a negative code: nothing was changed, unless it is -ETIMEDOUT, DDICT_ELOST or DDICT_EGONE. */
int window_change(struct window_call *c, struct window_change *g);
/* --- its parts --- */
/* Judges of put and del. */
int window_put_judge(struct window_call *c, struct window_change *g, const struct window_entry *e);
int window_absent_judge(struct window_call *c, struct window_change *g,
                        const struct window_entry *e);
/* Fill g->put, but its version, and *k, the name of its value. 0 or a negative code. */
int window_change_name(struct window_call *c, struct window_change *g, struct window_key *k);
/* Edit the index of c. A put that may have to be withdrawn keeps the value that it replaces. */
void window_change_edit(struct window_call *c, struct window_change *g, struct window_edit *e);
/* Whether it may have to be withdrawn: a put that is not persistent, where keys are awaited. */
bool window_change_is_awaited(const struct window_call *c, const struct window_change *g);
/* Remove the value of an entry that no index names any more. */
void window_value_remove(struct window_call *c, const struct window_entry *e);

#endif
