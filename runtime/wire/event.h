/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - the records in an answer to EVENTS (PROTOCOL 8), not aligned: struct event_record,
 * key_len bytes of key, `got` bytes of value. */
#ifndef DDICT_WIRE_EVENT_H
#define DDICT_WIRE_EVENT_H

#include <stdint.h>

enum { EVENT_PUT = 1, EVENT_DEL = 2, EVENT_CLEAR = 3 };
#define EVENT_NO_VALUE UINT32_MAX

struct event_record {
    uint64_t version; /* of a put */
    uint64_t val_len;
    uint32_t key_len;
    uint32_t got; /* bytes of value that follow; EVENT_NO_VALUE: none */
    uint8_t kind, tag;
    uint8_t room[6];
};
_Static_assert(sizeof(struct event_record) == 32,
               "the protocol version must change with the record");

#endif
