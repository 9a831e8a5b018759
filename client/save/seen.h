/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seen.h - which version of each key an earlier pass wrote. One for each manager, used by one
 * thread at a time. It takes 24 bytes a key, at most 8/3 of that. A struct of zeros is an empty
 * one.
 */
#ifndef DDICT_SAVE_SEEN_H
#define DDICT_SAVE_SEEN_H

#include <base/hashset.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct save_seen {
    struct hashset keys;
};

bool save_seen_has(const struct save_seen *s, const void *key, size_t klen, uint64_t version);
/* Without memory the key is not noted, and looked at again by the next pass. */
void save_seen_note(struct save_seen *s, const void *key, size_t klen, uint64_t version);
void save_seen_free(struct save_seen *s);

#endif
