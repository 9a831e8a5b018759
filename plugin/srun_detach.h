/* SPDX-License-Identifier: Apache-2.0 */
/* srun_detach.h - the managers' own srun can be left alone. */
#ifndef DDICT_PLUGIN_SRUN_DETACH_H
#define DDICT_PLUGIN_SRUN_DETACH_H

void srun_detach_prepare(void);

#endif
