/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.c - the wire-up by stdio, behind the starter's line `gather`: it has node 0's node info, a
 * digest of all, and a secret of this start.
 *
 *     node r                         node 0                           node p, above r in the tree
 *     INFO {its own}       --->      waits for those of all nodes
 *     where p is not 0:    <---      INFO {p's}
 *     hangs up, connects                                    --->      waits until it has all
 *                          <---      or                     <---      INFOS {those of all} ...
 *     compares the digest, hangs up, gives them to those below it
 *
 * Connections are those of conn.h, with the secret as the key of all nodes, on the listening socket
 * that control.c has later. All of it is done before there are managers: a loop of its own, and one
 * that ends in time.
 */
#include "gather.h"

#include "control.h"
#include "node_info.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/vec.h>

#include <errno.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS   50    /* between looks at the deadlines of connections */
#define INFO_TEXT 4096u /* bytes of a node info in base64, at most */
#define CHILDREN  DD_TREE_CHILDREN

_Static_assert(STARTUP_DIGEST == crypto_generichash_BYTES && STARTUP_SECRET == KEY_SIZE,
               "the digest is BLAKE2b, the secret a key of the handshake");

struct gathering;
struct gather_peer { /* a connection of the wire-up */
    struct gathering *g;
    struct gather_peer *next;
    struct conn *conn;
    uint32_t node; /* at the other end */
    bool opened, up, dead;
    bool ours; /* accepted: a node that we wait for, and that has said who it is */
    bool told; /* accepted: it has what it came for, and hangs up when it got it */
};
struct gathering {
    struct supervisor *s;
    const struct gather_word *word;
    const char *mine;
    int epoll_fd;
    struct io_handler listener, input;
    struct conn_identity identity;
    struct gather_peer *peers, *above; /* above: the one that we have opened; NULL: none */
    char above_name[NODE_NAME_MAX];
    struct deadline limit, reach; /* reach: until above is up */
    char **infos;                 /* node 0: [nodes] in base64; NULL: not come */
    uint32_t came, served;        /* nodes that gave theirs; that hung up when they were told */
    bool child[CHILDREN];         /* those below us: has come */
    char *set;
    size_t len, room;
    bool whole; /* set has all, and the digest */
    int code;   /* why the start ends */
    char why[512];
};

static void gather_fail(struct gathering *g, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void gather_fail(struct gathering *g, int code, const char *fmt, ...) {
    va_list ap;
    if (g->code != 0) /* the first cause counts */
        return;
    g->code = code;
    va_start(ap, fmt);
    vsnprintf(g->why, sizeof g->why, fmt, ap);
    va_end(ap);
}

/* --- times, milliseconds --- */
static int reach_ms(const struct gathering *g) {
    return g->s->opt.gather_ms - g->s->opt.gather_ms / DD_GATHER_PART;
}
/* Node 0 knows best who is missing, so the others wait for its word. */
static int limit_ms(const struct gathering *g) {
    return g->s->opt.gather_ms + (g->s->node_id > 0 ? g->s->opt.gather_ms / DD_GATHER_PART : 0);
}

/* --- the tree --- */
static uint32_t child_first(const struct gathering *g) {
    return g->s->node_id * CHILDREN + 1;
}
static uint32_t children_n(const struct gathering *g) {
    uint32_t first = child_first(g), nodes = g->s->nodes;
    if (g->s->control_fd < 0 || first >= nodes)
        return 0;
    return nodes - first < CHILDREN ? nodes - first : CHILDREN;
}
static bool node_is_below(const struct gathering *g, uint32_t node) {
    return node > 0 && node < g->s->nodes && node_above(node) == g->s->node_id;
}

/* Node 0 waits for all the others, another one for those below it. */
static uint32_t awaited_n(const struct gathering *g) {
    return g->s->node_id == 0 ? g->s->nodes - 1 : children_n(g);
}

/* --- node infos --- */
/* Checks the node info of a node in base64, and finds its name and where it listens. */
static int info_read(const char *text, size_t len, uint32_t node, char name[NODE_NAME_MAX],
                     struct node_address *where, char *error, size_t cap) {
    void *info;
    size_t n;
    int e = node_info_decode(text, len, &info, &n);
    if (e < 0)
        return e;
    e = node_info_check(info, n, node);
    if (e == 0) {
        node_info_where(info, name, where);
        node_info_error(info, error, cap);
    }
    free(info);
    return e;
}

/* "node NAME", as far as this node knows it. */
static const char *node_label(const struct gathering *g, uint32_t node, char text[128]) {
    struct node_address where;
    char name[NODE_NAME_MAX], error[256];
    const char *info = g->infos ? g->infos[node] : NULL;
    if (info && info_read(info, strlen(info), node, name, &where, error, sizeof error) == 0)
        snprintf(text, 128, "node %s", name);
    else
        snprintf(text, 128, "the ddictd with node id %u", node);
    return text;
}

static int set_add(struct gathering *g, const void *bytes, size_t len) {
    if (g->len + len > (size_t)g->s->nodes * INFO_TEXT)
        return DDICT_EPROTO;
    if (VEC_ROOM(&g->set, &g->room, g->len + len + 1, 4096) < 0)
        return -ENOMEM;
    memcpy(g->set + g->len, bytes, len);
    g->len += len;
    g->set[g->len] = '\0';
    return 0;
}

static void kept(void *arg) {
}

static void set_send(struct gathering *g, struct gather_peer *p) {
    p->told = true;
    for (size_t at = 0; at < g->len; at += DD_MSG_PIECE) {
        size_t n = g->len - at < DD_MSG_PIECE ? g->len - at : DD_MSG_PIECE;
        struct msg m = {.type = MSG_CTL_INFOS,
                        .manager = UINT32_MAX,
                        .flags = at + n == g->len ? MSGF_LAST : 0};
        if (conn_send(p->conn, &m, NULL, 0, g->set + at, n, kept, NULL) < 0)
            return; /* `down` tells */
    }
}

static void text_send(struct gather_peer *p, unsigned type, uint32_t node, const char *text) {
    struct msg m = {.type = (uint16_t)type, .manager = node};
    conn_send(p->conn, &m, text, strlen(text), NULL, 0, NULL, NULL);
}

/* All node infos are there: from `from`, or gathered here. */
static void set_complete(struct gathering *g, const char *from) {
    uint8_t digest[STARTUP_DIGEST];
    crypto_generichash(digest, sizeof digest, (const uint8_t *)g->set, g->len, NULL, 0);
    if (memcmp(digest, g->word->digest, sizeof digest) != 0) {
        gather_fail(g, DDICT_EAUTH,
                    "the node infos that %s gave node %s are not those that the nodes gave their "
                    "starter: start again, and if it happens again see who else uses this network",
                    from, g->s->node);
        return;
    }
    g->whole = true;
    for (struct gather_peer *p = g->peers; p; p = p->next) {
        if (!p->ours || p->dead)
            continue;
        if (node_is_below(g, p->node)) {
            set_send(g, p);
            continue;
        }
        p->told = true;
        text_send(p, MSG_CTL_INFO, node_above(p->node), g->infos[node_above(p->node)]);
    }
}

/* Node 0: all have come. Who comes from here on has all, and means the control connections: it
 * waits in the queue of the socket. */
static void infos_join(struct gathering *g) {
    int e = 0;
    io_remove(g->epoll_fd, &g->listener);
    for (uint32_t i = 0; e == 0 && i < g->s->nodes; i++) {
        if (i > 0)
            e = set_add(g, " ", 1);
        if (e == 0)
            e = set_add(g, g->infos[i], strlen(g->infos[i]));
    }
    if (e < 0)
        gather_fail(g, e, "node %s: the node infos of %u nodes: %s", g->s->node, g->s->nodes,
                    dd_strerror(e));
    else
        set_complete(g, "the nodes");
}

/* --- connections --- */
static struct gather_peer *peer_new(struct gathering *g) {
    struct gather_peer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->g = g;
    p->next = g->peers;
    g->peers = p;
    return p;
}

static void above_open(struct gathering *g, uint32_t node, const char *text, size_t len);

/* Node 0: a node gives its node info. */
static int info_take(struct gathering *g, struct gather_peer *p, const char *text, size_t len) {
    if (g->s->node_id != 0 || p->ours || g->infos[p->node] || len >= INFO_TEXT)
        return DDICT_EPROTO;
    g->infos[p->node] = strndup(text, len);
    if (!g->infos[p->node])
        return -ENOMEM;
    p->ours = true;
    if (++g->came == g->s->nodes - 1)
        infos_join(g);
    return 0;
}

static void above_leave(struct gathering *g) {
    g->above->dead = true;
    g->above = NULL;
}

static int above_said(struct gathering *g, const struct msg *m, const char *text, size_t len) {
    uint32_t above = node_above(g->s->node_id);
    char label[NODE_NAME_MAX + 8];
    int e;
    switch (m->type) {
    case MSG_CTL_LOST:
        gather_fail(g, DDICT_ELOST, "%.*s", (int)len, text);
        return 0;
    case MSG_CTL_INFO:
        if (g->above->node != 0 || above == 0 || m->manager != above)
            return DDICT_EPROTO;
        above_leave(g);
        above_open(g, above, text, len);
        return 0;
    case MSG_CTL_INFOS:
        if (g->above->node != above || (e = set_add(g, text, len)) < 0)
            return DDICT_EPROTO;
        if (m->flags & MSGF_LAST) {
            above_leave(g);
            snprintf(label, sizeof label, "node %s", g->above_name);
            set_complete(g, label);
        }
        return 0;
    default:
        return DDICT_EPROTO;
    }
}

static int on_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct gather_peer *p = arg;
    size_t len = m->len - MSG_HEADER;
    if (p->dead || p->g->code != 0)
        return 0;
    if (p->opened)
        return above_said(p->g, m, payload, len);
    return m->type == MSG_CTL_INFO ? info_take(p->g, p, payload, len) : DDICT_EPROTO;
}

static void on_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct gather_peer *p = arg;
    struct gathering *g = p->g;
    p->up = true;
    if (p->opened)
        return;
    p->node = peer;
    if (role != ROLE_CONTROL || peer >= g->s->nodes || peer == g->s->node_id) {
        conn_end(c, DDICT_EPROTO);
    } else if (g->s->node_id > 0) { /* node 0 waits for its node info */
        bool *child = node_is_below(g, peer) ? &g->child[peer - child_first(g)] : NULL;
        if (!child || *child) {
            conn_end(c, DDICT_EPROTO);
            return;
        }
        *child = p->ours = true;
        if (g->whole)
            set_send(g, p);
    }
}

static void on_down(struct conn *c, void *arg, int code) {
    struct gather_peer *p = arg;
    struct gathering *g = p->g;
    char label[128];
    if (p->dead)
        return;
    p->dead = true;
    if (p->told) {
        g->served++;
    } else if (p->ours) {
        gather_fail(g, DDICT_ELOST, "%s is lost: its ddictd ended during the start",
                    node_label(g, p->node, label));
    } else if (p == g->above) {
        g->above = NULL;
        if (p->up && code == -ECONNRESET)
            gather_fail(g, DDICT_ELOST, "node %s is lost: its ddictd ended during the start",
                        g->above_name);
        else if (p->up)
            gather_fail(g, code, "node %s is lost during the start: %s", g->above_name,
                        dd_strerror(code));
        else
            gather_fail(g, code, "node %s can not be reached from node %s: %s", g->above_name,
                        g->s->node, dd_strerror(code));
    } else {
        log_info("a stranger was refused during the start: %s", dd_strerror(code));
    }
}

static const struct conn_ops gather_ops = {.up = on_up, .message = on_message, .down = on_down};

static void gather_accept(struct io_handler *h, uint32_t events) {
    struct gathering *g =
        (struct gathering *)(void *)((char *)h - offsetof(struct gathering, listener));
    for (int fd; (fd = conn_take(h->fd)) >= 0;) {
        struct gather_peer *p = peer_new(g);
        if (!p) {
            close(fd);
            return;
        }
        if (conn_accept(&p->conn, g->epoll_fd, &g->identity, fd, &gather_ops, p) < 0)
            p->dead = true;
    }
}

/* The starter has ended, or srun: nobody waits for this start any more. Lines that came before stay
 * in the pipe. */
static void stdin_gone(struct io_handler *h, uint32_t events) {
    struct gathering *g =
        (struct gathering *)(void *)((char *)h - offsetof(struct gathering, input));
    io_remove(g->epoll_fd, h);
    gather_fail(g, -EPIPE, "node %s: stdin ended before all nodes knew each other", g->s->node);
}

/* Connect to a node: to node 0 with our node info, to the one above for those of all. */
static void above_open(struct gathering *g, uint32_t node, const char *text, size_t len) {
    struct node_address where;
    struct gather_peer *p = NULL;
    char error[256] = "";
    int e = info_read(text, len, node, g->above_name, &where, error, sizeof error);
    if (e < 0) {
        gather_fail(g, e, "%s", dd_errmsg());
        return;
    }
    if (*error) { /* it serves nobody */
        gather_fail(g, -ECANCELED, "node %s: %s", g->above_name, error);
        return;
    }
    if ((p = peer_new(g))) {
        p->opened = true;
        p->node = node;
        e = conn_open(&p->conn, g->epoll_fd, &g->identity, ROLE_CONTROL, node, where.addr,
                      where.naddr, &gather_ops, p);
        p->dead = e < 0;
        if (e == 0)
            conn_patience(p->conn, g->s->opt.gather_ms); /* reach ends it before */
    }
    if (!p || e < 0) {
        gather_fail(g, p ? e : -ENOMEM, "node %s can not be reached from node %s: %s",
                    g->above_name, g->s->node, dd_strerror(p ? e : -ENOMEM));
        return;
    }
    g->above = p;
    deadline_start(&g->reach, reach_ms(g));
    if (node == 0)
        text_send(p, MSG_CTL_INFO, g->s->node_id, g->mine);
}

/* --- the loop --- */
static void peers_tick(struct gathering *g) {
    uint64_t now = clock_ns();
    for (struct gather_peer *p = g->peers; p; p = p->next)
        if (!p->dead)
            conn_tick(p->conn, now);
}

static void peers_free_dead(struct gathering *g) {
    for (struct gather_peer **at = &g->peers; *at;) {
        struct gather_peer *p = *at;
        if (!p->dead) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        conn_free(p->conn);
        free(p);
    }
}

/* The first node that has not come, or else one that has not taken what it came for. */
static uint32_t missing_node(const struct gathering *g) {
    for (uint32_t i = 1; i < g->s->nodes; i++)
        if (g->s->node_id == 0 ? !g->infos[i]
                               : node_is_below(g, i) && !g->child[i - child_first(g)])
            return i;
    for (const struct gather_peer *p = g->peers; p; p = p->next)
        if (p->told && !p->dead)
            return p->node;
    return 0;
}

static void gather_late(struct gathering *g) {
    const char *node = g->s->node;
    char label[128];
    if (g->s->node_id > 0 && !g->whole)
        gather_fail(g, -ETIMEDOUT, "node %s did not say within %d s who the other nodes are",
                    g->above_name, limit_ms(g) / 1000);
    else if (g->s->node_id == 0 && !g->whole)
        gather_fail(g, -ETIMEDOUT,
                    "%u of %u nodes did not connect to node %s within %d s, among them %s: is it "
                    "stopped, or are the ports of ddictd (ports=) closed between them?",
                    g->s->nodes - 1 - g->came, g->s->nodes, node, limit_ms(g) / 1000,
                    node_label(g, missing_node(g), label));
    else
        gather_fail(g, -ETIMEDOUT,
                    "%u nodes did not take the node infos from node %s within %d s, among them %s",
                    awaited_n(g) - g->served, node, limit_ms(g) / 1000,
                    node_label(g, missing_node(g), label));
}

/* What the nodes wait for is the kernel's to send: one that takes it slowly holds nobody up. */
static bool all_told(const struct gathering *g) {
    uint32_t n = g->served;
    for (const struct gather_peer *p = g->peers; p; p = p->next)
        n += p->told && !p->dead && conn_queued(p->conn) == 0;
    return n >= awaited_n(g);
}

static void gather_wait(struct gathering *g) {
    while (g->code == 0 && !(g->whole && all_told(g))) {
        int left = deadline_left(&g->limit, TICK_MS);
        io_wait(g->epoll_fd, left);
        peers_tick(g);
        if (g->above && !g->above->up && deadline_over(&g->reach))
            gather_fail(g, -ETIMEDOUT,
                        "node %s can not be reached from node %s: no answer within %d s. Are the "
                        "ports of ddictd (ports=) closed between them?",
                        g->above_name, g->s->node, reach_ms(g) / 1000);
        if (deadline_over(&g->limit))
            gather_late(g);
        peers_free_dead(g);
    }
}

/* The others end for the same reason. */
static void gather_tell(struct gathering *g) {
    for (struct gather_peer *p = g->peers; p; p = p->next) {
        if (!p->ours || p->dead)
            continue;
        text_send(p, MSG_CTL_LOST, UINT32_MAX, g->why);
        conn_flush(p->conn);
    }
}

static int gather_open(struct gathering *g, const char *first) {
    struct supervisor *s = g->s;
    uint8_t(*keys)[KEY_SIZE] = calloc(s->nodes, sizeof *keys);
    g->identity = (struct conn_identity){.keys = (const uint8_t(*)[KEY_SIZE])keys,
                                         .nodes = s->nodes,
                                         .self = s->node_id,
                                         .wire = s->opt.wire > SEAL_AUTH ? s->opt.wire : SEAL_AUTH};
    if (s->node_id == 0)
        g->infos = calloc(s->nodes, sizeof *g->infos);
    if (!keys || (s->node_id == 0 && (!g->infos || !(g->infos[0] = strdup(g->mine)))))
        return dd_error(-ENOMEM, "no memory for %u nodes", s->nodes);
    for (uint32_t i = 0; i < s->nodes; i++)
        memcpy(keys[i], g->word->secret, sizeof keys[i]);
    g->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (g->epoll_fd < 0)
        return dd_error(-errno, "no epoll descriptor: %s", strerror(errno));
    deadline_start(&g->limit, limit_ms(g));
    g->listener = (struct io_handler){.fd = s->control_fd, .ready = gather_accept};
    if (awaited_n(g) > 0) {
        int e = io_add(g->epoll_fd, &g->listener, EPOLLIN);
        conn_strangers(2 * s->nodes + DD_STRANGERS);
        if (e < 0)
            return dd_error(e, "no epoll descriptor: %s", strerror(-e));
    }
    g->input = (struct io_handler){.fd = STDIN_FILENO, .ready = stdin_gone};
    io_add(g->epoll_fd, &g->input, 0); /* its end comes unasked; a file has none */
    if (s->node_id > 0)
        above_open(g, 0, first, strlen(first));
    else if (s->nodes == 1)
        infos_join(g);
    return 0;
}

static void gather_close(struct gathering *g) {
    for (struct gather_peer *p = g->peers; p; p = p->next)
        p->dead = true;
    peers_free_dead(g);
    if (g->identity.keys)
        sodium_memzero((void *)g->identity.keys, g->s->nodes * sizeof *g->identity.keys);
    free((void *)g->identity.keys);
    for (uint32_t i = 0; g->infos && i < g->s->nodes; i++)
        free(g->infos[i]);
    free(g->infos);
    if (g->epoll_fd >= 0)
        close(g->epoll_fd);
}

int node_infos_gather(struct supervisor *s, const struct gather_word *word, const char *mine,
                      const char *first, char **set) {
    static struct gathering g;
    g = (struct gathering){.s = s, .word = word, .mine = mine, .epoll_fd = -1};
    int e = gather_open(&g, first);
    if (e == 0) {
        gather_wait(&g);
        if (g.code != 0) {
            gather_tell(&g);
            e = dd_error(g.code, "%s", g.why);
        }
    }
    gather_close(&g);
    if (e < 0) {
        free(g.set);
        return e;
    }
    *set = g.set;
    return 0;
}
