/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h - copies of large values. What is larger than the caches is written past them: that saves reading each line of the destination
 * before it is written, a third of all traffic.
 */
#ifndef DDICT_BASE_COPY_H
#define DDICT_BASE_COPY_H

#include <base/defaults.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* memcpy() for part of a value that is larger than DD_COPY_PAST; complete, for other processes too, when it returns. */
void copy_past(void *dst, const void *src, size_t n);

/* n bytes of a value of `all` bytes. */
static inline void copy_value(void *dst, const void *src, size_t n, uint64_t all) {
    if (__builtin_expect(all >= DD_COPY_PAST, 0))
        copy_past(dst, src, n);
    else if (n > 0)
        memcpy(dst, src, n);
}

#endif
