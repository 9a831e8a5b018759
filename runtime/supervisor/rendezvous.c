/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rendezvous.c - where the ranks of a step meet (MASTER_ADDR, MASTER_PORT). Rank 0 will listen
 * there, so the ddictd of its node reserves the port until rank 0's process ends, and tells who
 * decides, which tells the nodes that ask. A step that nobody asks for costs nothing; of too many the oldest
 * are forgotten.
 */
#include "rendezvous.h"

#include "clients.h"
#include "control.h"
#include "supervisor.h"
#include <base/error.h>
#include <base/log.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rendezvous {
    struct supervisor *s;
    struct rendezvous *next; /* the youngest is the first */
    char step[STEP_NAME_MAX];
    uint32_t node; /* of rank 0 */
    uint16_t port; /* 0: not known yet */
    int held;      /* descriptor that reserves the port; -1: not on this node, or no longer */
    struct io_handler life; /* rank 0's process; fd -1: none */
    bool asked;             /* we asked our parent */
    uint8_t *wants;         /* [nodes], who decides: nodes that want to know; NULL: none */
};

static void rendezvous_port_release(struct rendezvous *r) {
    if (r->life.fd >= 0) {
        io_remove(r->s->epoll_fd, &r->life);
        close(r->life.fd);
    }
    if (r->held >= 0)
        close(r->held);
    r->life.fd = r->held = -1;
}

static void rank0_ended(struct io_handler *h, uint32_t events) {
    rendezvous_port_release(
        (struct rendezvous *)(void *)((char *)h - offsetof(struct rendezvous, life)));
}

static void rendezvous_free(struct rendezvous *r) {
    rendezvous_port_release(r);
    free(r->wants);
    free(r);
}

/* Makes room for one more: drops the oldest, first of those whose rank 0 has ended. */
static void rendezvous_trim(struct supervisor *s) {
    struct rendezvous **at = &s->rendezvous, **last = NULL, **ended = NULL;
    unsigned n = 0;
    for (; *at; at = &(*at)->next, n++) {
        last = at;
        if ((*at)->port && (*at)->held < 0)
            ended = at;
    }
    if (n < DD_RENDEZVOUS_MAX)
        return;
    at = ended ? ended : last;
    struct rendezvous *old = *at;
    *at = old->next;
    rendezvous_free(old);
}

/* That of the step, made if there is none; NULL without memory. */
static struct rendezvous *rendezvous_of(struct supervisor *s, const char *step) {
    struct rendezvous *r = s->rendezvous;
    while (r && strcmp(r->step, step) != 0)
        r = r->next;
    if (r)
        return r;
    rendezvous_trim(s);
    r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->s = s;
    r->held = r->life.fd = -1;
    snprintf(r->step, sizeof r->step, "%s", step);
    r->next = s->rendezvous;
    s->rendezvous = r;
    return r;
}

static bool step_name_is_valid(const char *step) {
    return *step && !step[strspn(step, "0123456789.abcdefghijklmnopqrstuvwxyz+-")];
}

static void rendezvous_format(const struct rendezvous *r, char *text, size_t cap) {
    const struct node_address *at = r->s->control_at ? &r->s->control_at[r->node] : NULL;
    char address[INET6_ADDRSTRLEN] = "127.0.0.1";
    if (at && at->naddr > 0) {
        const struct sockaddr_storage *a = &at->addr[0];
        const void *bytes =
            a->ss_family == AF_INET6
                ? (const void *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr
                : (const void *)&((const struct sockaddr_in *)(const void *)a)->sin_addr;
        inet_ntop(a->ss_family, bytes, address, sizeof address);
    }
    snprintf(text, cap, "%s %u", address, r->port);
}

/* The port is known now: tells all that wait for it. */
static void rendezvous_tell(struct rendezvous *r) {
    struct supervisor *s = r->s;
    char text[128];
    for (uint32_t i = 0; r->wants && i < s->nodes; i++)
        if (r->wants[i])
            control_rendezvous(s, i, r->node, r->port, r->step);
    free(r->wants);
    r->wants = NULL;
    rendezvous_format(r, text, sizeof text);
    clients_rendezvous_tell(s, r->step, text);
}

static int rendezvous_open(struct rendezvous *r, int life) {
    struct supervisor *s = r->s;
    int fd = conn_hold(s->opt.port_low, s->opt.port_high, &r->port);
    if (fd < 0) {
        r->port = 0;
        return fd;
    }
    r->held = fd;
    r->node = s->node_id;
    if (life >= 0) {
        r->life = (struct io_handler){.fd = fcntl(life, F_DUPFD_CLOEXEC, 3), .ready = rank0_ended};
        if (r->life.fd >= 0 && io_add(s->epoll_fd, &r->life, EPOLLIN) < 0) {
            close(r->life.fd);
            r->life.fd = -1;
        }
    }
    log_debug("step %s meets at port %u", r->step, r->port);
    if (!control_decides(s))
        control_rendezvous(s, UINT32_MAX, r->node, r->port, r->step);
    rendezvous_tell(r);
    return 0;
}

int rendezvous_ask(struct supervisor *s, const char *step, uint32_t rank, int life, char *text,
                   size_t cap) {
    if (!step_name_is_valid(step))
        return dd_error(-EINVAL, "\"%.40s\" is no step", step);
    struct rendezvous *r = rendezvous_of(s, step);
    if (!r)
        return dd_error(-ENOMEM, "no memory");
    if (!r->port && rank == 0) {
        int e = rendezvous_open(r, life);
        if (e < 0)
            return e;
    }
    if (r->port) {
        rendezvous_format(r, text, cap);
        return 1;
    }
    if (!control_decides(s) && !r->asked)
        control_rendezvous(s, UINT32_MAX, s->node_id, 0, step);
    r->asked = true;
    return 0;
}

int rendezvous_hear(struct supervisor *s, uint32_t from, uint32_t node, uint64_t port,
                    const char *text, size_t len) {
    char step[STEP_NAME_MAX] = "";
    if (len >= sizeof step || node >= s->nodes || port > UINT16_MAX ||
        (port == 0 && !control_decides(s)))
        return DDICT_EPROTO;
    memcpy(step, text, len);
    if (!step_name_is_valid(step))
        return DDICT_EPROTO;
    struct rendezvous *r = rendezvous_of(s, step);
    if (!r)
        return 0; /* the asking client has a deadline */
    if (port > 0 && !r->port) {
        r->port = (uint16_t)port;
        r->node = node;
        rendezvous_tell(r);
    } else if (port == 0 && r->port) {
        control_rendezvous(s, from, r->node, r->port, step);
    } else if (port == 0) {
        if (!r->wants)
            r->wants = calloc(s->nodes, 1);
        if (r->wants)
            r->wants[from] = 1;
    }
    return 0;
}

void rendezvous_below(struct supervisor *s) {
    for (const struct rendezvous *r = s->rendezvous; r; r = r->next)
        if (r->port && r->node == s->node_id)
            control_rendezvous(s, UINT32_MAX, r->node, r->port, r->step);
        else if (!r->port && r->asked)
            control_rendezvous(s, UINT32_MAX, s->node_id, 0, r->step);
}

void rendezvous_end(struct supervisor *s) {
    while (s->rendezvous) {
        struct rendezvous *r = s->rendezvous;
        s->rendezvous = r->next;
        rendezvous_free(r);
    }
}
