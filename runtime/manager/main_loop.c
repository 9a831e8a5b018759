/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main_loop.c - one manager: opens its arena, reports that it is ready, and serves until ddictd
 * tells it to stop. With more than one core it spins a little after work. Then it announces that it
 * sleeps (PROTOCOL 3), and costs nothing until it is woken.
 */
#include "main_loop.h"

#include "alive.h"
#include "anew.h"
#include "aside.h"
#include "cache.h"
#include "forward.h"
#include "forward_table.h"
#include "freeze.h"
#include "lane_answers.h"
#include "lane_clients.h"
#include "lane_memory.h"
#include "lane_placed.h"
#include "lanes.h"
#include "ledger.h"
#include "manager.h"
#include "numa_bind.h"
#include "parked.h"
#include "peer_client.h"
#include "peer_server.h"
#include "prefetch.h"
#include "queues.h"
#include "recovery.h"
#include "replica_backup.h"
#include "replica_primary.h"
#include "requests.h"
#include "results.h"
#include "rma_export.h"
#include "rooms.h"
#include "stats.h"
#include "stream_in.h"
#include "subscriptions.h"
#include "supmsg.h"
#include "transit.h"
#include "waiters.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/spin.h>
#include <wire/conn_counts.h>
#include <wire/fabric/fabric.h>

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* bytes of free memory not given back to the kernel: a burst of answers allocates and frees so much
 * many times in a millisecond */
#define HEAP_KEPT (2 << 20)
/* blocks of at least so many bytes are mapped one by one: the large ones of backlog.c, no message */
#define HEAP_PIECE   (1 << 20)
#define TURN_LONG_NS 1000000u /* turns longer than this are measured in CPU time, */
#define TURN_LOOK_NS 200000u  /* which takes a system call: at most once in this time */
/* messages of ddictd in a turn: to add a client takes some 40 us for its mappings, to remove one as
 * long as its open requests take */
#define SUP_TURN 16u
/* between looks at the sockets while lanes are busy or the manager spins: each costs half a
 * microsecond */
#define POLL_NS      10000u
#define SUSPENDED_MS 10 /* between looks whether the node has a lease again */

/* One idle turn: keep the core for a moment, then yield it to whoever needs it more (on few cores
 * the requester itself). */
static inline void spin_turn(struct manager *m, uint64_t idle_ns) {
    m->spun++;
    if (idle_ns < DD_SPIN_ALONE_NS)
        spin_relax();
    else
        m->now = spin_yield(m->now);
}

/* --- what modules call of those above them --- */
static void carriers_look(struct manager *m) {
    lanes_look(m);
    peer_servers_look(m);
    replica_backup_look(m);
}

static const struct upcalls upcalls = {.unstall = lanes_unstall,
                                       .settle = lanes_settle,
                                       .look = carriers_look,
                                       .popped_alone = lanes_popped_alone,
                                       .lane_figures = lanes_figures,
                                       .has_client = client_is_served,
                                       .links = peer_servers_links,
                                       .take = request_take,
                                       .again = request_look,
                                       .commit = request_commit,
                                       .run = request_run,
                                       .key_next = request_key_next};

/* --- timers of the whole manager --- */
static void tick_fire(struct timer *t) {
    struct manager *m = (struct manager *)(void *)((char *)t - offsetof(struct manager, tick));
    bool more = peer_servers_tick(m);
    more |= peers_tick(m);
    more |= replica_backup_tick(m);
    if (more)
        manager_ticks(m);
}

static void unstall_fire(struct timer *t) {
    lanes_unstall((struct manager *)(void *)((char *)t - offsetof(struct manager, unstall)));
}

static void late_fire(struct timer *t) {
    struct manager *m = (struct manager *)(void *)((char *)t - offsetof(struct manager, late));
    bool more = forwards_late(m);
    parked_late(m);
    if (more || m->parkings)
        timer_after(&m->timers, t, DD_LATE_MS * 1000000ull);
}

static void ledger_fire(struct timer *t) {
    struct manager *m =
        (struct manager *)(void *)((char *)t - offsetof(struct manager, ledger_shrink));
    if (ledger_shrink(m->setup->ledger))
        timer_after(&m->timers, t, DD_LANE_PAUSE_MS * 1000000ull);
    else
        manager_ledger_look(m);
}

static void settle_fire(struct timer *t) {
    lanes_settle((struct manager *)(void *)((char *)t - offsetof(struct manager, settle)));
}

/* A client of an earlier life can not be served any more, but it reads on: without its leases blocks
 * that it reads would be used again. */
static void leases_keep(struct manager *m, const struct sup_msg *s, const int *fds, int nfds) {
    if (nfds > 0 && hold_add(m, s->id, s->pid, fds[0]) == 0)
        return;
    log_error("the leases of client %llu can not be had", (unsigned long long)s->id);
    _exit(1);
}

static void map_take(struct manager *m, const struct sup_msg *s) {
    if (s->pid != s->id)
        results_proxy_lost(m, (uint32_t)s->id);
    peer_refills(m, (uint32_t)s->id, owner_is_refilling(sup_map_keys(s)));
    if (s->id != m->setup->id)
        peer_moved(m, (uint32_t)s->id, s->pid, (uint16_t)s->used_bytes);
    else if (replica_backup_is(m))
        replica_backup_map(m, s);
    if (s->id != m->setup->id || replica_backup_is(m))
        return;
    replica_primary_map(m, s);
    if (s->pid == m->setup->identity.self)
        anew_map(m, s);
}

static void sup_take(struct manager *m, const struct sup_msg *s, int *fds, int nfds) {
    static struct sup_msg r;
    memset(&r, 0, sizeof r);
    r.id = s->id;
    switch (s->type) {
    case SUP_CLIENT_ADD:
        r.type = s->count ? SUP_CLIENT_BAD : SUP_CLIENT_ADDED;
        r.status = nfds == 4 ? client_add(m, s->id, s->pid, fds) : -EMFILE;
        if (r.status == 0)
            fds[2] = fds[3] = -1; /* the client's from now on */
        else if (s->count)
            leases_keep(m, s, fds, nfds);
        if (!s->count || r.status < 0)
            manager_tell(m, &r);
        break;
    case SUP_CLIENT_DEL:
        client_del(m, s->id);
        hold_del(m, s->id); /* see leases_keep() */
        break;
    case SUP_GO:
        m->knows = true;
        results_open(m);
        recovery_go_on(m);
        break;
    case SUP_CLIENT_BAN:
        client_ban(m, s->id);
        break;
    case SUP_HOLD_ADD:
        r.type = SUP_HOLD_ADDED;
        r.status = nfds == 1 ? hold_add(m, s->id, s->pid, fds[0]) : -EMFILE;
        if (s->count && r.status < 0)
            leases_keep(m, s, NULL, 0);
        if (!s->count)
            manager_tell(m, &r);
        break;
    case SUP_HOLD_DEL:
        hold_del(m, s->id);
        break;
    case SUP_FREEZE:
    case SUP_FREEZE_SAID:
        freeze_take(m, s);
        break;
    case SUP_MAP:
        map_take(m, s);
        break;
    case SUP_PING:
        break; /* the turn itself is the answer */
    case SUP_STATS:
        m->ending = true;
        r.type = SUP_STATS_REPLY;
        manager_figures(m, &r.stats);
        manager_tell(m, &r);
        break;
    default:
        __atomic_store_n(&m->stopping, true, __ATOMIC_RELAXED);
        break;
    }
}

static void sup_ready(struct io_handler *h, uint32_t events) {
    struct manager *m = (struct manager *)(void *)((char *)h - offsetof(struct manager, sup));
    static struct sup_msg s;
    for (unsigned taken = 0; taken < SUP_TURN; taken++) {
        int fds[4], n = sup_recv(h->fd, &s, fds, 4);
        if (n == -EAGAIN)
            return;
        /* without its descriptors the message cannot be carried out: the answer says so */
        if (n == -EMFILE) {
            n = 0;
        } else if (n < 0) {
            __atomic_store_n(&m->stopping, true, __ATOMIC_RELAXED); /* ddictd has ended */
            return;
        }
        sup_take(m, &s, fds, n);
        while (n-- > 0)
            if (fds[n] >= 0)
                close(fds[n]);
        if (m->stopping || share_spent(m))
            return; /* the rest in the next turn */
    }
}

/* The spill's threads have done something; store_work() handles it in this turn. */
static void spill_ready(struct io_handler *h, uint32_t events) {
    uint64_t n;
    while (read(h->fd, &n, sizeof n) < 0 && errno == EINTR) {
    }
}

/* --- populate, behind the service --- */

/* Where the kernel killed the life before for want of memory, what this one takes ahead of use would
 * soon make it the largest process again. */
static bool may_populate(const struct manager *m) {
    return !__atomic_load_n(&m->stopping, __ATOMIC_RELAXED) && !m->setup->page->no_memory;
}

static void *populate(void *arg) {
    struct manager *m = arg;
    /* on Linux of this thread only */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
    do
        manager_bind_look(m);
    while (may_populate(m) && store_populate(m->store) > 0);
    return NULL;
}

/* --- the loop --- */
static void gone_reap(struct manager *m) {
    m->reap = false;
    lanes_reap(m);
    peer_servers_reap(m);
    replica_backup_reap(m);
    peers_reap(m);
}

/* --- how long turns take --- */
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void turn_begin(struct manager *m, uint64_t at) {
    m->turn = at;
    if (at - m->turn_cpu_at < TURN_LOOK_NS)
        return;
    m->turn_cpu = cpu_ns();
    m->turn_cpu_at = at;
}

/* The CPU time of a long turn includes up to TURN_LOOK_NS of the turns before. */
static void turn_end(struct manager *m) {
    struct counters *c = m->count;
    uint64_t took = m->now > m->turn ? m->now - m->turn : 0;
    if (took >= TURN_LONG_NS) {
        uint64_t cpu = cpu_ns() - m->turn_cpu;
        if (cpu < took)
            took = cpu;
    }
    turns_add(c->turns, took);
    if (took > c->turn_max_ns)
        c->turn_max_ns = took;
}

/* True: a descriptor became ready. */
static bool sleep_until_work(struct manager *m) {
    __atomic_store_n(&m->header->spun, m->spun, __ATOMIC_RELAXED);
    __atomic_store_n(&m->header->sleeping, 1, __ATOMIC_RELAXED);
    /* pairs with the client's fence between storing tail and reading `sleeping` */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    share_later(m);
    bool heard = io_wait(m->epoll_fd, lanes_ready(m) ? 0 : timers_wait_ms(&m->timers)) > 0;
    __atomic_store_n(&m->header->sleeping, 0, __ATOMIC_RELAXED);
    m->now = clock_ns();
    m->turn = io_woke(); /* no CPU time was used asleep */
    if (heard)
        turn_end(m);
    turn_begin(m, m->now);
    return heard;
}

bool manager_work(struct manager *m) {
    bool worked = store_work(m->store);
    rooms_turn(m);
    worked |= peer_servers_later(m) | replica_backup_turn(m);
    worked |= waiters_turn(m) | subscriptions_turn(m);
    if (m->anew)
        worked |= anew_turn(m);
    if (m->primary)
        worked |= replica_primary_turn(m);
    if (m->shut)
        worked |= freeze_turn(m) | prefetch_turn(m);
    m->now = clock_ns();
    uint64_t now = timers_look(&m->timers, m->now);
    if (timers_next(&m->timers) <= now) {
        timers_run(&m->timers, now);
        m->now = clock_ns();
        worked = true;
    }
    if (m->reap) {
        gone_reap(m);
        m->now = clock_ns();
    }
    if (m->unparks && m->parkings && parked_turn(m)) {
        m->now = clock_ns();
        worked = true;
    }
    return worked;
}

/* The lease of the node is over: what was begun goes on, nothing is taken. */
static void suspended_turn(struct manager *m) {
    int ms = timers_wait_ms(&m->timers);
    share_later(m);
    io_wait(m->epoll_fd, ms < 0 || ms > SUSPENDED_MS ? SUSPENDED_MS : ms);
    m->now = clock_ns();
    manager_work(m);
    turn_begin(m, m->now);
}

static void manager_serve(struct manager *m) {
    uint64_t last_work = 0, last_poll = 0, last_heard = 0;
    m->now = clock_ns();
    turn_begin(m, m->now);
    for (uint64_t turns = 1; !m->stopping; turns++) {
        __atomic_store_n(&m->setup->page->turns, turns, __ATOMIC_RELAXED);
        if (!manager_may_serve(m)) {
            suspended_turn(m);
            continue;
        }
        share_begin(m);
        bool worked = lanes_turn(m);
        if (m->primary)
            replica_primary_send(m);
        /* A peer that asked lately is likely to ask again: idle turns look at the sockets each
         * time. */
        if (m->peers_busy || m->lanes_at ||
            (!worked && m->now - last_heard < DD_SPIN_US * 1000ull) ||
            m->now - last_poll > POLL_NS) {
            share_later(m);
            bool heard = io_wait(m->epoll_fd, 0) > 0;
            last_poll = m->now;
            if (heard)
                last_heard = m->now;
            worked |= heard;
        }
        worked |= manager_work(m);
        if (worked)
            turn_end(m);
        turn_begin(m, m->now);
        if (worked)
            last_work = m->now;
        if (worked)
            continue;
        if (store_idle(m->store))
            continue;
        if (m->now - last_work < DD_SPIN_US * 1000ull && spin_pays(m->now) &&
            spin_cores_at(m->now) > 1)
            spin_turn(m, m->now - last_work);
        else if (sleep_until_work(m))
            last_work = last_heard = m->now;
    }
}

void manager_begin(struct manager *m, const struct manager_setup *setup) {
    m->setup = setup;
    m->up = &upcalls;
    m->count = &setup->page->count;
    if (setup->page->lives <= 1)
        setup->page->started = clock_ns();
    m->knows = setup->page->lives <= 1;
}

int manager_open(struct manager *m) {
    const struct manager_setup *s = m->setup;
    m->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (m->epoll_fd < 0)
        return dd_error(-errno, "no epoll descriptor: %s", strerror(errno));
    int e = store_open(&m->store, s->arena_fd, s->spill_fd, s->local_index);
    if (e < 0)
        return e;
    m->header = store_header(m->store);
    m->linked = m->header->num_keys > 0; /* of the life before */
    m->spill =
        (struct io_handler){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = spill_ready};
    if (m->spill.fd < 0)
        return dd_error(-errno, "no descriptor for the spill: %s", strerror(errno));
    if ((e = io_add(m->epoll_fd, &m->spill, EPOLLIN)) < 0 ||
        (e = store_spill_serve(m->store, m->spill.fd)) < 0)
        return e;
    if (s->peers && s->provider[0] &&
        (e = fabric_open(&m->fabric, m->epoll_fd, s->provider, s->node)) < 0)
        return e;
    m->links =
        (struct link_setup){.epoll_fd = m->epoll_fd, .me = &s->identity, .fabric = m->fabric};
    manager_bind_arena(m);
    m->tick.fire = tick_fire;
    m->settle.fire = settle_fire;
    m->shrink.fire = lanes_shrink;
    m->ledger_shrink.fire = ledger_fire;
    m->unstall.fire = unstall_fire;
    m->late.fire = late_fire;
    m->sup = (struct io_handler){.fd = s->sup_fd, .ready = sup_ready};
    if ((e = waiters_init(m)) < 0 || (e = anew_init(m)) < 0 || (e = queues_init(m)) < 0 ||
        (e = subscriptions_init(m)) < 0 || (e = forwards_init(m)) < 0 ||
        (e = transit_init(m)) < 0 || (e = peers_init(m, &forward_peer_ops)) < 0 ||
        (e = rma_exports_init(m)) < 0 || (e = cache_init(m)) < 0 || (e = prefetch_init(m)) < 0 ||
        (e = alive_init(m)) < 0 || (e = freeze_init(m)) < 0 || (e = replica_backup_init(m)) < 0 ||
        (e = replica_primary_init(m)) < 0)
        return e;
    if ((e = io_add(m->epoll_fd, &m->sup, EPOLLIN)) < 0)
        return e;
    conn_strangers(s->managers * s->connections + DD_STRANGERS);
    conn_take_anew();
    return replica_backup_is(m) ? replica_backup_listen(m) : peer_server_listen(m);
}

/* A later life: before anything in the heap changes it must know the leases of all clients. */
static int manager_learn(struct manager *m) {
    struct pollfd p = {.fd = m->sup.fd, .events = POLLIN};
    m->now = clock_ns();
    int e = m->knows ? 0 : recovery_begin(m);
    if (e < 0)
        return e;
    while (!m->knows && !m->stopping) {
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return dd_error(-errno, "ddictd can not be heard: %s", strerror(errno));
        share_begin(m);
        sup_ready(&m->sup, EPOLLIN);
    }
    return 0;
}

void manager_close(struct manager *m) {
    lanes_end(m);
    aside_end(m);
    peers_end(m);
    peer_servers_end(m);
    replica_backup_free(m);
    replica_primary_free(m);
    puts_free(m);
    fabric_close(m->fabric); /* calls the done() that are left: they give up pins of the store */
    prefetch_free(m);
    alive_free(m);
    cache_free(m);
    freeze_free(m);
    transit_free(m);
    forwards_free(m);
    waiters_free(m);
    anew_free(m);
    queues_free(m);
    subscriptions_free(m);
    timers_free(&m->timers);
    store_close(m->store);
}

int manager_run(const struct manager_setup *setup) {
    static struct manager m;
    static struct sup_msg s;
    pthread_t thread;
    manager_begin(&m, setup);
    log_part(setup->shadow ? "shadow of manager %u on %s" : "manager %u on %s", setup->id,
             setup->node);
    conn_counts_reset();
    faults_init(setup->id, setup->page->lives);
    manager_bind(&m);
    if (faults.ledger && setup->ledger)
        setup->ledger->most = (uint32_t)faults.ledger;
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
    mallopt(M_MMAP_THRESHOLD, HEAP_PIECE);
    int e = manager_open(&m);
    if (e == 0)
        e = manager_learn(&m);
    s.type = SUP_READY;
    s.status = e;
    if (e < 0)
        strncpy(s.text, *dd_errmsg() ? dd_errmsg() : dd_strerror(e), sizeof s.text - 1);
    if (faults.on)
        faults_sleep(faults.ready_ms);
    manager_tell(&m, &s);
    if (e < 0)
        return 1;
    bool populating = pthread_create(&thread, NULL, populate, &m) == 0;
    manager_serve(&m);
    if (populating)
        pthread_join(thread, NULL);
    manager_close(&m);
    conn_counts_log();
    return 0;
}
