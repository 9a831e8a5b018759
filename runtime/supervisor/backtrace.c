/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backtrace.c - what a handler of a fault may do is little: write(2), backtrace() once it is loaded,
 * and backtrace_symbols_fd(), which allocates nothing. Should it stop all the same, at a lock or at
 * a stderr that nobody reads, SIGALRM goes on with the fault.
 */
#include "backtrace.h"

#include <base/defaults.h>
#include <base/log.h>

#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define FRAMES     64
#define STACK_SIZE 65536

static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
/* a stack that has overflowed is no place for a handler */
static char stack[STACK_SIZE];
static volatile sig_atomic_t fault;

static char *put_text(char *at, const char *text) {
    size_t n = strlen(text);
    memcpy(at, text, n);
    return at + n;
}

static char *put_hex(char *at, uintptr_t value) {
    at = put_text(at, "0x");
    int digits = 1;
    while (digits < 16 && value >> 4 * digits)
        digits++;
    while (digits-- > 0)
        *at++ = "0123456789abcdef"[value >> 4 * digits & 15];
    return at;
}

/* The handler of the fault has been reset: this ends the process, by that signal. */
static void fault_end(int number) {
    (void)number;
    raise(fault);
}

static void faulted(int number, siginfo_t *info, void *context) {
    void *frame[FRAMES];
    char line[256], *at = line;
    (void)context;
    fault = number;
    signal(SIGALRM, fault_end);
    alarm(DD_BACKTRACE_S);
    at = put_text(at, "ddict: ");
    at = put_text(at, log_part_name());
    at = put_text(at, ": ends by SIG");
    at = put_text(at, sigabbrev_np(number));
    if (info->si_code > 0 && number != SIGABRT) {
        at = put_text(at, " at address ");
        at = put_hex(at, (uintptr_t)info->si_addr);
    }
    at = put_text(at, info->si_code > 0 || number == SIGABRT ? "\n" : ", which was sent to it\n");
    if (write(STDERR_FILENO, line, (size_t)(at - line)) >= 0)
        backtrace_symbols_fd(frame, backtrace(frame, FRAMES), STDERR_FILENO);
    fault_end(number);
}

void backtrace_on_faults(void) {
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction to = {.sa_sigaction = faulted,
                           .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | (int)SA_RESETHAND},
                     now;
    void *frame[1];
    backtrace(frame, 1); /* loads libgcc, which is too late in a handler */
    if (sigaltstack(&own, NULL) < 0)
        to.sa_flags &= ~SA_ONSTACK;
    sigemptyset(&to.sa_mask);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (sigaction(faults[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(faults[i], &to, NULL);
}
