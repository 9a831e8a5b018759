/* SPDX-License-Identifier: Apache-2.0 */
/* backtrace.h - where a process was that ends by a fault of its own, on its stderr. */
#ifndef DDICT_SUPERVISOR_BACKTRACE_H
#define DDICT_SUPERVISOR_BACKTRACE_H

/*
 * From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT end this process, and those that it
 * forks, with two kinds of lines as those of log.h: the signal with the address of the fault, and
 * where the thread was, a line for each frame ("ddictd(+0x1a2b) [0x...]", for addr2line(1)). Then
 * they end it as before, with a core where one is wanted. A signal that has a handler is left: a
 * sanitizer says more.
 */
void backtrace_on_faults(void);

#endif
