/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c - signals that end a load are blocked, and the main thread takes them between two
 * turns, so that it can report the end in the dictionary. */

#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

static sigset_t ends;

void signals_block(void) {
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGQUIT);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
}

int signals_wait(int ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int sig = sigtimedwait(&ends, NULL, &t);
    return sig < 0 ? 0 : sig;
}
