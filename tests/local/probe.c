/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - what the tests of several managers on one host do as a client: probe COMMAND ARGS. Exit
 * 0, 1 with a line, 3 when refused. */
#include "probe.h"

#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <base/stats.h>
#include <place/meet_ask.h>
#include <wire/probe.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEY_ROOM (66u << 10)

struct raw r;
uint8_t *value;

void say(const char *word) {
    puts(word);
    fflush(stdout);
}

static size_t key_make(char *key, const char *prefix, unsigned long n) {
    return (size_t)sprintf(key, "%s-%lu", prefix, n);
}

/* fill PREFIX N SIZE: put N keys */
static void fill(const char *prefix, unsigned long n, size_t size) {
    char key[KEY_ROOM];
    for (unsigned long k = 0; k < n; k++) {
        size_t len = key_make(key, prefix, k);
        pattern_fill(value, size, key_hash(key, len));
        int e = raw_put(&r, key, len, value, size, 0);
        must(e == 0, "put %s: %d %s", key, e, raw_text);
    }
}

/* verify PREFIX N SIZE [view]: get N keys, every byte */
static void verify(const char *prefix, unsigned long n, size_t size, unsigned flags) {
    char key[KEY_ROOM];
    for (unsigned long k = 0; k < n; k++) {
        size_t len = key_make(key, prefix, k);
        struct raw_answer a;
        int e = raw_get(&r, MSG_GET, key, len, flags, 0, &a, false);
        must(e == 0, "get %s: %d %s", key, e, raw_text);
        must(a.len == size && a.m.val_len == size && a.m.tag == 7, "%s: %zu bytes, tag %u", key,
             a.len, a.m.tag);
        must(pattern_check(a.data, size, key_hash(key, len)), "%s: wrong bytes", key);
        raw_free(&a);
    }
}

static void ask_manager(unsigned type, uint32_t manager, uint64_t aux, struct raw_answer *a) {
    struct msg m = {.type = (uint16_t)type, .manager = manager, .aux = aux};
    unsigned lane = manager % r.nodes == r.node_id ? manager / r.nodes : manager % r.local_n;
    raw_ask(&r, lane, &m, NULL, NULL, 0, a, false, 30000);
}

static void stats(void) {
    for (uint32_t m = 0; m < r.managers; m++) {
        struct raw_answer a;
        struct manager_stats s;
        ask_manager(MSG_STATS, m, 0, &a);
        must(a.m.status == 0 && stats_read(&s, a.data, a.len) == 0, "stats: %d, %zu bytes",
             a.m.status, a.len);
        char *text = stats_json(&s);
        say(text);
        free(text);
        raw_free(&a);
    }
}

/* --- the path to another node --- */

static int path_connect(const struct probe *p) {
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(p->port)};
    struct timeval t = {.tv_sec = 10};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(&a.sin6_addr, p->address, sizeof a.sin6_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    return connect(fd, (struct sockaddr *)&a, sizeof a) == 0 ? fd : (close(fd), -1);
}

static int path_ask(struct probe *p, uint32_t manager) {
    struct raw_answer a;
    ask_manager(MSG_PROBE, manager, 0, &a);
    int e = a.m.status;
    must(e < 0 || a.len == sizeof *p, "PROBE: %zu bytes", a.len);
    if (e == 0)
        memcpy(p, a.data, sizeof *p);
    raw_free(&a);
    return e;
}

static bool path_ends(int fd, const void *said, size_t n) {
    char byte;
    must(send(fd, said, n, MSG_NOSIGNAL) == (ssize_t)n, "send");
    bool ended = recv(fd, &byte, 1, 0) <= 0;
    close(fd);
    return ended;
}

/* path: a plain connection is for who has the token, for one at a time, within bounds, and not for
 * this node */
static void path(void) {
    struct probe p, q;
    struct probe_request ask = {.len = 100000, .count = 3},
                         huge = {.len = PROBE_LEN_MAX + 1, .count = 1};
    static uint8_t bytes[300000], wrong[sizeof p.token];
    uint32_t there = (r.node_id + 1) % r.nodes;
    must(path_ask(&p, r.node_id) == -EINVAL, "our own manager gave a connection");
    must(path_ask(&p, there) == 0 && strcmp(p.carrier, "tcp") == 0, "PROBE: %s", raw_text);
    must(path_ask(&q, there) == -EBUSY, "a second one while the first waits");
    must(path_ends(path_connect(&p), wrong, sizeof wrong), "a wrong token was taken");
    int fd = path_connect(&p);
    must(fd >= 0 && send(fd, p.token, sizeof p.token, MSG_NOSIGNAL) == sizeof p.token,
         "the token after a stranger's");
    for (int i = 0; i < 3; i++) {
        must(send(fd, &ask, sizeof ask, MSG_NOSIGNAL) == sizeof ask &&
                 recv(fd, bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes,
             "bytes");
        for (size_t k = 0; k < sizeof bytes; k++)
            must(bytes[k] == PROBE_BYTE, "byte %zu", k);
    }
    must(path_connect(&p) < 0, "the port is still open");
    must(path_ask(&q, there) == -EBUSY, "a second one while the first goes on");
    must(path_ends(fd, &huge, sizeof huge), "more than the most was sent");
    int e = -EBUSY;
    for (uint64_t end = clock_ms() + 10000; e == -EBUSY && clock_ms() < end; usleep(1000))
        e = path_ask(&q, there);
    must(e == 0 && memcmp(p.token, q.token, sizeof p.token) != 0, "the next one: %d", e);
}

/* keys: prints all of them */
static void keys(void) {
    for (uint32_t m = 0; m < r.managers; m++) {
        uint64_t cursor = 0;
        do {
            struct raw_answer a;
            ask_manager(MSG_KEYS, m, cursor, &a);
            must(a.m.status == 0, "keys: %d %s", a.m.status, raw_text);
            for (size_t at = 0; at < a.len;) {
                uint32_t len;
                memcpy(&len, a.data + at, 4);
                must(at + 4 + len <= a.len, "keys: bad record");
                printf("%.*s\n", (int)len, (char *)a.data + at + 4);
                at += 4 + len;
            }
            cursor = a.m.aux;
            raw_free(&a);
        } while (cursor);
    }
}

static uint64_t count(void) {
    uint64_t n = 0;
    for (uint32_t m = 0; m < r.managers; m++) {
        struct raw_answer a;
        ask_manager(MSG_LEN, m, 0, &a);
        must(a.m.status == 0, "len: %d", a.m.status);
        n += a.m.aux;
        raw_free(&a);
    }
    return n;
}

static void clear(void) {
    for (uint32_t m = 0; m < r.managers; m++) {
        struct raw_answer a;
        ask_manager(MSG_CLEAR, m, 0, &a);
        must(a.m.status == 0, "clear: %d %s", a.m.status, raw_text);
        raw_free(&a);
    }
}

/* --- self: every kind of request, for keys of every manager --- */
static void get_is(const char *key, int want, const void *bytes, size_t len) {
    for (unsigned view = 0; view < 2; view++) {
        struct raw_answer a;
        int e = raw_get(&r, MSG_GET, key, strlen(key), view ? MSGF_VIEW : 0, 0, &a, false);
        must(e == want, "get %s: %d, not %d", key, e, want);
        must(e < 0 || (a.len == len && memcmp(a.data, bytes, len) == 0),
             "get %s: other bytes (%zu of %zu)", key, a.len, len);
        raw_free(&a);
    }
}

static void self_key(const char *key, size_t size) {
    size_t klen = strlen(key);
    struct raw_answer a;
    uint8_t *v = value, *w = malloc(size + 1);
    pattern_fill(v, size, 1);
    pattern_fill(w, size, 2);
    get_is(key, DDICT_ENOKEY, NULL, 0);
    must(raw_del(&r, key, klen) == DDICT_ENOKEY, "del of nothing");
    must(raw_put(&r, key, klen, v, size, MSGF_EXISTING) == DDICT_ENOKEY, "EXISTING of nothing");
    must(raw_put(&r, key, klen, v, size, MSGF_NEW) == 0, "NEW: %s", raw_text);
    must(raw_put(&r, key, klen, w, size, MSGF_NEW) == DDICT_EEXISTS, "NEW again");
    get_is(key, 0, v, size);
    must(raw_put(&r, key, klen, w, size, MSGF_EXISTING) == 0, "EXISTING");
    get_is(key, 0, w, size);
    must(raw_get(&r, MSG_HEAD, key, klen, 0, 0, &a, false) == 0 && a.m.val_len == size &&
             a.len == 0 && a.m.tag == 7,
         "head");
    raw_free(&a);
    must(raw_put(&r, key, klen, v, size, 0) == 0, "any");
    get_is(key, 0, v, size);
    for (unsigned view = 0; view < 2; view++) {
        must(raw_get(&r, MSG_POP, key, klen, view ? MSGF_VIEW : 0, 0, &a, false) == 0, "pop");
        must(a.len == size && memcmp(a.data, v, size) == 0, "pop: other bytes");
        raw_free(&a);
        get_is(key, DDICT_ENOKEY, NULL, 0);
        must(raw_get(&r, MSG_POP, key, klen, 0, 0, &a, false) == DDICT_ENOKEY, "pop of nothing");
        raw_free(&a);
        if (!view)
            must(raw_put(&r, key, klen, v, size, 0) == 0, "put again");
    }
    must(raw_put(&r, key, klen, v, size, 0) == 0 && raw_del(&r, key, klen) == 0, "del");
    get_is(key, DDICT_ENOKEY, NULL, 0);
    if (size > 1) {
        free(w);
        return;
    }
    uint64_t began = clock_ms();
    must(raw_get(&r, MSG_GET, key, klen, MSGF_WAIT, 50000, &a, false) == -ETIMEDOUT,
         "wait for nothing");
    raw_free(&a);
    must(clock_ms() - began >= 49 && clock_ms() - began < 5000, "a wait of 50 ms took %llu",
         (unsigned long long)(clock_ms() - began));
    free(w);
}

static int answer_of(unsigned lane, uint64_t id, const char *what) {
    struct msg in;
    must(raw_next(&r, lane, &in, NULL, 30000), "%s: no answer", what);
    must(in.type == MSG_REPLY && in.id == id, "%s: %s of id %llu, not %llu", what,
         msg_name(in.type), (unsigned long long)in.id, (unsigned long long)id);
    ring_consume(&r.local[lane].lane.cq, &in);
    return in.status;
}

/* Get, head, pop and get wait for a key; a put by another client answers the first three, the last
 * is cancelled. */
static void self_wait(const char *key) {
    static struct raw other;
    static const unsigned types[4] = {MSG_GET, MSG_HEAD, MSG_POP, MSG_GET};
    size_t klen = strlen(key);
    unsigned lane = raw_lane_for(&r, key, klen);
    uint64_t id[4];
    if (!other.sock)
        raw_attach(&other);
    for (int i = 0; i < 4; i++) {
        struct msg m = {.type = (uint16_t)types[i],
                        .flags = MSGF_WAIT,
                        .key_len = (uint32_t)klen,
                        .aux = 20000000,
                        .version = MSG_VALUE_MAX,
                        .id = id[i] = r.next_id++};
        raw_send(&r, lane, &m, key, NULL, 0);
    }
    usleep(20000);
    must(!ring_ready(&r.local[lane].lane.cq), "answered before the put");
    must(raw_put(&other, key, klen, "abc", 3, 0) == 0, "put");
    /* in any order: a manager that is short of time takes the pop first (runtime/manager/waiters.c)
     * */
    bool answered[3] = {false};
    for (int n = 0; n < 3; n++) {
        struct msg in;
        must(raw_next(&r, lane, &in, NULL, 30000), "waiting requests: %d answers of 3", n);
        int i = 0;
        while (i < 3 && in.id != id[i])
            i++;
        must(in.type == MSG_REPLY && i < 3 && !answered[i] && in.status == 0,
             "waiting requests %llu to %llu: %s of id %llu, status %d", (unsigned long long)id[0],
             (unsigned long long)id[3], msg_name(in.type), (unsigned long long)in.id, in.status);
        answered[i] = true;
        ring_consume(&r.local[lane].lane.cq, &in);
    }
    struct msg c = {.type = MSG_CANCEL, .aux = id[3]};
    raw_send(&r, lane, &c, NULL, NULL, 0);
    must(answer_of(lane, id[3], "cancelled get") == -ECANCELED, "cancel");
}

/* Answers that stand in CQ; *reader looks at them and consumes none. */
static unsigned answers_there(const struct ring *cq) {
    uint64_t sink;
    struct ring reader = *cq;
    struct msg in;
    const uint8_t *payload;
    unsigned n = 0;
    reader.head = &sink;
    for (; ring_peek(&reader, &in, &payload) > 0; n++)
        ring_consume(&reader, &in);
    return n;
}

/* More gets than CQ has room for, of which nobody takes an answer: a request leaves SQ only when its
 * answer is in CQ. */
static void self_unread(const char *key) {
    enum { GETS = 40 };
    size_t klen = strlen(key);
    unsigned lane = raw_lane_for(&r, key, klen);
    struct lane *l = &r.local[lane].lane;
    uint64_t first = 0, from = l->sq.pos, *head = l->sq.head;
    must(raw_put(&r, key, klen, value, 60000, 0) == 0, "put: %s", raw_text);
    from = l->sq.pos;
    for (int i = 0; i < GETS; i++) {
        struct msg m = {.type = MSG_GET, .key_len = (uint32_t)klen, .id = r.next_id++};
        first = first ? first : m.id;
        raw_send(&r, lane, &m, key, NULL, 0);
    }
    unsigned there = 0, was = 0;
    uint64_t taken = 0, one = lane_round(MSG_HEADER + (uint32_t)klen);
    for (uint64_t end = clock_ms() + 20000; (there == 0 || there != was) && clock_ms() < end;) {
        usleep(100000);
        was = there;
        taken = __atomic_load_n(head, __ATOMIC_ACQUIRE) - from; /* before the answers are counted */
        there = answers_there(&l->cq);
    }
    must(there > 0 && there < GETS, "%u answers in CQ of %d", there, (int)GETS);
    must(taken <= there * one + one, "%llu bytes have left SQ with %u answers",
         (unsigned long long)taken, there);
    for (int i = 0; i < GETS; i++)
        must(answer_of(lane, first + (uint64_t)i, "unread get") == 0, "unread get");
    must(raw_del(&r, key, klen) == 0, "del");
}

static void self(void) {
    static const size_t sizes[] = {0,      1, 300, 4096, 70000, DD_MSG_INLINE - 8, DD_MSG_INLINE,
                                   1000000};
    char key[KEY_ROOM];
    for (uint32_t owner = 0; owner < r.managers; owner++) {
        unsigned found = 0;
        if (!deal_owns(&r.deal, owner))
            continue;
        for (unsigned long n = 0; found < sizeof sizes / sizeof *sizes; n++) {
            size_t len = key_make(key, "self", n);
            if (deal_owner(&r.deal, key, len, key_hash(key, len)) != owner)
                continue;
            self_key(key, sizes[found++]);
            if (found == 1)
                self_wait(key);
            if (found == 1 && owner % r.nodes == r.node_id)
                self_unread(key);
        }
    }
}

/* hold PREFIX N: views of N keys, then stay until stdin ends */
static void hold(const char *prefix, unsigned long n) {
    char key[KEY_ROOM];
    for (unsigned long k = 0; k < n; k++) {
        size_t len = key_make(key, prefix, k);
        struct raw_answer a;
        int e = raw_get(&r, MSG_GET, key, len, MSGF_VIEW, 0, &a, true);
        must(e == 0, "get %s: %d %s", key, e, raw_text);
    }
    say("holding");
    while (getchar() != EOF) {
    }
}

/* stay: attached until stdin ends or the status page says that it is over */
static void stay(void) {
    say("attached");
    struct pollfd p = {.fd = 0, .events = POLLIN};
    for (;;) {
        uint32_t state = __atomic_load_n(&r.status_page->state, __ATOMIC_ACQUIRE);
        if (state & STATUS_ENDED) {
            printf("status %u %s\n", state, r.status_page->text);
            return;
        }
        if (poll(&p, 1, 5) > 0)
            return;
    }
}

/* half KEY SIZE: the first half of a streamed put, then wait to be killed */
static void half(const char *key, size_t size) {
    struct msg m = {.type = MSG_PUT,
                    .flags = MSGF_STREAM,
                    .key_len = (uint32_t)strlen(key),
                    .val_len = size,
                    .id = r.next_id++};
    unsigned lane = raw_lane_for(&r, key, strlen(key));
    raw_send(&r, lane, &m, key, NULL, 0);
    for (size_t at = 0; at + DD_MSG_PIECE < size / 2; at += DD_MSG_PIECE) {
        struct msg d = {.type = MSG_DATA, .id = m.id, .aux = at};
        raw_send(&r, lane, &d, NULL, value + at, DD_MSG_PIECE);
    }
    say("half");
    while (getchar() != EOF) {
    }
}

/* forked PREFIX N SIZE: views of N keys, a fork that is announced with HOLD, the parent dies at
 * once; the child says `child PID`, and when its stdin has a line it checks that every byte is what
 * it was, says `same`, and goes when stdin ends. */
static void forked(const char *prefix, unsigned long n, size_t size, int seals) {
    const uint8_t *at[512];
    char key[KEY_ROOM];
    int page = memfd_create("hold", MFD_CLOEXEC | MFD_ALLOW_SEALING), ends[2];
    must(page >= 0 && ftruncate(page, (off_t)LEASE_FILE_SIZE) == 0 &&
             (!seals || fcntl(page, F_ADD_SEALS, F_SEAL_SHRINK) == 0),
         "hold page");
    must(pipe2(ends, O_CLOEXEC) == 0 && n <= 512, "pipe");
    for (unsigned long k = 0; k < n; k++) {
        size_t len = key_make(key, prefix, k);
        struct raw_answer a;
        must(raw_get(&r, MSG_GET, key, len, MSGF_VIEW, 0, &a, true) == 0, "get %s: %s", key,
             raw_text);
        struct found f;
        unsigned i = LEASE_ARENA(*a.slot);
        must(reader_item(&r.local[i].arena, LEASE_OFFSET(*a.slot), &f) == 0 && f.val_len == size,
             "%s: its item", key);
        at[k] = f.value;
    }
    must(pwrite(page, r.leases->slot, sizeof r.leases->slot,
                (off_t)offsetof(struct lease_chunk, slot)) == sizeof r.leases->slot,
         "copy");
    uint32_t one = 1;
    must(pwrite(page, &one, sizeof one, (off_t)offsetof(struct lease_chunk, chunks)) == sizeof one,
         "chunks");
    struct attach_msg m;
    attach_msg_init(&m, ATTACH_HOLD);
    int fds[2] = {page, ends[0]};
    must(attach_send(r.sock, &m, fds, 2) == 0, "HOLD");
    must(attach_recv(r.sock, &m, NULL, 0, 5000) == 0 && m.type == ATTACH_HELD && m.status == 0,
         "no HELD");
    close(ends[0]);
    close(page);
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child > 0)
        raise(SIGKILL);
    close(r.sock);
    printf("child %d\n", (int)getpid());
    fflush(stdout);
    if (getchar() == EOF)
        return;
    for (unsigned long k = 0; k < n; k++) {
        size_t len = key_make(key, prefix, k);
        must(pattern_check(at[k], size, key_hash(key, len)), "%s changed under a view", key);
    }
    say("same");
    while (getchar() != EOF) {
    }
}

/* full KEY-PREFIX SIZE: put until a manager refuses; says its sentence and how many keys there are
 * */
static void full(const char *prefix, size_t size) {
    char key[KEY_ROOM];
    for (unsigned long k = 0;; k++) {
        size_t len = key_make(key, prefix, k);
        pattern_fill(value, size, key_hash(key, len));
        int e = raw_put(&r, key, len, value, size, 0);
        if (e == 0)
            continue;
        must(e == DDICT_EFULL, "put %s: %d %s", key, e, raw_text);
        printf("%lu %s\n", k, raw_text);
        return;
    }
}

/* churn SEED MS: all kinds of requests on 40 keys that others change too; every value read is one
 * that was put, whole */
static void churn(unsigned seed, uint64_t ms) {
    char key[64];
    uint64_t ops = 0;
    static uint64_t *held[64]; /* leases that are kept for a while */
    srandom(seed);
    for (uint64_t end = clock_ms() + ms; clock_ms() < end; ops++) {
        unsigned op = (unsigned)random() % 16, h = (unsigned)random() % 64;
        size_t klen = key_make(key, "churn", (unsigned long)random() % 40), size = 16;
        unsigned view = random() % 2 ? MSGF_VIEW : 0;
        struct raw_answer a = {0};
        int e;
        if (op < 6) {
            static const size_t most[] = {100, 3000, 60000, 600000};
            size += (size_t)random() % most[random() % 4];
            uint64_t n = (uint64_t)random() << 31 | (uint64_t)random();
            memcpy(value, &n, 8);
            memcpy(value + 8, &size, 8);
            pattern_fill(value + 16, size - 16, n);
            e = raw_put(&r, key, klen, value, size,
                        op == 4   ? MSGF_NEW
                        : op == 5 ? MSGF_EXISTING
                                  : 0);
            must(e == 0 || (op == 4 && e == DDICT_EEXISTS) || (op == 5 && e == DDICT_ENOKEY),
                 "put: %d %s", e, raw_text);
            continue;
        }
        if (op == 6) {
            e = raw_del(&r, key, klen);
            must(e == 0 || e == DDICT_ENOKEY, "del: %d %s", e, raw_text);
            continue;
        }
        if (op == 7)
            e = raw_get(&r, MSG_POP, key, klen, view, 0, &a, false);
        else if (op == 8)
            e = raw_get(&r, MSG_HEAD, key, klen, 0, 0, &a, false);
        else if (op == 9)
            e = raw_get(&r, MSG_GET, key, klen, view | MSGF_WAIT, 3000, &a, false);
        else
            e = raw_get(&r, MSG_GET, key, klen, view, 0, &a, op > 13);
        must(e == 0 || e == DDICT_ENOKEY || (op == 9 && e == -ETIMEDOUT), "get: %d %s", e,
             raw_text);
        if (e == 0 && op != 8) {
            uint64_t n, whole;
            must(a.len >= 16, "%zu bytes", a.len);
            memcpy(&n, a.data, 8);
            memcpy(&whole, a.data + 8, 8);
            must(whole == a.len && pattern_check(a.data + 16, a.len - 16, n),
                 "a torn value of %zu bytes", a.len);
        }
        if (a.slot) {
            if (held[h])
                reader_release(held[h]);
            held[h] = a.slot;
            a.slot = NULL;
        }
        raw_free(&a);
    }
    printf("%llu\n", (unsigned long long)ops);
}

/* down: as `ddict down` */
static void down(void) {
    struct attach_msg m;
    attach_msg_init(&m, ATTACH_DOWN);
    must(attach_send(r.sock, &m, NULL, 0) == 0, "send");
    must(attach_recv(r.sock, &m, NULL, 0, 5000) == 0 && m.type == ATTACH_DOWN_OK, "no DOWN_OK");
}

/* greedy KEY N: ask N times for a value, take nothing, stay until stdin ends; a line there: take
 * all, print how each ended */
static void greedy(const char *key, unsigned long n) {
    size_t len = strlen(key);
    unsigned lane = raw_lane_for(&r, key, len);
    for (unsigned long k = 0; k < n; k++) {
        struct msg m = {.type = MSG_GET, .key_len = (uint32_t)len, .id = r.next_id++};
        raw_send(&r, lane, &m, key, NULL, 0);
    }
    say("asked");
    for (int c; (c = getchar()) != EOF;)
        for (struct msg m; c == '\n' && n > 0;) {
            must(raw_next(&r, lane, &m, NULL, 20000), "no answer");
            raw_consumed(&r, lane, &m);
            if (m.status == 0 && !(m.flags & MSGF_LAST) &&
                (m.type == MSG_DATA || m.flags & MSGF_STREAM))
                continue;
            printf("%d\n", m.status);
            fflush(stdout);
            n--;
        }
}

/* wait KEY MS: a get that waits; prints the status */
static void wait_key(const char *key, uint64_t ms) {
    struct raw_answer a;
    say("waiting");
    int e = raw_get(&r, MSG_GET, key, strlen(key), MSGF_WAIT, ms * 1000, &a, false);
    printf("%d %s\n", e, e < 0 ? raw_text : "");
}

/* meet STEP RANK: where the step meets, then stay until stdin ends; or the code and the sentence */
static void meet(const char *step, unsigned rank) {
    struct meeting_place p;
    int e = meet_ask_place(&p, getenv("DDICT_NAME"), step, rank);
    if (e < 0)
        printf("%d %s\n", e, dd_errmsg());
    else
        printf("%s %s\n", p.address, p.port);
    fflush(stdout);
    while (e == 0 && getchar() != EOF)
        continue;
}

/* task N: come as task N of --tasks, say "here", stay until stdin ends; or the code and the sentence */
static void task(unsigned n) {
    struct attach_msg m;
    int fd = attach_connect(getenv("DDICT_NAME"), 5000);
    attach_msg_init(&m, ATTACH_TASK);
    m.manager = n;
    int e = fd < 0 ? fd : attach_send(fd, &m, NULL, 0);
    if (e == 0)
        e = attach_recv(fd, &m, NULL, 0, 30000);
    if (e < 0 || m.status < 0)
        printf("%d %s\n", e < 0 ? e : m.status, e < 0 ? dd_errmsg() : m.text);
    else
        puts("here");
    fflush(stdout);
    while (e >= 0 && m.status == 0 && getchar() != EOF)
        continue;
}

int main(int argc, char **argv) {
    const char *cmd = argc > 1 ? argv[1] : "";
    signal(SIGPIPE, SIG_IGN);
    if (argc == 4 && strcmp(cmd, "meet") == 0) {
        meet(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
        return 0;
    }
    if (argc == 3 && strcmp(cmd, "task") == 0) {
        task((unsigned)strtoul(argv[2], NULL, 10));
        return 0;
    }
    value = malloc(512u << 20);
    raw_attach(&r);
    if (strcmp(cmd, "stats") == 0)
        stats();
    else if (strcmp(cmd, "keys") == 0)
        keys();
    else if (strcmp(cmd, "path") == 0)
        path();
    else if (strcmp(cmd, "len") == 0)
        printf("%llu\n", (unsigned long long)count());
    else if (strcmp(cmd, "clear") == 0)
        clear();
    else if (strcmp(cmd, "self") == 0)
        self();
    else if (strcmp(cmd, "stay") == 0)
        stay();
    else if (strcmp(cmd, "down") == 0)
        down();
    else if (argc == 4 && strcmp(cmd, "churn") == 0)
        churn((unsigned)strtoul(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    else if (argc == 5 && strncmp(cmd, "forked", 6) == 0)
        forked(argv[2], strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
               strcmp(cmd, "forked") == 0);
    else if (argc == 4 && strcmp(cmd, "full") == 0)
        full(argv[2], strtoull(argv[3], NULL, 10));
    else if (argc == 4 && strcmp(cmd, "greedy") == 0)
        greedy(argv[2], strtoul(argv[3], NULL, 10));
    else if (argc == 4 && strcmp(cmd, "wait") == 0)
        wait_key(argv[2], strtoull(argv[3], NULL, 10));
    else if (argc == 4 && strcmp(cmd, "woken") == 0)
        woken(argv[2], strtoull(argv[3], NULL, 10));
    else if (argc == 3 && strcmp(cmd, "hostile") == 0)
        hostile((unsigned)strtoul(argv[2], NULL, 10));
    else if (argc == 5 && strcmp(cmd, "fill") == 0)
        fill(argv[2], strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    else if (argc == 5 && strcmp(cmd, "verify") == 0)
        verify(argv[2], strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10), 0);
    else if (argc == 5 && strcmp(cmd, "view") == 0)
        verify(argv[2], strtoul(argv[3], NULL, 10), strtoull(argv[4], NULL, 10), MSGF_VIEW);
    else if (argc == 4 && strcmp(cmd, "hold") == 0)
        hold(argv[2], strtoul(argv[3], NULL, 10));
    else if (argc == 4 && strcmp(cmd, "half") == 0)
        half(argv[2], strtoull(argv[3], NULL, 10));
    else
        die("probe: what is `%s`?", cmd);
    fflush(stdout);
    _exit(0); /* what it holds is no leak: the test is about what ddictd keeps */
}
