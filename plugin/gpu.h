/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - the GPUs of a task, in order. */
#ifndef DDICT_PLUGIN_GPU_H
#define DDICT_PLUGIN_GPU_H

#include <slurm/spank.h>

/* In the task, as the user; how: --ddict-gpu-bind, by_user: the user said it. */
void gpu_prepare(spank_t sp, const char *how, int by_user);

#endif
