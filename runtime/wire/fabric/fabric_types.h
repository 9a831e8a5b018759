/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_types.h - types of fabric.h that the inside of the fabric uses, too. */
#ifndef DDICT_WIRE_FABRIC_FABRIC_TYPES_H
#define DDICT_WIRE_FABRIC_FABRIC_TYPES_H

#include <stdint.h>

#define FABRIC_NAME_MAX 64 /* bytes of a provider's name, with its NUL */
#define CHANNEL_TOKEN   16 /* bytes of the secret in each frame */

/* Where a peer reads bytes of our memory, as libfabric names it. Part of the protocol. */
struct fabric_place {
    uint64_t at, key, len;
};

#endif
