/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.c - what carries the messages between managers: TCP, or a provider of libfabric. Each
 * node looks for itself before the wire-up and puts what it found into its node info; from the node
 * infos all nodes come to the same decision. A transport that was asked for and is not possible
 * ends the start. Without being asked ddictd uses TCP only: no provider for an HPC network has been
 * measured against it yet. Where nodes have such a network, transport_find() says so.
 */
#include "transport.h"

#include "supervisor.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <wire/fabric/fabric_find.h>
#include <wire/fabric/fabric_memory.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct answer {
    int code;
    char name[FABRIC_NAME_MAX], text[DD_ERRMSG_MAX];
};

/* In a child, so that what providers start and map while they look is gone with it. */
static void providers_child(const char *wanted, const char *node, int out)
    __attribute__((noreturn));
static void providers_child(const char *wanted, const char *node, int out) {
    static struct answer a;
    a.code = fabric_find(wanted, node, a.name);
    if (a.code < 0)
        snprintf(a.text, sizeof a.text, "%s", *dd_errmsg() ? dd_errmsg() : dd_strerror(a.code));
    _exit(write(out, &a, sizeof a) == sizeof a ? 0 : 1);
}

static int answer_read(int in, struct answer *a, int limit_ms) {
    struct pollfd p = {.fd = in, .events = POLLIN};
    struct deadline d;
    size_t got = 0;
    int left;
    deadline_start(&d, limit_ms);
    while (got < sizeof *a && (left = deadline_left(&d, -1)) > 0) {
        if (poll(&p, 1, left) <= 0)
            continue;
        ssize_t n = read(in, (char *)a + got, sizeof *a - got);
        if (n == 0 || (n < 0 && errno != EINTR))
            return dd_error(-EIO, "libfabric ended the process that looked for its providers");
        if (n > 0)
            got += (size_t)n;
    }
    a->name[sizeof a->name - 1] = a->text[sizeof a->text - 1] = 0;
    return got == sizeof *a
               ? 0
               : dd_error(-ETIMEDOUT, "libfabric did not say within %d s which providers it has",
                          limit_ms / 1000);
}

static int providers_find(const char *wanted, const char *node, struct answer *a, int limit_ms) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return dd_error(-errno, "no pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        providers_child(wanted, node, fds[1]);
    int e = pid < 0 ? dd_error(-errno, "no process: %s", strerror(errno)) : 0;
    close(fds[1]);
    if (e == 0)
        e = answer_read(fds[0], a, limit_ms);
    close(fds[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    return e < 0 ? e : a->code < 0 ? dd_error(a->code, "%s", a->text) : 0;
}

int transport_find(struct supervisor *s) {
    static struct answer a;
    const char *want = s->opt.transport, *provider = strncmp(want, "ofi:", 4) == 0 ? want + 4 : "";
    struct transport *t = &s->transport;
    if (strncmp(want, "ofi", 3) != 0 && strcmp(s->opt.rma, "yes") == 0)
        return dd_error(
            -EINVAL, "rma=yes wants transport=ofi: over TCP (transport=%s) no memory can be read",
            want);
    if (strncmp(want, "ofi", 3) == 0 && s->opt.has_wire && s->opt.wire != SEAL_PLAIN)
        return dd_error(-EINVAL,
                        "wire=%s wants transport=tcp: what libfabric carries (transport=%s) is "
                        "neither authenticated nor encrypted",
                        seal_name(s->opt.wire), want);
    if (strcmp(want, "tcp") == 0) {
        snprintf(t->why, sizeof t->why, "asked for");
        return 0;
    }
    if (strcmp(want, "auto") == 0) {
        if (fabric_devices())
            snprintf(t->why, sizeof t->why,
                     "node %s has an HPC network: transport=ofi would use it, ddict bench --net "
                     "tells which is faster",
                     s->node);
        else
            snprintf(t->why, sizeof t->why, "node %s has no device of an HPC network", s->node);
        return 0;
    }
    int e = providers_find(provider, s->node, &a, s->opt.fabric_ms);
    if (e == 0) {
        snprintf(t->own, sizeof t->own, "%s", a.name);
        return 0;
    }
    snprintf(t->why, sizeof t->why, "node %s: %s", s->node, dd_errmsg());
    snprintf(a.text, sizeof a.text, "%s", dd_errmsg());
    return dd_error(e, "transport=%s: node %s: %s", want, s->node, a.text);
}

void transport_heard(struct supervisor *s, uint32_t node, const char *provider) {
    struct transport *t = &s->transport;
    if (node == 0)
        snprintf(t->all, sizeof t->all, "%s", provider);
    else if (strcmp(provider, t->all) != 0 && t->differs == 0) {
        t->differs = node;
        snprintf(t->other, sizeof t->other, "%s", provider);
    }
}

int transport_agree(struct supervisor *s) {
    struct transport *t = &s->transport;
    if (t->differs) {
        char text[400];
        snprintf(text, sizeof text, "node %s has %.64s, node %s has %.64s", s->node_names[0],
                 t->all[0] ? t->all : "none", s->node_names[t->differs],
                 t->other[0] ? t->other : "none");
        return dd_error(DDICT_EPROTO, "transport=%s: %s", s->opt.transport, text);
    }
    if (t->all[0])
        snprintf(t->why, sizeof t->why, "asked for");
    t->rma = t->all[0] && (strcmp(s->opt.rma, "yes") == 0 ||
                           (strcmp(s->opt.rma, "auto") == 0 && fabric_has_hardware(t->all)));
    return 0;
}
