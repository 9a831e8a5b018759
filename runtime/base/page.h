/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h - the machine's pages: 4 KiB on x86-64, 4, 16 or 64 KiB on ARM. What is mapped, given back
 * or advised by itself begins and ends at multiples of their size; the kernel refuses another
 * beginning, and rounds another end up, over bytes that were not meant. Files and arenas are the
 * same on all machines: they use DD_PAGE_MAX.
 */
#ifndef DDICT_BASE_PAGE_H
#define DDICT_BASE_PAGE_H

#include <stdint.h>
#include <unistd.h>

static inline uint64_t page_size(void) {
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

#endif
