/* SPDX-License-Identifier: Apache-2.0 */
/* rma_export.h - values that the requester reads out of our arena. */
#ifndef DDICT_MANAGER_RMA_EXPORT_H
#define DDICT_MANAGER_RMA_EXPORT_H

#include "manager.h"

int rma_exports_init(struct manager *m);
/* The value of ref, which has a pin that is the export's then, as the reply r. false: not this one;
 * nothing was done. */
bool rma_export_begin(struct requester *a, struct msg *r, const struct store_ref *ref);
bool rma_export_more(struct requester *a, uint64_t id, uint64_t read); /* false: none such */
bool rma_export_cancel(struct requester *a, uint64_t id, int status);
void rma_exports_end(struct requester *a);

#endif
