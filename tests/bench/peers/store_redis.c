/* SPDX-License-Identifier: Apache-2.0 */
/* store_redis.c - Redis over a UNIX socket, and over TCP: SET and GET, one at a time or all
 * requests of a batch in one write. */
#include "peers.h"
#include "stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char said[128];

static int open_to(void **self, const char *to) {
    struct stream *s = malloc(sizeof *s);
    int rc = !s ? -ENOMEM : stream_open(s, to);
    if (rc < 0)
        free(s);
    *self = s;
    return rc;
}

static int open_it(void **self, const struct where *w) {
    return open_to(self, w->redis);
}
static int open_tcp(void **self, const struct where *w) {
    return open_to(self, w->redis_tcp);
}

static void close_it(void *self) {
    stream_close(self);
    free(self);
}

static int ask(struct stream *s, const struct pair *p) {
    char text[80];
    int n = snprintf(text, sizeof text, "*2\r\n$3\r\nGET\r\n$%u\r\n%.*s\r\n", KEY_BYTES,
                     (int)KEY_BYTES, p->key);
    return stream_write(s, text, (size_t)n);
}

static int tell(struct stream *s, const struct pair *p) {
    char text[96];
    int n = snprintf(text, sizeof text, "*3\r\n$3\r\nSET\r\n$%u\r\n%.*s\r\n$%zu\r\n", KEY_BYTES,
                     (int)KEY_BYTES, p->key, p->len);
    int rc = stream_write(s, text, (size_t)n);
    if (rc == 0)
        rc = stream_write(s, p->val, p->len);
    return rc == 0 ? stream_write(s, "\r\n", 2) : rc;
}

static int stored(struct stream *s) {
    char *line;
    size_t n;
    int rc = stream_line(s, &line, &n);
    if (rc == 0 && strcmp(line, "+OK") != 0) {
        snprintf(said, sizeof said, "%s", line);
        rc = -EIO;
    }
    return rc;
}

/* into NULL: checked where it lies. */
static int answer(struct stream *s, const struct pair *p, void *into) {
    char *line;
    size_t n;
    const void *val;
    int rc = stream_line(s, &line, &n);
    if (rc < 0)
        return rc;
    if (line[0] != '$' || strtoull(line + 1, NULL, 10) != p->len) {
        snprintf(said, sizeof said, "%s", line);
        return -EIO;
    }
    rc = stream_read(s, &val, into, p->len);
    if (rc == 0 && !into)
        rc = pair_check(val, p->len, p->index);
    return rc == 0 ? stream_read(s, &val, NULL, 2) : rc;
}

static int put_many(void *self, const struct pair *p, unsigned n) {
    int rc = 0;
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = tell(self, &p[i]);
    if (rc == 0)
        rc = stream_flush(self);
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = stored(self);
    return rc;
}

static int put(void *self, const struct pair *p) {
    return put_many(self, p, 1);
}

static int view_many(void *self, const struct pair *p, unsigned n) {
    int rc = 0;
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = ask(self, &p[i]);
    if (rc == 0)
        rc = stream_flush(self);
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = answer(self, &p[i], NULL);
    return rc;
}

static int view(void *self, const struct pair *p) {
    return view_many(self, p, 1);
}

static int get(void *self, const struct pair *p) {
    int rc = ask(self, p);
    if (rc == 0)
        rc = stream_flush(self);
    return rc == 0 ? answer(self, p, p->val) : rc;
}

static const char *error(void) {
    return said;
}

const struct store store_redis = {"redis", open_it,   close_it, put,  put_many,
                                  view,    view_many, get,      error};
const struct store store_redis_tcp = {"redis over TCP", open_tcp, close_it, put, put_many, view,
                                      view_many,        get,      error};
