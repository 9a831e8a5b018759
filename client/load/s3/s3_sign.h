/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_sign.h - the signature of a GET (AWS Signature Version 4, "Signature Version 4 signing
 * process" in the Amazon S3 API Reference). We sign the path and the query as they stand in the
 * URL, so a key may have any bytes; libcurl's own signer encodes some of them again (and refuses
 * CURLOPT_PATH_AS_IS from 8.14 on).
 */
#ifndef DDICT_LOAD_S3_S3_SIGN_H
#define DDICT_LOAD_S3_S3_SIGN_H

#include "s3_config.h"

#include <stddef.h>
#include <time.h>

/* of no bytes: the body of a GET */
#define S3_EMPTY_SHA256      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define S3_DATE_MAX          20u
#define S3_HOST_MAX          320u
#define S3_AUTHORIZATION_MAX 640u

struct s3_signature {
    char host[S3_HOST_MAX];                   /* Host: */
    char date[S3_DATE_MAX];                   /* x-amz-date: */
    char authorization[S3_AUTHORIZATION_MAX]; /* Authorization: */
};

/*
 * Sign a GET of url at the time now. The request has to carry the three headers,
 * x-amz-content-sha256: S3_EMPTY_SHA256, and x-amz-security-token where c->token is set. url:
 * scheme://host[:port]/path[?query]; path encoded as it is sent, the parameters of query encoded
 * and sorted. Other headers are not signed. Errors: -EINVAL with the sentence set: something is
 * longer than S3 allows.
 */
int s3_sign(struct s3_signature *s, const struct s3_config *c, const char *url, time_t now);

#endif
