/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow_fetch.c - a large value on this node. One process of the node fetches it, for all: it says
 * so in what the node holds. The others wait, and one of them goes on if it dies. Who cannot leave
 * the value on the node (no room, or the dictionary is frozen) has it in memory of its own.
 */
#include "publish.h"
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int view_whole(struct pub_call *c, const struct pub_entry *e, enum pub_kind kind,
                      struct ddict_view *v, int wait_ms) {
    struct pub_key k;
    int rc = pub_key_of(c, e, kind, c->home, 0, &k);
    if (rc < 0)
        return rc;
    rc = ddict_view(c->d, k.bytes, k.len, v, wait_ms > 0 ? DDICT_WAIT : 0,
                    wait_ms > 0 ? wait_ms : c->s->timeout_ms);
    if (rc == 0 && v->len != e->len) {
        ddict_release(v);
        return dd_error(DDICT_EPROTO, "a published value has another length on this node");
    }
    return rc;
}

/* The value in this process's own memory. */
static int fetch_alone(struct pub_call *c, const struct pub_entry *e, struct ddict_view *v) {
    char *mem = view_memory(e->len);
    if (!mem)
        return dd_error(-ENOMEM, "no memory for %llu bytes", (unsigned long long)e->len);
    struct pub_fetch f = {.c = c, .e = e, .mem = mem, .up = PUB_NONE};
    int rc = pub_fetch_pieces(&f);
    if (rc < 0)
        free(mem);
    else
        *v = (struct ddict_view){.data = mem, .len = e->len, .tag = e->tag, .kind_ = 2};
    return rc;
}

/* The last node that passes on what it has, and to nobody yet. */
static uint32_t free_link(const struct pub_chain *ch) {
    for (uint32_t i = ch->n; i-- > 0;) {
        bool taken = ch->link[i].state != PUB_OPEN;
        for (uint32_t k = i + 1; k < ch->n; k++)
            taken |= ch->link[k].up == ch->link[i].node;
        if (!taken)
            return ch->link[i].node;
    }
    return PUB_NONE;
}

/*
 * Join the chain. *up: whose pieces this node takes. 1: it had joined before, and who fetched then has
 * died with what it knew; so nobody is to come behind it any more. -EAGAIN: nobody may join.
 */
static int chain_join(struct pub_call *c, const struct pub_entry *e, uint32_t *up) {
    struct pub_chain ch;
    int rc;
    bool joined;
    do {
        if ((rc = pub_chain_read(c, e, &ch)) < 0)
            return key_is_absent(rc) ? -EAGAIN : rc;
        /* from the origin's own node others take the pieces anyway */
        bool origin = e->origin == c->home;
        uint32_t i = 0;
        while (i < ch.n && ch.link[i].node != c->home)
            i++;
        joined = i < ch.n;
        *up = origin || joined ? PUB_NONE : free_link(&ch);
        if (!joined)
            ch.link[ch.n++] = (struct pub_link){.node = c->home, .up = *up};
        ch.link[i].state = origin || joined ? PUB_CLOSED : PUB_OPEN;
        rc = ch.closed ? -EAGAIN : pub_chain_put(c, e, &ch);
        free(ch.link);
    } while (rc == DDICT_ECHANGED);
    return rc < 0 ? rc : joined;
}

/* Fetch it into a value of this node. */
static int fetch_here(struct pub_call *c, const struct pub_entry *e, struct pub_held *mine,
                      struct ddict_view *v) {
    struct pub_fetch f = {.c = c, .e = e};
    struct ddict_place p;
    struct pub_key k;
    int rc = chain_join(c, e, &f.up);
    if (rc < 0)
        return rc;
    f.in_chain = rc == 0 && e->origin != c->home;
    if ((rc = pub_key_of(c, e, PUB_WHOLE, c->home, 0, &k)) < 0 ||
        (rc = ddict_reserve(c->d, k.bytes, k.len, e->len, DDICT_TAG(e->tag), &p)) < 0)
        return rc;
    f.mem = p.data;
    rc = pub_fetch_pieces(&f);
    if (rc == 0)
        rc = ddict_commit_keep(&p, c->s->timeout_ms);
    if (rc == DDICT_EFULL || rc == DDICT_EFROZEN) { /* then it is this process's alone */
        char *mem = view_memory(e->len);
        if (mem) {
            memcpy(mem, p.data, e->len);
            *v = (struct ddict_view){.data = mem, .len = e->len, .tag = e->tag, .kind_ = 2};
        }
        ddict_abort(&p);
        return mem ? 1 : rc;
    }
    ddict_abort(&p);
    if (rc < 0)
        return rc;
    /* before the node is said to have it: from then on it may be removed */
    if ((rc = view_whole(c, e, PUB_WHOLE, v, 0)) < 0)
        return key_is_absent(rc) ? -EAGAIN : rc;
    struct pub_held be = *mine;
    be.state = f.up_was_clean ? PUB_HAS_CLEAN : PUB_HAS;
    if ((rc = pub_held_set(c, c->home, mine, &be)) == 0)
        *mine = be;
    else
        ddict_release(v);
    return rc;
}

/* If it became old meanwhile, nobody else may have removed it: whoever looked saw that it is fetched. */
static void remove_old(struct pub_call *c, const struct pub_entry *e) {
    struct pub_look l;
    c->until_ns = clock_ns() + (uint64_t)c->s->timeout_ms * 1000000u;
    if (pub_look(c, &l) < 0)
        return;
    bool current = pub_is_current(&l, &e->uid);
    pub_look_end(&l);
    if (!current)
        pub_clean(c, e);
}

/* This process has said that it fetches the value. */
static int fetch_claimed(struct pub_call *c, const struct pub_entry *e, struct pub_held mine,
                         struct ddict_view *v) {
    struct pub_look l;
    int rc = pub_look(c, &l);
    if (rc == 0) {
        rc = pub_is_current(&l, &e->uid) ? 0 : -EAGAIN;
        pub_look_end(&l);
    }
    if (rc == 0)
        rc = fetch_here(c, e, &mine, v);
    if (rc == 0) {
        remove_old(c, e);
        return 0;
    }
    char why[DD_ERRMSG_MAX];
    strcpy(why, dd_errmsg());
    pub_held_set(c, c->home, &mine, NULL);
    if (rc == 1) /* it has it in memory of its own */
        remove_old(c, e);
    if (rc == DDICT_EFULL || rc == -ENOMEM || rc == DDICT_EVALSIZE || rc == DDICT_EFROZEN)
        return fetch_alone(c, e, v);
    return rc == 1 ? 0 : rc == -EAGAIN ? rc : dd_error(rc, "%s", why);
}

/* Somebody else has it, or fetches it. 0: it is here; -EAGAIN: look again; 1: this process is to
 * fetch it, having said so in *h. */
static int fetch_waited(struct pub_call *c, const struct pub_entry *e, struct pub_held *h,
                        struct ddict_view *v) {
    int rc = view_whole(c, e, PUB_WHOLE, v, h->state == PUB_FETCHING ? PUB_HOLDER_MS : 0);
    if (rc == 0)
        return 0;
    if (!key_is_absent(rc) && rc != -ETIMEDOUT)
        return rc;
    if (h->state != PUB_FETCHING)
        return -EAGAIN;
    if (ddict_is_frozen(c->d) ==
        1) /* who fetches it cannot leave it here; it is not removed either */
        return fetch_alone(c, e, v);
    if ((rc = ddict_alive(c->d, h->who, c->s->timeout_ms)) != 0)
        return rc < 0 ? rc : -EAGAIN;
    struct pub_held be = *h;
    be.who = c->me;
    if ((rc = pub_held_set(c, c->home, h, &be)) < 0)
        return rc == DDICT_ECHANGED ? -EAGAIN : rc;
    *h = be;
    return 1;
}

int pub_fetch(struct pub_call *c, const struct pub_entry *e, struct ddict_view *v) {
    if (e->origin == c->home && pub_pieces(e) == 1) { /* the piece is the value */
        int rc = view_whole(c, e, PUB_PIECE, v, 0);
        v->tag = e->tag;
        return key_is_absent(rc) ? -EAGAIN : rc;
    }
    uint64_t until_ms = clock_ms() + (uint64_t)c->s->timeout_ms;
    while (clock_ms() < until_ms) {
        struct pub_held h;
        int rc = pub_held_get(c, c->home, &e->uid, &h);
        if (rc == 1) {
            bool had = h.state != PUB_FETCHING;
            rc = fetch_waited(c, e, &h, v);
            if (rc == 1)
                return fetch_claimed(c, e, h, v);
            if (rc != -EAGAIN || had)
                return rc;
            continue;
        }
        h = (struct pub_held){.uid = e->uid, .who = c->me, .state = PUB_FETCHING};
        if (rc == 0)
            rc = pub_held_set(c, c->home, NULL, &h);
        if (rc == 0)
            return fetch_claimed(c, e, h, v);
        if (rc == DDICT_EFULL || rc == DDICT_EFROZEN)
            return fetch_alone(c, e, v);
        if (rc != DDICT_ECHANGED)
            return rc;
    }
    return fetch_alone(c, e, v); /* who fetches it stands still */
}
