/* SPDX-License-Identifier: Apache-2.0 */
/* gunzip.h - gzip by zlib, which checks the checksums; libarchive's own reader of gzip does not.
 * Several members behind each other are one stream. */
#ifndef DDICT_LOAD_FORMAT_GUNZIP_H
#define DDICT_LOAD_FORMAT_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct gunzip;

/* pull gives the next compressed bytes: it returns their number (*bytes stays valid until the next
 * call), 0 at the end, or -1 with errno set. NULL without memory. */
struct gunzip *gunzip_new(ssize_t (*pull)(void *arg, const uint8_t **bytes), void *arg);
/* Read at most n bytes. Returns their number, 0 at the end, or -1: gunzip_why() says why. */
ssize_t gunzip_read(struct gunzip *g, void *buf, size_t n);
const char *gunzip_why(const struct gunzip *g);
void gunzip_free(struct gunzip *g);
bool gunzip_is(const uint8_t *head, size_t n);

#endif
