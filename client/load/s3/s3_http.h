/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_http.h - requests to S3 by libcurl, signed (s3_sign.h). What may pass (no connection, a
 * connection that breaks or stands still, 408, 429, 5xx) is tried again, later each time, and a
 * value goes on where it broke off; what cannot pass is told with S3's own words. No wait is
 * without a limit: DD_S3_CONNECT_MS, DD_S3_STALL_MS without a byte ($DDICT_S3_STALL seconds), so
 * many attempts.
 *
 * A struct s3 is used by one thread. Functions return 0 or a negative code with the sentence set,
 * -ECANCELED when load_stopped().
 */
#ifndef DDICT_LOAD_S3_S3_HTTP_H
#define DDICT_LOAD_S3_S3_HTTP_H

#include "s3_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_KEY_MAX 1024u /* bytes; S3 allows no longer ones */
#define S3_FLIGHT  32u   /* objects on their way at once, of one thread */

struct s3;
/* text: s3://bucket[/prefix]. region: NULL: the configuration's. */
int s3_open(struct s3 **out, const char *text, const char *region);
void s3_close(struct s3 *s);
const char *s3_prefix(const struct s3 *s); /* "" or as written */
const char *s3_region(const struct s3 *s); /* where the bucket proved to be */

/* --- the list of objects --- */
struct s3_object {
    const char *key;  /* 0-terminated: no key has a zero byte */
    const char *etag; /* with its quotes, or "" */
    uint64_t size;
};
/* Those whose key begins with prefix, in the order of their bytes, page after page of at most
 * `page` (1 to 1000). each: non-zero ends the list and is returned. */
int s3_list(struct s3 *s, const char *prefix, unsigned page,
            int (*each)(void *arg, const struct s3_object *o), void *arg);

/* --- objects, many at once --- */
struct s3_want {
    const char *key, *etag; /* the caller's until it is done */
    uint64_t size;
    size_t index; /* the caller's own */
    /* Its bytes as they come. 0, or anything else: not wanted any more, which is then `status`.
     * NULL: into data */
    int (*take)(void *arg, const void *bytes, size_t len);
    void *arg;
    /* when done */
    /* 0; -ENOENT gone, -ESTALE another object now, -EACCES refused, -EIO; what take() returned */
    int status;
    char why[480]; /* the sentence without the name of the object */
    uint8_t *data; /* size bytes, malloc'ed: the caller's then */
};
/* Begin. w is the library's until s3_done() returns it. */
int s3_start(struct s3 *s, struct s3_want *w);
unsigned s3_under_way(const struct s3 *s);
/* Wait for one to be done; NULL with *rc 0: none is under way, else *rc is a code. */
struct s3_want *s3_done(struct s3 *s, int *rc);

#endif
