/* SPDX-License-Identifier: Apache-2.0 */
/* spill_away.c - items whose value is in the spill. */
#include "spill_away.h"

#include "heap.h"
#include "spill_file.h"
#include "state.h"
#include <base/hash.h>
#include <base/io.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t head_pad(uint32_t key_len) {
    return (uint32_t)(round_up(sizeof(struct item) + key_len, 8) - sizeof(struct item) - key_len);
}

static uint64_t head_bytes(uint32_t key_len, uint64_t val_len) {
    return sizeof(struct item) + key_len + head_pad(key_len) + away_bytes(val_len);
}

bool spill_pays(uint32_t key_len, uint64_t val_len) {
    return val_len &&
           sizeof(struct item) + key_len + val_len >= DD_SPILL_GAIN * head_bytes(key_len, val_len);
}

int head_make(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag, uint64_t *off) {
    struct spill *p = &s->spill;
    uint64_t to;
    p->moving = true;
    int rc = block_alloc_spill(s, val_len, true, &to);
    if (rc == 0 && (rc = block_alloc_moving(s, head_bytes(key_len, val_len), off)) < 0)
        block_free(s, to);
    p->moving = false;
    if (rc < 0)
        return rc;
    struct item *item = arena_at(s, *off);
    *item = (struct item){.val_len = val_len | ITEM_AWAY,
                          .key_len = key_len,
                          .tag = tag,
                          .pad = (uint8_t)head_pad(key_len)};
    struct item_away *away = (struct item_away *)(void *)(item->key + key_len + item_pad(item));
    away->off = to;
    return 0;
}

int away_share(struct store *s, uint64_t off) {
    uint32_t *more = table_add(&s->spill.shared, off);
    if (more)
        ++*more;
    return more ? 0 : -ENOMEM;
}

void away_free(struct store *s, uint64_t off) {
    const struct item_away *away = item_away(arena_at(s, off));
    uint32_t *more = away ? table_find(&s->spill.shared, away->off) : NULL;
    if (more && --*more == 0)
        table_remove(&s->spill.shared, away->off);
    if (away && !more)
        block_free(s, away->off);
}

void *room_map(uint64_t len) {
    void *at =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* --- in the thread that writes --- */
int file_prepare(struct store *s, uint64_t end) {
    struct arena_header *h = s->header;
    uint64_t need = round_up(end, ARENA_PAGE), have = figure_get(&h->spill_ready),
             to = have + DD_SPILL_STEP;
    if (need <= have)
        return 0;
    if (to < need)
        to = need;
    if (to > h->spill_len)
        to = h->spill_len;
    int rc = file_grow(s->spill.fd, have, to);
    if (rc < 0 && to > need)
        rc = file_grow(s->spill.fd, have, to = need);
    if (rc == 0)
        __atomic_store_n(&h->spill_ready, to, __ATOMIC_RELEASE);
    return rc;
}

int write_summed(struct store *s, struct item_away *away, const uint8_t *from, uint64_t at,
                 uint64_t len) {
    int rc = 0;
    for (uint64_t n; rc == 0 && len; at += n, from += n, len -= n) {
        n = len < DD_SPILL_CHUNK ? len : DD_SPILL_CHUNK;
        away->sum[at / DD_SPILL_CHUNK] = XXH3_64bits(from, n);
        rc = write_all_at(s->spill.fd, from, n, away->off - s->header->file_size + at);
    }
    return rc;
}

void begin_writeback(struct store *s) {
    sync_file_range(s->spill.fd, 0, 0,
                    SYNC_FILE_RANGE_WRITE); /* a hint: file_flush() is asked for the error */
}

int file_flush(struct store *s) {
    int rc;
    do
        rc = fdatasync(s->spill.fd);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}
