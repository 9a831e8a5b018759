/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults.h - switches of the tests, off unless the environment of ddictd has them. They make the
 * product fail on purpose.
 *
 *     DDICT_TEST_MANAGER=M        the switches below concern manager M only (default: all)
 *     DDICT_TEST_DIE_AFTER_PUTS=N the manager kills itself (SIGKILL) before it answers its N-th put
 *     DDICT_TEST_DIE=STEP:N       the manager kills itself at the N-th begun, changed, answered or taken
 *                                 request of a lane, or change for another manager (taken: each piece
 *                                 of a value that is in its block), or the N-th change at another
 *                                 manager, or with replicas at the backup, that was entered, sent or
 *                                 heard of, or the N-th part of a
 *                                 value for a lane that was noted or passed, in each of its first 8
 *                                 lives
 *     DDICT_TEST_DIE_LIVES=N      in its first N lives instead
 *     DDICT_TEST_DIE_CODE=CODE    it exits with CODE instead, which counts as a fault
 *     DDICT_TEST_EXIT=TYPE:CODE   the manager exits with CODE when a request of TYPE has found its value
 *     DDICT_TEST_DROP=TYPE:N      the first N requests of TYPE (PUT, GET, ...) get no answer
 *     DDICT_TEST_DELAY=TYPE:MS    sleep so long before a request of TYPE is begun
 *     DDICT_TEST_READY_MS=MS      the manager sleeps so long before it says that it is ready
 *     DDICT_TEST_ROOT=DIR         the NUMA nodes of this machine are read below DIR/sys
 *     DDICT_TEST_TOPOLOGY=FILE    the GPUs of this node are those of a machine saved by lstopo
 *     DDICT_TEST_WAKE_MS=MS       sleep so long before a request that waited for its key gets its
 *                                 value: a put answers one, and each turn after that one more
 *     DDICT_TEST_PIECE_MS=MS      sleep so long before each piece of a streamed put is taken
 *     DDICT_TEST_LEND_MS=MS       a value that another manager reads itself (RMA) is taken back
 *                                 after so long a silence, not after DD_STREAM_MS
 *     DDICT_TEST_RMA_REFUSED=N    the first N values of which that is asked cannot be given to the
 *                                 network
 *     DDICT_TEST_LANE_IDLE_US=US  memory of a lane goes back when it was not used for so long, not
 *                                 for DD_LANE_IDLE_MS
 *     DDICT_TEST_GIVE_REFUSED=N   for the first N values that would go out in pieces there is no
 *                                 memory to send them
 *     DDICT_TEST_KEEP_REFUSED=N   for the first N values that requests of an earlier life name there
 *                                 is no memory to keep them
 *     DDICT_TEST_LIST_REFUSED=1   a later life has no memory for the list of these requests
 *     DDICT_TEST_CUT=N            the N-th message that comes by one of several connections of a
 *                                 peer, but the first, ends that
 *     DDICT_TEST_CUT_EACH=N       each N-th message that comes from another manager, a request, an
 *                                 answer or some bytes of one, ends its connection and is lost
 *     DDICT_TEST_LEDGER=N         the ledger has room for N chunks alone
 */
#ifndef DDICT_MANAGER_FAULTS_H
#define DDICT_MANAGER_FAULTS_H

#include <wire/msg.h>

#include <stdbool.h>
#include <stdint.h>

/* Of a request of a lane: it is recorded (LAYOUT I24); the index is changed; the answer stands in
 * CQ, or is queued for a connection; the request has left SQ, or a piece from a connection is in its
 * block. Of a change at another manager, or at the backup: its id, or its key, is in the ledger; it is
 * queued for the connection; its answer, or its ACK, has come. Of a part of a value for a lane: it is
 * noted; it stands in CQ, or is queued. */
enum faults_step {
    STEP_NONE,
    STEP_BEGUN,
    STEP_CHANGED,
    STEP_ANSWERED,
    STEP_TAKEN,
    STEP_ENTERED,
    STEP_SENT,
    STEP_HEARD,
    STEP_NOTED,
    STEP_PASSED
};
struct faults {
    bool on;
    enum faults_step die_step;
    uint64_t die_steps, die_code;
    uint64_t die_after_puts, puts;
    unsigned drop_type, delay_type, exit_type;
    uint64_t exit_code, drop, delay_ms, ready_ms, wake_ms, piece_ms, cut, cut_each, came, lend_ms,
        rma_refused, stream_out_refused, lane_idle_us, ledger, keep_refused, list_refused;
};
extern struct faults faults;

const char *faults_root(void);                     /* "" without the switch; for ddictd, too */
const char *faults_topology(void);                 /* NULL without the switch; for ddictd */
void faults_init(uint32_t manager, uint32_t life); /* life: from 1 */
void faults_sleep(uint64_t ms);
/* Called with each request before it is begun; true: forget it. */
bool faults_request(unsigned type);
/* Called with each request that has found its value. */
void faults_found(unsigned type);
/* Called with each message of such a connection; true: end it. */
bool faults_cut(void);
bool faults_cut_each(void); /* likewise, with each message of another manager */
/* Called with each value that another manager could read itself; true: its memory cannot be
 * registered. */
bool faults_rma(void);
/* Called with each value that is to go out in pieces; true: there is no memory for that. */
bool faults_give(void);
/* Called with each value that a request of an earlier life names; true: it cannot be kept. */
bool faults_keep(void);
/* Called when a put is done and not yet answered. */
void faults_put(void);
void faults_step(enum faults_step step);

#endif
