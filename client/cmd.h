/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.h - the verbs of the `ddict` command; argv[0] is the verb. All return the exit code. */
#ifndef DDICT_CLIENT_CMD_H
#define DDICT_CLIENT_CMD_H

#include <stdbool.h>
#include <ddict.h>

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_USAGE = 2, EXIT_NO_KEY = 3 };

int cmd_stats(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_get(int argc, char **argv);
int cmd_put(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_down(int argc, char **argv);

/* --- shared by the verbs; cmd_main.c --- */
/* Print "ddict VERB: sentence" and return EXIT_USAGE. */
int cmd_usage(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Print the sentence of the last failure; EXIT_NO_KEY for DDICT_ENOKEY, else EXIT_ERROR. */
int cmd_failed(const char *verb, int code);
/* Attach to $DDICT_NAME, or to --name. 0 or an exit code. */
int cmd_attach(const char *verb, const char *name, ddict_t **d);
/* stdout is complete: EXIT_OK, or EXIT_ERROR with a message (disk full, closed pipe). */
int cmd_flush(const char *verb);

#endif
