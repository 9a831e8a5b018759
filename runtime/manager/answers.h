/* SPDX-License-Identifier: Apache-2.0 */
/* answers.h - answers to requests. */
#ifndef DDICT_MANAGER_ANSWERS_H
#define DDICT_MANAGER_ANSWERS_H

#include "manager.h"

struct stream_out;
/* Answer a GET, POP or HEAD with the item of ref. pinned: the caller gives up a pin of the item.
 * ready: from stream_out_new() for this item, or NULL. */
void request_give(struct requester *a, const struct msg *req, const struct store_ref *ref,
                  bool pinned, struct stream_out *ready);
/* As request_give(), and count it. began: when the request began. */
void request_found(struct requester *a, const struct msg *req, const struct store_ref *ref,
                   bool pinned, struct stream_out *ready, uint64_t began);
/* Answer a request that waited, with the item of value, or for a POP why it cannot have it. The
 * caller keeps the pin. */
void request_value(struct requester *a, const struct msg *req, const struct store_ref *ref);
/* Whether a POP takes the value: its requester has room for it. */
bool request_takes(const struct requester *a, const struct msg *req, const struct store_ref *ref);
/* Answer a POP that has no room for the value: DDICT_ESMALL and its length. */
void request_pop_small(struct requester *a, const struct msg *req, const struct store_ref *ref);
/* Whether the value will be read in place, in our arena. */
bool request_placed(const struct requester *a, const struct msg *req);
bool item_goes_whole(const struct item *it); /* it fits into one message */
/* Answer with this code and its sentence. */
void request_failed(struct requester *a, const struct msg *m, int code);
/* As store_reserve(), for the value of m. TAKE_LATER in place of -EINPROGRESS, for at most
 * DD_COMPACT_WAIT_MS. */
int request_reserve(struct requester *a, const struct msg *m, const uint8_t *key,
                    struct store_ref *ref);
/* The put was refused. Its entry ends before its block: the ledger names no free one. */
void request_given_up(struct requester *a, const struct msg *m, struct store_ref *ref);
/* The sentence for a failed reservation; in static memory. */
const char *request_full_text(struct manager *m, int code, uint64_t val_len);

#endif
