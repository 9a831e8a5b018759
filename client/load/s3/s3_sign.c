/* SPDX-License-Identifier: Apache-2.0 */
#include "s3_sign.h"

#include <base/error.h>

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define MAC_BYTES crypto_auth_hmacsha256_BYTES
#define HEX_BYTES (2 * MAC_BYTES + 1)

struct parts { /* the parts of a URL */
    const char *path, *query;
    size_t path_len, query_len;
};

static void mac_of_text(uint8_t out[MAC_BYTES], const void *key, size_t key_len, const char *text) {
    crypto_auth_hmacsha256_state h;
    crypto_auth_hmacsha256_init(&h, key, key_len);
    crypto_auth_hmacsha256_update(&h, (const unsigned char *)text, strlen(text));
    crypto_auth_hmacsha256_final(&h, out);
    explicit_bzero(&h, sizeof h);
}

/* Derive the key for one day, region and service; it is valid for no other. */
static void key_derive(uint8_t key[MAC_BYTES], const struct s3_config *c, const char *day) {
    char secret[sizeof c->secret + 4];
    int n = snprintf(secret, sizeof secret, "AWS4%s", c->secret);
    mac_of_text(key, secret, (size_t)n, day);
    mac_of_text(key, key, MAC_BYTES, c->region);
    mac_of_text(key, key, MAC_BYTES, "s3");
    mac_of_text(key, key, MAC_BYTES, "aws4_request");
    explicit_bzero(secret, sizeof secret);
}

/* Copy the host without a port that the scheme implies (RFC 9110, 4.2.3), which libcurl omits
 * too. */
static bool host_copy(struct s3_signature *s, const char *url, struct parts *p) {
    const char *host = strstr(url, "://"), *end;
    bool tls = strncmp(url, "https://", 8) == 0;
    if (!host)
        return false;
    host += 3;
    p->path = host + strcspn(host, "/?");
    end = p->path;
    const char *implied = tls ? ":443" : ":80";
    size_t n = strlen(implied);
    if ((size_t)(end - host) > n && memcmp(end - n, implied, n) == 0)
        end -= n;
    if ((size_t)(end - host) >= sizeof s->host)
        return false;
    memcpy(s->host, host, (size_t)(end - host));
    s->host[end - host] = 0;
    p->path_len = strcspn(p->path, "?");
    p->query = p->path + p->path_len + (p->path[p->path_len] == '?');
    p->query_len = strlen(p->query);
    return p->path_len > 0;
}

static void hash_text(crypto_hash_sha256_state *h, const char *text, size_t n) {
    crypto_hash_sha256_update(h, (const unsigned char *)text, n);
}
static void update_text(crypto_hash_sha256_state *h, const char *text) {
    hash_text(h, text, strlen(text));
}

/* The SHA-256 of the canonical request, in hex. */
static void request_hash(char hex[HEX_BYTES], const struct s3_signature *s,
                         const struct s3_config *c, const struct parts *p, const char *names) {
    crypto_hash_sha256_state h;
    uint8_t sum[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_init(&h);
    update_text(&h, "GET\n");
    hash_text(&h, p->path, p->path_len);
    update_text(&h, "\n");
    hash_text(&h, p->query, p->query_len);
    update_text(&h, "\nhost:");
    update_text(&h, s->host);
    update_text(&h, "\nx-amz-content-sha256:" S3_EMPTY_SHA256 "\nx-amz-date:");
    update_text(&h, s->date);
    if (*c->token != 0) {
        update_text(&h, "\nx-amz-security-token:");
        update_text(&h, c->token);
    }
    update_text(&h, "\n\n");
    update_text(&h, names);
    update_text(&h, "\n" S3_EMPTY_SHA256);
    crypto_hash_sha256_final(&h, sum);
    sodium_bin2hex(hex, HEX_BYTES, sum, sizeof sum);
}

int s3_sign(struct s3_signature *s, const struct s3_config *c, const char *url, time_t now) {
    struct parts p;
    struct tm utc;
    char day[12], scope[120], text[320], hex[HEX_BYTES];
    uint8_t key[MAC_BYTES], sum[MAC_BYTES];
    const char *names = *c->token != 0 ? "host;x-amz-content-sha256;x-amz-date;x-amz-security-token"
                                       : "host;x-amz-content-sha256;x-amz-date";
    if (!host_copy(s, url, &p))
        return dd_error(-EINVAL, "%.200s: not the URL of an object in S3", url);
    if (!gmtime_r(&now, &utc) || strftime(s->date, sizeof s->date, "%Y%m%dT%H%M%SZ", &utc) == 0 ||
        strftime(day, sizeof day, "%Y%m%d", &utc) == 0)
        return dd_error(-EINVAL,
                        "the clock of this machine is wrong: requests to S3 carry the date");
    request_hash(hex, s, c, &p, names);
    snprintf(scope, sizeof scope, "%s/%s/s3/aws4_request", day, c->region);
    snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", s->date, scope, hex);
    key_derive(key, c, day);
    mac_of_text(sum, key, sizeof key, text);
    explicit_bzero(key, sizeof key);
    sodium_bin2hex(hex, sizeof hex, sum, sizeof sum);
    int n = snprintf(s->authorization, sizeof s->authorization,
                     "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", c->access,
                     scope, names, hex);
    return n < (int)sizeof s->authorization
               ? 0
               : dd_error(-EINVAL, "the name of the access key is too long");
}
