/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managers.c - the processes of the managers and shadows of this node, and the sockets to them. ddictd never
 * blocks on a manager: a message that does not fit into the socket is kept until it does.
 */
#include "managers.h"

#include "grants.h"
#include "life_events.h"
#include "owner_map.h"
#include "places.h"
#include "shadows.h"
#include "supervisor.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/shadow.h>
#include <base/size.h>
#include <manager/ledger.h>
#include <manager/main_loop.h>
#include <manager/results.h>
#include <store/hugepool.h>
#include <store/spill_file.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES_TURN 64u /* of one manager, before others are heard */

struct unsent {
    struct unsent *next;
    int fds[4], nfds; /* duplicates of the descriptors to send */
    struct sup_msg m;
};

static struct manager_handlers handlers;

/* --- messages --- */
static void unsent_drop(struct local_manager *mgr) {
    struct unsent *o = mgr->unsent;
    mgr->unsent = o->next;
    if (!mgr->unsent)
        mgr->unsent_end = &mgr->unsent;
    while (o->nfds > 0)
        close(o->fds[--o->nfds]);
    free(o);
}

static void manager_socket_close(struct local_manager *mgr) {
    while (mgr->unsent)
        unsent_drop(mgr);
    if (mgr->sock.fd < 0)
        return;
    io_remove(mgr->s->epoll_fd, &mgr->sock);
    close(mgr->sock.fd);
    mgr->sock.fd = -1;
}

static void unsent_keep(struct local_manager *mgr, const struct sup_msg *m, const int *fds,
                        int nfds) {
    struct unsent *o = calloc(1, sizeof *o);
    bool ok = o != NULL;
    for (int i = 0; ok && i < nfds; i++) {
        int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (copy < 0)
            ok = false;
        else
            o->fds[o->nfds++] = copy;
    }
    if (!ok) {
        while (o && o->nfds > 0)
            close(o->fds[--o->nfds]);
        free(o);
        supervisor_lost(mgr->s, "%s on node %s can not be reached: no memory or descriptors",
                        mgr->name, mgr->s->node);
        return;
    }
    o->m = *m;
    *mgr->unsent_end = o;
    mgr->unsent_end = &o->next;
    io_change(mgr->s->epoll_fd, &mgr->sock, EPOLLIN | EPOLLOUT);
}

/* Whether to try again when the socket takes more: it is full, or the kernel has no memory, or it
 * has too many descriptors of this user in sockets. Other errors: the manager is dying, and SIGCHLD
 * reports its death. */
static bool is_later(int e) {
    return e == -EAGAIN || e == -ETOOMANYREFS || e == -ENOBUFS || e == -ENOMEM;
}

void manager_send(struct local_manager *mgr, const struct sup_msg *m, const int *fds, int nfds) {
    if (mgr->sock.fd < 0)
        return;
    int e = mgr->unsent ? -EAGAIN : sup_send(mgr->sock.fd, m, fds, nfds);
    if (is_later(e))
        unsent_keep(mgr, m, fds, nfds);
}

void managers_send(struct supervisor *s, const struct sup_msg *m) {
    for (unsigned i = 0; i < s->local_n; i++)
        manager_send(&s->local[i], m, NULL, 0);
}

void processes_send(struct supervisor *s, const struct sup_msg *m) {
    for (unsigned i = 0; i < processes_n(s); i++)
        manager_send(&s->local[i], m, NULL, 0);
}

static void manager_unsent_flush(struct local_manager *mgr) {
    while (mgr->unsent) {
        int e = sup_send(mgr->sock.fd, &mgr->unsent->m, mgr->unsent->fds, mgr->unsent->nfds);
        if (is_later(e))
            return;
        unsent_drop(mgr);
    }
    io_change(mgr->s->epoll_fd, &mgr->sock, EPOLLIN);
}

/* Up to `most` of what it has said. */
static void manager_messages_take(struct local_manager *mgr, unsigned most) {
    static struct sup_msg m;
    for (unsigned i = 0; i < most && mgr->sock.fd >= 0; i++) {
        int n = sup_recv(mgr->sock.fd, &m, NULL, 0);
        if (n == -EAGAIN)
            return;
        if (n < 0) {
            manager_socket_close(mgr); /* SIGCHLD follows */
            return;
        }
        handlers.message(mgr, &m);
    }
}

static void manager_socket_ready(struct io_handler *io, uint32_t events) {
    struct local_manager *mgr =
        (struct local_manager *)(void *)((char *)io - offsetof(struct local_manager, sock));
    if (events & EPOLLOUT)
        manager_unsent_flush(mgr);
    manager_messages_take(mgr, MESSAGES_TURN);
}

/* --- memory that outlives them --- */
static void shared_unmap(struct local_manager *mgr) {
    if (mgr->page)
        munmap(mgr->page, sizeof *mgr->page);
    if (mgr->ledger)
        munmap(mgr->ledger, sizeof *mgr->ledger);
    if (mgr->results)
        munmap(mgr->results, mgr->s->managers * sizeof *mgr->results);
}

/* --- start --- */
static int budget_find(struct supervisor *s) {
    char have[24], want[24];
    uint64_t all = s->opt.mem;
    unsigned n = s->deal.owners;
    s->budget = all / n & ~4095ull;
    if (s->opt.huge_page > HUGE_ADVISE)
        s->budget = hugepool_budget(s->opt.huge_page, s->budget);
    s->total_bytes = s->budget * n;
    if (s->budget >= DD_MANAGER_MEM_MIN && !node_has_keys(s)) {
        all = s->opt.forward_mem;
        n = s->local_n;
        s->budget = all / n & ~4095ull;
        if (s->opt.huge_page > HUGE_ADVISE)
            s->opt.huge_page = HUGE_ADVISE; /* a pool is kept for what the dictionary holds */
    }
    if (s->budget >= DD_MANAGER_MEM_MIN)
        return 0;
    return dd_error(-EINVAL, "%s is too little for %u managers: each needs %s",
                    size_format(have, sizeof have, all), n,
                    size_format(want, sizeof want, DD_MANAGER_MEM_MIN));
}

/* "2 managers on node n1", with --replicas "2 managers and 2 shadows on node n1" */
static const char *processes_text(const struct supervisor *s, char *buf, size_t cap) {
    char shadows[32] = "";
    if (s->shadows_n)
        snprintf(shadows, sizeof shadows, " and %u shadow%s", s->shadows_n,
                 s->shadows_n == 1 ? "" : "s");
    snprintf(buf, cap, "%u manager%s%s on node %s", s->local_n, s->local_n == 1 ? "" : "s", shadows,
             s->node);
    return buf;
}

int managers_fit(const struct supervisor *s) {
    char who[NODE_NAME_MAX + 80], want[24], have[24];
    const char *limit,
        *twice = s->shadows_n ? " (with two copies of each value, twice its part)" : "";
    unsigned n = processes_n(s);
    processes_text(s, who, sizeof who);
    if (s->opt.huge_page > HUGE_ADVISE)
        return hugepool_fit(s->opt.huge_page, n * (s->budget / s->opt.huge_page), who);
    uint64_t need = s->budget * n, room = memlimit_room(&limit);
    if (need <= room)
        return 0;
    return dd_error(DDICT_EFULL, "%s want %s of memory%s, but %s can be had until %s", who,
                    size_format(want, sizeof want, need), twice,
                    size_format(have, sizeof have, room), limit);
}

static int spill_make(struct supervisor *s, struct local_manager *mgr) {
    char why[DD_ERRMSG_MAX];
    mgr->spill_fd =
        spill_create(s->opt.spill, s->opt.spill_size / s->deal.owners & ~4095ull, processes_n(s));
    mgr->spill_ro_fd = mgr->spill_fd < 0 ? mgr->spill_fd : arena_reopen_readonly(mgr->spill_fd);
    if (mgr->spill_ro_fd >= 0)
        return 0;
    snprintf(why, sizeof why, "%s", dd_errmsg());
    return dd_error(mgr->spill_ro_fd, "no spill on node %s: %s", s->node, why);
}

/* The spill: values for which memory has no room go into files of this node, one for each manager
 * and shadow. All files are made before anybody relies on them. */
static int spills_make(struct supervisor *s) {
    char have[24];
    uint32_t owners = s->deal.owners;
    if (s->opt.spill_size && s->opt.spill_size / owners < DD_MANAGER_MEM_MIN)
        return dd_error(-EINVAL, "%s of spill are too little for %u managers",
                        size_format(have, sizeof have, s->opt.spill_size), owners);
    if (s->opt.spill && s->opt.huge_page > HUGE_ADVISE)
        return dd_error(-EINVAL,
                        "no spill where memory is taken from a pool of huge pages (hugepages=)");
    for (unsigned i = 0; s->opt.spill && node_has_keys(s) && i < processes_n(s); i++) {
        int e = spill_make(s, &s->local[i]);
        if (e < 0)
            return e;
    }
    s->spill_bytes = spill_size(s->local[0].spill_fd) * owners;
    return 0;
}

int port_listen(const struct supervisor *s, uint16_t *port) {
    int fd = s->opt.port_low ? conn_listen_range(s->opt.port_low, s->opt.port_high, port)
                             : conn_listen(NULL, port);
    if (fd >= 0)
        return fd;
    char why[DD_ERRMSG_MAX];
    snprintf(why, sizeof why, "%s", dd_errmsg());
    return dd_error(fd, "can not listen for other nodes: %s", why);
}

/* Managers of a node. */
static unsigned managers_of(const struct supervisor *s, uint32_t node) {
    return s->managers / s->nodes + (node < s->managers % s->nodes ? 1 : 0);
}

static void process_init(struct supervisor *s, struct local_manager *mgr, uint32_t number) {
    mgr->s = s;
    mgr->number = mgr->id = number;
    if (survives_nodes(s) && is_shadow(&s->deal, number)) {
        mgr->shadow = true;
        mgr->id = shadow_owner(&s->deal, number);
    }
    snprintf(mgr->name, sizeof mgr->name, "%smanager %u", mgr->shadow ? "the shadow of " : "",
             mgr->id);
    mgr->arena_fd = mgr->arena_ro_fd = mgr->spill_fd = mgr->spill_ro_fd = mgr->listen_fd =
        mgr->sock.fd = -1;
    mgr->unsent_end = &mgr->unsent;
}

int managers_listen(struct supervisor *s) {
    unsigned n = managers_of(s, s->node_id), shadows = 0, later = 0;
    uint32_t from = shadowed_node(&s->deal, s->node_id); /* our shadows are its managers' */
    if (n > DD_LOCAL_MANAGERS_MAX)
        return dd_error(-EINVAL, "%u managers on one node: at most %u can be", n,
                        DD_LOCAL_MANAGERS_MAX);
    if (has_copies(s) && node_has_keys(s))
        shadows = managers_of(s, from);
    if (survives_nodes(s))
        later = DD_LOCAL_MANAGERS_MAX;
    s->local = calloc(n + shadows + later, sizeof *s->local); /* none is moved later */
    if (!s->local)
        return dd_error(-ENOMEM, "no memory");
    s->shadows = s->local + n;
    s->local_n = n;
    s->shadows_n = shadows;
    s->shadows_max = shadows + later;
    for (unsigned i = 0; i < n; i++)
        process_init(s, &s->local[i], s->node_id + i * s->nodes);
    for (unsigned i = 0; i < shadows; i++)
        process_init(s, &s->shadows[i], shadow_of(&s->deal, from + i * s->nodes));
    int e = budget_find(s);
    if (e < 0)
        return e;
    for (unsigned i = 0; i < processes_n(s); i++)
        s->local[i].budget = s->budget;
    for (unsigned i = 0; i < processes_n(s) && s->nodes > 1; i++) {
        s->local[i].listen_fd = port_listen(s, &s->local[i].port);
        if (s->local[i].listen_fd < 0)
            return s->local[i].listen_fd;
    }
    return spills_make(s);
}

/* In the child: closes all descriptors but stdin, stdout, stderr and these. */
static void close_others(const int *keep, int n) {
    unsigned from = 3;
    for (;;) {
        unsigned next = ~0u;
        for (int i = 0; i < n; i++)
            if (keep[i] >= (int)from && (unsigned)keep[i] < next)
                next = (unsigned)keep[i];
        if (next > from)
            close_range(from, next - 1, 0);
        if (next == ~0u)
            return;
        from = next + 1;
    }
}

/* On a node without keys the memory is for values of others: only "none" limits it further. */
static uint64_t cache_of_manager(const struct supervisor *s) {
    if (!s->opt.has_cache || (s->opt.cache > 0 && !node_has_keys(s)))
        return UINT64_MAX;
    return s->opt.cache / s->deal.owners;
}

/* In the child: what others trust in their next life is out of reach. */
static void unmap_others(struct supervisor *s, const struct local_manager *mgr) {
    munmap(s->status_page, sizeof *s->status_page);
    for (unsigned i = 0; i < processes_n(s); i++)
        if (&s->local[i] != mgr)
            shared_unmap(&s->local[i]);
}

/* Among the managers, or among the shadows of this node. */
static unsigned local_index_of(const struct local_manager *mgr) {
    return (unsigned)(mgr - (mgr->shadow ? mgr->s->shadows : mgr->s->local));
}

static void manager_main(struct supervisor *s, struct local_manager *mgr, int sock, pid_t parent)
    __attribute__((noreturn));
static void manager_main(struct supervisor *s, struct local_manager *mgr, int sock, pid_t parent) {
    static struct manager_setup setup;
    char name[16];
    sigset_t none;
    int keep[4 + MEMLIMIT_FDS] = {mgr->arena_fd, mgr->spill_fd, mgr->listen_fd, sock};
    /* above memory.high each open() may take seconds, for which clients wait */
    size_t limits = memlimit_fds(keep + 4, MEMLIMIT_FDS);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* ddictd died before PR_SET_PDEATHSIG */
    snprintf(name, sizeof name, "ddictd:%u%s", mgr->id, mgr->shadow ? "s" : "");
    prctl(PR_SET_NAME, name);
    /* Slurm sends SIGTERM to every process of the step; ddictd decides when managers stop */
    signal(SIGTERM, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null,
         STDOUT_FILENO); /* so that the reader of ddictd's stdout sees its end when ddictd ends */
    close_others(keep, 4 + (int)limits);
    if (limits == 0)
        memlimit_find(); /* ddictd's files of it are closed now */
    unmap_others(s, mgr);
    setup.id = mgr->id;
    setup.survives = survives_nodes(s);
    setup.copies = has_copies(s);
    setup.refill = s->opt.refill;
    setup.shadow = mgr->shadow;
    setup.fills = mgr->late;
    setup.managers = s->managers;
    setup.node_id = s->node_id;
    setup.nodes = s->nodes;
    setup.deal = s->deal;
    setup.local_index = local_index_of(mgr);
    snprintf(setup.node, sizeof setup.node, "%s", s->node);
    setup.arena_fd = mgr->arena_fd;
    setup.spill_fd = mgr->spill_fd;
    setup.listen_fd = mgr->listen_fd;
    setup.sup_fd = sock;
    setup.identity = s->identity;
    setup.identity.self = mgr->number;
    setup.identity.life = mgr->page->lives;
    /* with libfabric: the protection of what the two ends still say over TCP */
    setup.identity.wire = s->transport.all[0] ? SEAL_AUTH : s->opt.wire;
    setup.peers = s->peers;
    setup.connections = s->opt.connections;
    setup.port_low = s->opt.port_low;
    setup.port_high = s->opt.port_high;
    setup.provider = s->transport.all;
    setup.rma = s->transport.rma;
    setup.place = manager_place(s, (unsigned)(mgr - s->local), &setup.place_need);
    setup.page = mgr->page;
    setup.ledger = mgr->ledger;
    setup.results = mgr->results;
    setup.cache = cache_of_manager(s);
    _exit(manager_run(&setup));
}

/* What outlives it. */
static int manager_make(struct supervisor *s, struct local_manager *mgr) {
    struct store_options o = {.budget = mgr->budget,
                              .manager_id = mgr->id,
                              .managers = s->managers,
                              .local_index = local_index_of(mgr),
                              .huge_page = s->opt.huge_page,
                              .spill = spill_size(mgr->spill_fd)};
    memcpy(o.dict_id, s->identity.dict_id, sizeof o.dict_id);
    void *page =
        mmap(NULL, sizeof *mgr->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return dd_error(-errno, "no memory for the counters of %s", mgr->name);
    mgr->page = page;
    mgr->page->lease = UINT64_MAX;
    if (s->opt.restarts > 0 || survives_nodes(s)) { /* by it proxies ask again, too */
        mgr->ledger = ledger_map();
        if (!mgr->ledger)
            return dd_error(-errno, "no memory for the ledger of %s", mgr->name);
    }
    /* with --replicas a shadow that takes its owner's place answers from them */
    if ((s->opt.restarts > 0 && s->nodes > 1) || survives_nodes(s)) {
        page = mmap(NULL, s->managers * sizeof *mgr->results, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (page == MAP_FAILED)
            return dd_error(-errno, "no memory for the results of %s", mgr->name);
        mgr->results = page;
    }
    mgr->arena_fd = arena_create(&o);
    if (mgr->arena_fd < 0)
        return mgr->arena_fd;
    mgr->arena_ro_fd = arena_reopen_readonly(mgr->arena_fd);
    return mgr->arena_ro_fd < 0 ? mgr->arena_ro_fd : 0;
}

int manager_start(struct local_manager *mgr) {
    struct supervisor *s = mgr->s;
    int pair[2], e;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return dd_error(-errno, "no socket pair: %s", strerror(errno));
    mgr->sock = (struct io_handler){.fd = pair[0], .ready = manager_socket_ready};
    e = io_add(s->epoll_fd, &mgr->sock, EPOLLIN);
    pid_t parent = getpid();
    mgr->page->lives++;
    fflush(NULL);
    mgr->pid = e < 0 ? -1 : fork();
    if (mgr->pid == 0)
        manager_main(s, mgr, pair[1], parent);
    if (mgr->pid < 0)
        e = dd_error(e < 0 ? e : -errno, "%s can not be started: %s", mgr->name, strerror(errno));
    if (mgr->pid < 0)
        mgr->pid = 0;
    close(pair[1]);
    return e < 0 ? e : 0;
}

/* Only the manager has the socket from now on: when it dies, connections are refused. */
static void port_leave(struct local_manager *mgr) {
    if (mgr->s->opt.restarts > 0)
        return; /* the next life needs it */
    if (mgr->listen_fd >= 0)
        close(mgr->listen_fd);
    mgr->listen_fd = -1;
}

int managers_start(struct supervisor *s, struct manager_handlers to) {
    handlers = to;
    manager_places_find(s);
    s->memory_kills = memlimit_kills();
    for (unsigned i = 0; i < processes_n(s); i++) {
        int e = manager_make(s, &s->local[i]);
        if (e == 0)
            e = manager_start(&s->local[i]);
        if (e < 0)
            return e;
        port_leave(&s->local[i]);
    }
    return 0;
}

/* --- a shadow behind the start --- */
/* What all processes of this node may still take of what they were promised. */
static uint64_t memory_promised(const struct supervisor *s) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < processes_n(s); i++) {
        const struct local_manager *mgr = &s->local[i];
        struct stat st;
        if (mgr->arena_fd < 0 || fstat(mgr->arena_fd, &st) < 0)
            continue;
        uint64_t has = (uint64_t)st.st_blocks * 512;
        sum += has < mgr->budget ? mgr->budget - has : 0;
    }
    return sum;
}

static int shadow_fits(const struct supervisor *s, const char *name, uint64_t budget) {
    char who[NODE_NAME_MAX + 64], want[24], have[24], promised[24];
    const char *limit;
    snprintf(who, sizeof who, "%s on node %s", name, s->node);
    if (s->opt.huge_page > HUGE_ADVISE)
        return hugepool_fit(s->opt.huge_page, budget / s->opt.huge_page, who);
    uint64_t others = memory_promised(s), room = memlimit_room(&limit);
    if (budget + others <= room)
        return 0;
    return dd_error(
        DDICT_EFULL,
        "%s wants %s of memory, and others there up to %s more, but %s can be had until "
        "%s",
        who, size_format(want, sizeof want, budget), size_format(promised, sizeof promised, others),
        size_format(have, sizeof have, room), limit);
}

/* A place that nobody had, or of one that is gone for good. */
static struct local_manager *shadow_slot_find(struct supervisor *s) {
    for (unsigned i = 0; i < s->shadows_n; i++) {
        struct local_manager *mgr = &s->shadows[i];
        if (!mgr->given_up || mgr->pid > 0 || mgr->arena_fd >= 0)
            continue;
        manager_socket_close(mgr);
        shared_unmap(mgr);
        memset(mgr, 0, sizeof *mgr);
        return mgr;
    }
    return s->shadows_n < s->shadows_max ? &s->shadows[s->shadows_n++] : NULL;
}

static int shadow_make(struct supervisor *s, struct local_manager *mgr) {
    int e = shadow_fits(s, mgr->name, mgr->budget);
    if (e == 0)
        e = mgr->listen_fd = port_listen(s, &mgr->port);
    if (e >= 0 && s->opt.spill)
        e = spill_make(s, mgr);
    if (e >= 0)
        e = manager_make(s, mgr);
    if (e < 0)
        return e;
    grants_page(mgr);
    if ((e = manager_start(mgr)) < 0)
        return e;
    port_leave(mgr);
    owner_map_tell(mgr);
    return 0;
}

struct local_manager *shadow_begin(struct supervisor *s, uint32_t number) {
    struct local_manager *mgr = shadow_slot_find(s);
    if (!mgr) {
        dd_error(-ENOMEM, "node %s has had too many shadows", s->node);
        return NULL;
    }
    process_init(s, mgr, number);
    mgr->late = mgr->filling = true;
    mgr->budget = s->total_bytes / s->deal.owners;
    if (shadow_make(s, mgr) == 0)
        return mgr;
    mgr->given_up = true;
    shadow_forget(mgr);
    return NULL;
}

/* --- end --- */
static void manager_ended(struct local_manager *mgr, int status) {
    /* its last words may say why it ends */
    if (mgr->s->stage != STAGE_OVER)
        manager_messages_take(mgr, UINT_MAX);
    mgr->gone = true;
    mgr->pid = 0;
    manager_socket_close(mgr);
    if (mgr->s->stage != STAGE_OVER)
        handlers.died(mgr, status);
}

void managers_reap(struct supervisor *s) {
    for (unsigned i = 0; i < processes_n(s); i++) {
        int status;
        if (s->local[i].pid > 0 && waitpid(s->local[i].pid, &status, WNOHANG) == s->local[i].pid)
            manager_ended(&s->local[i], status);
    }
}

static bool managers_wait(struct supervisor *s, int ms) {
    struct deadline d;
    deadline_start(&d, ms);
    for (;;) {
        bool left = false;
        managers_reap(s);
        for (unsigned i = 0; i < processes_n(s); i++)
            left |= s->local[i].pid > 0;
        if (!left)
            return true;
        if (deadline_over(&d))
            return false;
        usleep(2000); /* at the very end only */
    }
}

void managers_stop(struct supervisor *s) {
    struct sup_msg m = {.type = SUP_STOP};
    processes_send(s, &m);
    if (!managers_wait(s, s->lost ? DD_DRAIN_GRACE_MS : DD_STOP_MS)) {
        for (unsigned i = 0; i < processes_n(s); i++) {
            if (s->local[i].pid <= 0)
                continue;
            log_warn("%s does not stop and is killed", s->local[i].name);
            kill(s->local[i].pid, SIGKILL);
        }
        managers_wait(s, DD_STOP_MS);
    }
    for (unsigned i = 0; i < processes_n(s); i++) {
        struct local_manager *mgr = &s->local[i];
        manager_socket_close(mgr);
        if (mgr->arena_fd >= 0)
            close(mgr->arena_fd);
        if (mgr->arena_ro_fd >= 0)
            close(mgr->arena_ro_fd);
        if (mgr->spill_fd >= 0)
            close(mgr->spill_fd);
        if (mgr->spill_ro_fd >= 0)
            close(mgr->spill_ro_fd);
        if (mgr->listen_fd >= 0)
            close(mgr->listen_fd);
        shared_unmap(mgr);
    }
    free(s->local);
    s->local = s->shadows = NULL;
    s->local_n = s->shadows_n = 0;
}
