/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - `ddict bench`: options, and the runs one after another. */
#include "bench.h"

#include <base/size.h>
#include <base/verb.h>

#include <cmd/cmd.h>
#include <cmd/verbs.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIST_MAX 32u
#define SET_MIN  (256ull << 20)
/* reads over the network gain nothing from a cache, so a smaller set will do */
#define SET_REMOTE (64ull << 20)
/* limit unless the user gives a set size: keys are removed one by one */
#define KEYS_MAX   (1ull << 20)
#define KEYS_LEAST 4u /* for each client, of large values */
/* bytes of a pair beside key and value: header, index, rounding of small blocks */
#define ITEM_EXTRA 110u

static const char usage[] =
    "usage: ddict bench [OPTION...] | --net [OPTION...]\n"
    "Measure the dictionary by processes on this node. To try one machine:\n"
    "    ddict run --managers=1 --mem=2G -- ddict bench\n"
    "      --sizes=LIST     bytes of a value (default: 64,1K,64K,1M); A..B: from A\n"
    "                       to B, each four times the one before\n"
    "      --clients=LIST   processes at once (default: 1)\n"
    "      --ops=LIST       of put,put_many,add,get,view,get_many,mixed\n"
    "                       (default: all)\n"
    "      --place=LIST     local: keys of this node; remote: keys of other nodes\n"
    "                       (default: both)\n"
    "      --set-size=SIZE  bytes of all pairs (default: four times the last cache,\n"
    "                       256 MiB or more, 2^20 keys at most; remote: 64 MiB)\n"
    "      --seconds=S      of one repetition of one operation (default: 0.3)\n"
    "      --reps=N         repetitions, 1 to 32 (default: 5)\n"
    "      --untouched      do not look at the values that are read\n"
    "      --frozen         freeze the dictionary while it is read\n"
    "      --net            latency and bandwidth to another node, beside those of\n"
    "                       one TCP connection; with --seconds, --reps, --json only\n"
    "      --plot=FILE      draw rates and latencies over the size, as SVG\n"
    "      --json           one object\n" CMD_COMMON_USAGE
    "Only keys of its own are written, and they are removed, after ^C too. Rates are\n"
    "medians, +- half the range; p50, p99 and max are of single calls. ddict-bench(1)\n"
    "describes operations and columns.\n";

struct setup {
    uint64_t size[LIST_MAX], clients[LIST_MAX];
    unsigned sizes, client_counts;
    bool ops[OP_N], place[PLACE_N];
    bool ops_said, places_said, set_said, range, net, json;
    uint64_t set;
    const char *plot;
    struct bench_setting setting;
    struct ddict_info info;
    unsigned *owner[PLACE_N], owners[PLACE_N]; /* managers of each place, and their number */
    uint64_t free_bytes[PLACE_N];
    uint32_t *pid; /* pids of the managers of this node */
    unsigned pids;
    struct bench_result *result;
    size_t results;
};

/* --- options --- */

static int size_add(struct setup *s, uint64_t n) {
    n = (n + 7) / 8 * 8;
    if (n < 8 || n > 1ull << 40 || s->sizes == LIST_MAX)
        return -ERANGE;
    s->size[s->sizes++] = n;
    return 0;
}

static int size_take(struct setup *s, char *text) {
    uint64_t from, to;
    char *dots = strstr(text, "..");
    if (!dots)
        return size_parse(text, &from) < 0 ? -EINVAL : size_add(s, from);
    *dots = 0;
    if (size_parse(text, &from) < 0 || size_parse(dots + 2, &to) < 0 || from < 1 || from >= to)
        return -EINVAL;
    s->range = true;
    int rc = 0;
    for (; rc == 0 && from < to; from *= 4)
        rc = size_add(s, from);
    return rc < 0 ? rc : size_add(s, to);
}

static int clients_take(struct setup *s, char *text) {
    return s->client_counts == LIST_MAX
               ? -ERANGE
               : count_parse(text, 1, BENCH_CLIENTS_MAX, &s->clients[s->client_counts++]);
}

static int word_take(bool *set, const char *const *names, unsigned n, const char *text) {
    for (unsigned i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0) {
            set[i] = true;
            return 0;
        }
    return -EINVAL;
}

static int op_take(struct setup *s, char *text) {
    return word_take(s->ops, bench_op_name, OP_N, text);
}
static int place_take(struct setup *s, char *text) {
    return word_take(s->place, bench_place_name, PLACE_N, text);
}

static int list_take(struct setup *s, const char *text, int (*take)(struct setup *, char *)) {
    char *copy = strdup(text), *save = NULL;
    int rc = !copy ? -ENOMEM : *text == 0 ? -EINVAL : 0;
    for (char *p = copy ? strtok_r(copy, ",", &save) : NULL; rc == 0 && p;
         p = strtok_r(NULL, ",", &save))
        rc = take(s, p);
    free(copy);
    return rc;
}

static int size_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static const struct option longs[] = {CMD_LONGS,
                                      {"sizes", required_argument, NULL, 's'},
                                      {"clients", required_argument, NULL, 'c'},
                                      {"ops", required_argument, NULL, 'o'},
                                      {"place", required_argument, NULL, 'p'},
                                      {"set-size", required_argument, NULL, 'S'},
                                      {"seconds", required_argument, NULL, 't'},
                                      {"reps", required_argument, NULL, 'r'},
                                      {"untouched", no_argument, NULL, 'u'},
                                      {"frozen", no_argument, NULL, 'f'},
                                      {"plot", required_argument, NULL, 'P'},
                                      {"json", no_argument, NULL, 'j'},
                                      {"net", no_argument, NULL, 'n'},
                                      {0}};
#define NOT_FOR_NET "scopSufP" /* letters of the options that --net does not take */

static void defaults_set(struct setup *s) {
    list_take(s, "64,1K,64K,1M", size_take);
    list_take(s, "1", clients_take);
    memset(s->ops, 1, sizeof s->ops);
    s->setting.seconds = 0.3;
    s->setting.reps = 5;
    s->setting.touch = true;
}

static int seconds_take(struct setup *s, const char *text) {
    int ms = cmd_seconds(text);
    s->setting.seconds = ms / 1000.0;
    return ms > 0 ? 0 : -EINVAL;
}

static int reps_take(struct setup *s, const char *text) {
    uint64_t n;
    int rc = count_parse(text, 1, BENCH_REPS_MAX, &n);
    if (rc == 0)
        s->setting.reps = (unsigned)n;
    return rc;
}

/* Take the option of letter c. 0, or negative: its argument is invalid. */
static int option_take(struct setup *s, int c, const char *text) {
    switch (c) {
    case 's':
        s->sizes = 0;
        s->range = false;
        return list_take(s, text, size_take);
    case 'c':
        s->client_counts = 0;
        return list_take(s, text, clients_take);
    case 'o':
        s->ops_said = true;
        memset(s->ops, 0, sizeof s->ops);
        return list_take(s, text, op_take);
    case 'p':
        s->places_said = true;
        memset(s->place, 0, sizeof s->place);
        return list_take(s, text, place_take);
    case 'S':
        s->set_said = true;
        return size_parse(text, &s->set) == 0 && s->set > 0 ? 0 : -EINVAL;
    case 't':
        return seconds_take(s, text);
    case 'r':
        return reps_take(s, text);
    case 'u':
        s->setting.touch = false;
        return 0;
    case 'f':
        s->setting.freeze = true;
        return 0;
    case 'P':
        s->plot = text;
        return 0;
    case 'j':
        s->json = true;
        return 0;
    default: /* 'n' */
        s->net = true;
        return 0;
    }
}

static int options_parse(struct setup *s, int argc, char **argv) {
    bool not_for_net = false;
    defaults_set(s);
    for (int c; (c = cmd_option(argc, argv, "h", longs, usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        not_for_net |= strchr(NOT_FOR_NET, c) != NULL;
        if (option_take(s, c, optarg) < 0)
            return cmd_usage(usage, "\"%s\" is not understood", optarg);
    }
    if (s->net && not_for_net)
        return cmd_usage(usage, "--net goes with --seconds, --reps and --json only");
    if (s->setting.freeze) {
        if (s->ops_said &&
            (s->ops[OP_PUT] || s->ops[OP_PUT_MANY] || s->ops[OP_ADD] || s->ops[OP_MIXED]))
            return cmd_usage(usage, "--frozen goes with get, view and get_many only");
        s->ops[OP_PUT] = s->ops[OP_PUT_MANY] = s->ops[OP_ADD] = s->ops[OP_MIXED] = false;
    }
    qsort(s->size, s->sizes, sizeof *s->size, size_compare);
    return optind < argc ? cmd_usage(usage, "takes no \"%s\"", argv[optind]) : EXIT_OK;
}

/* --- this node --- */

/* Size of the last cache of cpu0; all cpus are assumed to have the same. The C library reports that
 * of a whole package on some processors. */
static uint64_t cache_look(void) {
    uint64_t most = 0;
    for (unsigned i = 0; i < 8; i++) {
        char path[80], text[32];
        uint64_t n;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/size", i);
        FILE *f = fopen(path, "re");
        if (!f)
            continue;
        if (fscanf(f, "%31s", text) == 1 && size_parse(text, &n) == 0 && n > most)
            most = n;
        fclose(f);
    }
    return most;
}

static void cpus_look(struct bench_setting *s) {
    cpu_set_t set;
    size_t n = 0;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    s->cpus_online = online > 0 ? (unsigned)online : 1;
    s->cache = cache_look();
    strcpy(s->cpus, "?");
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return;
    s->cpus_allowed = (unsigned)CPU_COUNT(&set);
    for (int i = 0; i < CPU_SETSIZE && n + 16 < sizeof s->cpus; i++) {
        int from = i;
        if (!CPU_ISSET(i, &set))
            continue;
        while (i + 1 < CPU_SETSIZE && CPU_ISSET(i + 1, &set))
            i++;
        n += (size_t)snprintf(s->cpus + n, sizeof s->cpus - n, from == i ? "%s%d" : "%s%d-%d",
                              n ? "," : "", from, i);
    }
}

/* Find the managers of this node and of others, and their free memory. Keys are distributed evenly,
 * so the fullest manager counts. */
static int managers_look(struct setup *s, ddict_t *d) {
    struct ddict_manager_stats *st;
    uint64_t least[PLACE_N] = {UINT64_MAX, UINT64_MAX};
    unsigned keyed = ddict_keyed_nodes(d);
    int n = ddict_stats(d, &st, sizeof *st, -1);
    if (n < 0)
        return cmd_failed(NULL, n);
    s->pid = calloc((size_t)n, sizeof *s->pid);
    for (unsigned p = 0; p < PLACE_N; p++)
        s->owner[p] = calloc((size_t)n, sizeof *s->owner[p]);
    bool memory = s->pid && s->owner[PLACE_LOCAL] && s->owner[PLACE_REMOTE];
    for (int i = 0; i < n && memory; i++) {
        enum bench_place p =
            st[i].manager_id % s->info.nodes == s->info.node_id ? PLACE_LOCAL : PLACE_REMOTE;
        if (p == PLACE_LOCAL)
            s->pid[s->pids++] = st[i].pid;
        if (st[i].manager_id % s->info.nodes >= keyed)
            continue; /* it only forwards */
        s->owner[p][s->owners[p]++] = st[i].manager_id;
        if (st[i].pool_free_space < least[p])
            least[p] = st[i].pool_free_space;
    }
    for (unsigned p = 0; p < PLACE_N; p++)
        s->free_bytes[p] = s->owners[p] > 0 ? least[p] * s->owners[p] : 0;
    free(st);
    if (!memory)
        return verb_say("no memory"), EXIT_FAILED;
    for (unsigned p = 0; p < PLACE_N; p++) {
        if (!s->places_said)
            s->place[p] = s->owners[p] > 0;
        if (s->place[p] && s->owners[p] == 0) {
            verb_say("--place=%s: %s", bench_place_name[p],
                     p == PLACE_LOCAL ? "no manager is on this node"
                                      : "all managers are on this node");
            return EXIT_FAILED;
        }
    }
    return EXIT_OK;
}

/* --- runs --- */

/* The number of keys; 0: they do not fit, which was reported. */
static uint64_t keys_count(const struct setup *s, enum bench_place p, uint64_t value,
                           unsigned clients) {
    uint64_t each = value + value / 8 + BENCH_KEY_MAX + ITEM_EXTRA,
             room = s->free_bytes[p] * 6 / 10 / each, set = s->set;
    char a[24], b[24];
    if (!s->set_said) {
        set = s->setting.cache * 4 < SET_MIN ? SET_MIN : s->setting.cache * 4;
        if (p == PLACE_REMOTE)
            set = SET_REMOTE;
    }
    uint64_t keys = set / (value + ITEM_EXTRA);
    if (!s->set_said && keys > KEYS_MAX)
        keys = KEYS_MAX;
    if (!s->set_said && keys < KEYS_LEAST * clients)
        keys = KEYS_LEAST * clients;
    if (keys > room && s->set_said) {
        verb_say("--set-size=%s does not fit with values of %s: there is room for %llu of them",
                 size_format(a, sizeof a, s->set), size_format(b, sizeof b, value),
                 (unsigned long long)room);
        return 0;
    }
    if (keys > room)
        keys = room;
    if (keys < clients) {
        verb_say("%sno room for %u values of %s (%s)", s->range ? "left out: " : "", clients,
                 size_format(a, sizeof a, value), bench_place_name[p]);
        return 0;
    }
    return keys;
}

static int run_one(struct setup *s, struct bench_run *r, struct bench_progress *progress,
                   enum bench_place place, uint64_t value, unsigned clients) {
    r->count = keys_count(s, place, value, clients);
    r->reps = s->setting.reps;
    memcpy(r->ops, s->ops, sizeof r->ops);
    if (r->count == 0) {
        progress->done += bench_steps(r);
        return s->range ? EXIT_OK : EXIT_FAILED;
    }
    r->place = place;
    r->keys.owner = s->owner[place];
    r->keys.owners = s->owners[place];
    r->value = value;
    r->memory = r->count * (value + ITEM_EXTRA);
    r->clients = clients;
    r->seconds = s->setting.seconds;
    r->touch = s->setting.touch;
    r->freeze = s->setting.freeze;
    r->manager_pid = s->pid;
    r->manager_pids = s->pids;
    int rc = bench_processes(r, progress);
    for (enum bench_op op = 0; op < OP_N && rc == EXIT_OK && !r->stop; op++) {
        if (!r->ops[op])
            continue;
        struct bench_result *e = &s->result[s->results++];
        bench_result_of(r, op, s->setting.cache, e);
        if (!s->json)
            bench_print(e);
    }
    fflush(stdout);
    return rc;
}

static int run_all(struct setup *s, struct bench_run *r) {
    unsigned places = s->place[PLACE_LOCAL] + s->place[PLACE_REMOTE],
             runs = places * s->sizes * s->client_counts;
    r->reps = s->setting.reps;
    memcpy(r->ops, s->ops, sizeof r->ops);
    struct bench_progress progress = {.total = runs * bench_steps(r)};
    s->result = calloc((size_t)runs * OP_N, sizeof *s->result);
    int rc = !s->result ? EXIT_FAILED : EXIT_OK;
    if (!s->json)
        bench_print_head(&s->setting);
    for (unsigned i = 0; i < s->sizes; i++)
        for (unsigned p = 0; p < PLACE_N; p++)
            for (unsigned k = 0; k < s->client_counts && rc == EXIT_OK && !r->stop; k++)
                if (s->place[p])
                    rc = run_one(s, r, &progress, p, s->size[i], (unsigned)s->clients[k]);
    if (rc != EXIT_OK || r->stop)
        return rc;
    if (s->json)
        return bench_print_json(&s->setting, s->result, s->results);
    bench_print_notes(s->result, s->results);
    return EXIT_OK;
}

/* Measure the path to the first manager of the next node that has keys. */
static int run_net(struct setup *s, const struct bench_run *r, ddict_t *d) {
    struct ddict_manager_stats *st;
    unsigned node = (s->info.node_id + 1) % s->info.nodes;
    if (node >= ddict_keyed_nodes(d))
        node = 0;
    if (node == s->info.node_id) {
        verb_say(s->info.nodes < 2 ? "--net: all managers are on this node"
                                   : "--net: no other node has keys");
        return EXIT_FAILED;
    }
    int n = ddict_stats(d, &st, sizeof *st, -1);
    if (n < 0)
        return cmd_failed(NULL, n);
    int rc = bench_net(d, &s->setting, r, node, st[node].node, s->json);
    free(st);
    return rc;
}

static int plot_write(const struct setup *s, FILE *f) {
    int rc = bench_plot(f, &s->setting, s->result, s->results);
    if (rc < 0)
        verb_say("%s: %s", s->plot, strerror(errno));
    return rc < 0 ? EXIT_FAILED : EXIT_OK;
}

int cmd_bench(int argc, char **argv) {
    struct setup s = {0};
    FILE *f = NULL;
    int rc = options_parse(&s, argc, argv);
    if (rc != EXIT_OK)
        return rc;
    ddict_t *d = cmd_attach();
    if (!d)
        return EXIT_FAILED;
    struct bench_run *r =
        mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED || (s.plot && !(f = fopen(s.plot, "we")))) {
        verb_say("%s: %s", s.plot ? s.plot : "memory", strerror(errno));
        ddict_detach(d);
        return EXIT_FAILED;
    }
    ddict_get_info(d, &s.info);
    s.setting.info = &s.info;
    cpus_look(&s.setting);
    r->name = cmd_name();
    snprintf(r->keys.prefix, sizeof r->keys.prefix, "bench%x.%x.", s.info.node_id,
             (unsigned)getpid());
    rc = managers_look(&s, d);
    if (rc == EXIT_OK) {
        bench_catch(r);
        rc = s.net ? run_net(&s, r, d) : run_all(&s, r);
    }
    if (f && rc == EXIT_OK && !r->stop)
        rc = plot_write(&s, f);
    if (f)
        fclose(f);
    if (r->froze)
        ddict_unfreeze(d, -1); /* a client may have been killed before it unfroze the dictionary */
    munmap(r, sizeof *r);
    for (unsigned p = 0; p < PLACE_N; p++)
        free(s.owner[p]);
    free(s.pid);
    free(s.result);
    ddict_detach(d);
    rc = cmd_flush(rc);
    if (bench_caught() == 0)
        return rc;
    verb_say("interrupted%s", rc == EXIT_OK ? "; its keys are removed" : "");
    signal(bench_caught(), SIG_DFL);
    raise(bench_caught());
    return EXIT_FAILED;
}
