/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - changes that depend on what their key has. */
#include "rules.h"

#include "anew.h"
#include "answers.h"
#include "manager.h"

#include <errno.h>
#include <string.h>

/* Decimal text of an integer of 64 bits; *n is set if it is one. */
static bool number_read(const void *text, uint64_t len, int64_t *n) {
    const char *at = text, *end = at + len;
    bool less = len > 0 && *at == '-';
    int64_t x = 0;
    at += less;
    if (at == end || len > RULE_SUM_MAX)
        return false;
    for (; at < end; at++) {
        int digit = *at - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(x, 10, &x) ||
            __builtin_add_overflow(x, less ? -digit : digit, &x))
            return false;
    }
    *n = x;
    return true;
}

static bool item_number(const struct item *it, unsigned tag, int64_t *n) {
    return it->tag == tag && !item_away(it) && number_read(item_value(it), it->val_len, n);
}

/* Its text, of which the length is returned. */
static unsigned number_write(int64_t n, uint8_t *text) {
    uint8_t digits[RULE_SUM_MAX], *at = digits + sizeof digits;
    uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
    do
        *--at = (uint8_t)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (n < 0)
        *--at = '-';
    unsigned len = (unsigned)(digits + sizeof digits - at);
    memcpy(text, at, len);
    return len;
}

struct msg rule_sized(const struct msg *req) {
    struct msg sized = *req;
    if (req->rule == RULE_ADD)
        sized.val_len = RULE_SUM_MAX;
    return sized;
}

/* had: NULL: nothing. */
static int sum_fill(const struct msg *req, const struct item *had, struct store_ref *ref) {
    int64_t sum = 0;
    if (had && !item_number(had, req->tag, &sum))
        return DDICT_ENOTINT;
    if (__builtin_add_overflow(sum, (int64_t)req->aux, &sum))
        return -ERANGE;
    store_shorten(ref, number_write(sum, ref->value));
    return 0;
}

int rule_judge(struct manager *m, const struct msg *req, const void *key, bool missing,
               struct store_ref *ref) {
    struct store_ref there;
    bool is = store_find(m->store, key, req->key_len, &there) == 0;
    if (req->rule == RULE_ADD)
        return !is && missing ? DDICT_ENOKEY : sum_fill(req, is ? there.item : NULL, ref);
    if (!is)
        return req->version == 0 ? 0 : DDICT_ENOKEY;
    return there.item->version == req->version ? 0 : DDICT_ECHANGED;
}

bool rule_is_met(struct manager *m, const struct msg *req, const void *key, uint64_t hash,
                 uint64_t *version) {
    struct store_ref there;
    bool is = store_find(m->store, key, req->key_len, &there) == 0;
    *version = is ? there.item->version : 0;
    return *version != req->version && (is || !anew_lost_text(m, hash));
}

uint64_t rule_version(unsigned rule, const struct item *it, uint64_t version) {
    int64_t sum;
    return rule == RULE_ADD && item_number(it, it->tag, &sum) ? (uint64_t)sum : version;
}

void rule_refuse(struct requester *a, const struct msg *req, const void *key, int e) {
    struct manager *m = a->m;
    struct store_ref there;
    struct msg r;
    if (e != DDICT_ECHANGED && e != DDICT_ENOKEY) {
        request_failed(a, req, e);
        return;
    }
    reply_init(&r, req->id, m->setup->id);
    r.status = DDICT_ECHANGED;
    if (store_find(m->store, key, req->key_len, &there) == 0)
        r.version = there.item->version;
    requester_send(a, &r, NULL, 0);
}
