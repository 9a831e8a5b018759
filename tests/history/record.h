/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - the file in which a worker of a history notes its calls: this header, then calls in the
 * order in which they began. The worker maps it, and writes what a call asks before it begins, so
 * that after a SIGKILL its last calls stand there without an end. linear.py reads it.
 */
#ifndef DDICT_TESTS_HISTORY_RECORD_H
#define DDICT_TESTS_HISTORY_RECORD_H

#include <stdint.h>

#define RECORD_MAGIC 0x31545349484444ull /* "DDHIST1" */
#define RECORD_CALLS (1u << 18)          /* a worker ends when it has made so many */
#define RECORD_KEYS  48u
#define RECORD_QUEUE 40u /* keys from this one on are queues, */
#define RECORD_COUNT 44u /* from this one on counters */

enum verb {
    VERB_PUT = 1,
    VERB_NEW,
    VERB_EXISTING,
    VERB_GET,
    VERB_DEL,
    VERB_POP,
    VERB_HAS,
    VERB_PUSH,
    VERB_FREEZE, /* this one and the next are of no key */
    VERB_UNFREEZE,
    VERB_PUT_IF, /* read: the value of the version that it wants; 0: none */
    VERB_ADD     /* 1; read: the sum */
};
#define VALUE_TORN 0xffffffffull /* the number of a value whose bytes are not one's; 0: none */

struct record_head {
    uint64_t magic;
    uint32_t client, calls;     /* calls: that have begun */
    uint8_t owner[RECORD_KEYS]; /* the manager of each key */
};

struct call {
    uint64_t began, ended; /* CLOCK_MONOTONIC, ns; ended 0: it has not */
    uint8_t verb, how;     /* how: enum how of worker.c, for people */
    uint16_t key;
    int32_t timeout_ms;
    uint64_t wrote;   /* number of the value: client << 32 | ordinal */
    uint64_t read;    /* the same of what was read */
    uint64_t version; /* of what was read; 0: the call does not say */
    int32_t code;
    uint32_t wait;
    uint64_t len; /* bytes of the value that was written or read */
};
_Static_assert(sizeof(struct record_head) == 64, "linear.py knows it");
_Static_assert(sizeof(struct call) == 64, "linear.py knows it");

#endif
