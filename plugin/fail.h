/* SPDX-License-Identifier: Apache-2.0 */
/* fail.h - the end of srun, salloc or sbatch with a sentence for the user. */
#ifndef DDICT_PLUGIN_FAIL_H
#define DDICT_PLUGIN_FAIL_H

/* One line to the user, then exit(1). Only in srun, salloc and sbatch. */
void plugin_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
