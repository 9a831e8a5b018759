/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill_error.h - what goes wrong with the spill, as sentences. The functions that return int leave
 * their sentence to dd_error_kind() and return DDICT_EFULL.
 */
#ifndef DDICT_STORE_SPILL_ERROR_H
#define DDICT_STORE_SPILL_ERROR_H

#include "state.h"

int spill_full(struct store *s, uint64_t need); /* memory and spill are in use */
int spill_no_space(struct store *s);            /* its file could not grow */
int spill_silent(struct store *s);              /* its disk does nothing */
int spill_failed(struct store *s);              /* it takes no more values */
/* That of them which is the reason why there is no room. */
int spill_no_room(struct store *s, uint64_t need);
/* The spill takes no more values, for good. Those in it stay readable as far as the disk can, and
 * each byte is checked. The first call leaves a sentence for store_spill_trouble(). */
void spill_fail(struct store *s, int rc, const char *what);

#endif
