/* SPDX-License-Identifier: Apache-2.0 */
/* up_run_common.c - the small parts that `ddict up` and `ddict run` share. */
#include "up_run_common.h"

#include "site.h"

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

static const char *variable_value(const char *name) {
    const char *v = getenv(name);

    return v && *v != '\0' ? v : NULL;
}

/* The options as they were typed, for the record; cut where they are long. */
static const char *asked_join(char **argv, char **end) {
    static char text[1024];
    size_t n = 0;

    if (end && end - argv > 1 && strcmp(end[-1], "--") == 0)
        end--;
    for (argv++; *argv && argv != end && n < sizeof text; argv++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n > 0 ? " " : "", *argv);
    return text;
}

int command_line(struct options *o, const char *verb, int argc, char **argv, char *why,
                 size_t cap) {
    char site_why[ASK_WHY];
    int rc;

    memset(o, 0, sizeof *o);
    o->verb = verb;
    rc = site_read(&o->set, site_why, sizeof site_why);
    if (options_parse(o, argc, argv, variable_value, why, cap) < 0)
        return 3;
    if (is_said(&o->set, OPT_HELP)) {
        options_usage(verb);
        return 1;
    }
    if (rc < 0) { /* when the options are read, which say who is to be told */
        snprintf(why, cap, "%s", site_why);
        return 3;
    }
    if (!is_said(&o->set, OPT_ASKED))
        settings_put_text(&o->set, OPT_ASKED, asked_join(argv, o->cmd));
    return 0;
}

void once_forget(void) {
    for (enum option_id o = 0; o < OPTS; o++)
        if ((option_rows[o].of & ONCE) != 0)
            unsetenv(option_rows[o].variable);
}
