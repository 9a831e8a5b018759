/* SPDX-License-Identifier: Apache-2.0 */
/* model_client_views.c - views that are held for a while: no byte of them may change. */
#include "model_client.h"

enum { HELD = 48, HELD_BYTES = 12 << 20 };

struct held {
    struct ddict_view v;
    unsigned id;
    uint64_t content;
};
static struct held held[HELD];
static unsigned nheld;
static size_t held_bytes;

static void let_go(unsigned i) {
    struct held *h = &held[i];
    size_t head = h->v.tag == 7 ? 64 : 0;
    if (!model_same((const char *)h->v.data + head, h->id, h->content, h->v.len - head))
        found(model_wrong("a held view of key %u, operation %llu, %zu bytes, version %llu, kind "
                          "%u, has other bytes now",
                          h->id, (unsigned long long)h->content, h->v.len,
                          (unsigned long long)h->v.version, h->v.kind_));
    held_bytes -= h->v.len;
    ddict_release(&h->v);
    *h = held[--nheld];
}

void let_one_go(void) {
    if (nheld > 0)
        let_go((unsigned)below(nheld));
}

void let_all_go(void) {
    while (nheld > 0)
        let_go(0);
}

void viewed(const char *how, unsigned id, uint64_t look, struct ddict_view *v) {
    uint64_t content = 0;
    int rc = model_seen(id, look, v->data, v->len, v->tag, v->version, &content, how);
    found(rc);
    if (((uintptr_t)v->data & (v->len >= 256 ? 63 : 15)) != 0)
        found(model_wrong("%s: the view of key %u, %zu bytes, is at %p", how, id, v->len, v->data));
    if (rc == 0 && content != 0 && one_in(2) && v->len < HELD_BYTES / 2) {
        while (nheld == HELD || held_bytes + v->len > HELD_BYTES)
            let_go((unsigned)below(nheld));
        held[nheld++] = (struct held){*v, id, content};
        held_bytes += v->len;
        model_count("held", 1);
    } else {
        ddict_release(v);
    }
}
