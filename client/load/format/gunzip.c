/* SPDX-License-Identifier: Apache-2.0 */
/* gunzip.c - gzip by zlib. */
#include "gunzip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct gunzip {
    ssize_t (*pull)(void *arg, const uint8_t **bytes);
    void *arg;
    z_stream z;
    bool within, over; /* within: inside a member; over: everything was read */
    const char *why;
};

bool gunzip_is(const uint8_t *head, size_t n) {
    return n >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

struct gunzip *gunzip_new(ssize_t (*pull)(void *arg, const uint8_t **bytes), void *arg) {
    struct gunzip *g = calloc(1, sizeof *g);
    if (!g || inflateInit2(&g->z, 15 + 16) != Z_OK) {
        free(g);
        return NULL;
    }
    g->pull = pull;
    g->arg = arg;
    g->within = true;
    return g;
}

static ssize_t gunzip_failed(struct gunzip *g, const char *why) {
    g->why = why;
    return -1;
}

/* Read more compressed bytes: 1, 0 at the end, -1. */
static int gunzip_fill(struct gunzip *g) {
    const uint8_t *bytes;
    ssize_t n = g->z.avail_in > 0 ? 1 : g->pull(g->arg, &bytes);
    if (n < 0)
        return (int)gunzip_failed(g, strerror(errno));
    if (n > 0 && g->z.avail_in == 0) {
        g->z.next_in = (Bytef *)(uintptr_t)bytes;
        g->z.avail_in = (uInt)n;
    }
    return n > 0;
}

/* After a member: begin the next one, past any padding zeros. 1, 0 at the end, -1. */
static int member_begin(struct gunzip *g) {
    int more;
    while ((more = gunzip_fill(g)) == 1 && *g->z.next_in == 0) {
        g->z.next_in++;
        g->z.avail_in--;
    }
    if (more == 1 && *g->z.next_in != 0x1f)
        return (int)gunzip_failed(g, "what follows the end of the gzip data is none");
    if (more == 1 && inflateReset(&g->z) != Z_OK)
        return (int)gunzip_failed(g, "out of memory");
    g->within = more == 1;
    g->over = more == 0;
    return more;
}

ssize_t gunzip_read(struct gunzip *g, void *buf, size_t n) {
    int more;
    g->z.next_out = buf;
    g->z.avail_out = (uInt)(n < 1u << 30 ? n : 1u << 30);
    uInt room = g->z.avail_out;
    if (g->why)
        return -1;
    while (g->z.avail_out == room && room > 0 && !g->over) {
        if (!g->within && (more = member_begin(g)) <= 0)
            return more;
        more = gunzip_fill(g);
        if (more < 0)
            return -1;
        if (more == 0)
            return gunzip_failed(g, "truncated gzip data: it ends too early, cut?");
        int rc = inflate(&g->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END)
            g->within = false;
        else if (rc != Z_OK && rc != Z_BUF_ERROR)
            return gunzip_failed(g, rc == Z_MEM_ERROR
                                        ? "out of memory"
                                        : "damaged gzip data: a checksum or its form is wrong");
    }
    return (ssize_t)(room - g->z.avail_out);
}

const char *gunzip_why(const struct gunzip *g) {
    return g->why ? g->why : "cannot be read";
}

void gunzip_free(struct gunzip *g) {
    if (!g)
        return;
    inflateEnd(&g->z);
    free(g);
}
