/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - one write(2) for each line, so that lines of several processes do not mix. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* a longer line is cut; less than PIPE_BUF, so a pipe keeps it whole */
#define LINE_MAX_BYTES 1024

static char part[96] = "ddict";
static enum log_level threshold = LOG_LVL_WARN;

void log_init(const char *name) {
    const char *want = getenv("DDICT_LOG");
    log_part("%s", name);
    threshold = LOG_LVL_WARN;
    if (want && strcmp(want, "info") == 0)
        threshold = LOG_LVL_INFO;
    if (want && strcmp(want, "debug") == 0)
        threshold = LOG_LVL_DEBUG;
}

void log_part(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(part, sizeof part, fmt, ap);
    va_end(ap);
}

const char *log_part_name(void) {
    return part;
}

void log_line(enum log_level level, const char *fmt, ...) {
    char line[LINE_MAX_BYTES];
    if (level > threshold)
        return;
    int saved = errno;
    int n = snprintf(line, sizeof line, "ddict: %s: ", part);
    size_t at = n < 0 ? 0 : (size_t)n;
    va_list ap;
    va_start(ap, fmt);
    n = vsnprintf(line + at, sizeof line - at, fmt, ap);
    va_end(ap);
    at += n < 0 ? 0 : (size_t)n;
    if (at > sizeof line - 2)
        at = sizeof line - 2;
    for (size_t i = 0; i < at; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    line[at++] = '\n';
    if (write(STDERR_FILENO, line, at) < 0) { /* nowhere left to say it */
    }
    errno = saved;
}
