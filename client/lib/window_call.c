/* SPDX-License-Identifier: Apache-2.0 */
/* window_call.c - what every call on a key of a working set begins with: the names of its items, and
 * what they have now. */
#include "window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- names --- */

void window_key_free(struct window_key *k) {
    if (k->at != k->room)
        free(k->at);
}

int window_item_key(struct window_key *k, unsigned manager, const char *word, const void *part,
                    size_t plen, const void *key, size_t klen) {
    size_t wlen = strlen(word);
    k->len = DIRECT_HEAD + WINDOW_LEN + wlen + plen + klen;
    k->at = k->room;
    if (k->len > DDICT_KEY_MAX)
        return dd_error(DDICT_EKEYSIZE,
                        "a key of %zu bytes: in a dictionary with a working set it may have %zu",
                        klen, (size_t)WINDOW_KEY_MAX);
    if (k->len > sizeof k->room && !(k->at = malloc(k->len)))
        return dd_error(-ENOMEM, "no memory for a key of %zu bytes", k->len);
    uint8_t *at = k->at;
    memcpy(at, DIRECT_WORD, DIRECT_LEN);
    memcpy(at += DIRECT_LEN, &(uint32_t){manager}, sizeof(uint32_t));
    memcpy(at += sizeof(uint32_t), WINDOW_KEY, WINDOW_LEN);
    memcpy(at += WINDOW_LEN, word, wlen);
    if (plen > 0)
        memcpy(at += wlen, part, plen);
    else
        at += wlen;
    if (klen > 0)
        memcpy(at + plen, key, klen);
    return 0;
}

int window_value_key(const struct window_call *c, const struct window_entry *e,
                     struct window_key *k) {
    uint64_t who[3] = {e->node, e->client, e->number};
    return window_item_key(k, c->owner, WINDOW_VALUE, who, sizeof who, c->key, c->klen);
}

/* --- begin and end --- */

int window_call_begin(struct window_call *c, ddict_t *d, const void *key, size_t klen,
                      unsigned flags, int timeout_ms) {
    struct target t;
    memset(c, 0, offsetof(struct window_call, index_key));
    memset(&c->state, 0, sizeof *c - offsetof(struct window_call, state));
    int rc = target_init(&t, d, key, klen, timeout_ms);
    if (rc < 0)
        return rc;
    if (klen > WINDOW_KEY_MAX)
        return dd_error(DDICT_EKEYSIZE,
                        "a key of %zu bytes: in a dictionary with a working set it may have %zu",
                        klen, (size_t)WINDOW_KEY_MAX);
    c->d = d;
    c->s = t.s;
    c->key = key;
    c->klen = klen;
    c->owner = t.owner;
    c->checkpoint = __atomic_load_n(&d->checkpoint, __ATOMIC_RELAXED);
    c->timeout_ms = session_wait_ms(t.s, flags, timeout_ms);
    call_deadline_init(&c->w, t.s, c->timeout_ms);
    return window_item_key(&c->index_key, c->owner, WINDOW_INDEX, NULL, 0, key, klen);
}

void window_call_end(struct window_call *c) {
    ddict_release(&c->index);
    window_key_free(&c->index_key);
}

int window_left_ms(struct window_call *c) {
    if (c->timeout_ms == 0)
        return 0;
    uint64_t left = (call_deadline_left_us(&c->w) + 999) / 1000;
    return left < INT32_MAX ? (int)left : INT32_MAX;
}

/* --- what they have now --- */

int window_state_take(struct window_call *c, struct ddict_want *w) {
    c->state = (struct window_state){0};
    c->state_version = 0;
    if (w->status == DDICT_ENOKEY)
        return 0;
    if (w->status < 0)
        return w->status;
    bool fits = w->view.len == sizeof c->state;
    if (fits)
        memcpy(&c->state, w->view.data, sizeof c->state);
    c->state_version = w->view.version;
    ddict_release(&w->view);
    return fits ? 0 : dd_error(DDICT_EPROTO, "the window of the working set makes no sense");
}

int window_state_look(struct window_call *c) {
    struct ddict_want w = {.key = WINDOW_KEY, .klen = WINDOW_LEN};
    ssize_t n = ddict_get_many(c->d, &w, 1, 0, window_left_ms(c));
    return n < 0 ? (int)n : window_state_take(c, &w);
}

int window_index_take(struct window_call *c, struct ddict_want *w) {
    ddict_release(&c->index);
    c->index = (struct ddict_view){0};
    c->x = NULL;
    if (w->status == DDICT_ENOKEY)
        return 0;
    if (w->status < 0)
        return w->status;
    c->index = w->view;
    c->x = window_index_read(w->view.data, w->view.len);
    return c->x ? 0
                : dd_error(DDICT_EPROTO, "the index of a key of the working set makes no sense");
}

int window_retired(const struct window_call *c) {
    return dd_error(DDICT_ERETIRED, "checkpoint %llu was retired: the working set has %llu to %llu",
                    (unsigned long long)c->checkpoint, (unsigned long long)c->state.oldest,
                    (unsigned long long)window_newest(c));
}

int window_look(struct window_call *c) {
    struct ddict_want w[2] = {{.key = WINDOW_KEY, .klen = WINDOW_LEN},
                              {.key = c->index_key.at, .klen = c->index_key.len}};
    ssize_t n = ddict_get_many(c->d, w, 2, 0, window_left_ms(c));
    if (n < 0)
        return (int)n;
    int rc = window_index_take(c, &w[1]);
    int of_state = window_state_take(c, &w[0]);
    if (of_state < 0 || rc < 0)
        return rc < 0 ? rc : of_state;
    /* without entries only the window as of now tells whether they were removed by a newer one (W3, W5) */
    bool none = !c->x || (c->x->n == 0 && c->index.version != c->made);
    if (none && (rc = window_state_look(c)) < 0)
        return rc;
    /* the index may have been read later than the window */
    if (c->x && c->x->floor > c->state.oldest)
        c->state.oldest = c->x->floor;
    return c->state.oldest > c->checkpoint ? window_retired(c) : 0;
}

/* --- W4 --- */

bool window_must_raise(const struct window_call *c) {
    const struct window_entry *is = window_index_at(c->x, c->checkpoint);
    return c->x && c->x->floor < c->state.oldest && !(is && is->checkpoint >= c->state.oldest);
}

int window_raise(struct window_call *c) {
    struct window_edit e;
    if (!window_must_raise(c))
        return 0;
    if (window_edit_begin(&e, c->x, c->state.oldest, window_keeps(c->s)) < 0)
        return dd_error(-ENOMEM, "no memory for the index of a key");
    int rc = window_commit(c, &e);
    window_edit_end(&e);
    /* nobody changes anything now */
    return rc == DDICT_EFROZEN ? 0 : rc == 0 ? DDICT_ECHANGED : rc;
}

int window_check(ddict_t *d, int timeout_ms) {
    struct window_call c = {.d = d, .timeout_ms = timeout_ms};
    int rc = session_enter(d, &c.s, timeout_ms);
    if (rc < 0)
        return rc;
    c.checkpoint = __atomic_load_n(&d->checkpoint, __ATOMIC_RELAXED);
    call_deadline_init(&c.w, c.s, timeout_ms);
    if ((rc = window_state_look(&c)) < 0)
        return rc;
    return c.state.oldest > c.checkpoint ? window_retired(&c) : 0;
}
