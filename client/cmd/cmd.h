/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - main.c of the `ddict` command: what its verbs share. The exit code of a verb: 0 done, 1
 * error (one line on stderr), 2 wrong usage, 3 the key is not there, or with --new is there.
 */
#ifndef DDICT_CMD_CMD_H
#define DDICT_CMD_CMD_H

#include <ddict.h>

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_KEY = 3 };

/* The next option of getopt_long() with --help and --name taken out: prints usage and exits, or
 * remembers the name. '?' has been complained of. */
int cmd_option(int argc, char **argv, const char *letters, const struct option *longs,
               const char *usage);
#define CMD_LONGS                            \
    {"help", no_argument, NULL, 'h'}, {      \
        "name", required_argument, NULL, 'N' \
    }
const char *cmd_name(void); /* of --name, or NULL */
/* EXIT_USAGE */
int cmd_usage(const char *usage, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Attach or say why not; NULL then. On a host without managers the same command runs on a node of
 * the job and we exit with its code: attach before stdin is read.
 */
ddict_t *cmd_attach(void);
/* our stdin (NULL), or this file, is the other one's stdin */
void cmd_relay_stdin(const char *file);
void cmd_relay_stdout(const char *file); /* the other one's stdout goes into this file */
bool cmd_relayed(void);                  /* we are the other one: files are stdin and stdout */
/* Run args (NULL: our own words) where the managers are; returns -1 when that is not to be done,
 * else the exit code. */
int cmd_relay(const char *name, char *const *args);
/* Say the sentence of the last failure with a word before it (NULL: none); the exit code for it.
 * All else is said by verb_say(), base/verb.h. */
int cmd_failed(const char *what, int code);
/* stdout is complete: rc, or EXIT_FAILED with a line that says why not (disk full). */
int cmd_flush(int rc);
/* One line on stdout; takes o, which is NULL when there was no memory for it. The exit code.
 * Fractions have 6 significant digits, or so many (1 to 17). */
int cmd_json_print(json_t *o);
int cmd_json_print_digits(json_t *o, size_t digits);
/* Seconds as text to milliseconds; -1 when it is no number, negative or too large. */
int cmd_seconds(const char *text);

/* Set by the options of cmd_key_option(). */
enum key_form { KEY_STR, KEY_INT, KEY_LITERAL, KEY_RAW };
#define CMD_KEY_LONGS                                                       \
    {"int", no_argument, NULL, 'I'}, {"literal", no_argument, NULL, 'L'}, { \
        "raw-key", no_argument, NULL, 'R'                                   \
    }
bool cmd_key_option(int c, enum key_form *form);
#define CMD_KEY_USAGE                                                       \
    "      --int            KEY is an int: ddict get --int 17\n"            \
    "      --literal        KEY is as `ddict ls` prints it: \"('x', 3)\"\n" \
    "      --raw-key        KEY is bytes, as C programs use them, with \\xNN and \\\\\n"
#define CMD_HELP_USAGE "  -h, --help           print this\n"
#define CMD_COMMON_USAGE                                                        \
    "      --name=NAME      use the dictionary NAME, not that of $DDICT_NAME\n" \
    "  -h, --help           print this\n"

#endif
