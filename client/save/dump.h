/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.h - parts of a saved dictionary (SAVE): what dump_out.h, which writes them, and dump_in.h,
 * which reads them, share. Each struct is used by one thread. Functions return 0 or a negative code
 * with the sentence set, which names the file.
 */
#ifndef DDICT_SAVE_DUMP_H
#define DDICT_SAVE_DUMP_H

#include <stdint.h>

#define DUMP_VERSION 1u
#define DUMP_ID      16u

struct dump_sum { /* of a part */
    uint64_t items, bytes, size, sum;
};

#endif
