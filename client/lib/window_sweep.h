/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window_sweep.h - keys that were removed. Their indexes and values are needed as long as a checkpoint
 * before the removal is in the window, and nobody may write them again. So the handle that removed a
 * key looks at it once more, in a later change, when the removal's checkpoint is the oldest, or where
 * keys are awaited was retired; and lists remove what other handles have left.
 */
#ifndef DDICT_LIB_WINDOW_SWEEP_H
#define DDICT_LIB_WINDOW_SWEEP_H

#include "window.h"

/* Whether no checkpoint of the window has the key, as its index says. */
bool window_is_gone(const struct window_call *c);
/* Remove what is left of such a key. */
void window_sweep(ddict_t *d, const void *key, size_t klen);
/* The call has removed its key, and the checkpoints before have it yet. */
void window_sweep_later(struct window_call *c);
/* One of those that are due. */
void window_sweep_next(struct window_call *c);
/* The handle is being detached. */
void window_sweep_end(ddict_t *d);

#endif
