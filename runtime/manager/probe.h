/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - a plain TCP connection by which a client measures the path to this node. */
#ifndef DDICT_MANAGER_PROBE_H
#define DDICT_MANAGER_PROBE_H

#include "manager.h"

void probe_take(struct requester *a, const struct msg *m);

#endif
