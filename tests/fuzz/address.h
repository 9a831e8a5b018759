/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - for targets that connect to themselves: there are not enough ports of TCP for that. */
#ifndef DDICT_TESTS_FUZZ_ADDRESS_H
#define DDICT_TESTS_FUZZ_ADDRESS_H

#include "fuzz.h"

#include <sys/socket.h>

/* Listen on an address of this process; which: a letter. conn_open() gives connect() as many bytes as
 * an address of IPv4 has: so long is this name. */
static inline int address_listen(struct sockaddr_storage *address, char which) {
    enum { LEN = 16 }; /* sizeof(struct sockaddr_in) */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_storage){.ss_family = AF_UNIX};
    snprintf((char *)address + sizeof(sa_family_t) + 1, LEN - sizeof(sa_family_t), "fz%c%010d",
             which, (int)getpid());
    fuzz_must(fd >= 0 && bind(fd, (struct sockaddr *)address, LEN) == 0 && listen(fd, 16) == 0);
    return fd;
}

#endif
