/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pmix.c - rank, node and the exchange of rank infos through PMIx. Rules:
 *
 *  1. We ask only what every release of Slurm and Open MPI answers, and of that only what the
 *     library got when it was initialised (PMIX_OPTIONAL): job size, local peers, the list of nodes
 *     and the host of a rank. A remote rank's node id and the maps are not among them.
 *     PMIx_Resolve_peers() asks the server, and Open MPI's never answers for another node. Slurm
 *     does not support publish and lookup.
 *  2. No call waits without a limit: we use the non-blocking forms with a wait of our own. An
 *     answer that comes after the wait was given up still finds its struct wait; whichever side
 *     comes second frees it.
 *  3. A server serves one program of a task. It accepts a later program, but that one gets little
 *     information, and may get what the first program put. A later program recognises itself by
 *     having no local peers, and does not use PMIx. One in a hundred does have them, because the
 *     server was slow to notice the end of the first: hence programs that have a dictionary meet
 *     there (runtime.c). No mark can be left with the server for it: a commit at that moment makes
 *     the server of PMIx 4.2 fail in its store and end the step. Each key is used only once, too: a
 *     value that overwrites another one is not always seen.
 *  4. Slurm kills a client that ends without PMIx_Finalize, together with its step; hence atexit.
 *     A forked child must not finalize: its pid tells it from its parent.
 *  5. MPI_Init() of Open MPI 5 fails where PMIx is initialised before it (mpi_order.h).
 */
#include "backend.h"
#include "mpi_order.h"
#include "place.h"
#include "pmix_lib.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_SLICE_MS 100 /* far below DD_SUSPEND_GAP_MS */

static const struct pmix_calls *lib; /* NULL before pmix_init() */
static pmix_proc_t self;
static pid_t owner; /* who called PMIx_Init; 0: nobody */
/* PMIx_Finalize was called, and PMIx_Init does not work a second time */
static int has_left;
static unsigned exchanges; /* so far: every one has a key of its own, all ranks count alike */

struct wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int done, abandoned;
    pmix_status_t status;
    void *data; /* bytes of a get, ours */
    size_t len;
};

static struct wait *wait_new(void) {
    struct wait *w = calloc(1, sizeof *w);
    pthread_condattr_t attr;

    if (!w)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    return w;
}

static void wait_free(struct wait *w) {
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w->data);
    free(w);
}

static void wait_finish(struct wait *w, pmix_status_t status, const void *data, size_t len) {
    int free_it;

    pthread_mutex_lock(&w->lock);
    w->done = 1;
    w->status = status;
    if (data && (w->data = malloc(len + 1))) {
        memcpy(w->data, data, len);
        w->len = len;
    }
    free_it = w->abandoned;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (free_it)
        wait_free(w);
}

/* The status, or PMIX_ERR_TIMEOUT; then w is not the caller's any more. */
static pmix_status_t wait_for(struct wait *w, struct deadline *d) {
    pmix_status_t status = PMIX_ERR_TIMEOUT;
    int left, done;

    pthread_mutex_lock(&w->lock);
    while (!w->done && (left = deadline_left(d, WAIT_SLICE_MS)) > 0) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        ts.tv_nsec += left * 1000000L;
        ts.tv_sec += ts.tv_nsec / 1000000000L;
        ts.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&w->changed, &w->lock, &ts);
    }
    done = w->done;
    if (done)
        status = w->status;
    else
        w->abandoned = 1;
    pthread_mutex_unlock(&w->lock);
    return status;
}

static void on_fence(pmix_status_t status, void *arg) {
    wait_finish(arg, status, NULL, 0);
}

/* Bytes, a text without its end, or a number as uint32_t: who asks knows which. */
static void on_get(pmix_status_t status, pmix_value_t *v, void *arg) {
    if (status != PMIX_SUCCESS || !v)
        wait_finish(arg, status == PMIX_SUCCESS ? PMIX_ERR_NOT_FOUND : status, NULL, 0);
    else if (v->type == PMIX_BYTE_OBJECT)
        wait_finish(arg, status, v->data.bo.bytes, v->data.bo.size);
    else if (v->type == PMIX_STRING && v->data.string)
        wait_finish(arg, status, v->data.string, strlen(v->data.string));
    else if (v->type == PMIX_UINT32)
        wait_finish(arg, status, &v->data.uint32, sizeof v->data.uint32);
    else
        wait_finish(arg, PMIX_ERR_TYPE_MISMATCH, NULL, 0);
}

static int pmix_error(pmix_status_t status, const char *what) {
    if (status == PMIX_ERR_TIMEOUT)
        return dd_error(-ETIMEDOUT, "PMIx: %s: no answer of all tasks within the time", what);
    return dd_error(status == PMIX_ERR_NOMEM ? -ENOMEM : -EIO, "PMIx: %s: %s", what,
                    lib->error_string(status));
}

/* A value of our own namespace, malloc'ed with a zero after it; the status. With `here`: only what
 * needs no answer of the server. */
static pmix_status_t value_get(const char *key, pmix_rank_t rank, int here, void **data,
                               size_t *len, struct deadline *d) {
    struct wait *w = wait_new();
    pmix_info_t *info = here ? calloc(1, sizeof *info) : NULL;
    pmix_proc_t who = self;
    pmix_status_t status = PMIX_ERR_NOMEM;

    who.rank = rank;
    if (info) {
        strcpy(info->key, PMIX_OPTIONAL);
        info->value.type = PMIX_BOOL;
        info->value.data.flag = true;
    }
    if (w && (!here || info)) {
        status = lib->get_nb(&who, key, info, here ? 1 : 0, on_get, w);
        if (status == PMIX_SUCCESS) {
            status = wait_for(w, d);
            if (status == PMIX_ERR_TIMEOUT)
                /* info and w stay with the library, which may still look at them */
                return status;
        }
    }
    if (status == PMIX_SUCCESS && !w->data)
        status = PMIX_ERR_NOMEM;
    if (status == PMIX_SUCCESS) {
        ((char *)w->data)[w->len] = '\0';
        *data = w->data;
        *len = w->len;
        w->data = NULL;
    }
    free(info);
    if (w)
        wait_free(w);
    return status;
}

/* Of the whole job, or of a rank; NULL. */
static void *known_value(const char *key, pmix_rank_t rank, size_t *len) {
    struct deadline d;
    void *data;

    deadline_start(&d, DD_RT_ASK_MS);
    return value_get(key, rank, 1, &data, len, &d) == PMIX_SUCCESS ? data : NULL;
}

static int job_size(void) {
    size_t len = 0;
    void *data = known_value(PMIX_JOB_SIZE, PMIX_RANK_WILDCARD, &len);
    uint32_t n = 0;

    if (data && len == sizeof n)
        memcpy(&n, data, sizeof n);
    free(data);
    return n > 0 && n < (1u << 30) ? (int)n : -ENOENT;
}

/* The ranks of this node, "0,2,4": their number; the first cap of them in ranks. */
static int local_peers(int *ranks, int cap) {
    size_t len;
    char *text = known_value(PMIX_LOCAL_PEERS, PMIX_RANK_WILDCARD, &len), *s = text, *end;
    int n = 0;

    for (; s; s = *end == ',' ? end + 1 : NULL) {
        long r = strtol(s, &end, 10);

        if (end == s)
            break;
        if (n < cap)
            ranks[n] = (int)r;
        n++;
    }
    free(text);
    return n;
}

/* Our place among the ranks of this node. */
static int local_place(struct place *p) {
    int n = local_peers(NULL, 0), *ranks = malloc((size_t)(n + 1) * sizeof *ranks), i;

    if (!ranks)
        return -ENOMEM;
    p->local_rank = 0;
    p->local_size = local_peers(ranks, n);
    for (i = 0; i < n; i++)
        p->local_rank += ranks[i] < p->rank;
    free(ranks);
    return n > 0 ? 0 : -ENOENT;
}

/* The host of a rank, malloc'ed; NULL: not known. */
static char *host_get(pmix_rank_t rank) {
    size_t len;

    return known_value(PMIX_HOSTNAME, rank, &len);
}

/* The nodes in their order, "n1,n2", malloc'ed; NULL. */
static char *nodes_text(void) {
    size_t len;
    char *list = known_value(PMIX_NODE_LIST, PMIX_RANK_WILDCARD, &len);

    if (!list && lib->resolve_nodes(self.nspace, &list) != PMIX_SUCCESS)
        list = NULL;
    return list;
}

/* Number of nodes, and ours among them. Slurm's variable is the second opinion where PMIx does not
 * say. */
static int node_ids(struct place *p) {
    char *list = nodes_text(), *host = host_get(self.rank), *save, *node;
    const char *v;

    p->nodes = 0;
    p->node_id = -1;
    for (node = list ? strtok_r(list, ",", &save) : NULL; node; node = strtok_r(NULL, ",", &save)) {
        if (host && strcmp(node, host) == 0)
            p->node_id = p->nodes;
        p->nodes++;
    }
    free(list);
    free(host);
    if (p->node_id < 0 && (v = getenv("SLURM_NODEID")))
        p->node_id = atoi(v);
    if (p->nodes < 1 || p->node_id < 0 || p->node_id >= p->nodes)
        return dd_error(-EIO, "PMIx: rank %u is on none of the %d nodes of %s", self.rank, p->nodes,
                        self.nspace);
    return 0;
}

static int rank_compare(const void *a, const void *b) {
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static char *const *sorting; /* the names that indexes are sorted by; under the caller's lock */

static int name_compare(const void *a, const void *b) {
    return strcmp(sorting[*(const int *)a], sorting[*(const int *)b]);
}
static int name_find(const void *name, const void *at) {
    return strcmp(name, sorting[*(const int *)at]);
}

/* The node of every rank by its host; -ENOENT when one is not known. */
static int nodes_enter(struct place *p) {
    int *order = malloc((size_t)p->nodes * sizeof *order), r, i, rc = !order ? -ENOMEM : 0;

    for (i = 0; rc == 0 && i < p->nodes; i++)
        order[i] = i;
    sorting = p->names;
    if (rc == 0)
        qsort(order, (size_t)p->nodes, sizeof *order, name_compare);
    for (r = 0; rc == 0 && r < p->size; r++) {
        char *host = host_get((pmix_rank_t)r);
        int *at = !host ? NULL : bsearch(host, order, (size_t)p->nodes, sizeof *order, name_find);

        if (!at)
            rc = -ENOENT;
        else
            p->node_of[r] = *at;
        free(host);
    }
    free(order);
    return rc;
}

int pmix_maps(struct place *p) {
    char *list = nodes_text(), *save, *node;
    int n = 0, rc;

    p->locals = calloc((size_t)p->local_size, sizeof *p->locals);
    p->names = calloc((size_t)p->nodes, sizeof *p->names);
    p->node_of = malloc((size_t)p->size * sizeof *p->node_of);
    if (!p->locals || !p->names || !p->node_of || !list) {
        free(list);
        return -ENOMEM;
    }
    local_peers(p->locals, p->local_size);
    qsort(p->locals, (size_t)p->local_size, sizeof *p->locals, rank_compare);
    for (node = strtok_r(list, ",", &save); node && n < p->nodes; node = strtok_r(NULL, ",", &save))
        if (!(p->names[n++] = strdup(node)))
            break;
    free(list);
    if (n < p->nodes || !p->names[n - 1])
        return -ENOMEM;
    rc = nodes_enter(p);
    if (rc < 0) {
        free(p->node_of);
        p->node_of = NULL;
    }
    return rc == -ENOMEM ? rc : 0;
}

int pmix_of_slurm(const char *name) {
    return strncmp(name, "slurm.pmix.", 11) == 0;
}

/* Slurm's is named after its step, and is inherited by what is started from a task of it. */
const char *pmix_namespace(void) {
    const char *name = getenv("PMIX_NAMESPACE"), *job = getenv("SLURM_JOB_ID"),
               *step = getenv("SLURM_STEP_ID");
    char own[64];

    if (!name || *name == '\0' || !getenv("PMIX_RANK"))
        return NULL;
    if (pmix_of_slurm(name) && job && !getenv("SLURM_HET_SIZE")) {
        snprintf(own, sizeof own, "slurm.pmix.%s.%s", job, step ? step : "-");
        if (strcmp(name, own) != 0)
            return NULL;
    }
    return name;
}

/*
 * Of a container that does not show the folder of the server, or the one in which that of PMIx 5
 * tells a task what it knows. Slurm has that under TmpFS, which is not told: /tmp unless a site
 * says otherwise.
 */
static int files_hidden(void) {
    const char *folder = getenv("PMIX_SERVER_TMPDIR"), *module = getenv("PMIX_GDS_MODULE"),
               *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID"),
               *name = getenv("PMIX_NAMESPACE");
    char of_task[128];

    if (folder && access(folder, R_OK | X_OK) < 0)
        return 1;
    if (!module || !strstr(module, "shmem") || !name || !pmix_of_slurm(name) || !job || !step)
        return 0;
    snprintf(of_task, sizeof of_task, "/tmp/spmix_appdir_%u_%.20s.%.20s", (unsigned)getuid(), job,
             step);
    return access(of_task, R_OK | X_OK) < 0;
}

static int place_ask(struct place *p) {
    int rc = job_size();

    p->how = PLACE_PMIX;
    p->rank = (int)self.rank;
    p->size = rc;
    /* Slurm's has the name that slurm_env.c gives it: ranks that found their place by the one and
     * by the other are one group. */
    if (pmix_of_slurm(self.nspace))
        snprintf(p->group, sizeof p->group, "slurm.%s", self.nspace + 11);
    else
        snprintf(p->group, sizeof p->group, "%s", self.nspace);
    if (rc > 0)
        rc = local_place(p);
    if (rc == -ENOENT && files_hidden())
        return dd_error(-EIO, "PMIx: the files of its server are not to be seen here, as in a "
                              "container with a /tmp of its own");
    if (rc == -ENOENT)
        return dd_error(-EIO,
                        "PMIx: rank %u of %s was another program before, and its server serves one",
                        self.rank, self.nspace);
    return rc < 0 ? rc : node_ids(p);
}

int pmix_joined(void) {
    return owner != 0 && owner == getpid();
}

static int pmix_join_once(void) {
    static int registered;
    pmix_status_t status;

    /* What the server knows is in files; asked so, it tells it by a message. Without them PMIx 5
     * says PMIX_SUCCESS and knows nothing. To ask where they can be seen does no harm. */
    if (files_hidden())
        setenv("PMIX_MCA_gds", "hash", 0);
    status = lib->init(&self, NULL, 0);
    if (status == PMIX_ERR_UNREACH)
        return -ENOENT;
    if (status != PMIX_SUCCESS)
        return pmix_error(status, "cannot join");
    owner = getpid();
    if (!registered && atexit(pmix_finalize) == 0)
        registered = 1;
    return 0;
}

int pmix_init(struct place *p) {
    const char *name = pmix_namespace();
    struct place q = *p;
    int rc = !name || has_left ? -ENOENT : pmix_lib_open(&lib);

    if (rc == 0 && !pmix_joined() && mpi_will_fail())
        rc = dd_error(-EBUSY, "PMIx: MPI_Init() of Open MPI 5 fails after it: call that before, or "
                              "give the ranks a dictionary");
    if (rc == 0 && !pmix_joined())
        rc = pmix_join_once();
    if (rc < 0)
        return rc;
    /* Without a server newer libraries make one up for us alone. */
    rc = strcmp(self.nspace, name) != 0 ? -ENOENT : place_ask(&q);
    if (rc < 0)
        pmix_finalize();
    else
        *p = q;
    return rc;
}

static int fence_execute(int collect, struct deadline *d) {
    struct wait *w = wait_new();
    pmix_status_t status;
    pmix_info_t *info;

    if (!w)
        return -ENOMEM;
    info = calloc(1, sizeof *info);
    if (!info) {
        wait_free(w);
        return -ENOMEM;
    }
    strcpy(info->key, PMIX_COLLECT_DATA);
    info->value.type = PMIX_BOOL;
    info->value.data.flag = collect;
    status = lib->fence_nb(NULL, 0, info, 1, on_fence, w);
    if (status == PMIX_SUCCESS) {
        status = wait_for(w, d);
        if (status == PMIX_ERR_TIMEOUT)
            /* info and w stay with the library, which may still look at them */
            return pmix_error(status, "fence");
    } else if (status == PMIX_OPERATION_SUCCEEDED) {
        status = PMIX_SUCCESS;
    }
    wait_free(w);
    free(info);
    return status == PMIX_SUCCESS ? 0 : pmix_error(status, "fence");
}

/*
 * A fence with data. When a rank dies before it comes to one that another rank of its node waits
 * in, Slurm's server fails in its store, and the step never ends (22.05 with PMIx 4.2). So the
 * ranks of a node meet before: a fence without data stands that.
 */
static int fence_collect(const struct place *p, struct deadline *d) {
    int rc = pmix_of_slurm(self.nspace) && p->size > p->nodes ? fence_execute(0, d) : 0;

    return rc < 0 ? rc : fence_execute(1, d);
}

/* Slurm ends a fence without data on each node alone, where the nodes are fewer than TreeWidth. It
 * holds one that collects data, though there be none. */
int pmix_fence(const struct place *p, int timeout_ms) {
    struct deadline d;

    deadline_start(&d, timeout_ms);
    return pmix_of_slurm(self.nspace) && p->nodes > 1 ? fence_collect(p, &d) : fence_execute(0, &d);
}

static int value_get_of_rank(const char *key, int rank, void **info, size_t *len,
                             struct deadline *d) {
    pmix_status_t status = value_get(key, (pmix_rank_t)rank, 0, info, len, d);
    char what[64];

    if (status == PMIX_SUCCESS)
        return 0;
    snprintf(what, sizeof what, "information of rank %d", rank);
    return pmix_error(status, what);
}

int pmix_exchange(struct place *p, const void *info, size_t len, void **infos, size_t *lens,
                  int (*enough)(const void *info, size_t len), int timeout_ms) {
    struct deadline d;
    pmix_status_t status;
    pmix_value_t v;
    char key[32];
    int rc, r;

    deadline_start(&d, timeout_ms);
    snprintf(key, sizeof key, "ddict.card.%u", exchanges++);
    memset(&v, 0, sizeof v);
    v.type = PMIX_BYTE_OBJECT;
    v.data.bo.bytes = (char *)(uintptr_t)info;
    v.data.bo.size = len;
    status = lib->put(PMIX_GLOBAL, key, &v);
    if (status == PMIX_SUCCESS)
        status = lib->commit();
    if (status != PMIX_SUCCESS)
        return pmix_error(status, "cannot give our information");
    rc = fence_collect(p, &d);
    for (r = 0; rc == 0 && r < p->size; r++) {
        rc = value_get_of_rank(key, r, &infos[r], &lens[r], &d);
        if (rc < 0)
            while (r-- > 0) {
                free(infos[r]);
                infos[r] = NULL;
            }
        else if (r == 0 && enough && enough(infos[0], lens[0]))
            break;
    }
    return rc;
}

void pmix_finalize(void) {
    if (!pmix_joined())
        return;
    owner = 0;
    has_left = 1;
    lib->finalize(NULL, 0);
}
