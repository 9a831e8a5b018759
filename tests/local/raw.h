/* SPDX-License-Identifier: Apache-2.0 */
/* raw.h - a client that speaks the protocol by hand, one thread, one request at a time unless it
 * wants more. Failures end the process with a line. */
#ifndef DDICT_TESTS_RAW_H
#define DDICT_TESTS_RAW_H

#include <base/deal.h>
#include <store/reader.h>
#include <wire/attach.h>
#include <wire/lane.h>

#include <stdbool.h>
#include <stdint.h>

struct raw_manager {
    uint32_t id;
    pid_t pid;
    struct lane lane;
    struct arena_view arena;
    int event_fd;
};
struct raw {
    int sock;
    uint32_t managers, nodes, node_id, local_n;
    struct deal deal;
    uint64_t client;
    const struct status_page *status_page;
    struct lease_chunk *leases; /* the whole lease page */
    int lease_fd;
    struct raw_manager local[16];
    uint64_t next_id;
};

struct raw_answer {
    struct msg m;
    uint8_t *data; /* the value: inline, streamed, or copied from its place; malloc'ed */
    size_t len;
    uint64_t *slot; /* PLACED and kept: its lease */
};

void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define must(ok, ...)         \
    do {                      \
        if (!(ok))            \
            die(__VA_ARGS__); \
    } while (0)

void raw_attach(struct raw *r);
/* index of the lane to the owner of key, or to its proxy */
unsigned raw_lane_for(struct raw *r, const void *key, size_t len);
/* Queue one message on lane i; waits for room, taking answers of others away (they must be none)
 * only when asked. */
void raw_send(struct raw *r, unsigned i, struct msg *m, const void *key, const void *value,
              size_t value_len);
/* The next message on the CQ of lane i, at most ms; false: none. The payload is copied into *data
 * (malloc'ed) unless NULL. It stays there until raw_consumed(). */
bool raw_next(struct raw *r, unsigned i, struct msg *m, uint8_t **data, int ms);
void raw_consumed(struct raw *r, unsigned i, const struct msg *m);
/* One request and its whole answer. keep: a PLACED value stays leased. */
void raw_ask(struct raw *r, unsigned i, struct msg *m, const void *key, const void *value,
             size_t value_len, struct raw_answer *a, bool keep, int ms);

/* --- by key --- */
/* streams what is long */
int raw_put(struct raw *r, const void *key, size_t key_len, const void *value, size_t len,
            unsigned flags);
int raw_get(struct raw *r, unsigned type, const void *key, size_t key_len, unsigned flags,
            uint64_t wait_us, struct raw_answer *a, bool keep);
int raw_del(struct raw *r, const void *key, size_t key_len);
void raw_free(struct raw_answer *a);
extern char raw_text[512]; /* the sentence of the last negative answer */

/* The value that goes with key number n: every byte is checked. */
void pattern_fill(uint8_t *v, size_t len, uint64_t n);
bool pattern_check(const uint8_t *v, size_t len, uint64_t n);

#endif
