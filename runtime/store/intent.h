/* SPDX-License-Identifier: Apache-2.0 */
/* intent.h - a change that takes more than one store, so that it can be finished (I16). */
#ifndef DDICT_STORE_INTENT_H
#define DDICT_STORE_INTENT_H

#include "index.h"

/* Begin a pop with a next value: word goes into the key's slot (`first`), and the slot of the next
 * value (`hidden`) becomes EMPTY. version: that of the next value's item. */
void intent_begin(struct store *s, const struct index_place *first, uint64_t word,
                  const struct index_place *hidden, uint64_t version);
void intent_done(struct store *s);
void intent_finish(struct store *s); /* of an arena that was in use */

#endif
