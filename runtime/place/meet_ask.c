/* SPDX-License-Identifier: Apache-2.0 */
/* meet_ask.c - ask this node's ddictd for the rendezvous of a step. libc only: the plugin uses this
 * file too. */
#include "meet_ask.h"

#include <base/defaults.h>
#include <base/error.h>
#include <base/size.h>
#include <wire/attach.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ddictd has the deadline, and says why; ours is for the case that it hangs itself */
#define SPARE_MS 5000

static int answer_read(struct meeting_place *p, const struct attach_msg *m) {
    const char *blank = strchr(m->text, ' ');
    size_t len = blank ? (size_t)(blank - m->text) : 0;
    uint64_t port;

    if (len == 0 || len >= sizeof p->address || count_parse(blank + 1, 1, UINT16_MAX, &port) < 0)
        return dd_error(DDICT_EPROTO, "ddictd says that the step meets at \"%.80s\"", m->text);
    memcpy(p->address, m->text, len);
    p->address[len] = '\0';
    snprintf(p->port, sizeof p->port, "%u", (unsigned)port);
    return 0;
}

int meet_ask_place(struct meeting_place *p, const char *name, const char *step, uint32_t rank) {
    struct deadline limit;
    struct attach_msg m;
    int fd, rc;

    deadline_start(&limit, DD_RENDEZVOUS_MS + SPARE_MS);
    fd = attach_connect_by(name, &limit);
    if (fd < 0)
        return fd;
    attach_msg_init(&m, ATTACH_MEET);
    snprintf(m.step, sizeof m.step, "%s", step);
    snprintf(m.text, sizeof m.text, "%s", name);
    m.manager = rank;
    rc = attach_send(fd, &m, NULL, 0);
    if (rc == 0)
        rc = attach_recv_by(fd, &m, NULL, 0, &limit);
    close(fd);
    if (rc < 0)
        return dd_error(rc, "no answer from ddictd: %s", dd_strerror(rc));
    rc = attach_version_check(&m);
    if (rc < 0)
        return rc;
    if (m.status < 0)
        return dd_error(m.status, "%s", m.text);
    return m.type == ATTACH_MEET ? answer_read(p, &m)
                                 : dd_error(DDICT_EPROTO, "ddictd answered what was not asked");
}
