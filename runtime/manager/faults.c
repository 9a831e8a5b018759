/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c - reads the tests' switches and carries them out. */
#include "faults.h"

#include <base/size.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define DIE_LIVES 8u /* fewer than --restarts may allow within DD_RESTARTS_MS */

struct faults faults;

static uint64_t number(const char *name) {
    uint64_t n = 0;
    const char *v = getenv(name);
    if (!v || count_parse(v, 0, UINT32_MAX, &n) < 0)
        return 0;
    faults.on = true;
    return n;
}

static unsigned env_typed(const char *name, uint64_t *n) {
    const char *v = getenv(name), *colon = v ? strchr(v, ':') : NULL;
    if (!colon || count_parse(colon + 1, 0, UINT32_MAX, n) < 0)
        return 0;
    for (unsigned t = 1; t < MSG_TYPE_N; t++) {
        const char *type = msg_name(t);
        if (strlen(type) == (size_t)(colon - v) && strncasecmp(v, type, (size_t)(colon - v)) == 0) {
            faults.on = true;
            return t;
        }
    }
    return 0;
}

const char *faults_root(void) {
    const char *v = getenv("DDICT_TEST_ROOT");
    return v ? v : "";
}

const char *faults_topology(void) {
    return getenv("DDICT_TEST_TOPOLOGY");
}

static enum faults_step env_step(const char *name, uint64_t *n) {
    static const char *const steps[] = {"",        "begun", "changed", "answered", "taken",
                                        "entered", "sent",  "heard",   "noted",    "passed"};
    const char *v = getenv(name), *colon = v ? strchr(v, ':') : NULL;
    if (!colon || count_parse(colon + 1, 0, UINT32_MAX, n) < 0)
        return STEP_NONE;
    for (unsigned i = STEP_BEGUN; i <= STEP_PASSED; i++)
        if (strlen(steps[i]) == (size_t)(colon - v) &&
            memcmp(steps[i], v, (size_t)(colon - v)) == 0) {
            faults.on = true;
            return i;
        }
    return STEP_NONE;
}

void faults_init(uint32_t manager, uint32_t life) {
    uint64_t only;
    const char *v = getenv("DDICT_TEST_MANAGER");
    memset(&faults, 0, sizeof faults);
    if (v && (count_parse(v, 0, UINT32_MAX, &only) < 0 || only != manager))
        return;
    faults.die_after_puts = number("DDICT_TEST_DIE_AFTER_PUTS");
    uint64_t lives = number("DDICT_TEST_DIE_LIVES");
    faults.die_code = number("DDICT_TEST_DIE_CODE");
    if (life <= (lives ? lives : DIE_LIVES))
        faults.die_step = env_step("DDICT_TEST_DIE", &faults.die_steps);
    faults.ready_ms = number("DDICT_TEST_READY_MS");
    faults.wake_ms = number("DDICT_TEST_WAKE_MS");
    faults.piece_ms = number("DDICT_TEST_PIECE_MS");
    faults.lend_ms = number("DDICT_TEST_LEND_MS");
    faults.rma_refused = number("DDICT_TEST_RMA_REFUSED");
    faults.lane_idle_us = number("DDICT_TEST_LANE_IDLE_US");
    faults.stream_out_refused = number("DDICT_TEST_GIVE_REFUSED");
    faults.keep_refused = number("DDICT_TEST_KEEP_REFUSED");
    faults.list_refused = number("DDICT_TEST_LIST_REFUSED");
    faults.cut = number("DDICT_TEST_CUT");
    faults.cut_each = number("DDICT_TEST_CUT_EACH");
    faults.ledger = number("DDICT_TEST_LEDGER");
    faults.drop_type = env_typed("DDICT_TEST_DROP", &faults.drop);
    faults.exit_type = env_typed("DDICT_TEST_EXIT", &faults.exit_code);
    faults.delay_type = env_typed("DDICT_TEST_DELAY", &faults.delay_ms);
}

void faults_sleep(uint64_t ms) {
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (ms && nanosleep(&t, &t) < 0) { /* interrupted: the rest */
    }
}

bool faults_request(unsigned type) {
    if (faults.delay_type == type)
        faults_sleep(faults.delay_ms);
    if (faults.drop_type == type && faults.drop > 0) {
        faults.drop--;
        return true;
    }
    return false;
}

void faults_found(unsigned type) {
    if (faults.exit_type == type)
        _exit((int)faults.exit_code);
}

bool faults_cut(void) {
    return faults.cut > 0 && --faults.cut == 0;
}

bool faults_cut_each(void) {
    return faults.cut_each > 0 && ++faults.came % faults.cut_each == 0;
}

bool faults_rma(void) {
    return faults.rma_refused > 0 && faults.rma_refused-- > 0;
}

bool faults_give(void) {
    return faults.stream_out_refused > 0 && faults.stream_out_refused-- > 0;
}

bool faults_keep(void) {
    return faults.keep_refused > 0 && faults.keep_refused-- > 0;
}

void faults_put(void) {
    if (faults.die_after_puts && ++faults.puts == faults.die_after_puts)
        kill(getpid(), SIGKILL);
}

void faults_step(enum faults_step step) {
    if (faults.die_step != step || --faults.die_steps != 0)
        return;
    if (faults.die_code)
        _exit((int)faults.die_code);
    kill(getpid(), SIGKILL);
}
