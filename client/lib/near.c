/* SPDX-License-Identifier: Apache-2.0 */
/* near.c - read a key whose value lies near who put it (near.h). */
#include "near.h"

#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- one call --- */

int near_begin(struct near_call *c, ddict_t *d, const void *key, size_t klen, int timeout_ms) {
    memset(c, 0, sizeof *c);
    c->d = d;
    int rc = target_init(&c->t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    c->timeout_ms = timeout_ms;
    call_deadline_init(&c->w, c->t.s, timeout_ms);
    return 0;
}

int near_left_ms(struct near_call *c) {
    if (c->timeout_ms == 0)
        return 0;
    uint64_t left = (call_deadline_left_us(&c->w) + 999) / 1000;
    return left < INT32_MAX ? (int)left : INT32_MAX;
}

static int link_ask(struct near_call *c) {
    struct outgoing out = {.head = {.type = MSG_HEAD,
                                    .flags = MSGF_LINK,
                                    .key_len = (uint32_t)c->t.klen,
                                    .manager = c->t.owner},
                           .key = c->t.key};
    struct request r = {
        .sink = SINK_BUFFER, .buf = (uint8_t *)&c->item.link, .cap = sizeof c->item.link};
    if (near_left_ms(c) == 0)
        return dd_error(-ETIMEDOUT, "no time was left to ask manager %u", c->t.owner);
    int rc = request_call_within(c->t.s, session_route(c->t.s, c->t.owner), &out, &r, &c->w);
    c->item.version = r.reply.version;
    c->item.tag = r.reply.tag;
    c->item.len = r.got;
    return rc;
}

int near_look(struct near_call *c) {
    struct node_manager *m = session_local(c->t.s, c->t.owner);
    int rc = m ? local_link(c->t.s, m, c->t.h, c->t.key, c->t.klen, &c->item) : -EAGAIN;
    if (rc == -EAGAIN)
        rc = link_ask(c);
    c->is = rc < 0 ? NEAR_ABSENT : c->item.len > 0 ? NEAR_LINK : NEAR_PLAIN;
    if (c->is == NEAR_ABSENT)
        c->item = (struct near_item){0};
    if (rc == DDICT_ENOKEY)
        return 0;
    if (rc == 0 && c->is == NEAR_LINK && c->item.len != sizeof c->item.link)
        return dd_error(DDICT_EPROTO, "the link of a key has %llu bytes",
                        (unsigned long long)c->item.len);
    return rc;
}

/* --- the value --- */

_Static_assert(sizeof(struct near_link) == MSG_LINK, "PROTOCOL 2");

void near_value_key(const struct near_link *l, uint8_t key[NEAR_KEY_LEN]) {
    uint64_t name[3] = {l->node, l->client, l->number};
    memcpy(key, DIRECT_WORD, DIRECT_LEN);
    memcpy(key + DIRECT_LEN, &l->manager, sizeof l->manager);
    memcpy(key + DIRECT_HEAD, NEAR_WORD, NEAR_WORD_LEN);
    memcpy(key + DIRECT_HEAD + NEAR_WORD_LEN, name, sizeof name);
}

struct near_left {
    struct near_left *next;
    struct near_link link;
};

static void left_add(ddict_t *d, const struct near_link *l) {
    struct near_left *e = malloc(sizeof *e);
    if (!e)
        return; /* it stays */
    *e = (struct near_left){.next = __atomic_load_n(&d->near_left, __ATOMIC_RELAXED), .link = *l};
    while (!__atomic_compare_exchange_n(&d->near_left, &e->next, e, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
}

void near_value_remove(struct near_call *c, const struct near_link *l) {
    uint8_t key[NEAR_KEY_LEN];
    char text[DD_ERRMSG_MAX];
    int left = near_left_ms(c);
    memcpy(text, dd_errmsg(), strlen(dd_errmsg()) + 1);
    near_value_key(l, key);
    int rc = ddict_del(c->d, key, sizeof key, left > NEAR_TIDY_MS ? left : NEAR_TIDY_MS);
    if (rc == DDICT_EFROZEN)
        left_add(c->d, l);
    dd_error(0, "%s", text);
}

void near_left_remove(struct near_call *c) {
    struct near_left *l = __atomic_load_n(&c->d->near_left, __ATOMIC_RELAXED);
    if (l)
        l = __atomic_exchange_n(&c->d->near_left, NULL, __ATOMIC_ACQUIRE);
    for (struct near_left *next; l; l = next) {
        next = l->next;
        near_value_remove(c, &l->link);
        free(l);
    }
}

void near_left_free(struct near_left *l) {
    for (struct near_left *next; l; l = next) {
        next = l->next;
        free(l);
    }
}

int near_link_remove(struct near_call *c) {
    struct outgoing out = {.head = {.type = MSG_DEL,
                                    .rule = RULE_LINKED,
                                    .key_len = (uint32_t)c->t.klen,
                                    .version = c->item.version,
                                    .manager = c->t.owner},
                           .key = c->t.key};
    struct request r = {.sink = SINK_NONE};
    if (near_left_ms(c) == 0)
        return dd_error(-ETIMEDOUT, "no time was left for the change");
    return request_call_within(c->t.s, session_route(c->t.s, c->t.owner), &out, &r, &c->w);
}

/* The value was cleared (N2); while the dictionary is frozen, or no time is left, the link stays. */
static int value_cleared(struct near_call *c) {
    int rc = near_link_remove(c);
    if (rc == DDICT_ECHANGED)
        return rc;
    return rc == 0 || rc == DDICT_EFROZEN || rc == -ETIMEDOUT ? dd_error_plain(DDICT_ENOKEY) : rc;
}

int near_value(struct near_call *c, struct ddict_view *v) {
    uint8_t key[NEAR_KEY_LEN];
    near_value_key(&c->item.link, key);
    int rc = ddict_view(c->d, key, sizeof key, v, 0, near_left_ms(c));
    v->version = c->item.version;
    if (rc == DDICT_EKEYLOST)
        return dd_error(rc, "the value of this key lay on manager %u, and was lost with its node",
                        c->item.link.manager);
    if (rc != DDICT_ENOKEY)
        return rc;
    if (c->missed == c->item.version)
        return value_cleared(c);
    c->missed = c->item.version;
    return DDICT_ECHANGED;
}

/* --- the calls --- */

/* 0, DDICT_ECHANGED: the key has no link any more, or a negative code. */
static int link_view(struct near_call *c, struct ddict_view *v) {
    int rc;
    do {
        if ((rc = near_look(c)) < 0)
            return rc;
        if (c->is != NEAR_LINK)
            return DDICT_ECHANGED;
        rc = near_value(c, v);
    } while (rc == DDICT_ECHANGED && near_left_ms(c) > 0);
    return rc == DDICT_ECHANGED ? dd_error(-ETIMEDOUT, "others changed the key all the time") : rc;
}

/* The value was cleared, and the link may have stayed: wait until it is gone. */
static int link_await(struct near_call *c) {
    int rc = ddict_wait_change(c->d, c->t.key, c->t.klen, c->item.version, NULL, near_left_ms(c));
    return rc == -ETIMEDOUT
               ? dd_error(rc, "the key did not appear within %.3g s", c->w.timeout_ms / 1000.0)
               : rc;
}

int near_view(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, unsigned flags,
              int timeout_ms) {
    struct near_call c;
    v->kind_ = 0;
    int rc = near_begin(&c, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    rc = link_view(&c, v);
    if (rc == DDICT_ENOKEY && flags & DDICT_WAIT && (rc = link_await(&c)) == 0)
        rc = DDICT_ECHANGED;
    return rc == DDICT_ECHANGED ? ddict_view(d, key, klen, v, flags, near_left_ms(&c)) : rc;
}

int near_get(ddict_t *d, const void *key, size_t klen, void *buf, size_t cap, size_t *vlen,
             unsigned *tag, unsigned flags, int timeout_ms) {
    struct ddict_view v;
    int rc = near_view(d, key, klen, &v, flags, timeout_ms);
    return rc < 0 ? rc : view_copy(&v, buf, cap, vlen, tag);
}

int near_take(ddict_t *d, const void *key, size_t klen, struct ddict_view *v, int timeout_ms) {
    struct near_call c;
    int rc = near_begin(&c, d, key, klen, timeout_ms);
    if (rc < 0 || (rc = link_view(&c, v)) < 0)
        return rc == DDICT_ENOKEY ? DDICT_ECHANGED : rc;
    rc = near_link_remove(&c);
    if (rc < 0)
        ddict_release(v);
    else
        near_value_remove(&c, &c.item.link);
    if (rc == 0)
        near_left_remove(&c);
    return rc == DDICT_ENOKEY ? DDICT_ECHANGED : rc;
}
