/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.h - writing and reading parts of a saved dictionary (DUMP). Each struct is used by one thread. Functions return 0 or a negative code with the sentence set, which names
 * the file.
 */
#ifndef DDICT_SAVE_DUMP_H
#define DDICT_SAVE_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#define DUMP_VERSION 1u
#define DUMP_ID      16u

struct dump_sum { /* of a part */
    uint64_t items, bytes, size, sum;
};

/* --- writing --- */
struct dump_out {
    int fd;
    char path[4096];
    struct dump_sum total;
    XXH3_state_t *hash;
    uint8_t *buffer; /* what was not written yet */
    size_t used;
    uint64_t synced; /* bytes whose writing to disk was begun */
    uint64_t
        *moved; /* grows by each byte written, atomic; NULL: nobody asks. Set after dump_create() */
};
/* The file must not be there. */
int dump_create(struct dump_out *o, const char *path, const uint8_t id[DUMP_ID], uint32_t writer,
                uint32_t number);
/* val is not read after the call. */
int dump_add(struct dump_out *o, const void *key, size_t klen, const void *val, uint64_t vlen,
             unsigned tag);
/* Write the end, sync, close; *sum is what belongs into the manifest. */
int dump_finish(struct dump_out *o, struct dump_sum *sum);
void dump_abandon(struct dump_out *o); /* close and remove */

/* --- reading --- */
struct dump_in {
    const char *path; /* the caller's */
    int fd;
    uint8_t *buffer;
    size_t begin, end, cap; /* what of the buffer was read and not given yet */
    uint64_t size, at;      /* of the file; place of buffer[begin] in it */
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
/* id and want (of the manifest) must be those of the file. */
int dump_open(struct dump_in *in, const char *path, const uint8_t id[DUMP_ID],
              const struct dump_sum *want);
/* The next items, at most max, all checked: their number; 0 the end, checked, too; negative: damaged, or cannot be read. */
int dump_next(struct dump_in *in, struct dump_item *items, int max);
void dump_close(struct dump_in *in);

#endif
