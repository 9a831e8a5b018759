/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - what the verbs of the `ddict` command share. The exit code of a verb: 0 done, 1 error
 * (one line on stderr), 2 wrong usage, 3 the key is not there, or with --new is there.
 */
#ifndef DDICT_CMD_CMD_H
#define DDICT_CMD_CMD_H

#include <ddict.h>

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_KEY = 3 };

/* As getopt_long(), but handles --help (prints usage and exits) and --name (remembers it) itself.
 * '?' is a wrong option, of which the user has been told. */
int cmd_option(int argc, char **argv, const char *letters, const struct option *longs,
               const char *usage);
#define CMD_LONGS                            \
    {"help", no_argument, NULL, 'h'}, {      \
        "name", required_argument, NULL, 'N' \
    }
const char *cmd_name(void); /* the value of --name, or NULL */
/* Tell the user what is wrong with the words, and how usage begins. Returns EXIT_USAGE. */
int cmd_usage(const char *usage, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Attach, or tell the user why not and return NULL. On a host without managers the same command
 * runs on a node of the job instead, and this process exits with its code; so attach before stdin
 * is read.
 */
ddict_t *cmd_attach(void);
/* The command on that node gets this file as its stdin; NULL: our stdin. */
void cmd_relay_stdin(const char *file);
void cmd_relay_stdout(const char *file); /* its stdout goes into this file */
bool cmd_relayed(void);                  /* we are that command: files are stdin and stdout */
/* Run the command of the words args (NULL: our own) on a node of the dictionary of that name.
 * Returns its exit code; -1: we are on a node already, or there is none. */
int cmd_relay(const char *name, char *const *args);
/* Tell the user of libddict's last failure, with a word before it (NULL: none). Returns the exit
 * code. For other messages: verb_say(), base/verb.h. */
int cmd_failed(const char *what, int code);
/* Flush stdout. Returns rc, or EXIT_FAILED after telling why stdout is not complete (disk full). */
int cmd_flush(int rc);
/* Print o as one line on stdout and free it; NULL: there was no memory for it. Fractions have 6
 * significant digits, or `digits` (1 to 17). The exit code. */
int cmd_json_print(json_t *o);
int cmd_json_print_digits(json_t *o, size_t digits);
/* Parse seconds. Returns milliseconds; -1: text is no number, is negative or too large. */
int cmd_seconds(const char *text);

struct bytes; /* common/key_text.h */
/* What cmd_key_option() sets. */
enum key_form { KEY_STR, KEY_INT, KEY_LITERAL, KEY_RAW };
#define CMD_KEY_LONGS                                                       \
    {"int", no_argument, NULL, 'I'}, {"literal", no_argument, NULL, 'L'}, { \
        "raw-key", no_argument, NULL, 'R'                                   \
    }
bool cmd_key_option(int c, enum key_form *form);
/* The key that the user typed as text of that form. 0; -EINVAL: it has not that form; -ENOMEM. */
int cmd_key_of(struct bytes *key, enum key_form form, const char *text);
/* The same, and tell the user what is wrong. The exit code. */
int cmd_key_read(struct bytes *key, enum key_form form, const char *text, const char *usage);
/* All of the file, NULL or "-": of stdin. The exit code, and the user has been told. */
int cmd_file_read(struct bytes *out, const char *path);
#define CMD_KEY_USAGE                                                       \
    "      --int            KEY is an int: ddict get --int 17\n"            \
    "      --literal        KEY is as `ddict ls` prints it: \"('x', 3)\"\n" \
    "      --raw-key        KEY is bytes, as C programs use them, with \\xNN and \\\\\n"
#define CMD_HELP_USAGE "  -h, --help           print this\n"
#define CMD_COMMON_USAGE                                                        \
    "      --name=NAME      use the dictionary NAME, not that of $DDICT_NAME\n" \
    "  -h, --help           print this\n"

#endif
