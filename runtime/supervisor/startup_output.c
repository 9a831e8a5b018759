/* SPDX-License-Identifier: Apache-2.0 */
/* startup_output.c - the lines on stdout for the process that started ddictd (STARTUP 2). It may
 * have stopped reading, so no line waits for it longer than STARTUP_PRINT_MS. */
#include "startup_output.h"

#include "supervisor.h"
#include <base/text.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STARTUP_PRINT_MS 2000
/* PIPE_BUF: a pipe that polls writable takes this much without blocking */
#define STARTUP_PRINT_PIECE 4096u

static void stdout_write(const char *text, size_t len) {
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (len > 0) {
        if (poll(&p, 1, STARTUP_PRINT_MS) <= 0)
            return;
        ssize_t n =
            write(STDOUT_FILENO, text, len < STARTUP_PRINT_PIECE ? len : STARTUP_PRINT_PIECE);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return;
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
}

const char *hex_format(char text[33], const uint8_t id[16]) {
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
    return text;
}

void startup_print_text(const char *head, const char *text) {
    size_t len = strlen(head) + strlen(text) + 16;
    char *line = malloc(len);
    if (!line)
        return;
    int n = snprintf(line, len, "ddict1 %s%s%s", head, *text ? " " : "", text);
    text_plain(line)[n++] = '\n';
    /* in one write, so that short lines of several nodes do not mix */
    stdout_write(line, (size_t)n);
    free(line);
}

void startup_print(const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    startup_print_text(text, "");
}

const char *managers_job(void) {
    const char *component = getenv("DDICT_COMPONENT");

    return component && *component != '\0' ? component : getenv("SLURM_JOB_ID");
}
