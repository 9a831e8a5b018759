/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_transfer.h - requests to S3 by libcurl, signed (s3_sign.h). What may pass (no connection, a
 * connection that breaks or stands still, 408, 429, 5xx) is tried again, later each time, and a
 * value goes on where it broke off; what cannot pass is told with S3's own words. No wait is
 * without a limit: DD_S3_CONNECT_MS, DD_S3_STALL_MS without a byte ($DDICT_S3_STALL seconds), so
 * many attempts.
 */
#ifndef DDICT_LOAD_S3_S3_TRANSFER_H
#define DDICT_LOAD_S3_S3_TRANSFER_H

#include "s3_config.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_URL_MAX (8192u) /* every byte of a key may take three */

struct s3_want;
struct transfer { /* a URL that is being got */
    CURL *easy;
    struct curl_slist *headers;
    bool busy, in_multi; /* busy and not in the multi handle: waits for its next attempt */
    unsigned attempts;
    uint64_t again_ns;
    char url[S3_URL_MAX], etag[160], error[CURL_ERROR_SIZE];
    uint64_t limit, got;        /* bytes there may be, bytes taken */
    bool exact;                 /* there must be so many */
    uint64_t begun_at, skipped; /* got when the attempt began; bytes that came a second time */
    bool larger;
    int (*take)(struct transfer *t, const void *bytes, size_t len);
    int taken;  /* what it returned when it wanted no more */
    char *told; /* the body of an error */
    size_t told_n;
    char region[64]; /* of the bucket, as the answer says; "" it does not */
    /* when done */
    long http;
    int status;
    char why[480];
    struct s3_want *want;
    void *arg;
};

struct s3 {
    struct s3_config config;
    char bucket[256], prefix[S3_KEY_MAX + 1];
    CURLM *multi;
    struct transfer transfer[S3_FLIGHT + 1]; /* the first is for lists */
};

/* Begin a transfer whose url, limit, exact, take and etag are set. It is attempted again as long as
 * that may help; then transfer_done() gives it back. */
int transfer_begin(struct s3 *s, struct transfer *t);
void transfer_end(struct s3 *s, struct transfer *t);
void transfer_free(struct transfer *t);
/* Wait until a transfer is done. NULL with *rc 0: none is under way; NULL with a negative *rc: it
 * failed. */
struct transfer *transfer_done(struct s3 *s, int *rc);
void s3_url(const struct s3 *s, char *url, size_t cap, const char *key);
void s3_query(char *url, size_t cap, char before, const char *name, const char *value);

#endif
