/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddict_types.h - what libddict and the managers share: error codes and limits. Programs include
 * ddict.h, which includes this file.
 *
 * It is installed beside ddict.h, and lies in runtime/ itself, which every part of the build has in
 * its include path: with runtime/base in the path <error.h>, <log.h> and others of that folder
 * would be found before headers of the system.
 */
#ifndef DDICT_TYPES_H
#define DDICT_TYPES_H

#include <stdint.h>

#define DDICT_VERSION_STRING "0.1.0"
#define DDICT_KEY_MAX        65536u /* bytes */
#define DDICT_PIECES_MAX     1024   /* of a value that is gathered */
/* Properties of a working set (--working-set). */
#define DDICT_WAIT_FOR_KEYS    1u
#define DDICT_WAIT_FOR_WRITERS 2u

/* Own error codes; causes in ddict_strerror(). */
enum {
    DDICT_ENOKEY = -4001,  /* the key is not in the dictionary */
    DDICT_EEXISTS = -4002, /* put with DDICT_NEW: the key is there already */
    /* the manager of this key has no room; nothing stored was touched */
    DDICT_EFULL = -4003,
    /* no dictionary: no name, or nothing listens under it on this node */
    DDICT_ENODICT = -4004,
    DDICT_EGONE = -4005,    /* the dictionary has ended (job step over, `ddict down`) */
    DDICT_ELOST = -4006,    /* a manager or its node was lost */
    DDICT_EVERSION = -4007, /* the managers speak another protocol version than this library */
    DDICT_ECRED = -4008,    /* the name is held by a process of another user */
    /* too many views held by this process (limit 1,046,528); ddict_get still works */
    DDICT_EVIEWS = -4009,
    DDICT_EPROTO = -4010,   /* malformed message */
    DDICT_EAUTH = -4011,    /* a peer did not prove that it belongs to this job */
    DDICT_EKEYSIZE = -4012, /* key of 0 bytes or more than DDICT_KEY_MAX */
    DDICT_EVALSIZE = -4013, /* value larger than a whole manager: it can never be stored */
    /* the buffer is smaller than the value; *vlen says what is needed */
    DDICT_ESMALL = -4014,
    /* the dictionary is frozen: nothing is written until ddict_unfreeze() */
    DDICT_EFROZEN = -4015,
    /* this process has as many requests waiting as may (4096 with DDICT_WAIT at managers of other
     * nodes, through each manager of this one); nothing was done */
    DDICT_EBUSY = -4016,
    /* there is no such key, and it may have been lost with a node (--refill); other keys are as ever */
    DDICT_EKEYLOST = -4017,
    /* the value came with a data set that is read again when a node is lost (--refill): it cannot be
     * changed or taken, only removed or replaced with its set */
    DDICT_ESEALED = -4018,
    DDICT_ENOTINT = -4019, /* of add: the value is no integer of 64 bits */
    /* of put_if, del_if: the key has another version, or none, or is there at all; nothing was done */
    DDICT_ECHANGED = -4020,
    DDICT_ERETIRED = -4021, /* the handle's checkpoint is older than those of the working set */
    DDICT_ELINK = -4022     /* between library and managers: the value lies near who put it */
};

/* Parts of a manager's figures; they never change. */
enum {
    DDICT_LATENCY_PUT,
    DDICT_LATENCY_GET,
    DDICT_LATENCY_DEL,
    DDICT_LATENCY_FETCH,
    DDICT_LATENCY_N
};
#define DDICT_TURNS_N 24
struct ddict_latency {
    /* of requests served by the manager; reads in place do not pass it */
    uint64_t count, p50_ns, p99_ns, max_ns;
};

#endif
