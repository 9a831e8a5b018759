/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_env.c - where am I by the variables that Slurm gives every task of a step. */
#include <errno.h>
#include <stdlib.h>

#include "base/size.h"
#include "place/backend.h"

static int env_count(const char *name, int lo, int *out) {
    const char *v = getenv(name);
    uint64_t n;

    if (v == NULL || count_parse(v, (uint64_t)lo, 1u << 30, &n) < 0)
        return -ENOENT;
    *out = (int)n;
    return 0;
}

int slurm_tasks_on(const char *text, int node_id) {
    int node = 0;

    while (text != NULL && *text != '\0') {
        char *end;
        long tasks = strtol(text, &end, 10), times = 1;

        if (end == text || tasks < 1 || tasks > (1 << 30))
            return -EINVAL;
        if (end[0] == '(' && end[1] == 'x') {
            times = strtol(end + 2, &end, 10);
            if (*end != ')' || times < 1 || times > (1 << 30))
                return -EINVAL;
            end++;
        }
        if (*end != ',' && *end != '\0')
            return -EINVAL;
        if (node_id - node < times)
            return (int)tasks;
        node += (int)times;
        text = *end == ',' ? end + 1 : end;
    }
    return -EINVAL;
}

int slurm_env_init(struct place *p) {
    struct place q = *p;
    int rc;

    if (env_count("SLURM_PROCID", 0, &q.rank) < 0 || env_count("SLURM_STEP_NUM_TASKS", 1, &q.size) < 0 ||
        env_count("SLURM_NODEID", 0, &q.node_id) < 0 || env_count("SLURM_STEP_NUM_NODES", 1, &q.nodes) < 0 ||
        env_count("SLURM_LOCALID", 0, &q.local_rank) < 0)
        return -ENOENT;
    if (q.rank >= q.size || q.node_id >= q.nodes)
        return -ENOENT;
    rc = slurm_tasks_on(getenv("SLURM_STEP_TASKS_PER_NODE"), q.node_id);
    q.local_size = rc > q.local_rank ? rc : q.local_rank + 1;
    q.how = PLACE_SLURM;
    *p = q;
    return 0;
}
