/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shards.c - the managers of this node: made, spoken with, and waited for. ddictd never waits for one: a message that does not fit is kept. A manager
 * that ends without having been told to ends the dictionary (LOST).
 */
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/size.h>
#include <manager/supervisor.h>
#include <store/hugepool.h>
#include <store/reader.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct shard_out {
    struct shard_out *next;
    int fds[4], nfds; /* copies of ours */
    struct sup_msg m;
};

/* --- messages --- */
static void out_drop(struct shard *h) {
    struct shard_out *o = h->out;
    h->out = o->next;
    if (!h->out)
        h->out_end = &h->out;
    while (o->nfds > 0)
        close(o->fds[--o->nfds]);
    free(o);
}

static void shard_close(struct shard *h) {
    while (h->out)
        out_drop(h);
    if (h->sock.fd < 0)
        return;
    io_remove(h->s->epoll_fd, &h->sock);
    close(h->sock.fd);
    h->sock.fd = -1;
}

static void out_keep(struct shard *h, const struct sup_msg *m, const int *fds, int nfds) {
    struct shard_out *o = calloc(1, sizeof *o);
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
        supervisor_lost(h->s,
                        "manager %u on node %s can not be spoken with: no memory or descriptors",
                        h->id, h->s->node);
        return;
    }
    o->m = *m;
    *h->out_end = o;
    h->out_end = &o->next;
    io_change(h->s->epoll_fd, &h->sock, EPOLLIN | EPOLLOUT);
}

void shard_send(struct shard *h, const struct sup_msg *m, const int *fds, int nfds) {
    if (h->sock.fd < 0)
        return;
    int e = h->out ? -EAGAIN : sup_send(h->sock.fd, m, fds, nfds);
    if (e == -EAGAIN)
        out_keep(h, m, fds, nfds);
    /* Other errors: it is dying, and its death says the rest. */
}

void shards_send(struct supervisor *s, const struct sup_msg *m) {
    for (unsigned i = 0; i < s->shards_n; i++)
        shard_send(&s->shards[i], m, NULL, 0);
}

static void shard_flush(struct shard *h) {
    while (h->out) {
        int e = sup_send(h->sock.fd, &h->out->m, h->out->fds, h->out->nfds);
        if (e == -EAGAIN)
            return;
        out_drop(h);
    }
    io_change(h->s->epoll_fd, &h->sock, EPOLLIN);
}

static void note_of(const struct shard *h, enum note_kind kind, const struct sup_msg *m) {
    struct note n = {.kind = kind,
                     .manager = h->id,
                     .count = m->count,
                     .used_bytes = m->used_bytes,
                     .total_bytes = m->total_bytes};
    snprintf(n.node, sizeof n.node, "%s", h->s->node);
    snprintf(n.text, sizeof n.text, "%s", m->text);
    note_raise(h->s, &n);
}

void shards_ready(struct supervisor *s) {
    for (unsigned i = 0; i < s->shards_n; i++)
        if (!s->shards[i].ready)
            return;
    if (s->shards_n > 0 && s->stage == STAGE_STARTING && saver_ready(s))
        control_ready(s);
}

static void shard_take(struct shard *h, const struct sup_msg *m) {
    struct supervisor *s = h->s;
    switch (m->type) {
    case SUP_READY:
        if (m->status < 0) {
            supervisor_lost(s, "manager %u on node %s can not start: %s", h->id, s->node, m->text);
            return;
        }
        h->ready = true;
        shards_ready(s);
        return;
    case SUP_CLIENT_ADDED:
        client_added(h, m);
        return;
    case SUP_CLIENT_BAD:
        client_bad(s, m->id);
        return;
    case SUP_HOLD_ADDED:
        hold_added(s, m);
        return;
    case SUP_FULL:
        note_of(h, NOTE_FULL, m);
        return;
    case SUP_REFUSED:
        note_of(h, NOTE_REFUSED, m);
        return;
    case SUP_FREEZE_ASK:
    case SUP_FREEZE_AT:
        freezing_shard(h, m);
        return;
    case SUP_STATS_REPLY:
        h->stats = m->stats;
        h->has_stats = true;
        report_take(s, &h->stats);
        ending_look(s);
        return;
    default:
        log_error("manager %u sent message %u", h->id, m->type);
        return;
    }
}

static void shard_ready(struct io_handler *io, uint32_t events) {
    struct shard *h = (struct shard *)(void *)((char *)io - offsetof(struct shard, sock));
    static struct sup_msg m;
    if (events & EPOLLOUT)
        shard_flush(h);
    for (int i = 0; i < 64 && h->sock.fd >= 0; i++) {
        int n = sup_recv(h->sock.fd, &m, NULL, 0);
        if (n == -EAGAIN)
            return;
        if (n < 0) {
            shard_close(h); /* its end comes as SIGCHLD */
            return;
        }
        shard_take(h, &m);
    }
}

/* --- birth --- */
static int budget_find(struct supervisor *s) {
    char have[24], want[24];
    s->budget = s->opt.mem / s->managers & ~4095ull;
    if (s->opt.huge_page > HUGE_ADVISE)
        s->budget = hugepool_budget(s->opt.huge_page, s->budget);
    if (s->budget >= DD_MANAGER_MEM_MIN)
        return 0;
    return dd_error(-EINVAL, "%s is too little for %u managers: each needs %s",
                    size_format(have, sizeof have, s->opt.mem), s->managers,
                    size_format(want, sizeof want, DD_MANAGER_MEM_MIN));
}

int shards_fit(const struct supervisor *s) {
    char want[24], have[24];
    const char *limit;
    if (s->opt.huge_page > HUGE_ADVISE) {
        char who[NODE_NAME_MAX + 48];
        snprintf(who, sizeof who, "%u manager%s on node %s", s->shards_n,
                 s->shards_n == 1 ? "" : "s", s->node);
        return hugepool_fit(s->opt.huge_page, s->shards_n * (s->budget / s->opt.huge_page), who);
    }
    uint64_t need = s->budget * s->shards_n, room = memlimit_room(&limit);
    if (need <= room)
        return 0;
    return dd_error(
        DDICT_EFULL, "%u manager%s on node %s want %s of memory, but %s can be had until %s",
        s->shards_n, s->shards_n == 1 ? "" : "s", s->node, size_format(want, sizeof want, need),
        size_format(have, sizeof have, room), limit);
}

/* What memory has no room for goes into files of this node, one a manager; all are made before anybody relies on them. */
static int spills_make(struct supervisor *s) {
    char why[DD_ERRMSG_MAX], have[24];
    if (s->opt.spill_size && s->opt.spill_size / s->managers < DD_MANAGER_MEM_MIN)
        return dd_error(-EINVAL, "%s of spill are too little for %u managers",
                        size_format(have, sizeof have, s->opt.spill_size), s->managers);
    if (s->opt.spill && s->opt.huge_page > HUGE_ADVISE)
        return dd_error(-EINVAL,
                        "no spill where memory is taken from a pool of huge pages (hugepages=)");
    for (unsigned i = 0; s->opt.spill && i < s->shards_n; i++) {
        struct shard *h = &s->shards[i];
        h->spill_fd =
            spill_create(s->opt.spill, s->opt.spill_size / s->managers & ~4095ull, s->shards_n);
        h->spill_ro_fd = h->spill_fd < 0 ? h->spill_fd : arena_reopen_readonly(h->spill_fd);
        if (h->spill_ro_fd >= 0)
            continue;
        snprintf(why, sizeof why, "%s", dd_errmsg());
        return dd_error(h->spill_ro_fd, "no spill on node %s: %s", s->node, why);
    }
    return 0;
}

int ports_listen(const struct supervisor *s, uint16_t *port) {
    int fd = s->opt.port_low ? conn_listen_range(s->opt.port_low, s->opt.port_high, port)
                             : conn_listen(NULL, port);
    if (fd >= 0)
        return fd;
    char why[DD_ERRMSG_MAX];
    snprintf(why, sizeof why, "%s", dd_errmsg());
    return dd_error(fd, "can not listen for other nodes: %s", why);
}

int shards_listen(struct supervisor *s) {
    unsigned n = s->managers / s->nodes + (s->node_id < s->managers % s->nodes ? 1 : 0);
    if (n > DD_LOCAL_MANAGERS_MAX)
        return dd_error(-EINVAL, "%u managers on one node: at most %u can be", n,
                        DD_LOCAL_MANAGERS_MAX);
    int e = budget_find(s);
    if (e < 0)
        return e;
    s->shards = calloc(n, sizeof *s->shards);
    if (!s->shards)
        return dd_error(-ENOMEM, "no memory");
    s->shards_n = n;
    for (unsigned i = 0; i < s->shards_n; i++) {
        struct shard *h = &s->shards[i];
        h->s = s;
        h->id = s->node_id + i * s->nodes;
        h->arena_fd = h->arena_ro_fd = h->spill_fd = h->spill_ro_fd = h->listen_fd = h->sock.fd =
            -1;
        h->out_end = &h->out;
    }
    for (unsigned i = 0; i < s->shards_n && s->nodes > 1; i++) {
        s->shards[i].listen_fd = ports_listen(s, &s->shards[i].port);
        if (s->shards[i].listen_fd < 0)
            return s->shards[i].listen_fd;
    }
    return spills_make(s);
}

/* In the child: of all descriptors only these stay. */
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

static void manager_main(struct supervisor *s, struct shard *h, int sock, pid_t parent)
    __attribute__((noreturn));
static void manager_main(struct supervisor *s, struct shard *h, int sock, pid_t parent) {
    static struct manager_setup setup;
    char name[16];
    sigset_t none;
    int keep[] = {h->arena_fd, h->spill_fd, h->listen_fd, sock};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before we asked to be told */
    snprintf(name, sizeof name, "ddictd:%u", h->id);
    prctl(PR_SET_NAME, name);
    signal(SIGTERM, SIG_IGN); /* Slurm sends it to every process of the step: ddictd says when */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO); /* who reads ddictd's stdout shall see its end */
    close_others(keep, sizeof keep / sizeof *keep);
    munmap(s->board, sizeof *s->board);
    setup.id = h->id;
    setup.managers = s->managers;
    setup.node_id = s->node_id;
    setup.nodes = s->nodes;
    setup.local_index = (unsigned)(h - s->shards);
    snprintf(setup.node, sizeof setup.node, "%s", s->node);
    setup.arena_fd = h->arena_fd;
    setup.spill_fd = h->spill_fd;
    setup.listen_fd = h->listen_fd;
    setup.sup_fd = sock;
    setup.identity = s->identity;
    setup.identity.self = h->id;
    setup.peers = s->peers;
    setup.connections = s->opt.connections;
    setup.port_low = s->opt.port_low;
    setup.port_high = s->opt.port_high;
    setup.provider = s->transport.all;
    setup.rma = s->transport.rma;
    setup.place = place_of(s, setup.local_index, &setup.place_need);
    setup.page = h->page;
    setup.cache = s->opt.has_cache ? s->opt.cache / s->managers : UINT64_MAX;
    _exit(manager_run(&setup));
}

static int shard_start(struct supervisor *s, struct shard *h) {
    struct store_options o = {.budget = s->budget,
                              .manager_id = h->id,
                              .managers = s->managers,
                              .local_index = (unsigned)(h - s->shards),
                              .huge_page = s->opt.huge_page,
                              .spill = spill_size(h->spill_fd)};
    int pair[2], e;
    memcpy(o.dict_id, s->identity.dict_id, sizeof o.dict_id);
    void *page =
        mmap(NULL, sizeof *h->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return dd_error(-errno, "no memory for the counters of manager %u", h->id);
    h->page = page;
    h->arena_fd = arena_create(&o);
    if (h->arena_fd < 0)
        return h->arena_fd;
    h->arena_ro_fd = arena_reopen_readonly(h->arena_fd);
    if (h->arena_ro_fd < 0)
        return h->arena_ro_fd;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return dd_error(-errno, "no socket pair: %s", strerror(errno));
    h->sock = (struct io_handler){.fd = pair[0], .ready = shard_ready};
    e = io_add(s->epoll_fd, &h->sock, EPOLLIN);
    pid_t parent = getpid();
    fflush(NULL);
    h->pid = e < 0 ? -1 : fork();
    if (h->pid == 0)
        manager_main(s, h, pair[1], parent);
    if (h->pid < 0)
        e = dd_error(e < 0 ? e : -errno, "manager %u can not be started: %s", h->id,
                     strerror(errno));
    if (h->pid < 0)
        h->pid = 0;
    close(pair[1]);
    return e < 0 ? e : 0;
}

int shards_start(struct supervisor *s) {
    places_find(s);
    s->memory_kills = memlimit_kills();
    for (unsigned i = 0; i < s->shards_n; i++) {
        int e = shard_start(s, &s->shards[i]);
        if (e < 0)
            return e;
        if (s->shards[i].listen_fd >= 0)
            close(s->shards[i].listen_fd); /* the manager's now: when it dies, it refuses */
        s->shards[i].listen_fd = -1;
    }
    return 0;
}

/* --- death --- */
static void shard_rescue(struct shard *h) {
    struct supervisor *s = h->s;
    const struct lease_chunk **leases;
    if (h->has_stats || !h->page || h->arena_ro_fd < 0)
        return;
    struct arena_view view;
    if (arena_view_map(&view, h->arena_ro_fd, h->spill_ro_fd, 0) < 0)
        return;
    unsigned n = clients_leases(s, &leases);
    figures_of_page(h->page, view.header, leases, n, (unsigned)(h - s->shards), &h->stats);
    for (unsigned i = 0; i < n; i++)
        munmap((void *)(uintptr_t)leases[i], LEASE_FILE_SIZE);
    free(leases);
    arena_view_unmap(&view);
    h->stats.node_id = s->node_id;
    gethostname(h->stats.hostname, sizeof h->stats.hostname - 1);
    snprintf(h->stats.node, sizeof h->stats.node, "%s", s->node);
    h->has_stats = true;
    report_take(s, &h->stats);
}

void shards_rescue(struct supervisor *s) {
    for (unsigned i = 0; i < s->shards_n; i++)
        shard_rescue(&s->shards[i]);
}

static void shard_died(struct shard *h, int status) {
    struct supervisor *s = h->s;
    h->gone = true;
    h->pid = 0;
    shard_close(h);
    if (s->stage == STAGE_OVER)
        return;
    shard_rescue(h);
    if (!s->lost)
        s->lost_manager = h->id;
    if (!s->lost)
        s->lost_node = s->node_id;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && memlimit_kills() > s->memory_kills)
        supervisor_lost(s, "manager %u on node %s was killed because %s", h->id, s->node,
                        getenv("SLURM_JOB_ID") ? "the job ran out of memory (--mem)"
                                               : "memory ran out");
    else if (WIFSIGNALED(status))
        supervisor_lost(s, "manager %u on node %s died (signal %d)", h->id, s->node,
                        WTERMSIG(status));
    else
        supervisor_lost(s, "manager %u on node %s died (exit code %d)", h->id, s->node,
                        WEXITSTATUS(status));
    ending_look(s);
}

void shards_reaped(struct supervisor *s) {
    for (unsigned i = 0; i < s->shards_n; i++) {
        int status;
        if (s->shards[i].pid > 0 && waitpid(s->shards[i].pid, &status, WNOHANG) == s->shards[i].pid)
            shard_died(&s->shards[i], status);
    }
}

static bool shards_wait(struct supervisor *s, int ms) {
    struct deadline d;
    deadline_start(&d, ms);
    for (;;) {
        bool left = false;
        shards_reaped(s);
        for (unsigned i = 0; i < s->shards_n; i++)
            left |= s->shards[i].pid > 0;
        if (!left)
            return true;
        if (deadline_over(&d))
            return false;
        usleep(2000); /* at the very end only */
    }
}

void shards_stop(struct supervisor *s) {
    struct sup_msg m = {.type = SUP_STOP};
    s->stage = STAGE_OVER;
    shards_send(s, &m);
    if (!shards_wait(s, s->lost ? DD_DRAIN_GRACE_MS : DD_STOP_MS)) {
        for (unsigned i = 0; i < s->shards_n; i++) {
            if (s->shards[i].pid <= 0)
                continue;
            log_warn("manager %u does not stop and is killed", s->shards[i].id);
            kill(s->shards[i].pid, SIGKILL);
        }
        shards_wait(s, DD_STOP_MS);
    }
    for (unsigned i = 0; i < s->shards_n; i++) {
        struct shard *h = &s->shards[i];
        shard_close(h);
        if (h->arena_fd >= 0)
            close(h->arena_fd);
        if (h->arena_ro_fd >= 0)
            close(h->arena_ro_fd);
        if (h->spill_fd >= 0)
            close(h->spill_fd);
        if (h->spill_ro_fd >= 0)
            close(h->spill_ro_fd);
        if (h->listen_fd >= 0)
            close(h->listen_fd);
        if (h->page)
            munmap(h->page, sizeof *h->page);
    }
    free(s->shards);
    s->shards = NULL;
    s->shards_n = 0;
}
