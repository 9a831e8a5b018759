/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - what tells ddictd to end: signals, stdin, the end of the batch script. */
#ifndef DDICT_SUPERVISOR_SIGNALS_H
#define DDICT_SUPERVISOR_SIGNALS_H

#include "supervisor.h"

/* Before any thread: ignore signals that are not for ddictd; SIGTERM ends it at once. */
int signals_init(void);
/* Before the managers are forked: from here on SIGTERM and SIGCHLD come through the loop. */
int signals_block(void);
/* Listen to signals, stdin and the batch script. 1: stdin can only end. */
int signals_open(struct supervisor *s);
/* A line of stdin before the loop runs: 1, 0 at its end, -ETIMEDOUT. The caller frees *line. */
int stdin_line_read(struct supervisor *s, char **line, int timeout_ms);

#endif
