/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - keys and values of the load in the dictionary, and its first error. */
#ifndef DDICT_LOAD_STATE_H
#define DDICT_LOAD_STATE_H

#include <stddef.h>
#include <stdint.h>

/* ("ddict.load", a, b, n...): b may be NULL, numbers are left out where negative. The length; key
 * has LOAD_KEY_CAP bytes. */
size_t state_key(void *key, const char *a, const char *b, int64_t n, int64_t i);
/* Flags as ddict_put(). 0 or a negative code with the sentence set. */
int state_put(const char *a, const char *b, int64_t n, int64_t i, const void *value, size_t len,
              unsigned flags);
/* A text, 0-terminated in cap bytes; 0, DDICT_ENOKEY, or another negative code. */
int state_text(const char *a, const char *b, int64_t n, char *text, size_t cap);
/* A value, malloc'ed. */
int state_get(const char *a, const char *b, int64_t n, int64_t i, uint8_t **value, size_t *len);
int state_has(const char *a, const char *b, int64_t n);
int state_del(const char *a, const char *b, int64_t n, int64_t i);
/* The first error: told to all. Prints nothing. */
void load_fail(int code, const char *sentence);
/* It, copied into text, and its code; 0: none. */
int load_why(char *text, size_t cap);
/* A libddict call failed: its sentence as ours. */
int load_error(int code);

#endif
