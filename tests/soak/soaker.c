/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soaker.c - a process of the soak (soak.py): all calls of ddict.h on keys of its own name, for as
 * long as it is left; tests/history/worker.c beside it has the contended keys. What an answer must
 * be the other tests say; here it is looked at for torn bytes and for errors that no call may give.
 *
 *     soaker SEED [leak]       with DDICT_NAME and DDICT_NODE, until SIGTERM. After SIGUSR1 it says
 *                              "quiet" when no call of it is under way, and makes none until
 *                              SIGUSR2. leak: now and then a handle is forgotten, on purpose
 *     soaker ledger PID        how many entries the ledgers of that ddictd have, and ever had in the
 *                              chunks that have memory
 *
 * Exits with 0; with 2 when it could not attach; with 3 when the dictionary is lost or has ended.
 */
#include <ddict.h>
#include <manager/ledger.h>

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEYS      16u
#define VALUE_MAX (192u << 10)
#define MANY      8u
#define HELD      12u /* views */
#define LONG_MS   20000
#define LOST_MAX  50 /* calls in sequence that give DDICT_ELOST: the dictionary is */

static ddict_t *d;
static ddict_async_t *set;
static ddict_sub_t *sub;
static struct ddict_view held[HELD];
static unsigned char in[VALUE_MAX], out[MANY][VALUE_MAX];
static unsigned lost;
static uint64_t rng;
static volatile sig_atomic_t stop, quiet;

static void stop_note(int sig) {
    stop = 1;
}

static void quiet_note(int sig) {
    quiet = sig == SIGUSR1;
}

static uint64_t below(uint64_t n) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (rng >> 11) % n;
}

static void wrong(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void wrong(const char *format, ...) {
    va_list ap;
    fprintf(stderr, "soaker %d: ", (int)getpid());
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, "\n");
    exit(1);
}

/* A code that the call may give while managers are killed, memory is short and all is frozen now
 * and then. True: it is done. */
static bool done(const char *what, int64_t code) {
    lost = code == DDICT_ELOST ? lost + 1 : code == DDICT_EGONE ? LOST_MAX : 0;
    switch (code) {
    case DDICT_ENOKEY:
    case DDICT_EEXISTS:
    case DDICT_EFULL:
    case DDICT_EFROZEN:
    case DDICT_EVIEWS:
    case DDICT_ELOST:
    case DDICT_EGONE:
    case -EAGAIN:
        return false;
    default:
        if (code < 0)
            wrong("%s: %lld %s", what, (long long)code, ddict_errmsg());
        return true;
    }
}

/* --- keys and values: all bytes of a value are one --- */
static size_t name_of(char *name, unsigned key) {
    return (size_t)sprintf(name, "soak/%u", key);
}

static size_t some_name(char *name) {
    return name_of(name, (unsigned)below(KEYS));
}

/* Most go in messages, some in pieces. */
static size_t some_len(void) {
    return 1 + below(below(4) > 0 ? 2000 : VALUE_MAX);
}

static size_t value_fill(unsigned char *to) {
    size_t len = some_len();
    memset(to, (int)below(256), len);
    return len;
}

static void value_check(const char *what, const unsigned char *v, size_t len) {
    if (len == 0 || len > VALUE_MAX || memcmp(v, v + 1, len - 1) != 0)
        wrong("%s: the bytes of a value are torn", what);
}

static void view_keep(const char *what, struct ddict_view *v) {
    struct ddict_view *h = &held[below(HELD)];
    value_check(what, v->data, v->len);
    if (h->data) {
        value_check("a view that was held", h->data, h->len);
        ddict_release(h);
    }
    *h = *v;
}

static void views_release(void) {
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].data)
            ddict_release(&held[i]);
    memset(held, 0, sizeof held);
}

/* --- one key --- */
static void put_one(void) {
    static const unsigned flags[] = {0, 0, DDICT_NEW, DDICT_EXISTING};
    char name[32];
    size_t n = some_name(name), len = value_fill(in), cut = below(len + 1);
    struct iovec v[2] = {{in, cut}, {in + cut, len - cut}};
    unsigned f = flags[below(4)];
    done("put", below(2) ? ddict_put(d, name, n, in, len, f, LONG_MS)
                         : ddict_putv(d, name, n, v, 2, f, LONG_MS));
}

static void place_one(void) {
    char name[32];
    size_t n = some_name(name), len = some_len();
    struct ddict_place p;
    if (!done("reserve", ddict_reserve(d, name, n, len, 0, &p)))
        return;
    memset(p.data, (int)below(256), len);
    switch (below(3)) {
    case 0:
        done("commit_keep", ddict_commit_keep(&p, LONG_MS));
        ddict_abort(&p);
        break;
    case 1:
        ddict_abort(&p);
        break;
    default:
        done("commit", ddict_commit(&p, LONG_MS));
    }
}

static void get_one(void) {
    char name[32];
    size_t n = some_name(name), len;
    if (done("get", ddict_get(d, name, n, in, sizeof in, &len, NULL, 0, LONG_MS)))
        value_check("get", in, len);
}

static void view_one(void) {
    char name[32];
    size_t n = some_name(name);
    struct ddict_view v;
    if (done("view", ddict_view(d, name, n, &v, 0, LONG_MS)))
        view_keep("view", &v);
}

static void del_one(void) {
    char name[32];
    size_t n = some_name(name);
    done("del", ddict_del(d, name, n, LONG_MS));
}

static void pop_one(void) {
    char name[32];
    size_t n = some_name(name);
    struct ddict_view v;
    if (done("pop", ddict_pop(d, name, n, &v, 0, LONG_MS)))
        view_keep("pop", &v);
}

static void contains_one(void) {
    char name[32];
    size_t n = some_name(name);
    done("contains", ddict_contains(d, name, n, NULL, LONG_MS));
}

/* --- queues --- */
static void queue_use(void) {
    static const unsigned flags = DDICT_WAIT | DDICT_SURE;
    char name[32];
    size_t n = (size_t)sprintf(name, "soak queue %u", (unsigned)below(3)), len = value_fill(in);
    struct ddict_view v;
    uint64_t own;
    int ms = 1 + (int)below(20);
    switch (below(6)) {
    case 0:
        done("queue_open", ddict_queue_open(d, name, n, 8, &own, LONG_MS));
        break;
    case 1:
        done("queued", ddict_queued(d, name, n, LONG_MS));
        break;
    case 2:
    case 3:
        done("push", ddict_push(d, name, n, in, len, flags, 8, ms));
        break;
    default:
        if (done("pop of a queue", ddict_pop(d, name, n, &v, flags, ms)))
            view_keep("pop of a queue", &v);
    }
}

/* --- many keys --- */
static void put_many(void) {
    struct ddict_pair p[MANY];
    char name[MANY][32];
    for (unsigned i = 0; i < MANY; i++) {
        p[i] = (struct ddict_pair){.key = name[i], .klen = some_name(name[i]), .val = out[i]};
        p[i].vlen = value_fill(out[i]);
        p[i].status = -EAGAIN;
    }
    if (done("put_many", ddict_put_many(d, p, MANY, LONG_MS)))
        for (unsigned i = 0; i < MANY; i++)
            if (p[i].status != -ECANCELED)
                done("put of many", p[i].status);
}

static void get_many(void) {
    struct ddict_want w[MANY];
    char name[MANY][32];
    for (unsigned i = 0; i < MANY; i++)
        w[i] = (struct ddict_want){.key = name[i], .klen = some_name(name[i])};
    if (!done("get_many", ddict_get_many(d, w, MANY, 0, LONG_MS)))
        return;
    for (unsigned i = 0; i < MANY; i++)
        if (done("get of many", w[i].status))
            view_keep("get of many", &w[i].view);
}

/* --- asynchronous --- */
static void op_over(struct ddict_op *op) {
    bool good = op->status != -ECANCELED && done("an operation", op->status);
    if (good && (op->what == DDICT_OP_VIEW || op->what == DDICT_OP_POP))
        view_keep("an operation", &op->view);
    else if (good && op->what == DDICT_OP_GET)
        value_check("get of an operation", op->buf, op->vlen);
    free(op->text);
}

static void async_some(void) {
    struct ddict_op op[MANY], over[MANY];
    char name[MANY][32];
    size_t n = 1 + below(MANY), under_way = 0;
    for (size_t i = 0; i < n; i++) {
        op[i] = (struct ddict_op){.what = DDICT_OP_VIEW + (unsigned)below(5), .key = name[i]};
        op[i].klen = some_name(name[i]);
        op[i].timeout_ms = LONG_MS;
        op[i].buf = out[i];
        op[i].len = op[i].what == DDICT_OP_PUT ? value_fill(out[i]) : VALUE_MAX;
    }
    if (!done("submit", ddict_async_submit(set, op, n)))
        return;
    for (size_t i = 0; i < n; i++) {
        if (op[i].ticket == 0)
            op_over(&op[i]);
        else if (below(8) == 0)
            ddict_async_cancel(set, op[i].ticket);
        under_way += op[i].ticket != 0;
    }
    while (under_way > 0) {
        ssize_t got = ddict_async_poll(set, over, MANY, LONG_MS);
        if (got <= 0)
            wrong("poll: %zd, and %zu are under way", got, under_way);
        for (ssize_t i = 0; i < got; i++)
            op_over(&over[i]);
        under_way -= (size_t)got;
    }
}

/* --- all keys --- */
static void list_keys(void) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    int rc = below(2) ? ddict_iter_open(d, (int)below(4) - 1, &it, LONG_MS)
                      : ddict_iter_open_prefix(d, -1, "soak", 4, &it, LONG_MS);
    if (!done("iter_open", rc))
        return;
    while ((rc = ddict_iter_next(it, &key, &klen)) == 1 && below(200) > 0)
        ;
    done("iter_next", rc);
    ddict_iter_close(it);
}

static void events_read(void) {
    struct ddict_event e;
    char prefix[32];
    int n = sprintf(prefix, "soak/%s", below(2) ? "" : "1");
    if (sub && below(4) == 0) {
        ddict_unsubscribe(sub);
        sub = NULL;
    }
    if (!sub && !done("subscribe",
                      ddict_subscribe(d, prefix, (size_t)n, (unsigned)below(8), &sub, LONG_MS)))
        sub = NULL;
    for (int i = 0; sub && i < 100; i++) {
        int rc = ddict_next_event(sub, &e, 0);
        if (!done("next_event", rc) || rc == 0)
            break;
    }
}

static void figures_ask(void) {
    struct ddict_manager_stats *s;
    struct ddict_info info;
    done("len", ddict_len(d, LONG_MS));
    done("get_info", ddict_get_info(d, &info));
    done("ending", ddict_ending(d));
    if (!done("stats", ddict_stats(d, &s, sizeof *s, LONG_MS)))
        return;
    char *text = ddict_stats_json(s, sizeof *s);
    if (!text)
        wrong("stats_json: no memory");
    free(text);
    free(s);
}

static void frozen_read(void) {
    struct iovec want[MANY];
    char name[MANY][32];
    for (unsigned i = 0; i < MANY; i++)
        want[i] = (struct iovec){name[i], some_name(name[i])};
    if (done("is_frozen", ddict_is_frozen(d)))
        done("prefetch", ddict_prefetch(d, want, MANY, LONG_MS));
    get_many();
}

/* --- processes --- */
static void child_run(void) {
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    quiet = 0;
    if (below(2))
        views_release();
    view_one();
    put_one();
    if (sub && below(2)) {
        struct ddict_event e;
        done("next_event in a child", ddict_next_event(sub, &e, 0));
    }
    views_release();
    if (below(2))
        ddict_detach(d);
    fflush(stdout);
    _exit(0);
}

static void fork_one(void) {
    pid_t parent = getpid(), child;
    int status;
    view_one();
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        child_run();
    }
    if (child < 0)
        wrong("fork: %s", strerror(errno));
    get_one();
    put_one();
    while (waitpid(child, &status, 0) < 0)
        ;
    if (status != 0)
        wrong("a child ended with status %x", (unsigned)status);
}

static void other_handle(void) {
    ddict_t *mine = d;
    int rc = ddict_attach(&d, NULL, LONG_MS);
    if (rc == DDICT_EGONE || rc == DDICT_ENODICT || rc == DDICT_ELOST) {
        d = mine;
        lost = LOST_MAX;
        return;
    }
    if (rc < 0)
        wrong("attach: %d %s", rc, ddict_errmsg());
    for (int i = 0; i < 4; i++) {
        view_one();
        put_one();
    }
    ddict_detach(d); /* views go on */
    d = mine;
}

static void handle_forget(void) {
    ddict_t *forgotten;
    if (ddict_attach(&forgotten, NULL, LONG_MS) == 0)
        ddict_contains(forgotten, "soak/0", 6, NULL, LONG_MS);
}

static const struct {
    void (*run)(void);
    unsigned weight;
} calls[] = {{put_one, 24},    {place_one, 8},   {get_one, 14},     {view_one, 14},
             {del_one, 4},     {pop_one, 4},     {contains_one, 4}, {queue_use, 12},
             {put_many, 3},    {get_many, 4},    {async_some, 4},   {list_keys, 1},
             {events_read, 4}, {figures_ask, 1}, {frozen_read, 2},  {fork_one, 1},
             {other_handle, 1}};

static void step(void) {
    unsigned sum = 0, i = 0;
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
        sum += calls[k].weight;
    unsigned r = (unsigned)below(sum);
    while (r >= calls[i].weight)
        r -= calls[i++].weight;
    calls[i].run();
}

static void quiet_be(void) {
    sigset_t both, before;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, &before);
    if (quiet) {
        printf("quiet\n");
        fflush(stdout);
    }
    while (quiet && !stop)
        sigsuspend(&before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* --- the ledgers of a ddictd --- */
static bool memory_read(pid_t pid, uint64_t from, void *to, size_t n) {
    struct iovec in_it = {(void *)(uintptr_t)from, n}, here = {to, n};
    return process_vm_readv(pid, &here, 1, &in_it, 1, 0) == (ssize_t)n;
}

/* Of chunks that have memory alone: to read another one would take it. */
static bool ledger_add_up(pid_t pid, uint64_t at, uint64_t *entries, uint64_t *top) {
    static struct ledger_chunk chunk[LEDGER_CHUNKS];
    static struct ledger_entry entry[LEDGER_CHUNK];
    if (!memory_read(pid, at + offsetof(struct ledger, chunk), chunk, sizeof chunk))
        return false;
    for (uint64_t k = 0; k < LEDGER_CHUNKS; k++) {
        unsigned n = chunk[k].top < LEDGER_CHUNK ? chunk[k].top : LEDGER_CHUNK;
        if (n > 0 &&
            !memory_read(pid, at + LEDGER_HEAD + k * sizeof entry, entry, n * sizeof *entry))
            return false;
        for (unsigned i = 0; i < n; i++)
            *entries += entry[i].seq != 0;
        *top += n;
    }
    return true;
}

static int ledgers_count(pid_t pid) {
    char path[64], line[512];
    uint64_t entries = 0, top = 0;
    unsigned found = 0;
    bool good = true;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 1;
    while (good && fgets(line, sizeof line, f)) {
        unsigned long begin;
        if (!strstr(line, "memfd:ddict-ledger") || sscanf(line, "%lx-", &begin) != 1)
            continue;
        good = ledger_add_up(pid, begin, &entries, &top);
        found++;
    }
    fclose(f);
    if (!good || found == 0) /* it is not allowed */
        return 1;
    printf("%llu %llu\n", (unsigned long long)entries, (unsigned long long)top);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "ledger") == 0)
        return ledgers_count((pid_t)atoi(argv[2]));
    if (argc < 2)
        return 1;
    signal(SIGTERM, stop_note);
    signal(SIGUSR1, quiet_note);
    signal(SIGUSR2, quiet_note);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool leak = argc > 2 && strcmp(argv[2], "leak") == 0;
    rng = strtoull(argv[1], NULL, 10) * 0x9E3779B97F4A7C15ull + 88172645463325252ull;
    if (ddict_attach(&d, NULL, LONG_MS) < 0 || ddict_async_open(d, &set) < 0)
        return 2;
    printf("attached\n");
    fflush(stdout);
    while (!stop && lost < LOST_MAX) {
        quiet_be();
        step();
        if (leak && below(64) == 0)
            handle_forget();
        usleep(lost > 0 ? 5000 : (useconds_t)below(4000));
    }
    views_release();
    ddict_unsubscribe(sub);
    ddict_async_close(set);
    ddict_detach(d);
    return lost < LOST_MAX ? 0 : 3;
}
