/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_detach.c - in the managers' own srun. `ddict up` ends when a job's dictionary is ready, and
 * srun stays: at the end slurmstepd tells it about the tasks' exit, and tries for 2.3 s where
 * nobody listens. What stays may do no harm: an srun that is told to end, or whose output is a pipe
 * that nobody reads, ends its step. `ddict up` says LEAVE_SIGNAL when it leaves; from then on srun
 * writes to /dev/null, and of the signals that would end its step it takes none: the kernel throws
 * away what is ignored and not blocked by the main thread, though another thread, srun's, waits for
 * it. (With a handler in its place the second of two at once would go to that one.)
 */
#include "srun_detach.h"

#include <launch/step_argv.h>

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static const int shielded[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGPIPE};

/* Only async-signal-safe calls. The caller sees that we have done it by the end of our output. */
static void on_leave(int sig, siginfo_t *info, void *context) {
    struct sigaction none = {.sa_handler = SIG_IGN};
    struct sigaction unreaped = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    ucontext_t *back = context;
    sigset_t set;
    size_t i;
    int fd;

    if (info->si_pid != getppid() && info->si_pid != getpid())
        return;
    if (syscall(SYS_gettid) != getpid()) { /* the main thread's is the mask that counts */
        syscall(SYS_tgkill, getpid(), getpid(), sig);
        return;
    }
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    sigemptyset(&set);
    for (i = 0; i < sizeof shielded / sizeof *shielded; i++) {
        sigaction(shielded[i], &none, NULL);
        sigaddset(&set, shielded[i]);
        sigdelset(&back->uc_sigmask, shielded[i]); /* what holds when we have returned */
    }
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* until then */
    /* its child, which `ddict up` has killed, must not stay as a zombie */
    sigaction(SIGCHLD, &unreaped, NULL);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

void srun_detach_prepare(void) {
    struct sigaction ours = {.sa_sigaction = on_leave, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigaction(LEAVE_SIGNAL, &ours, NULL);
}
