/* SPDX-License-Identifier: Apache-2.0 */
/* s3.c - a bucket, and getting many of its objects at once. */
#include "s3.h"

#include "s3_transfer.h"
#include <base/error.h>

#include <curl/curl.h>
#include <errno.h>
#include <load/load.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static void curl_begin(void) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* --- a bucket --- */

int s3_open(struct s3 **out, const char *text, const char *region) {
    const char *name = strncmp(text, "s3://", 5) == 0 ? text + 5 : "";
    size_t n = strcspn(name, "/");
    if (n == 0 || n >= sizeof(*out)->bucket ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") < n)
        return dd_error(-EINVAL, "%.200s: such a source is s3://BUCKET/PREFIX", text);
    const char *prefix = name[n] == '/' ? name + n + 1 : "";
    if (strlen(prefix) > S3_KEY_MAX)
        return dd_error(-EINVAL, "%.200s...: a key in S3 has at most %u bytes", text, S3_KEY_MAX);
    struct s3 *s = calloc(1, sizeof *s);
    if (!s)
        return dd_error(-ENOMEM, "out of memory");
    memcpy(s->bucket, name, n);
    strcpy(s->prefix, prefix);
    int rc = s3_config_read(&s->config, the_load.o->anon);
    if (rc == 0 && region && !s3_region_good(region))
        rc = dd_error(-EINVAL, "%.40s is no region", region);
    if (rc == 0 && region)
        snprintf(s->config.region, sizeof s->config.region, "%s", region);
    pthread_once(&curl_once, curl_begin);
    if (rc == 0 && !(s->multi = curl_multi_init()))
        rc = dd_error(-ENOMEM, "out of memory");
    if (rc < 0) {
        s3_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

void s3_close(struct s3 *s) {
    if (!s)
        return;
    for (unsigned i = 0; i <= S3_FLIGHT; i++) {
        transfer_end(s, &s->transfer[i]);
        if (s->transfer[i].want)
            free(s->transfer[i].want->data);
        transfer_free(&s->transfer[i]);
    }
    if (s->multi)
        curl_multi_cleanup(s->multi);
    s3_config_wipe(&s->config);
    free(s);
}

const char *s3_prefix(const struct s3 *s) {
    return s->prefix;
}
const char *s3_region(const struct s3 *s) {
    return s->config.region;
}

/* --- objects --- */

static int take_here(struct transfer *t, const void *bytes, size_t len) {
    struct s3_want *w = t->want;
    if (w->take)
        return w->take(w->arg, bytes, len);
    memcpy(w->data + t->got, bytes, len);
    return 0;
}

int s3_start(struct s3 *s, struct s3_want *w) {
    struct transfer *t = s->transfer + 1;
    while (t->busy && t < s->transfer + S3_FLIGHT)
        t++;
    if (t->busy)
        return dd_error(-EBUSY, "%u objects are on their way already", S3_FLIGHT);
    w->status = 0;
    *w->why = 0;
    w->data = NULL;
    if (!w->take && !(w->data = malloc(w->size + 1)))
        return dd_error(-ENOMEM, "out of memory");
    t->want = w;
    t->take = take_here;
    t->limit = w->size;
    t->exact = true;
    snprintf(t->etag, sizeof t->etag, "%s", strlen(w->etag) < sizeof t->etag ? w->etag : "");
    *t->url = 0;
    s3_url(s, t->url, sizeof t->url, w->key);
    int rc = transfer_begin(s, t);
    if (rc < 0) {
        free(w->data);
        w->data = NULL;
        t->want = NULL;
    }
    return rc;
}

unsigned s3_under_way(const struct s3 *s) {
    unsigned n = 0;
    for (unsigned i = 1; i <= S3_FLIGHT; i++)
        n += s->transfer[i].busy;
    return n;
}

struct s3_want *s3_done(struct s3 *s, int *rc) {
    struct transfer *t = transfer_done(s, rc);
    if (!t)
        return NULL;
    struct s3_want *w = t->want;
    t->want = NULL;
    w->status = t->status;
    snprintf(w->why, sizeof w->why, "%s", t->why);
    if (w->status != 0) {
        free(w->data);
        w->data = NULL;
    }
    return w;
}
