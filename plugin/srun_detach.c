/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_detach.c - in the managers' own srun. `ddict up` ends when a job's dictionary is ready, and
 * srun stays: slurmstepd tells it at the end that the tasks exited, and would try for 2.3 s if
 * nobody listened. But an srun that is told to end, or whose output is a pipe that nobody reads,
 * ends its step. So `ddict up` sends LEAVE_SIGNAL when it leaves. From then on srun writes to
 * /dev/null and ignores the signals that would end its step: the kernel drops a signal that is
 * ignored and not blocked by the main thread, although a thread of srun's waits for it. (With a
 * handler instead, the second of two signals at once would go to that thread.)
 *
 * Nobody ends such an srun that misses the end of its step. So a thread looks at its connections:
 * while a step runs, each slurmstepd has one to srun, for the tasks' output.
 */
#include "srun_detach.h"

#include <launch/step_argv.h>

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define LOOKS 10 /* at the connections, within the time that srun may be without one */

static const int shielded[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGPIPE};
static int left[2] = {-1, -1}; /* a pipe; a byte: srun was left alone */

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
    /* An srun that is ending tells its thread by SIGINT to look at a flag, and waits for it. That
     * SIGINT was dropped if the thread had not taken it yet; SIGCONT makes it look, too. */
    kill(getpid(), SIGCONT);
    (void)!write(left[1], "", 1);
}

static int is_connected(int fd) {
    struct tcp_info info;
    socklen_t len = sizeof info;

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           info.tcpi_state == TCP_ESTABLISHED;
}

static int any_is_connected(void) {
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    int any = !d; /* cannot look */

    while (d && !any && (e = readdir(d)))
        any = isdigit((unsigned char)e->d_name[0]) && is_connected(atoi(e->d_name));
    if (d)
        closedir(d);
    return any;
}

/* It counts looks, not time: srun may be stopped meanwhile. */
static void *connections_watch(void *look_ms) {
    int without = 0;
    char c;

    while (read(left[0], &c, 1) != 1)
        continue;
    while (without < LOOKS) {
        poll(NULL, 0, (int)(intptr_t)look_ms);
        without = any_is_connected() ? 0 : without + 1;
    }
    _exit(0);
}

/* Without a thread srun is left alone all the same. */
static void watch_start(int alone_ms) {
    sigset_t all, before;
    pthread_t thread;

    if (pipe2(left, O_CLOEXEC) < 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, connections_watch, (void *)(intptr_t)(alone_ms / LOOKS)) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void srun_detach_prepare(int alone_ms) {
    struct sigaction ours = {.sa_sigaction = on_leave, .sa_flags = SA_SIGINFO | SA_RESTART};

    watch_start(alone_ms);
    sigaction(LEAVE_SIGNAL, &ours, NULL);
}
