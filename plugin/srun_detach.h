/* SPDX-License-Identifier: Apache-2.0 */
/* srun_detach.h - let `ddict up` leave the managers' srun alone. */
#ifndef DDICT_PLUGIN_SRUN_DETACH_H
#define DDICT_PLUGIN_SRUN_DETACH_H

/* In the managers' srun: be ready for LEAVE_SIGNAL of `ddict up`. After that srun ends itself when it
 * was without a connection for alone_ms. */
void srun_detach_prepare(int alone_ms);

#endif
