/* SPDX-License-Identifier: Apache-2.0 */
/* rma_export.h - values that another manager reads out of our arena. */
#ifndef DDICT_MANAGER_RMA_EXPORT_H
#define DDICT_MANAGER_RMA_EXPORT_H

#include "manager.h"

int rma_exports_init(struct manager *m);
/* Answer with the place of ref's value, in the reply r. Takes over a pin of ref. False: not
 * possible, nothing was done. */
bool rma_export_begin(struct requester *a, struct msg *r, const struct store_ref *ref);
/* false: there is no such export */
bool rma_export_more(struct requester *a, uint64_t id, uint64_t read);
bool rma_export_cancel(struct requester *a, uint64_t id, int status);
void rma_exports_end(struct requester *a);

#endif
