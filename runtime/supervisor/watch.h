/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - does each manager of this node still turn? Its loop counts its turns in its page. */
#ifndef DDICT_SUPERVISOR_WATCH_H
#define DDICT_SUPERVISOR_WATCH_H

#include "supervisor.h"

/* all managers are ready: from now on they have to answer */
void watch_start(struct supervisor *s);

#endif
