/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_find.h - which providers of libfabric this node has. Call it in a process of its own: what
 * providers do may leave threads and mappings behind. Where libfabric is not built in, -ENOSYS. */
#ifndef DDICT_WIRE_FABRIC_FABRIC_FIND_H
#define DDICT_WIRE_FABRIC_FABRIC_FIND_H

#include "fabric_types.h"

#include <stdbool.h>

/* Whether this node has a device of a network that libfabric serves (InfiniBand, RoCE, EFA,
 * Omni-Path, Slingshot); reads /sys. */
bool fabric_devices(void);
/*
 * The provider, by libfabric's full name ("tcp;ofi_rxm"), for a wanted one ("tcp"; "": the best one
 * of an HPC network). 0; -ENOENT: there is none, and the sentence (base/error.h) names those that
 * there are; -ENOSYS: no library.
 */
int fabric_find(const char *wanted, const char *node, char name[FABRIC_NAME_MAX]);

#endif
