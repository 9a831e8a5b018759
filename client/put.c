/* SPDX-License-Identifier: Apache-2.0 */
/* put.c - calls that change one key: put, del. */
#include <errno.h>
#include <string.h>

#include "local.h"
#include "ask.h"

int ddict_put(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen, unsigned flags, int timeout_ms)
{
    struct iovec v = {.iov_base = (void *)(uintptr_t)val, .iov_len = vlen};
    return ddict_putv(d, key, klen, &v, 1, flags, timeout_ms);
}

int put_head(struct msg *head, unsigned owner, size_t klen, uint64_t vlen, unsigned flags)
{
    if (unlikely((flags & (DDICT_NEW | DDICT_EXISTING)) == (DDICT_NEW | DDICT_EXISTING)))
        return dd_error(-EINVAL, "put with both DDICT_NEW and DDICT_EXISTING");
    if (unlikely(flags & ~(DDICT_NEW | DDICT_EXISTING | DDICT_TAG(0xff))))
        return dd_error(-EINVAL, "put with unknown flags 0x%x", flags);
    if (unlikely(vlen >= MSG_VALUE_MAX))
        return dd_error(DDICT_EVALSIZE, "a value of %llu bytes", (unsigned long long)vlen);
    memset(head, 0, sizeof *head);
    head->type = MSG_PUT;
    head->flags = (uint16_t)(flags & (DDICT_NEW | DDICT_EXISTING)); /* MSGF_NEW, MSGF_EXISTING are the same bits */
    head->key_len = (uint32_t)klen;
    head->val_len = vlen;
    head->manager = owner;
    head->tag = DDICT_TAG_OF(flags);
    return 0;
}

int ddict_putv(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n, unsigned flags, int timeout_ms)
{
    struct session *s;
    int rc = session_enter(d, &s);
    if (unlikely(rc < 0) || unlikely((rc = key_check(klen)) < 0))
        return rc;
    if (unlikely(n < 0 || n > DDICT_PIECES_MAX))
        return dd_error(-EINVAL, "a value of %d pieces: at most %d", n, DDICT_PIECES_MAX);
    uint64_t vlen = 0;
    for (int i = 0; i < n; i++)
        if (unlikely(iov[i].iov_len >= MSG_VALUE_MAX || (vlen += iov[i].iov_len) >= MSG_VALUE_MAX))
            return dd_error(DDICT_EVALSIZE, "a value of more than %llu bytes", (unsigned long long)MSG_VALUE_MAX);
    uint64_t h = key_hash(key, klen);
    unsigned owner = hash_owner(h, s->managers);
    struct outgoing out = {.key = key, .iov = iov, .niov = n};
    if (unlikely((rc = put_head(&out.head, owner, klen, vlen, flags)) < 0))
        return rc;
    struct request r = {.sink = SINK_NONE};
    return ask(s, session_ask(s, owner, h), &out, &r, timeout_ms);
}

int ddict_del(ddict_t *d, const void *key, size_t klen, int timeout_ms)
{
    struct session *s;
    int rc = session_enter(d, &s);
    if (rc < 0 || (rc = key_check(klen)) < 0)
        return rc;
    uint64_t h = key_hash(key, klen);
    unsigned owner = hash_owner(h, s->managers);
    struct outgoing out = {.head = {.type = MSG_DEL, .key_len = (uint32_t)klen, .manager = owner}, .key = key};
    struct request r = {.sink = SINK_NONE};
    return ask(s, session_ask(s, owner, h), &out, &r, timeout_ms);
}
