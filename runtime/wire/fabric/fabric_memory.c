/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_memory.c - reads of peers' memory. Shared memory is registered granule by granule, when it
 * is first asked for, for remote reads only.
 *
 * A granule is registered as far as its memory is populated (`top`), and the rest when that has
 * grown, because registering populates memory.
 */
#include "fabric_memory.h"

#include "fabric_inside.h"
#include "fabric_library.h"
#include <base/error.h>

#include <errno.h>
#include <rdma/fi_rma.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* --- what is shared --- */

bool fabric_has_hardware(const char *name) {
    static const char *const list[] = {"cxi", "verbs", "efa", "opx", "psm2", "psm3"};
    for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
        if (strncmp(name, list[i], strlen(list[i])) == 0)
            return true;
    return false;
}

int fabric_share(struct fabric *f, uint8_t *base, uint64_t from, uint64_t len) {
    const struct fi_domain_attr *d = f->info->domain_attr;
    if ((f->info->caps & FI_RMA) == 0 || d->mr_key_size > sizeof(uint64_t) ||
        f->info->ep_attr->max_msg_size < DD_RMA_PIECE)
        return dd_error(-EOPNOTSUPP,
                        "libfabric provider %s can not read from another node's memory (rma=no)",
                        f->name);
    f->share.granule = calloc(len / DD_RMA_GRANULE + 1, sizeof *f->share.granule);
    if (!f->share.granule)
        return -ENOMEM;
    f->share.base = base;
    f->share.from = from;
    f->share.len = len;
    return 0;
}

bool fabric_shares(const struct fabric *f) {
    return f->share.base != NULL;
}

static uint64_t key_new(const struct fabric *f) {
    uint64_t key = 0;
    if (f->info->domain_attr->mr_mode & FI_MR_PROV_KEY)
        return 0; /* the provider chooses */
    /* little-endian */
    randombytes_buf(&key, min_u64(f->info->domain_attr->mr_key_size, sizeof key));
    return key;
}

static int region_open(struct fabric *f, uint64_t from, uint64_t to, struct fabric_region *r) {
    int e = fi_mr_reg(f->domain, f->share.base + from, to - from, FI_REMOTE_READ, 0, key_new(f), 0,
                      &r->mr, NULL);
    if (e == 0 && f->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
        e = fi_mr_bind(r->mr, &f->ep->fid, 0);
        if (e == 0)
            e = fi_mr_enable(r->mr);
        if (e != 0)
            fi_close(&r->mr->fid);
    }
    r->from = from;
    r->to = to;
    return e == 0 ? 0
                  : dd_error(-EIO, "libfabric provider %s: %llu bytes can not be registered: %s",
                             f->name, (unsigned long long)(to - from), fabric_strerror(e));
}

static struct fabric_region *region_last(const struct granule *g) {
    return g->n > 0 ? &g->region[g->n - 1] : NULL;
}

/* Register up to `need`, and a piece more. */
static int granule_grow(struct fabric *f, uint64_t i, uint64_t need, uint64_t top) {
    struct granule *g = &f->share.granule[i];
    uint64_t end = min_u64((i + 1) * DD_RMA_GRANULE, f->share.len),
             from = max_u64(i * DD_RMA_GRANULE, f->share.from);
    if (g->n > 0)
        from = region_last(g)->to;
    uint64_t to = max_u64(need, min_u64(top, end));
    to = min_u64(end, (to + DD_POPULATE_STEP - 1) / DD_POPULATE_STEP * DD_POPULATE_STEP);
    struct fabric_region *all = realloc(g->region, (g->n + 1) * sizeof *all);
    if (!all)
        return -ENOMEM;
    g->region = all;
    int e = region_open(f, from, to, &all[g->n]);
    if (e == 0)
        g->n++;
    return e;
}

static void granule_drop(struct granule *g) {
    while (g->n > 0)
        fi_close(&g->region[--g->n].mr->fid);
    free(g->region);
    g->region = NULL;
}

int fabric_places(struct fabric *f, uint64_t off, uint64_t len, uint64_t top,
                  struct fabric_place *place, unsigned n) {
    bool by_address = f->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    unsigned found = 0;
    if (off < f->share.from || len > f->share.len || off > f->share.len - len)
        return -EINVAL;
    for (uint64_t at = off, end = off + len; at < end;) {
        uint64_t i = at / DD_RMA_GRANULE, need = min_u64(end, (i + 1) * DD_RMA_GRANULE);
        struct granule *g = &f->share.granule[i];
        int e = g->n == 0 || region_last(g)->to < need ? granule_grow(f, i, need, top) : 0;
        if (e < 0)
            return e;
        for (uint32_t k = 0; k < g->n && at < need; k++) {
            const struct fabric_region *r = &g->region[k];
            if (at >= r->to)
                continue;
            if (found == n)
                return -E2BIG;
            place[found].at =
                (by_address ? (uint64_t)(uintptr_t)(f->share.base + r->from) : 0) + (at - r->from);
            place[found].key = fi_mr_key(r->mr);
            place[found].len = min_u64(need, r->to) - at;
            at += place[found++].len;
        }
    }
    return (int)found;
}

void fabric_forget(struct fabric *f, uint64_t off, uint64_t len) {
    if (!f->share.base || len == 0)
        return;
    uint64_t last = min_u64(off + len, f->share.len) - 1;
    for (uint64_t i = off / DD_RMA_GRANULE; i <= last / DD_RMA_GRANULE; i++)
        granule_drop(&f->share.granule[i]);
}

void share_end(struct fabric *f) {
    for (uint64_t i = 0; f->share.granule && i <= f->share.len / DD_RMA_GRANULE; i++)
        granule_drop(&f->share.granule[i]);
    free(f->share.granule);
    f->share = (struct share){0};
}

/* --- reads --- */

static void unlink_it(struct fabric *f, struct reading *r) {
    *r->prev = r->next;
    if (r->next)
        r->next->prev = r->prev;
    else
        f->reads_end = r->prev;
}

/* 0: the provider has it, or gets it when it has room. */
static int reading_post(struct fabric *f, struct reading *r) {
    ssize_t e =
        fi_read(f->ep, r->to, r->from.len, NULL, r->peer, r->from.at, r->from.key, &r->op.context);
    if (e == -FI_EAGAIN)
        f->stuck = true;
    r->begun = e == 0;
    return e == 0 || e == -FI_EAGAIN ? 0 : -ECONNRESET;
}

int reading_begin(struct fabric *f, struct channel *c, fi_addr_t peer, void *to,
                  const struct fabric_place *from, void (*done)(void *arg, int code), void *arg) {
    struct reading *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    *r = (struct reading){.op.kind = OP_READ,
                          .c = c,
                          .to = to,
                          .peer = peer,
                          .from = *from,
                          .done = done,
                          .arg = arg};
    if (reading_post(f, r) < 0) {
        free(r);
        return -ECONNRESET;
    }
    r->prev = f->reads_end;
    *f->reads_end = r;
    f->reads_end = &r->next;
    return 0;
}

void reading_done(struct fabric *f, struct reading *r, int code) {
    unlink_it(f, r);
    if (r->c)
        channel_has_read(r->c);
    r->done(r->arg, code);
    free(r);
}

void readings_go_on(struct fabric *f) {
    /* one that waits for its peer does not hold up the others */
    for (struct reading *r = f->reads; r;) {
        if (r->begun || reading_post(f, r) == 0) {
            r = r->next;
            continue;
        }
        reading_done(f, r, -ECONNRESET);
        r = f->reads; /* others may have ended, too */
    }
}

void readings_leave(struct fabric *f, const struct channel *c) {
    for (struct reading *r = f->reads; r;) {
        struct reading *next = r->next;
        if (r->c == c) {
            r->c = NULL;
            if (!r->begun) {
                reading_done(f, r, -ECONNRESET);
                next = f->reads;
            }
        }
        r = next;
    }
}

void readings_end(struct fabric *f) {
    while (f->reads)
        reading_done(f, f->reads, -ECONNRESET);
}
