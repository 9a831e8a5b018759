/* SPDX-License-Identifier: Apache-2.0 */
/* size.h - convert "16G" to bytes and back. The suffixes K, M, G, T (also KiB, MB, ...) are powers
 * of 1024, in upper or lower case. */
#ifndef DDICT_BASE_SIZE_H
#define DDICT_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* 0, -EINVAL (no number, unknown suffix, sign, trailing text), -ERANGE (does not fit in 63 bits).
 * "1.5G" is allowed. */
int size_parse(const char *text, uint64_t *bytes);
/* Decimal digits only, lo <= n <= hi; 0, -EINVAL, -ERANGE. */
int count_parse(const char *text, uint64_t lo, uint64_t hi, uint64_t *n);
/* Whose pages memory is made of: "no" (0), "advise" (1), or the size of those of a pool, a power of
 * two such as "2M". 0 or -EINVAL. */
int hugepages_parse(const char *text, uint64_t *page);
/* "16.0 GiB" into buf (at least 16 bytes); returns buf. */
char *size_format(char *buf, size_t cap, uint64_t bytes);

#endif
