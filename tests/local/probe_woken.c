/* SPDX-License-Identifier: Apache-2.0 */
/* probe_woken.c - requests that a put has woken and that are not answered yet. */
#include "probe.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WOKEN_LEN 5000u /* bytes of a value */

struct wait {
    unsigned type, flags;
    bool large;       /* there is room for the value */
    bool late;        /* its time is over before it is answered */
    bool cancel;      /* and so it is */
    int status, byte; /* byte: which value, 0: none */
};
/* in the order in which they ask; a put of '1' answers the first and the first POP that takes it */
static const struct wait wait_of[] = {
    {MSG_GET, 0, true, false, false, 0, '1'},
    {MSG_GET, 0, true, false, false, 0, '1'},
    {MSG_GET, 0, true, false, true, -ECANCELED, 0},
    {MSG_GET, MSGF_VIEW, true, false, false, 0, '1'},
    {MSG_POP, 0, false, false, true, -ECANCELED, 0},
    {MSG_GET, MSGF_VIEW, true, true, false, 0, '1'},
    {MSG_HEAD, 0, true, true, false, 0, 0},
    {MSG_POP, 0, false, true, false, DDICT_ESMALL, 0},
    {MSG_GET, MSGF_VIEW, true, false, true, -ECANCELED, 0},
    {MSG_POP, 0, true, false, false, 0, '1'},
    {MSG_GET, 0, true, false, true, -ECANCELED, 0}, /* wait on, behind it */
    {MSG_GET, 0, true, true, false, -ETIMEDOUT, 0},
    {MSG_POP, MSGF_VIEW, true, false, false, 0, '2'},
    {MSG_POP, 0, true, false, false, 0, '3'},
};
enum { WAITS = sizeof wait_of / sizeof *wait_of };

static void woken_put(unsigned lane, const char *key, uint8_t byte) {
    struct msg m = {
        .type = MSG_PUT, .key_len = (uint32_t)strlen(key), .val_len = WOKEN_LEN, .id = r.next_id++};
    memset(value, byte, WOKEN_LEN);
    raw_send(&r, lane, &m, key, value, WOKEN_LEN);
}

/* The first byte of the value of an answer, all of which are the same; 0: it has none. */
static int woken_value(unsigned lane, const struct msg *in, const uint8_t *data) {
    struct found f = {.value = data, .val_len = in->len - MSG_HEADER};
    if (in->status < 0)
        return 0;
    if (in->flags & MSGF_PLACED) /* until it is consumed it is pinned */
        must(reader_item(&r.local[lane].arena, in->aux, &f) == 0, "PLACED: %s", dd_errmsg());
    if (f.val_len == 0)
        return 0;
    must(f.val_len == WOKEN_LEN, "a value of %llu bytes", (unsigned long long)f.val_len);
    const uint8_t *byte = f.value;
    must(memcmp(byte, byte + 1, WOKEN_LEN - 1) == 0, "a torn value");
    return *byte;
}

static bool woken_is(const struct wait *w, const struct msg *in, int byte) {
    return in->type == MSG_REPLY && in->status == w->status && byte == w->byte &&
           (w->status < 0 || in->val_len == WOKEN_LEN);
}

/* False: the manager was so late that the time of some was over before the put. */
static bool woken_once(const char *key, uint64_t ms) {
    unsigned lane = raw_lane_for(&r, key, strlen(key)), answers = 0, count_of[WAITS] = {0};
    pid_t pid = r.local[lane].pid;
    uint64_t first = r.next_id, end;
    bool was_late = false;
    must(kill(pid, SIGSTOP) == 0, "stop"); /* all of this is one turn's, or nearly so */
    for (unsigned i = 0; i < WAITS; i++) {
        struct msg m = {.type = (uint16_t)wait_of[i].type,
                        .flags = (uint16_t)(wait_of[i].flags | MSGF_WAIT),
                        .key_len = (uint32_t)strlen(key),
                        .aux = wait_of[i].late ? ms * 1000 : 60000000,
                        .version = wait_of[i].large ? MSG_VALUE_MAX : 1,
                        .id = r.next_id++};
        raw_send(&r, lane, &m, key, NULL, 0);
    }
    woken_put(lane, key, '1');
    for (unsigned i = 0; i < WAITS; i++) {
        struct msg m = {.type = MSG_CANCEL, .aux = first + i};
        if (wait_of[i].cancel)
            raw_send(&r, lane, &m, NULL, NULL, 0);
    }
    woken_put(lane, key, '2');
    woken_put(lane, key, '3');
    end = r.next_id;
    must(kill(pid, SIGCONT) == 0, "go on");
    while (answers < end - first) {
        struct msg in;
        uint8_t *data;
        must(raw_next(&r, lane, &in, &data, 30000), "%u answers of %u", answers,
             (unsigned)(end - first));
        must(in.id >= first && in.id < end, "an answer to %llu", (unsigned long long)in.id);
        answers++;
        if (in.id - first < WAITS) {
            const struct wait *w = &wait_of[in.id - first];
            int byte = woken_value(lane, &in, data);
            if (w->late && w->status != -ETIMEDOUT && in.status == -ETIMEDOUT)
                was_late = true;
            else
                must(woken_is(w, &in, byte), "request %u: %s, status %d, value %d",
                     (unsigned)(in.id - first), msg_name(in.type), in.status, byte);
            must(count_of[in.id - first]++ == 0, "request %u has two answers",
                 (unsigned)(in.id - first));
        } else
            must(in.status == 0, "put: %d", in.status);
        free(data);
        raw_consumed(&r, lane, &in);
    }
    struct msg m = {.type = MSG_LEN, .manager = r.local[lane].id, .id = r.next_id++}, in;
    raw_send(&r, lane, &m, NULL, NULL, 0);
    must(raw_next(&r, lane, &in, NULL, 30000), "len");
    must(in.id == m.id && in.aux == 0, "answer to %llu, %llu keys", (unsigned long long)in.id,
         (unsigned long long)in.aux);
    raw_consumed(&r, lane, &in);
    return !was_late;
}

void woken(const char *key, uint64_t ms) {
    for (int tries = 0; !woken_once(key, ms); tries++)
        must(tries < 5, "who was woken in time gets no value");
}
