/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - one attach generation: made from what ddictd sends, closed after the last view is
 * released. handle.h describes its life. */
#include "lease.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
struct session *sessions;
struct ddict_handle *handles;
uint32_t closing_sessions;

static struct session *session_pool; /* closed sessions; under registry_lock */
static uint64_t last_id;             /* under registry_lock */

/* --- memory --- */

static struct session *session_take(void) {
    pthread_mutex_lock(&registry_lock);
    struct session *s = session_pool;
    if (s)
        session_pool = s->next;
    pthread_mutex_unlock(&registry_lock);
    if (!s && !(s = calloc(1, sizeof *s)))
        return NULL;
    s->closing = s->lost = s->held_bad = false;
    s->stage = 0;
    s->sock = s->client_eventfd = s->pipe = s->hold.pipe = -1;
    s->status_page = NULL;
    s->local = NULL;
    s->local_of = s->route_of = s->local_owner = NULL;
    s->lease_page = NULL;
    s->refs = NULL;
    s->nlocal = s->chunks = s->orphans = s->held_due = 0;
    s->pop_room = 0;
    s->inherited = 0;
    memset(&s->hold, 0, sizeof s->hold);
    s->hold.pipe = -1;
    for (unsigned c = 0; c < DD_LEASE_CHUNKS; c++) { /* atomic: a late release may still read it */
        __atomic_store_n(&s->owner[c], NULL, __ATOMIC_RELAXED);
        __atomic_store_n(&s->freed[c], 0, __ATOMIC_RELAXED);
    }
    pthread_mutex_init(&s->lease_lock, NULL);
    return s;
}

static void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Free all resources of the session; its struct stays for the pool. */
static void session_empty(struct session *s) {
    __atomic_store_n(&s->id, 0, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < s->nlocal && s->local; i++) {
        client_lane_close(&s->local[i].lane);
        arena_view_unmap(&s->local[i].arena);
    }
    free(s->local);
    free(s->local_of);
    s->local = NULL;
    s->local_of = s->route_of = s->local_owner = NULL;
    if (s->status_page)
        munmap((void *)(uintptr_t)s->status_page, sizeof *s->status_page);
    s->status_page = NULL;
    if (s->lease_page)
        munmap(s->lease_page, LEASE_FILE_SIZE);
    s->lease_page = NULL;
    if (s->refs)
        munmap(s->refs, sizeof *s->refs * LEASE_NUMBERS);
    s->refs = NULL;
    close_fd(&s->sock);
    close_fd(&s->client_eventfd);
    close_fd(&s->pipe);
    pthread_mutex_destroy(&s->lease_lock);
}

/* registry_lock is held, and s is in no list. */
static void session_pool_put(struct session *s) {
    s->next = session_pool;
    session_pool = s;
}

/* --- opening --- */

static void *map_fd(int fd, size_t len, int prot, const char *what) {
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size < (off_t)len) {
        dd_error(DDICT_EPROTO, "ddictd sent something else for the %s", what);
        return NULL;
    }
    void *p = mmap(NULL, len, prot, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        return p;
    dd_error(-errno, "cannot map the %s of %zu bytes: %s%s", what, len, strerror(errno),
             errno == ENOMEM ? " (is there a limit on virtual memory, ulimit -v?)" : "");
    return NULL;
}

static void close_fds(int *fds, int n) {
    for (int i = 0; i < n; i++)
        close_fd(&fds[i]);
}

static int default_timeout(int usual) {
    const char *text = getenv("DDICT_TIMEOUT");
    char *end;
    if (!text || *text == 0)
        return usual;
    double seconds = strtod(text, &end);
    if (end == text || *end != 0 || !(seconds >= 0) || seconds > 1e6)
        return usual;
    return (int)(seconds * 1000);
}

static int welcome_receive(struct session *s, struct deadline *d) {
    struct attach_msg m;
    int fds[ATTACH_FDS];
    int n = attach_recv_by(s->sock, &m, fds, ATTACH_FDS, d);
    if (n == -ECONNRESET)
        return dd_error(DDICT_EGONE, "the dictionary %s ended while we attached", s->name);
    if (n == -ETIMEDOUT)
        return dd_error(n, "the dictionary %s was not ready in time", s->name);
    if (n < 0)
        return n;
    int rc = attach_version_check(&m);
    if (rc == 0 && m.type != ATTACH_WELCOME)
        rc = dd_error(DDICT_EPROTO, "ddictd answered the greeting with message %u", m.type);
    if (rc == 0 && m.status < 0)
        rc = dd_error(m.status, "%s", m.text[0] ? m.text : dd_strerror(m.status));
    if (rc == 0 &&
        (n != 3 || m.managers == 0 || m.nodes == 0 || m.managers > DD_MANAGERS_MAX ||
         m.local_managers == 0 || m.local_managers > DD_LOCAL_MANAGERS_MAX ||
         m.local_managers > m.managers || m.keyed_nodes == 0 || m.keyed_nodes > m.nodes ||
         m.nodes > m.managers || m.working_set > DD_WORKING_SET_MAX))
        rc = dd_error(
            DDICT_EPROTO,
            "ddictd's welcome makes no sense: %u managers, %u of them here, %d descriptors",
            m.managers, m.local_managers, n);
    if (rc == 0) {
        s->managers = m.managers;
        s->nodes = m.nodes;
        s->deal = deal_known(m.managers, m.nodes, m.keyed_nodes);
        s->node_id = m.node_id;
        s->client = m.client;
        s->nlocal = m.local_managers;
        s->refill = m.refill != 0;
        s->working_set = m.working_set;
        s->working_flags = m.working_flags;
        if (s->refill) /* a call can wait for what is read again */
            s->timeout_ms = default_timeout(DD_REFILL_MS);
        s->total_bytes = m.total_bytes;
        s->spill_bytes = m.spill_bytes;
        memcpy(s->dict_id, m.dict_id, sizeof s->dict_id);
        memcpy(s->node, m.node, sizeof s->node);
        s->status_page = map_fd(fds[0], sizeof *s->status_page, PROT_READ, "status page");
        s->lease_page = map_fd(fds[1], LEASE_FILE_SIZE, PROT_READ | PROT_WRITE, "lease page");
        if (!s->status_page || !s->lease_page)
            rc = -ENOMEM;
        s->client_eventfd = fds[2];
        fds[2] = -1;
    }
    close_fds(fds, n);
    return rc;
}

static int manager_receive(struct session *s, unsigned index, struct deadline *d) {
    struct attach_msg m;
    int fds[ATTACH_FDS];
    int n = attach_recv_by(s->sock, &m, fds, ATTACH_FDS, d);
    if (n < 0)
        return n == -ECONNRESET
                   ? dd_error(DDICT_EGONE, "the dictionary %s ended while we attached", s->name)
                   : n;
    struct node_manager *l = &s->local[index];
    l->id = m.manager;
    int rc = 0;
    if (m.type != ATTACH_MANAGER || (n != 3 && n != 4) || m.manager >= s->managers ||
        s->local_of[m.manager])
        rc = dd_error(DDICT_EPROTO, "ddictd sent message %u with %d descriptors for manager %u",
                      m.type, n, m.manager);
    if (rc == 0)
        rc = arena_view_map(&l->arena, fds[0], n == 4 ? fds[3] : -1, index);
    if (rc == 0)
        rc = client_lane_open(&l->lane, l, fds[1], fds[2]);
    if (rc == 0) {
        fds[2] = -1; /* now owned by the lane */
        l->lane.lane.client_eventfd = s->client_eventfd;
        reader_unfence(&l->arena);
        l->lane.lane.fenced = l->arena.fenced;
        s->local_of[m.manager] = s->route_of[m.manager] = l;
        if (deal_owns(&s->deal, m.manager))
            s->local_owner[deal_nth(&s->deal, m.manager)] = l;
    }
    close_fds(fds, n);
    return rc;
}

static int session_send_hello(struct session *s, struct deadline *d) {
    int rc = 0;
    if (s->sock < 0) {
        /* no fork comes between: the child would not know it */
        pthread_mutex_lock(&registry_lock);
        s->sock = attach_socket();
        pthread_mutex_unlock(&registry_lock);
        rc = s->sock < 0 ? s->sock : attach_socket_connect(s->sock, s->name, d);
        if (rc < 0)
            close_fd(&s->sock);
    }
    const char *file = getenv("DDICT_SOCKET");
    if (rc == DDICT_ENODICT && (!file || *file == 0))
        return dd_error(DDICT_ENODICT,
                        "no dictionary: nothing listens under the name %s on this node (did it "
                        "end, or is this process in a network "
                        "namespace of its own? then see `ddict socket`)",
                        s->name);
    if (rc < 0)
        return rc;
    struct attach_msg hello;
    attach_msg_init(&hello, ATTACH_HELLO);
    snprintf(hello.text, sizeof hello.text, "%s", s->name);
    return attach_send_by(s->sock, &hello, NULL, 0, d);
}

static int session_receive_welcome(struct session *s, struct deadline *d) {
    int rc = welcome_receive(s, d);
    if (rc < 0)
        return rc;
    /* A forked child must not write our leases. */
    madvise(s->lease_page, LEASE_FILE_SIZE, MADV_DONTFORK);
    madvise(s->lease_page, LEASE_FILE_SIZE, MADV_DONTDUMP);
    s->local = calloc(s->nlocal, sizeof *s->local);
    s->local_of = calloc(2 * (size_t)s->managers + s->deal.owners, sizeof *s->local_of);
    s->route_of = s->local_of + s->managers;
    s->local_owner = s->route_of + s->managers;
    if (!s->local || !s->local_of)
        return dd_error(-ENOMEM, "no memory for %u managers", s->managers);
    for (unsigned i = 0; i < s->managers; i++) /* manager_receive() corrects those of our node */
        s->route_of[i] = &s->local[proxy_of(i, s->nodes, s->nlocal)];
    return 0;
}

/* Receive from s->stage on. -ETIMEDOUT: a later call can go on from there. */
static int session_receive(struct session *s, struct deadline *d) {
    int rc = 0;
    for (; rc == 0 && (s->stage < 2 || s->stage < 2 + s->nlocal); s->stage += rc == 0)
        rc = s->stage == 0   ? session_send_hello(s, d)
             : s->stage == 1 ? session_receive_welcome(s, d)
                             : manager_receive(s, s->stage - 2, d);
    return rc;
}

int session_timeout(int timeout_ms) {
    return timeout_ms < 0 ? default_timeout(DD_TIMEOUT_MS) : timeout_ms;
}

void session_abandon(struct session *part, bool busy) {
    if (!part)
        return;
    if (busy) { /* a thread was using it at the fork, so its state is unknown: leak it */
        close_fd(&part->sock);
        return;
    }
    session_empty(part);
    pthread_mutex_lock(&registry_lock);
    session_pool_put(part);
    pthread_mutex_unlock(&registry_lock);
}

static int session_begin(struct session **part, const char *name) {
    struct session *s = *part = session_take();
    if (!s)
        return dd_error(-ENOMEM, "no memory for a session");
    s->timeout_ms = s->wait_ms = default_timeout(DD_TIMEOUT_MS);
    /* it fits: the caller and attach_connect() have checked its length */
    strcpy(s->name, name);
    return 0;
}

int session_open_by(struct session **out, struct session **part, const char *name,
                    struct deadline *d) {
    bool old = *part != NULL;
    int rc = old ? 0 : session_begin(part, name);
    if (rc == 0)
        rc = session_receive(*part, d);
    /* ddictd may have given up an attach that was begun before: start again */
    if (old && rc < 0 && rc != -ETIMEDOUT) {
        session_abandon(*part, false);
        if ((rc = session_begin(part, name)) == 0)
            rc = session_receive(*part, d);
    }
    if (rc < 0) {
        if (rc != -ETIMEDOUT) {
            session_abandon(*part, false);
            *part = NULL;
        }
        return rc;
    }
    struct session *s = *out = *part;
    pthread_mutex_lock(&registry_lock);
    *part = NULL;
    __atomic_store_n(&s->id, ++last_id, __ATOMIC_RELEASE);
    s->next = sessions;
    sessions = s;
    pthread_mutex_unlock(&registry_lock);
    return 0;
}

/* --- closing --- */

/* registry_lock is held. */
static void session_remove(struct session *s) {
    struct session **at = &sessions;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    session_empty(s);
    session_pool_put(s);
}

void sessions_reap(void) {
    pthread_mutex_lock(&registry_lock);
    for (struct session *s = sessions, *next; s; s = next) {
        next = s->next;
        if (s->closing && !s->lost && !lease_any(s)) {
            __atomic_fetch_sub(&closing_sessions, 1, __ATOMIC_RELAXED);
            session_remove(s);
        }
    }
    pthread_mutex_unlock(&registry_lock);
}

void barrier_everywhere(void) {
    static bool registered; /* under registry_lock */
    if (!registered)
        registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    if (!registered || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        usleep(1000); /* in that time every core has drained its store buffer */
}

void session_close(struct session *s) {
    pthread_mutex_lock(&registry_lock);
    s->closing = true;
    __atomic_fetch_add(&closing_sessions, 1, __ATOMIC_SEQ_CST);
    if (lease_any(s))
        barrier_everywhere(); /* L4 */
    pthread_mutex_unlock(&registry_lock);
    sessions_reap();
}

void session_forget(struct session *s) {
    close_fd(&s->sock);
    close_fd(&s->client_eventfd);
    for (unsigned i = 0; i < s->nlocal; i++) {
        struct client_lane *p = &s->local[i].lane;
        p->lane.page = NULL; /* MADV_DONTFORK: not mapped here */
        p->lane.area = NULL;
        close_fd(&p->lane.fd);
        close_fd(&p->event_fd);
    }
    for (unsigned c = 0; c < s->chunks; c++)
        __atomic_store_n(&s->owner[c], NULL, __ATOMIC_RELAXED);
    pthread_mutex_init(&s->lease_lock, NULL);
    if (!s->closing) {
        s->closing = true;
        __atomic_fetch_add(&closing_sessions, 1, __ATOMIC_RELAXED);
    }
    if (s->refs)
        return;                   /* inherited by an earlier fork: we share its hold page, too */
    s->lease_page = s->hold.page; /* the parent's lease page is MADV_DONTFORK: not mapped here */
    s->refs = s->hold.refs;
    s->pipe = s->hold.pipe;
    s->inherited = s->hold.count;
    if (!s->lease_page)
        s->chunks = 0; /* no views: the next reap closes the session */
}

/* --- state of the dictionary --- */

int session_state_error(struct session *s) {
    uint32_t state = __atomic_load_n(&s->status_page->state, __ATOMIC_ACQUIRE) & ~STATUS_BITS;
    char text[sizeof s->status_page->text];
    memcpy(text, s->status_page->text, sizeof text);
    text[sizeof text - 1] = 0;
    if (state == STATUS_GONE)
        return dd_error(DDICT_EGONE, "%s", text[0] ? text : "the dictionary has ended");
    if (state >= STATUS_LOST)
        return dd_error(DDICT_ELOST, "%s", text[0] ? text : "a manager was lost");
    if (status_page_keeper_dead(s->status_page))
        return dd_error(DDICT_ELOST, "ddictd of this node died");
    return dd_error(DDICT_ELOST, "ddictd of this node closed its connection to this process");
}

/* The coarse clock is late by some milliseconds, which is nothing to DD_LEASE_WAIT_MS, and asks for a
 * fraction of the time. */
__attribute__((noinline)) bool status_page_lease_lasts(const struct status_page *b) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec <
           __atomic_load_n(&b->lease, __ATOMIC_RELAXED);
}

int session_check(struct session *s) {
    if (!status_page_serves(s->status_page))
        return session_state_error(s);
    bool due = __atomic_load_n(&s->held_due, __ATOMIC_RELAXED) > 0;
    struct pollfd p = {.fd = s->sock, .events = (short)(POLLRDHUP | (due ? POLLIN : 0))};
    if (s->sock >= 0 && poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR)))
        return session_state_error(s);
    if (due && p.revents & POLLIN)
        holds_settle(s);
    return 0;
}
