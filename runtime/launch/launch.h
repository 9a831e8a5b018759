/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - the verbs of the `ddict` command that start a dictionary; argv[0] is the verb. Both return the exit code. */
#ifndef DDICT_LAUNCH_LAUNCH_H
#define DDICT_LAUNCH_LAUNCH_H

int cmd_up(int argc, char **argv);
int cmd_run(int argc, char **argv);

#endif
