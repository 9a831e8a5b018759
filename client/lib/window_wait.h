/* SPDX-License-Identifier: Apache-2.0 */
/* window_wait.h - what the oldest checkpoint of a working set waits for before it is retired. */
#ifndef DDICT_LIB_WINDOW_WAIT_H
#define DDICT_LIB_WINDOW_WAIT_H

#include "window_change.h"

#define WINDOW_DUE 1 /* somebody is awaited */

/* With DDICT_WAIT_FOR_WRITERS, before a change: say that this client writes at the checkpoint. */
int window_mark(struct window_call *c);
/* The same when it reads, and has written before: it has gone on to this checkpoint. */
int window_pass(struct window_call *c);
/* After a put, where the window waits for something: 0: whoever retires the checkpoint knows of it;
 * DDICT_ERETIRED: that came too late, and it is undone; or another code: that is not known. */
int window_confirm(struct window_call *c, struct window_change *g);

#endif
