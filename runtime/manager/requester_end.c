/* SPDX-License-Identifier: Apache-2.0 */
/* requester_end.c - the end of a requester. */
#include "requester_end.h"

#include "forward.h"
#include "freeze.h"
#include "parked.h"
#include "pending.h"
#include "requester.h"
#include "rma_export.h"
#include "stream_in.h"
#include "stream_out.h"

void requester_end(struct requester *a) {
    a->gone = true; /* first: nothing below is answered */
    parked_end(a);
    pending_requester_end(a);
    forwards_end(a);
    puts_end(a);
    streams_out_end(a);
    rma_exports_end(a);
    freeze_asks_end(a);
}
