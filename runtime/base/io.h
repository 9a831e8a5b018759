/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io.h - read and write all that is asked for: short counts go on, EINTR is tried again. For files
 * and for descriptors that block. On one that does not, and is not ready, a call ends with -EAGAIN.
 * The descriptor stays the caller's.
 */
#ifndef DDICT_BASE_IO_H
#define DDICT_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* 0, or a negated errno; -ENOSPC where the file takes nothing. How much was written before a
 * failure is not known. The second one writes at a position of the file and leaves its own. */
int write_all(int fd, const void *bytes, size_t len);
int write_all_at(int fd, const void *bytes, size_t len, uint64_t at);

/* How many bytes were read: len, or fewer where the file ends. On failure a negated errno; bytes
 * then has whatever came before it. */
ssize_t read_all(int fd, void *bytes, size_t len);
ssize_t read_all_at(int fd, void *bytes, size_t len, uint64_t at);

#endif
