/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - `ddict bench`: options, processes, tables. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/defaults.h>
#include <base/size.h>
#include "bench.h"
#include "cmd.h"

#define LIST_MAX 16
#define SET_MIN (256ull << 20)
#define KEYS_MAX (1ull << 32) /* eight hex digits */
#define ITEM_EXTRA 110u       /* bytes of a pair beside key and value: header, index, rounding of small blocks */

static const char usage[] =
    "usage: ddict bench [--sizes LIST] [--clients LIST] [--ops LIST] [--set-size SIZE] [--seconds S] [--peer lmdb] [--json] [--name NAME]\n"
    "  Measures the dictionary that this process is attached to, by processes on this node. To try one machine:\n"
    "      ddict run --managers=1 --mem=2G -- ddict bench\n"
    "      --sizes LIST     bytes of a value (default 64,1K,64K,1M)\n"
    "      --clients LIST   processes at once (default 1)\n"
    "      --ops LIST       of put_many,put,get,view,get_many (default all)\n"
    "      --set-size SIZE  bytes of all pairs (default: four times the last cache, at least 256 MiB, where the managers have room)\n"
    "      --seconds S      for each line (default 1)\n"
    "      --peer lmdb      the same work on LMDB, in a file in memory\n"
    "  Keys are read in random order; all values are read to the last byte and checked. get copies the value, view and get_many read it in place; get_many asks for 64\n"
    "  at once; put waits for each acknowledgement. Latencies are of single calls (get_many, put_many: of one batch).\n"
    "  Only keys of its own are written, and they are removed afterwards.\n";

struct setup {
    uint64_t size[LIST_MAX], clients[LIST_MAX];
    unsigned sizes, client_counts;
    bool ops[OP_N];
    uint64_t set, free_bytes;
    double seconds;
    bool json, lmdb, alone;
    const char *name;
    ddict_t *d;
    unsigned lines;
};

/* --- options --- */

static int list_parse(const char *text, uint64_t *out, unsigned *n, int (*parse)(const char *, uint64_t *))
{
    char *copy = strdup(text), *save = NULL;
    int rc = copy == NULL ? -ENOMEM : 0;
    *n = 0;
    for (char *p = copy ? strtok_r(copy, ",", &save) : NULL; rc == 0 && p != NULL; p = strtok_r(NULL, ",", &save))
        rc = *n < LIST_MAX ? parse(p, &out[(*n)++]) : -EINVAL;
    free(copy);
    return rc < 0 ? rc : *n > 0 ? 0 : -EINVAL;
}

static int value_parse(const char *text, uint64_t *n)
{
    int rc = size_parse(text, n);
    *n = (*n + 7) / 8 * 8;
    return rc < 0 ? rc : *n >= 8 && *n <= 1ull << 40 ? 0 : -ERANGE;
}

static int clients_parse(const char *text, uint64_t *n) { return count_parse(text, 1, BENCH_CLIENTS_MAX, n); }

static int op_parse(const char *text, uint64_t *n)
{
    for (*n = 0; *n < OP_N; ++*n)
        if (strcmp(text, bench_op_name[*n]) == 0)
            return 0;
    return -EINVAL;
}

static int options_parse(struct setup *s, int argc, char **argv)
{
    static const struct option longs[] = {CMD_LONGS, {"sizes", required_argument, NULL, 's'}, {"clients", required_argument, NULL, 'c'},
                                          {"ops", required_argument, NULL, 'o'}, {"set-size", required_argument, NULL, 'S'},
                                          {"seconds", required_argument, NULL, 't'}, {"peer", required_argument, NULL, 'p'},
                                          {"json", no_argument, NULL, 'j'}, {0}};
    list_parse("64,1K,64K,1M", s->size, &s->sizes, value_parse);
    list_parse("1", s->clients, &s->client_counts, clients_parse);
    memset(s->ops, 1, sizeof s->ops);
    s->seconds = 1;
    for (int c, rc; (c = cmd_option(argc, argv, "h", longs, usage)) != -1;) {
        uint64_t op[LIST_MAX];
        unsigned n;
        rc = 0;
        switch (c) {
        case 's': rc = list_parse(optarg, s->size, &s->sizes, value_parse); break;
        case 'c': rc = list_parse(optarg, s->clients, &s->client_counts, clients_parse); break;
        case 'S': rc = size_parse(optarg, &s->set) == 0 && s->set > 0 ? 0 : -EINVAL; break;
        case 't': rc = cmd_seconds(optarg); s->seconds = rc / 1000.0; rc = rc > 0 ? 0 : -EINVAL; break;
        case 'j': s->json = true; break;
        case 'p':
            rc = strcmp(optarg, "lmdb") == 0 ? 0 : -EINVAL;
            s->lmdb = true;
#ifndef HAVE_LMDB
            return cmd_usage(usage, "--peer=lmdb: this ddict was built without LMDB");
#endif
            break;
        case 'o':
            rc = list_parse(optarg, op, &n, op_parse);
            memset(s->ops, 0, sizeof s->ops);
            for (unsigned i = 0; rc == 0 && i < n; i++)
                s->ops[op[i]] = true;
            break;
        default: return EXIT_USAGE;
        }
        if (rc < 0)
            return cmd_usage(usage, "\"%s\" is not understood", optarg);
    }
    return optind < argc ? cmd_usage(usage, "bench takes no \"%s\"", argv[optind]) : EXIT_OK;
}

/* --- tables --- */

static const char *time_short(char *buf, size_t cap, uint64_t ns)
{
    if (ns < 1000)
        snprintf(buf, cap, "%llu ns", (unsigned long long)ns);
    else if (ns < 1000000)
        snprintf(buf, cap, "%.*f us", ns < 10000 ? 2 : 1, (double)ns / 1e3);
    else
        snprintf(buf, cap, "%.*f ms", ns < 10000000 ? 2 : 1, (double)ns / 1e6);
    return buf;
}

static void result_print(struct setup *s, const struct bench_run *r, enum bench_op op)
{
    static struct histogram all;
    double rate = 0;
    memset(&all, 0, sizeof all);
    for (unsigned i = 0; i < r->clients; i++) {
        const struct bench_result *e = &r->result[op][i];
        rate += e->seconds > 0 ? (double)e->ops / e->seconds : 0;
        all.count += e->latency.count;
        if (e->latency.max_ns > all.max_ns)
            all.max_ns = e->latency.max_ns;
        for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
            all.bucket[b] += e->latency.bucket[b];
    }
    struct ddict_latency l;
    histogram_summary(&all, &l);
    if (s->json) {
        printf("%s{\"store\":\"%s\",\"op\":\"%s\",\"value_bytes\":%zu,\"clients\":%u,\"keys\":%llu,\"ops_per_s\":%.0f,\"gb_per_s\":%.4f,\"p50_ns\":%llu,"
               "\"p99_ns\":%llu,\"max_ns\":%llu,\"timed\":%llu}", s->lines++ ? ",\n" : "[", r->store->name, bench_op_name[op], r->value, r->clients,
               (unsigned long long)r->keys, rate, rate * (double)r->value / 1e9, (unsigned long long)l.p50_ns, (unsigned long long)l.p99_ns,
               (unsigned long long)l.max_ns, (unsigned long long)l.count);
        return;
    }
    char b[4][24];
    if (s->lines++ == 0)
        printf("%10s %7s  %-6s %-9s %12s %8s %10s %10s %10s\n", "value", "clients", "store", "op", "keys/s", "GB/s", "p50", "p99", "max");
    printf("%10s %7u  %-6s %-9s %12.0f %8.3f %10s %10s %10s\n", size_format(b[0], sizeof b[0], r->value), r->clients, r->store->name, bench_op_name[op], rate,
           rate * (double)r->value / 1e9, time_short(b[1], sizeof b[1], l.p50_ns), time_short(b[2], sizeof b[2], l.p99_ns), time_short(b[3], sizeof b[3], l.max_ns));
}

/* --- runs --- */

static int run(struct setup *s, struct bench_run *r)
{
    pid_t pid[BENCH_CLIENTS_MAX];
    unsigned n = 0;
    r->arrived = r->failed = 0;
    memset(r->result, 0, sizeof r->result);
    fflush(stdout);
    for (; n < r->clients; n++) {
        pid[n] = fork();
        if (pid[n] == 0)
            _exit(bench_work(r, n));
        if (pid[n] < 0) {
            __atomic_store_n(&r->failed, 1, __ATOMIC_RELEASE);
            snprintf(r->text, sizeof r->text, "fork: %s", strerror(errno));
            break;
        }
    }
    int bad = 0;
    for (unsigned i = 0; i < n; i++) {
        int status;
        while (waitpid(pid[i], &status, 0) < 0 && errno == EINTR) {
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        bad = 1;
        uint32_t none = 0;
        if (__atomic_compare_exchange_n(&r->failed, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            snprintf(r->text, sizeof r->text, "a process of the benchmark died (status 0x%x)", (unsigned)status);
    }
    if (bad || n < r->clients) {
        fprintf(stderr, "ddict: bench: %s: %s\n", r->store->name, r->text);
        return EXIT_FAILED;
    }
    for (enum bench_op op = 0; op < OP_N; op++)
        if (r->ops[op])
            result_print(s, r, op);
    fflush(stdout);
    return EXIT_OK;
}

#ifdef HAVE_LMDB
static int run_lmdb(struct setup *s, struct bench_run *r)
{
    char dir[] = "/dev/shm/ddict-bench-XXXXXX", file[64];
    if (mkdtemp(dir) == NULL) {
        fprintf(stderr, "ddict: bench: %s: %s\n", dir, strerror(errno));
        return EXIT_FAILED;
    }
    r->store = &bench_lmdb;
    r->where = dir;
    int rc = run(s, r);
    snprintf(file, sizeof file, "%s/data.mdb", dir);
    unlink(file);
    snprintf(file, sizeof file, "%s/lock.mdb", dir);
    unlink(file);
    rmdir(dir);
    return rc;
}
#endif

static int run_size(struct setup *s, struct bench_run *r, uint64_t value, unsigned clients)
{
    uint64_t set = s->set, each = value + value / 8 + BENCH_KEY_MAX + ITEM_EXTRA, room = s->free_bytes * 6 / 10 / each;
    if (set == 0) {
        long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
        set = cache > 0 ? 4 * (uint64_t)cache : 0;
        if (set < SET_MIN)
            set = SET_MIN;
    }
    r->keys = set / (value + ITEM_EXTRA);
    if (r->keys > room) {
        if (s->set != 0) {
            char a[24], b[24];
            fprintf(stderr, "ddict: bench: --set-size=%s does not fit with values of %s: there is room for %llu of them\n", size_format(a, sizeof a, s->set),
                    size_format(b, sizeof b, value), (unsigned long long)room);
            return EXIT_FAILED;
        }
        r->keys = room;
    }
    if (r->keys >= KEYS_MAX)
        r->keys = KEYS_MAX - 1;
    if (r->keys < clients) {
        char b[24];
        fprintf(stderr, "ddict: bench: no room for %u values of %s\n", clients, size_format(b, sizeof b, value));
        return EXIT_FAILED;
    }
    r->value = value;
    r->clients = clients;
    r->bytes = r->keys * each;
    r->seconds = s->seconds;
    memcpy(r->ops, s->ops, sizeof r->ops);
    r->store = &bench_ddict;
    r->where = s->name;
    r->keep = s->alone;
    int rc = run(s, r), e = s->alone ? ddict_clear(s->d, -1) : 0;
    if (rc == EXIT_OK && e < 0)
        rc = cmd_failed("bench", e);
#ifdef HAVE_LMDB
    if (rc == EXIT_OK && s->lmdb)
        rc = run_lmdb(s, r);
#endif
    return rc;
}

static void interrupted(int sig) { (void)sig; } /* the processes get it too; waitpid() sees them end */

int cmd_bench(int argc, char **argv)
{
    struct setup s = {0};
    int rc = options_parse(&s, argc, argv);
    if (rc != EXIT_OK)
        return rc;
    s.name = cmd_name();
    ddict_t *d = cmd_attach();
    if (d == NULL)
        return EXIT_FAILED;
    struct ddict_manager_stats *st;
    int n = ddict_stats(d, &st, -1);
    if (n < 0) {
        ddict_detach(d);
        return cmd_failed(NULL, n);
    }
    uint64_t least = UINT64_MAX; /* keys are dealt out evenly: the fullest manager counts */
    for (int i = 0; i < n; i++)
        if (st[i].pool_free_space < least)
            least = st[i].pool_free_space;
    s.free_bytes = least * (uint64_t)n;
    free(st);
    s.d = d;
    s.alone = ddict_len(d, -1) == 0; /* then it is emptied at once instead of key by key */
    struct bench_run *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED) {
        fprintf(stderr, "ddict: bench: %s\n", strerror(errno));
        ddict_detach(d);
        return EXIT_FAILED;
    }
    snprintf(r->prefix, sizeof r->prefix, "bench%x.", (unsigned)getpid());
    signal(SIGINT, interrupted);
    for (unsigned i = 0; i < s.sizes && rc == EXIT_OK; i++)
        for (unsigned k = 0; k < s.client_counts && rc == EXIT_OK; k++)
            rc = run_size(&s, r, s.size[i], (unsigned)s.clients[k]);
    if (s.json && s.lines > 0)
        puts("]");
    munmap(r, sizeof *r);
    ddict_detach(d);
    return cmd_flush(rc);
}
