/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - the verbs of the `ddict` command that start a dictionary; argv[0] is the verb. Both
 * return the exit code. */
#ifndef DDICT_LAUNCH_LAUNCH_H
#define DDICT_LAUNCH_LAUNCH_H

int cmd_up(int argc, char **argv);
int cmd_run(int argc, char **argv);

/*
 * A verb on a host that has no managers: run it on the first node of the dictionary that srun
 * reaches. args: the verb and its words, without those that name files or the dictionary; in: its
 * stdin, -1 none; out_file: where its stdout goes, NULL ours. The exit code; -ENOENT when it is not to be done: name is of no
 * Slurm job of ours, this is a node of one (every node of it has its managers), or there is no
 * srun; another negative code with the sentence set. It runs with the variable RELAYED, and opens
 * no files.
 */
int launch_relay(const char *name, char *const *args, int in, const char *out_file);
#define RELAYED "DDICT_RELAYED"

#endif
