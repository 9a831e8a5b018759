/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_transfer.c - a transfer gets one URL, in as many attempts as it takes. All transfers of a
 * thread run in one multi handle, so connections are reused. API: Amazon S3 API Reference,
 * GetObject and "Error responses".
 */
#include "s3_transfer.h"

#include "s3_sign.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>

#include <curl/curl.h>
#include <errno.h>
#include <expat.h>
#include <load/format/source.h>
#include <load/load.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WAIT_MS       200   /* interval between calls of load_stopped() */
#define TOLD_MAX      4096u /* bytes kept of an error's body */
#define S3_HEADER_MAX (sizeof((struct s3_config *)NULL)->token + 64)

static long stall_seconds(void) {
    const char *text = getenv("DDICT_S3_STALL");
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n <= 3600 ? n : DD_S3_STALL_MS / 1000;
}

/* --- URLs --- */

static void url_encode(char *out, size_t cap, const char *text, bool path) {
    static const char hex[] = "0123456789ABCDEF";
    size_t n = strlen(out);
    for (; *text != 0 && n + 4 < cap; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-_.~", c) || (path && c == '/');
        if (plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    out[n] = 0;
}

void s3_url(const struct s3 *s, char *url, size_t cap, const char *key) {
    const struct s3_config *c = &s->config;
    const char *host = strstr(c->endpoint, "://");
    bool path = s3_config_by_path(c, s->bucket);
    if (*c->endpoint == 0)
        snprintf(url, cap, "https://%s%ss3.%s.amazonaws.com/", path ? "" : s->bucket,
                 path ? "" : ".", c->region);
    else if (path)
        snprintf(url, cap, "%s/", c->endpoint);
    else
        snprintf(url, cap, "%.*s://%s.%s/", (int)(host - c->endpoint), c->endpoint, s->bucket,
                 host + 3);
    if (path) {
        url_encode(url, cap, s->bucket, false);
        snprintf(url + strlen(url), cap - strlen(url), "/");
    }
    url_encode(url, cap, key, true);
}

void s3_query(char *url, size_t cap, char before, const char *name, const char *value) {
    size_t n = strlen(url);
    snprintf(url + n, cap - n, "%c%s=", before, name);
    url_encode(url, cap, value, false);
}

/* --- error answers --- */

struct told { /* the parser's state */
    char code[64], message[240], *to;
    size_t cap;
};

static void told_open(void *arg, const XML_Char *name, const XML_Char **attributes) {
    struct told *t = arg;
    (void)attributes;
    t->to = strcmp(name, "Code") == 0 && *t->code == 0         ? t->code
            : strcmp(name, "Message") == 0 && *t->message == 0 ? t->message
                                                               : NULL;
    t->cap = t->to == t->code ? sizeof t->code : sizeof t->message;
}

static void told_close(void *arg, const XML_Char *name) {
    (void)name;
    ((struct told *)arg)->to = NULL;
}

static void told_text(void *arg, const XML_Char *text, int len) {
    struct told *t = arg;
    size_t n = t->to ? strlen(t->to) : 0;
    for (int i = 0; t->to && i < len && n + 1 < t->cap; i++)
        t->to[n++] = (unsigned char)text[i] < ' ' ? ' ' : text[i];
    if (t->to)
        t->to[n] = 0;
}

static void told_parse(struct told *t, const char *body, size_t len) {
    memset(t, 0, sizeof *t);
    XML_Parser p = XML_ParserCreate(NULL);
    if (!p)
        return;
    XML_SetUserData(p, t);
    XML_SetElementHandler(p, told_open, told_close);
    XML_SetCharacterDataHandler(p, told_text);
    XML_Parse(p, body, (int)len, 1); /* elements before a syntax error are used */
    XML_ParserFree(p);
}

/* --- a transfer --- */

static bool http_good(long code) {
    return code == 200 || code == 206;
}

static size_t on_header(char *text, size_t size, size_t n, void *arg) {
    struct transfer *t = arg;
    static const char name[] = "x-amz-bucket-region:";
    size_t len = size * n, at = sizeof name - 1, k = 0;
    if (len > at && strncasecmp(text, name, at) == 0) {
        for (; at < len && k + 1 < sizeof t->region; at++)
            if (text[at] > ' ')
                t->region[k++] = text[at];
        t->region[k] = 0;
        if (!s3_region_good(t->region))
            *t->region = 0;
    }
    return len;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg) {
    struct transfer *t = arg;
    size_t len = size * n, done = len;
    long code = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    if (!http_good(code)) {
        size_t room = TOLD_MAX - t->told_n, k = len < room ? len : room;
        if (!t->told && !(t->told = malloc(TOLD_MAX)))
            return len;
        memcpy(t->told + t->told_n, bytes, k);
        t->told_n += k;
        return len;
    }
    /* the server ignored the range and sends everything again: skip */
    if (code == 200 && t->begun_at > 0 && t->skipped < t->begun_at) {
        size_t k = t->begun_at - t->skipped < len ? (size_t)(t->begun_at - t->skipped) : len;
        t->skipped += k;
        bytes += k;
        len -= k;
    }
    if (len > t->limit - t->got) {
        t->larger = true;
        return 0;
    }
    t->taken = len > 0 ? t->take(t, bytes, len) : 0;
    if (t->taken != 0)
        return 0;
    t->got += len;
    return done;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)arg, (void)a, (void)b, (void)c, (void)d;
    return load_stopped();
}

static bool header_add(struct transfer *t, const char *name, const char *value) {
    char line[S3_HEADER_MAX];
    snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *more = curl_slist_append(t->headers, line);
    explicit_bzero(line, sizeof line);
    t->headers = more ? more : t->headers;
    return more != NULL;
}

static int headers_sign(struct transfer *t, const struct s3_config *c) {
    struct s3_signature sign;
    int rc = s3_sign(&sign, c, t->url, time(NULL));
    if (rc < 0)
        return rc;
    bool all = header_add(t, "Host", sign.host) && header_add(t, "x-amz-date", sign.date) &&
               header_add(t, "x-amz-content-sha256", S3_EMPTY_SHA256) &&
               header_add(t, "Authorization", sign.authorization) &&
               (*c->token == 0 || header_add(t, "x-amz-security-token", c->token));
    return all ? 0 : dd_error(-ENOMEM, "out of memory");
}

static int attempt_begin(struct s3 *s, struct transfer *t) {
    const struct s3_config *c = &s->config;
    char range[48];
    CURL *e = t->easy;
    curl_easy_reset(e);
    t->told_n = t->skipped = 0;
    t->larger = false;
    t->begun_at = t->got;
    *t->error = *t->region = 0;
    curl_slist_free_all(t->headers);
    t->headers = NULL;
    curl_easy_setopt(e, CURLOPT_URL, t->url);
    /* a key may contain "..", and it is signed unchanged */
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
#if CURL_AT_LEAST_VERSION(7, 85, 0)
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(e, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "slurm-ddict/" DDICT_VERSION_STRING);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)DD_S3_CONNECT_MS);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, stall_seconds());
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->error);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    if (*c->ca != 0)
        curl_easy_setopt(e, CURLOPT_CAINFO, c->ca);
    if (t->got > 0) {
        snprintf(range, sizeof range, "%llu-", (unsigned long long)t->got);
        curl_easy_setopt(e, CURLOPT_RANGE, range);
    }
    if (*t->etag != 0 && !header_add(t, "If-Match", t->etag))
        return dd_error(-ENOMEM, "out of memory");
    int rc = *c->access != 0 ? headers_sign(t, c) : 0;
    if (rc < 0)
        return rc;
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
    t->attempts++;
    CURLMcode m = curl_multi_add_handle(s->multi, e);
    t->in_multi = m == CURLM_OK;
    return t->in_multi ? 0 : dd_error(-ENOMEM, "libcurl: %s", curl_multi_strerror(m));
}

static bool may_pass(CURLcode e, long http) {
    switch (e) {
    case CURLE_OK:
        return http == 408 || http == 429 || http >= 500;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    default:
        return false;
    }
}

/* 200 ms, doubled with each attempt up to 20 s, minus a random part of up to a half, so that
 * threads do not retry all at once. */
static uint64_t pause_ms(const struct transfer *t) {
    uint64_t ms = (uint64_t)DD_S3_PAUSE_MS << (t->attempts < 8 ? t->attempts - 1 : 7);
    if (ms > DD_S3_PAUSE_MAX_MS)
        ms = DD_S3_PAUSE_MAX_MS;
    return ms - (clock_ns() >> 8) % (ms / 2);
}

static void transfer_describe(const struct s3 *s, const struct transfer *t, CURLcode e, long http,
                              char *why, size_t cap) {
    struct told told;
    char tries[48] = "";
    told_parse(&told, t->told ? t->told : "", t->told_n);
    if (may_pass(e, http) && t->attempts > 1)
        snprintf(tries, sizeof tries, " (tried %u times)", t->attempts);
    if (e != CURLE_OK)
        snprintf(why, cap, "%s%s", *t->error != 0 ? t->error : curl_easy_strerror(e), tries);
    else if (http == 412)
        snprintf(why, cap, "it is another object now than when the bucket was listed");
    else
        snprintf(why, cap, "S3 answered %ld%s%s%s%s%s", http, *told.code != 0 ? " " : "", told.code,
                 *told.message != 0 ? ": " : "", told.message, tries);
    if (e == CURLE_OK && (http == 403 || http == 401) && *s->config.access == 0)
        snprintf(why + strlen(why), cap - strlen(why), "; no credentials were found (%.200s)",
                 s->config.looked);
}

/* The attempt has ended. True: so has the transfer, with status and why set. */
static bool attempt_end(struct s3 *s, struct transfer *t, CURLcode e) {
    long http = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &http);
    curl_multi_remove_handle(s->multi, t->easy);
    t->in_multi = false;
    t->http = http;
    t->status = 0;
    *t->why = 0;
    if (t->taken != 0) {
        t->status = t->taken;
        return true;
    }
    if (load_stopped()) {
        t->status = -ECANCELED;
        return true;
    }
    if (http_good(http) && (t->exact ? t->got == t->limit && !t->larger : e == CURLE_OK))
        return true;
    if (t->larger || (e == CURLE_OK && http_good(http))) {
        t->status = -ESTALE;
        snprintf(t->why, sizeof t->why, "%s than the %llu bytes that %s",
                 t->larger ? "more" : "fewer", (unsigned long long)t->limit,
                 t->exact ? "the list of the bucket said" : "a list may have");
        return true;
    }
    if (may_pass(e, http) && t->attempts < s->config.attempts) {
        t->again_ns = clock_ns() + pause_ms(t) * 1000000u;
        return false;
    }
    t->status = http == 404                  ? -ENOENT
                : http == 403 || http == 401 ? -EACCES
                : http == 412                ? -ESTALE
                                             : -EIO;
    transfer_describe(s, t, e, http, t->why, sizeof t->why);
    return true;
}

int transfer_begin(struct s3 *s, struct transfer *t) {
    if (!t->easy && !(t->easy = curl_easy_init()))
        return dd_error(-ENOMEM, "out of memory");
    t->attempts = 0;
    t->got = 0;
    t->taken = 0;
    t->busy = true;
    t->again_ns = 0;
    int rc = attempt_begin(s, t);
    t->busy = rc == 0;
    return rc;
}

void transfer_end(struct s3 *s, struct transfer *t) {
    if (t->in_multi)
        curl_multi_remove_handle(s->multi, t->easy);
    t->in_multi = t->busy = false;
}

void transfer_free(struct transfer *t) {
    if (t->easy)
        curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    free(t->told);
    memset(t, 0, sizeof *t);
}

struct transfer *transfer_done(struct s3 *s, int *rc) {
    *rc = 0;
    for (;;) {
        int running, left;
        CURLMsg *m;
        uint64_t now = clock_ns();
        bool waits = false, busy = false;
        for (unsigned i = 0; i <= S3_FLIGHT; i++) {
            struct transfer *t = &s->transfer[i];
            busy |= t->busy;
            if (!t->busy || t->in_multi)
                continue;
            if (t->again_ns > now)
                waits = true;
            else if ((*rc = attempt_begin(s, t)) < 0)
                return NULL;
        }
        if (!busy)
            return NULL;
        if (load_stopped()) {
            *rc = -ECANCELED;
            return NULL;
        }
        CURLMcode e = curl_multi_perform(s->multi, &running);
        while (e == CURLM_OK && (m = curl_multi_info_read(s->multi, &left))) {
            struct transfer *t;
            if (m->msg != CURLMSG_DONE)
                continue;
            CURLcode result = m->data.result;
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
            if (attempt_end(s, t, result)) {
                t->busy = false;
                return t;
            }
            waits = true;
        }
        if (e == CURLM_OK)
            e = curl_multi_poll(s->multi, NULL, 0, waits ? WAIT_MS / 10 : WAIT_MS, NULL);
        if (e != CURLM_OK) {
            *rc = dd_error(-EIO, "libcurl: %s", curl_multi_strerror(e));
            return NULL;
        }
    }
}
