/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - the verbs of the `ddict` command that start a dictionary; argv[0] is the verb. Both return the exit code. */
#ifndef DDICT_LAUNCH_LAUNCH_H
#define DDICT_LAUNCH_LAUNCH_H

int cmd_up(int argc, char **argv);
int cmd_run(int argc, char **argv);

/*
 * `ddict down` from a host that has no managers, such as a login node: run it on the first node of the dictionary's job. -ENOENT when name is not of a
 * Slurm job or srun is not there (nothing was tried), else 0 or a negative code with the sentence set.
 */
int launch_down(const char *name);

#endif
