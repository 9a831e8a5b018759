/* SPDX-License-Identifier: Apache-2.0 */
/* answers.h - what a request gets. */
#ifndef DDICT_MANAGER_ANSWERS_H
#define DDICT_MANAGER_ANSWERS_H

#include "manager.h"

struct stream_out;
/* Answer a GET, POP or HEAD whose item was found; pinned: the item has a pin that is ours to give
 * up. ready: what stream_out_new() made for it, or NULL. */
void request_give(struct requester *a, const struct msg *req, const struct store_ref *ref,
                  bool pinned, struct stream_out *ready);
/* The same with its counters; began: when. */
void request_found(struct requester *a, const struct msg *req, const struct store_ref *ref,
                   bool pinned, struct stream_out *ready, uint64_t began);
/* Answer one that waited with this item, which has a pin that stays the caller's: what a GET or
 * HEAD gets, or why a POP can not have it. */
void request_value(struct requester *a, const struct msg *req, const struct store_ref *ref);
/* a POP that has room for it */
bool request_takes(const struct requester *a, const struct msg *req, const struct store_ref *ref);
/* a POP that has no room for it: how long the value is */
void request_pop_small(struct requester *a, const struct msg *req, const struct store_ref *ref);
/* the value is read in our arena, where it lies */
bool request_placed(const struct requester *a, const struct msg *req);
bool item_goes_whole(const struct item *it); /* in one message */
/* answer so, with the sentence that belongs to it */
void request_failed(struct requester *a, const struct msg *m, int code);
/* As store_reserve(), for the value of m; TAKE_LATER instead of -EINPROGRESS, for at most
 * DD_COMPACT_WAIT_MS. */
int request_reserve(struct requester *a, const struct msg *m, const uint8_t *key,
                    struct store_ref *ref);
/* The sentence for a failed reservation; static. */
const char *request_full_text(struct manager *m, int code, uint64_t val_len);

#endif
