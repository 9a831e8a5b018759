/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - the client's end of a lane, for targets that have a real manager. */
#ifndef DDICT_TESTS_FUZZ_CLIENT_H
#define DDICT_TESTS_FUZZ_CLIENT_H

#include "fuzz.h"
#include <manager/lane_clients.h>
#include <wire/lane.h>

#include <fcntl.h>
#include <sys/eventfd.h>

struct client {
    struct lane lane;
    int lease_fd, lane_fd, client_eventfd, lane_eventfd;
    uint64_t *leases;
    int lied; /* about how much of CQ it has read: what is there means nothing any more */
};

static inline void client_open(struct manager *m, struct client *c, uint64_t id) {
    *c = (struct client){.lease_fd = memfd_create("leases", MFD_CLOEXEC),
                         .lane_fd = lane_create(),
                         .client_eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                         .lane_eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    fuzz_must(ftruncate(c->lease_fd, (off_t)LEASE_FILE_SIZE) == 0);
    c->leases = mmap(NULL, LEASE_CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, c->lease_fd, 0);
    fuzz_must(c->leases != MAP_FAILED);
    ((struct lease_chunk *)(void *)c->leases)->chunks = 1;
    fuzz_must(lane_map(&c->lane, c->lane_fd, true) == 0);
    int fds[4] = {c->lease_fd, c->lane_fd, fcntl(c->client_eventfd, F_DUPFD_CLOEXEC, 3),
                  fcntl(c->lane_eventfd, F_DUPFD_CLOEXEC, 3)};
    fuzz_must(client_add(m, id, 1, fds) == 0);
}

static inline void client_close(struct client *c) {
    lane_unmap(&c->lane);
    munmap(c->leases, LEASE_CHUNK_SIZE);
    close(c->lease_fd);
    close(c->lane_fd);
    close(c->client_eventfd);
    close(c->lane_eventfd);
}

static inline void client_ring(struct client *c) {
    uint64_t one = 1;
    fuzz_must(write(c->lane_eventfd, &one, sizeof one) == sizeof one || c->lied);
}

#endif
