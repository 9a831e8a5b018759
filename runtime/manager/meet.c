/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet.c - where the ranks of a step meet (MASTER_ADDR, MASTER_PORT). Rank 0 listens there, so the ddictd of its node takes the port, and holds it until rank 0's
 * process ends; node 0 hears of it and tells those that ask. A step that nobody has asked for costs nothing; the oldest are forgotten.
 */
#include <base/error.h>
#include <base/log.h>
#include <manager/supervisor.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct meeting {
    struct supervisor *s;
    struct meeting *next; /* the youngest is the first */
    char step[STEP_NAME_MAX];
    uint32_t node;          /* of rank 0 */
    uint16_t port;          /* 0: not known yet */
    int held;               /* keeps the port, -1: not here or not any more */
    struct io_handler life; /* rank 0's process; fd -1: none */
    bool asked;             /* our parent was */
    uint8_t *wants;         /* [nodes], node 0: who is to be told; NULL: nobody */
};

static void port_release(struct meeting *m) {
    if (m->life.fd >= 0) {
        io_remove(m->s->epoll_fd, &m->life);
        close(m->life.fd);
    }
    if (m->held >= 0)
        close(m->held);
    m->life.fd = m->held = -1;
}

static void life_ready(struct io_handler *h, uint32_t events) {
    port_release((struct meeting *)(void *)((char *)h - offsetof(struct meeting, life)));
}

static void meeting_free(struct meeting *m) {
    port_release(m);
    free(m->wants);
    free(m);
}

/* Of many, the oldest goes; those whose rank 0 has ended before others. */
static void meetings_trim(struct supervisor *s) {
    struct meeting **at = &s->meetings, **last = NULL, **ended = NULL;
    unsigned n = 0;
    for (; *at; at = &(*at)->next, n++) {
        last = at;
        if ((*at)->port && (*at)->held < 0)
            ended = at;
    }
    if (n < DD_MEETINGS_MAX)
        return;
    at = ended ? ended : last;
    struct meeting *old = *at;
    *at = old->next;
    meeting_free(old);
}

/* The one of the step, made where there is none; NULL without memory. */
static struct meeting *meeting_of(struct supervisor *s, const char *step) {
    struct meeting *m = s->meetings;
    while (m && strcmp(m->step, step) != 0)
        m = m->next;
    if (m)
        return m;
    meetings_trim(s);
    m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->s = s;
    m->held = m->life.fd = -1;
    snprintf(m->step, sizeof m->step, "%s", step);
    m->next = s->meetings;
    s->meetings = m;
    return m;
}

static bool step_sound(const char *step) {
    return *step && !step[strspn(step, "0123456789.abcdefghijklmnopqrstuvwxyz+-")];
}

static void where(const struct meeting *m, char *text, size_t cap) {
    const struct node_address *at = m->s->control_at ? &m->s->control_at[m->node] : NULL;
    char address[INET6_ADDRSTRLEN] = "127.0.0.1";
    if (at && at->naddr > 0) {
        const struct sockaddr_storage *a = &at->addr[0];
        const void *bytes =
            a->ss_family == AF_INET6
                ? (const void *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr
                : (const void *)&((const struct sockaddr_in *)(const void *)a)->sin_addr;
        inet_ntop(a->ss_family, bytes, address, sizeof address);
    }
    snprintf(text, cap, "%s %u", address, m->port);
}

/* It is known now: to all that wait for it. */
static void meeting_tell(struct meeting *m) {
    struct supervisor *s = m->s;
    char text[128];
    for (uint32_t i = 0; m->wants && i < s->nodes; i++)
        if (m->wants[i])
            control_meet(s, i, m->node, m->port, m->step);
    free(m->wants);
    m->wants = NULL;
    where(m, text, sizeof text);
    clients_meet(s, m->step, text);
}

static int meeting_open(struct meeting *m, int life) {
    struct supervisor *s = m->s;
    int fd = conn_hold(s->opt.port_low, s->opt.port_high, &m->port);
    if (fd < 0) {
        m->port = 0;
        return fd;
    }
    m->held = fd;
    m->node = s->node_id;
    if (life >= 0) {
        m->life = (struct io_handler){.fd = fcntl(life, F_DUPFD_CLOEXEC, 3), .ready = life_ready};
        if (m->life.fd >= 0 && io_add(s->epoll_fd, &m->life, EPOLLIN) < 0) {
            close(m->life.fd);
            m->life.fd = -1;
        }
    }
    log_debug("step %s meets at port %u", m->step, m->port);
    if (s->node_id > 0)
        control_meet(s, UINT32_MAX, m->node, m->port, m->step);
    meeting_tell(m);
    return 0;
}

int meet_ask(struct supervisor *s, const char *step, uint32_t rank, int life, char *text,
             size_t cap) {
    if (!step_sound(step))
        return dd_error(-EINVAL, "\"%.40s\" is no step", step);
    struct meeting *m = meeting_of(s, step);
    if (!m)
        return dd_error(-ENOMEM, "no memory");
    if (!m->port && rank == 0) {
        int e = meeting_open(m, life);
        if (e < 0)
            return e;
    }
    if (m->port) {
        where(m, text, cap);
        return 1;
    }
    if (s->node_id > 0 && !m->asked)
        control_meet(s, UINT32_MAX, s->node_id, 0, step);
    m->asked = true;
    return 0;
}

int meet_heard(struct supervisor *s, uint32_t from, uint32_t node, uint64_t port, const char *text,
               size_t len) {
    char step[STEP_NAME_MAX] = "";
    if (len >= sizeof step || node >= s->nodes || port > UINT16_MAX ||
        (port == 0 && s->node_id > 0))
        return DDICT_EPROTO;
    memcpy(step, text, len);
    if (!step_sound(step))
        return DDICT_EPROTO;
    struct meeting *m = meeting_of(s, step);
    if (!m)
        return 0; /* who asks has a deadline */
    if (port > 0 && !m->port) {
        m->port = (uint16_t)port;
        m->node = node;
        meeting_tell(m);
    } else if (port == 0 && m->port) {
        control_meet(s, from, m->node, m->port, step);
    } else if (port == 0) {
        if (!m->wants)
            m->wants = calloc(s->nodes, 1);
        if (m->wants)
            m->wants[from] = 1;
    }
    return 0;
}

void meet_end(struct supervisor *s) {
    while (s->meetings) {
        struct meeting *m = s->meetings;
        s->meetings = m->next;
        meeting_free(m);
    }
}
