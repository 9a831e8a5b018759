/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the threads of this process that claim units and read them. */
#ifndef DDICT_LOAD_WORKER_H
#define DDICT_LOAD_WORKER_H

#include <stdbool.h>

/* Start the threads. */
void worker_start(void);
/* Wait until the threads have ended; once the load is stopped, at most LOAD_STOP_MS. False: some
 * hang. */
bool worker_join(void);
/* The life of a worker that is not the leader, from its wait for the plan to its end. The exit
 * code. */
int worker_run(void);

#endif
