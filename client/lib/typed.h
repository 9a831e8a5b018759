/* SPDX-License-Identifier: Apache-2.0 */
/* typed.h - what keys and values of ddict_values.h share: numbers as text (FORMAT, section 1). */
#ifndef CLIENT_TYPED_H
#define CLIENT_TYPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECIMAL_MAX 20 /* bytes of a 64-bit number with its sign */

/* Write the number, without a final 0. Returns the length. */
size_t decimal_write(char text[DECIMAL_MAX], bool negative, uint64_t number);
size_t decimal_write_int(char text[DECIMAL_MAX], int64_t number);
/* Whether this is how a number is written: there is one way for each. */
bool decimal_is(const void *text, size_t len);
/* Of a text that decimal_is(). False: the number does not fit. */
bool decimal_read_int(const void *text, size_t len, int64_t *number);

#endif
