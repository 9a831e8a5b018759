/* SPDX-License-Identifier: Apache-2.0 */
/* s3_list.c - list the objects of a bucket, page by page. API: Amazon S3 API Reference,
 * ListObjectsV2. */
#include "s3_list.h"

#include "s3_page.h"
#include "s3_transfer.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* more than the largest page: 1000 keys of 1024 bytes, each byte encoded as three */
#define PAGE_BYTES (16u << 20)

static int page_take(struct transfer *t, const void *bytes, size_t len) {
    struct s3_page *p = t->arg;
    if (t->got == 0)
        p->len = 0;
    if (VEC_ROOM(&p->data, &p->cap, p->len + len, 65536) < 0)
        return -ENOMEM;
    memcpy(p->data + p->len, bytes, len);
    p->len += len;
    return 0;
}

/* Get one page. */
static int page_get(struct s3 *s, struct s3_page *p, const char *prefix, const char *token,
                    unsigned page) {
    struct transfer *t = &s->transfer[0];
    char most[16];
    int rc, regions = 0;
    snprintf(most, sizeof most, "%u", page);
    do { /* repeat if the bucket proves to be in another region */
        *t->url = *t->etag = 0;
        s3_url(s, t->url, sizeof t->url, "");
        char before = '?'; /* parameters in sorted order, as the signature wants them */
        if (*token != 0) {
            s3_query(t->url, sizeof t->url, before, "continuation-token", token);
            before = '&';
        }
        s3_query(t->url, sizeof t->url, before, "encoding-type", "url");
        s3_query(t->url, sizeof t->url, '&', "list-type", "2");
        s3_query(t->url, sizeof t->url, '&', "max-keys", most);
        s3_query(t->url, sizeof t->url, '&', "prefix", prefix);
        t->limit = PAGE_BYTES;
        t->exact = false;
        t->take = page_take;
        t->arg = p;
        p->len = 0;
        rc = transfer_begin(s, t);
        if (rc == 0 && !transfer_done(s, &rc)) {
            transfer_end(s, t);
            return rc;
        }
        if (rc < 0)
            return rc;
        if (t->status == 0)
            return 0;
        if ((t->http != 301 && t->http != 307 && t->http != 400) || *t->region == 0 ||
            strcmp(t->region, s->config.region) == 0)
            break;
        snprintf(s->config.region, sizeof s->config.region, "%s", t->region);
    } while (regions++ == 0);
    return t->status == -ECANCELED
               ? -ECANCELED
               : dd_error(t->status, "s3://%s/%s: cannot list: %s", s->bucket, prefix, t->why);
}

int s3_list(struct s3 *s, const char *prefix, unsigned page,
            int (*each)(void *arg, const struct s3_object *o), void *arg) {
    /* earlier: the token after 1, 2, 4, 8, ... pages, so that a cycle of any length is noticed */
    char token[S3_TOKEN_MAX] = "", earlier[S3_TOKEN_MAX] = "";
    struct s3_page *p = calloc(1, sizeof *p);
    uint64_t pages = 0;
    int rc;
    if (!p)
        return dd_error(-ENOMEM, "out of memory");
    p->each = each;
    p->arg = arg;
    do {
        rc = page_get(s, p, prefix, token, page);
        if (rc == 0)
            rc = s3_page_parse(p, s->bucket);
        if (rc == 0 && p->truncated && pages > 0 &&
            (strcmp(p->token, token) == 0 || strcmp(p->token, earlier) == 0))
            rc = dd_error(-EBADMSG,
                          "s3://%s/%s: the list of objects does not end: the server gives the same "
                          "continuation again",
                          s->bucket, prefix);
        memcpy(token, p->token, sizeof token);
        pages++;
        if ((pages & (pages - 1)) == 0)
            memcpy(earlier, token, sizeof earlier);
    } while (rc == 0 && p->truncated);
    free(p->data);
    free(p);
    return rc;
}
