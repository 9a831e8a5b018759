/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - the GPUs of a task, in order. */
#ifndef DDICT_PLUGIN_GPU_H
#define DDICT_PLUGIN_GPU_H

#include <slurm/spank.h>

/* In the task, as the user: order its GPUs. how: value of --ddict-gpu-bind; by_user: the user gave
 * it, and so is told even if there was nothing to order. */
void gpu_prepare(spank_t sp, const char *how, int by_user);

#endif
