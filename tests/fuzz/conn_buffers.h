/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_buffers.h - the buffers of connections, kept from one input to the next: a sanitizer's
 * malloc() maps each anew, which took a third of the time of an input. A buffer stands between two
 * pages that nobody may touch, is poisoned while it is free, and has the same bytes each time that it
 * is given. For targets that are linked with --wrap=malloc and --wrap=free.
 */
#ifndef DDICT_TESTS_FUZZ_CONN_BUFFERS_H
#define DDICT_TESTS_FUZZ_CONN_BUFFERS_H

#include "fuzz.h"
#include <base/defaults.h>
#include <wire/conn_inside.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(at, n)   ((void)(at), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#endif

static struct {
    uint8_t *at;
    bool taken;
} conn_buffer[16]; /* more than are open at once: those behind them are malloc()'s */

enum { CONN_BUFFERS = sizeof conn_buffer / sizeof *conn_buffer };

void *__real_malloc(size_t n);
void __real_free(void *at);
void *__wrap_malloc(size_t n);
void __wrap_free(void *at);

static uint8_t *conn_buffer_map(void) {
    uint8_t *map = mmap(NULL, IN_BUFFER + 2 * DD_PAGE_MAX, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fuzz_must(map != MAP_FAILED);
    fuzz_must(mprotect(map + DD_PAGE_MAX, IN_BUFFER, PROT_READ | PROT_WRITE) == 0);
    return map + DD_PAGE_MAX;
}

void *__wrap_malloc(size_t n) {
    for (unsigned i = 0; n == IN_BUFFER && i < CONN_BUFFERS; i++) {
        if (conn_buffer[i].taken)
            continue;
        if (!conn_buffer[i].at)
            conn_buffer[i].at = conn_buffer_map();
        conn_buffer[i].taken = true;
        ASAN_UNPOISON_MEMORY_REGION(conn_buffer[i].at, IN_BUFFER);
        return memset(conn_buffer[i].at, 0xbe, IN_BUFFER);
    }
    return __real_malloc(n);
}

void __wrap_free(void *at) {
    for (unsigned i = 0; at && i < CONN_BUFFERS && conn_buffer[i].at; i++) {
        if (conn_buffer[i].at != at)
            continue;
        fuzz_must(conn_buffer[i].taken);
        conn_buffer[i].taken = false;
        ASAN_POISON_MEMORY_REGION(conn_buffer[i].at, IN_BUFFER);
        return;
    }
    __real_free(at);
}

#endif
