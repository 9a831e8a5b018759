/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - keys and values of the load in the dictionary, and its first error. */
#ifndef DDICT_LOAD_STATE_H
#define DDICT_LOAD_STATE_H

#include <stddef.h>
#include <stdint.h>

/* Add an element, a str or an int, to a key that is a tuple and has `at` bytes, of which the first
 * is 't'. The new length. */
size_t tuple_text(uint8_t *key, size_t at, const char *text);
size_t tuple_number(uint8_t *key, size_t at, int64_t n);
/* Write the key ("ddict.load", a, b, n, i) to key, which has room for LOAD_KEY_CAP bytes. A NULL b
 * and negative numbers are left out. Returns its length. The other functions take the same a, b, n
 * and i. */
size_t state_key(void *key, const char *a, const char *b, int64_t n, int64_t i);
/* Put a value. flags as in ddict_put(). 0 or a negative code with the sentence set. */
int state_put(const char *a, const char *b, int64_t n, int64_t i, const void *value, size_t len,
              unsigned flags);
/* Get a text, 0-terminated, into cap bytes. 0, DDICT_ENOKEY, or another negative code with the
 * sentence set. */
int state_text(const char *a, const char *b, int64_t n, char *text, size_t cap);
/* As state_text(), of a key that is looked at again and again: without a long wait while keys are
 * read again. -EAGAIN: not now, or it was lost. */
int state_peek(const char *a, const char *b, int64_t n, char *text, size_t cap);
/* Get a value, malloc'ed: the caller frees it. Returns as state_text(). */
int state_get(const char *a, const char *b, int64_t n, int64_t i, uint8_t **value, size_t *len);
/* 1: the key is there; 0: it is not; or a negative code with the sentence set. */
int state_has(const char *a, const char *b, int64_t n);
/* 0, also if the key is not there; or a negative code with the sentence set. */
int state_del(const char *a, const char *b, int64_t n, int64_t i);
/* Delete all keys ("ddict.load", a, ...) but ("ddict.load", a, but, ...). Their number, or a
 * negative code with the sentence set. */
int state_clear(const char *a, const char *but);
/* Tell all processes of the first error, so that they stop. Prints nothing. */
void load_fail(int code, const char *sentence);
/* Copy the first error's sentence into text. Returns its code; 0: there is none. */
int load_why(char *text, size_t cap);
/* Drop the first error, so that another set can be read. No thread may run. */
void error_clear(void);
/* A call of libddict failed with code: its sentence becomes ours. Returns code. */
int load_error(int code);

#endif
