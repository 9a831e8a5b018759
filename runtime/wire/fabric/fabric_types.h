/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_types.h - types of the fabric without libfabric: names, addresses, places, frames. */
#ifndef DDICT_WIRE_FABRIC_FABRIC_TYPES_H
#define DDICT_WIRE_FABRIC_FABRIC_TYPES_H

#include <stdint.h>

#define FABRIC_NAME_MAX 64 /* bytes of a provider's name, with its NUL */
/* bytes of an endpoint's address; libfabric's own are up to 64 */
#define FABRIC_ADDRESS_MAX 256
#define CHANNEL_TOKEN      16 /* bytes of the secret in each frame */

/* Where a peer reads bytes of our memory, as libfabric names it. Part of the protocol. */
struct fabric_place {
    uint64_t at, key, len;
};

/*
 * A channel is a stream of bytes, one message behind another, cut into frames. `seq` numbers the
 * frames of a direction that carry bytes; `taken` says how many of the other direction were read.
 * At most FRAME_WINDOW frames are under way. A frame without bytes only carries `taken`; its seq
 * means nothing.
 */
struct frame_head {
    uint32_t channel, bytes;
    uint64_t seq, taken;
    uint8_t token[CHANNEL_TOKEN];
};
_Static_assert(sizeof(struct frame_head) == 40, "part of the protocol");
#define FRAME_BYTES     (64u << 10)
#define FRAME_BYTES_MIN (1u << 10) /* else a provider is refused */
#define FRAME_WINDOW    32u        /* about DD_PEER_INFLIGHT */

#endif
