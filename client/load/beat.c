/* SPDX-License-Identifier: Apache-2.0 */
/* beat.c - the leader's beat: it repeats its state to the workers, so that they know it lives. */
#include "beat.h"

#include "load.h"
#include "signals.h"
#include "state.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct {
    char says[LOAD_ERROR_MAX]; /* the text after the sequence number */
    uint64_t seq, put_ms;
    int signal;
} beat;

static int beat_put(void) {
    char text[LOAD_ERROR_MAX + 32];
    snprintf(text, sizeof text, "%" PRIu64 " %s", ++beat.seq, beat.says);
    beat.put_ms = clock_ms();
    return state_put(the_load.run, NULL, -1, -1, text, strlen(text), DDICT_TAG(LOAD_TAG_STR));
}

int beat_say(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(beat.says, sizeof beat.says, fmt, ap);
    va_end(ap);
    return beat_put();
}

int beat_tick(int ms) {
    char text[64];
    int sig = signals_wait(ms);
    if (sig != 0) {
        beat.signal = sig;
        snprintf(text, sizeof text, "ended by a signal (%s)", strsignal(sig));
        load_fail(-ECANCELED, text);
    }
    int rc = clock_ms() >= beat.put_ms + LOAD_BEAT_MS ? beat_put() : 0;
    if (rc < 0)
        load_fail(rc, dd_errmsg());
    return load_stopped() ? -ECANCELED : 0;
}

int beat_signal(void) {
    return beat.signal;
}
