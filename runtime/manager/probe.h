/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - a plain TCP connection for who measures the path. */
#ifndef DDICT_MANAGER_PROBE_H
#define DDICT_MANAGER_PROBE_H

#include "manager.h"

void probe_take(struct requester *a, const struct msg *m);

#endif
