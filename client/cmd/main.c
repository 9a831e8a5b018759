/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the `ddict` command: finds the verb and calls it. */
#include "cmd.h"
#include "verbs.h"
#include <base/error.h>
#include <base/user.h>
#include <base/verb.h>
#include <launch/launch.h>
#include <launch/sruns.h>

#include <common/key_text.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} verbs[] = {
    {"run", cmd_run, "run a command with a dictionary of its own"},
    {"up", cmd_up, "start a dictionary and return"},
    {"down", cmd_down, "end a dictionary"},
    {"env", cmd_env, "print the variables that name the dictionary"},
    {"stats", cmd_stats, "print what each manager holds and has served"},
    {"report", cmd_report, "print what the dictionaries of a job did, after the job"},
    {"load", cmd_load, "put archives, folders and files into the dictionary"},
    {"save", cmd_save, "write the dictionary to disk"},
    {"restore", cmd_restore, "put what was saved into a dictionary"},
    {"states", cmd_states, "list the states of a dictionary on disk"},
    {"copy", cmd_copy, "put the content of a dictionary into others"},
    {"ls", cmd_ls, "list keys, or the data sets that were loaded"},
    {"get", cmd_get, "print a value"},
    {"put", cmd_put, "store a value"},
    {"add", cmd_add, "add to an int, and print the sum"},
    {"append", cmd_append, "put bytes behind a value"},
    {"rm", cmd_rm, "remove keys"},
    {"apply", cmd_apply, "run a command for each item of this node"},
    {"freeze", cmd_freeze, "make the dictionary read-only"},
    {"unfreeze", cmd_unfreeze, "make it writable again"},
    {"watch", cmd_watch, "print each change of a key as it happens"},
    {"results", cmd_results, "write the results of ranks to files, and plot them"},
    {"socket", cmd_socket, "run a command in a container with a network of its own"},
    {"runtime", cmd_runtime, "print the rank and node of a process, and its nearest GPU"},
    {"bench", cmd_bench, "measure the dictionary"},
};
#define VERBS (sizeof verbs / sizeof verbs[0])

static void usage_print(FILE *f) {
    fprintf(f, "usage: ddict VERB [OPTION...] [ARGUMENT...]\n\n");
    for (size_t i = 0; i < VERBS; i++)
        fprintf(f, "  %-8s %s\n", verbs[i].name, verbs[i].what);
    fprintf(f, "\n`ddict VERB --help` prints a verb's options, `man ddict-VERB` is its manual.\n"
               "The dictionary is that of --name=NAME, else that of $DDICT_NAME, which is set in\n"
               "every task of a job that has one, else that of the Slurm job.\n"
               "`ddict --version` prints the version.\n");
}

/* --- shared by the verbs --- */

static const char *name_given;

const char *cmd_name(void) {
    return name_given;
}

int cmd_usage(const char *text, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    verb_vsay(fmt, ap);
    va_end(ap);
    fprintf(stderr, "%.*s\n", (int)strcspn(text, "\n"), text);
    return EXIT_USAGE;
}

int cmd_option(int argc, char **argv, const char *letters, const struct option *longs,
               const char *text) {
    static char full[32]; /* getopt begins its messages with this */
    if (full[0] == 0) {
        snprintf(full, sizeof full, "ddict %s", argv[0]);
        argv[0] = full;
    }
    for (;;) {
        int c = getopt_long(argc, argv, letters, longs, NULL);
        if (c == 'h') {
            fputs(text, stdout);
            exit(cmd_flush(EXIT_OK));
        }
        if (c == '?')
            fprintf(stderr, "%.*s\n", (int)strcspn(text, "\n"), text);
        if (c != 'N')
            return c;
        name_given = optarg;
    }
}

static char **words; /* main()'s argv in its original order; getopt reorders argv */
static const char *relay_in, *relay_out;
static bool relay_in_used;

void cmd_relay_stdin(const char *file) {
    relay_in = file;
    relay_in_used = true;
}

void cmd_relay_stdout(const char *file) {
    relay_out = file;
}

bool cmd_relayed(void) {
    return getenv(RELAYED) != NULL;
}

int cmd_relay(const char *name, char *const *args) {
    char own[64];
    const char *job = getenv("SLURM_JOB_ID");
    if (!name)
        name = getenv("DDICT_NAME");
    if ((!name || *name == 0) && job) {
        snprintf(own, sizeof own, "%lu.%s.job", user_of_job(), job);
        name = own;
    }
    if (!name || *name == 0 || cmd_relayed() || getenv("SLURMD_NODENAME"))
        return -1;
    int in = relay_in_used && !relay_in ? 0 : -1;
    if (relay_in && (in = open(relay_in, O_RDONLY | O_CLOEXEC)) < 0) {
        verb_say("%s: %s", relay_in, strerror(errno));
        return EXIT_FAILED;
    }
    int rc = launch_relay(name, args ? args : words, in, relay_out);
    if (in > 0)
        close(in);
    if (rc < 0 && rc != -ENOENT)
        verb_say("%s", rc == -ENOMEM ? "out of memory" : dd_errmsg());
    return rc == -ENOENT ? -1 : rc < 0 ? EXIT_FAILED : rc;
}

ddict_t *cmd_attach(void) {
    ddict_t *d = NULL;
    int rc = ddict_attach(&d, name_given, -1), there;
    if (rc == DDICT_ENODICT && (there = cmd_relay(name_given, NULL)) >= 0)
        exit(there);
    if (rc < 0)
        cmd_failed(NULL, rc);
    return d;
}

int cmd_failed(const char *what, int code) {
    if (what)
        verb_say("%s: %s", what, ddict_errmsg());
    else
        verb_say("%s", ddict_errmsg());
    return code == DDICT_ENOKEY || code == DDICT_EEXISTS ? EXIT_NO_KEY : EXIT_FAILED;
}

int cmd_json_print(json_t *o) {
    return cmd_json_print_digits(o, 6);
}

int cmd_json_print_digits(json_t *o, size_t digits) {
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(digits));

    json_decref(o);
    if (!text) {
        verb_say("no memory");
        return EXIT_FAILED;
    }
    printf("%s\n", text);
    free(text);
    return EXIT_OK;
}

int cmd_flush(int rc) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return rc;
    verb_say("cannot write to stdout: %s", strerror(errno));
    return rc == EXIT_OK ? EXIT_FAILED : rc;
}

int cmd_seconds(const char *text) {
    char *end;
    double s = strtod(text, &end);
    return end == text || *end != 0 || !(s >= 0) || s > 1e6 ? -1 : (int)lround(s * 1000);
}

bool cmd_key_option(int c, enum key_form *form) {
    if (c != 'I' && c != 'L' && c != 'R')
        return false;
    *form = c == 'I' ? KEY_INT : c == 'L' ? KEY_LITERAL : KEY_RAW;
    return true;
}

int cmd_key_of(struct bytes *key, enum key_form form, const char *text) {
    switch (form) {
    case KEY_STR:
        return key_of_str(key, text);
    case KEY_INT:
        return key_of_int(key, text);
    case KEY_LITERAL:
        return key_of_literal(key, text);
    case KEY_RAW:
        return key_of_raw(key, text);
    }
    return -EINVAL;
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "");
    const char *verb = argc > 1 ? argv[1] : NULL;
    if (!verb) {
        usage_print(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0) {
        usage_print(stdout);
        return cmd_flush(EXIT_OK);
    }
    if (strcmp(verb, "--version") == 0 || strcmp(verb, "-V") == 0) {
        printf("ddict (slurm-ddict) %s\n", ddict_version());
        return cmd_flush(EXIT_OK);
    }
    if (strcmp(verb, SRUNS_VERB) == 0)
        return sruns_main(argc - 1, argv + 1);
    words = calloc((size_t)argc, sizeof *words);
    if (!words)
        return EXIT_FAILED;
    memcpy(words, argv + 1, ((size_t)argc - 1) * sizeof *words);
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(verb, verbs[i].name) == 0) {
            verb_begin(verb);
            return verbs[i].run(argc - 1, argv + 1);
        }
    verb_say("there is no verb \"%s\"", verb);
    usage_print(stderr);
    return EXIT_USAGE;
}
