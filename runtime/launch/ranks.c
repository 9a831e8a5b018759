/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - start, watch and end the processes of `ddict run`. */
#include "ranks.h"

#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/oom.h>
#include <base/verb.h>
#include <place/torch_env.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* over: also what the user set. What we set is marked. */
static void text_set(char mark[TORCH_MARK_MAX], const char *name, const char *text, int over) {
    if (!over && getenv(name))
        return;
    setenv(name, text, 1);
    torch_mark_add(mark, name, text);
}

static void number_set(char mark[TORCH_MARK_MAX], const char *name, int n, int over) {
    char text[16];

    snprintf(text, sizeof text, "%d", n);
    text_set(mark, name, text, over);
}

/*
 * A port for init_process_group("env://"). It is bound but does not listen, so that rank 0, which
 * binds it with SO_REUSEADDR as well, gets it and nobody else is given it by chance. Who wants it,
 * another user too, takes it with SO_REUSEADDR before rank 0 does. The number, or 0.
 */
static int port_hold(int *fd) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int one = 1;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(*fd, (struct sockaddr *)&a, sizeof a) == 0 &&
        getsockname(*fd, (struct sockaddr *)&a, &len) == 0)
        return ntohs(a.sin_port);
    return 0;
}

/* What ddict_runtime.h and torch look for. MASTER_* are the user's where he set them; the ranks are
 * ours. */
static void rank_environment(int rank, int n, const char *id, int port) {
    char mark[TORCH_MARK_MAX] = "", none[TORCH_MARK_MAX] = "";

    torch_env_forget();
    setenv("DDICT_RUN_ID", id, 1);
    number_set(none, "DDICT_RUN_RANK", rank, 1);
    number_set(none, "DDICT_RUN_SIZE", n, 1);
    number_set(mark, "RANK", rank, 1);
    number_set(mark, "LOCAL_RANK", rank, 1);
    number_set(mark, "WORLD_SIZE", n, 1);
    number_set(mark, "LOCAL_WORLD_SIZE", n, 1);
    number_set(mark, "GROUP_RANK", 0, 1);
    text_set(mark, "MASTER_ADDR", "127.0.0.1", 0);
    if (port > 0)
        number_set(mark, "MASTER_PORT", port, 0);
    setenv(TORCH_MARK, mark, 1);
}

/* As mpirun does it: one of several can read the terminal. */
static void stdin_null(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        dup2(fd, 0);
        close(fd);
    }
}

void command_exec(char **cmd) {
    sigset_t none;
    int code;

    oom_first();
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(cmd[0], cmd);
    code = errno == ENOENT ? 127 : 126;
    verb_say("%s: %s", cmd[0], strerror(errno));
    _exit(code);
}

static void stop_at(struct ranks *r, int signo) {
    ranks_signal(r, signo);
    r->stopping = 1;
    deadline_start(&r->limit, DD_RANKS_STOP_MS);
}

int ranks_start(struct ranks *r, int n, int several, const char *id, char **cmd,
                void (*prepare)(void *arg), void *arg) {
    int rank, port = 0, rc;

    memset(r, 0, sizeof *r);
    r->port = -1;
    r->several = several;
    r->pid = calloc((size_t)n, sizeof *r->pid);
    if (!r->pid)
        return dd_error(-ENOMEM, "no memory for %d ranks", n);
    if (several)
        port = port_hold(&r->port);
    for (rank = 0; rank < n; rank++) {
        pid_t pid = fork();

        if (pid == 0) {
            prepare(arg);
            if (several)
                rank_environment(rank, n, id, port);
            if (several && rank > 0)
                stdin_null();
            command_exec(cmd);
        }
        if (pid < 0) {
            rc =
                dd_error(-errno, "cannot start process %d of %d: %s", rank + 1, n, strerror(errno));
            ranks_signal(r, SIGKILL);
            while (rank-- > 0)
                waitpid(r->pid[rank], NULL, 0);
            ranks_free(r);
            r->n = r->left = 0;
            return rc;
        }
        r->pid[rank] = pid;
        r->n = r->left = rank + 1;
    }
    return 0;
}

static void rank_ended(struct ranks *r, int rank, int status) {
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

    r->pid[rank] = 0;
    r->left--;
    if (code == 0 || r->code != 0)
        return;
    r->code = code;
    if (r->left > 0 && !r->stopping) {
        verb_say("rank %d ended with %s %d; the others are ended", rank,
                 WIFSIGNALED(status) ? "signal" : "exit code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : code);
        stop_at(r, SIGTERM);
    }
}

int ranks_reap(struct ranks *r) {
    int rank, status, had = r->left;

    for (rank = 0; rank < r->n; rank++)
        if (r->pid[rank] > 0 && waitpid(r->pid[rank], &status, WNOHANG) == r->pid[rank])
            rank_ended(r, rank, status);
    return had > 0 && r->left == 0;
}

void ranks_signal(struct ranks *r, int signo) {
    int rank;

    for (rank = 0; rank < r->n; rank++)
        if (r->pid[rank] > 0)
            kill(r->pid[rank], signo);
}

int ranks_turn(struct ranks *r) {
    if (!r->stopping || r->left == 0)
        return -1;
    if (deadline_over(&r->limit))
        stop_at(r, SIGKILL);
    return deadline_left(&r->limit, -1);
}

void ranks_free(struct ranks *r) {
    if (r->port >= 0)
        close(r->port);
    r->port = -1;
    free(r->pid);
    r->pid = NULL;
}
