/* SPDX-License-Identifier: Apache-2.0 */
/* s3_list.h - the objects of a bucket. */
#ifndef DDICT_LOAD_S3_S3_LIST_H
#define DDICT_LOAD_S3_S3_LIST_H

#include <stdint.h>

struct s3;
struct s3_object {
    const char *key;  /* 0-terminated: no key has a zero byte */
    const char *etag; /* with its quotes, or "" */
    uint64_t size;
};
/* Call each() for every object whose key begins with prefix, in the order of the keys' bytes. page:
 * objects of one request, 1 to 1000. If each() returns non-zero, the list ends and returns that.
 * Else 0 or a negative code with the sentence set. */
int s3_list(struct s3 *s, const char *prefix, unsigned page,
            int (*each)(void *arg, const struct s3_object *o), void *arg);

#endif
