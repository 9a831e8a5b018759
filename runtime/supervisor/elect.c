/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elect.c - one dictionary for a job, however many start it (ELECTION 5). The start that binds the
 * name on node 0 goes on. If the name is taken, the other start asks its dictionary as a client
 * would: the dictionary gets ready (then this start ends), or closes the connection because it ends
 * (then this start tries the name again).
 */
#include "elect.h"

#include "clients.h"
#include "supervisor.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_US 20000 /* between two looks at a name that is being given up */

/* 1: a dictionary of the name is ready; 0: try the name again; negative: what no second try mends.
 * */
static int other_dictionary_probe(struct supervisor *s, struct deadline *d) {
    struct attach_msg m;
    int fd = attach_connect(s->opt.name, deadline_left(d, s->opt.elect_ms));
    /* it has just gone, or its backlog is full */
    if (fd < 0)
        return fd == DDICT_ECRED ? fd : 0;
    attach_msg_init(&m, ATTACH_LOOK);
    snprintf(m.text, sizeof m.text, "%s", s->opt.name);
    int e = attach_send(fd, &m, NULL, 0);
    if (e == 0)
        e = attach_recv(fd, &m, NULL, 0, deadline_left(d, s->opt.elect_ms));
    close(fd);
    if (e < 0)
        return 0;
    if ((e = attach_version_check(&m)) < 0)
        return e;
    if (m.type != ATTACH_WELCOME || m.status < 0)
        return 0; /* it is ending */
    memcpy(s->other.id, m.dict_id, sizeof s->other.id);
    s->other.managers = m.managers;
    s->other.nodes = m.nodes;
    s->other.bytes = m.total_bytes;
    return 1;
}

int elect_name(struct supervisor *s) {
    struct deadline d;
    bool said = false;
    deadline_start(&d, s->opt.elect_ms);
    for (;;) {
        int e = clients_listen(s);
        if (e != -EADDRINUSE)
            return e;
        if (!said)
            log_info("the name %s is taken: waiting for that dictionary", s->opt.name);
        said = true;
        if ((e = other_dictionary_probe(s, &d)) != 0)
            return e;
        if (deadline_over(&d))
            return dd_error(-ETIMEDOUT,
                            "a dictionary %s is on node %s already, and got neither ready nor "
                            "ended within %d s",
                            s->opt.name, s->node, s->opt.elect_ms / 1000);
        usleep(AGAIN_US);
    }
}

int elect_follow(struct supervisor *s) {
    struct deadline d;
    deadline_start(&d, DD_NAME_FREE_MS);
    for (;;) {
        int e = clients_listen(s), fd;
        if (e != -EADDRINUSE || deadline_over(&d))
            return e;
        if ((fd = attach_connect(s->opt.name, 0)) == DDICT_ECRED)
            return fd;
        if (fd >= 0)
            close(fd);
        usleep(AGAIN_US);
    }
}
