/* SPDX-License-Identifier: Apache-2.0 */
/* verb.c - the one place that prints the messages of a verb of the `ddict` command. */
#include "verb.h"

#include "text.h"

#include <stdio.h>
#include <stdlib.h>

static char before[64] = "ddict: ";

void verb_begin(const char *verb) {
    snprintf(before, sizeof before, verb ? "ddict %s: " : "ddict: ", verb);
}

void verb_mark(const char *mark) {
    snprintf(before, sizeof before, "%s", mark);
}

void verb_vsay(const char *fmt, va_list ap) {
    char *text;
    if (vasprintf(&text, fmt, ap) < 0) {
        fprintf(stderr, "%sout of memory\n", before);
        return;
    }
    fprintf(stderr, "%s%s\n", before, text_plain(text));
    free(text);
}

void verb_say(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    verb_vsay(fmt, ap);
    va_end(ap);
}
