/* SPDX-License-Identifier: Apache-2.0 */
/* torch.h - the variables of torch for a task. */
#ifndef DDICT_PLUGIN_TORCH_H
#define DDICT_PLUGIN_TORCH_H

#include <slurm/spank.h>
#include <stdint.h>

/* In the task, as the user: set them if wanted (--ddict-torch-env), else take ours away. name: of
 * the dictionary. whole: ranks are those of the whole step, not of its component alone, where that
 * makes a difference. */
void torch_prepare(spank_t sp, int wanted, const char *name, uint32_t job, uint32_t step,
                   int whole);

#endif
