/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the threads of this process that claim units and read them. */
#ifndef DDICT_LOAD_WORKER_H
#define DDICT_LOAD_WORKER_H

#include <stdbool.h>

void worker_start(void);
/* Wait until its threads have ended, at most LOAD_STOP_MS when the load is stopped; false: some
 * hang. */
bool worker_join(void);
/* Not the leader: from the wait for the plan to the end. The exit code. */
int worker_run(void);

#endif
