/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_main.c - the `ddict` command: finds the verb and calls it. */
#include "cmd.h"
#include <base/error.h>
#include <base/user.h>
#include <launch/launch.h>

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
    {"up", cmd_up, "start a dictionary"},
    {"down", cmd_down, "end a dictionary"},
    {"env", cmd_env, "print the variables that name the job's dictionary, for eval"},
    {"stats", cmd_stats, "what each manager holds and served"},
    {"report", cmd_report, "what a job's dictionaries did, from their record"},
    {"load", cmd_load, "put archives, folders and files into it, as a set"},
    {"save", cmd_save, "write it to disk"},
    {"restore", cmd_restore, "put what was saved into it"},
    {"ls", cmd_ls, "list the keys"},
    {"get", cmd_get, "print a value"},
    {"put", cmd_put, "store a value"},
    {"rm", cmd_rm, "remove keys"},
    {"freeze", cmd_freeze, "make the dictionary read-only: nodes keep what they read"},
    {"unfreeze", cmd_unfreeze, "let it be written again"},
    {"watch", cmd_watch, "print what happens to keys"},
    {"results", cmd_results, "write results to files, draw them"},
    {"socket", cmd_socket, "run a command with a socket file, for a container"},
    {"runtime", cmd_runtime, "who and where a process of a job is"},
    {"bench", cmd_bench, "measure the attached dictionary"},
};
#define VERBS (sizeof verbs / sizeof verbs[0])

static void usage(FILE *f) {
    fprintf(f, "usage: ddict VERB [OPTION...] [ARGUMENT...]\n\n");
    for (size_t i = 0; i < VERBS; i++)
        fprintf(f, "  %-8s %s\n", verbs[i].name, verbs[i].what);
    fprintf(f, "\n`ddict VERB --help` says more; `ddict --version` tells the version.\n"
               "The dictionary is the one that $DDICT_NAME names, as in every task of a job that "
               "has one, or that --name NAME names;\n"
               "within a Slurm job without $DDICT_NAME it is the job's own.\n");
}

/* --- shared by the verbs --- */

static const char *name_given;

const char *cmd_name(void) {
    return name_given;
}

int cmd_usage(const char *text, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("ddict: ", stderr);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n%.*s\n", (int)strcspn(text, "\n"), text);
    va_end(ap);
    return EXIT_USAGE;
}

int cmd_option(int argc, char **argv, const char *letters, const struct option *longs,
               const char *text) {
    static char full[32]; /* what getopt's complaints begin with */
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

static char **words; /* ours, of main(): getopt moves argv's */
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
    if (name == NULL)
        name = getenv("DDICT_NAME");
    if ((name == NULL || *name == 0) && job != NULL) {
        snprintf(own, sizeof own, "%lu.%s.job", user_of_job(), job);
        name = own;
    }
    if (name == NULL || *name == 0 || cmd_relayed() || getenv("SLURMD_NODENAME") != NULL)
        return -1;
    int in = relay_in_used && relay_in == NULL ? 0 : -1;
    if (relay_in != NULL && (in = open(relay_in, O_RDONLY | O_CLOEXEC)) < 0) {
        fprintf(stderr, "ddict: %s: %s\n", relay_in, strerror(errno));
        return EXIT_FAILED;
    }
    int rc = launch_relay(name, args != NULL ? args : words, in, relay_out);
    if (in > 0)
        close(in);
    if (rc < 0 && rc != -ENOENT)
        fprintf(stderr, "ddict: %s\n", rc == -ENOMEM ? "out of memory" : dd_errmsg());
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
    if (what != NULL)
        fprintf(stderr, "ddict: %s: %s\n", what, ddict_errmsg());
    else
        fprintf(stderr, "ddict: %s\n", ddict_errmsg());
    return code == DDICT_ENOKEY || code == DDICT_EEXISTS ? EXIT_NO_KEY : EXIT_FAILED;
}

int cmd_json_print(json_t *o) {
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6));

    json_decref(o);
    if (text == NULL) {
        fprintf(stderr, "ddict: no memory\n");
        return EXIT_FAILED;
    }
    printf("%s\n", text);
    free(text);
    return EXIT_OK;
}

int cmd_flush(int rc) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return rc;
    fprintf(stderr, "ddict: cannot write to stdout: %s\n", strerror(errno));
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

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "");
    const char *verb = argc > 1 ? argv[1] : NULL;
    if (verb == NULL) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0) {
        usage(stdout);
        return cmd_flush(EXIT_OK);
    }
    if (strcmp(verb, "--version") == 0 || strcmp(verb, "-V") == 0) {
        printf("ddict (slurm-ddict) %s\n", ddict_version());
        return cmd_flush(EXIT_OK);
    }
    words = calloc((size_t)argc, sizeof *words);
    if (words == NULL)
        return EXIT_FAILED;
    memcpy(words, argv + 1, ((size_t)argc - 1) * sizeof *words);
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(verb, verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "ddict: there is no verb \"%s\"\n", verb);
    usage(stderr);
    return EXIT_USAGE;
}
