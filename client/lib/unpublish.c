/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpublish.c - take back what is published under a name: the index says that there is nothing, then
 * the values are removed, and the index last.
 */
#include "publish.h"

#include <errno.h>
#include <time.h>

#define FETCHED_MS 50 /* between looks whether a value is still fetched */

static int still_fetched(void) {
    return dd_error(-ETIMEDOUT, "it is not published any more, but a node still fetches it");
}

/* Remove a value that no index names any more. */
static int remove_unnamed(struct pub_call *c, const struct pub_entry *e) {
    int rc;
    while ((rc = pub_clean(c, e)) == 0 && pub_left_ms(c) > 0)
        nanosleep(&(struct timespec){.tv_nsec = FETCHED_MS * 1000000}, NULL);
    return rc == 1 ? 0 : rc < 0 ? rc : still_fetched();
}

/* There is no room to say that there is nothing: the index is removed first, then what it named. */
static int withdraw_full(struct pub_call *c, const struct pub_look *l) {
    int rc = ddict_del_if(c->d, c->key, c->klen, l->version, pub_left_ms(c));
    for (unsigned i = 0; i < l->n && rc == 0; i++)
        if (l->e[i].piece != 0 && (i < 2 ? l->e[i].version != 0 : l->e[i].state == PUB_OLD))
            rc = remove_unnamed(c, &l->e[i]);
    return rc;
}

/* From now on nobody finds a value. Those that are being made will be the first of the name again. */
static int withdraw(struct pub_call *c) {
    struct pub_look l;
    int rc;
    do {
        if ((rc = pub_look(c, &l)) < 0)
            return rc;
        struct pub_entry e[PUB_ENTRIES] = {{.version = 0}};
        unsigned n = pub_settle(c, &l, NULL, e);
        bool any = l.e[0].version != 0, room = n + 2 <= PUB_ENTRIES;
        for (unsigned i = 0; i < 2 && any && room; i++)
            if (l.e[i].version != 0 && l.e[i].piece != 0)
                pub_entry_add(e, &n, &l.e[i], PUB_OLD);
        if (any && room)
            rc = pub_index_put(c, &l, e, n, NULL, 0);
        pub_look_end(&l);
        if (rc == DDICT_EFULL)
            rc = withdraw_full(c, &l);
        if (!any)
            return dd_error_plain(l.lost ? DDICT_EKEYLOST : DDICT_ENOKEY);
        if (!room)
            rc = pub_await_room(c, l.version);
    } while (rc == DDICT_ECHANGED);
    return rc;
}

static bool has_old(const struct pub_look *l) {
    for (unsigned i = 2; i < l->n; i++)
        if (l->e[i].state == PUB_OLD)
            return true;
    return false;
}

/* Remove what no node fetches any more. 1: nothing is left to be removed; 0: not yet. */
static int tidy(struct pub_call *c, uint64_t *version) {
    struct pub_look l;
    int rc = pub_look(c, &l);
    if (rc < 0)
        return rc;
    struct pub_entry e[PUB_ENTRIES] = {{.version = 0}};
    bool over =
        l.e[0].version != 0 || !has_old(&l); /* published again: that has settled the rest */
    unsigned n = over ? l.n : pub_settle(c, &l, NULL, e);
    *version = l.version;
    pub_look_end(&l);
    if (l.version != 0 && l.e[0].version == 0 && n == 2)
        rc = ddict_del_if(c->d, c->key, c->klen, l.version, pub_left_ms(c));
    else if (!over && n < l.n)
        rc = pub_index_put(c, &l, e, n, NULL, 0);
    if (rc == DDICT_ECHANGED || key_is_absent(rc))
        rc = 0;
    return rc < 0 ? rc : over || n == 2;
}

static int held_tidy(struct pub_call *c) {
    int rc = 0;
    for (unsigned node = 0; rc == 0 && node < c->s->deal.keyed; node++)
        rc = pub_held_tidy(c, node);
    return rc;
}

/* Nothing is published. Of a value that was taken back, but not in time, the index is there yet. */
static int rest_remove(struct pub_call *c) {
    uint64_t version;
    if (ddict_key_version(c->d, c->key, c->klen, &version, pub_left_ms(c)) == 0 && version != 0 &&
        held_tidy(c) == 0)
        tidy(c, &version);
    return dd_error_plain(DDICT_ENOKEY);
}

int ddict_unpublish(ddict_t *d, const void *name, size_t nlen, int timeout_ms) {
    struct pub_call c;
    uint64_t version;
    int rc = pub_begin(&c, d, name, nlen, timeout_ms);
    if (rc == 0)
        rc = withdraw(&c);
    if (rc == 0)
        rc = held_tidy(&c);
    else if (rc == DDICT_ENOKEY)
        rc = rest_remove(&c);
    while (rc == 0 && (rc = tidy(&c, &version)) == 0) {
        int ms = pub_left_ms(&c);
        if (ms == 0)
            rc = still_fetched();
        else if ((rc = ddict_wait_change(d, c.key, c.klen, version, NULL,
                                         ms < FETCHED_MS ? ms : FETCHED_MS)) == -ETIMEDOUT)
            rc = 0;
    }
    pub_end(&c);
    return rc < 0 ? rc : 0;
}
