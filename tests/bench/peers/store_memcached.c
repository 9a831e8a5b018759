/* SPDX-License-Identifier: Apache-2.0 */
/* store_memcached.c - memcached over a UNIX socket: set and get, a batch of gets as one request for
 * many keys, of sets in one write. */
#include "peers.h"
#include "stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char said[128];

static int open_it(void **self, const struct where *w) {
    struct stream *s = malloc(sizeof *s);
    int rc = !s ? -ENOMEM : stream_open(s, w->memcached);
    if (rc < 0)
        free(s);
    *self = s;
    return rc;
}

static void close_it(void *self) {
    stream_close(self);
    free(self);
}

static int expect(struct stream *s, const char *word) {
    char *line;
    size_t n;
    int rc = stream_line(s, &line, &n);
    if (rc == 0 && strcmp(line, word) != 0) {
        snprintf(said, sizeof said, "%s", line);
        rc = -EIO;
    }
    return rc;
}

static int put_many(void *self, const struct pair *p, unsigned n) {
    int rc = 0;
    for (unsigned i = 0; i < n && rc == 0; i++) {
        char text[64];
        int k =
            snprintf(text, sizeof text, "set %.*s 0 0 %zu\r\n", (int)KEY_BYTES, p[i].key, p[i].len);
        rc = stream_write(self, text, (size_t)k);
        if (rc == 0)
            rc = stream_write(self, p[i].val, p[i].len);
        if (rc == 0)
            rc = stream_write(self, "\r\n", 2);
    }
    if (rc == 0)
        rc = stream_flush(self);
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = expect(self, "STORED");
    return rc;
}

static int put(void *self, const struct pair *p) {
    return put_many(self, p, 1);
}

static int answer(struct stream *s, const struct pair *p, void *into) {
    char *line;
    size_t n;
    const void *val;
    int rc = stream_line(s, &line, &n);
    if (rc < 0)
        return rc;
    const char *space = strrchr(line, ' ');
    if (strncmp(line, "VALUE ", 6) != 0 || memcmp(line + 6, p->key, KEY_BYTES) != 0 || !space ||
        strtoull(space + 1, NULL, 10) != p->len) {
        snprintf(said, sizeof said, "%s", line);
        return -EIO;
    }
    rc = stream_read(s, &val, into, p->len);
    if (rc == 0 && !into)
        rc = pair_check(val, p->len, p->index);
    return rc == 0 ? stream_read(s, &val, NULL, 2) : rc;
}

static int ask(struct stream *s, const struct pair *p, unsigned n) {
    int rc = stream_write(s, "get", 3);
    for (unsigned i = 0; i < n && rc == 0; i++) {
        rc = stream_write(s, " ", 1);
        if (rc == 0)
            rc = stream_write(s, p[i].key, KEY_BYTES);
    }
    if (rc == 0)
        rc = stream_write(s, "\r\n", 2);
    return rc == 0 ? stream_flush(s) : rc;
}

static int view_many(void *self, const struct pair *p, unsigned n) {
    int rc = ask(self, p, n);
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = answer(self, &p[i], NULL);
    return rc == 0 ? expect(self, "END") : rc;
}

static int view(void *self, const struct pair *p) {
    return view_many(self, p, 1);
}

static int get(void *self, const struct pair *p) {
    int rc = ask(self, p, 1);
    if (rc == 0)
        rc = answer(self, p, p->val);
    return rc == 0 ? expect(self, "END") : rc;
}

static const char *error(void) {
    return said;
}

const struct store store_memcached = {"memcached", open_it,   close_it, put,  put_many,
                                      view,        view_many, get,      error};
