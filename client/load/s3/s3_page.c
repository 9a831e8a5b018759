/* SPDX-License-Identifier: Apache-2.0 */
/* s3_page.c - read one page of the list of a bucket. API: Amazon S3 API Reference, ListObjectsV2. */
#include "s3_page.h"

#include <base/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct s3_page *p = arg;
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
    struct s3_page *p = arg;
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
    struct s3_page *p = arg;
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

int s3_page_parse(struct s3_page *p, const char *bucket) {
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
