/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - try the ways one after the other; the calls of place.h for the way that answered. */
#include "place.h"

#include "backend.h"
#include <base/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void node_name(char *buf, size_t cap) {
    const char *v = getenv("SLURMD_NODENAME");

    if (v && *v != '\0' && strlen(v) < cap) {
        strcpy(buf, v);
        return;
    }
    if (gethostname(buf, cap) < 0)
        strcpy(buf, "localhost");
    buf[cap - 1] = '\0';
    buf[strcspn(buf, ".")] = '\0';
}

static int single_init(struct place *p) {
    p->how = PLACE_SINGLE;
    p->size = p->local_size = p->nodes = 1;
    snprintf(p->group, sizeof p->group, "single.%s.%d", p->node, (int)getpid());
    return 0;
}

/* One process of the rank takes part for it. */
static int rank_claim(struct place *p, const char *name) {
    if (pmix_joined() || rank_taken() || rank_take(name, getenv("PMIX_RANK")) == 0)
        return 0;
    p->doubled = 1;
    snprintf(p->trouble, sizeof p->trouble, "PMIx: another process of rank %.20s of %.60s uses it",
             getenv("PMIX_RANK"), name);
    return -ENOENT;
}

/* Slurm's ranks with a dictionary need no PMIx, which is then MPI's alone. */
static int dict_try(struct place *p) {
    const char *name = pmix_namespace(), *dict = getenv("DDICT_NAME");

    if (!name || !pmix_of_slurm(name) || !dict || *dict == '\0' || pmix_joined())
        return -ENOENT;
    if (slurm_env_init_whole(p) < 0)
        return -ENOENT;
    (void)rank_claim(p, name);
    return 0;
}

/* PMIx for one process of the rank; whatever is wrong with it, the next way is tried. */
static int pmix_try(struct place *p) {
    const char *name = pmix_namespace();
    int rc;

    if (!name)
        return -ENOENT;
    if (!pmix_joined() && !same_user()) {
        snprintf(
            p->trouble, sizeof p->trouble,
            "PMIx: this process has another user or group here (%u, %u) than its server expects",
            (unsigned)geteuid(), (unsigned)getegid());
        return -ENOENT;
    }
    if (rank_claim(p, name) < 0)
        return -ENOENT;
    rc = pmix_init(p);
    if (rc == 0)
        return 0;
    rank_leave();
    if (rc != -ENOENT)
        snprintf(p->trouble, sizeof p->trouble, "%s", dd_errmsg());
    else if (!getenv("DDICT_PMIX"))
        snprintf(p->trouble, sizeof p->trouble,
                 "PMIx: PMIX_NAMESPACE is %.60s, but there is no library or no server answers",
                 name);
    return -ENOENT;
}

static int task_init(struct place *p, unsigned with) {
    int rc = torchrun_env_init(p);

    if (rc == -ENOENT)
        rc = run_env_init(p);
    if (rc == -ENOENT && (with & PLACE_WITH_PMIX))
        rc = dict_try(p);
    if (rc == -ENOENT && (with & PLACE_WITH_PMIX))
        rc = pmix_try(p);
    /* Of mpirun in a step and a step with mpirun's variables around it, Slurm's PMIx tells the
     * second. */
    if (rc == -ENOENT && (!pmix_namespace() || !pmix_of_slurm(pmix_namespace())))
        rc = mpirun_env_init(p);
    return rc;
}

int place_init(struct place *p, unsigned with) {
    int rc = -ENOENT;

    memset(p, 0, sizeof *p);
    node_name(p->node, sizeof p->node);
    if (with & PLACE_AS_TASK)
        rc = task_init(p, with);
    else if (with & PLACE_WITH_PMIX)
        rc = pmix_init(p);
    if (rc == -ENOENT)
        rc = slurm_env_init(p);
    if (rc == -ENOENT)
        rc = single_init(p);
    return rc;
}

/* All ranks are here, or ours are next to each other, as torchrun numbers them. */
static int plain_maps(struct place *p) {
    int i, first = p->rank - p->local_rank;

    if (p->nodes == 1) {
        p->node_of = calloc((size_t)p->size, sizeof *p->node_of);
        p->names = calloc(1, sizeof *p->names);
        if (!p->node_of || !p->names || !(p->names[0] = strdup(p->node)))
            return -ENOMEM;
        first = 0;
    }
    if (p->nodes == 1 || p->how == PLACE_TORCHRUN) {
        p->locals = malloc((size_t)p->local_size * sizeof *p->locals);
        if (!p->locals)
            return -ENOMEM;
        for (i = 0; i < p->local_size; i++)
            p->locals[i] = first + i;
    }
    return 0;
}

int place_maps(struct place *p) {
    int rc = p->how == PLACE_PMIX    ? pmix_maps(p)
             : p->how == PLACE_SLURM ? slurm_env_maps(p)
                                     : plain_maps(p);

    return rc == -ENOMEM ? dd_error(rc, "no memory for the places of %d ranks", p->size) : rc;
}

int place_exchange(struct place *p, const void *info, size_t len, void **infos, size_t *lens,
                   int timeout_ms) {
    return place_exchange_until(p, info, len, infos, lens, NULL, timeout_ms);
}

int place_exchange_until(struct place *p, const void *info, size_t len, void **infos, size_t *lens,
                         int (*enough)(const void *info, size_t len), int timeout_ms) {
    if (p->how == PLACE_PMIX)
        return pmix_exchange(p, info, len, infos, lens, enough, timeout_ms);
    if (p->size != 1)
        return dd_error(
            -ENOTSUP, "%d tasks cannot exchange addresses: there is no PMIx here (srun --mpi=pmix)",
            p->size);
    infos[0] = malloc(len + 1);
    if (!infos[0])
        return -ENOMEM;
    memcpy(infos[0], info, len);
    lens[0] = len;
    return 0;
}

int place_fence(struct place *p, int timeout_ms) {
    if (p->how == PLACE_PMIX)
        return pmix_fence(p, timeout_ms);
    return p->size == 1
               ? 0
               : dd_error(-ENOTSUP, "%d tasks cannot meet: there is no PMIx here (srun --mpi=pmix)",
                          p->size);
}

void place_drop(struct place *p) {
    int i;

    for (i = 0; p->names && i < p->nodes; i++)
        free(p->names[i]);
    free(p->names);
    free(p->node_of);
    free(p->locals);
    p->names = NULL;
    p->node_of = p->locals = NULL;
    p->how = PLACE_SINGLE;
}

void place_finalize(struct place *p) {
    place_drop(p);
    pmix_finalize();
    rank_leave();
}
