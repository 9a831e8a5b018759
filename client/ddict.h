/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddict.h - the distributed dictionary of a Slurm job, seen from one process of that job.
 *
 *     rank 0 on node n1                          rank 3 on node n2
 *     ddict_attach(&d, NULL, -1);                ddict_attach(&d, NULL, -1);
 *     ddict_put(d, "w", 1, w, len, 0, -1);       ddict_view(d, "w", 1, &v, DDICT_WAIT, 5000);
 *                                                use(v.data, v.len);      read only, in place
 *                                                ddict_release(&v);
 *     ddict_detach(d);                           ddict_detach(d);
 *
 * Link with -lddict (`pkg-config --libs ddict`); libddict(3) lists all calls.
 *
 * KEYS AND VALUES. A key is 1 to DDICT_KEY_MAX bytes, compared as bytes. A value is any number of
 * bytes, 0 included, up to what one manager can hold. Each key belongs to one manager
 * (ddict_owner()), which holds its value. Processes read values of managers on their own node in
 * place; values of other nodes come through a manager of this node.
 *
 * TAGS. Keys that share a tag are on one manager: the bytes between the first '{' of a key and the
 * first '}' behind it, if there are any, say where it is, as in Redis Cluster. "{w7}/weights" and
 * "{w7}/state" are together, and so are all keys with that tag, which should be few.
 *
 * HIDDEN KEYS. Under some keys the project keeps what it must know itself: the descriptions of data
 * sets, queues of the Python binding, results on their way to files. As files whose names begin
 * with a dot they are there for who names them, and are not listed: ddict_len() does not count
 * them, and iterators and subscriptions pass them over unless asked. A key is hidden if its bytes
 * begin with "sddict." or with a zero byte and "ddict.", or if they are 't', any four bytes and
 * "sddict." (FORMAT 5): use no such keys.
 *
 * RETURN VALUES. Functions that return int give 0 (or a count, where the comment says so) or a
 * negative code: a negated errno value (-ETIMEDOUT, -ENOMEM, -EINVAL) or one of the DDICT_E* codes
 * of ddict_types.h. ddict_strerror() explains both kinds. ddict_errmsg() gives the full sentence
 * for the last failure of the calling thread: which manager, which node, how full. The comments
 * name the errors that are particular to a call; every call that needs a manager can also give
 * DDICT_ELOST, DDICT_EGONE, -ETIMEDOUT and -ENOMEM.
 *
 * A call that fails has stored nothing and removed nothing, with one exception: after -ETIMEDOUT,
 * DDICT_ELOST and DDICT_EGONE a put, del, pop or clear may have taken effect, or may still take
 * effect when the manager reads what was sent to it. ddict_pop() says more about pops.
 *
 * TIMEOUTS. Every call that can wait takes timeout_ms in milliseconds. -1 is the default:
 * $DDICT_TIMEOUT seconds, or if that is not set 60 s; where ddict_refills() 30 min for calls
 * without DDICT_WAIT, because they may wait until a source is read. 0 is not to wait: values of
 * managers on this node are read in place, and a call that would have to ask a manager gives
 * -ETIMEDOUT and sends nothing. No call waits for ever.
 *
 *     - With DDICT_WAIT the manager decides when the time is over, and the call waits for that
 *       answer 50 ms longer, a pop or push 1 s longer. Otherwise a manager that is only late would
 *       hand a value to nobody, or store one that the caller believes refused.
 *     - Deadlines of a process that was suspended for 2 s or more move by the time that it was
 *       suspended. A machine so busy that a thread gets no core for 2 s looks like a suspension.
 *
 * CONTAINERS. A container may have private mounts (/tmp and /dev/shm included), pids and users, as
 * long as the process is the job's user outside of its user namespace and has a uid of its own
 * inside (unmapped users all appear as 65534, "nobody"). If the container has a network namespace
 * of its own, a socket file leads out of it: $DDICT_SOCKET, see `ddict socket` in ddict(1). The
 * container's environment needs DDICT_NAME, SLURMD_NODENAME, and DDICT_NODE where that is set.
 *
 * THREADS. Any number of threads may use a handle at once. Changes by different threads take effect
 * in any order; those of one thread take effect in its order. ddict_errmsg() is per thread. Who may
 * use what at once, and what is left of it after a fork:
 *
 *     object          threads                                   in a forked child
 *     handle          any number; detach when no call is        goes on: attaches anew
 *                     under way
 *     view            any number read it; one releases it,      readable; to be released in both
 *                     once
 *     iterator        one at a time                             both go on from where it was, each
 *                                                               for itself
 *     subscription    one at a time                             both go on from where it was, each
 *                                                               for itself
 *     async set       any number; each result goes to one       dead there (-ECANCELED); its
 *                                                               operations go on in the parent
 *     place           one at a time                             dead there (-ECANCELED)
 *     call under way  -                                         goes on in the parent alone
 *
 * "One at a time": threads that share such an object need a lock of their own around it.
 *
 * FORK. A child may use the handle: its first call attaches anew, within that call's timeout. (With
 * a timeout of 0 the first call only begins that, and a later one finds it done.) Views taken
 * before the fork stay valid in both processes and must be released in each. To make that so,
 * fork() asks the managers and takes up to 0.2 s; if they do not answer in time, the parent holds
 * the child's views until they do. If it cannot, for lack of descriptors or memory, a line on
 * stderr says so, and the child gets SIGSEGV when it reads them. Release a view only in the process
 * that took or inherited it. vfork(), posix_spawn() and exec need nothing special; nothing is
 * inherited over exec.
 *
 * DEATH. A process that dies leaves no lock behind, and its leases are dropped. A manager that dies
 * is started again over its memory: a call that asks it takes some milliseconds longer, and has the
 * result that it would have had; a change gives DDICT_ELOST in rare cases (restarts= in
 * ddict.conf(5)). Where it is not started again, or a node is lost, every call gives DDICT_ELOST
 * within its deadline; when the dictionary has ended, DDICT_EGONE. With --replicas=2 or --refill
 * the dictionary outlives a lost node. With --refill a key that is not there, and may have been
 * lost with a node, gives DDICT_EKEYLOST, not DDICT_ENOKEY; other keys are as ever. Views that are
 * held stay readable until they are released. A manager that stands still for 10 s (stopped, or
 * waiting for a disk) counts as lost.
 *
 * A process that overwrites this library's memory can break a rule of the managers. They then take
 * nothing more from it: its calls give DDICT_ELOST, while what it reads in place and the views that
 * it holds stay right. Do not close descriptors of this library.
 *
 * ORDER. Operations on one key are linearizable: every get that begins after a put has returned
 * sees that put, on every node. Iteration is weakly consistent: a key that is present throughout
 * appears exactly once. Freezing changes none of this.
 */
#ifndef DDICT_H
#define DDICT_H

#include <ddict_types.h>

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DDICT_API __attribute__((visibility("default")))
#else
#define DDICT_API
#endif

typedef struct ddict_handle ddict_t; /* a handle; belongs to the caller until ddict_detach() */

/* --- flags --- */

/* Of put. Without NEW and EXISTING a put always stores. */
#define DDICT_NEW      1u /* only when the key is absent, else DDICT_EEXISTS */
#define DDICT_EXISTING 2u /* only when the key is present, else DDICT_ENOKEY */
/* Of get, view and pop: wait up to the timeout for the key to exist. Without it an absent key gives
 * DDICT_ENOKEY at once. Of push: wait for room in a bounded queue. */
#define DDICT_WAIT 4u
/* Of pop and push, with DDICT_WAIT: if the manager does not answer in time (its machine hangs), the
 * call waits one more default timeout. A pop that then gives DDICT_ENOKEY has certainly popped
 * nothing; without this flag -ETIMEDOUT leaves open whether a value was popped and is lost. */
#define DDICT_SURE 8u
/* For `ddict load`, where ddict_refills(); elsewhere both mean nothing. Of put: the value stands
 * in a source, from which it can be read again; what was put so is changed and removed by calls
 * with DDICT_LOADED alone, others give DDICT_ESEALED. DDICT_REFILL, with DDICT_LOADED and
 * DDICT_NEW: it is read again. DDICT_EEXISTS where it is not wanted any more. */
#define DDICT_LOADED 16u
#define DDICT_REFILL 32u
/* Of put, in a dictionary with a working set that waits for keys: the value holds at later
 * checkpoints, too (see WORKING SETS). Elsewhere it means nothing. */
#define DDICT_PERSISTENT 64u
/* Of put: the value lies on a manager of this node, and all processes on all nodes have it under its
 * key as any other (see ddict_put()). */
#define DDICT_NEAR 128u
/* Of put and push: an 8-bit tag, which is stored with the value and returned with it. The Python
 * binding says by it how a value is to be read. */
#define DDICT_TAG(t)        (((unsigned)(t)&0xffu) << 16)
#define DDICT_TAG_OF(flags) (((flags) >> 16) & 0xffu)

/*
 * A value in place. data is 16-byte aligned (64-byte for values of 256 bytes and more), read-only
 * (writing to it is SIGSEGV) and unchanged until ddict_release(), whatever happens to the key
 * meanwhile. The caller owns the struct; it may be copied, and one of the copies is released, once.
 */
struct ddict_view {
    const void *data;
    size_t len;       /* bytes */
    uint64_t version; /* grows with every change on the key's manager */
    unsigned tag;     /* DDICT_TAG of the put */
    unsigned kind_;   /* the library's: 0 none, 1 lease, 2 private memory */
    void *owner_;     /* the library's */
    uint64_t slot_;   /* the library's */
};

/* --- begin and end --- */

/*
 * Attach to a dictionary that runs on this node, and wait up to timeout_ms until its managers are
 * ready. name: NULL for $DDICT_NAME; if that is not set, within a Slurm job, the job's own
 * dictionary "<uid>.$SLURM_JOB_ID.job". *out is the caller's, for ddict_detach(). Errors:
 * DDICT_ENODICT (no name, or nothing listens under it: ddict_errmsg() says which), DDICT_ECRED,
 * DDICT_EVERSION, DDICT_EGONE, -ETIMEDOUT, -ENOMEM, -EMFILE.
 */
DDICT_API int ddict_attach(ddict_t **out, const char *name, int timeout_ms);

/* End the handle and free it. No other call may be under way on it. Views taken from it stay valid
 * until they are released. d may be NULL. Returns 0. */
DDICT_API int ddict_detach(ddict_t *d);

/* --- one key --- */

/*
 * Store a copy of the vlen bytes at val under key, in place of the key's value if it has one.
 * Returns after the owner has acknowledged. flags: DDICT_NEW, DDICT_EXISTING or neither, and
 * DDICT_TAG(t). Errors: DDICT_EFULL, DDICT_EEXISTS, DDICT_ENOKEY, DDICT_EKEYSIZE, DDICT_EVALSIZE,
 * DDICT_EFROZEN, -EINVAL (DDICT_NEW and DDICT_EXISTING together).
 *
 * DDICT_NEAR: the value lies on a manager of the caller's node, whichever manager owns the key, and
 * is read in place by all processes of that node once they have asked the owner where it is. All calls
 * find and change the key as any other; ddict_owner(), ddict_iter_open(-2) and ddict_local_len() still
 * go by its owner. It costs a put some more messages, and each read one or two. A later put without
 * DDICT_NEAR makes the value a plain one. The key takes some 150 bytes on its owner, and a full manager
 * of this node gives DDICT_EFULL. Nothing can be pushed behind such a value; asynchronous changes of
 * such a key that are under way at once are made in any order. -EINVAL with a hidden key, with
 * DDICT_LOADED, in a dictionary with a working set, and where the key has several values.
 */
DDICT_API int ddict_put(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                        unsigned flags, int timeout_ms);
/* As ddict_put(), with the value gathered from n pieces (n <= DDICT_PIECES_MAX). */
DDICT_API int ddict_putv(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
                         unsigned flags, int timeout_ms);

/*
 * Copy the value into buf, which has room for cap bytes. *vlen (vlen may be NULL) receives the
 * value's length, *tag (tag may be NULL) its tag. flags: 0 or DDICT_WAIT. Errors: DDICT_ENOKEY,
 * DDICT_ESMALL (the value is longer than cap: *vlen is set, and nothing is copied), DDICT_EKEYSIZE,
 * -EIO (see ddict_view()).
 */
DDICT_API int ddict_get(ddict_t *d, const void *key, size_t klen, void *buf, size_t cap,
                        size_t *vlen, unsigned *tag, unsigned flags, int timeout_ms);

/*
 * Give the value in place: *v is valid until ddict_release(). flags: 0 or DDICT_WAIT. Errors:
 * DDICT_ENOKEY, DDICT_EKEYSIZE, DDICT_EVIEWS, -EIO.
 *
 * A value of another node is fetched into memory of this node's manager, or of this process if that
 * manager has no room.
 *
 * A value on disk (--ddict-spill) is read from there and compared with its checksums by each call.
 * -EIO: the disk cannot read it, or gave back other bytes than were written. A view of up to 64 MiB
 * of such a value is private memory. A larger one, or any where memory is short, is mapped after
 * all of it has been compared; if the disk fails later, reading v->data is SIGBUS. ddict_get()
 * never is.
 */
DDICT_API int ddict_view(ddict_t *d, const void *key, size_t klen, struct ddict_view *v,
                         unsigned flags, int timeout_ms);
/* End the view. v may be NULL; a view that was released already, or of a call that failed, is
 * ignored. */
DDICT_API void ddict_release(struct ddict_view *v);

/* Remove the key, with all its values. DDICT_ENOKEY if it was absent. */
DDICT_API int ddict_del(ddict_t *d, const void *key, size_t klen, int timeout_ms);
/* As ddict_del(), also of a value that was put with DDICT_LOADED. While the keys of its manager are
 * read again it waits for their end, so that nothing comes back behind it. */
DDICT_API int ddict_unload(ddict_t *d, const void *key, size_t klen, int timeout_ms);
/*
 * Remove the key and give the value that it had as a view; of a queue, remove and give the first
 * value. Exactly one of several callers gets it. flags: DDICT_WAIT, DDICT_SURE.
 *
 * What a failed pop has done:
 *
 *     -EIO           the disk cannot read the value; it is removed
 *     -ETIMEDOUT     no answer came, or it broke off within a large value. If the request had been
 *                    sent, a value may have been removed, or may be yet, and is lost then. With
 *                    DDICT_WAIT | DDICT_SURE only if the manager stays silent for one more default
 *                    timeout
 *     DDICT_ELOST, DDICT_EGONE
 *                    the manager, the connection to it or the dictionary went away; the value may
 *                    have been removed
 *     -ECANCELED     (asynchronous) as -ETIMEDOUT
 *     all others     nothing: the value is still there for the next caller. -ENOMEM: this process,
 *                    or a manager, has no memory for it
 *
 * A value of another node needs memory of this node's manager or of this process, set aside before
 * it is removed: 4 KiB, or as much as the values popped so far took, up to 1 MiB. A longer value
 * costs one more question; with DDICT_WAIT the caller then queues up behind the others that wait.
 */
DDICT_API int ddict_pop(ddict_t *d, const void *key, size_t klen, struct ddict_view *v,
                        unsigned flags, int timeout_ms);
/* 1 if the key is present, 0 if it is absent, or a negative code. *vlen (vlen may be NULL) receives
 * the length of the value. */
DDICT_API int ddict_contains(ddict_t *d, const void *key, size_t klen, size_t *vlen,
                             int timeout_ms);

/*
 * --- one key, depending on what it has ---
 *
 * The manager of the key judges and makes the change in one step, so of several callers each finds
 * what the one before has left. They are made once as puts are, and otherwise give the errors of
 * ddict_put() and ddict_del(). A version of a key never comes again, also after the key was
 * removed; with --replicas=2 a key may have a later version, though nobody has changed it, once
 * after a loss: so ddict_put_if() and ddict_del_if() never hit another value, and may give
 * DDICT_ECHANGED then.
 *
 * With --refill: add of a key that may have been lost gives DDICT_EKEYLOST, and so do put_if and
 * del_if with a version; put_if with version 0 stores.
 */
/*
 * Add delta to the integer at key; *sum (may be NULL) receives the sum. An absent key counts as 0.
 * The value is an int as the Python binding stores it (doc/FORMAT.md, tag 5: decimal text).
 * Errors, which change nothing: DDICT_ENOTINT (the value is no integer of 64 bits), -ERANGE (the
 * sum would not be).
 */
DDICT_API int ddict_add(ddict_t *d, const void *key, size_t klen, int64_t delta, int64_t *sum,
                        int timeout_ms);
/*
 * Store as ddict_put(), but only if the key's version is still `version`, which a view has, or
 * ddict_key_version() gives; 0: only if it is absent. *now (may be NULL) receives the new version;
 * with DDICT_ECHANGED, when nothing was stored, the present one, 0 if it is absent. flags:
 * DDICT_TAG(t).
 */
DDICT_API int ddict_put_if(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                           unsigned flags, uint64_t version, uint64_t *now, int timeout_ms);
/* Remove as ddict_del(), but only if its version is still `version`, not 0; else DDICT_ECHANGED. */
DDICT_API int ddict_del_if(ddict_t *d, const void *key, size_t klen, uint64_t version,
                           int timeout_ms);
/*
 * Put vlen bytes behind the value, which keeps its tag; of an absent key it is a put, with the tag
 * of flags. *total (may be NULL) receives the value's length then. The whole value goes to its
 * manager again, which needs memory for both: for values that stay small. Those that grow are keys
 * of their own, or a queue. -EINVAL: the tag is one of Python's that are no bytes or text: 2, 3,
 * 5, 6, 7.
 */
DDICT_API int ddict_append(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                           unsigned flags, size_t *total, int timeout_ms);
/* *version receives the version of the key, 0 if it is absent. */
DDICT_API int ddict_key_version(ddict_t *d, const void *key, size_t klen, uint64_t *version,
                                int timeout_ms);
/*
 * Wait until the version of the key is another one than `version` (0: until it is there); *now
 * (may be NULL) receives it, 0 if it is absent. -ETIMEDOUT: it was the same all the time. Of
 * changes that follow each other quickly only the last may be seen. DDICT_EKEYLOST: the key may
 * have been lost; with version 0 that is waited for, too.
 */
DDICT_API int ddict_wait_change(ddict_t *d, const void *key, size_t klen, uint64_t version,
                                uint64_t *now, int timeout_ms);

/*
 * Wait until the key has these vlen bytes, with the tag of flags, DDICT_TAG(t): that of a value of
 * ddict_values.h is in its flags. It may have another value again when the call returns. -ETIMEDOUT:
 * it was not seen; of values that follow each other quickly only the last may be.
 */
DDICT_API int ddict_wait_for(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                             unsigned flags, int timeout_ms);

/* --- all keys --- */

/* Number of keys of the whole dictionary, without hidden ones, or a negative code. It is a sum over
 * the managers, each exact at its own moment. */
DDICT_API int64_t ddict_len(ddict_t *d, int timeout_ms);
/* The same of the managers of this node alone; reads memory, asks nobody. */
DDICT_API int64_t ddict_local_len(ddict_t *d, int timeout_ms);
/* Remove all keys, manager by manager; hidden ones, too, because they describe what is removed. With
 * a working set: what is seen at the handle's checkpoint, and no hidden ones. */
DDICT_API int ddict_clear(ddict_t *d, int timeout_ms);

/*
 * --- queues ---
 *
 * A key can have several values in an order. ddict_push() stores a value behind the last one.
 * ddict_pop() takes the first one, and the next becomes the first; with DDICT_WAIT it waits for a
 * value. All other calls see the first value alone; ddict_del() and ddict_clear() remove all.
 *
 * ORDER. The values of one key are on one manager and come out in the order in which it took them:
 * those of one thread in that thread's order. Callers that wait with DDICT_WAIT are served first
 * come, first served. Use DDICT_SURE, too, for a pop that is repeated until something comes.
 *
 * BOUND. A queue can be limited to a number of values, for all processes. The first `most` that is
 * not 0, of ddict_queue_open() or ddict_push(), sets the limit, and it holds until ddict_clear(),
 * or ddict_del() of the key while that has a value. 0 asks for no limit and accepts any; another
 * number than the one set is -EINVAL. A push to a full queue gives -EAGAIN: at once, or with
 * DDICT_WAIT when there was no room within timeout_ms.
 *
 * Values of a queue take managers' memory as any others, each as much as a key. A value that a
 * process had popped when it died is gone with it.
 */
/* Set or ask the limit of the queue at key, which need not have a value. *own (own may be NULL)
 * receives the limit, 0: none. */
DDICT_API int ddict_queue_open(ddict_t *d, const void *key, size_t klen, uint64_t most,
                               uint64_t *own, int timeout_ms);
/* Store a value behind the last one of key. flags: DDICT_WAIT, DDICT_SURE, DDICT_TAG(t). Errors as
 * ddict_put(), and -EAGAIN, -EINVAL (see BOUND). */
DDICT_API int ddict_push(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                         unsigned flags, uint64_t most, int timeout_ms);
/* As ddict_push(), with the value gathered from n pieces (n <= DDICT_PIECES_MAX). */
DDICT_API int ddict_pushv(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
                          unsigned flags, uint64_t most, int timeout_ms);
/* Number of values of the key: 0 if it is absent, 1 for one that was put; or a negative code. */
DDICT_API int64_t ddict_queued(ddict_t *d, const void *key, size_t klen, int timeout_ms);

/*
 * --- one value on every node ---
 *
 * A value that one process makes and processes of all nodes use, and that is replaced again and
 * again, as the weights of a model: publish it under a name, and follow that name.
 *
 *     the trainer                              each actor
 *     iov = {weights, bytes};                  ddict_follow_open(d, "w", 1, &f, -1);
 *     ddict_publish(d, "w", 1, &iov, 1,        while (ddict_follow_next(f, &v, &version, -1) == 1) {
 *                   0, &version, -1);              use(v.data, v.len);      read only, in place
 *                                                  ddict_release(&v);
 *                                              }
 *
 * VERSIONS. Publications of one name are in an order, and have the numbers 1, 2, 3 ...; each is seen
 * whole or not at all. At most 29 large values of one name are made at once; others wait for them. A follower receives the newest version first and then newer ones. One that is
 * slower than its publisher does not receive all: each call gives the newest. A publication that
 * fails, or whose process dies in the midst, has changed nothing: the version before stays the newest.
 *
 * ON EACH NODE. A value of more than 64 KiB goes to a node when somebody there asks for the newest,
 * once for all its processes: in pieces from node to node, so that it is on all of them hardly later
 * than on the first, and each link carries it once. If a node of that chain, or the process that
 * fetches for it, is lost, the others go on. Where a node has no room for the value, or the dictionary
 * is frozen, a process has a copy of its own.
 *
 * MEMORY. The node that published a value has it in pieces, and once more in one if it has followers;
 * each other node with followers has it once. There are the newest version and at most one more; that
 * goes when the next one is published. Views stay readable until they are released, and what is being
 * fetched stays until that is over. ddict_unpublish() removes what is published under a name,
 * ddict_clear() all that is published (not so in a dictionary with a working set); followers are told
 * once, and numbers begin with 1 then. Names are not keys: a key of the same bytes is another thing.
 */
typedef struct ddict_follow ddict_follow_t;
/*
 * Publish the value that n pieces make (n <= DDICT_PIECES_MAX). flags: DDICT_TAG(t). *version
 * (may be NULL) receives its number. A name has 1 to DDICT_KEY_MAX - 80 bytes. Errors: as ddict_put().
 * After -ETIMEDOUT, DDICT_ELOST and DDICT_EGONE it may have been published. DDICT_ENOKEY: the
 * dictionary was cleared meanwhile.
 */
DDICT_API int ddict_publish(ddict_t *d, const void *name, size_t nlen, const struct iovec *iov,
                            int n, unsigned flags, uint64_t *version, int timeout_ms);
/* Follow a name, which need not be there. One thread at a time uses *out, until ddict_follow_close(),
 * before ddict_detach(). In a forked child it goes on for itself. */
DDICT_API int ddict_follow_open(ddict_t *d, const void *name, size_t nlen, ddict_follow_t **out,
                                int timeout_ms);
/*
 * 1: the newest version that this follower has not received, in *v, to be released; *version (may be
 * NULL) receives its number, which v->version is, too. 0: there was none within timeout_ms. That is
 * the time to wait for a newer one, 0 to look once; a look may ask a manager, and has the default
 * timeout. Once it is there it is fetched, however long that takes, but not without progress for the
 * default timeout: -ETIMEDOUT, as when it is replaced by a newer one each time for so long.
 * DDICT_ENOKEY: the version that it received was removed; the next call waits for another one.
 * DDICT_EKEYLOST: the same, or a newer one, was lost with a node. Other errors: as ddict_view().
 */
DDICT_API int ddict_follow_next(ddict_follow_t *f, struct ddict_view *v, uint64_t *version,
                                int timeout_ms);
DDICT_API void ddict_follow_close(ddict_follow_t *f); /* f may be NULL */
/*
 * Remove what is published under the name. Its memory is free when this returns, but for views. A
 * value that is being published meanwhile becomes the first of the name. DDICT_ENOKEY: nothing is
 * published. -ETIMEDOUT: either nothing was changed, or a node was still fetching the value: that is
 * not published any more, and its memory is free when the node has it. If that dies, another call
 * frees it, though it says DDICT_ENOKEY. Errors: as ddict_del().
 */
DDICT_API int ddict_unpublish(ddict_t *d, const void *name, size_t nlen, int timeout_ms);
/* Publish a value of one piece, without its number. Errors: as ddict_publish(). */
DDICT_API int ddict_bput(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                         unsigned flags, int timeout_ms);
/* Give the newest version that is published under key, from this node. flags: 0 or DDICT_WAIT. Errors:
 * DDICT_ENOKEY, and as ddict_follow_next(). */
DDICT_API int ddict_bget(ddict_t *d, const void *key, size_t klen, struct ddict_view *v,
                         unsigned flags, int timeout_ms);

/*
 * --- many keys in one call ---
 *
 * As many requests are sent as fit before the call waits for an answer. timeout_ms is the time
 * without any progress; with DDICT_WAIT it is that of the whole call.
 *
 * A manager of another node that stands still (this node notices after 100 ms) holds up its own
 * keys alone: the call stores or finds the others first and then waits for that manager, once for
 * timeout_ms. A manager of this node that stands still holds up the keys that must be asked of it.
 */
struct ddict_pair {
    const void *key;
    size_t klen;
    const void *val;
    size_t vlen;
    unsigned flags; /* as in ddict_put() */
    int status;     /* out: 0 or the code of this pair, see ddict_put_many() */
};
/*
 * Store n pairs; of two with one key the later one wins. Returns the number of pairs stored, and
 * sets each pair's status; a negative code only if nothing could be sent. If the call ends before
 * all are done, status says what is known of a pair:
 *
 *     -ECANCELED     it was not sent, or not all of it: it is stored nowhere and may be given to
 *                    another call
 *     -ETIMEDOUT, DDICT_ELOST, DDICT_EGONE
 *                    it was sent and not answered: it may be stored, or may be yet
 *     any other      it was refused, as by ddict_put()
 */
DDICT_API ssize_t ddict_put_many(ddict_t *d, struct ddict_pair *pairs, size_t n, int timeout_ms);

struct ddict_want {
    const void *key;
    size_t klen;
    struct ddict_view view; /* out: valid when status is 0; release each */
    int status;             /* out: 0, DDICT_ENOKEY, ... */
};
/* Get n values as views. flags: 0 or DDICT_WAIT. Returns the number of keys found, or a negative
 * code. */
DDICT_API ssize_t ddict_get_many(ddict_t *d, struct ddict_want *wants, size_t n, unsigned flags,
                                 int timeout_ms);

/*
 * --- values built in place ---
 *
 * A place is memory that a manager of this node reads itself, so a value built there is copied
 * once, where ddict_put() copies it twice.
 *
 *     ddict_reserve(d, key, klen, bytes, 0, &p);
 *     fill(p.data, p.len);                             anything; nobody sees it yet
 *     ddict_commit(&p, -1);                            as ddict_put() of it; or ddict_abort(&p)
 *
 * Its content is undefined at first. Any number of places may be held. Their memory counts as this
 * process's own; commit and abort give it back, but keep up to 64 MiB for each manager of this node
 * for the next value. Room in the dictionary is taken at commit, so DDICT_EFULL comes there.
 *
 * A place belongs to the process and the handle that reserved it. In a forked child and after
 * ddict_detach() its memory is gone, ddict_commit() gives -ECANCELED, and ddict_abort() does
 * nothing. A process that dies leaves nothing behind.
 */
struct ddict_place {
    void *data; /* len bytes, 64-byte aligned (whole pages where it is large) */
    size_t len;
    void *own_; /* the library's */
};
/* Make a place for a value of vlen bytes. flags as in ddict_put(). Asks no manager. Errors:
 * DDICT_EKEYSIZE, DDICT_EVALSIZE (more than a manager has, or more than 64 GiB), -EINVAL, -ENOMEM.
 */
DDICT_API int ddict_reserve(ddict_t *d, const void *key, size_t klen, size_t vlen, unsigned flags,
                            struct ddict_place *p);
/* Store the value. The place is over afterwards, whatever the result; p->data is NULL. Errors as
 * ddict_put(). */
DDICT_API int ddict_commit(struct ddict_place *p, int timeout_ms);
/*
 * Store the value and keep the place, to be stored again or because something still points into it.
 * ddict_abort() gives it back. Do not write to the place during the call, nor after -ETIMEDOUT: it
 * may become part of what is stored.
 */
DDICT_API int ddict_commit_keep(const struct ddict_place *p, int timeout_ms);
/* Give the place up. Does nothing if it is over. */
DDICT_API void ddict_abort(struct ddict_place *p);

/*
 * --- asynchronous operations ---
 *
 * Many requests under way at once, without waiting for any. A set takes them as struct ddict_op and
 * gives each back when it is over. The library has no thread for it: the work is done within submit
 * and poll, by whoever calls them, and within other calls of the process on the same dictionary.
 * The set's descriptor is for poll(), epoll and the event loops built on them:
 *
 *     ddict_async_open(d, &q);
 *     op.what = DDICT_OP_VIEW;
 *     op.key = "w";
 *     op.klen = 1;
 *     op.timeout_ms = -1;
 *     op.user = mine;
 *     ddict_async_submit(q, &op, 1);
 *     for (;;) {
 *         epoll_wait(...);                             ddict_async_fd(q) among others
 *         while ((n = ddict_async_poll(q, done, 64, 0)) > 0)
 *             ...                                      done[i].user, done[i].status, done[i].view
 *     }
 *
 * ORDER. Puts, dels and pops of one key that are submitted to one set take effect in that order,
 * but for pops that wait (DDICT_WAIT). What follows a pop, or a long put, of a key of another node
 * is sent when that is answered. Otherwise operations end in any order, and take effect at any
 * moment between submit and their result. There is no order between them and other calls. An
 * operation may wait until results of earlier ones are polled: 256 KiB of gets that nobody polls
 * hold up what was submitted behind them. So poll before waiting for what another process does once
 * it sees a put of this set.
 *
 * THREADS. Any number of threads may use a set at once; each result goes to one of them. A handle
 * may have any number of sets.
 *
 * FORK. Operations go on in the parent alone. In a child the parent's set is dead: every call on it
 * gives -ECANCELED, and ddict_async_close() gives its descriptors back. The child opens a set of
 * its own.
 *
 * DETACH. ddict_detach() cancels the operations of the handle's sets, as ddict_async_cancel() does.
 * Their results can still be polled; close the set afterwards.
 */
typedef struct ddict_async ddict_async_t;
/* Each as the call of that name: ddict_view(), ddict_get(), ... */
enum { DDICT_OP_VIEW = 1, DDICT_OP_GET, DDICT_OP_PUT, DDICT_OP_DEL, DDICT_OP_POP, DDICT_OP_PUTV };
struct ddict_op {
    /* In. Given back unchanged with the result, except that key is NULL. */
    unsigned what;   /* DDICT_OP_* */
    unsigned flags;  /* as in the call of that name */
    const void *key; /* the caller's again when ddict_async_submit() returns */
    size_t klen;
    /* PUT: the value. PUTV: an array of struct iovec; neither it nor the pieces are written. GET:
     * where the value goes. It is the library's until the result is there. */
    void *buf;
    size_t len; /* of buf: bytes; PUTV: pieces, at most DDICT_PIECES_MAX */
    /* As everywhere, but judged when the set is polled: -ETIMEDOUT may come 100 ms late. */
    int timeout_ms;
    void *user; /* the caller's own */
    /* Out. */
    /* 0: over when ddict_async_submit() returned; else unique in its set */
    uint64_t ticket;
    int status;             /* -EINPROGRESS; when it is over 0 or its error code */
    unsigned tag;           /* GET */
    size_t vlen;            /* GET: length of the value, also with DDICT_ESMALL */
    struct ddict_view view; /* VIEW, POP with status 0: to be released */
    /* the sentence of a failure, malloc'ed: the caller frees it; NULL: none */
    char *text;
};
/* Open a set, the caller's until ddict_async_close(). Errors: -ENOMEM, -EMFILE. */
DDICT_API int ddict_async_open(ddict_t *d, ddict_async_t **out);
/*
 * The set's descriptor. It is readable when ddict_async_poll() has something to do (results, or
 * messages to receive or to send on), and quiet after ddict_async_poll() returned less than n. Only
 * wait on it; it belongs to the set.
 */
DDICT_API int ddict_async_fd(ddict_async_t *q);
/*
 * Begin n operations. Never waits. What can be done at once is over when it returns (ticket 0,
 * status says how): values of managers on this node, and refusals. Each of the others has a ticket
 * and status -EINPROGRESS, and ddict_async_poll() gives it back once. Returns how many are under
 * way, or a negative code if none was begun: -ECANCELED (after ddict_detach(), or in a child).
 */
DDICT_API ssize_t ddict_async_submit(ddict_async_t *q, struct ddict_op *ops, size_t n);
/*
 * Write up to n operations that are over to done. Waits for the first up to timeout_ms (-1: the
 * default, 0: not at all); does not wait if nothing is under way. Returns their number, 0 if there
 * was none in time, or a negative code (-ECANCELED in a child). Call it often: large values move
 * on, and deadlines are judged, only there.
 */
DDICT_API ssize_t ddict_async_poll(ddict_async_t *q, struct ddict_op *done, size_t n,
                                   int timeout_ms);
/*
 * Cancel an operation that is under way. Its buf is the caller's again when this returns, and
 * ddict_async_poll() gives it back with -ECANCELED. A put, del or pop may have taken effect all the
 * same. -ENOENT: no operation has that ticket, or its result is there already.
 */
DDICT_API int ddict_async_cancel(ddict_async_t *q, uint64_t ticket);
/* Number of operations whose result was not polled yet. */
DDICT_API size_t ddict_async_len(ddict_async_t *q);
/* Cancel what is under way, drop the results that were not polled, and free the set. No other
 * thread may be in a call on it. q may be NULL. */
DDICT_API void ddict_async_close(ddict_async_t *q);

/* --- freeze --- */

/*
 * Make the whole dictionary read-only, for all its processes: put, del, pop and clear give
 * DDICT_EFROZEN until ddict_unfreeze(). While it lasts, a value of another node that is read stays
 * in free memory of this node's managers, and every later reader on the node has it in place,
 * without a message.
 *
 * Returns when all managers are read-only and keep values. A value that is being stored when the
 * freeze begins has at most 5 s to finish, and is refused after that. Freezes are not counted:
 * freezing a frozen dictionary gives 0 at once, and one unfreeze ends it. Freezes and unfreezes of
 * several processes are done one after the other. The dictionary stays frozen when the process that
 * froze it ends. Errors: -ETIMEDOUT (it may still happen).
 */
DDICT_API int ddict_freeze(ddict_t *d, int timeout_ms);
/* End the freeze. Writes are possible again on all nodes when this returns. The kept values are
 * given up; views of them stay valid, and keep their memory, until they are released. A dictionary
 * that was started read-only (--ddict-persist=DIR,read-only) stays frozen: DDICT_EFROZEN. */
DDICT_API int ddict_unfreeze(ddict_t *d, int timeout_ms);
/* 1 if the dictionary is frozen (from just before ddict_freeze() returns until an unfreeze begins),
 * 0 if not, or a negative code. Asks no manager. */
DDICT_API int ddict_is_frozen(ddict_t *d);
/*
 * For `ddict restore`, in a dictionary that was started read-only; elsewhere -EINVAL. From now on the
 * handle may put and del (ddict_put(), _put_many(), _put_if(), _del()) while the dictionary is in the
 * state in which nobody else may write, and nothing is kept of other nodes. ask: not 0: bring all
 * managers into that state; ddict_freeze() of this handle ends it. ddict_is_frozen() gives 1 meanwhile,
 * and ddict_freeze() of others gives 0 and leaves it. Before other threads use the handle; a forked child
 * has not that right.
 */
DDICT_API int ddict_freeze_restoring(ddict_t *d, int ask, int timeout_ms);
/*
 * Have this node's managers fetch the values of n keys from other nodes, and return at once: later
 * reads need not wait. A value that is kept here already is not fetched, one that finds no room is
 * not kept, and absent keys are ignored. Returns the number of values that will be fetched; 0 if
 * the dictionary is not frozen.
 */
DDICT_API ssize_t ddict_prefetch(ddict_t *d, const struct iovec *keys, size_t n, int timeout_ms);

/*
 * --- list the keys ---
 *
 * One thread at a time uses an iterator. ddict_iter_close() frees it, at any point of the listing.
 */
typedef struct ddict_iter ddict_iter_t;
/* manager: -1 for the keys of all, -2 for those of this node, else a manager's number. timeout_ms
 * is for each answer of a manager. */
DDICT_API int ddict_iter_open(ddict_t *d, int manager, ddict_iter_t **out, int timeout_ms);
/* As ddict_iter_open(), only the keys that begin with the plen bytes of prefix. The managers pick
 * them out. */
DDICT_API int ddict_iter_open_prefix(ddict_t *d, int manager, const void *prefix, size_t plen,
                                     ddict_iter_t **out, int timeout_ms);
/* As ddict_iter_open_prefix(); flags: DDICT_ITER_HIDDEN for hidden keys, too. They are also given
 * if all keys with the prefix are hidden. */
#define DDICT_ITER_HIDDEN 1u
DDICT_API int ddict_iter_open_flags(ddict_t *d, int manager, const void *prefix, size_t plen,
                                    unsigned flags, ddict_iter_t **out, int timeout_ms);
/* 1 with the next key in *key, *klen (valid until the next call), 0 at the end, or a negative code.
 * After -ETIMEDOUT the next call goes on where this one was. */
DDICT_API int ddict_iter_next(ddict_iter_t *it, const void **key, size_t *klen);
DDICT_API void ddict_iter_close(ddict_iter_t *it); /* it may be NULL */

/*
 * --- subscriptions ---
 *
 * A subscription receives an event for each put of a key that begins with a prefix, at all
 * managers. One thread at a time uses it, and closes it before ddict_detach(). After a fork parent
 * and child go on each for itself, with what the parent had not read.
 *
 * Managers do not wait for subscribers. They keep the last 4096 events of a prefix (64 MiB for all
 * prefixes together); a subscriber that falls further behind receives DDICT_EVENT_MISSED and has to
 * list the keys again. Events of one manager come in its order.
 */
typedef struct ddict_sub ddict_sub_t;
#define DDICT_SUB_DELS 1u /* events of removals, too */
/* Values of up to 8 KiB come with their events, if the key still has that value. */
#define DDICT_SUB_VALUES 2u
/* First the keys that are there already, as puts of version 0; one that is put meanwhile may come
 * twice. A ddict_next_event() that ends before a manager has listed its keys gives 0, and a later
 * one goes on. */
#define DDICT_SUB_THERE 4u
/* Hidden keys, too. They also come if all keys with the prefix are hidden. */
#define DDICT_SUB_HIDDEN 8u
enum { DDICT_EVENT_PUT = 1, DDICT_EVENT_DEL, DDICT_EVENT_CLEAR, DDICT_EVENT_MISSED };
struct ddict_event {
    int kind;
    unsigned manager; /* CLEAR, MISSED: whose */
    const void *key;  /* PUT, DEL; valid until the next call on the subscription, as val */
    size_t klen;
    const void *val; /* PUT: the value, or NULL: get it (the key may have another one by then) */
    size_t vlen;     /* PUT with version > 0 */
    unsigned tag;
    uint64_t version; /* PUT */
    uint64_t missed;  /* MISSED: how many events; more if nothing was read for a minute */
};
/* Subscribe to the keys that begin with the plen bytes of prefix (0: all keys). Every put that
 * begins after this returned has its event. flags: DDICT_SUB_*. Errors: -EINVAL, DDICT_EKEYSIZE,
 * -ENOMEM (too many prefixes: a manager keeps 256 MiB of them, 200 bytes and the prefix each). */
DDICT_API int ddict_subscribe(ddict_t *d, const void *prefix, size_t plen, unsigned flags,
                              ddict_sub_t **out, int timeout_ms);
/* 1 with the next event in *e, 0 if none came within timeout_ms (0: does not wait), or a negative
 * code. 0, too, if a manager could not even be asked in that time. After DDICT_EGONE and
 * DDICT_ELOST no more events come. */
DDICT_API int ddict_next_event(ddict_sub_t *sub, struct ddict_event *e, int timeout_ms);
DDICT_API void ddict_unsubscribe(ddict_sub_t *sub); /* sub may be NULL */

/*
 * --- working sets ---
 *
 * A dictionary with a working set (--ddict-working-set=K) keeps what each key had at the last K
 * checkpoints, which are numbered from 0. A handle has the number of a checkpoint, at first 0, and
 * all its calls are about that checkpoint:
 *
 *     ddict_put(d, "state", 5, s, len, 0, -1);
 *     ddict_checkpoint(d);                         go on
 *     ...
 *     ddict_rollback(d);                           back to what was put before
 *
 * A key has at a checkpoint what was put there, or else at the last one before at which it was put
 * or removed. The window begins with 0 .. K - 1. A put or removal beyond makes its checkpoint the
 * newest, and as many leave the window at the other end: they are retired, and calls at them give
 * DDICT_ERETIRED. Where nothing took its place, what a key had there holds on. A read beyond the
 * newest is as at the newest. Views stay as they are. Hidden keys have no checkpoints; there are
 * neither queues nor subscriptions for other keys, and asynchronous operations on them are done
 * within ddict_async_submit().
 *
 * DDICT_WAIT_FOR_KEYS (ddict_working_set()): what was not put with DDICT_PERSISTENT is to be put
 * anew at each checkpoint. A read of what was not put yet waits (but ddict_contains()); one of what
 * was removed at a checkpoint of the window, at the read's or before, gives DDICT_ENOKEY. A put
 * that makes a checkpoint waits until all keys of the oldest one are in the next.
 * DDICT_WAIT_FOR_WRITERS: it waits until all clients that wrote at the oldest one have gone on: they
 * have called a change of a later one, whether it was made or not, or read at one after the next, or
 * are dead.
 *
 * These give -EINVAL in a dictionary without.
 */
/* The handle's number + 1, or - 1 unless it is 0. They ask nobody, as the two after them. */
DDICT_API int ddict_checkpoint(ddict_t *d);
DDICT_API int ddict_rollback(ddict_t *d);
DDICT_API int64_t ddict_checkpoint_id(ddict_t *d);
DDICT_API int ddict_set_checkpoint_id(ddict_t *d, uint64_t id);
/* Set it to the newest checkpoint of the window, and return that. */
DDICT_API int64_t ddict_sync_to_newest_checkpoint(ddict_t *d, int timeout_ms);

/* --- about the dictionary --- */

/* 1 if the dictionary has begun to end and waits for its last clients, 0 while it serves, or
 * DDICT_EGONE, DDICT_ELOST. */
DDICT_API int ddict_ending(ddict_t *d);

/* What the handle is attached to. The strings belong to the handle. */
struct ddict_info {
    const char *name;  /* as in $DDICT_NAME */
    const char *node;  /* this node */
    unsigned managers; /* of the whole dictionary; some may own no keys (ddict_keyed_nodes()) */
    unsigned nodes;
    unsigned node_id; /* 0 .. nodes - 1 */
    unsigned local_managers;
    uint64_t total_bytes; /* of the whole dictionary */
    unsigned char id[16]; /* unique for each dictionary ever started */
    /* disk space for values beyond the memory (--ddict-spill), if all nodes have as much as this
     * one; 0: none */
    uint64_t spill_bytes;
};
DDICT_API int ddict_get_info(ddict_t *d, struct ddict_info *info);
/* The manager that owns key, 0 .. managers - 1; manager m runs on node m mod nodes. */
DDICT_API unsigned ddict_owner(ddict_t *d, const void *key, size_t klen);
/*
 * The key under which a value lies on a manager of the caller's choice: written to out, which has
 * room for cap bytes, klen + DDICT_KEY_AT are enough. All calls on it go to that manager, from
 * every node; the manager is part of the key, so nobody has to look for it. If the manager owns
 * the key anyway it is the key itself; else a hidden key (see HIDDEN KEYS), of klen + DDICT_KEY_AT
 * bytes. Returns its length, or DDICT_ESMALL, DDICT_EKEYSIZE (the key may have DDICT_KEY_MAX -
 * DDICT_KEY_AT bytes), -EINVAL (there is no such manager, or it owns no keys).
 */
#define DDICT_KEY_AT 14u
DDICT_API ssize_t ddict_key_at(ddict_t *d, unsigned manager, const void *key, size_t klen,
                               void *out, size_t cap);
/*
 * A tag (see TAGS) whose keys are owned by the manager: "{0}", "{1}", ..., the first that is. Keys
 * that contain it are plain ones in every way, and lie where the caller wants them: on this node
 * with a manager of it. The same call gives the same tag in every process. Asks no manager. The
 * text and a zero byte are written to out, which has room for cap bytes, DDICT_KEY_TAG are enough.
 * Returns its length, or DDICT_ESMALL, -EINVAL (there is no such manager, or it owns no keys).
 */
#define DDICT_KEY_TAG 16u
DDICT_API ssize_t ddict_key_tag(ddict_t *d, unsigned manager, char *out, size_t cap);
/* How many nodes have keys: the nodes 0 .. that - 1, and so exactly those managers m own keys for
 * which m mod nodes is less. All of info.nodes unless the user wanted otherwise (--ddict-nodes). */
DDICT_API unsigned ddict_keyed_nodes(ddict_t *d);
/* 1 if the dictionary reads lost items of loaded sets again when a node is lost (--ddict-refill),
 * else 0. */
DDICT_API int ddict_refills(ddict_t *d);
/* How many checkpoints the dictionary keeps (--ddict-working-set), 0: it has none. *flags, if flags
 * is not NULL, receives what a new checkpoint waits for: DDICT_WAIT_FOR_KEYS, DDICT_WAIT_FOR_WRITERS. */
DDICT_API int ddict_working_set(ddict_t *d, unsigned *flags);

/*
 * --- who is alive ---
 *
 * What a process holds under a key of its own making (a lock, a lease, a turn) should not stay its
 * own when it dies. So it stores there who it is, and who finds that asks whether it lives:
 *
 *     ddict_self(d, &me, -1);                          this process
 *     ddict_put(d, "lock", 4, &me, sizeof me, DDICT_NEW, -1);
 *     ...                                              another one, which found `holder` there:
 *     if (ddict_alive(d, holder, -1) == 0)
 *         ...                                          it is dead: take its place
 *
 * A client is one handle of one process. The handle of a forked child is another client, and so is
 * a second handle of the same process. No other client of this dictionary is ever named so again.
 * A client is as large as two 64-bit numbers, and its bytes may be stored; all 0 is none.
 */
struct ddict_client {
    uint64_t node; /* on which it runs, 0 .. nodes - 1 */
    uint64_t id;   /* on that node, from 1 on */
};
/* Who the handle is, into *me. Asks no manager. In a forked child as any first call: it attaches.
 * */
DDICT_API int ddict_self(ddict_t *d, struct ddict_client *me, int timeout_ms);
/*
 * 1 if the client lives, 0 if it is dead, or a negative code. It is dead when its handle was
 * detached, its process has ended, however that was, its node is lost, or the managers serve it no
 * more because it broke a rule. A process that is suspended lives, and so does one whose manager
 * died and is started again. 0 is said only when all changes that the client has asked for are
 * over: none of them takes effect after it. So 1 may be said for a moment longer, and as long as a
 * manager that was asked for one does not answer. Asks the managers of the client's node:
 * timeout_ms 0 gives -ETIMEDOUT, but for the handle itself. Errors: -EINVAL (all 0, or there is no
 * such node).
 */
DDICT_API int ddict_alive(ddict_t *d, struct ddict_client who, int timeout_ms);

/*
 * Statistics of one manager: bytes, and counts since its start unless said otherwise.
 *
 * Later versions append fields and change none that is here, so each call takes the size of the
 * struct that its program was compiled with. A size tells more than a version number, and costs a
 * caller one sizeof, where a function for each figure would cost a call each.
 */
struct ddict_manager_stats {
    uint32_t manager_id;
    uint32_t node_id;
    uint32_t pid;
    int32_t state; /* 0 serving, else a DDICT_E* code (DDICT_ELOST) */
    char hostname[64];
    char node[64];
    uint64_t total_bytes;      /* size of the manager's memory */
    uint64_t total_used_bytes; /* in use of it: items, index, blocks not yet reclaimed */
    /* free of it, for values of any size: without scattered memory that could not be brought
     * together lately */
    uint64_t pool_free_space;
    double pool_utilization;  /* percent */
    uint64_t num_keys;        /* hidden ones, too (hidden_keys) */
    uint64_t free_blocks[48]; /* [i]: free blocks of 2^i .. 2^(i+1)-1 bytes */
    uint64_t puts, gets_local, gets_remote, misses, deletes;
    uint64_t bytes_in, bytes_out;
    /* cache_hits: reads of cached values of other nodes; gets_local has them, too. Reads by more
     * than 512 clients may be those of earlier statistics. */
    uint64_t cache_hits, evictions, full_errors;
    uint64_t frozen;                     /* 1 between freeze and unfreeze */
    uint64_t cached_items, cached_bytes; /* now; in total_used_bytes, not in num_keys */
    /* size of the file on disk for values beyond the memory; 0: none */
    uint64_t spill_total_bytes;
    uint64_t spill_used_bytes, spill_items; /* in use of it, and how many values */
    uint64_t spilled_bytes;                 /* ever put or moved there */
    uint64_t clients_now, clients_peak;
    /* of clients_now, those whose lanes it looks at in each turn; the others ring when they ask,
     * and cost nothing meanwhile */
    uint64_t lanes_watched;
    /* memory of its lanes to clients_now: rings, and places of values (ddict_reserve()). Not in
     * total_bytes */
    uint64_t lane_bytes;
    /* memory that bursts had left in lanes, ever given back: 5 s after a lane's last message */
    uint64_t lane_returned_bytes;
    uint64_t connections; /* to and from managers of other nodes */
    uint64_t descriptors; /* that its process has open */
    /* of its process; each client has page tables of its own for what it reads. Not in total_bytes
     */
    uint64_t page_table_bytes;
    uint64_t prefixes; /* that are subscribed to, or were within a minute */
    /* memory of the events kept for them. Not in total_bytes */
    uint64_t events_bytes;
    uint64_t retired_bytes; /* replaced or deleted, not reusable yet */
    uint64_t leased_bytes;  /* of retired_bytes, held by views at the last scan */
    /* free memory between values of about that size; usable for other sizes once values are moved
     * together */
    uint64_t scattered_bytes;
    uint64_t moved_bytes; /* values that were ever moved for that */
    uint32_t largest_holder_pid;
    /* NUMA node that the manager and its memory are bound to; -1: not bound, as on a node that has
     * only one */
    int32_t numa_node;
    uint64_t largest_holder_bytes;
    /* memory taken from the kernel ahead of use, in idle time */
    uint64_t populated_bytes;
    uint64_t populate_us;         /* time that this took */
    uint64_t refused_connections; /* failed authentication or malformed */
    uint64_t uptime_us;
    /* size of the pages of its memory: the machine's, or that of a pool of huge pages */
    uint64_t page_bytes;
    /* memory in huge pages, of a pool or because the kernel was asked for them and gave them */
    uint64_t huge_bytes;
    /* bytes of values that it read out of other managers' memory itself */
    uint64_t rma_bytes;
    /* values that it sent by messages because their memory could not be registered with the network
     * (see its log) */
    uint64_t rma_refused;
    /* what carries its messages to managers of other nodes: "tcp", "ofi:" and libfabric's provider,
     * "" on one node; " rma" behind it: see rma_bytes */
    char transport[72];
    struct ddict_latency latency[DDICT_LATENCY_N];
    /*
     * How long the manager's turns took. In a turn it serves what has come, and nobody else until
     * the turn is over. Measured in its CPU time, so that waiting for a core does not count; turns
     * below a millisecond in elapsed time. Turns without work do not count.
     *
     * [i]: turns of 2^i .. 2^(i+1)-1 microseconds; [0] also has shorter ones, the last longer ones
     */
    uint64_t turns[DDICT_TURNS_N];
    uint64_t turn_max_us;
    /* what protects these messages: "plain", "auth" or "encrypt" (--ddict-wire), "" on one node */
    char wire[8];
    /* how often it died and was started again over its memory (restarts= in ddict.conf(5)); its
     * counts go on meanwhile */
    uint64_t restarts;
    /* with --ddict-replicas=2: 2 when another node has all of its keys as well, 1 when none has, or
     * not all yet: its node must not be lost then. 0 without, and where it owns no keys */
    uint64_t copies;
    uint64_t hidden_keys; /* of num_keys, those that ddict_len() does not count */
};
/*
 * Ask all managers for their statistics. *out: a malloc'ed array of one entry for each manager, in
 * order of manager_id; the caller frees it. size: sizeof **out. What this library or the managers
 * do not know of an entry is 0. A manager that had no keys, and is lost with its node, has only
 * manager_id, node_id, node, and a state that is not 0. Returns the number of entries. -EINVAL: a
 * size that the struct never had.
 */
DDICT_API int ddict_stats(ddict_t *d, struct ddict_manager_stats **out, size_t size,
                          int timeout_ms);
/* One manager's statistics as a JSON object, malloc'ed: the caller frees it; NULL without memory.
 * size: sizeof *s. */
DDICT_API char *ddict_stats_json(const struct ddict_manager_stats *s, size_t size);

/* --- a dictionary of this program's own --- */

/*
 * Start a dictionary, wait until it can be used, and attach to it. options: words as `ddict up`
 * takes them ("--managers=4", "--mem=8G"; ddict-up(1)), NULL behind the last; NULL: none. In a
 * Slurm job its managers run on the job's nodes, of which this must be one; elsewhere on this
 * machine. Without --name its name is one that no other dictionary has. ddict_get_info() tells the
 * name; give it to other processes, as $DDICT_NAME or otherwise, and they can attach.
 *
 * It ends by ddict_down(), or with this process, however that ends (exec too): at exit(), which
 * waits for it; in the background after _exit() or SIGKILL. A forked child is no maker of it: the
 * child may use it and may exit. With the option --keep it ends by ddict_down() or with the job
 * alone, and if there is a dictionary of the name already, that one is attached to.
 *
 * timeout_ms, -1: as long as the start takes (--start-timeout limits it; --load and --restore take
 * their time). A start that fails, or is late, is undone before the call returns. DDICT_ENODICT: it
 * did not start; the sentence says why. -ENOENT: there is no command `ddict`, which is looked for
 * as $DDICT_COMMAND, else beside this library, else on PATH; it is a child of this process
 * meanwhile. -EINVAL: a word is no option.
 *
 * Threads: any; several may start dictionaries at once.
 */
DDICT_API int ddict_up(ddict_t **out, const char *const *options, int timeout_ms);

/* The same in parts, for a program that does something else meanwhile. wait: -ETIMEDOUT: not yet,
 * call it again; with every other result s is gone. cancel undoes the start; s is gone. */
typedef struct ddict_start ddict_start_t;
DDICT_API int ddict_up_begin(ddict_start_t **s, const char *const *options);
DDICT_API int ddict_up_wait(ddict_start_t *s, ddict_t **out, int timeout_ms);
DDICT_API int ddict_up_cancel(ddict_start_t *s);

/*
 * End the dictionary of that name. NULL: of those that this process made by ddict_up() the last
 * one, else as for ddict_attach().
 *
 * One that this process made drains: it waits, --drain-ms at most, for the processes that are
 * attached, so detach first. The call returns when nothing of it is left; timeout_ms -1: as long as
 * that takes. DDICT_ELOST: it was lost before. -EIO: not all was saved (--save). After -ETIMEDOUT
 * it goes on to end, and the call may be made again.
 *
 * Any other one is told to drain and end, and the call returns when its managers have taken the
 * order.
 */
DDICT_API int ddict_down(const char *name, int timeout_ms);

/* --- states on disk, by number --- */

/*
 * A dictionary that was started with a folder for them (--ddict-persist=DIR, --persist=DIR) can be
 * saved there and taken back. State N is the folder DIR/N in the form of `ddict save`, which any
 * dictionary can restore: all keys but those of who holds locks and the like. It gets this name when
 * it is complete: what a death leaves half written has another name, and the next save removes it.
 * DIR is on storage that all nodes share, and for one dictionary at a time.
 *
 * The work is done by the command `ddict` on all nodes, as a child of this process meanwhile (see
 * ddict_up()). timeout_ms -1: as long as it takes; when the time is over the command is ended.
 * One save or restore of a dictionary is done at a time, and others wait; that of a process that
 * died is nobody's.
 */
struct ddict_persistence {
    char dir[2048];
    uint64_t freq; /* checkpoints whose id is a multiple are saved when they are retired; 0: none */
    uint64_t count; /* of the states so many stay, those of the highest numbers; 0: all */
    int read_only;  /* 1: the dictionary is frozen, but for ddict_restore() and ddict_advance() */
};
/* What the dictionary was started with. -EINVAL: it has no such folder. Asks nobody. */
DDICT_API int ddict_get_persistence(ddict_t *d, struct ddict_persistence *out);
/*
 * Save all keys as state 0, or, with a working set, what is seen at the handle's checkpoint under its
 * number; _as: as state id, which with a working set is a checkpoint. Each value is saved as of the moment it is read: a
 * state of one moment needs that nobody puts meanwhile. A state of that number is replaced once the
 * new one is complete. A failure (a full disk, a folder that cannot be written: -EIO with the
 * sentence) leaves DIR as it was. DDICT_EFROZEN: the dictionary is read-only.
 */
DDICT_API int ddict_persist(ddict_t *d, int timeout_ms);
DDICT_API int ddict_persist_as(ddict_t *d, uint64_t id, int timeout_ms);
/* The numbers of the complete states, ascending, in a malloc'ed array that the caller frees. Returns
 * how many they are, or a negative code. */
DDICT_API ssize_t ddict_persisted_ids(ddict_t *d, uint64_t **ids, int timeout_ms);
/*
 * Give the dictionary exactly that state: what it has is removed and what was saved is put, with all
 * checked before anything is removed. Who reads meanwhile finds a part of it. States with higher
 * numbers are removed then, unless the dictionary is read-only: they are of a future that does not
 * come. -ENOENT: there is no such state. Killed in between the dictionary has a part of the state;
 * a restore gives it the whole.
 */
DDICT_API int ddict_restore(ddict_t *d, uint64_t id, int timeout_ms);
/* Of a read-only dictionary: restore the next state, which is the present one's number + freq, or
 * without freq the next that is there; the first one if none was restored. -ENOENT: there is none
 * any more, and nothing has changed. -EINVAL: the dictionary is not read-only. */
DDICT_API int ddict_advance(ddict_t *d, int timeout_ms);

/* The same in parts, behind the program. *id (may be NULL): which state is restored. wait:
 * -ETIMEDOUT: not yet, call it again; with every other result s is gone. cancel ends the command and
 * undoes a save; s is gone. One thread at a time, and not in a forked child. */
typedef struct ddict_state ddict_state_t;
DDICT_API int ddict_persist_begin(ddict_t *d, uint64_t id, ddict_state_t **s);
DDICT_API int ddict_restore_begin(ddict_t *d, uint64_t id, ddict_state_t **s);
DDICT_API int ddict_advance_begin(ddict_t *d, uint64_t *id, ddict_state_t **s);
DDICT_API int ddict_state_wait(ddict_state_t *s, int timeout_ms);
DDICT_API int ddict_state_cancel(ddict_state_t *s);

/* --- errors and version --- */

DDICT_API const char *ddict_strerror(int code); /* what a code means; static text */
/* The sentence of this thread's last failure, in any call; valid until its next failure. */
DDICT_API const char *ddict_errmsg(void);
/* The version of the library that runs; DDICT_VERSION_STRING is that of this header. */
DDICT_API const char *ddict_version(void);

#ifdef __cplusplus
}
#endif
#endif
