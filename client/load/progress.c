/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.c - show the progress of a load on stderr: as a bar on a terminal, else as a line every
 * 30 s. A leader that was started by srun writes lines that begin with MARK to its front, which
 * draws the bar.
 */
#include "progress.h"

#include "load.h"
#include <base/clock.h>
#include <base/size.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MARK      "ddict1 progress "
#define LOG_MS    30000
#define BAR_MS    200
#define BAR_WIDTH 24

static uint64_t began, shown, rate_at, rate_read;
static double rate; /* recent rate: bytes of the source per second */
static bool drawn;

void progress_start(void) {
    began = rate_at = shown = clock_ms();
}

void progress_clear(void) {
    if (drawn)
        fputs("\r\033[K", stderr);
    drawn = false;
}

static void left_format(char *out, size_t cap, double s) {
    if (s >= 3600)
        snprintf(out, cap, "%d h %02d min left", (int)(s / 3600), (int)(s / 60) % 60);
    else if (s >= 60)
        snprintf(out, cap, "%d min %02d s left", (int)(s / 60), (int)s % 60);
    else
        snprintf(out, cap, "%d s left", (int)(s + 0.5));
}

/* "items, bytes, rate, time left" */
static void text_format(char *out, size_t cap, const struct progress *p) {
    char have[24], speed[24], left[40] = "";
    uint64_t now = clock_ms();
    if (now >= rate_at + 1000) {
        double last = (double)(p->read - rate_read) * 1000 / (double)(now - rate_at);
        rate = rate > 0 ? 0.7 * rate + 0.3 * last : last;
        rate_at = now;
        rate_read = p->read;
    }
    if (rate > 0 && p->total > p->read)
        left_format(left, sizeof left, (double)(p->total - p->read) / rate);
    snprintf(
        out, cap, "%" PRIu64 " items, %s, %s/s%s%s", p->items,
        size_format(have, sizeof have, p->bytes),
        size_format(speed, sizeof speed,
                    (uint64_t)(now > began ? (double)p->bytes * 1000 / (double)(now - began) : 0)),
        *left != 0 ? ", " : "", left);
}

static void bar_draw(const struct progress *p, const char *text) {
    struct winsize w;
    char bar[BAR_WIDTH + 1];
    double part = p->total > 0 ? (double)p->read / (double)p->total : 0;
    int full = part > 1 ? BAR_WIDTH : (int)(part * BAR_WIDTH),
        columns = ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)full);
    bar[BAR_WIDTH] = 0;
    char line[400];
    snprintf(line, sizeof line, "%3d%% [%s] %s", part > 1 ? 100 : (int)(100 * part), bar, text);
    fprintf(stderr, "\r%.*s\033[K", columns - 1, line);
    fflush(stderr);
    drawn = true;
}

static void progress_draw(const struct progress *p) {
    static int terminal = -1;
    char text[200];
    uint64_t now = clock_ms();
    if (terminal < 0)
        terminal = isatty(2);
    if (now < shown + (terminal ? BAR_MS : LOG_MS))
        return;
    shown = now;
    text_format(text, sizeof text, p);
    if (terminal)
        bar_draw(p, text);
    else
        fprintf(stderr, "ddict load: %d%%, %s\n",
                p->total > 0 ? (int)(100.0 * (double)p->read / (double)p->total) : 0, text);
}

void progress_show(const struct progress *p) {
    if (the_load.o->quiet)
        return;
    if (!the_load.o->run) {
        progress_draw(p);
        return;
    }
    fprintf(stderr, MARK "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", p->read, p->total,
            p->items, p->bytes);
    fflush(stderr);
}

void progress_line(char *line) {
    struct progress p = {0};
    if (strncmp(line, MARK, sizeof MARK - 1) != 0) {
        progress_clear();
        fprintf(stderr, "%s\n", line);
    } else if (sscanf(line + sizeof MARK - 1, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
                      &p.read, &p.total, &p.items, &p.bytes) == 4 &&
               !the_load.o->quiet) {
        if (began == 0)
            progress_start();
        progress_draw(&p);
    }
}
