/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddict_runtime.h - which rank this process is, on which node, and who the other ranks are, however
 * they were started.
 *
 *     rank 0 on node n1                               rank 3 on node n2
 *     ddict_rt_init(0);                               ddict_rt_init(0);
 *     ddict_rt_get_info(&me);                         ddict_rt_get_info(&me); me.rank 3,
 *                                                     me.local_rank 1, me.node "n2"
 *     ddict_rt_exchange(mine, 64, &all, -1);          ddict_rt_exchange(mine, 64, &all, -1);
 *     connect_to(all[3].data, all[3].len);            ...
 *     free(all);                                      free(all);
 *     ddict_rt_barrier(5000);                         ddict_rt_barrier(5000);
 *     ddict_rt_finalize();                            ddict_rt_finalize();
 *
 * RANKS. The processes that were started together have ranks 0 .. size - 1; those of one node also
 * local ranks 0 .. local_size - 1, in order of rank; their nodes have ids 0 .. nodes - 1, in the
 * order of the launcher's list. ddict_rt_init() asks in this order and takes the first answer:
 *
 *     DDICT_RT_TORCHRUN  torchrun (python -m torch.distributed.run): the variables of its workers
 *     DDICT_RT_RUN       `ddict run -n N`: its variables
 *     DDICT_RT_PMIX      PMIx: srun --mpi=pmix, mpirun, prterun. Of srun only where there is no
 *                        dictionary to meet in ($DDICT_NAME), or Slurm's variables do not tell all
 *     DDICT_RT_MPIRUN    Open MPI's and PRRTE's variables, if PMIx does not answer
 *     DDICT_RT_SLURM     Slurm's variables: srun with a dictionary, --mpi=none, --mpi=pmi2, or no
 *                        PMIx library installed
 *     DDICT_RT_SINGLE    one process alone: a batch script, a shell of salloc, no Slurm at all
 *
 * The PMIx library is opened when it is needed and need not be installed. $DDICT_PMIX names another
 * one, or is `no` to leave PMIx alone.
 *
 * PEERS. The ranks of a Slurm step meet through the dictionary that $DDICT_NAME names, or through
 * PMIx if there is none or it is one of several (--ddict-scope=component); those of mpirun through
 * PMIx if they have it. info.peers says which.
 *
 * WHAT IS CERTAIN. rank, size, local_rank and local_size always are. node_id, nodes and the ranks
 * of this node are, except by Open MPI's variables on several nodes. Where other ranks run is
 * certain with PMIx and on one node. Slurm's variables tell it for the distributions block, cyclic
 * and plane, which are checked against the ranks of this node, but not for arbitrary; torchrun's do
 * not tell it. What is not certain is not guessed: those calls give -ENODATA, info.map is 0, and
 * info.node_id and info.nodes are -1.
 *
 * RETURN VALUES. Functions that return int give 0 (or a number, where the comment says so) or a
 * negative code: a negated errno value or one of the DDICT_E* codes of ddict.h, which
 * ddict_strerror() explains. ddict_rt_errmsg() gives the full sentence for the last failure of the
 * calling thread. Every call but ddict_rt_init() gives -EINVAL if that was not called, or if an
 * argument is out of range.
 *
 * TIMEOUTS. timeout_ms is in milliseconds; -1 is the default, $DDICT_TIMEOUT seconds or 60 s; 0 is
 * not to wait. The deadline of a process that was suspended moves by that time. No call waits for
 * ever.
 *
 * THREADS. Any thread may call anything. Collective calls (exchange, barrier) of one process run
 * one after the other. All ranks must make them in the same order, so let one thread make them.
 *
 * FORK, SPAWN. A forked child keeps the answers (rank, size, ...) but is no rank of its own:
 * exchange and barrier give it -EPERM, and it need not and cannot finalize. A process that a rank
 * starts with its own variables (a data loader's worker) finds the same place when it calls
 * ddict_rt_init(). PMIx stays with the first such process as long as that lives; info.peers of the
 * others is DDICT_RT_PEERS_NONE. After exec the new program calls ddict_rt_init() again.
 *
 * PROGRAMS. A PMIx server serves one program of a task. If a script runs several programs, one
 * after the other, the first that uses PMIx has it (`ddict runtime` is one, unless it has
 * --no-pmix). Later ones find their rank by the other ways and meet through the dictionary; without
 * a dictionary they cannot meet. MPI_Init() fails in them. Ranks of srun with a dictionary
 * leave PMIx to MPI.
 *
 * END. If a PMIx client (info.how is DDICT_RT_PMIX) ends without a goodbye, Slurm takes that for a
 * crash and kills its step; other ranks are none, and their step goes on without them.
 * exit() says goodbye, so return from main(), sys.exit() and an unhandled Python exception are
 * covered. Before _exit() and exec call ddict_rt_leave(). abort() and signals are not covered, and
 * end the step as Slurm's --kill-on-bad-exit says.
 *
 * MPI in the same process may be initialised and finalized before or after ddict_rt_init() and
 * ddict_rt_finalize(), in any order, with one exception: MPI_Init() of Open MPI 5 and later fails
 * where we use PMIx (info.how is DDICT_RT_PMIX) before it. So with mpirun, and with srun without a
 * dictionary, call MPI_Init() first. Where its library is loaded and that was not done, PMIx is
 * passed over, and ddict_rt_trouble() says so.
 *
 * DEATH. When a rank has died, exchange and barrier of the others end with -ETIMEDOUT, unless Slurm
 * ends the step first. After a collective call that failed, later ones of this process give
 * -ECANCELED, because no rank knows any more what the others have seen.
 */
#ifndef DDICT_RT_DDICT_RUNTIME_H
#define DDICT_RT_DDICT_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DDICT_RT_API __attribute__((visibility("default")))
#else
#define DDICT_RT_API
#endif

/* Where the answers came from. */
enum {
    DDICT_RT_SINGLE,
    DDICT_RT_SLURM,
    DDICT_RT_PMIX,
    DDICT_RT_MPIRUN,
    DDICT_RT_TORCHRUN,
    DDICT_RT_RUN
};
/* How exchange and barrier reach the others. */
enum {
    DDICT_RT_PEERS_SELF, /* there are no others */
    DDICT_RT_PEERS_PMIX,
    DDICT_RT_PEERS_DICT, /* through the dictionary that $DDICT_NAME names */
    DDICT_RT_PEERS_NONE  /* not at all: exchange and barrier give -ENOTSUP */
};

struct ddict_rt_info {
    int how;   /* DDICT_RT_* */
    int peers; /* DDICT_RT_PEERS_* */
    int rank, size;
    int local_rank, local_size;
    int node_id, nodes; /* -1: not known */
    int map;            /* 1: where every rank runs is known */
    /* name of this node: Slurm's, else the host's without its domain. It is the library's, and
     * valid until the end of the process */
    const char *node;
    /* name of all that were started together, the same in each of them: "slurm.17.0",
     * "torchrun.abc.n1.29501.-" of one round of torchrun. The library's, as node */
    const char *group;
    const char *how_name;   /* "PMIx", "Slurm's variables", ...: static */
    const char *peers_name; /* "PMIx", "the dictionary", "none", "alone": static */
};

#define DDICT_RT_NO_PMIX 1u /* use the other ways only, as $DDICT_PMIX=no does */

/*
 * Find out rank and node. Only the first call does anything, and only its flags count; each call
 * needs one ddict_rt_finalize(). Asks no other rank, so ranks need not call it together. PMIx takes
 * about 15 ms, the other ways some microseconds. flags: 0 or DDICT_RT_NO_PMIX. If PMIx seems to be
 * there and fails (in a container with another user), the other ways are used, and
 * ddict_rt_trouble() says why. Errors: -ENOMEM, -EINVAL (unknown flag), -EPERM (a child that was
 * forked after ddict_rt_init(): it has the answers already).
 */
DDICT_RT_API int ddict_rt_init(unsigned flags);

/*
 * Undo one ddict_rt_init(); undoing the last one leaves the dictionary. Not collective. Afterwards
 * ddict_rt_init() works again and finds the same. PMIx is kept until exit(), because it cannot be
 * initialised twice in a process, and MPI may still need it. Rank 0 may wait up to a second until
 * the others have read the last exchange. 0, or -EINVAL if there is nothing to undo.
 */
DDICT_RT_API int ddict_rt_finalize(void);

/*
 * Undo all ddict_rt_init() and leave PMIx, too: for a process that is about to call exec or
 * _exit(). Not collective. From now on nothing in this process can use PMIx: MPI_Init() fails (MPI
 * that is initialised goes on), and ddict_rt_init() uses the other ways. Returns 0.
 */
DDICT_RT_API int ddict_rt_leave(void);

/* Write what was found to *info. 0 or -EINVAL. */
DDICT_RT_API int ddict_rt_get_info(struct ddict_rt_info *info);

/* One number of info each; -ENODATA where info has -1; or -EINVAL. */
DDICT_RT_API int ddict_rt_rank(void);
DDICT_RT_API int ddict_rt_size(void);
DDICT_RT_API int ddict_rt_local_rank(void);
DDICT_RT_API int ddict_rt_local_size(void);
DDICT_RT_API int ddict_rt_node_id(void);
DDICT_RT_API int ddict_rt_nodes(void);

/*
 * Name of node `node`, 0 .. nodes - 1, as the launcher says it. It is the library's, and valid
 * until the last ddict_rt_finalize(). NULL: out of range, or not known (torchrun's and Open MPI's
 * variables tell only this node's).
 */
DDICT_RT_API const char *ddict_rt_node_name(int node);

/* The node on which rank `rank` runs, 0 .. nodes - 1; -ENODATA if that is not certain. */
DDICT_RT_API int ddict_rt_node_of(int rank);

/* The name of that node, valid as that of ddict_rt_node_name(); or NULL with the sentence set. */
DDICT_RT_API const char *ddict_rt_host_of(int rank);

/*
 * Write the ranks of a node to ranks, in rising order; it has room for cap of them, and only the
 * first cap are written. ranks may be NULL with cap 0. Returns their number, -ENODATA if that is
 * not certain, or -EINVAL.
 */
DDICT_RT_API int ddict_rt_ranks_of(int node, int *ranks, int cap);

/* What one rank gave. */
struct ddict_rt_bytes {
    const void *data; /* 8-byte aligned; in the same block of memory as the array */
    size_t len;       /* bytes */
};

/*
 * Give the len bytes at data, and get those of every rank. Collective: returns when all ranks have
 * given theirs. *all receives an array of `size` entries in order of rank, one block of memory that
 * the caller frees. len may differ between ranks: 0 to 1 MiB.
 *
 * Meant for addresses and the like, some dozen times in the life of a process. PMIx keeps what it
 * was given until the end and moves all of it every time, so the hundredth exchange takes several
 * times as long as the first. Through the dictionary each takes equally long.
 *
 * Errors: -ETIMEDOUT (not all ranks came), -ENOTSUP (no way to reach the others; the sentence says
 * what to add), -EPERM (a forked child), -ECANCELED (an earlier collective call failed), -E2BIG,
 * -ENOMEM, -EIO (PMIx), DDICT_E* (the dictionary). On failure *all is untouched.
 */
DDICT_RT_API int ddict_rt_exchange(const void *data, size_t len, struct ddict_rt_bytes **all,
                                   int timeout_ms);

/* Collective: returns when all ranks of all nodes have called it. Errors as ddict_rt_exchange(). */
DDICT_RT_API int ddict_rt_barrier(int timeout_ms);

/* --- GPUs --- */

enum {
    DDICT_RT_GPU_NONE, /* leave them as they are */
    /* one order for all ranks of the node; the rank's own is device LOCAL_RANK (modulo devices) */
    DDICT_RT_GPU_CLOSEST,
    DDICT_RT_GPU_ROTATE /* the rank's own is device 0, the others follow */
};
struct ddict_rt_gpu {
    const char *variable; /* that was set: "CUDA_VISIBLE_DEVICES", ...; NULL: none */
    const char *value;    /* its value: the library's, valid until the next call */
    int device;           /* the rank's device, for set_device(); -1: not bound */
    int devices;          /* how many are visible */
    int pci_order;        /* 1: CUDA_DEVICE_ORDER=PCI_BUS_ID was set, too */
    /* ranks on the GPU that has most of them; 1 if there are no more ranks than GPUs */
    int shared;
    int numa;     /* NUMA node that the rank's GPU is nearest to; -1: not known */
    char pci[16]; /* of the rank's GPU, "0000:84:00.0"; "" when not known */
};

/*
 * Put the GPUs that this process may use into the order that fits the cores of all ranks of its
 * node, by setting their vendor's variable in this process. Call it before the first use of a GPU,
 * and while no other thread reads the environment. The sum of the distances between ranks and GPUs
 * is the least possible, and no GPU has two ranks if there are no more ranks than GPUs. All GPUs
 * that were visible stay visible, and none is added. *gpu (gpu may be NULL) receives the answer.
 *
 * If Slurm told every task the cores of all (--cpu-bind), ranks need not call this together. With
 * mpirun or torchrun all ranks of the job must, because it is an exchange. Returns 1: bound; 0:
 * there is nothing to bind, or Slurm gave each task GPUs of its own (ddict_rt_errmsg() says which).
 * Errors, which leave the variable as it was: -EINVAL (the variable cannot be understood), -ENOENT
 * (no hwloc here), those of ddict_rt_exchange().
 */
DDICT_RT_API int ddict_rt_bind_gpu(int how, struct ddict_rt_gpu *gpu);

/* Why ddict_rt_init() did not use PMIx although it seemed to be there: a sentence, or "". It is the
 * library's, and valid until the last ddict_rt_finalize(). */
DDICT_RT_API const char *ddict_rt_trouble(void);

/* The sentence of the calling thread's last failure in this library, or "". Valid until its next
 * failure. */
DDICT_RT_API const char *ddict_rt_errmsg(void);

#ifdef __cplusplus
}
#endif
#endif
