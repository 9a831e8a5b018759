/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - one rule for the whole code base: int functions return 0 or a count, or a negated errno
 * value, or a negative DDICT_E* code (ddict_types.h). Each thread has its own sentence for people,
 * set where the cause is understood.
 */
#ifndef DDICT_BASE_ERROR_H
#define DDICT_BASE_ERROR_H

#include <ddict_types.h>

#include <stdbool.h>

#define DD_ERRMSG_MAX 512 /* bytes with the final 0 */

/* Store the sentence of the calling thread and return code. Format as printf. */
int dd_error(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same, and with it a kind, of the caller's own numbers from 1 on, for who has to tell failures
 * of one code apart. */
int dd_error_kind(int code, int kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* That of the calling thread's last failure; 0: it has none. */
int dd_errkind(void);
/* The same with the code's own text for a sentence, for failures that are too frequent to format
 * one (a miss). */
int dd_error_plain(int code);
/* The sentence of the calling thread; "" when none. Valid until its next dd_error(). */
const char *dd_errmsg(void);
/* Text of any code; static. (ddict_strerror() is this.) */
const char *dd_strerror(int code);
/* The key is not there. For keys whose loss is as good as their absence: who does not know whether a
 * key had a value of worth must tell DDICT_EKEYLOST from DDICT_ENOKEY. */
static inline bool key_is_absent(int code) {
    return code == DDICT_ENOKEY || code == DDICT_EKEYLOST;
}

#endif
