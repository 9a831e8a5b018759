/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.c - in the task, as the user, before its program: the dictionary's name, also where srun's --export left it out. A task
 * whose node has no dictionary ends here, so no program runs without what it was promised.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "plugin.h"

/* Whether anybody listens under the name on this node: wire/PROTOCOL 4. Who it is, the client looks at. */
static int dictionary_is_here(const char *name, const char *node) {
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    size_t cap = sizeof a.sun_path - 1;
    int n = snprintf(a.sun_path + 1, cap, "ddict/%s/%s", name, node), fd, rc;

    if (n < 0 || (size_t)n >= cap)
        return 1; /* such long names are built otherwise */
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return 1;
    rc = connect(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0 ? errno : 0;
    close(fd);
    return rc != ECONNREFUSED;
}

void remote_task(spank_t sp) {
    char name[64], node[128], refused[64];
    uint32_t local = 0;

    if (!options_of_step(sp) || dictionary_name(sp, geteuid(), name, sizeof name) < 0)
        return;
    if (spank_getenv(sp, "DDICT_REFUSED", refused, sizeof refused) == ESPANK_SUCCESS && strcmp(refused, name) == 0)
        _exit(1); /* srun has said why */
    if (spank_getenv(sp, "SLURMD_NODENAME", node, sizeof node) == ESPANK_SUCCESS && !dictionary_is_here(name, node)) {
        spank_get_item(sp, S_TASK_ID, &local);
        if (local == 0)
            dprintf(STDERR_FILENO, "ddict: node %s has no dictionary %s, its tasks are not started\n", node, name);
        _exit(1);
    }
    spank_setenv(sp, "DDICT_NAME", name, 1);
    spank_unsetenv(sp, "DDICT_NODE");
    spank_unsetenv(sp, "DDICT_MANAGERS"); /* an srun of the program must not ask again */
    spank_unsetenv(sp, "DDICT_MEM");
}
