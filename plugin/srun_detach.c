/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_detach.c - in the managers' own srun. `ddict up` ends when a job's dictionary is ready, and
 * srun stays: slurmstepd tells it at the end that the tasks exited, and would try for 2.3 s if
 * nobody listened. But an srun that is told to end, or whose output is a pipe that nobody reads,
 * ends its step. So `ddict up` sends LEAVE_SIGNAL when it leaves. From then on srun writes to
 * /dev/null and ignores the signals that would end its step: the kernel drops a signal that is
 * ignored and not blocked by the main thread, although a thread of srun's waits for it. (With a
 * handler instead, the second of two signals at once would go to that thread.)
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

/* Only async-signal-safe calls. `ddict up` sees by the end of our output that this is done. */
static void on_leave(int sig, siginfo_t *info, void *context) {
    struct sigaction none = {.sa_handler = SIG_IGN};
    struct sigaction unreaped = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    ucontext_t *back = context;
    sigset_t set;
    size_t i;
    int fd;

    if (info->si_pid != getppid() && info->si_pid != getpid())
        return;
    if (syscall(SYS_gettid) != getpid()) { /* the main thread's mask counts */
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
        sigdelset(&back->uc_sigmask, shielded[i]); /* the mask after we return */
    }
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* the mask until then */
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
