/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - the newest version of what is published, and each newer one. */
#include "publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* looks at an index whose newest version could not be got, and at those of one that is replaced each
 * time */
#define LOOKS_MAX 5u

struct ddict_follow {
    ddict_t *d;
    struct pub_uid last; /* the version that was given */
    uint64_t seen;       /* of the index, when nothing newer was there; 0: look first */
    bool any;
    size_t nlen;
    uint8_t name[];
};

/* The value that stands in the index itself. Takes the look's view over. */
static void take_inline(struct pub_look *l, struct ddict_view *v) {
    const char *from = l->value;
    *v = l->view;
    v->len = l->e[0].len;
    v->tag = l->e[0].tag;
    if (v->kind_ == 2) /* private memory, which is freed by its begin */
        memmove((void *)(uintptr_t)v->data, from, v->len);
    else
        v->data = from;
    l->view.kind_ = 0;
}

/* Looks and fetches have a time of their own: the caller's, which this returns, is that to wait for a
 * version. */
static uint64_t own_time(struct pub_call *c) {
    uint64_t until_ns = c->until_ns;
    c->until_ns = clock_ns() + (uint64_t)c->s->timeout_ms * 1000000u;
    return until_ns;
}

/* Take the newest version. -EAGAIN: it was replaced; look again. */
static int take(struct pub_call *c, struct pub_look *l, struct ddict_view *v) {
    uint64_t until_ns = own_time(c);
    int rc = 0;
    if (l->e[0].piece == 0)
        take_inline(l, v);
    else
        rc = pub_fetch(c, &l->e[0], v);
    if (key_is_absent(rc) || rc == DDICT_ECHANGED) /* somebody was in between */
        rc = -EAGAIN;
    if (rc == 0)
        v->version = l->e[0].version;
    c->until_ns = until_ns;
    return rc;
}

static int look(struct pub_call *c, struct pub_look *l) {
    uint64_t until_ns = own_time(c);
    int rc = pub_look(c, l);
    c->until_ns = until_ns;
    return rc;
}

/* Look again, after the version in l could not be had. tries: how often this one could not */
static int look_again(struct pub_call *c, struct pub_look *l, unsigned *tries) {
    struct pub_uid was = l->e[0].uid;
    pub_look_end(l);
    int rc = look(c, l);
    if (rc < 0)
        return rc;
    if (l->e[0].version == 0)
        return DDICT_ENOKEY;
    *tries = pub_same(&was, &l->e[0].uid) ? *tries + 1 : 0;
    return *tries > LOOKS_MAX
               ? dd_error(DDICT_EKEYLOST, "what is published under this name is lost")
               : 0;
}

/* The same again until it is got. What is read but gone, and still is the newest, is lost. */
static int take_newest(struct pub_call *c, struct pub_look *l, struct ddict_view *v) {
    uint64_t until_ms = clock_ms() + (uint64_t)c->s->timeout_ms;
    unsigned tries = 0, overtaken = 0;
    int rc;
    while ((rc = take(c, l, v)) == -EAGAIN) {
        if ((rc = look_again(c, l, &tries)) < 0)
            return rc;
        if (tries == 0 && ++overtaken > LOOKS_MAX && clock_ms() > until_ms)
            return dd_error(-ETIMEDOUT, "newer versions come faster than this node can fetch one");
    }
    return rc;
}

int ddict_follow_open(ddict_t *d, const void *name, size_t nlen, ddict_follow_t **out,
                      int timeout_ms) {
    struct pub_call c;
    *out = NULL;
    int rc = pub_begin(&c, d, name, nlen, timeout_ms);
    pub_end(&c);
    if (rc < 0)
        return rc;
    ddict_follow_t *f = calloc(1, sizeof *f + nlen);
    if (!f)
        return dd_error(-ENOMEM, "no memory to follow a name");
    f->d = d;
    f->nlen = nlen;
    memcpy(f->name, name, nlen);
    *out = f;
    return 0;
}

void ddict_follow_close(ddict_follow_t *f) {
    free(f);
}

/* The version that was given is not there any more, nor a newer one: said once. */
static int was_removed(ddict_follow_t *f, bool lost) {
    f->any = false;
    return lost ? dd_error(DDICT_EKEYLOST, "what was published under this name is lost")
                : dd_error(DDICT_ENOKEY, "what was published under this name was removed");
}

/* Look whether there is a version that was not given yet: 1, then l is to be ended; 0: there is not. */
static int look_newer(ddict_follow_t *f, struct pub_call *c, struct pub_look *l) {
    int rc = look(c, l);
    if (rc < 0)
        return rc;
    if (l->e[0].version != 0 && !(f->any && pub_same(&l->e[0].uid, &f->last)))
        return 1;
    bool gone = l->e[0].version == 0, lost = l->lost;
    f->seen = l->version;
    pub_look_end(l);
    return gone && f->any ? was_removed(f, lost) : 0;
}

/* 1: a version that was not given yet; 0: none came in time. */
static int next_look(ddict_follow_t *f, struct pub_call *c, struct pub_look *l) {
    for (;;) {
        uint64_t now = 0;
        int rc = 0;
        if (f->seen != 0)
            rc = ddict_key_version(f->d, c->key, c->klen, &now, c->s->timeout_ms);
        if (rc < 0 && !key_is_absent(rc))
            return rc;
        if ((now == 0 || now != f->seen) && (rc = look_newer(f, c, l)) != 0)
            return rc;
        if (pub_left_ms(c) == 0)
            return 0;
        rc = ddict_wait_change(f->d, c->key, c->klen, f->seen, NULL, pub_left_ms(c));
        if (rc < 0 && !key_is_absent(rc))
            return rc == -ETIMEDOUT ? 0 : rc;
    }
}

/* As ddict_follow_next(). -EAGAIN: it was removed before it was got, and none was given before. */
static int next_take(ddict_follow_t *f, struct pub_call *c, struct ddict_view *v,
                     uint64_t *version) {
    struct pub_look l;
    int rc = next_look(f, c, &l);
    if (rc != 1)
        return rc;
    uint64_t seen = l.version;
    rc = take_newest(c, &l, v);
    if (rc == 0) {
        f->last = l.e[0].uid;
        f->any = true;
        f->seen = seen;
        if (version)
            *version = l.e[0].version;
    }
    bool lost = l.lost;
    pub_look_end(&l);
    if (rc == DDICT_ENOKEY)
        return f->any ? was_removed(f, lost) : -EAGAIN;
    return rc == 0 ? 1 : rc;
}

int ddict_follow_next(ddict_follow_t *f, struct ddict_view *v, uint64_t *version, int timeout_ms) {
    struct pub_call c;
    v->kind_ = 0;
    int rc = pub_begin(&c, f->d, f->name, f->nlen, timeout_ms);
    while (rc == 0 && (rc = next_take(f, &c, v, version)) == -EAGAIN)
        rc = 0;
    pub_end(&c);
    return rc;
}

int ddict_bget(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
               int timeout_ms) {
    struct pub_call c;
    struct pub_look l;
    v->kind_ = 0;
    int rc = pub_begin(&c, d, key, klen, timeout_ms);
    if (rc == 0 && flags & ~DDICT_WAIT)
        rc = dd_error(-EINVAL, "bget with unknown flags 0x%x", flags);
    while (rc == 0 && (rc = pub_look(&c, &l)) == 0 && l.e[0].version == 0) {
        pub_look_end(&l);
        rc = !(flags & DDICT_WAIT) || pub_left_ms(&c) == 0
                 ? dd_error_plain(DDICT_ENOKEY)
                 : ddict_wait_change(d, c.key, c.klen, l.version, NULL, pub_left_ms(&c));
        if (rc == -ETIMEDOUT)
            rc = dd_error_plain(DDICT_ENOKEY);
    }
    if (rc == 0) {
        rc = take_newest(&c, &l, v);
        pub_look_end(&l);
    }
    pub_end(&c);
    return rc;
}
