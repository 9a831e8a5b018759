/* SPDX-License-Identifier: Apache-2.0 */
/* dump_out.h - writing a part of a saved dictionary (SAVE). */
#ifndef DDICT_SAVE_DUMP_OUT_H
#define DDICT_SAVE_DUMP_OUT_H

#include "dump.h"

#include <stddef.h>
#include <xxhash.h>

struct dump_out {
    int fd;
    char path[4096];
    struct dump_sum total;
    XXH3_state_t *hash;
    uint8_t *buffer; /* bytes that were not written yet */
    size_t used;
    uint64_t synced; /* bytes whose writing to disk was begun */
    /* grows by the bytes written, atomic; NULL: nobody asks. Set it after dump_create(). */
    uint64_t *moved;
};
/* Create a part; -EEXIST: the file is there. writer: number of the worker, number: of the part. */
int dump_create(struct dump_out *o, const char *path, const uint8_t id[DUMP_ID], uint32_t writer,
                uint32_t number);
/* Add an item; key and val are the caller's again afterwards. */
int dump_add(struct dump_out *o, const void *key, size_t klen, const void *val, uint64_t vlen,
             unsigned tag);
/* Write the end of the part, sync and close it; *sum belongs into the manifest. */
int dump_finish(struct dump_out *o, struct dump_sum *sum);
void dump_abandon(struct dump_out *o); /* close and remove */

#endif
