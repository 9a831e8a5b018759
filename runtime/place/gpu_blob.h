/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_blob.h - the map of a node's GPUs as bytes. ddictd reads the topology once for the node and
 * sends the map to the ranks there. The map leaves out what differs from rank to rank (which GPUs
 * the rank can open): that is gpu_map_probe() in the rank.
 */
#ifndef DDICT_PLACE_GPU_BLOB_H
#define DDICT_PLACE_GPU_BLOB_H

#include "gpu.h"

#include <stddef.h>

/* *blob is malloc'ed. 0 or -ENOMEM. */
int gpu_map_pack(const struct gpu_map *m, void **blob, size_t *len);
/* 0, -ENOMEM, -EPROTO: of another version or damaged. gpu_map_free() it. */
int gpu_map_unpack(struct gpu_map *m, const void *blob, size_t len);

/* Ask the ddictd of this node that $DDICT_NAME names. 0, or a negative code: there is none, or none
 * that knows. gpu_map_free() it. */
int gpu_map_ask(struct gpu_map *m);

#endif
