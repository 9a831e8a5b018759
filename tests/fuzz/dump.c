/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.c - a part of a saved dictionary. The first byte says whether its checksums are put right
 * before it is read, so that not only they are tested.
 */
#include "fuzz.h"
#include <ddict_types.h>

#include <endian.h>
#include <save/dump_format.h>
#include <save/dump_in.h>

enum { ITEMS = 8 };

static const uint8_t id[DUMP_ID] = "0123456789abcde";

/* Sums and the end of all items whose lengths fit, as a writer would have them. */
static void sums_make(uint8_t *part, size_t size, struct dump_sum *sum) {
    struct dump_header header = {.magic = DUMP_MAGIC, .version = htole32(DUMP_VERSION)};
    struct dump_end end = {.magic = htole32(DUMP_END)};
    XXH3_state_t *all = XXH3_createState();
    size_t at = sizeof header;
    fuzz_must(all && XXH3_64bits_reset(all) == XXH_OK);
    if (size < sizeof header + sizeof end) {
        XXH3_freeState(all);
        return;
    }
    memcpy(header.id, id, sizeof id);
    memcpy(part, &header, sizeof header);
    while (size - at >= sizeof end + sizeof(struct dump_head)) {
        struct dump_head h;
        size_t room = size - sizeof end - at - sizeof h;
        uint8_t *key = part + at + sizeof h;
        memcpy(&h, part + at, sizeof h);
        uint64_t klen = le32toh(h.klen), vlen = le64toh(h.vlen);
        if (le32toh(h.magic) != DUMP_ITEM || klen + DUMP_PAD(klen) > room ||
            vlen > room - klen - DUMP_PAD(klen) ||
            DUMP_PAD(vlen) > room - klen - DUMP_PAD(klen) - vlen)
            break;
        h.value_sum = htole64(XXH3_64bits(key + klen + DUMP_PAD(klen), vlen));
        h.sum = htole64(dump_head_sum(&h, key, klen));
        memcpy(part + at, &h, sizeof h);
        XXH3_64bits_update(all, &h.sum, sizeof h.sum);
        sum->items++;
        sum->bytes += vlen;
        at += sizeof h + klen + DUMP_PAD(klen) + vlen + DUMP_PAD(vlen);
    }
    sum->sum = XXH3_64bits_digest(all);
    XXH3_freeState(all);
    end.items = htole64(sum->items);
    end.bytes = htole64(sum->bytes);
    end.sum = htole64(sum->sum);
    memcpy(part + size - sizeof end, &end, sizeof end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct dump_in in;
    struct dump_item item[ITEMS];
    int right = fuzz_byte(&input), n;
    uint64_t items = 0, bytes = 0;
    struct dump_sum sum = {.size = input.left};
    uint8_t *part = (uint8_t *)fuzz_text(&input, input.left);
    if (right)
        sums_make(part, sum.size, &sum);
    if (dump_open(&in, fuzz_file(part, sum.size), id, &sum) == 0) {
        while ((n = dump_next(&in, item, ITEMS)) > 0)
            for (int i = 0; i < n; i++) {
                fuzz_must(item[i].klen > 0 && item[i].klen <= DDICT_KEY_MAX && item[i].tag < 256);
                fuzz_read(item[i].key, item[i].klen);
                fuzz_read(item[i].val, item[i].vlen);
                items++;
                bytes += item[i].vlen;
            }
        fuzz_must(n < 0 || (items == sum.items && bytes == sum.bytes)); /* all, or an error */
        dump_close(&in);
    }
    free(part);
    return 0;
}
