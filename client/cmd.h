/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - the `ddict` command: verbs, and what they share. Each verb gets argv with the verb as argv[0] and returns the exit code:
 * 0 done, 1 error (one line on stderr), 2 wrong usage, 3 the key is not there, or with --new is there.
 */
#ifndef DDICT_CLIENT_CMD_H
#define DDICT_CLIENT_CMD_H

#include <ddict.h>

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_KEY = 3 };

int cmd_stats(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_get(int argc, char **argv);
int cmd_put(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_down(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_runtime(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_load(int argc, char **argv);
int cmd_save(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_socket(int argc, char **argv);
int cmd_freeze(int argc, char **argv);
int cmd_unfreeze(int argc, char **argv);
int cmd_results(int argc, char **argv);
int cmd_watch(int argc, char **argv);

#define RESULTS_METRICS 32
struct results_plot {
    const char *folder, *output, *x, *metric[RESULTS_METRICS];
    unsigned metrics;
};                                              /* x, output: NULL for the default */
int results_plot(const struct results_plot *p); /* results_plot.c; the exit code */

/* The next option of getopt_long() with --help and --name taken out: prints usage and exits, or remembers the name. '?' has been complained of. */
int cmd_option(int argc, char **argv, const char *letters, const struct option *longs,
               const char *usage);
#define CMD_LONGS                            \
    {"help", no_argument, NULL, 'h'}, {      \
        "name", required_argument, NULL, 'N' \
    }
const char *cmd_name(void); /* of --name, or NULL */
int cmd_usage(const char *usage, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* EXIT_USAGE */
/*
 * Attach or say why not; NULL then. On a host without managers the same command runs on a node of the job and we exit with its code: attach
 * before stdin is read.
 */
ddict_t *cmd_attach(void);
void cmd_relay_stdin(
    const char *file); /* our stdin (NULL), or this file, is the other one's stdin */
void cmd_relay_stdout(const char *file); /* the other one's stdout goes into this file */
bool cmd_relayed(void);                  /* we are the other one: files are stdin and stdout */
/* Run args (NULL: our own words) where the managers are; returns -1 when that is not to be done, else the exit code. */
int cmd_relay(const char *name, char *const *args);
/* Say the sentence of the last failure with a word before it (NULL: none); the exit code for it. */
int cmd_failed(const char *what, int code);
/* stdout is complete: rc, or EXIT_FAILED with a line that says why not (disk full). */
int cmd_flush(int rc);
/* One line on stdout; takes o, which is NULL when there was no memory for it. The exit code. */
int cmd_json_print(json_t *o);
/* Seconds as text to milliseconds; -1 when it is no number, negative or too large. */
int cmd_seconds(const char *text);

/* Set by the options of cmd_key_option(). */
enum key_form { KEY_STR, KEY_INT, KEY_LITERAL, KEY_RAW };
#define CMD_KEY_LONGS                                                       \
    {"int", no_argument, NULL, 'I'}, {"literal", no_argument, NULL, 'L'}, { \
        "raw-key", no_argument, NULL, 'R'                                   \
    }
bool cmd_key_option(int c, enum key_form *form);
#define CMD_KEY_USAGE                                                                        \
    "  KEY is Python's str key. Other kinds:\n"                                              \
    "      --int         an int: ddict get --int 17          d[17]\n"                        \
    "      --literal     as `ddict ls` prints it: \"('x', 3)\"  d[\"x\", 3]\n"               \
    "      --raw-key     the bytes as they are, as C programs use them; \\xNN and \\\\ are " \
    "understood\n"

#endif
