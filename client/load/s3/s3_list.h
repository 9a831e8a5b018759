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
/* Those whose key begins with prefix, in the order of their bytes, page after page of at most
 * `page` (1 to 1000). each: non-zero ends the list and is returned. */
int s3_list(struct s3 *s, const char *prefix, unsigned page,
            int (*each)(void *arg, const struct s3_object *o), void *arg);

#endif
