/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hidden_key.h - which keys are hidden, as files whose names begin with a dot: those under which
 * the project itself keeps what it must know of sets, queues and results (FORMAT 5). The bytes of a
 * key alone say it, so all processes agree.
 */
#ifndef DDICT_BASE_HIDDEN_KEY_H
#define DDICT_BASE_HIDDEN_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HIDDEN_WORD  "ddict."
#define HIDDEN_LEN   (sizeof HIDDEN_WORD - 1)
#define HIDDEN_TUPLE 5u /* bytes before the first part of a tuple: 't' and that part's length */

/* Begin of a directed key: u32 number of the manager that has it, and the rest follow (FORMAT 6). */
#define DIRECT_WORD "\0ddict.at/"
#define DIRECT_LEN  (sizeof DIRECT_WORD - 1)
#define DIRECT_HEAD (DIRECT_LEN + sizeof(uint32_t))

/* Of a prefix, too: true if all keys that begin with it are hidden. */
static inline bool key_is_hidden(const void *key, size_t len) {
    const uint8_t *k = key;
    if (len > HIDDEN_TUPLE + HIDDEN_LEN && k[0] == 't') {
        k += HIDDEN_TUPLE;
        return k[0] == 's' && memcmp(k + 1, HIDDEN_WORD, HIDDEN_LEN) == 0;
    }
    return len > HIDDEN_LEN && (k[0] == 's' || k[0] == 0) &&
           memcmp(k + 1, HIDDEN_WORD, HIDDEN_LEN) == 0;
}

#endif
