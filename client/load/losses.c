/* SPDX-License-Identifier: Apache-2.0 */
/* losses.c - managers that lost their keys, losses.h */
#include "losses.h"

#include "load.h"
#include "state.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/verb.h>

#include <common/lost_keys.h>
#include <errno.h>

int losses_find(bool *anew) {
    struct deadline limit;
    bool said = the_load.o->quiet;
    int n = 0;
    deadline_start(&limit, DD_REFILL_MS);
    for (unsigned m = 0; m < the_load.info.managers;) {
        int rc =
            load_stopped() ? -ECANCELED : manager_lost_keys_within(the_load.d, m, LOST_LOOK_MS);
        if (rc == -ETIMEDOUT && !deadline_over(&limit)) {
            if (!said)
                verb_say("waiting until what a lost node had of data sets is read again");
            said = true;
            continue;
        }
        if (rc < 0)
            return rc == -ECANCELED ? rc : load_error(rc);
        if (anew)
            anew[m] = rc == 1;
        n += rc;
        m++;
    }
    return n;
}

bool losses_exceed(int known) {
    int n = 0;
    if (ddict_refills(the_load.d) != 1)
        return false;
    for (unsigned m = 0; m < the_load.info.managers && n <= known; m++) {
        int rc = manager_lost_keys_within(the_load.d, m, LOST_LOOK_MS);
        if (rc == -ETIMEDOUT)
            return true;
        n += rc == 1;
    }
    return n > known;
}
