/* SPDX-License-Identifier: Apache-2.0 */
/* s3_page.h - one page of the list of a bucket: the XML of an answer to ListObjectsV2. */
#ifndef DDICT_LOAD_S3_S3_PAGE_H
#define DDICT_LOAD_S3_S3_PAGE_H

#include "s3_config.h"
#include "s3_list.h"

#include <expat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_TOKEN_MAX 4096u

enum s3_element { NONE, KEY, SIZE, ETAG, TRUNCATED, TOKEN };

struct s3_page {
    uint8_t *data; /* the answer; the caller's */
    size_t len, cap;
    int (*each)(void *arg, const struct s3_object *o);
    void *arg;
    /* what it says of the next page */
    bool truncated;
    char token[S3_TOKEN_MAX];
    /* the parser's state */
    XML_Parser parser;
    unsigned depth;
    bool list, contents; /* inside a ListBucketResult; inside one of its Contents */
    enum s3_element in;
    char text[3 * S3_KEY_MAX + 1], key[S3_KEY_MAX + 1], etag[160];
    size_t text_n;
    uint64_t size;
    bool wrong;
    int rc;
};

/* Call each() for every object of the page, and set truncated and token. If each() returns non-zero,
 * that is returned. Else 0 or a negative code with the sentence set. */
int s3_page_parse(struct s3_page *p, const char *bucket);

#endif
