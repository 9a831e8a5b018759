/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3.h - a bucket of S3, and the bytes of its objects, many at once. Failed transfers are tried
 * again (s3_transfer.h).
 *
 * A struct s3 is used by one thread. Functions return 0 or a negative code with the sentence set,
 * -ECANCELED when load_stopped().
 */
#ifndef DDICT_LOAD_S3_S3_H
#define DDICT_LOAD_S3_S3_H

#include "s3_config.h"

#include <stddef.h>
#include <stdint.h>

struct s3;
/* Open s3://bucket[/prefix]. region: NULL for the configuration's. */
int s3_open(struct s3 **out, const char *text, const char *region);
void s3_close(struct s3 *s);
const char *s3_prefix(const struct s3 *s); /* "" or the prefix as written */
const char *s3_region(const struct s3 *s); /* the region where the bucket proved to be */

/* --- objects, many at once --- */
struct s3_want {
    const char *key, *etag; /* the caller's, and valid until the object is done */
    uint64_t size;
    size_t index; /* the caller's own */
    /* Takes the object's bytes as they come. Returns 0, or anything else to end it, which becomes
     * `status`. NULL: they go into data. */
    int (*take)(void *arg, const void *bytes, size_t len);
    void *arg;
    /* when done */
    /* 0; -ENOENT gone, -ESTALE another object now, -EACCES refused, -EIO; what take() returned */
    int status;
    char why[480]; /* the sentence, without the name of the object */
    uint8_t *data; /* size bytes, malloc'ed: the caller frees them */
};
/* Begin to get an object. s3 owns w until s3_done() returns it. */
int s3_start(struct s3 *s, struct s3_want *w);
unsigned s3_under_way(const struct s3 *s);
/* Wait until an object is done. NULL with *rc 0: none is under way; NULL with a negative *rc: it
 * failed. */
struct s3_want *s3_done(struct s3 *s, int *rc);

#endif
