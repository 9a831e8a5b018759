/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verb.h - messages on stderr of the `ddict` command, and of the programs that its verbs are. All
 * lines have one form:
 *
 *     ddict VERB: what happened; what to do
 */
#ifndef DDICT_BASE_VERB_H
#define DDICT_BASE_VERB_H

#include <stdarg.h>

/* What follows is said by this verb; NULL: by no verb, the lines begin with "ddict: ". Before
 * threads are started. */
void verb_begin(const char *verb);
/* Lines begin with mark instead: another process of ours reads them and says them in its own name.
 * */
void verb_mark(const char *mark);
/* One line, at once. No newline in fmt; what does not print becomes '?'. */
void verb_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void verb_vsay(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

#endif
