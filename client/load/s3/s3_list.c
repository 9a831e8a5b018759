/* SPDX-License-Identifier: Apache-2.0 */
/* s3_list.c - list the objects of a bucket, page by page. API: Amazon S3 API Reference,
 * ListObjectsV2. */
#include "s3_list.h"

#include "s3_transfer.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* more than the largest page: 1000 keys of 1024 bytes, each byte encoded as three */
#define PAGE_BYTES (16u << 20)
#define TOKEN_MAX  4096u

enum element { NONE, KEY, SIZE, ETAG, TRUNCATED, TOKEN };

struct page {
    uint8_t *data;
    size_t len, cap;
    /* the parser's state */
    XML_Parser parser;
    unsigned depth;
    bool list, contents; /* inside a ListBucketResult; inside one of its Contents */
    enum element in;
    char text[3 * S3_KEY_MAX + 1], key[S3_KEY_MAX + 1], etag[160];
    size_t text_n;
    uint64_t size;
    bool truncated, wrong;
    char token[TOKEN_MAX];
    int (*each)(void *arg, const struct s3_object *o);
    void *arg;
    int rc;
};

static int page_take(struct transfer *t, const void *bytes, size_t len) {
    struct page *p = t->arg;
    if (t->got == 0)
        p->len = 0;
    if (VEC_ROOM(&p->data, &p->cap, p->len + len, 65536) < 0)
        return -ENOMEM;
    memcpy(p->data + p->len, bytes, len);
    p->len += len;
    return 0;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* Decode a key of encoding-type=url: %XX, and + for a blank. False: not valid. */
static bool key_decode(char *out, const char *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int c = text[i] == '+' ? ' ' : (unsigned char)text[i];
        if (c == '%') {
            if (i + 2 >= len || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0)
                return false;
            c = hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]);
            i += 2;
        }
        if (c == 0 || n == S3_KEY_MAX)
            return false;
        out[n++] = (char)c;
    }
    out[n] = 0;
    return n > 0;
}

static void on_open(void *arg, const XML_Char *name, const XML_Char **attributes) {
    struct page *p = arg;
    (void)attributes;
    if (p->depth == 0)
        p->list = strcmp(name, "ListBucketResult") == 0;
    else if (p->depth == 1 && strcmp(name, "Contents") == 0) {
        p->contents = true;
        p->size = UINT64_MAX;
        *p->key = *p->etag = 0;
    }
    p->in = p->contents && p->depth == 2 ? strcmp(name, "Key") == 0    ? KEY
                                           : strcmp(name, "Size") == 0 ? SIZE
                                           : strcmp(name, "ETag") == 0 ? ETAG
                                                                       : NONE
            : p->depth == 1              ? strcmp(name, "IsTruncated") == 0             ? TRUNCATED
                                           : strcmp(name, "NextContinuationToken") == 0 ? TOKEN
                                                                                        : NONE
                                         : NONE;
    p->text_n = 0;
    p->depth++;
}

static void on_text(void *arg, const XML_Char *text, int len) {
    struct page *p = arg;
    if (p->in == NONE)
        return;
    if ((size_t)len > sizeof p->text - 1 - p->text_n) {
        p->wrong = true;
        return;
    }
    memcpy(p->text + p->text_n, text, (size_t)len);
    p->text_n += (size_t)len;
}

static void on_close(void *arg, const XML_Char *name) {
    struct page *p = arg;
    char *end;
    p->depth--;
    p->text[p->text_n] = 0;
    if (p->in == KEY)
        p->wrong |= !key_decode(p->key, p->text, p->text_n);
    else if (p->in == SIZE) {
        p->size = strtoull(p->text, &end, 10);
        p->wrong |= p->text_n == 0 || *end != 0 || p->size > INT64_MAX;
    } else if (p->in == ETAG && p->text_n < sizeof p->etag)
        memcpy(p->etag, p->text, p->text_n + 1);
    else if (p->in == TRUNCATED)
        p->truncated = strcmp(p->text, "true") == 0;
    else if (p->in == TOKEN) {
        p->wrong |= p->text_n >= sizeof p->token;
        snprintf(p->token, sizeof p->token, "%.*s", (int)sizeof p->token - 1, p->text);
    }
    p->in = NONE;
    if (p->depth == 1 && p->contents && strcmp(name, "Contents") == 0) {
        struct s3_object o = {.key = p->key, .etag = p->etag, .size = p->size};
        p->contents = false;
        p->wrong |= *p->key == 0 || p->size == UINT64_MAX;
        if (!p->wrong && p->list && p->rc == 0)
            p->rc = p->each(p->arg, &o);
    }
    if (p->wrong || p->rc != 0)
        XML_StopParser(p->parser, XML_FALSE);
}

static int page_parse(struct page *p, const char *bucket) {
    p->parser = XML_ParserCreate(NULL);
    if (!p->parser)
        return dd_error(-ENOMEM, "out of memory");
    p->depth = 0;
    p->list = p->contents = p->truncated = p->wrong = false;
    p->in = NONE;
    p->rc = 0;
    *p->token = 0;
    XML_SetUserData(p->parser, p);
    XML_SetElementHandler(p->parser, on_open, on_close);
    XML_SetCharacterDataHandler(p->parser, on_text);
    bool parsed = XML_Parse(p->parser, (const char *)p->data, (int)p->len, 1) == XML_STATUS_OK;
    XML_ParserFree(p->parser);
    if (p->rc != 0)
        return p->rc;
    if (!parsed || p->wrong || !p->list)
        return dd_error(-EBADMSG, "s3://%s: the answer is no list of objects", bucket);
    if (p->truncated && *p->token == 0)
        return dd_error(-EBADMSG, "s3://%s: the list of objects breaks off: no continuation",
                        bucket);
    return 0;
}

/* Get one page. */
static int page_get(struct s3 *s, struct page *p, const char *prefix, const char *token,
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
    char token[TOKEN_MAX] = "", earlier[TOKEN_MAX] = "";
    struct page *p = calloc(1, sizeof *p);
    uint64_t pages = 0;
    int rc;
    if (!p)
        return dd_error(-ENOMEM, "out of memory");
    p->each = each;
    p->arg = arg;
    do {
        rc = page_get(s, p, prefix, token, page);
        if (rc == 0)
            rc = page_parse(p, s->bucket);
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
