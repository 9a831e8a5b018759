/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - changes that depend on what their key has: PUT and DEL with a rule (enum key_rule). The owner
 * looks when the change is made, and with a backup when it is sent to that: in between nothing else
 * changes the key (replica_flight.h). From there on it is a PUT of a value, or a DEL, as any other.
 */
#ifndef DDICT_MANAGER_RULES_H
#define DDICT_MANAGER_RULES_H

#include "requester.h"

/* Bytes of the value of a RULE_ADD until the sum is known. */
#define RULE_SUM_MAX 20u

/* A PUT with RULE_ADD as its block is reserved. Others are as they are. */
struct msg rule_sized(const struct msg *req);
/*
 * What the rule of req says about its key as it is now. 0: make it; ref then has the sum, if it is one.
 * DDICT_ENOKEY: the key is absent, and would have to be there. DDICT_ECHANGED, DDICT_ENOTINT, -ERANGE:
 * refuse it. missing: a key that is absent is not known to be so, DDICT_ENOKEY also for a sum.
 */
int rule_judge(struct manager *m, const struct msg *req, const void *key, bool missing,
               struct store_ref *ref);
/* It needs to know whether its key is absent. */
static inline bool rule_wants_absent(const struct msg *req) {
    return req->rule == RULE_IF && req->version == 0;
}
/* Whether a HEAD with WAIT and a rule has waited long enough: the key's version is another one. */
bool rule_is_met(struct manager *m, const struct msg *req, const void *key, uint64_t hash,
                 uint64_t *version);
/* What the REPLY of a PUT has as its version, and its result (results.h): of a sum that is what is known
 * of it later. */
uint64_t rule_version(unsigned rule, const struct item *it, uint64_t version);
/* Refuse req, with what rule_judge() gave. */
void rule_refuse(struct requester *a, const struct msg *req, const void *key, int e);

#endif
