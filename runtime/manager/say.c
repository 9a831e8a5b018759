/* SPDX-License-Identifier: Apache-2.0 */
/* say.c - the lines of the handshake. Who started us may have stopped reading: nobody waits for him longer than SAY_MS. */
#include <base/text.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAY_MS    2000
#define SAY_PIECE 4096u /* PIPE_BUF: a pipe that polls writable takes so much without blocking */

static void put(const char *text, size_t len) {
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (len > 0) {
        if (poll(&p, 1, SAY_MS) <= 0)
            return;
        ssize_t n = write(STDOUT_FILENO, text, len < SAY_PIECE ? len : SAY_PIECE);
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

void say_text(const char *head, const char *text) {
    size_t len = strlen(head) + strlen(text) + 16;
    char *line = malloc(len);
    if (!line)
        return;
    int n = snprintf(line, len, "ddict1 %s%s%s", head, *text ? " " : "", text);
    text_plain(line)[n++] = '\n';
    put(line,
        (size_t)n); /* one buffer, so that lines of several nodes do not mix while they are short */
    free(line);
}

void say(const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say_text(text, "");
}
