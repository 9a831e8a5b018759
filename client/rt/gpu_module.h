/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_module.h - the GPUs of this node for a program without hwloc: ddictd has read them, or
 * ddict-topology.so is opened, when GPUs are to be bound, so that a training process starts where
 * hwloc is not installed.
 */
#ifndef DDICT_RT_GPU_MODULE_H
#define DDICT_RT_GPU_MODULE_H

#include <place/gpu.h>

#include <stddef.h>

/* The one function of the module. size: sizeof *m of the caller, who may be of another version. 0
 * or a negative errno with a sentence in text. */
typedef int gpu_module_read(struct gpu_map *m, size_t size, char *text, size_t cap);
#define GPU_MODULE_READ "gpu_module_read_"

/*
 * What the ddictd of this node says of its GPUs; where there is none, ask the module: beside the
 * library that calls, else where it was installed; $DDICT_TOPOLOGY names another. 0; -ENOENT: there
 * is none, or it finds no hwloc; other negative codes; always with the sentence. gpu_map_free() it.
 */
int gpu_map_read(struct gpu_map *m);

#endif
