/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - start other programs with a clean environment, and read what short ones say. */
#include "command.h"

#include "option_table.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/oom.h>
#include <base/vec.h>
#include <wire/attach.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The plugin has this file too, and srun has threads: between fork and exec nothing may take a
 * lock. */
#define READ_MAX      (8u << 20) /* bytes: `scontrol -d show job` of 65,536 nodes */
#define SLICE_MS      100
#define EXIT_SLICE_MS 2 /* between two looks: a program exits soon after its output ends */

/*
 * What Slurm's commands need to find their configuration and to prove who asks goes with them.
 * LD_LIBRARY_PATH and LD_PRELOAD do not: what a user's modules and virtual environments put there
 * is meant for programs, and managers would load another libfabric or libsodium than the site's.
 */
static int variable_kept(const char *entry, int all) {
    static const char *const keep[] = {"PATH",
                                       "HOME",
                                       "USER",
                                       "LOGNAME",
                                       "LANG",
                                       "LC_ALL",
                                       "TZ",
                                       "SLURM_CONF",
                                       "SLURM_CONF_SERVER",
                                       "SLURM_JWT",
                                       "SLURM_SACK_SOCKET",
                                       "SLURM_SACK_KEY",
                                       "SLURM_SACK_JWKS",
                                       "SLURM_RESTART_COUNT",
                                       JOB_VARIABLE};
    const char *const drop[] = {"DDICT_NAME",
                                "DDICT_NODE",
                                "DDICT_SOCKET",
                                "DDICT_INTERNAL",
                                "DDICT_NOTE_FD",
                                "DDICT_COMPONENT",
                                option_rows[OPT_MANAGERS].variable,
                                option_rows[OPT_MEM].variable,
                                option_rows[OPT_LOAD].variable};
    size_t n = strcspn(entry, "="), i;

    for (i = 0; i < sizeof keep / sizeof *keep; i++)
        if (strlen(keep[i]) == n && memcmp(entry, keep[i], n) == 0)
            return 1;
    for (i = 0; i < sizeof drop / sizeof *drop; i++)
        if (strlen(drop[i]) == n && memcmp(entry, drop[i], n) == 0)
            return 0;
    /* FI_: of libfabric */
    return all || strncmp(entry, "DDICT_", 6) == 0 || strncmp(entry, "FI_", 3) == 0;
}

char **command_environment(char *const *from, int all) {
    static char internal[40], pmix[] = "SLURM_PMIX_DIRECT_CONN=false";
    size_t n = 0, i = 0;
    char **env;

    while (from[n])
        n++;
    env = calloc(n + 4, sizeof *env); /* one for command_environment_add() */
    if (!env)
        return NULL;
    for (n = 0; from[n]; n++)
        if (variable_kept(from[n], all))
            env[i++] = from[n];
    snprintf(internal, sizeof internal, "DDICT_INTERNAL=%d", (int)getpid());
    env[i++] = internal;
    /* A slurmstepd that connects to another one directly is turned away while that one acts as the
     * user to start its task ("Unauthorized credential"), and the fence then never ends: of 16
     * nodes on a busy machine one start in ten. By way of slurmd nothing is turned away. */
    if (!all)
        env[i++] = pmix;
    return env;
}

void command_environment_add(char **env, char *entry) {
    while (*env)
        env++;
    *env = entry;
}

const char *const source_variables[] = {
    "AWS_",         "SSL_CERT_", "CURL_CA_",  "http_proxy=", "https_proxy=",
    "HTTPS_PROXY=", "no_proxy=", "NO_PROXY=", "ALL_PROXY=",  NULL};

static int is_named(const char *const *names, const char *entry) {
    for (; names && *names; names++)
        if (strncmp(entry, *names, strlen(*names)) == 0)
            return 1;
    return 0;
}

char **command_environment_more(char **env, char *const *from, const char *const *names) {
    size_t n = 0, all = 0, i;
    char **more;

    while (env[n])
        n++;
    while (from[all])
        all++;
    more = calloc(n + all + 2, sizeof *more);
    if (more)
        memcpy(more, env, n * sizeof *more);
    for (i = 0; more && i < all; i++)
        if (is_named(names, from[i]))
            more[n++] = from[i];
    free(env);
    return more;
}

int command_find(const char *name, char *path, size_t cap) {
    const char *dir = getenv("PATH");

    if (strchr(name, '/')) {
        /* what we start runs in / */
        char *whole = *name == '/' ? strdup(name) : realpath(name, NULL);
        int fits =
            whole && (size_t)snprintf(path, cap, "%s", whole) < cap && access(path, X_OK) == 0;

        free(whole);
        return fits ? 0 : -ENOENT;
    }
    for (; dir && *dir != '\0';) {
        size_t n = strcspn(dir, ":");

        if (n > 0 && (size_t)snprintf(path, cap, "%.*s/%s", (int)n, dir, name) < cap &&
            access(path, X_OK) == 0)
            return 0;
        dir += n + (dir[n] == ':');
    }
    return -ENOENT;
}

int command_beside(const char *beside, const char *name, char *path, size_t cap) {
    const char *slash = strrchr(beside, '/');

    if (!slash ||
        (size_t)snprintf(path, cap, "%.*s/%s", (int)(slash - beside), beside, name) >= cap)
        return -ENOENT;
    return access(path, X_OK) == 0 ? 0 : -ENOENT;
}

void command_close_from(int first) {
    int i;

    if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) < 0) /* before Linux 5.9 */
        for (i = first; i < 4096; i++)
            close(i);
}

/* 0..2 become in, out, err; nothing else stays open. Only async-signal-safe calls. */
static void descriptors_set(int in, int out, int err) {
    int fds[] = {in, out, err}, n = 3, i;

    for (i = 0; i < n; i++) { /* out of the way of 0..n first */
        if (fds[i] < 0)
            fds[i] = open("/dev/null", O_RDWR);
        if (fds[i] < n)
            fds[i] = fcntl(fds[i], F_DUPFD, n);
    }
    for (i = 0; i < n; i++)
        dup2(fds[i], i);
    command_close_from(n);
}

static void child_run(char *const *argv, char *const *envp, int in, int out, int err)
    __attribute__((noreturn));
static void child_run(char *const *argv, char *const *envp, int in, int out, int err) {
    static const char head[] = "cannot run ";
    sigset_t none;
    int sig;

    setsid();        /* the terminal's ^C is not for it */
    oom_not_first(); /* a task that starts a dictionary has said that of itself */
    for (sig = 1; sig < 32; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    descriptors_set(in, out, err);
    if (chdir("/") == 0)
        execve(argv[0], argv, envp);
    sig = errno;
    if (write(2, head, sizeof head - 1) < 0 || write(2, argv[0], strlen(argv[0])) < 0 ||
        write(2, sig == ENOENT ? ": no such file\n" : ": not possible here\n",
              sig == ENOENT ? 15 : 20) < 0)
        _exit(126);
    _exit(127);
}

int command_spawn(char *const *argv, char *const *envp, int in, int out, int err) {
    pid_t pid = fork();

    if (pid == 0)
        child_run(argv, envp, in, out, err);
    return pid < 0 ? dd_error(-errno, "cannot start %s: %s", argv[0], strerror(errno)) : (int)pid;
}

/* Read both ends until they close; 0 or a negative code. */
static int outputs_read(int out, int err, struct deadline *limit, char **text, size_t *len,
                        char *tail, size_t cap) {
    struct pollfd p[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    size_t room = 0, tail_len = 0;
    int left;

    while (p[0].fd >= 0 || p[1].fd >= 0) {
        char buf[4096];
        ssize_t n;

        left = deadline_left(limit, SLICE_MS);
        if (left == 0)
            return -ETIMEDOUT;
        if (poll(p, 2, left) < 0 && errno != EINTR)
            return -errno;
        if (p[0].revents != 0) {
            n = read(out, buf, sizeof buf);
            if (n <= 0)
                p[0].fd = -1;
            if (n > 0 && *len + (size_t)n + 1 > room &&
                (*len > READ_MAX || VEC_ROOM(text, &room, *len + (size_t)n + 1, 8192) < 0))
                return -ENOMEM;
            if (n > 0) {
                memcpy(*text + *len, buf, (size_t)n);
                *len += (size_t)n;
                (*text)[*len] = '\0';
            }
        }
        if (p[1].revents != 0) {
            n = read(err, buf, sizeof buf);
            if (n <= 0)
                p[1].fd = -1;
            if (n > 0 && tail_len + (size_t)n < cap) {
                memcpy(tail + tail_len, buf, (size_t)n);
                tail_len += (size_t)n;
            }
        }
    }
    while (tail_len > 0 && tail[tail_len - 1] == '\n')
        tail_len--;
    tail[tail_len] = '\0';
    return 0;
}

/* It may have closed its outputs and live on. 0 or -ETIMEDOUT. */
static int exit_await(pid_t pid, int *status, struct deadline *limit) {
    pid_t rc;
    int left;

    while ((rc = waitpid(pid, status, WNOHANG)) == 0 || (rc < 0 && errno == EINTR)) {
        left = deadline_left(limit, EXIT_SLICE_MS);
        if (left == 0)
            return -ETIMEDOUT;
        poll(NULL, 0, left);
    }
    return 0;
}

int command_read(char *const *argv, char *const *envp, int timeout_ms, char **text) {
    int out[2] = {-1, -1}, err[2] = {-1, -1}, rc, status = 0, pid;
    struct deadline limit;
    char tail[1024] = "";
    size_t len = 0;

    *text = NULL;
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0) {
        rc = dd_error(-errno, "cannot start %s: %s", argv[0], strerror(errno));
        if (out[0] >= 0) {
            close(out[0]);
            close(out[1]);
        }
        return rc;
    }
    pid = command_spawn(argv, envp, -1, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    deadline_start(&limit, timeout_ms);
    rc = pid < 0 ? pid : outputs_read(out[0], err[0], &limit, text, &len, tail, sizeof tail);
    close(out[0]);
    close(err[0]);
    if (pid > 0) {
        if (rc == 0)
            rc = exit_await(pid, &status, &limit);
        if (rc < 0) {
            kill(pid, SIGKILL);
            deadline_start(&limit, DD_STOP_MS);
            exit_await(pid, &status, &limit);
        }
        if (rc == -ETIMEDOUT)
            dd_error(rc, "%s did not answer within %d s", argv[0], timeout_ms / 1000);
        else if (rc < 0)
            dd_error(rc, "%s: %s", argv[0], strerror(-rc));
        else if (status != 0)
            rc = dd_error(WIFEXITED(status) && len > 0 ? -ENODATA : -EIO, "%s",
                          tail[0] != '\0' ? tail : "Slurm's command failed without a word");
        else if (!*text && !(*text = calloc(1, 1)))
            rc = -ENOMEM;
    }
    if (rc < 0) {
        free(*text);
        *text = NULL;
    }
    return rc;
}
