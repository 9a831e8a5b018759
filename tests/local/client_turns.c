/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_turns.c - the kinds of work that turns.py measures a manager's turns with: client_turns
 * KIND N. Each is a program that finds an empty dictionary. Exits with 0 when all was as it should
 * be; a refusal that belongs to the kind (full) is none.
 */
#include <ddict.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB   ((size_t)1 << 20)
#define BATCH 4096u
#define KEY   24u
#define EACH  25u /* clients of one process */

static ddict_t *d;
static unsigned long n;
static char *value;

#define must(call)                                                        \
    do {                                                                  \
        long long rc_ = (long long)(call);                                \
        if (rc_ < 0) {                                                    \
            fprintf(stderr, "%s: %lld %s\n", #call, rc_, ddict_errmsg()); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

static size_t key_of(char *key, unsigned long k) {
    return (size_t)snprintf(key, KEY, "k/%lu", k);
}

/* Values of `len` bytes under keys from .. to - 1, each `step`-th. Returns how many were stored;
 * stops where a batch is refused. */
static unsigned long put_some(unsigned long from, unsigned long to, unsigned long step,
                              size_t len) {
    static struct ddict_pair pair[BATCH];
    static char key[BATCH][KEY];
    unsigned long stored = 0;
    while (from < to) {
        size_t m = 0;
        for (; m < BATCH && from < to; m++, from += step)
            pair[m] = (struct ddict_pair){
                .key = key[m], .klen = key_of(key[m], from), .val = value, .vlen = len};
        ssize_t done = ddict_put_many(d, pair, m, -1);
        if (done < 0)
            must(done);
        stored += (unsigned long)done;
        for (size_t i = 0; i < m; i++)
            if (pair[i].status < 0 && pair[i].status != DDICT_EFULL)
                must(pair[i].status);
        if ((size_t)done < m)
            break;
    }
    return stored;
}

static void del_some(unsigned long from, unsigned long to, unsigned long step, unsigned long but) {
    char key[KEY];
    for (; from < to; from += step) {
        if (but && from % but == 0)
            continue;
        int rc = ddict_del(d, key, key_of(key, from), -1);
        if (rc != DDICT_ENOKEY)
            must(rc);
    }
}

static struct ddict_view *view_some(unsigned long from, unsigned long to, unsigned long step,
                                    unsigned long *views) {
    static struct ddict_want want[BATCH];
    static char key[BATCH][KEY];
    struct ddict_view *v = malloc(((to - from) / step + 1) * sizeof *v);
    *views = 0;
    while (from < to) {
        size_t m = 0;
        for (; m < BATCH && from < to; m++, from += step)
            want[m] = (struct ddict_want){.key = key[m], .klen = key_of(key[m], from)};
        must(ddict_get_many(d, want, m, 0, -1));
        for (size_t i = 0; i < m; i++)
            if (want[i].status == 0)
                v[(*views)++] = want[i].view;
    }
    return v;
}

static void release_some(struct ddict_view *v, unsigned long views) {
    while (views-- > 0)
        ddict_release(&v[views]);
    free(v);
}

static long keys_with(const char *prefix, int manager) {
    ddict_iter_t *it;
    const void *key;
    size_t len;
    long found = 0;
    int rc;
    must(ddict_iter_open_prefix(d, manager, prefix, strlen(prefix), &it, -1));
    while ((rc = ddict_iter_next(it, &key, &len)) > 0)
        found++;
    must(rc);
    ddict_iter_close(it);
    return found;
}

static void stats_some(unsigned times) {
    struct ddict_manager_stats *s;
    while (times-- > 0) {
        must(ddict_stats(d, &s, sizeof *s, -1));
        free(s);
    }
}

/* Puts of `len` bytes that find no room, most of them. */
static void refused_some(unsigned times, size_t len) {
    char key[KEY];
    unsigned full = 0;
    for (unsigned i = 0; i < times; i++) {
        int rc = ddict_put(d, key, (size_t)snprintf(key, KEY, "refused/%u", i), value, len, 0, -1);
        if (rc == DDICT_EFULL)
            full++;
        else
            must(rc);
    }
    printf("%u of %u refused\n", full, times);
}

/* --- kinds --- */
static void large(void) { /* n MiB */
    struct ddict_place p;
    char *v = malloc(n * MIB);
    memset(v, 1, n * MIB);
    must(ddict_put(d, "large", 5, v, n * MIB, 0, -1));
    must(ddict_put(d, "large", 5, v, n * MIB, 0, -1));
    must(ddict_del(d, "large", 5, -1));
    must(ddict_reserve(d, "large", 5, n * MIB, 0, &p));
    memset(p.data, 2, n * MIB);
    must(ddict_commit(&p, -1));
    must(ddict_get(d, "large", 5, v, n * MIB, NULL, NULL, 0, -1));
    must(ddict_del(d, "large", 5, -1));
    must(ddict_put(d, "large", 5, v, n * MIB, 0, -1));
    must(ddict_clear(d, -1));
    put_some(0, 10000, 1, 10);
    free(v);
}

static void killed(void) { /* a process that dies while n MiB stand in its lane */
    int ends[2];
    char c;
    if (pipe(ends) < 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        struct ddict_place p;
        ddict_t *h;
        must(ddict_attach(&h, NULL, -1));
        must(ddict_reserve(h, "large", 5, n * MIB, 0, &p));
        memset(p.data, 2, n * MIB);
        must(ddict_commit_keep(&p, -1));
        must(write(ends[1], "", 1));
        pause();
    }
    must(read(ends[0], &c, 1));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    put_some(0, 10000, 1, 10);
    must(ddict_del(d, "large", 5, -1));
    sleep(1);
    put_some(0, 10000, 1, 10);
}

static void many(void) {
    put_some(0, n, 1, 8);
    if (keys_with("nothing", -1) != 0 || keys_with("k/1", -1) < 2)
        exit(1);
    put_some(0, n, 1, 16);
    must(ddict_clear(d, -1));
    put_some(0, n / 4, 1, 8);
    del_some(0, n / 8, 1, 0);
    must(ddict_clear(d, -1));
    put_some(0, 10000, 1, 8);
}

static void views(void) {
    unsigned long held;
    put_some(0, n, 1, 100);
    struct ddict_view *v = view_some(0, n, 1, &held);
    put_some(0, n, 1, 100);
    must(ddict_clear(d, -1));
    put_some(0, n, 1, 100);
    put_some(0, n, 1, 100);
    stats_some(3);
    release_some(v, held);
    put_some(0, n, 1, 100);
    stats_some(3);
}

static void dies(void) { /* who holds n views */
    int ends[2];
    char c;
    put_some(0, n, 1, 100);
    if (pipe(ends) < 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        unsigned long held;
        must(ddict_attach(&d, NULL, -1));
        view_some(0, n, 1, &held);
        must(write(ends[1], "", 1));
        pause();
    }
    must(read(ends[0], &c, 1));
    put_some(0, n, 1, 100);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    put_some(0, n, 1, 100);
    sleep(1);
    put_some(0, 20000, 1, 100);
}

static void full(void) { /* of values of 1000 bytes, and n views of what was removed */
    unsigned long held, stored = put_some(0, 100 * MIB, 1, 1000);
    if (n > stored / 2)
        n = stored / 2;
    struct ddict_view *v = view_some(0, n, 1, &held);
    put_some(stored, 100 * MIB, 1, 1000);
    del_some(0, n, 1, 0);
    refused_some(500, 20000);
    refused_some(500, 3000);
    put_some(0, n, 1, 1200);
    refused_some(100, MIB + MIB / 2);
    release_some(v, held);
    put_some(0, n, 1, 1000);
}

static void indexes(void) { /* full of values of 8 bytes: the index grows to the end */
    unsigned long held, stored = put_some(0, 100 * MIB, 1, 8);
    if (n > stored / 2)
        n = stored / 2;
    struct ddict_view *v = view_some(0, n, 1, &held);
    del_some(0, n, 1, 0);
    for (unsigned long i = 0; i < 2; i++)
        put_some(stored + i * BATCH, stored + (i + 1) * BATCH, 1, 8);
    refused_some(2000, 100);
    release_some(v, held);
    for (unsigned long i = 0; i < 2; i++)
        put_some(stored + i * BATCH, stored + (i + 1) * BATCH, 1, 8);
}

/* values of 1 KiB, of which one in four stays, and each n-th is read */
static void scattered(void) {
    unsigned long held, stored = put_some(0, 100 * MIB, 1, 1000);
    struct ddict_view *v = view_some(0, stored, n, &held);
    del_some(0, stored, 1, 4);
    for (unsigned long i = 0; i < 20; i++)
        put_some(stored, stored + 64, 1, 64 << 10);
    refused_some(100, 300 << 10);
    refused_some(100, MIB + MIB / 2);
    release_some(v, held);
    refused_some(100, MIB + MIB / 2);
}

/* free pages everywhere, and a value of n MiB that they are too scattered for */
static void punched(void) {
    char *v = calloc(n, MIB);
    unsigned long stored = put_some(0, 100 * MIB, 1, 40000);
    for (unsigned long i = 0; i < 16; i += 2)
        del_some(i, stored, 16, 0);
    stats_some(20);
    for (unsigned long i = 1; i < 15; i += 2)
        del_some(i, stored, 16, 0);
    int rc = ddict_put(d, "large", 5, v, n * MIB, 0, -1);
    printf("%lu values, then one of %lu MiB: %d\n", stored, n, rc);
    if (rc != DDICT_EFULL)
        must(rc);
    free(v);
}

static void hot(void) { /* n values, those of other nodes kept here while frozen, and read */
    unsigned long held;
    const size_t len = n * 64;
    put_some(0, n, 1, 400);
    char *v = calloc(1, len), key[KEY];
    for (unsigned i = 0; i < 4; i++)
        must(ddict_put(d, key, (size_t)snprintf(key, KEY, "large/%u", i), v, len, 0, -1));
    must(ddict_freeze(d, -1));
    struct ddict_view *one = view_some(0, n / 2, 1, &held), *two;
    unsigned long held_two;
    two = view_some(n / 2, n, 1, &held_two);
    for (unsigned i = 0; i < 4; i++)
        must(ddict_get(d, key, (size_t)snprintf(key, KEY, "large/%u", i), v, len, NULL, NULL, 0,
                       -1));
    release_some(two, held_two);
    two = view_some(n / 2, n, 1, &held_two);
    release_some(two, held_two);
    for (unsigned i = 0; i < 4; i++)
        must(ddict_get(d, key, (size_t)snprintf(key, KEY, "large/%u", i), v, len, NULL, NULL, 0,
                       -1));
    must(ddict_unfreeze(d, -1));
    put_some(0, n, 1, 400);
    release_some(one, held);
    put_some(0, n, 1, 400);
    free(v);
}

static void feeds(void) { /* n prefixes are subscribed to */
    ddict_sub_t **sub = malloc(n * sizeof *sub);
    char key[KEY];
    struct ddict_event e;
    for (unsigned long i = 0; i < n; i++)
        must(ddict_subscribe(d, key, (size_t)snprintf(key, KEY, "p/%lu/", i), DDICT_SUB_DELS,
                             &sub[i], -1));
    for (int round = 0; round < 3; round++) {
        must(ddict_put(d, "p/7/x", 5, "x", 1, 0, -1));
        must(ddict_clear(d, -1));
        put_some(0, 1000, 1, 8);
        must(ddict_clear(d, -1));
    }
    int clears = 0, puts = 0, rc;
    while ((rc = ddict_next_event(sub[7], &e, 500)) > 0) {
        clears += e.kind == DDICT_EVENT_CLEAR;
        puts += e.kind == DDICT_EVENT_PUT;
    }
    must(rc);
    printf("%d puts, %d clears\n", puts, clears);
    if (puts != 3 || clears < 6)
        exit(1);
    for (unsigned long i = 0; i < n; i++)
        ddict_unsubscribe(sub[i]);
    free(sub);
}

static void crowd_of(void (*act)(ddict_t *h)) { /* n clients */
    int go[2], done[2];
    char c;
    unsigned processes = 0;
    if (pipe(go) < 0 || pipe(done) < 0)
        exit(1);
    for (unsigned long first = 0; first < n; first += EACH, processes++) {
        if (fork() != 0)
            continue;
        ddict_t *h[EACH];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        for (unsigned i = 0; i < EACH; i++)
            must(ddict_attach(&h[i], NULL, -1));
        must(write(done[1], "", 1));
        if (read(go[0], &c, 1) != 0)
            _exit(1);
        act(h[0]);
        must(write(done[1], "", 1));
        for (unsigned i = 0; i < EACH; i++)
            ddict_detach(h[i]);
        _exit(0);
    }
    for (unsigned i = 0; i < processes; i++)
        must(read(done[0], &c, 1));
    stats_some(5);
    close(go[1]);
    if (act)
        must(usleep(300000));
    must(ddict_put(d, "awaited", 7, "x", 1, 0, -1));
    for (unsigned i = 0; i < processes; i++)
        must(read(done[0], &c, 1));
    while (processes-- > 0) {
        int status;
        if (wait(&status) < 0 || status != 0)
            exit(1);
    }
}

static void asks_stats(ddict_t *h) {
    struct ddict_manager_stats *s;
    must(ddict_stats(h, &s, sizeof *s, -1));
    free(s);
}

static void waits_all(ddict_t *h) { /* for one key, many times at once */
    ddict_async_t *q;
    struct ddict_op job[64], out[64];
    must(ddict_async_open(h, &q));
    for (unsigned i = 0; i < 64; i++)
        job[i] = (struct ddict_op){.what = DDICT_OP_VIEW,
                                   .flags = DDICT_WAIT,
                                   .key = "awaited",
                                   .klen = 7,
                                   .timeout_ms = 60000};
    must(ddict_async_submit(q, job, 64));
    for (unsigned got = 0; got < 64;) {
        ssize_t m = ddict_async_poll(q, out, 64, -1);
        must(m);
        for (ssize_t i = 0; i < m; i++) {
            must(out[i].status);
            ddict_release(&out[i].view);
        }
        got += (unsigned)m;
    }
    ddict_async_close(q);
}

static void crowd(void) {
    crowd_of(asks_stats);
}
static void waits(void) {
    crowd_of(waits_all);
}

#define SET 1000u /* requests of one handle: fewer than would be kept back */

/* n views that wait for one key, and a pop in the midst of them, in this order. */
static ddict_async_t **wait_many(ddict_t **h, const char *key) {
    ddict_async_t **q = calloc(n / SET + 1, sizeof *q);
    struct ddict_op op[SET];
    for (unsigned long i = 0, m; i <= n; i += m) {
        for (m = 0; m < SET && i + m <= n; m++)
            op[m] = (struct ddict_op){.what = i + m == n / 2 ? DDICT_OP_POP : DDICT_OP_VIEW,
                                      .flags = DDICT_WAIT,
                                      .key = key,
                                      .klen = strlen(key),
                                      .timeout_ms = 60000,
                                      .user = (void *)(i + m)};
        must(ddict_attach(&h[i / SET], NULL, -1));
        must(ddict_async_open(h[i / SET], &q[i / SET]));
        must(ddict_async_submit(q[i / SET], op, m));
        if (ddict_async_poll(q[i / SET], op, 1, 10) != 0)
            exit(1); /* all are sent then */
    }
    return q;
}

static void put_byte(const char *key, char byte) {
    must(ddict_put(d, key, strlen(key), &byte, 1, 0, -1));
}

/* Who waits is woken by the first put after that, whatever comes then; a pop takes it from those
 * behind. */
static void woken(void) {
    static struct ddict_op out[64];
    ddict_t **h = calloc(n / SET + 1, sizeof *h);
    for (int round = 0; round < 4; round++) {
        ddict_async_t **q = wait_many(h, "awaited");
        put_byte("awaited", '1');
        put_byte("awaited", '2');
        must(ddict_del(d, "awaited", 7, -1));
        put_byte("awaited", '3');
        must(ddict_del(d, "awaited", 7, -1));
        for (unsigned long got = 0; got <= n;) {
            ssize_t m = ddict_async_poll(q[got / SET], out, 64, 20000);
            must(m == 0 ? -ETIMEDOUT : m);
            for (ssize_t i = 0; i < m; i++, got++) {
                must(out[i].status);
                char is = *(const char *)out[i].view.data,
                     want = (unsigned long)out[i].user <= n / 2 ? '1' : '2';
                if (is != want) {
                    fprintf(stderr, "the wait %lu got %c, not %c\n", (unsigned long)out[i].user, is,
                            want);
                    exit(1);
                }
                ddict_release(&out[i].view);
            }
        }
        for (unsigned long i = 0; i <= n; i += SET) {
            ddict_async_close(q[i / SET]);
            ddict_detach(h[i / SET]);
        }
        free(q);
    }
    /* Who dies in the midst of that leaves nothing pinned. */
    int ends[2];
    char c;
    if (pipe(ends) < 0)
        exit(1);
    for (int round = 0; round < 4; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            wait_many(h, "awaited");
            must(write(ends[1], "", 1));
            pause();
        }
        must(read(ends[0], &c, 1));
        usleep(100000);
        must(ddict_put(d, "awaited", 7, value, MIB, 0, -1));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        int rc = ddict_del(d, "awaited", 7, -1);
        if (rc != DDICT_ENOKEY)
            must(rc); /* it was popped */
    }
    for (int i = 0;; i++) {
        struct ddict_manager_stats *s;
        must(ddict_stats(d, &s, sizeof *s, -1));
        uint64_t left = s[0].retired_bytes;
        free(s);
        if (left < MIB)
            break;
        if (i == 1000) {
            fprintf(stderr, "%llu bytes are still retired\n", (unsigned long long)left);
            exit(1);
        }
        usleep(10000);
    }
    free(h);
}

/* n listen to one prefix. Each hears all, in order. */
static void heard(void) {
    ddict_sub_t **sub = malloc(n * sizeof *sub);
    struct ddict_event e;
    for (unsigned long i = 0; i < n; i++)
        must(ddict_subscribe(d, "p/", 2, DDICT_SUB_VALUES, &sub[i], -1));
    for (int round = 0; round < 4; round++) {
        for (unsigned long i = 0; i < n; i++)
            if (ddict_next_event(sub[i], &e, 0) != 0)
                exit(1); /* it has asked, and waits */
        usleep(100000);
        must(ddict_put(d, "p/a", 3, value, 4000, 0, -1));
        must(ddict_put(d, "p/b", 3, value, 4000, 0, -1));
        for (unsigned long i = 0; i < n; i++)
            for (const char *key = "ab"; *key; key++) {
                int rc = ddict_next_event(sub[i], &e, 20000);
                must(rc == 0 ? -ETIMEDOUT : rc);
                if (e.kind != DDICT_EVENT_PUT || e.klen != 3 || ((const char *)e.key)[2] != *key) {
                    fprintf(stderr, "listener %lu heard of something else than p/%c\n", i, *key);
                    exit(1);
                }
            }
    }
    for (unsigned long i = 0; i < n; i++)
        ddict_unsubscribe(sub[i]);
    free(sub);
}

static void remote(void) { /* values of n MiB, of all managers in turn */
    char *v = malloc(n * MIB), key[KEY];
    memset(v, 1, n * MIB);
    for (unsigned i = 0; i < 4; i++) {
        struct ddict_view w;
        size_t len = (size_t)snprintf(key, KEY, "remote/%u", i);
        must(ddict_put(d, key, len, v, n * MIB, 0, -1));
        must(ddict_get(d, key, len, v, n * MIB, NULL, NULL, 0, -1));
        must(ddict_view(d, key, len, &w, 0, -1));
        ddict_release(&w);
        must(ddict_del(d, key, len, -1));
    }
    free(v);
}

static void queue(void) {
    for (int round = 0; round < 2; round++) {
        for (unsigned long i = 0; i < n; i++)
            must(ddict_push(d, "queue", 5, value, 20, 0, 0, -1));
        if (round == 0)
            must(ddict_clear(d, -1));
        else
            must(ddict_del(d, "queue", 5, -1));
        put_some(0, 10000, 1, 10);
    }
}

static void moved(void) { /* one of n MiB, and others that need its room */
    char *v = malloc(n * MIB), key[KEY];
    memset(v, 1, n * MIB);
    must(ddict_put(d, "large", 5, v, n * MIB, 0, -1));
    for (unsigned i = 0; i < 16; i++)
        must(ddict_put(d, key, (size_t)snprintf(key, KEY, "m/%u", i), v, n * MIB / 12, 0, 120000));
    put_some(0, 20000, 1, 4000);
    must(ddict_get(d, "large", 5, v, n * MIB, NULL, NULL, 0, 120000));
    must(ddict_del(d, "large", 5, -1));
    must(ddict_clear(d, -1));
    put_some(0, 20000, 1, 4000);
    free(v);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*fn)(void);
    } kinds[] = {{"large", large},   {"killed", killed},       {"many", many},
                 {"views", views},   {"dies", dies},           {"full", full},
                 {"index", indexes}, {"scattered", scattered}, {"punched", punched},
                 {"hot", hot},       {"feeds", feeds},         {"crowd", crowd},
                 {"waits", waits},   {"woken", woken},         {"heard", heard},
                 {"remote", remote}, {"queue", queue},         {"moved", moved}};
    struct rlimit l;
    if (argc != 3)
        return 2;
    n = strtoul(argv[2], NULL, 10);
    value = calloc(2, MIB);
    getrlimit(RLIMIT_NOFILE, &l);
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(argv[1], kinds[i].name) != 0)
            continue;
        must(ddict_attach(&d, NULL, -1));
        kinds[i].fn();
        must(ddict_detach(d));
        return 0;
    }
    return 2;
}
