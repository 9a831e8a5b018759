/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpus.h - a set of cpus by the kernel's numbers, and the texts that Linux and Slurm write for one.
 * Plain data: it can be copied, sent and compared, and needs no hwloc.
 */
#ifndef DDICT_PLACE_CPUS_H
#define DDICT_PLACE_CPUS_H

#include <stddef.h>
#include <stdint.h>

/* cpus of a node; the largest kernels of distributions stop at 8192, the largest machines with GPUs
 * at 2048 */
#define CPUS_MAX 4096
struct cpus {
    uint64_t word[CPUS_MAX / 64];
};

void cpus_add(struct cpus *c, int cpu);
int cpus_has(const struct cpus *c, int cpu);
int cpus_count(const struct cpus *c);
/* How many of a are in b. */
int cpus_shared(const struct cpus *a, const struct cpus *b);
/* "0-7,16": 0; -EINVAL (and nothing set) for anything else or a cpu >= CPUS_MAX. */
int cpus_list(struct cpus *c, const char *text);
/* "0x00ff00ff", with or without 0x: 0 or -EINVAL. */
int cpus_mask(struct cpus *c, const char *text, size_t len);
/* "0-7,16" into buf, cut at a comma when it does not fit (then it ends in ",..."). Returns buf. */
char *cpus_text(char *buf, size_t cap, const struct cpus *c);
/* Those that the calling process may run on. 0 or a negative errno. */
int cpus_mine(struct cpus *c);

/*
 * The cpus of every task of this node as Slurm bound them: type and list are $SLURM_CPU_BIND_TYPE
 * and $SLURM_CPU_BIND_LIST, which every task gets in full, so all tasks of a node read the same
 * without talking. A shorter list starts again from its beginning, as Slurm does. 0; -ENOENT: Slurm
 * bound no task, or to NUMA nodes by number; -EINVAL: no list of Slurm's.
 */
int cpus_tasks(struct cpus *of, int tasks, const char *type, const char *list);

#endif
