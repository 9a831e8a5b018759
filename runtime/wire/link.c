/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - a link to a manager of another node, over its TCP connection. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <base/error.h>
#include <wire/link.h>

struct link {
    struct conn *conn;
    const struct link_ops *ops;
    void *arg;
};

static void on_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role)
{
    struct link *l = arg;
    if (role != ROLE_DATA)
        conn_end(c, DDICT_EAUTH); /* such a one has its own port */
    else if (l->ops->up != NULL)
        l->ops->up(l, l->arg, peer);
}

static void *on_payload_to(struct conn *c, void *arg, const struct msg *m)
{
    struct link *l = arg;
    return l->ops->payload_to != NULL ? l->ops->payload_to(l, l->arg, m) : NULL;
}

static int on_message(struct conn *c, void *arg, const struct msg *m, void *payload)
{
    struct link *l = arg;
    return l->ops->message(l, l->arg, m, payload);
}

static void on_drained(struct conn *c, void *arg)
{
    struct link *l = arg;
    if (l->ops->drained != NULL)
        l->ops->drained(l, l->arg);
}

static void on_down(struct conn *c, void *arg, int code)
{
    struct link *l = arg;
    if (l->ops->down != NULL)
        l->ops->down(l, l->arg, code);
}

static void *on_part_to(struct conn *c, void *arg, const struct msg *m, uint32_t got, uint32_t *room)
{
    struct link *l = arg;
    return l->ops->part_to != NULL ? l->ops->part_to(l, l->arg, m, got, room) : NULL;
}

static int on_part(struct conn *c, void *arg, const struct msg *m, uint32_t got, const void *at, uint32_t n)
{
    struct link *l = arg;
    return l->ops->part(l, l->arg, m, got, at, n);
}

static const struct conn_ops tcp_ops = {on_up, on_payload_to, on_message, on_drained, on_down, on_part_to, on_part};

static struct link *link_new(const struct link_ops *ops, void *arg)
{
    struct link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->ops = ops;
    l->arg = arg;
    return l;
}

int link_open(struct link **out, const struct link_setup *setup, uint32_t to, const struct sockaddr_storage *addr, int naddr, const struct link_ops *ops, void *arg)
{
    struct link *l = link_new(ops, arg);
    int e = l != NULL ? conn_open(&l->conn, setup->epoll_fd, setup->me, ROLE_DATA, to, addr, naddr, &tcp_ops, l) : -ENOMEM;
    if (e < 0)
        free(l);
    else
        *out = l;
    return e;
}

int link_accept(struct link **out, const struct link_setup *setup, int fd, const struct link_ops *ops, void *arg)
{
    struct link *l = link_new(ops, arg);
    if (l == NULL) {
        close(fd);
        return -ENOMEM;
    }
    int e = conn_accept(&l->conn, setup->epoll_fd, setup->me, fd, &tcp_ops, l);
    if (e < 0)
        free(l);
    else
        *out = l;
    return e;
}

void link_free(struct link *l)
{
    if (l == NULL)
        return;
    conn_free(l->conn); /* no callback of it comes after this */
    free(l);
}

int link_send(struct link *l, struct msg *m, const void *head, size_t head_len, const void *body, size_t body_len, void (*done)(void *arg), void *done_arg)
{
    return conn_send(l->conn, m, head, head_len, body, body_len, done, done_arg);
}

bool link_full(const struct link *l) { return conn_full(l->conn); }
size_t link_queued(const struct link *l) { return conn_queued(l->conn); }
uint64_t link_position(const struct link *l) { return conn_position(l->conn); }
bool link_unsent(const struct link *l, uint64_t position) { return conn_unsent(l->conn, position); }
void link_pause(struct link *l, bool paused) { conn_pause(l->conn, paused); }
void link_tick(struct link *l, uint64_t now_ns) { conn_tick(l->conn, now_ns); }
bool link_more_is_faster(const struct link *l) { return true; } /* one TCP connection keeps one core of each end busy */
