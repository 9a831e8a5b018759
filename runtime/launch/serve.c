/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - the small parts that `ddict up` and `ddict run` share. */
#include "launch/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

int signals_open(void) {
    sigset_t set;
    int fd;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    signal(SIGCHLD, SIG_DFL); /* an ignored one would reap our children unseen */
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int bytes_write(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t w = write(fd, bytes, n);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return -errno;
        bytes += w;
        n -= (size_t)w;
    }
    return 0;
}

static const char *environment(const char *name) {
    const char *v = getenv(name);

    return v != NULL && *v != '\0' ? v : NULL;
}

/* The options as they were typed, for the record; cut where they are long. */
static const char *asked_join(char **argv, char **end) {
    static char text[1024];
    size_t n = 0;

    if (end != NULL && end - argv > 1 && strcmp(end[-1], "--") == 0)
        end--;
    for (argv++; *argv != NULL && argv != end && n < sizeof text; argv++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n > 0 ? " " : "", *argv);
    return text;
}

/* The plugin's line is not what the user typed. */
static const char *asked_of_plugin(const struct options *o) {
    static char text[200];

    snprintf(text, sizeof text, "%s%.64s%s%s%.64s",
             o->managers_text != NULL ? "--ddict-managers=" : "",
             o->managers_text != NULL ? o->managers_text : "",
             o->managers_text != NULL && o->mem_text != NULL ? " " : "",
             o->mem_text != NULL ? "--ddict-mem=" : "", o->mem_text != NULL ? o->mem_text : "");
    return text;
}

int command_line(struct options *o, const char *verb, int argc, char **argv, char *why,
                 size_t cap) {
    char site_why[ASK_WHY];
    int rc;

    memset(o, 0, sizeof *o);
    o->verb = verb;
    rc = site_read(&o->site, site_why, sizeof site_why);
    if (options_parse(o, argc, argv, environment, why, cap) < 0)
        return 3;
    if (o->help) {
        fputs(options_usage(verb), stdout);
        return 1;
    }
    if (rc < 0) { /* when the options are read, which say who is to be told */
        snprintf(why, cap, "%s", site_why);
        return 3;
    }
    if (o->asked == NULL)
        o->asked = o->plugin ? asked_of_plugin(o) : asked_join(argv, o->cmd);
    if (o->job == NULL)
        o->job = environment("SLURM_JOB_ID");
    return 0;
}
