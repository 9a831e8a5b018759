/* SPDX-License-Identifier: Apache-2.0 */
/* subscriptions.h - events of keys with a prefix, for clients that ask for them. */
#ifndef DDICT_MANAGER_SUBSCRIPTIONS_H
#define DDICT_MANAGER_SUBSCRIPTIONS_H

#include "manager.h"

int subscriptions_init(struct manager *m);
void subscriptions_free(struct manager *m);
/* The events so far were those of another process, the primary that this one follows: numbers go on
 * above all that it can have given, so that its subscribers learn that they missed some. epoch: of the
 * map by which it follows. */
void subscriptions_anew(struct manager *m, uint64_t epoch);
void subscription_ask(struct requester *a, const struct msg *m, const uint8_t *prefix);
void subscriptions_figures(const struct manager *m, struct manager_stats *out);
void subscriptions_put(struct manager *m, const struct item *it, uint64_t version);
void subscriptions_del(struct manager *m, const void *key, uint32_t key_len);
void subscriptions_clear(struct manager *m);
/* answer some of the requests that have events; true: there were some */
bool subscriptions_turn(struct manager *m);

#endif
