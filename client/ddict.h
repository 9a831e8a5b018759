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
 * Keys are 1 to DDICT_KEY_MAX bytes, values 0 bytes up to what one manager can hold. Keys are
 * compared as bytes. A value lives on the manager that ddict_owner() names. Values of managers on
 * this node are read in place; the others come through a manager of this node.
 *
 * RETURN VALUES. Functions that return int give 0 (or a count, where it says so) or a negative
 * code: a negated errno value (-ETIMEDOUT, -ENOMEM, -EINVAL) or one of the DDICT_E* below.
 * ddict_strerror() explains both kinds; ddict_errmsg() gives the full sentence for the last failure
 * of the calling thread (which manager, which node, how full). A call that fails has stored and
 * removed nothing, with one exception: after -ETIMEDOUT, DDICT_ELOST and DDICT_EGONE a put, del,
 * pop or clear may or may not have taken effect, or may still, until the manager that did not
 * answer has read what was sent to it. (Of ddict_pop() there is more to say: see there.)
 *
 * TIMEOUTS. Every call that can wait takes timeout_ms: milliseconds, -1 = the default
 * ($DDICT_TIMEOUT seconds, else 60 s), 0 = do not wait: values of managers on this node are read in
 * place, and what would have to be asked of a manager gives -ETIMEDOUT without having been sent.
 * With DDICT_WAIT the manager says when the time is over; its word is waited for 50 ms, and that of
 * a pop or push 1 s: a manager that is only late would else take a value for nobody, or store one
 * that the caller takes for refused. A process that was suspended has its deadlines extended by the
 * time it was suspended; one that stood still for less than 2 s was not. A machine on which a
 * thread finds no core for 2 s looks to it as a suspension: its calls last so much longer. No call
 * waits for ever.
 *
 * CONTAINERS. Private mounts, /tmp, /dev/shm, pids and users do not matter, as long as the process
 * is the job's user outside of its user namespace and has a uid of its own in there (65534,
 * "nobody", is no one's). A network namespace of its own is crossed by a socket file,
 * $DDICT_SOCKET: `ddict socket`, ddict(1). What names the dictionary and the node has to be in the
 * container's environment: DDICT_NAME, SLURMD_NODENAME, DDICT_NODE where it is set.
 *
 * THREADS. A handle may be used by any number of threads at once. Calls that change the dictionary
 * from different threads may take effect in either order; calls of one thread take effect in its
 * order. Who may use what at once, and what a fork leaves of it:
 *
 *     object          threads                                            in a forked child
 *     handle          any number; detach when no call is under way       goes on: attaches anew
 *     view            any number read; released once, by any thread      readable, and released, in
 *                                                                        both
 *     iterator        one at a time                                      both go on from where it
 *                                                                        was, each for itself
 *     subscription    one at a time                                      both go on from where it
 *                                                                        was, each for itself
 *     async set       any number; each result goes to one of them        dead there (-ECANCELED);
 *                                                                        its requests go on in the
 *                                                                        parent
 *     place           one at a time                                      dead there (-ECANCELED)
 *     call under way  -                                                  goes on in the parent
 *                                                                        alone
 *
 * Two threads that use one iterator, subscription or place have to take turns by a lock of their
 * own. ddict_errmsg() is of each thread.
 *
 * FORK. A child may use the handle: it attaches anew at its first call (requests of other threads
 * of the parent do not continue in the child), which takes no longer than that call's timeout; a
 * call with a timeout of 0 begins it, and a later one finds it done. Views taken before the fork
 * stay valid in both processes and are released in each; for them fork() asks the managers, at most
 * 0.2 s, and where they do not answer this process holds what the child inherited until they do.
 * (Where it can not, for want of descriptors or memory, a line on stderr says that the child can
 * not read them: it gets SIGSEGV.) A view must be released in the process that took it or inherited
 * it. vfork(), posix_spawn() and exec need nothing; after exec nothing is inherited.
 *
 * DEATH. A process that dies leaves no lock, and its leases are dropped. When a manager or its node
 * is lost every call gives DDICT_ELOST, and when the dictionary has ended DDICT_EGONE, within the
 * deadline; views that are held stay readable until released. A process that writes into memory of
 * this library can break a rule of the managers, who then take nothing from it any more: its calls
 * give DDICT_ELOST, but for what they read in place, which stays right, as do the views that it
 * holds. Descriptors of this library may not be closed by others. A manager that stands still for
 * 10 s (stopped, or waiting for a disk) is lost, too.
 *
 * ORDER. Operations on one key are linearizable: a put that returned is seen by every get that
 * begins later, on every node. Iteration is weakly consistent: a key that is present throughout
 * appears exactly once. Freezing changes nothing of this.
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

typedef struct ddict ddict_t; /* a handle; belongs to the caller until ddict_detach() */

/* Flags of put. Without NEW and EXISTING a put stores always. */
#define DDICT_NEW      1u /* only when the key is absent, else DDICT_EEXISTS */
#define DDICT_EXISTING 2u /* only when the key is present, else DDICT_ENOKEY */
/* Flags of get, view, pop. */
/* wait until the key exists (at most the timeout), else DDICT_ENOKEY at once */
#define DDICT_WAIT 4u
/* With DDICT_WAIT, of pop and push: a manager that does not answer in time (its machine hangs) is
 * waited for once more, as long as a call may take by default. A pop then gives DDICT_ENOKEY when
 * certainly nothing was popped, where without it -ETIMEDOUT leaves open whether a value was popped
 * and is lost. */
#define DDICT_SURE 8u
/* An 8-bit tag that is stored with the value and returned with it; the Python binding marks pickled
 * values with it. */
#define DDICT_TAG(t)        (((unsigned)(t)&0xffu) << 16)
#define DDICT_TAG_OF(flags) (((flags) >> 16) & 0xffu)

/*
 * A value in place. data is 16-byte aligned (64-byte for values of 256 bytes and more), read-only
 * (a write is SIGSEGV) and unchanged until ddict_release(), whatever happens to the key meanwhile.
 * The caller owns the struct; it may be copied, and is released once.
 */
struct ddict_view {
    const void *data;
    size_t len;       /* bytes */
    uint64_t version; /* grows with every change on the key's manager */
    unsigned tag;
    unsigned kind_; /* the library's: 0 none, 1 lease, 2 private memory */
    void *owner_;   /* the library's */
    uint64_t slot_; /* the library's */
};

/*
 * Attach to a dictionary of this node. name: NULL for $DDICT_NAME, and where that is not set within
 * a Slurm job for the job's own dictionary, "<uid>.$SLURM_JOB_ID.job". Waits until the managers are
 * ready, at most timeout_ms. Errors: DDICT_ENODICT (no name; or nothing listens under it: the
 * message says which), DDICT_ECRED, DDICT_EVERSION, DDICT_EGONE, -ETIMEDOUT, -ENOMEM, -EMFILE.
 */
DDICT_API int ddict_attach(ddict_t **out, const char *name, int timeout_ms);

/* End the handle and free it. Views taken from it stay valid until they are released. NULL is
 * allowed. Returns 0. */
DDICT_API int ddict_detach(ddict_t *d);

/*
 * Store a copy of len bytes at val under key. flags: DDICT_NEW or DDICT_EXISTING or neither, and
 * DDICT_TAG(t). Returns after the owner has acknowledged. Errors: DDICT_EFULL, DDICT_EEXISTS,
 * DDICT_ENOKEY, DDICT_EKEYSIZE, DDICT_EVALSIZE, DDICT_ELOST, DDICT_EGONE, -ETIMEDOUT, -EINVAL (both
 * modes).
 */
DDICT_API int ddict_put(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                        unsigned flags, int timeout_ms);
/* As ddict_put(), the value gathered from n pieces (n <= DDICT_PIECES_MAX). */
DDICT_API int ddict_putv(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
                         unsigned flags, int timeout_ms);

/*
 * Copy the value into buf of cap bytes. *vlen (may be NULL) receives the value's length, also with
 * DDICT_ESMALL, where nothing is copied; *tag (may be NULL) its tag. flags: 0 or DDICT_WAIT.
 */
DDICT_API int ddict_get(ddict_t *d, const void *key, size_t klen, void *buf, size_t cap,
                        size_t *vlen, unsigned *tag, unsigned flags, int timeout_ms);

/*
 * The value in place. A value of another node is fetched into memory of this node's manager, or of
 * this process when that has no room. *v is valid until ddict_release(). flags: 0 or DDICT_WAIT.
 *
 * A value that lies on disk (--ddict-spill) is read from there and compared with its checksums by
 * each call that reads it: -EIO says that the disk can not read it, or gave back other bytes than
 * were written. Such a view of up to 64 MiB is private memory; a larger one, or where memory is
 * short, is mapped, after all of it was compared: reading v->data later may be SIGBUS if the disk
 * fails then, which ddict_get() never is.
 */
DDICT_API int ddict_view(ddict_t *d, const void *key, size_t klen, struct ddict_view *v,
                         unsigned flags, int timeout_ms);
DDICT_API void ddict_release(struct ddict_view *v);

/* Remove the key. DDICT_ENOKEY when it was absent. */
DDICT_API int ddict_del(ddict_t *d, const void *key, size_t klen, int timeout_ms);
/*
 * Remove the key and give its last value as a view; exactly one of several callers gets it.
 *
 * What a pop that failed has done: DDICT_ENOKEY, -ENOMEM (this process, or a manager, has no memory
 * for the value) and all codes but these: nothing, the value is still there for the next one. -EIO:
 * the disk that it was on can not read it; it is removed. -ETIMEDOUT: no answer; where the request
 * had been sent a value may have been removed, or may be yet, and is lost then, as where the answer
 * broke off in the middle of a large value. With DDICT_WAIT | DDICT_SURE this is said only if the
 * manager is silent for as long as a call may take by default (see DDICT_SURE). DDICT_ELOST,
 * DDICT_EGONE: the manager, the connection to it or the dictionary went away meanwhile; the value
 * may have been removed. -ECANCELED of an asynchronous request: as -ETIMEDOUT. A value of another
 * node comes into memory of this node's manager or of this process, which is set aside before it is
 * removed: 4 KiB, or what values popped so far took, up to 1 MiB; a longer one costs one more
 * question. Of those that wait for a key with DDICT_WAIT one that has to ask again does so behind
 * the others.
 */
DDICT_API int ddict_pop(ddict_t *d, const void *key, size_t klen, struct ddict_view *v,
                        unsigned flags, int timeout_ms);
/* 1 when present, 0 when absent, or a negative code. *vlen (may be NULL) receives the length of the
 * value. */
DDICT_API int ddict_contains(ddict_t *d, const void *key, size_t klen, size_t *vlen,
                             int timeout_ms);
/* Number of keys of the whole dictionary (a sum over managers, each exact at its own moment), or a
 * negative code. */
DDICT_API int64_t ddict_len(ddict_t *d, int timeout_ms);
/* Remove all keys, manager by manager. */
DDICT_API int ddict_clear(ddict_t *d, int timeout_ms);

/*
 * Queues: a key can have several values in an order. ddict_push() stores behind the last one;
 * ddict_pop() takes the first (with DDICT_WAIT: waits for one), which exactly one caller gets, and
 * makes the next the first. All other calls see the first alone, and ddict_del() and ddict_clear()
 * remove all. The values of one key are on one manager and come out as it took them in: those of
 * one thread in its order. Those that wait with DDICT_WAIT are served first come, first served. (A
 * pop that is repeated until something comes should have DDICT_SURE, too.) A queue may be made for
 * at most so many values, which is its own then, for all processes: the first `most` that is not 0
 * says so, of ddict_queue_open() or ddict_push(), until ddict_del() of a key that has a value, or
 * ddict_clear(). Another one that is not 0 is -EINVAL; 0 asks for nothing. Where a queue has as
 * many, a push is -EAGAIN, at once or, with DDICT_WAIT, when there was no room within timeout_ms.
 * Other errors as ddict_put(). A value that a process had popped when it died is gone with it.
 * Values of a queue are in the managers' memory, and count there, as any others; each needs that of
 * a key.
 */
/* *own (may be NULL) receives how many values the queue may have, 0: any number. The key need not
 * have a value. */
DDICT_API int ddict_queue_open(ddict_t *d, const void *key, size_t klen, uint64_t most,
                               uint64_t *own, int timeout_ms);
DDICT_API int ddict_push(ddict_t *d, const void *key, size_t klen, const void *val, size_t vlen,
                         unsigned flags, uint64_t most, int timeout_ms);
DDICT_API int ddict_pushv(ddict_t *d, const void *key, size_t klen, const struct iovec *iov, int n,
                          unsigned flags, uint64_t most, int timeout_ms);
/* How many values the key has: 0 when it is absent, 1 for one that was put; or a negative code. */
DDICT_API int64_t ddict_queued(ddict_t *d, const void *key, size_t klen, int timeout_ms);

/*
 * Many at once: as many are sent as fit before an answer is waited for. Of two pairs with one key
 * the later one wins. timeout_ms is the time without any progress; with DDICT_WAIT that of the
 * whole call. A manager of another node that stands still (its manager here notices after 100 ms)
 * holds up its own keys alone: the others of the call are stored or found first, and then the call
 * waits for that one, once for timeout_ms. One of this node that stands still holds up the keys
 * that are asked of it.
 */
struct ddict_pair {
    const void *key;
    size_t klen;
    const void *val;
    size_t vlen;
    unsigned flags; /* as in ddict_put() */
    int status;     /* out: 0 or the code of this pair, see below */
};
/*
 * Returns the number of pairs stored; each pair's status says which. A negative code only when
 * nothing could be sent. When the call ends before its time, status tells what was not sent from
 * what is not known: -ECANCELED: the pair was not sent, or not all of it, and is stored nowhere; it
 * may be given to another call. -ETIMEDOUT, DDICT_ELOST, DDICT_EGONE: it was sent and not answered:
 * it may be stored, or may be yet. Any other code: refused, as by ddict_put().
 */
DDICT_API ssize_t ddict_put_many(ddict_t *d, struct ddict_pair *pairs, size_t n, int timeout_ms);

struct ddict_want {
    const void *key;
    size_t klen;
    struct ddict_view view; /* out: valid when status is 0; release each */
    int status;             /* out: 0, DDICT_ENOKEY, ... */
};
/* Returns the number of keys found. */
DDICT_API ssize_t ddict_get_many(ddict_t *d, struct ddict_want *wants, size_t n, unsigned flags,
                                 int timeout_ms);

/*
 * A value built in place: data is memory that the manager reads itself, so the value is copied
 * once, where ddict_put() copies it twice.
 *
 *     ddict_reserve(d, key, klen, bytes, 0, &p);
 *     fill(p.data, p.len);                             anything; nobody sees it yet
 *     ddict_commit(&p, -1);                            as ddict_put() of it; or ddict_abort(&p)
 *
 * The memory is shared with the managers of this node, charged to this process as its own, and
 * given back by commit or abort (up to 64 MiB a manager of this node stay for the next value). Any
 * number of places may be held. What they hold at first is not defined. The dictionary's own memory
 * is taken at commit, so that is where DDICT_EFULL comes. A place belongs to the process that
 * reserved it and to its handle: in a forked child, and after ddict_detach(), the memory is not
 * there any more, ddict_commit() gives -ECANCELED and ddict_abort() does nothing. A process that
 * dies leaves nothing.
 */
struct ddict_place {
    void *data; /* len bytes, 64-byte aligned (whole pages where it is large) */
    size_t len;
    void *own_; /* the library's */
};
/* flags as in ddict_put(). Errors: DDICT_EKEYSIZE, DDICT_EVALSIZE (more than a manager has, or 64
 * GiB), -EINVAL, -ENOMEM, and as every call. Asks nobody. */
DDICT_API int ddict_reserve(ddict_t *d, const void *key, size_t klen, size_t vlen, unsigned flags,
                            struct ddict_place *p);
/* Store it. The place is over then, whatever comes; p->data is NULL. Errors as ddict_put(). Two
 * threads may not use one place at once. */
DDICT_API int ddict_commit(struct ddict_place *p, int timeout_ms);
/*
 * The same, but the place stays, for what may still point into it or to be stored again: to be
 * given back by ddict_abort(). Do not write to it while the call lasts, nor after -ETIMEDOUT: what
 * is written then may be part of what is stored.
 */
DDICT_API int ddict_commit_keep(const struct ddict_place *p, int timeout_ms);
/* Give it up. No-op when it is over. */
DDICT_API void ddict_abort(struct ddict_place *p);

/*
 * Asynchronous requests: many under way, without waiting for any. A set takes them, each a struct
 * ddict_op, and gives each back when it is over. No thread runs for it: what has to be done is done
 * within submit and poll, by whoever calls them (and within other calls of the process on the same
 * dictionary). Its descriptor is for poll(), epoll and the event loops built on them:
 *
 *     ddict_async_open(d, &q);                        for (;;) {
 *     op.what = DDICT_OP_VIEW;                            epoll_wait(...); ddict_async_fd(q) among
 *                                                         others
 *     op.key = "w"; op.klen = 1;                          while ((n = ddict_async_poll(q, done, 64,
 *                                                         0)) > 0)
 *     op.timeout_ms = -1; op.user = mine;                     ... done[i].user, done[i].status,
 *                                                             done[i].view
 *     ddict_async_submit(q, &op, 1);                  }
 *
 * ORDER. Puts, dels and pops of one key that are submitted to one set take effect in their order;
 * otherwise requests end in any order, and take effect at any moment between submit and their
 * result. What was submitted is not ordered with other calls. THREADS. A set may be used by any
 * number of threads at once; each result goes to one of them. Any number of sets of a handle may be
 * used. FORK. Requests go on in the parent alone. In a child a set of its parent is dead: every
 * call on it gives -ECANCELED, ddict_async_close() gives its descriptors back. The child opens one
 * of its own. DETACH. ddict_detach() ends the handle's sets as ddict_async_cancel() for each of
 * their requests would. Their results can still be polled; the set is to be closed.
 */
typedef struct ddict_async ddict_async_t;
/* as ddict_view(), ddict_get(), ... */
enum { DDICT_OP_VIEW = 1, DDICT_OP_GET, DDICT_OP_PUT, DDICT_OP_DEL, DDICT_OP_POP, DDICT_OP_PUTV };
struct ddict_op {
    /* in; given back unchanged with the result, but key: NULL */
    unsigned what;   /* DDICT_OP_* */
    unsigned flags;  /* as in the call of that name */
    const void *key; /* the caller's again when ddict_async_submit() returns */
    size_t klen;
    /* PUT: the value, PUTV: struct iovec (not written, nor what they name), GET: the value's place;
     * the library's until the result is there */
    void *buf;
    size_t len; /* of buf: bytes; PUTV: pieces, at most 1024 */
    /* as everywhere. It is judged when the set is polled; -ETIMEDOUT may come 100 ms late, and each
     * request ends when it is over */
    int timeout_ms;
    void *user; /* the caller's own */
    /* out */
    /* 0: over when ddict_async_submit() returned. Else unique in its set */
    uint64_t ticket;
    int status;             /* -EINPROGRESS, else 0 or the code of its end */
    unsigned tag;           /* GET */
    size_t vlen;            /* GET: length of the value, also with DDICT_ESMALL */
    struct ddict_view view; /* VIEW, POP with status 0: to be released */
    /* the sentence of a failure, malloc'ed, to be freed with free(); NULL: none */
    char *text;
};
/* Errors: -ENOMEM, -EMFILE, and as every call. */
DDICT_API int ddict_async_open(ddict_t *d, ddict_async_t **out);
/*
 * Readable when ddict_async_poll() has something to do: results, or messages to take or to send on.
 * Quiet when ddict_async_poll() has returned less than n. Only to be waited on. It belongs to the
 * set.
 */
DDICT_API int ddict_async_fd(ddict_async_t *q);
/*
 * Begin n requests. Those that can be are over when it returns (ticket 0, status says how): values
 * of managers on this node, what is refused. The others have a ticket and status -EINPROGRESS, and
 * ddict_async_poll() gives each of them once. Never waits. Returns how many are under way, or a
 * negative code when none was begun: -ECANCELED (after detach; in a child).
 */
DDICT_API ssize_t ddict_async_submit(ddict_async_t *q, struct ddict_op *ops, size_t n);
/*
 * Up to n requests that are over, into done. Waits for the first at most timeout_ms (-1: the
 * default, 0: not at all), and not when nothing is under way. Returns their number, 0 when there
 * was none in time, or a negative code (-ECANCELED in a child). Call it often enough: values in
 * pieces go on, and deadlines are judged, only there.
 */
DDICT_API ssize_t ddict_async_poll(ddict_async_t *q, struct ddict_op *done, size_t n,
                                   int timeout_ms);
/*
 * End a request that is under way: buf is the caller's when it returns, and its result, -ECANCELED,
 * comes by ddict_async_poll(). A put, del or pop may or may not have taken effect. -ENOENT: there
 * is none of that ticket, or its result is there already.
 */
DDICT_API int ddict_async_cancel(ddict_async_t *q, uint64_t ticket);
/* Number of requests whose result was not polled yet. */
DDICT_API size_t ddict_async_len(ddict_async_t *q);
/* Cancel what is under way, drop the results that were not polled, free the set. No other thread
 * may be in a call on it. NULL is allowed. */
DDICT_API void ddict_async_close(ddict_async_t *q);

/*
 * Make the whole dictionary read-only, for all its processes: put, del, pop and clear give
 * DDICT_EFROZEN until ddict_unfreeze(). Values of other nodes that are read meanwhile stay in the
 * memory of this node's managers that is free, and every later reader on the node has them in
 * place, without a message. Returns when all managers are read-only and keep values; a value that
 * is being stored when it begins may take until then, at most 5 s, and is refused after that.
 * Freezing is not counted: a dictionary that is frozen is frozen by nobody a second time (0 at
 * once), and one unfreeze ends it. What several processes ask at once is done one after the other.
 * The dictionary stays frozen when the process that froze it ends. Errors: DDICT_ELOST,
 * DDICT_EGONE, -ETIMEDOUT (it may still happen), -ENOMEM.
 */
DDICT_API int ddict_freeze(ddict_t *d, int timeout_ms);
/* Writes are possible again when this returns, on all nodes. The kept values are given up; views of
 * them stay valid, and their memory is taken, until they are released. */
DDICT_API int ddict_unfreeze(ddict_t *d, int timeout_ms);
/* 1 from before the return of a freeze to the begin of an unfreeze, else 0, or a negative code.
 * Asks nobody. */
DDICT_API int ddict_is_frozen(ddict_t *d);
/*
 * Have this node's managers fetch those of n keys that are on other nodes and are not kept here
 * yet, and return at once: to read them later without waiting. What finds no room is not kept, and
 * a key that is absent is none's business. Returns the number of values that will be fetched; 0
 * when the dictionary is not frozen.
 */
DDICT_API ssize_t ddict_prefetch(ddict_t *d, const struct iovec *keys, size_t n, int timeout_ms);

/*
 * Iterate over the keys. manager: -1 for all, -2 for those of this node, else one manager's. The
 * iterator is used by one thread at a time; ddict_iter_close() frees it, also in the middle.
 * timeout_ms is that of each answer of a manager; after -ETIMEDOUT the next call goes on where it
 * was. Returns of next: 1 and *key, *klen (valid until the next call), 0 at the end, or a negative
 * code.
 */
typedef struct ddict_iter ddict_iter_t;
DDICT_API int ddict_iter_open(ddict_t *d, int manager, ddict_iter_t **out, int timeout_ms);
/* Only the keys that begin with the plen bytes of prefix, which the managers pick out. */
DDICT_API int ddict_iter_open_prefix(ddict_t *d, int manager, const void *prefix, size_t plen,
                                     ddict_iter_t **out, int timeout_ms);
DDICT_API int ddict_iter_next(ddict_iter_t *it, const void **key, size_t *klen);
DDICT_API void ddict_iter_close(ddict_iter_t *it);

/*
 * Subscribe to what happens to keys that begin with the plen bytes of prefix (0: all keys), at all
 * managers. Every put that begins after this returned is told of. A subscription is used by one
 * thread at a time and closed before ddict_detach(); in a forked child, parent and child go on each
 * for itself with what the parent had not read. Nobody waits for a subscriber: managers keep the
 * last 4096 events of a prefix (64 MiB of all prefixes together), and who does not read them for
 * longer is told by an event DDICT_EVENT_MISSED, and then has to list the keys again. Order: events
 * of one manager in its order. Errors: -EINVAL, DDICT_EKEYSIZE, -ENOMEM (too many prefixes: of 256
 * MiB a manager, some 200 bytes each), DDICT_ELOST, DDICT_EGONE, -ETIMEDOUT.
 */
typedef struct ddict_sub ddict_sub_t;
#define DDICT_SUB_DELS 1u /* also of keys that are removed */
/* values of up to 8 KiB come along, if they are still those of the event */
#define DDICT_SUB_VALUES 2u
/* First of all the keys that are there, as puts of version 0; one that is put meanwhile may come
 * twice. A call that ends before a manager has listed its own gives 0, and a later one goes on. */
#define DDICT_SUB_THERE 4u
enum { DDICT_EVENT_PUT = 1, DDICT_EVENT_DEL, DDICT_EVENT_CLEAR, DDICT_EVENT_MISSED };
struct ddict_event {
    int kind;
    unsigned manager; /* CLEAR, MISSED: whose */
    const void *key;  /* PUT, DEL; valid until the next call on the subscription, as val */
    size_t klen;
    const void *val; /* PUT: the value, or NULL: get it (it may be another one by then) */
    size_t vlen;     /* PUT with version > 0 */
    unsigned tag;
    uint64_t version; /* PUT */
    uint64_t missed;  /* MISSED: so many events, or more when it read nothing for a minute */
};
DDICT_API int ddict_subscribe(ddict_t *d, const void *prefix, size_t plen, unsigned flags,
                              ddict_sub_t **out, int timeout_ms);
/* 1 and *e, 0 when none came within timeout_ms (0: does not wait; also where a manager can not even
 * be asked in that time), or a negative code; after DDICT_EGONE and DDICT_ELOST nothing comes any
 * more. */
DDICT_API int ddict_next_event(ddict_sub_t *sub, struct ddict_event *e, int timeout_ms);
DDICT_API void ddict_unsubscribe(ddict_sub_t *sub); /* NULL is allowed */

/* 1 when the dictionary has begun to end and waits for its last clients, 0 while it serves, or
 * DDICT_EGONE, DDICT_ELOST. */
DDICT_API int ddict_ending(ddict_t *d);

/* What the handle is attached to. Strings belong to the handle. */
struct ddict_info {
    const char *name;  /* as in $DDICT_NAME */
    const char *node;  /* this node */
    unsigned managers; /* of the whole dictionary */
    unsigned nodes;
    unsigned node_id; /* 0 .. nodes - 1 */
    unsigned local_managers;
    uint64_t total_bytes; /* of the whole dictionary */
    unsigned char id[16]; /* unique for each dictionary ever started */
    /* space on disk for what memory has no room for, if all nodes have as much as this one; 0: none
     * */
    uint64_t spill_bytes;
};
DDICT_API int ddict_get_info(ddict_t *d, struct ddict_info *info);
/* The manager that owns key, 0 .. managers - 1; manager m runs on node m mod nodes. */
DDICT_API unsigned ddict_owner(ddict_t *d, const void *key, size_t klen);

/*
 * Figures of one manager. Bytes and counts since its start unless said otherwise. Later versions
 * append fields and change none that is here, so each call takes the size of the struct that its
 * program was compiled with: a size tells more than a version number, and costs a caller one sizeof
 * where functions for each figure would cost a call a field.
 */
struct ddict_manager_stats {
    uint32_t manager_id;
    uint32_t node_id;
    uint32_t pid;
    int32_t state; /* 0 serving, else a DDICT_E* code (DDICT_ELOST) */
    char hostname[64];
    char node[64];
    uint64_t total_bytes;      /* size of the manager's memory */
    uint64_t total_used_bytes; /* of it in use: items, index, blocks not yet reclaimed */
    /* of it free, for values of any size: without what is scattered and could not be brought
     * together lately */
    uint64_t pool_free_space;
    double pool_utilization; /* percent */
    uint64_t num_keys;
    uint64_t free_blocks[48]; /* [i]: free blocks of 2^i .. 2^(i+1)-1 bytes */
    uint64_t puts, gets_local, gets_remote, misses, deletes;
    uint64_t bytes_in, bytes_out;
    /* cache_hits: reads of cached values of other nodes; they are in gets_local, too. Reads of more
     * than 512 clients may be of earlier stats */
    uint64_t cache_hits, evictions, full_errors;
    uint64_t frozen;                     /* 1 between freeze and unfreeze */
    uint64_t cached_items, cached_bytes; /* now; in total_used_bytes, not in num_keys */
    /* size of the file on disk for what memory has no room for; 0: none */
    uint64_t spill_total_bytes;
    uint64_t spill_used_bytes, spill_items; /* of it in use, and how many values */
    uint64_t spilled_bytes;                 /* ever put or moved there */
    uint64_t clients_now, clients_peak;
    /* of clients_now, those that it looks at in each turn; the others ring when they ask and cost
     * nothing meanwhile */
    uint64_t lanes_watched;
    /* memory of its lanes to clients_now: rings, and what they have of values that are built in
     * place. Beside total_bytes */
    uint64_t lane_bytes;
    /* memory that bursts had left in lanes and that went back, ever: 5 s after the last that went
     * through them */
    uint64_t lane_returned_bytes;
    uint64_t connections; /* to and from managers of other nodes */
    uint64_t descriptors; /* that its process has open */
    /* of its process; each client has its own for what it reads. Beside total_bytes */
    uint64_t page_table_bytes;
    uint64_t prefixes; /* that are subscribed to, or were within a minute */
    /* memory of events that are kept for them. Beside total_bytes */
    uint64_t events_bytes;
    uint64_t retired_bytes; /* replaced or deleted, not reusable yet */
    uint64_t leased_bytes;  /* of retired_bytes, held by views at the last scan */
    /* free between values of about that size; others can have it once values have been moved
     * together */
    uint64_t scattered_bytes;
    uint64_t moved_bytes; /* of values that were ever moved for that */
    uint32_t largest_holder_pid;
    /* the manager and its memory are bound to it; -1: not bound (nodes with one NUMA node need not)
     * */
    int32_t numa_node;
    uint64_t largest_holder_bytes;
    /* taken ahead of use, behind the service, by this process of the manager */
    uint64_t populated_bytes;
    uint64_t populate_us;         /* what that took */
    uint64_t refused_connections; /* failed authentication or malformed */
    uint64_t uptime_us;
    /* of the pages that its memory is made of: 4096, or those of a pool of huge ones */
    uint64_t page_bytes;
    /* of its memory, what lies in huge pages: of a pool, or where the kernel was asked for them and
     * gave them */
    uint64_t huge_bytes;
    /* of values that it read out of other managers' memory itself */
    uint64_t rma_bytes;
    /* values that it sent by messages because the network could not be given their memory to read
     * (see its log) */
    uint64_t rma_refused;
    /* what carries its messages to managers of other nodes: "tcp", "ofi:" and libfabric's provider,
     * "" on one node; " rma" behind it: see rma_bytes */
    char transport[72];
    struct ddict_latency latency[DDICT_LATENCY_N];
    /*
     * How long the manager's turns took: in one it serves what has come, and nobody else is served
     * until it is over. By its CPU time, so that a machine on which it has to wait for a core
     * counts for nothing (of turns below a millisecond the time that passed). Turns without work do
     * not count.
     */
    /* [i]: of 2^i .. 2^(i+1)-1 microseconds; [0] has those below, too, and the last those above */
    uint64_t turns[DDICT_TURNS_N];
    uint64_t turn_max_us;
    /* what protects these messages: "plain", "auth" or "encrypt" (--ddict-wire), "" on one node */
    char wire[8];
};
/*
 * *out: malloc'ed array of one entry a manager in order of manager_id, freed with free(). size:
 * sizeof **out; of each entry so much is written, and where that is more than this library knows
 * the rest is 0, as is what the managers do not know. Returns their number. -EINVAL: a size that
 * the struct never had.
 */
DDICT_API int ddict_stats(ddict_t *d, struct ddict_manager_stats **out, size_t size,
                          int timeout_ms);
/* One manager's figures as a JSON object, malloc'ed; NULL without memory. size: sizeof *s. */
DDICT_API char *ddict_stats_json(const struct ddict_manager_stats *s, size_t size);

/* Ask the managers of dictionary name (NULL: as for ddict_attach()) to drain and end; returns when
 * they took the order. */
DDICT_API int ddict_down(const char *name, int timeout_ms);

DDICT_API const char *ddict_strerror(int code); /* static text */
/* last failure of this thread in any call; valid until its next failure */
DDICT_API const char *ddict_errmsg(void);
DDICT_API const char *ddict_version(void);

#ifdef __cplusplus
}
#endif
#endif
