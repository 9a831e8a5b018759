/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.c - publish a value: its pieces first, while the index says who makes them, and then the
 * index. A publisher that dies leaves nothing but pieces that the next one removes.
 */
#include "publish.h"

#include "request.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define GIVE_UP_MS 1000u /* to say that a value is not published, after the time is over */
#define ROOM_MS    100   /* between looks whether one of too many publishers has died */
#define MAKERS_MAX 4u    /* publishers that one call finds alive before it asks of no more */

/* Its number is any: another dictionary's items may name a client so, too. */
static struct pub_uid uid_new(const struct pub_call *c) {
    struct pub_uid u = {.node = c->me.node, .client = c->me.id, .count = clock_ns()};
    (void)!getrandom(&u.count, sizeof u.count, GRND_NONBLOCK);
    return u;
}

/* Dead, and it has not announced its value: of what the dead ask nothing is done any more. */
static bool maker_is_dead(struct pub_call *c, const struct pub_look *l, const struct pub_entry *x) {
    struct ddict_client who = {x->uid.node, x->uid.client};
    uint64_t now;
    return ddict_alive(c->d, who, pub_left_ms(c)) == 0 &&
           ddict_key_version(c->d, c->key, c->klen, &now, pub_left_ms(c)) == 0 && now == l->version;
}

/* Whether nobody needs the value: it is old, or its publisher has died. */
static bool is_over(struct pub_call *c, const struct pub_look *l, const struct pub_entry *x) {
    if (x->state == PUB_OLD)
        return true;
    if (c->makers == MAKERS_MAX && l->n + 2 < PUB_ENTRIES)
        return false; /* the next publication asks */
    bool dead = maker_is_dead(c, l, x);
    c->makers += !dead && c->makers < MAKERS_MAX;
    return dead;
}

unsigned pub_settle(struct pub_call *c, const struct pub_look *l, const struct pub_uid *but,
                    struct pub_entry *e) {
    unsigned n = 2;
    for (unsigned i = 2; i < l->n; i++) {
        const struct pub_entry *x = &l->e[i];
        if (but && pub_same(&x->uid, but))
            continue;
        /* what cannot be removed now is tried again by who publishes next */
        if (!is_over(c, l, x) || pub_clean(c, x) != 1)
            e[n++] = *x;
    }
    return n;
}

int pub_await_room(struct pub_call *c, uint64_t version) {
    int ms = pub_left_ms(c);
    int rc = ms == 0 ? 0
                     : ddict_wait_change(c->d, c->key, c->klen, version, NULL,
                                         ms < ROOM_MS ? ms : ROOM_MS);
    if (pub_left_ms(c) == 0)
        return dd_error(-ETIMEDOUT,
                        "too many values are published under this name at once, or still fetched "
                        "by nodes that were overtaken: more than %u",
                        PUB_ENTRIES - 3);
    return rc == 0 || rc == -ETIMEDOUT || key_is_absent(rc) ? DDICT_ECHANGED : rc;
}

void pub_entry_add(struct pub_entry *e, unsigned *n, const struct pub_entry *x, unsigned state) {
    e[*n] = *x;
    e[(*n)++].state = (uint16_t)state;
}

/* The index says that the value is being made. The version before the newest is old now, so that
 * there are never more than two. */
static int announce_making(struct pub_call *c, const struct pub_entry *mine) {
    struct pub_look l;
    int rc;
    do {
        if ((rc = pub_look(c, &l)) < 0)
            return rc;
        struct pub_entry e[PUB_ENTRIES] = {l.e[0]};
        unsigned n = pub_settle(c, &l, &mine->uid, e);
        if (n + (l.e[1].version != 0) + 1 > PUB_ENTRIES) {
            pub_look_end(&l);
            rc = pub_await_room(c, l.version);
            continue;
        }
        if (l.e[1].version != 0)
            pub_entry_add(e, &n, &l.e[1], PUB_OLD);
        pub_entry_add(e, &n, mine, PUB_MAKING);
        struct iovec v = {(void *)(uintptr_t)l.value, e[0].piece == 0 ? e[0].len : 0};
        rc = pub_index_put(c, &l, e, n, &v, 1);
        if (rc == 0 && l.e[1].version != 0) /* its memory is needed */
            pub_clean(c, &l.e[1]);
        pub_look_end(&l);
    } while (rc == DDICT_ECHANGED);
    return rc;
}

/*
 * The value is not to be published: the index gives it up. An answer that did not come may have left
 * it published: 1 then, and 0 otherwise.
 */
static int give_up(struct pub_call *c, const struct pub_entry *mine, uint64_t *version) {
    struct pub_look l;
    uint64_t until_ns = clock_ns() + GIVE_UP_MS * 1000000ull;
    int rc;
    if (c->until_ns < until_ns)
        c->until_ns = until_ns;
    do {
        if ((rc = pub_look(c, &l)) < 0)
            return rc;
        struct pub_entry e[PUB_ENTRIES] = {l.e[0], l.e[1]};
        bool done = pub_is_current(&l, &mine->uid);
        unsigned n = done ? 0 : pub_settle(c, &l, &mine->uid, e);
        struct iovec v = {(void *)(uintptr_t)l.value, e[0].piece == 0 ? e[0].len : 0};
        if (!done) {
            if (n < PUB_ENTRIES)
                pub_entry_add(e, &n, mine, PUB_OLD);
            rc = pub_index_put(c, &l, e, n, &v, 1);
        }
        if (done && version)
            *version = pub_same(&l.e[0].uid, &mine->uid) ? l.e[0].version : l.e[1].version;
        pub_look_end(&l);
        if (done)
            return 1;
    } while (rc == DDICT_ECHANGED);
    return rc < 0 ? rc : pub_clean(c, mine) < 0 ? -EIO : 0;
}

/* Whether the index still says that it is made: otherwise the dictionary was cleared meanwhile. */
static bool is_making(const struct pub_look *l, const struct pub_entry *mine) {
    for (unsigned i = 2; i < l->n; i++)
        if (l->e[i].state == PUB_MAKING && pub_same(&l->e[i].uid, &mine->uid))
            return true;
    return mine->piece == 0;
}

/* The value is published. */
static int announce(struct pub_call *c, const struct pub_entry *mine, const struct iovec *iov,
                    int niov, uint64_t *version) {
    struct pub_look l;
    unsigned n;
    int rc;
    do {
        if ((rc = pub_look(c, &l)) < 0)
            return rc;
        if (!is_making(&l, mine)) {
            pub_look_end(&l);
            return dd_error(DDICT_ENOKEY, "the dictionary was cleared while this was published");
        }
        struct pub_entry e[PUB_ENTRIES] = {*mine};
        n = pub_settle(c, &l, &mine->uid, e);
        if (n + (l.e[1].version != 0) > PUB_ENTRIES) {
            pub_look_end(&l);
            rc = pub_await_room(c, l.version);
            continue;
        }
        e[0].version = l.e[0].version + 1;
        if (l.e[0].version != 0 && l.e[0].piece != 0)
            e[1] = l.e[0];
        if (l.e[1].version != 0)
            pub_entry_add(e, &n, &l.e[1], PUB_OLD);
        rc = pub_index_put(c, &l, e, n, iov, niov);
        if (rc == 0 && version)
            *version = e[0].version;
        if (rc == 0 && l.e[1].version != 0)
            pub_clean(c, &l.e[1]);
        pub_look_end(&l);
    } while (rc == DDICT_ECHANGED);
    return rc;
}

/* The part of the pieces of a value from byte at on. Returns their number. */
static int cut(const struct iovec *iov, int n, uint64_t at, uint64_t len, struct iovec *out) {
    int k = 0;
    for (int i = 0; i < n && len > 0; i++) {
        if (at >= iov[i].iov_len) {
            at -= iov[i].iov_len;
            continue;
        }
        uint64_t part = iov[i].iov_len - at < len ? iov[i].iov_len - at : len;
        out[k++] = (struct iovec){(char *)iov[i].iov_base + at, part};
        len -= part;
        at = 0;
    }
    return k;
}

static int store_pieces(struct pub_call *c, const struct pub_entry *e, const struct iovec *iov,
                        int n) {
    struct pub_chain ch = {.version = 0};
    struct iovec part[DDICT_PIECES_MAX];
    int rc = pub_chain_put(c, e, &ch);
    for (uint64_t i = 0; i < pub_pieces(e) && rc == 0; i++) {
        struct pub_key k;
        if ((rc = pub_key_of(c, e, PUB_PIECE, e->origin, i, &k)) < 0)
            break;
        int parts = cut(iov, n, i * e->piece, pub_piece_len(e, i), part);
        rc = ddict_putv(c->d, k.bytes, k.len, part, parts, 0, pub_left_ms(c));
    }
    return rc;
}

static uint64_t piece_size(const struct pub_call *c, uint64_t len) {
    uint64_t size = (len / PUB_PIECES + PUB_PIECE_MIN - 1) / PUB_PIECE_MIN * PUB_PIECE_MIN;
    if (c->s->nodes == 1) /* read where it lies */
        return len;
    return size < PUB_PIECE_MIN ? PUB_PIECE_MIN : size > PUB_PIECE_MAX ? PUB_PIECE_MAX : size;
}

/* An answer that did not come leaves open whether the change was made. */
static bool is_open(int rc) {
    return rc == -ETIMEDOUT || rc == DDICT_ELOST || rc == DDICT_EGONE;
}

static int publish_large(struct pub_call *c, struct pub_entry *e, const struct iovec *iov, int n,
                         uint64_t *version) {
    char why[DD_ERRMSG_MAX];
    e->piece = piece_size(c, e->len);
    int rc = announce_making(c, e);
    if (rc < 0 && !is_open(rc))
        return rc;
    if (rc == 0 && (rc = store_pieces(c, e, iov, n)) == 0)
        rc = announce(c, e, NULL, 0, version);
    if (rc == 0)
        return 0;
    strcpy(why, dd_errmsg());
    if (!is_open(rc)) /* the memory is needed to say so */
        pub_clean(c, e);
    if (give_up(c, e, version) == 1)
        return 0;
    return dd_error(rc, "%s", why);
}

int ddict_publish(ddict_t *d, const void *name, size_t nlen, const struct iovec *iov, int n,
                  unsigned flags, uint64_t *version, int timeout_ms) {
    struct pub_call c;
    uint64_t len = 0;
    int rc = pub_begin(&c, d, name, nlen, timeout_ms);
    if (rc == 0 && (n < 0 || n > DDICT_PIECES_MAX))
        rc = dd_error(-EINVAL, "a value of %d pieces: at most %d", n, DDICT_PIECES_MAX);
    if (rc == 0 && flags & ~DDICT_TAG(0xff))
        rc = dd_error(-EINVAL, "publish with unknown flags 0x%x", flags);
    if (rc == 0 && (rc = pieces_length(iov, n, &len)) == 0) {
        struct pub_entry e = {
            .uid = uid_new(&c), .len = len, .tag = DDICT_TAG_OF(flags), .origin = c.home};
        rc = len <= PUB_INLINE ? announce(&c, &e, iov, n, version)
                               : publish_large(&c, &e, iov, n, version);
    }
    pub_end(&c);
    return rc;
}

int ddict_bput(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
               unsigned flags, int timeout_ms) {
    struct iovec v = {.iov_base = (void *)(uintptr_t)val, .iov_len = vlen};
    return ddict_publish(d, key, klen, &v, 1, flags, NULL, timeout_ms);
}
