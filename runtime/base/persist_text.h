/* SPDX-License-Identifier: Apache-2.0 */
/* persist_text.h - what --persist says: DIR[,freq=N][,count=N][,read-only]. The words may stand in any
 * order behind DIR. */
#ifndef DDICT_BASE_PERSIST_TEXT_H
#define DDICT_BASE_PERSIST_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERSIST_TEXT 2048 /* bytes of all of it, with the final 0 */

struct persist_text {
    size_t dir_len; /* DIR is the first bytes of the text */
    uint64_t freq;  /* save each checkpoint whose id is a multiple, when it is retired; 0: none */
    uint64_t count; /* keep so many, the newest; 0: all */
    bool read_only;
};

/* The item of the dictionary that says whose turn it is to save or restore, and how far they are. */
#define PERSIST_KEY     "sddict.persist"
#define PERSIST_KEY_LEN (sizeof PERSIST_KEY - 1)
#define PERSIST_LOOK_MS 250 /* between two looks whether the holder lives */
struct persist_item {
    uint64_t node, client; /* whose turn it is, as struct ddict_client; all 0: nobody's */
    uint64_t at;           /* state that was restored last + 1; 0: none */
    uint64_t saved;        /* checkpoint that was saved last for its retirement + 1; 0: none */
};

/* 0, or -EINVAL: what stands behind a comma is none of the words, DIR is empty, or a number is not
 * from 1 on. */
int persist_text_parse(const char *text, struct persist_text *p);
/* The words behind DIR, each with its comma, into buf; returns their length as snprintf() does. */
int persist_text_words(char *buf, size_t cap, const struct persist_text *p);

#endif
