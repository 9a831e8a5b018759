/* SPDX-License-Identifier: Apache-2.0 */
/* intent.h - a change of more than one store, to be finished after a crash (I16). */
#ifndef DDICT_STORE_INTENT_H
#define DDICT_STORE_INTENT_H

#include "index.h"

/* A pop with a next value: of key's slot `first`, which word replaces, and the slot of that value;
 * version: what its item has. */
void intent_begin(struct store *s, const struct index_place *first, uint64_t word,
                  const struct index_place *hidden, uint64_t version);
void intent_done(struct store *s);
void intent_finish(struct store *s); /* of an arena that was in use */

#endif
