/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - writes that bypass the caches. */
#include "copy.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define LINE 64u
/* bytes: the processor's own prefetch ends with each page, and another core may have the lines */
#define AHEAD 1024u

void copy_past(void *dst, const void *src, size_t n) {
    uint8_t *to = dst;
    const uint8_t *from = src;
    size_t head = -(uintptr_t)to & (LINE - 1);
    if (n < 4 * LINE) {
        memcpy(to, from, n);
        return;
    }
    memcpy(to, from, head);
    to += head;
    from += head;
    n -= head;
    for (; n >= LINE; n -= LINE, to += LINE, from += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from),
                b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32)),
                d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
        _mm_stream_si128((__m128i *)(void *)to, a);
        _mm_stream_si128((__m128i *)(void *)(to + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + 48), d);
        /* beyond the end it does no harm */
        _mm_prefetch((const char *)from + AHEAD, _MM_HINT_T0);
    }
    _mm_sfence(); /* before any store that says that they are there */
    memcpy(to, from, n);
}
#else
void copy_past(void *dst, const void *src, size_t n) {
    memcpy(dst, src, n);
}
#endif
