/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddict_runtime.h - who and where is this process among those of its job, and who else is there.
 * For every way of starting them.
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
 * RANKS. The processes that were started together are numbered 0 .. size - 1; those of one node
 * also 0 .. local_size - 1 in order of rank; the nodes on which there are some 0 .. nodes - 1, in
 * the order of the launcher's list. ddict_rt_init() asks, in this order, and takes the first
 * answer:
 *
 *     DDICT_RT_TORCHRUN  torchrun (python -m torch.distributed.run): the variables of its workers
 *     DDICT_RT_RUN       `ddict run -n N`: its variables
 *     DDICT_RT_PMIX      PMIx: srun --mpi=pmix, mpirun, prterun
 *     DDICT_RT_MPIRUN    Open MPI's and PRRTE's variables, where PMIx does not answer
 *     DDICT_RT_SLURM     Slurm's variables: srun --mpi=none, --mpi=pmi2, or no PMIx library
 *                        installed
 *     DDICT_RT_SINGLE    one process alone: a batch script, a shell of salloc, no Slurm at all
 *
 * The PMIx library is opened when it is needed and need not be installed. $DDICT_PMIX names another
 * one, or is `no` to leave PMIx alone.
 *
 * PEERS. The ranks of a Slurm step meet through the dictionary that $DDICT_NAME names, and through
 * PMIx where there is none; those of mpirun through PMIx where they have it. info.peers says which.
 *
 * WHAT IS CERTAIN. rank, size, local_rank and local_size always are; node_id, nodes and the ranks
 * of this node, too, except by Open MPI's variables on several nodes. Where another rank runs is
 * with PMIx and on one node; Slurm's variables tell it for the distributions block, cyclic and
 * plane, which are checked against the ranks of this node, and not for arbitrary; torchrun's do not
 * tell it. What is not certain is not guessed: those calls give -ENODATA, info.map is 0, and
 * info.node_id and info.nodes are -1.
 *
 * RETURN VALUES. Functions that return int give 0 (or a number, where it says so) or a negative
 * code: a negated errno value or one of the DDICT_E* of ddict.h, which ddict_strerror() explains;
 * ddict_rt_errmsg() gives the full sentence for the last failure of the calling thread. -EINVAL
 * from any call but the first: ddict_rt_init() was not called, or an argument is out of range.
 *
 * TIMEOUTS. timeout_ms: milliseconds, -1 = 60 s ($DDICT_TIMEOUT seconds), 0 = do not wait. A
 * process that was suspended has its deadline extended by that time. No call waits for ever.
 *
 * THREADS. Any thread may call anything. Collective calls (exchange, barrier) of one process run
 * one after the other: the ranks must make them in the same order, so let one thread make them.
 *
 * FORK, SPAWN. A forked child keeps the answers (rank, size, ...) and is not a rank of its own:
 * exchange and barrier give it -EPERM, and it need not and cannot finalize. A process started by a
 * rank with the rank's variables (a data loader's worker) finds the same place when it calls
 * ddict_rt_init(), and PMIx is left to the first one as long as that lives; info.peers then says
 * DDICT_RT_PEERS_NONE. exec: a new program, which calls ddict_rt_init() again.
 *
 * PROGRAMS. A PMIx server serves one program of a task: when a script runs several, one after the
 * other, the first that uses PMIx has it (`ddict runtime` is one, unless it has --no-pmix). Later
 * ones find out by the other ways and meet through the dictionary; without one they cannot meet.
 * MPI_Init() fails in them.
 *
 * END. Slurm takes a PMIx client that ends without having said goodbye for a crash and kills its
 * step. exit() says it, so that return from main(), sys.exit() and an unhandled Python exception
 * are covered. Before _exit() and exec call ddict_rt_leave(). abort() and signals are not covered,
 * and end the step as Slurm's --kill-on-bad-exit says. MPI in the same process may be initialised
 * and finalized before or after ddict_rt_init() and ddict_rt_finalize(), in any order.
 *
 * DEATH. When a rank has died, exchange and barrier of the others end with -ETIMEDOUT, or Slurm
 * ends the step first. After a collective call that failed, later ones of this process give
 * -ECANCELED: nobody knows any more who has seen what.
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

/* Who said where we are. */
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
    DDICT_RT_PEERS_NONE  /* not at all: neither is there; exchange and barrier give -ENOTSUP */
};

struct ddict_rt_info {
    int how;   /* DDICT_RT_* */
    int peers; /* DDICT_RT_PEERS_* */
    int rank, size;
    int local_rank, local_size;
    int node_id, nodes; /* -1: not known */
    int map;            /* 1: where every rank runs is known */
    /* name of this node: Slurm's, else the host's without its domain. The library's, until the end
     * of the process */
    const char *node;
    /* names those who were started together, the same in all of them: "slurm.17.0",
     * "torchrun.abc.0". The library's, as node */
    const char *group;
    const char *how_name;   /* "PMIx", "Slurm's variables", ...: static */
    const char *peers_name; /* "PMIx", "the dictionary", "none", "alone": static */
};

#define DDICT_RT_NO_PMIX 1u /* use the other ways only, as $DDICT_PMIX=no does */

/*
 * Find out. Every call is to be followed by one ddict_rt_finalize(); only the first one does
 * anything, and only its flags count. Asks no other rank, so ranks need not call it together. PMIx
 * costs about 15 ms, the others some microseconds. flags: 0 or DDICT_RT_NO_PMIX. PMIx that seems to
 * be there and fails (in a container that hides the server's files) is passed over:
 * ddict_rt_trouble(). Errors: -ENOMEM, -EINVAL (unknown flag), -EPERM (a child that was forked
 * after ddict_rt_init(): it has the answers already).
 */
DDICT_RT_API int ddict_rt_init(unsigned flags);

/*
 * Undo one ddict_rt_init(); the last one leaves the dictionary. Not collective. After it
 * ddict_rt_init() works again and finds the same. PMIx is kept until exit(), because it cannot be
 * initialised twice in a process, and MPI may want it yet. Rank 0 may wait up to a second for the
 * others to have read the last exchange. 0, or -EINVAL when there is nothing to undo.
 */
DDICT_RT_API int ddict_rt_finalize(void);

/*
 * Undo all ddict_rt_init() and leave PMIx, too: for a process that goes on to exec or _exit(). Not
 * collective. From now on nothing in this process can use PMIx: MPI_Init() fails (MPI that is
 * initialised goes on), and ddict_rt_init() finds other ways. 0.
 */
DDICT_RT_API int ddict_rt_leave(void);

/* What was found. info is the caller's. 0 or -EINVAL. */
DDICT_RT_API int ddict_rt_get_info(struct ddict_rt_info *info);

/* One figure of info each; -EINVAL; -ENODATA where info has -1. */
DDICT_RT_API int ddict_rt_rank(void);
DDICT_RT_API int ddict_rt_size(void);
DDICT_RT_API int ddict_rt_local_rank(void);
DDICT_RT_API int ddict_rt_local_size(void);
DDICT_RT_API int ddict_rt_node_id(void);
DDICT_RT_API int ddict_rt_nodes(void);

/*
 * Name of node `node`, 0 .. nodes - 1, as the launcher says it. The library's, until the last
 * ddict_rt_finalize(). NULL: out of range, or not known (torchrun and Open MPI's variables tell
 * this node's only).
 */
DDICT_RT_API const char *ddict_rt_node_name(int node);

/* The node on which rank `rank` runs, 0 .. nodes - 1; -ENODATA when that is not certain. */
DDICT_RT_API int ddict_rt_node_of(int rank);

/* Name of that node, or NULL with a sentence. As ddict_rt_node_name(). */
DDICT_RT_API const char *ddict_rt_host_of(int rank);

/*
 * The ranks of a node in rising order; their number, or -ENODATA when not certain, -EINVAL. ranks:
 * room for cap of them, may be NULL with cap 0; when there are more, the first cap are written.
 */
DDICT_RT_API int ddict_rt_ranks_of(int node, int *ranks, int cap);

/* What one rank gave. */
struct ddict_rt_bytes {
    const void *data; /* 8-byte aligned; in the same block of memory as the array */
    size_t len;       /* bytes */
};

/*
 * Every rank gives len bytes at data and gets those of all. Collective: returns when all have given
 * theirs. *all receives an array of size entries in order of rank, one block of memory that the
 * caller free()s. len may differ between ranks and be 0; 1 MiB at most. Meant for addresses and the
 * like, some dozen times in the life of a process: PMIx keeps what it was given to the end and
 * moves all of it every time, so that the hundredth takes several times as long as the first.
 * Through the dictionary each takes as long as the others. Errors: -ETIMEDOUT (not all came),
 * -ENOTSUP (no way to reach the others; the sentence says what to add), -EPERM (a forked child),
 * -ECANCELED (an earlier one failed), -E2BIG, -ENOMEM, -EIO (PMIx), DDICT_E* (the dictionary). On
 * failure *all is untouched.
 */
DDICT_RT_API int ddict_rt_exchange(const void *data, size_t len, struct ddict_rt_bytes **all,
                                   int timeout_ms);

/* Collective: returns when all ranks have called it. Errors as above. */
DDICT_RT_API int ddict_rt_barrier(int timeout_ms);

/* --- GPUs --- */

enum {
    DDICT_RT_GPU_NONE, /* leave them as they are */
    /* one order for all ranks of the node, device LOCAL_RANK (modulo the devices) is the rank's */
    DDICT_RT_GPU_CLOSEST,
    DDICT_RT_GPU_ROTATE /* the rank's own is device 0, the others follow */
};
struct ddict_rt_gpu {
    const char *variable; /* that was set: "CUDA_VISIBLE_DEVICES", ...; NULL: none */
    const char *value;    /* of it: the library's, until the next call */
    int device;           /* which device is the rank's: for set_device(); -1: not bound */
    int devices;          /* visible ones */
    int pci_order;        /* 1: CUDA_DEVICE_ORDER=PCI_BUS_ID was set, too */
    /* ranks on the GPU that has most of them; 1 while there are no more ranks than GPUs */
    int shared;
    int numa;     /* NUMA node that the rank's GPU is nearest to; -1: not known */
    char pci[16]; /* of the rank's GPU, "0000:84:00.0"; "" when not known */
};

/*
 * Put the GPUs that this process may use into the order that fits the cores of all ranks of its
 * node, by setting the variable of their vendor in this process: call it before the first use of a
 * GPU, and while no other thread reads the environment. The total distance is the least there is;
 * no GPU has two ranks while there are no more ranks than GPUs. All that were visible stay so, none
 * is added. gpu: the answer, may be NULL.
 *
 * Where Slurm gave every task the cores of all (--cpu-bind), ranks need not call it together. With
 * mpirun or torchrun they must, all of the job: it is an exchange. 1: bound; 0: there is nothing to
 * bind, or Slurm has given each task its own (ddict_rt_errmsg() says which). Errors, the variable
 * is as it was: -EINVAL (the variable cannot be understood), -ENOENT (no hwloc here), those of
 * ddict_rt_exchange().
 */
DDICT_RT_API int ddict_rt_bind_gpu(int how, struct ddict_rt_gpu *gpu);

/* Why PMIx, which seemed to be there, was passed over by ddict_rt_init(): a sentence, or "". The
 * library's, until the last ddict_rt_finalize(). */
DDICT_RT_API const char *ddict_rt_trouble(void);

/* Sentence of the calling thread's last failure in this library; "" when none. Valid until its next
 * failure. */
DDICT_RT_API const char *ddict_rt_errmsg(void);

#ifdef __cplusplus
}
#endif
#endif
