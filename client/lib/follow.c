/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - the newest version of what is published, and each newer one. */
#include "publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* Take the newest version. -EAGAIN: it was replaced; look again. */
static int take(struct pub_call *c, struct pub_look *l, struct ddict_view *v) {
    int rc = 0;
    if (l->e[0].piece == 0)
        take_inline(l, v);
    else
        rc = pub_fetch(c, &l->e[0], v);
    if (key_is_absent(rc) || rc == DDICT_ECHANGED) /* somebody was in between */
        rc = -EAGAIN;
    if (rc == 0)
        v->version = l->e[0].version;
    return rc;
}

/* The same again until it is got. What is read but gone, and still is the newest, is lost. */
static int take_newest(struct pub_call *c, struct pub_look *l, struct ddict_view *v) {
    uint64_t until_ns = c->until_ns;
    unsigned lost = 0;
    /* the wait was for a version; now it is there */
    c->until_ns = clock_ns() + (uint64_t)c->s->timeout_ms * 1000000u;
    int rc;
    while ((rc = take(c, l, v)) == -EAGAIN) {
        struct pub_uid was = l->e[0].uid;
        pub_look_end(l);
        c->until_ns = clock_ns() + (uint64_t)c->s->timeout_ms * 1000000u;
        if ((rc = pub_look(c, l)) < 0)
            break;
        if (l->e[0].version == 0)
            rc = DDICT_ENOKEY;
        else if (!pub_same(&was, &l->e[0].uid))
            lost = 0;
        else if (++lost > 5)
            rc = dd_error(DDICT_EKEYLOST, "what is published under this name is lost");
        if (rc < 0)
            break;
    }
    c->until_ns = until_ns;
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

/* 1: a version that was not given yet; 0: none came in time. */
static int next_look(ddict_follow_t *f, struct pub_call *c, struct pub_look *l) {
    for (;;) {
        int rc = f->seen != 0
                     ? ddict_wait_change(f->d, c->key, c->klen, f->seen, NULL, pub_left_ms(c))
                     : 0;
        if ((rc < 0 && !key_is_absent(rc)) || (rc = pub_look(c, l)) < 0)
            return rc == -ETIMEDOUT ? 0 : rc;
        if (l->e[0].version != 0 && !(f->any && pub_same(&l->e[0].uid, &f->last)))
            return 1;
        f->seen = l->version;
        pub_look_end(l);
        if (f->seen == 0 &&
            (rc = ddict_wait_change(f->d, c->key, c->klen, 0, NULL, pub_left_ms(c))) < 0)
            return rc == -ETIMEDOUT || key_is_absent(rc) ? 0 : rc;
    }
}

int ddict_follow_next(ddict_follow_t *f, struct ddict_view *v, uint64_t *version, int timeout_ms) {
    struct pub_call c;
    struct pub_look l;
    v->kind_ = 0;
    int rc = pub_begin(&c, f->d, f->name, f->nlen, timeout_ms);
    if (rc == 0 && (rc = next_look(f, &c, &l)) == 1) {
        uint64_t seen = l.version;
        rc = take_newest(&c, &l, v);
        if (rc == 0) {
            f->last = l.e[0].uid;
            f->any = true;
            f->seen = seen;
            if (version)
                *version = l.e[0].version;
        }
        pub_look_end(&l);
        rc = rc == 0 ? 1 : rc == DDICT_ENOKEY ? 0 : rc;
    }
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
