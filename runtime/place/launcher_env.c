/* SPDX-License-Identifier: Apache-2.0 */
/* launcher_env.c - rank and node by the variables of a launcher that starts tasks inside a step or
 * without one: torchrun, `ddict run -n`, mpirun. */
#include "backend.h"
#include "place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *env_or(const char *name, const char *other) {
    const char *v = getenv(name);

    return v && *v != '\0' ? v : other;
}

static int place_is_sound(const struct place *p) {
    return p->rank < p->size && p->local_rank < p->local_size && p->local_size <= p->size &&
           p->local_rank <= p->rank && p->node_id < p->nodes && p->nodes <= p->size;
}

/*
 * What all workers of a round have, and those of other rounds don't. Each agent counts the restarts
 * that its own workers caused, so the count is the same for all only where there is one agent. Of
 * several, torchrun's rendezvous gives each round another MASTER_PORT (torch before 2.4 and from 2.6
 * on, not its backend "static"), and --rdzv-backend=ddict a word.
 */
static const char *torchrun_round(const struct place *p) {
    return env_or("DDICT_TORCH_ROUND",
                  p->nodes == 1 ? env_or("TORCHELASTIC_RESTART_COUNT", "0") : "-");
}

int torchrun_env_init(struct place *p) {
    struct place q = *p;

    if (!getenv("TORCHELASTIC_RUN_ID") || env_count("RANK", 0, &q.rank) < 0 ||
        env_count("WORLD_SIZE", 1, &q.size) < 0 || env_count("LOCAL_RANK", 0, &q.local_rank) < 0 ||
        env_count("LOCAL_WORLD_SIZE", 1, &q.local_size) < 0 ||
        env_count("GROUP_RANK", 0, &q.node_id) < 0 ||
        env_count("GROUP_WORLD_SIZE", 1, &q.nodes) < 0 || !place_is_sound(&q))
        return -ENOENT;
    q.how = PLACE_TORCHRUN;
    /* The run's id is "none" unless the user gave one; the address of its store tells runs apart. */
    snprintf(q.group, sizeof q.group, "torchrun.%s.%s.%s.%s", env_or("TORCHELASTIC_RUN_ID", "-"),
             env_or("MASTER_ADDR", "-"), env_or("MASTER_PORT", "-"), torchrun_round(&q));
    *p = q;
    return 0;
}

int run_env_init(struct place *p) {
    const char *id = getenv("DDICT_RUN_ID");
    struct place q = *p;

    if (!id || env_count("DDICT_RUN_RANK", 0, &q.rank) < 0 ||
        env_count("DDICT_RUN_SIZE", 1, &q.size) < 0)
        return -ENOENT;
    q.local_rank = q.rank;
    q.local_size = q.size;
    q.node_id = 0;
    q.nodes = 1;
    if (!place_is_sound(&q))
        return -ENOENT;
    q.how = PLACE_RUN;
    snprintf(q.group, sizeof q.group, "run.%s", id);
    *p = q;
    return 0;
}

int mpirun_env_init(struct place *p) {
    struct place q = *p;

    if (env_count("OMPI_COMM_WORLD_RANK", 0, &q.rank) < 0 ||
        env_count("OMPI_COMM_WORLD_SIZE", 1, &q.size) < 0 ||
        env_count("OMPI_COMM_WORLD_LOCAL_RANK", 0, &q.local_rank) < 0 ||
        env_count("OMPI_COMM_WORLD_LOCAL_SIZE", 1, &q.local_size) < 0)
        return -ENOENT;
    q.node_id = q.local_size == q.size ? 0 : -1;
    if (q.node_id == 0) {
        q.nodes = 1;
        q.local_rank = q.rank; /* Open MPI 6 may number them in the order of its cores */
    } else if (env_count("OMPI_MCA_orte_num_nodes", 1, &q.nodes) < 0) {
        q.nodes = -1;
    }
    if (q.node_id == 0 && !place_is_sound(&q))
        return -ENOENT;
    q.how = PLACE_MPIRUN;
    snprintf(q.group, sizeof q.group, "mpirun.%s",
             env_or("PMIX_NAMESPACE", env_or("OMPI_MCA_ess_base_jobid", "-")));
    *p = q;
    return 0;
}
