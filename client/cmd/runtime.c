/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.c - `ddict runtime`: this process's rank and node, how they were found, and whether the
 * ranks reach each other. */
#include "bind.h"
#include "cmd.h"
#include "verbs.h"
#include <base/size.h>
#include <base/verb.h>
#include <ddict_runtime.h>
#include <place/gpu_order.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char runtime_usage[] =
    "usage: ddict runtime [OPTION...] | --bind=HOW [OPTION...]\n"
    "Print rank and node of this process, and how they were found.\n"
    "In a job: srun ddict runtime --check\n"
    "      --check          let all ranks exchange 1 KiB each, and measure that\n"
    "      --no-pmix        leave PMIx to a program that this task runs afterwards\n"
    "  -j, --json           an object for each rank; with --bind one for the "
    "node\n" CMD_COMMON_USAGE
    "With --bind: print which GPU is nearest to which rank of this node. In a task\n"
    "of a step these are lines for its shell, eval \"$(ddict runtime --bind=closest)\";\n"
    "elsewhere a table.\n"
    "      --bind=HOW       closest: one order for all ranks, in which device\n"
    "                       LOCAL_RANK is the rank's; rotate: device 0 is; or none\n"
    "      --ranks=N        for N ranks with equal shares of the cores\n"
    "      --topology=FILE  for a machine that `lstopo FILE.xml` saved\n";

#define CHECK_BYTES 1024u
#define CHECK_MS    30000

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static unsigned char check_byte(int rank, unsigned i) {
    return (unsigned char)(rank * 131 + (int)i * 7 + rank / 256);
}

struct check {
    bool done;
    double exchange_ms, barrier_ms;
};

/* EXIT_OK, or EXIT_FAILED if the ranks do not reach each other or a piece arrived changed. */
static int check_peers(const struct ddict_rt_info *me, struct check *c) {
    unsigned char mine[CHECK_BYTES];
    struct ddict_rt_bytes *all;
    for (unsigned i = 0; i < CHECK_BYTES; i++)
        mine[i] = check_byte(me->rank, i);
    /* wait until all ranks have started, so that their start is not timed */
    if (ddict_rt_barrier(CHECK_MS) < 0)
        return EXIT_FAILED;
    double t0 = now_ms();
    if (ddict_rt_exchange(mine, CHECK_BYTES, &all, CHECK_MS) < 0)
        return EXIT_FAILED;
    double t1 = now_ms();
    for (int r = 0; r < me->size; r++)
        for (unsigned i = 0; i < CHECK_BYTES; i++)
            if (all[r].len != CHECK_BYTES ||
                ((const unsigned char *)all[r].data)[i] != check_byte(r, i)) {
                verb_say("rank %d: what came from rank %d is not what it gave", me->rank, r);
                exit(EXIT_FAILED);
            }
    free(all);
    double t2 = now_ms();
    if (ddict_rt_barrier(CHECK_MS) < 0)
        return EXIT_FAILED;
    *c = (struct check){true, t1 - t0, now_ms() - t2};
    return EXIT_OK;
}

/* The ranks of a node as an array, or null if they are not known. */
static json_t *ranks_json(int node) {
    int n = ddict_rt_ranks_of(node, NULL, 0);
    int *ranks = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *ranks);
    if (!ranks)
        return json_null();
    ddict_rt_ranks_of(node, ranks, n);
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_integer(ranks[i]));
    free(ranks);
    return a;
}

static json_t *nodes_json(const struct ddict_rt_info *me) {
    json_t *a = json_array();
    for (int i = 0; i < me->nodes; i++) {
        const char *name = ddict_rt_node_name(i);
        json_array_append_new(a, json_pack("{s:s?, s:o}", "name", name, "ranks", ranks_json(i)));
    }
    return a;
}

static int json_print(const struct ddict_rt_info *me, const struct check *c) {
    json_t *o =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:b, s:o, s:s}", "rank",
                  me->rank, "size", me->size, "local_rank", me->local_rank, "local_size",
                  me->local_size, "node_id", me->node_id, "nodes", me->nodes, "node", me->node,
                  "group", me->group, "how", me->how_name, "peers", me->peers_name, "map", me->map,
                  "list", nodes_json(me), "trouble", ddict_rt_trouble());
    if (o && c->done)
        json_object_update_new(
            o, json_pack("{s:f, s:f}", "exchange_ms", c->exchange_ms, "barrier_ms", c->barrier_ms));
    return cmd_json_print(o);
}

static void nodes_print(const struct ddict_rt_info *me) {
    for (int i = 0; i < me->nodes; i++) {
        const char *name = ddict_rt_node_name(i);
        int n = ddict_rt_ranks_of(i, NULL, 0);
        int *ranks = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *ranks);
        printf("node %d  %s:", i, name ? name : "?");
        if (!ranks) {
            printf(" which ranks is not certain\n");
            continue;
        }
        ddict_rt_ranks_of(i, ranks, n);
        for (int k = 0, first = 0; k < n; k++)
            if (k + 1 == n || ranks[k + 1] != ranks[k] + 1) {
                printf(ranks[first] == ranks[k] ? "%s%d" : "%s%d-%d", first == 0 ? " rank " : ",",
                       ranks[first], ranks[k]);
                first = k + 1;
            }
        printf("\n");
        free(ranks);
    }
}

static void text_print(const struct ddict_rt_info *me, const struct check *c) {
    printf("rank %d of %d, %d of %d on node %s", me->rank, me->size, me->local_rank, me->local_size,
           me->node);
    if (me->nodes >= 0)
        printf(" (%d of %d)", me->node_id, me->nodes);
    printf("; found by %s; peers by %s", me->how_name, me->peers_name);
    if (c->done)
        printf("; exchange %.1f ms, barrier %.1f ms", c->exchange_ms, c->barrier_ms);
    printf("\n");
    if (ddict_rt_trouble()[0] != 0)
        printf("  passed over: %s\n", ddict_rt_trouble());
    if (me->rank == 0)
        nodes_print(me);
}

int cmd_runtime(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS,
                                          {"json", no_argument, NULL, 'j'},
                                          {"check", no_argument, NULL, 'c'},
                                          {"no-pmix", no_argument, NULL, 'P'},
                                          {"bind", required_argument, NULL, 'b'},
                                          {"ranks", required_argument, NULL, 'r'},
                                          {"topology", required_argument, NULL, 't'},
                                          {0}};
    struct bind_ask ask = {0};
    uint64_t ranks = 0;
    bool json = false, check = false;
    unsigned flags = 0;
    for (int c; (c = cmd_option(argc, argv, "hj", longs, runtime_usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        json |= c == 'j';
        check |= c == 'c';
        if (c == 'P')
            flags |= DDICT_RT_NO_PMIX;
        if (c == 'b')
            ask.how = optarg;
        if (c == 't')
            ask.topology = optarg;
        if (c == 'r' && count_parse(optarg, 1, GPU_RANKS_MAX, &ranks) < 0)
            return cmd_usage(runtime_usage, "--ranks=%s: a number from 1 to %d", optarg,
                             GPU_RANKS_MAX);
    }
    if (optind < argc)
        return cmd_usage(runtime_usage, "takes no \"%s\"", argv[optind]);
    ask.ranks = (int)ranks;
    ask.json = json;
    if (!ask.how && (ask.topology || ask.ranks > 0))
        return cmd_usage(runtime_usage, "--ranks and --topology say for which ranks to --bind");
    if (ask.how && check)
        return cmd_usage(runtime_usage, "--check is not for --bind");
    if (ask.how)
        return cmd_flush(bind_print(&ask));
    if (cmd_name())
        setenv("DDICT_NAME", cmd_name(), 1);
    struct ddict_rt_info me;
    struct check done = {0};
    int rc = EXIT_OK;
    setvbuf(stdout, NULL, _IOFBF, 1 << 20); /* each rank writes its lines at once */
    if (ddict_rt_init(flags) < 0 || ddict_rt_get_info(&me) < 0)
        rc = EXIT_FAILED;
    else if (check)
        rc = check_peers(&me, &done);
    if (rc != EXIT_OK)
        verb_say("%s", ddict_rt_errmsg());
    else if (json)
        rc = json_print(&me, &done);
    else
        text_print(&me, &done);
    ddict_rt_finalize();
    return cmd_flush(rc);
}
