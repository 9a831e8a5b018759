/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_main.c - the `ddict` command: a table of verbs, and what they share. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <launch/launch.h>
#include "cmd.h"

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} verbs[] = {
    {"run", cmd_run, "start a dictionary, run a command with it, end it"},
    {"up", cmd_up, "start a dictionary and serve until stdin ends"},
    {"down", cmd_down, "drain a dictionary and end it"},
    {"stats", cmd_stats, "what each manager holds and served"},
    {"ls", cmd_ls, "list keys"},
    {"get", cmd_get, "write a value to stdout or a file"},
    {"put", cmd_put, "store a value from an argument, a file or stdin"},
    {"rm", cmd_rm, "remove keys"},
};

static void help(FILE *out) {
    fprintf(out, "Usage: ddict VERB [OPTION]...\n\nThe distributed dictionary of a Slurm job, from a shell inside the job.\n\n");
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) fprintf(out, "  %-8s %s\n", verbs[i].name, verbs[i].what);
    fprintf(out, "\n  ddict VERB --help   options of a verb\n  ddict --version     version\n\n"
                 "The dictionary is the one that $DDICT_NAME names; Slurm sets it for tasks of\n"
                 "srun --ddict-mem=SIZE. Exit codes: 0 done, 1 error, 2 usage, 3 no such key.\n");
}

int cmd_usage(const char *verb, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "ddict %s: ", verb);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\nTry 'ddict %s --help'.\n", verb);
    va_end(ap);
    return EXIT_USAGE;
}

int cmd_failed(const char *verb, int code) {
    const char *text = ddict_errmsg();
    fprintf(stderr, "ddict %s: %s\n", verb, *text ? text : ddict_strerror(code));
    return code == DDICT_ENOKEY ? EXIT_NO_KEY : EXIT_ERROR;
}

int cmd_attach(const char *verb, const char *name, ddict_t **d) {
    int rc = ddict_attach(d, name, -1);
    return rc < 0 ? cmd_failed(verb, rc) : 0;
}

int cmd_flush(const char *verb) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return EXIT_OK;
    fprintf(stderr, "ddict %s: cannot write: %s\n", verb, strerror(errno));
    return EXIT_ERROR;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help(stdout);
        return cmd_flush("help");
    }
    if (!strcmp(argv[1], "--version")) {
        printf("ddict (slurm-ddict) %s\n", ddict_version());
        return cmd_flush("--version");
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(argv[1], verbs[i].name)) return verbs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "ddict: there is no verb '%s'\n", argv[1]);
    help(stderr);
    return EXIT_USAGE;
}
