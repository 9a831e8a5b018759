/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.h - the verbs of the `ddict` command, for the table in main.c. Each gets argv with the verb
 * as argv[0], and returns the exit code (cmd.h).
 */
#ifndef DDICT_CMD_VERBS_H
#define DDICT_CMD_VERBS_H

int cmd_apply(int argc, char **argv);
int cmd_stats(int argc, char **argv);
int cmd_states(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_get(int argc, char **argv);
int cmd_put(int argc, char **argv);
int cmd_add(int argc, char **argv);
int cmd_append(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_down(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_runtime(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_load(int argc, char **argv);
int cmd_save(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_copy(int argc, char **argv);
int cmd_socket(int argc, char **argv);
int cmd_freeze(int argc, char **argv);
int cmd_unfreeze(int argc, char **argv);
int cmd_results(int argc, char **argv);
int cmd_watch(int argc, char **argv);

#endif
