/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_sign.c - the signature of requests to S3. The requests, keys and signatures are the examples
 * of the Amazon S3 API Reference, "Authenticating requests: using the Authorization header", that
 * sign the headers which we sign.
 */
#include "unit.h"

#include <load/s3/s3_sign.h>
#include <stdio.h>
#include <string.h>

#define EXAMPLE_TIME 1369353600 /* 2013-05-24 00:00:00 UTC */

static struct s3_config example(void) {
    return (struct s3_config){.access = "AKIAIOSFODNN7EXAMPLE",
                              .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                              .region = "us-east-1"};
}

static void signed_is(const char *url, const char *want) {
    struct s3_config c = example();
    struct s3_signature s;
    ck_assert_int_eq(s3_sign(&s, &c, url, EXAMPLE_TIME), 0);
    ck_assert_str_eq(s.date, "20130524T000000Z");
    ck_assert_str_eq(s.host, "examplebucket.s3.amazonaws.com");
    char text[S3_AUTHORIZATION_MAX];
    snprintf(text, sizeof text,
             "AWS4-HMAC-SHA256 "
             "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
             "aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature=%s",
             want);
    ck_assert_str_eq(s.authorization, text);
}

START_TEST(examples_of_amazon) {
    signed_is("https://examplebucket.s3.amazonaws.com/?lifecycle=",
              "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    signed_is("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J",
              "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}
END_TEST

/* The port that the scheme implies is not in Host:, another one is. */
START_TEST(the_host_is_as_it_is_sent) {
    struct s3_config c = example();
    struct s3_signature a, b;
    ck_assert_int_eq(s3_sign(&a, &c, "https://examplebucket.s3.amazonaws.com:443/k", EXAMPLE_TIME),
                     0);
    ck_assert_int_eq(s3_sign(&b, &c, "https://examplebucket.s3.amazonaws.com/k", EXAMPLE_TIME), 0);
    ck_assert_str_eq(a.host, b.host);
    ck_assert_str_eq(a.authorization, b.authorization);
    ck_assert_int_eq(s3_sign(&a, &c, "http://127.0.0.1:80/bucket/k", EXAMPLE_TIME), 0);
    ck_assert_str_eq(a.host, "127.0.0.1");
    ck_assert_int_eq(s3_sign(&a, &c, "http://127.0.0.1:443/bucket/k", EXAMPLE_TIME), 0);
    ck_assert_str_eq(a.host, "127.0.0.1:443");
    ck_assert_int_lt(s3_sign(&a, &c, "bucket/k", EXAMPLE_TIME), 0);
    ck_assert_int_lt(s3_sign(&a, &c, "https://host", EXAMPLE_TIME), 0);
}
END_TEST

/* Everything that is sent counts: path, query, host, time, region, token, secret. */
START_TEST(what_differs_is_signed_otherwise) {
    struct s3_config c = example(), region = c, token = c, secret = c;
    struct s3_signature s[8];
    const char *url = "https://b.s3.amazonaws.com/a/../k%20x?list-type=2";
    strcpy(region.region, "eu-west-3");
    strcpy(token.token, "a/token==");
    secret.secret[3] ^= 1;
    ck_assert_int_eq(s3_sign(&s[0], &c, url, EXAMPLE_TIME), 0);
    ck_assert_int_eq(
        s3_sign(&s[1], &c, "https://b.s3.amazonaws.com/k%20x?list-type=2", EXAMPLE_TIME), 0);
    ck_assert_int_eq(
        s3_sign(&s[2], &c, "https://b.s3.amazonaws.com/a/../k%20x?list-type=3", EXAMPLE_TIME), 0);
    ck_assert_int_eq(
        s3_sign(&s[3], &c, "https://c.s3.amazonaws.com/a/../k%20x?list-type=2", EXAMPLE_TIME), 0);
    ck_assert_int_eq(s3_sign(&s[4], &c, url, EXAMPLE_TIME + 1), 0);
    ck_assert_int_eq(s3_sign(&s[5], &region, url, EXAMPLE_TIME), 0);
    ck_assert_int_eq(s3_sign(&s[6], &token, url, EXAMPLE_TIME), 0);
    ck_assert_int_eq(s3_sign(&s[7], &secret, url, EXAMPLE_TIME), 0);
    ck_assert_ptr_nonnull(strstr(s[6].authorization, "x-amz-date;x-amz-security-token,"));
    for (unsigned i = 0; i < 8; i++)
        for (unsigned k = 0; k < i; k++)
            ck_assert_str_ne(strstr(s[i].authorization, "Signature="),
                             strstr(s[k].authorization, "Signature="));
}
END_TEST

UNIT_MAIN("load_sign", examples_of_amazon, the_host_is_as_it_is_sent,
          what_differs_is_signed_otherwise)
