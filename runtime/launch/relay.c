/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.c - a verb of the `ddict` command on a host that has no managers, such as a login node: the
 * same verb runs on the first node of the dictionary, by an srun, or, where srun did not reach that, on
 * the next one: with --replicas=2 the dictionary may have lost it. stdin, stdout, stderr and the exit
 * code pass through; files are opened here.
 */
#include "relay.h"

#include "command.h"
#include "launch.h"
#include "site.h"
#include "startup_lines.h"
#include "step.h"
#include "step_argv.h"
#include "up_run_common.h"
#include <base/defaults.h>
#include <base/error.h>
#include <base/io.h>
#include <base/user.h>
#include <base/verb.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RELAY_ARGS 64

extern char **environ;

static volatile pid_t srun_pid;

/* srun ends its step by SIGTERM; it is in a session of its own, so ^C is not for it. */
static void on_signal(int sig) {
    if (srun_pid > 0)
        kill(srun_pid, SIGTERM);
    _exit(128 + sig);
}

/* "uid.job.rest" -> job and, where it is a number, the step, and where it is two, the component;
 * else $SLURM_JOB_ID. 0 or -ENOENT. */
static int job_of(const char *name, char *job, size_t job_cap, char *step, size_t step_cap,
                  unsigned *component) {
    const char *dot = strchr(name, '.'), *rest, *own = getenv("SLURM_JOB_ID");
    size_t n = dot ? strspn(dot + 1, "0123456789") : 0;
    char more;

    *step = '\0';
    *component = 0;
    if (n > 0 && n < job_cap && dot[1 + n] == '.' && strtoul(name, NULL, 10) == geteuid()) {
        memcpy(job, dot + 1, n);
        job[n] = '\0';
        rest = dot + n + 2;
        n = strspn(rest, "0123456789");
        if (n > 0 && n < step_cap &&
            (rest[n] == '\0' || strcmp(rest + n, ".run") == 0 ||
             sscanf(rest + n, ".%10u%c", component, &more) == 1))
            snprintf(step, step_cap, "%.*s", (int)n, rest);
        return 0;
    }
    return own && *own != '\0' && (size_t)snprintf(job, job_cap, "%s", own) < job_cap ? 0 : -ENOENT;
}

struct complaint { /* of srun, that it did not begin; said where no other node is left */
    int unreached;
    char text[1024];
};

static int is_unreached(const char *line) {
    return (strstr(line, "Task launch for ") && strstr(line, "failed on node")) ||
           strstr(line, "Required node not available") ||
           strstr(line, "Requested node configuration is not available");
}

/* What srun adds about the exit code is no news. */
static void on_error_line(void *arg, char *line) {
    struct complaint *c = arg;
    size_t n = strlen(c->text);

    if (strncmp(line, "srun: ", 6) == 0 &&
        (strstr(line, "Exited with exit code") || strstr(line, "Terminating StepId")))
        return;
    if (strncmp(line, "srun: ", 6) == 0)
        c->unreached |= is_unreached(line);
    if (c->unreached && n < sizeof c->text)
        snprintf(c->text + n, sizeof c->text - n, "%s\n", line);
    else
        fprintf(stderr, "%s\n", line);
}

struct sink {
    const char *file; /* NULL: our stdout */
    int fd;           /* -1: not opened yet */
    char last;
    int failed;
};

/* The file is opened when there is something to put into it, or when all is well. */
static void sink_write(struct sink *s, const char *bytes, size_t n) {
    int rc = 0;

    if (s->failed)
        return;
    if (s->fd < 0)
        s->fd = s->file ? open(s->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : 1;
    rc = s->fd < 0 ? -errno : write_all(s->fd, bytes, n);
    if (n > 0)
        s->last = bytes[n - 1];
    if (rc < 0) {
        verb_say("%s: %s", s->file ? s->file : "stdout", strerror(-rc));
        s->failed = 1;
    }
}

/* Until both ends are closed; the verb itself has the deadlines. */
static void outputs_pass(int out, int err, struct sink *sink, struct complaint *complaint) {
    struct pollfd p[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    struct lines lines = {.max = 65536};
    char buf[65536];
    ssize_t n;

    while (p[0].fd >= 0 || p[1].fd >= 0) {
        if (poll(p, 2, -1) < 0)
            continue;
        if (p[0].revents != 0) {
            n = read(out, buf, sizeof buf);
            if (n > 0)
                sink_write(sink, buf, (size_t)n);
            else if (n == 0 || errno != EINTR)
                p[0].fd = -1;
        }
        if (p[1].revents != 0) {
            n = read(err, buf, sizeof buf);
            if (n > 0)
                lines_feed(&lines, buf, (size_t)n, on_error_line, complaint);
            else if (n == 0 || errno != EINTR)
                p[1].fd = -1;
        }
    }
    lines_free(&lines);
}

static int relay_run(char *const *argv, char *const *envp, int in, const char *out_file,
                     struct complaint *complaint) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sink sink = {.file = out_file, .fd = -1};
    int out[2] = {-1, -1}, err[2] = {-1, -1}, status = 0, rc;
    size_t i;

    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0) {
        rc = dd_error(-errno, "cannot make pipes: %s", strerror(errno));
        close(out[0]);
        close(out[1]);
        return rc;
    }
    signal(SIGCHLD, SIG_DFL);
    rc = command_spawn(argv, envp, in, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    if (rc > 0) {
        srun_pid = rc;
        for (i = 0; i < sizeof signals / sizeof *signals; i++)
            signal(signals[i], on_signal);
        outputs_pass(out[0], err[0], &sink, complaint);
        while (waitpid(srun_pid, &status, 0) < 0 && errno == EINTR)
            continue;
        srun_pid = 0;
        rc = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (rc == 0 && (out_file || (isatty(1) && sink.last != '\0' && sink.last != '\n')))
            sink_write(&sink, "\n", !out_file); /* an empty file is a file too */
        if (sink.failed && rc == 0)
            rc = 1;
        if (sink.fd > 2)
            close(sink.fd);
    }
    close(out[0]);
    close(err[0]);
    return rc;
}

static int relay_to(const char *srun, const char *job, const struct step *step, size_t node,
                    const char *name, char *const *args, int in, const char *out_file,
                    struct complaint *complaint) {
    char self[PATH_MAX], **argv, **envp;
    const char *program[RELAY_ARGS] = {self, args[0], "--name", name};
    struct part first = {
        .group = step->parts[0].group, .nodelist = step->nodes.names[node], .nodes = 1};
    struct hidden h = {
        .srun = srun, .job = job, .parts = &first, .nparts = 1, .mpi = "none", .program = program};
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    int rc, i;

    if (n < 0)
        return dd_error(-errno, "/proc/self/exe: %s", strerror(errno));
    self[n] = '\0';
    for (i = 1; args[i]; i++) {
        if (i + 4 >= RELAY_ARGS)
            return dd_error(
                -E2BIG,
                "too many arguments for a host without managers; run it on a node of the job");
        program[i + 3] = args[i];
    }
    setenv(RELAYED, "1", 1);
    envp = command_environment(environ, 0);
    argv = hidden_argv(&h);
    rc = !envp || !argv ? -ENOMEM : relay_run(argv, envp, in, out_file, complaint);
    argv_free(argv);
    free(envp);
    return rc;
}

int relay_find(const char *name, char *job, size_t job_cap, char *srun, size_t srun_cap,
               struct step *step, char ***envp) {
    char step_id[16], scontrol[PATH_MAX], why[ASK_WHY], own[64];
    struct settings site = {0};
    struct component only = {0};
    int rc;

    *envp = NULL;
    if (!name)
        name = getenv("DDICT_NAME");
    if ((!name || *name == '\0') && getenv("SLURM_JOB_ID")) {
        snprintf(own, sizeof own, "%lu.%s.job", user_of_job(), getenv("SLURM_JOB_ID"));
        name = own;
    }
    /* wrong words stop who starts a dictionary, not who looks into one */
    site_read(&site, why, sizeof why);
    if (!name || *name == '\0' ||
        job_of(name, job, job_cap, step_id, sizeof step_id, &only.job) < 0 ||
        command_find(is_said(&site, OPT_SRUN) ? text_of(&site, OPT_SRUN) : "srun", srun, srun_cap) <
            0 ||
        (command_beside(srun, "scontrol", scontrol, sizeof scontrol) < 0 &&
         command_find("scontrol", scontrol, sizeof scontrol) < 0))
        return -ENOENT;
    *envp = command_environment(environ, 0);
    if (!*envp)
        return -ENOMEM;
    rc = step_look(step, scontrol, *envp, job, step_id[0] != '\0' ? step_id : NULL,
                   only.job != 0 ? &only : NULL);
    if (rc < 0) {
        free(*envp);
        *envp = NULL;
    }
    return rc;
}

/* The first component's nodes come first, and any of them will do. */
static int relay_anywhere(const char *srun, const char *job, const struct step *step,
                          const char *name, char *const *args, int in, const char *out_file) {
    size_t node = 0, n = step->parts[0].nodes;
    struct complaint c;
    int rc;

    do {
        c = (struct complaint){0};
        rc = relay_to(srun, job, step, node, name, args, in, out_file, &c);
    } while (rc > 0 && c.unreached && ++node < n);
    fputs(c.text, stderr);
    return rc;
}

int launch_relay(const char *name, char *const *args, int in, const char *out_file) {
    char job[32], srun[PATH_MAX];
    struct step step = {0};
    char **envp = NULL;
    int rc;

    if (getenv(RELAYED) || getenv("SLURMD_NODENAME"))
        return -ENOENT;
    rc = relay_find(name, job, sizeof job, srun, sizeof srun, &step, &envp);
    if (rc == 0)
        rc = relay_anywhere(srun, job, &step, name, args, in, out_file);
    step_free(&step);
    free(envp);
    return rc;
}
