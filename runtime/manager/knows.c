/* SPDX-License-Identifier: Apache-2.0 */
/* knows.c - every place where a request of a lane may be that is not answered. */
#include "knows.h"

#include "forward.h"
#include "freeze.h"
#include "parked.h"
#include "pending.h"
#include "stream_in.h"
#include "stream_out.h"

bool requester_knows(const struct requester *a, uint64_t id) {
    return pending_knows(a, id) || forward_knows(a, id) || put_in_knows(a, id) ||
           stream_out_knows(a, id) || parked_knows(a, id) || freeze_knows(a, id);
}
