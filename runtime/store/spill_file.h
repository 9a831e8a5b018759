/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill_file.h - the file of a spill, in a folder of the node (LAYOUT 11): ddictd makes it, and a
 * manager writes and reads it. Descriptors are the caller's. The functions keep nothing, and any
 * thread may call them.
 */
#ifndef DDICT_STORE_SPILL_FILE_H
#define DDICT_STORE_SPILL_FILE_H

#include <stddef.h>
#include <stdint.h>

/*
 * A file of `size` bytes (whole pages; 0: what is free in dir less DD_SPILL_LEAVE of it, divided by
 * `sharers`) without a name in the folder dir, for what memory has no room for (LAYOUT 11). Returns
 * the descriptor or a negative code with a sentence: no such folder, not writable, memory and no
 * disk, a file system that cannot promise space, more than is free. Called by ddictd.
 */
int spill_create(const char *dir, uint64_t size, unsigned sharers);
uint64_t spill_size(int fd); /* 0: none */
/* Make the file system promise the bytes [from, to) of the file. 0 or a negative code. */
int file_grow(int fd, uint64_t from, uint64_t to);

/* --- for sentences --- */
/* The path of its folder, from the kernel, in buf or in static memory. */
const char *spill_folder(int fd, char *buf, size_t cap);
const char *spill_fs_name(int fd);
uint64_t spill_free_bytes(int fd); /* of its file system; 0 if that does not say */

#endif
