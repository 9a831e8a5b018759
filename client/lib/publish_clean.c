/* SPDX-License-Identifier: Apache-2.0 */
/* publish_clean.c - remove the items of a published value that nobody reads any more. */
#include "publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 64u /* removals under way */

int pub_remove(struct pub_call *c, uint64_t n,
               int (*make)(void *arg, uint64_t i, struct pub_key *k), void *arg) {
    struct ddict_op done[AT_ONCE];
    ddict_async_t *q;
    int failed = 0, rc = ddict_async_open(c->d, &q);
    if (rc < 0)
        return rc;
    for (uint64_t i = 0; i < n || ddict_async_len(q) > 0;) {
        while (rc >= 0 && i < n && ddict_async_len(q) < AT_ONCE) {
            struct pub_key k;
            struct ddict_op op = {.what = DDICT_OP_DEL, .timeout_ms = -1, .key = k.bytes};
            if ((rc = make(arg, i++, &k)) < 0)
                break;
            op.klen = k.len;
            if ((rc = (int)ddict_async_submit(q, &op, 1)) == 0 && op.status < 0) {
                failed = key_is_absent(op.status) ? failed : op.status;
                free(op.text);
            }
        }
        ssize_t got = rc < 0 ? rc : ddict_async_poll(q, done, AT_ONCE, 1000);
        if (got < 0) {
            failed = (int)got;
            break;
        }
        for (ssize_t j = 0; j < got; j++) {
            if (done[j].status < 0 && !key_is_absent(done[j].status))
                failed = done[j].status;
            free(done[j].text);
        }
    }
    ddict_async_close(q);
    return failed;
}

struct pieces_of {
    struct pub_call *c;
    const struct pub_entry *e;
    enum pub_kind kind;
    unsigned node;
};

static int make_piece(void *arg, uint64_t i, struct pub_key *k) {
    const struct pieces_of *p = arg;
    return pub_key_of(p->c, p->e, p->kind, p->node, i, k);
}

int pub_remove_pieces(struct pub_call *c, const struct pub_entry *e, enum pub_kind kind,
                      unsigned node) {
    struct pieces_of p = {c, e, kind, node};
    return pub_remove(c, kind == PUB_WHOLE || kind == PUB_CHAIN ? 1 : pub_pieces(e), make_piece,
                      &p);
}

/* Whether a node of the chain is fetching it now. */
static int being_fetched(struct pub_call *c, const struct pub_entry *e,
                         const struct pub_chain *ch) {
    int rc = 0;
    for (uint32_t i = 0; i < ch->n && rc == 0; i++) {
        struct pub_held h;
        rc = pub_held_get(c, ch->link[i].node, &e->uid, &h);
        if (rc == 1)
            rc = h.state == PUB_FETCHING ? ddict_alive(c->d, h.who, c->s->timeout_ms) : 0;
    }
    return rc;
}

/* Remove what the chain's i-th node has of it. */
static int clean_node(struct pub_call *c, const struct pub_entry *e, const struct pub_chain *ch,
                      uint32_t i) {
    struct pub_held h;
    const struct pub_link *l = &ch->link[i];
    int rc = pub_held_get(c, l->node, &e->uid, &h);
    if (rc < 0)
        return rc;
    bool has = rc == 1, took_all = has && h.state == PUB_HAS_CLEAN;
    if (l->up != PUB_NONE && !took_all)
        rc = pub_remove_pieces(c, e, PUB_PASSED, l->up);
    if (rc >= 0)
        rc = pub_remove_pieces(c, e, PUB_WHOLE, l->node);
    if (rc >= 0 && has)
        rc = pub_held_set(c, l->node, &h, NULL);
    return rc == DDICT_ECHANGED ? 0 : rc;
}

/* Close the chain, if nobody fetches the value: nobody can join it then. 1, 0: somebody does. */
static int chain_close(struct pub_call *c, const struct pub_entry *e, struct pub_chain *ch) {
    int rc;
    for (;;) {
        if ((rc = pub_chain_read(c, e, ch)) < 0)
            return rc;
        if ((rc = being_fetched(c, e, ch)) != 0)
            return rc < 0 ? rc : 0;
        ch->closed = 1;
        rc = pub_chain_put(c, e, ch);
        if (rc ==
            DDICT_EFULL) /* no room to say so: who joins it yet finds no piece, and looks again */
            return 1;
        if (rc != DDICT_ECHANGED)
            return rc < 0 ? rc : 1;
        free(ch->link); /* another node has joined */
    }
}

int pub_clean(struct pub_call *c, const struct pub_entry *e) {
    struct pub_chain ch = {.link = NULL};
    if (e->piece == 0)
        return 1;
    int rc = chain_close(c, e, &ch);
    for (uint32_t i = 0; i < ch.n && rc == 1; i++) {
        int one = clean_node(c, e, &ch, i);
        rc = one < 0 ? one : 1;
    }
    free(ch.link);
    if (key_is_absent(rc)) /* the chain is removed last */
        return 1;
    if (rc != 1)
        return rc;
    rc = pub_remove_pieces(c, e, PUB_PIECE, e->origin);
    if (rc == 0)
        rc = pub_remove_pieces(c, e, PUB_CHAIN, e->origin);
    return rc < 0 ? rc : 1;
}
