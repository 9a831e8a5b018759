/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime.c - the public calls of ddict_runtime.h. Two locks: `lock` guards what was found and is
 * held only briefly, so a fork can take it; `turn` is held for a whole collective call. A forked
 * child makes both anew, because it has no other thread.
 */
#include "exchange.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <ddict_runtime.h>
#include <place/backend.h>
#include <place/place.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int users;  /* calls of ddict_rt_init() not yet matched by a finalize */
    int forked; /* this process is a child of the one that called ddict_rt_init() */
    int failed; /* a collective call failed; under `turn` */
    int peers;  /* DDICT_RT_PEERS_* */
    struct place place;
    struct gather gather;      /* under `turn`; d is NULL before the first exchange */
    char node[64], group[256]; /* valid until the process ends */
} rt;

/* --- fork --- */

static void fork_before(void) {
    pthread_mutex_lock(&lock);
}
static void fork_parent(void) {
    pthread_mutex_unlock(&lock);
}
static void fork_child(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&turn, NULL);
    if (rt.users > 0)
        rt.forked = 1;
    rank_leave();
}

static int fork_follow(void) {
    static int followed;

    if (!followed && pthread_atfork(fork_before, fork_parent, fork_child) == 0)
        followed = 1;
    return followed ? 0 : dd_error(-ENOMEM, "no memory for what a fork needs");
}

/* --- beginning and end --- */

/* "uid.job.step.component": ranks of the step's other components have another dictionary. */
static int name_is_of_component(const char *name) {
    unsigned uid, job, step, component;
    const char *het = getenv("SLURM_HET_SIZE");
    char more;

    return het && *het != '\0' &&
           sscanf(name, "%u.%u.%u.%u%c", &uid, &job, &step, &component, &more) == 4;
}

/* Within one Slurm step, one rank may have PMIx and another not (a script's second program: pmix.c,
 * rule 3); all have the dictionary. */
static int peers_of(const struct place *p) {
    const char *dict = getenv("DDICT_NAME");
    int all = dict && *dict != '\0' && !name_is_of_component(dict);

    if (p->size == 1)
        return DDICT_RT_PEERS_SELF;
    if (p->how == PLACE_PMIX && (strncmp(p->group, "slurm.", 6) != 0 || !all))
        return DDICT_RT_PEERS_PMIX;
    return all && !p->doubled ? DDICT_RT_PEERS_DICT : DDICT_RT_PEERS_NONE;
}

static int runtime_begin(unsigned flags) {
    struct place p;
    int rc = fork_follow();

    rc = rc < 0 ? rc
                : place_init(&p, PLACE_AS_TASK | (flags & DDICT_RT_NO_PMIX ? 0 : PLACE_WITH_PMIX));
    if (rc < 0)
        return rc;
    rc = place_maps(&p);
    if (rc < 0) {
        place_drop(&p);
        return rc;
    }
    rt.place = p;
    rt.peers = peers_of(&p);
    rt.failed = 0;
    memset(&rt.gather, 0, sizeof rt.gather);
    strcpy(rt.node, p.node);
    strcpy(rt.group, p.group);
    return 0;
}

int ddict_rt_init(unsigned flags) {
    int rc = 0;

    if (flags & ~DDICT_RT_NO_PMIX)
        return dd_error(-EINVAL, "ddict_rt_init: unknown flags %#x", flags);
    pthread_mutex_lock(&lock);
    if (rt.forked)
        rc = dd_error(-EPERM, "this is a forked child of rank %d, and no rank of its own",
                      rt.place.rank);
    else if (rt.users == 0)
        rc = runtime_begin(flags);
    if (rc == 0)
        rt.users++;
    pthread_mutex_unlock(&lock);
    return rc;
}

/* The last user closes the gather. */
static void close_peers(void) {
    struct deadline d;

    pthread_mutex_lock(&turn);
    deadline_start(&d, DD_RT_CLOSE_MS);
    gather_close(&rt.gather, &d);
    pthread_mutex_unlock(&turn);
}

int ddict_rt_finalize(void) {
    int users;

    pthread_mutex_lock(&lock);
    users = rt.forked ? 0 : rt.users;
    pthread_mutex_unlock(&lock);
    if (users == 0)
        return dd_error(-EINVAL, "ddict_rt_finalize: nothing was initialised in this process");
    if (users == 1)
        close_peers();
    pthread_mutex_lock(&lock);
    if (--rt.users == 0)
        place_drop(&rt.place);
    pthread_mutex_unlock(&lock);
    return 0;
}

int ddict_rt_leave(void) {
    close_peers();
    pthread_mutex_lock(&lock);
    if (!rt.forked) {
        rt.users = 0;
        place_finalize(&rt.place);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

/* --- facts about this process --- */

static int runtime_absent(void) {
    return dd_error(-EINVAL, "ddict_rt_init() was not called");
}

static const char *const how_names[] = {
    [DDICT_RT_SINGLE] = "one process alone",
    [DDICT_RT_SLURM] = "Slurm's variables",
    [DDICT_RT_PMIX] = "PMIx",
    [DDICT_RT_MPIRUN] = "mpirun's variables",
    [DDICT_RT_TORCHRUN] = "torchrun's variables",
    [DDICT_RT_RUN] = "ddict run",
};
_Static_assert((int)PLACE_PMIX == DDICT_RT_PMIX && (int)PLACE_RUN == DDICT_RT_RUN &&
                   (int)PLACE_MPIRUN == DDICT_RT_MPIRUN &&
                   (int)PLACE_TORCHRUN == DDICT_RT_TORCHRUN && (int)PLACE_SLURM == DDICT_RT_SLURM,
               "how is one number inside and outside");
static const char *const peers_names[] = {
    [DDICT_RT_PEERS_SELF] = "alone",
    [DDICT_RT_PEERS_PMIX] = "PMIx",
    [DDICT_RT_PEERS_DICT] = "the dictionary",
    [DDICT_RT_PEERS_NONE] = "none",
};

int ddict_rt_get_info(struct ddict_rt_info *info) {
    const struct place *p = &rt.place;
    int rc = 0;

    pthread_mutex_lock(&lock);
    if (rt.users > 0)
        *info = (struct ddict_rt_info){.how = (int)p->how,
                                       .peers = rt.peers,
                                       .rank = p->rank,
                                       .size = p->size,
                                       .local_rank = p->local_rank,
                                       .local_size = p->local_size,
                                       .node_id = p->node_id,
                                       .nodes = p->nodes,
                                       .map = p->node_of != NULL,
                                       .node = rt.node,
                                       .group = rt.group,
                                       .how_name = how_names[p->how],
                                       .peers_name = peers_names[rt.peers]};
    else
        rc = runtime_absent();
    pthread_mutex_unlock(&lock);
    return rc;
}

static int place_figure(size_t offset) {
    struct ddict_rt_info info;
    int rc = ddict_rt_get_info(&info), n;

    if (rc < 0)
        return rc;
    memcpy(&n, (const char *)&info + offset, sizeof n);
    return n >= 0 ? n : dd_error(-ENODATA, "%s do not tell it", info.how_name);
}

int ddict_rt_rank(void) {
    return place_figure(offsetof(struct ddict_rt_info, rank));
}
int ddict_rt_size(void) {
    return place_figure(offsetof(struct ddict_rt_info, size));
}
int ddict_rt_local_rank(void) {
    return place_figure(offsetof(struct ddict_rt_info, local_rank));
}
int ddict_rt_local_size(void) {
    return place_figure(offsetof(struct ddict_rt_info, local_size));
}
int ddict_rt_node_id(void) {
    return place_figure(offsetof(struct ddict_rt_info, node_id));
}
int ddict_rt_nodes(void) {
    return place_figure(offsetof(struct ddict_rt_info, nodes));
}

/* The following functions are called with `lock` held. */

static const char *name_of(int node) {
    const struct place *p = &rt.place;

    if (rt.users == 0) {
        runtime_absent();
        return NULL;
    }
    if (node >= 0 && node == p->node_id)
        return p->names ? p->names[node] : rt.node;
    if (node < 0 || node >= p->nodes) {
        dd_error(-EINVAL, "there is no node %d: there are %d", node, p->nodes);
        return NULL;
    }
    if (!p->names) {
        dd_error(-ENODATA, "%s do not tell the name of node %d", how_names[p->how], node);
        return NULL;
    }
    return p->names[node];
}

static int node_of(int rank) {
    const struct place *p = &rt.place;
    int i;

    if (rt.users == 0)
        return runtime_absent();
    if (rank < 0 || rank >= p->size)
        return dd_error(-EINVAL, "there is no rank %d: there are %d", rank, p->size);
    if (p->node_of)
        return p->node_of[rank];
    for (i = 0; p->locals && p->node_id >= 0 && i < p->local_size; i++)
        if (p->locals[i] == rank)
            return p->node_id;
    if (rank == p->rank && p->node_id >= 0)
        return p->node_id;
    return dd_error(-ENODATA, "%s do not tell where rank %d runs", how_names[p->how], rank);
}

static int ranks_of(int node, int *ranks, int cap) {
    const struct place *p = &rt.place;
    int r, n = 0;

    if (rt.users == 0)
        return runtime_absent();
    if (node < 0 || (p->nodes >= 0 && node >= p->nodes))
        return dd_error(-EINVAL, "there is no node %d: there are %d", node, p->nodes);
    if (node == p->node_id && p->locals) {
        for (; n < p->local_size; n++)
            if (n < cap)
                ranks[n] = p->locals[n];
        return n;
    }
    if (!p->node_of)
        return dd_error(-ENODATA, "%s do not tell which ranks run on node %d", how_names[p->how],
                        node);
    for (r = 0; r < p->size; r++)
        if (p->node_of[r] == node) {
            if (n < cap)
                ranks[n] = r;
            n++;
        }
    return n;
}

const char *ddict_rt_node_name(int node) {
    const char *name;

    pthread_mutex_lock(&lock);
    name = name_of(node);
    pthread_mutex_unlock(&lock);
    return name;
}

int ddict_rt_node_of(int rank) {
    int rc;

    pthread_mutex_lock(&lock);
    rc = node_of(rank);
    pthread_mutex_unlock(&lock);
    return rc;
}

const char *ddict_rt_host_of(int rank) {
    const char *name = NULL;
    int node;

    pthread_mutex_lock(&lock);
    node = node_of(rank);
    if (node >= 0)
        name = name_of(node);
    pthread_mutex_unlock(&lock);
    return name;
}

int ddict_rt_ranks_of(int node, int *ranks, int cap) {
    int rc;

    pthread_mutex_lock(&lock);
    rc = ranks_of(node, ranks, cap);
    pthread_mutex_unlock(&lock);
    return rc;
}

const char *ddict_rt_trouble(void) {
    const char *text;

    pthread_mutex_lock(&lock);
    text = rt.users > 0 ? rt.place.trouble : "";
    pthread_mutex_unlock(&lock);
    return text;
}

const char *ddict_rt_errmsg(void) {
    return dd_errmsg();
}

/* --- peers --- */

static int64_t timeout_of(int timeout_ms) {
    const char *v = getenv("DDICT_TIMEOUT");
    char *end;
    double s;

    if (timeout_ms >= 0 || !v)
        return timeout_ms;
    s = strtod(v, &end);
    return end == v || *end != '\0' || !(s >= 0) || s > 1e9 ? DD_TIMEOUT_MS : (int64_t)(s * 1000);
}

/* Join all pieces in one block: the array, then the bytes of each. */
static int pieces_join(void **cards, const size_t *lens, int size, struct ddict_rt_bytes **all) {
    size_t n = (size_t)size * sizeof **all, at = n;
    struct ddict_rt_bytes *out;
    int r;

    for (r = 0; r < size; r++)
        n += (lens[r] + 7) & ~(size_t)7;
    out = malloc(n);
    if (!out)
        return dd_error(-ENOMEM, "no memory for the pieces of %d ranks", size);
    for (r = 0; r < size; r++) {
        out[r].data = (char *)out + at;
        /* PMIx has no empty values, so each piece was sent with one more byte */
        out[r].len = lens[r] - 1;
        memcpy((char *)out + at, cards[r], out[r].len);
        at += (lens[r] + 7) & ~(size_t)7;
    }
    *all = out;
    return 0;
}

static int pmix_pieces(const void *data, size_t len, struct ddict_rt_bytes **all, int timeout_ms) {
    int size = rt.place.size, r, rc = -ENOMEM;
    void **cards = calloc((size_t)size, sizeof *cards);
    size_t *lens = calloc((size_t)size, sizeof *lens);
    char *mine = malloc(len + 1);

    if (!cards || !lens || !mine) {
        dd_error(rc, "no memory for the pieces of %d ranks", size);
    } else {
        if (len > 0)
            memcpy(mine, data, len);
        mine[len] = '.';
        rc = place_exchange(&rt.place, mine, len + 1, cards, lens, timeout_ms);
    }
    if (rc == 0) {
        rc = pieces_join(cards, lens, size, all);
        for (r = 0; r < size; r++)
            free(cards[r]);
    }
    free(mine);
    free(cards);
    free(lens);
    return rc;
}

static int dict_pieces(const void *data, size_t len, struct ddict_rt_bytes **all,
                       int64_t timeout_ms) {
    struct deadline d;
    int rc = 0;

    deadline_start(&d, timeout_ms);
    if (!rt.gather.d)
        rc = gather_open(&rt.gather, rt.group, rt.place.rank, rt.place.size, &d);
    return rc < 0 ? rc : gather_exchange(&rt.gather, data, len, all, &d);
}

static int own_piece(const void *data, size_t len, struct ddict_rt_bytes **all) {
    struct ddict_rt_bytes *out = malloc(sizeof *out + len + 1);

    if (!out)
        return dd_error(-ENOMEM, "no memory for %zu bytes", len);
    out->data = out + 1;
    out->len = len;
    if (len > 0)
        memcpy(out + 1, data, len);
    *all = out;
    return 0;
}

/* Whether this process may take part in a collective call. `turn` is held, so the facts do not
 * change. */
static int taking_part(void) {
    int rc = 0;

    pthread_mutex_lock(&lock);
    if (rt.users == 0)
        rc = runtime_absent();
    else if (rt.forked)
        rc = dd_error(-EPERM, "this is a forked child of rank %d, and no rank of its own",
                      rt.place.rank);
    else if (rt.failed)
        rc = dd_error(-ECANCELED, "an exchange or barrier of this process failed before; the ranks "
                                  "do not agree any more");
    else if (rt.peers == DDICT_RT_PEERS_NONE && rt.place.doubled)
        rc = dd_error(-ENOTSUP, "another process of rank %d takes part for it", rt.place.rank);
    else if (rt.peers == DDICT_RT_PEERS_NONE)
        rc = dd_error(-ENOTSUP,
                      "%d ranks cannot reach each other: there is no PMIx here (srun --mpi=pmix) "
                      "and no dictionary (--ddict-managers)%s%s",
                      rt.place.size, rt.place.trouble[0] != '\0' ? "; " : "", rt.place.trouble);
    pthread_mutex_unlock(&lock);
    return rc;
}

int ddict_rt_exchange(const void *data, size_t len, struct ddict_rt_bytes **all, int timeout_ms) {
    int64_t ms = timeout_of(timeout_ms);
    int rc;

    if (!all || (!data && len > 0))
        return dd_error(-EINVAL, "ddict_rt_exchange: no place for the answer, or no data");
    if (len > DD_RT_PIECE_MAX)
        return dd_error(-E2BIG, "an exchange of %zu bytes a rank: at most %u", len,
                        DD_RT_PIECE_MAX);
    pthread_mutex_lock(&turn);
    rc = taking_part();
    if (rc == 0) {
        rc = rt.peers == DDICT_RT_PEERS_SELF ? own_piece(data, len, all)
             : rt.peers == DDICT_RT_PEERS_PMIX
                 ? pmix_pieces(data, len, all, (int)(ms < 0x7fffffff ? ms : 0x7fffffff))
                 : dict_pieces(data, len, all, ms);
        rt.failed = rc < 0;
    }
    pthread_mutex_unlock(&turn);
    return rc;
}

int ddict_rt_barrier(int timeout_ms) {
    struct ddict_rt_bytes *all = NULL;
    int64_t ms = timeout_of(timeout_ms);
    int rc;

    pthread_mutex_lock(&turn);
    rc = taking_part();
    if (rc == 0) {
        if (rt.peers == DDICT_RT_PEERS_PMIX)
            rc = place_fence(&rt.place, (int)(ms < 0x7fffffff ? ms : 0x7fffffff));
        else if (rt.peers == DDICT_RT_PEERS_DICT)
            rc = dict_pieces("", 0, &all, ms);
        rt.failed = rc < 0;
    }
    pthread_mutex_unlock(&turn);
    free(all);
    return rc;
}
