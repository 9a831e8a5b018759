/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_module.h - the GPUs of this node for a program that is not linked with hwloc, so that a
 * training process starts where that is not installed: ddictd has read them, or ddict-topology.so
 * is opened when GPUs are to be bound.
 */
#ifndef DDICT_RT_GPU_MODULE_H
#define DDICT_RT_GPU_MODULE_H

#include <place/gpu.h>

#include <stddef.h>

/* The one function of the module. size: sizeof *m of the caller, which may be of another version. 0
 * or a negated errno with a sentence in text. */
typedef int gpu_module_read(struct gpu_map *m, size_t size, char *text, size_t cap);
#define GPU_MODULE_READ "gpu_module_read_"

/*
 * Ask the ddictd of this node for its GPUs; if there is none, ask the module: beside the library
 * that calls, else where it was installed, or the one that $DDICT_TOPOLOGY names. 0, and *m is the
 * caller's, for gpu_map_free(); -ENOENT: there is no module, or it finds no hwloc; or another
 * negative code. The sentence is set.
 */
int gpu_map_read(struct gpu_map *m);

#endif
