/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_test.h - what the tests of GPUs share: topologies from files and made up, and the exact least
 * total distance by trying everything. */
#ifndef DDICT_TESTS_GPU_TEST_H
#define DDICT_TESTS_GPU_TEST_H

#include "machine_xml.h"
#include "unit.h"
#include <place/gpu_bind.h>
#include <place/topology.h>

#include <glob.h>
#include <limits.h>
#include <string.h>

static inline void machine_map(const struct machine *of, struct gpu_map *m) {
    struct hwloc_topology *t;
    size_t len;
    char *text = machine_xml(of, &len);

    ck_assert_int_eq(topology_xml(&t, text, len + 1), 0);
    ck_assert_int_eq(gpu_map_make(m, t), 0);
    topology_free(t);
    free(text);
}

/* Saved topologies of real machines: $DDICT_TEST_TOPOLOGIES, else beside the repository; there may
 * be none. globfree() it. */
static inline size_t saved_topologies(glob_t *g) {
    const char *folder = getenv("DDICT_TEST_TOPOLOGIES"), *source = getenv("srcdir");
    char pattern[PATH_MAX];

    if (folder)
        snprintf(pattern, sizeof pattern, "%s/*.xml", folder);
    else
        snprintf(pattern, sizeof pattern, "%s/../shared/data/topologies/*.xml",
                 source ? source : ".");
    if (glob(pattern, 0, NULL, g) != 0)
        g->gl_pathc = 0;
    return g->gl_pathc;
}

/* Least sum over all ways to give place j GPU g, no GPU twice: every permutation is tried (cut where it is no better already). */
static inline void try_all(int places, int gpus, const int64_t *cost, int at, unsigned used,
                           int64_t sum, int64_t *least) {
    if (sum >= *least)
        return;
    if (at == places) {
        *least = sum;
        return;
    }
    for (int g = 0; g < gpus; g++)
        if (!(used >> g & 1))
            try_all(places, gpus, cost, at + 1, used | 1u << g, sum + cost[at * gpus + g], least);
}

/* The same for more GPUs than permutations can be tried of: all sets of GPUs, the first places each
 * in its cheapest way. */
static inline int64_t try_sets(int places, int gpus, const int64_t *cost) {
    int64_t *best = malloc(sizeof *best << gpus), least = INT64_MAX;

    for (unsigned s = 0; s < 1u << gpus; s++)
        best[s] = s == 0 ? 0 : INT64_MAX;
    for (unsigned s = 0; s < 1u << gpus; s++) {
        int at = __builtin_popcount(s);

        if (best[s] == INT64_MAX)
            continue;
        if (at == places && best[s] < least)
            least = best[s];
        for (int g = 0; at < places && g < gpus; g++)
            if (!(s >> g & 1) && best[s] + cost[at * gpus + g] < best[s | 1u << g])
                best[s | 1u << g] = best[s] + cost[at * gpus + g];
    }
    free(best);
    return least;
}

/* Of one order for all ranks, rank r using entry r % gpus. */
static inline int64_t least_of_orders(int ranks, int gpus, const int64_t *distance) {
    int places = ranks < gpus ? ranks : gpus;
    int64_t cost[64 * 64] = {0}, least = INT64_MAX;

    for (int r = 0; r < ranks; r++)
        for (int g = 0; g < gpus; g++)
            cost[r % gpus * gpus + g] += distance[r * gpus + g];
    if (gpus > 8)
        return try_sets(places, gpus, cost);
    try_all(places, gpus, cost, 0, 0, 0, &least);
    return least;
}

/* Of a GPU for each rank, none with more than one rank more than another: all states (how many
 * ranks on each GPU) rank by rank. */
static inline int64_t least_of_shares(int ranks, int gpus, const int64_t *distance) {
    int most = (ranks + gpus - 1) / gpus, floor = ranks / gpus, states = 1, step[16];
    int64_t *now, *next, least = INT64_MAX;

    for (int g = 0; g < gpus; g++) {
        step[g] = states;
        states *= most + 1;
    }
    now = malloc(sizeof *now * (size_t)states);
    next = malloc(sizeof *next * (size_t)states);
    for (int s = 0; s < states; s++)
        now[s] = s == 0 ? 0 : INT64_MAX;
    for (int r = 0; r < ranks; r++) {
        for (int s = 0; s < states; s++)
            next[s] = INT64_MAX;
        for (int s = 0; s < states; s++)
            for (int g = 0; g < gpus && now[s] != INT64_MAX; g++)
                if (s / step[g] % (most + 1) < most &&
                    now[s] + distance[r * gpus + g] < next[s + step[g]])
                    next[s + step[g]] = now[s] + distance[r * gpus + g];
        int64_t *swap = now;
        now = next;
        next = swap;
    }
    for (int s = 0; s < states; s++) {
        int even = 1;
        for (int g = 0; g < gpus; g++)
            even = even && s / step[g] % (most + 1) >= floor;
        if (even && now[s] < least)
            least = now[s];
    }
    free(now);
    free(next);
    return least;
}

#endif
