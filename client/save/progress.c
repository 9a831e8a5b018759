/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - how far a save or restore is: one line on a terminal, drawn again and again; in a
 * log a line every 30 s. */
#include "progress.h"

#include "save.h"
#include <base/clock.h>
#include <base/size.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_MAX 65536u
#define TERMINAL_NS 200000000ull
#define LOG_NS      30000000000ull
#define MARK        "ddict-progress " /* begins a worker's line for its front */

static struct { uint64_t items, bytes; } * done;
static unsigned workers;
static uint64_t total, began, said;
static bool shown, terminal, drawn;
static const char *verb;

void progress_begin(uint64_t total_bytes, bool show, const char *what) {
    total = total_bytes;
    shown = show;
    verb = what;
    terminal = isatty(2);
    began = said = clock_ns();
}

void progress_clear(void) {
    if (drawn)
        fputs("\r\033[K", stderr);
    drawn = false;
}

static void progress_draw(void) {
    uint64_t now = clock_ns(), items = 0, bytes = 0;
    char a[24], b[24], left[40] = "";
    if (!shown || now - said < (terminal ? TERMINAL_NS : LOG_NS))
        return;
    said = now;
    for (unsigned w = 0; w < workers; w++) {
        items += done[w].items;
        bytes += done[w].bytes;
    }
    double s = (double)(now - began) / 1e9, rate = (double)bytes / s;
    if (total > bytes && rate > 0)
        snprintf(left, sizeof left, ", about %.0f s left", (double)(total - bytes) / rate);
    fprintf(stderr, "%sddict %s: %" PRIu64 " items, %s, %s/s%s%s", terminal ? "\r\033[K" : "", verb,
            items, size_format(a, sizeof a, bytes), size_format(b, sizeof b, (uint64_t)rate), left,
            terminal ? "" : "\n");
    drawn = terminal;
}

void progress_put(unsigned worker, uint64_t items, uint64_t bytes) {
    if (worker >= WORKERS_MAX)
        return;
    if (worker >= workers) {
        void *more = realloc(done, (worker + 1) * sizeof *done);
        if (!more)
            return;
        done = more;
        memset(done + workers, 0, (worker + 1 - workers) * sizeof *done);
        workers = worker + 1;
    }
    done[worker].items = items;
    done[worker].bytes = bytes;
    progress_draw();
}

void progress_line(char *line) {
    unsigned worker;
    uint64_t items, bytes;
    if (sscanf(line, MARK "%u %" SCNu64 " %" SCNu64, &worker, &items, &bytes) == 3) {
        progress_put(worker, items, bytes);
        return;
    }
    progress_clear();
    fprintf(stderr, "%s\n", line);
}

void progress_tell(const struct save_run *run) {
    fprintf(stderr, MARK "%u %" PRIu64 " %" PRIu64 "\n", run->worker,
            __atomic_load_n(&run->items, __ATOMIC_RELAXED),
            __atomic_load_n(&run->bytes, __ATOMIC_RELAXED));
}
