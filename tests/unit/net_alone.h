/* SPDX-License-Identifier: Apache-2.0 */
/* net_alone.h - a network namespace for one test program, where nobody else takes ports and the
 * loopback can be switched off. */
#ifndef DDICT_TESTS_NET_ALONE_H
#define DDICT_TESTS_NET_ALONE_H

#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline int loopback_set(bool up) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq r = {.ifr_name = "lo", .ifr_flags = up ? IFF_UP | IFF_RUNNING : 0};
    int e = ioctl(fd, SIOCSIFFLAGS, &r);
    close(fd);
    return e;
}
/* false: this process has no right to. */
static inline bool net_alone(void) {
    return unshare(CLONE_NEWNET) == 0 && loopback_set(true) == 0;
}

#endif
