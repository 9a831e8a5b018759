/* SPDX-License-Identifier: Apache-2.0 */
/* dump_format.h - the structs of SAVE, section 2. */
#ifndef DDICT_SAVE_DUMP_FORMAT_H
#define DDICT_SAVE_DUMP_FORMAT_H

#include "dump.h"

#include <stddef.h>
#include <xxhash.h>

#define DUMP_MAGIC \
    { 'd', 'd', 'i', 'c', 't', 'd', 'm', 'p' }
#define DUMP_ITEM     0x4d544944u
#define DUMP_END      0x444e4544u
#define DUMP_PAD(len) (-(uint64_t)(len)&7)

struct dump_header {
    uint8_t magic[8];
    uint32_t version, writer, number, zero;
    uint8_t id[DUMP_ID], zeros[24];
};
struct dump_head {
    uint32_t magic, klen;
    uint64_t vlen;
    uint32_t tag, zero;
    uint64_t value_sum;
    uint64_t sum; /* of all before it and the key */
};
struct dump_end {
    uint32_t magic, zero;
    uint64_t items, bytes, sum;
};
_Static_assert(sizeof(struct dump_header) == 64 && sizeof(struct dump_head) == 40 &&
                   sizeof(struct dump_end) == 32,
               "as SAVE says");

static inline uint64_t dump_head_sum(const struct dump_head *h, const void *key, size_t klen) {
    return XXH3_64bits_withSeed(key, klen, XXH3_64bits(h, offsetof(struct dump_head, sum)));
}

#endif
