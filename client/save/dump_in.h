/* SPDX-License-Identifier: Apache-2.0 */
/* dump_in.h - reading a part of a saved dictionary (SAVE). */
#ifndef DDICT_SAVE_DUMP_IN_H
#define DDICT_SAVE_DUMP_IN_H

#include "dump.h"

#include <stdbool.h>
#include <stddef.h>
#include <xxhash.h>

struct dump_in {
    const char *path; /* the caller's */
    int fd;
    uint8_t *buffer;
    size_t begin, end, cap; /* buffer[begin] to [end] was read and not given yet */
    uint64_t size, at;      /* of the file; offset of buffer[begin] in it */
    struct dump_sum total;
    XXH3_state_t *hash;
    bool done; /* the end was seen */
};
struct dump_item {
    const void *key, *val; /* valid until the next call */
    size_t klen;
    uint64_t vlen;
    unsigned tag;
};
/* Open a part. The file must have this id and these sums, which the manifest says. */
int dump_open(struct dump_in *in, const char *path, const uint8_t id[DUMP_ID],
              const struct dump_sum *want);
/* Read the next items, at most max, and check them. Returns their number; 0: the end, which was
 * checked, too; negative: the file is damaged or cannot be read. */
int dump_next(struct dump_in *in, struct dump_item *items, int max);
void dump_close(struct dump_in *in);

#endif
