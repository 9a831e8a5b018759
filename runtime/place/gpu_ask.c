/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_ask.c - ask this node's ddictd for the map of its GPUs (PROTOCOL 4, GPUS). */
#include "gpu_blob.h"
#include <base/defaults.h>
#include <base/error.h>
#include <wire/attach.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int blob_take(struct gpu_map *m, int fd) {
    struct stat st;
    void *at;
    int rc;

    if (fstat(fd, &st) < 0 || st.st_size <= 0)
        return -EPROTO;
    at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    rc = gpu_map_unpack(m, at, (size_t)st.st_size);
    munmap(at, (size_t)st.st_size);
    return rc;
}

int gpu_map_ask(struct gpu_map *m) {
    const char *name = getenv("DDICT_NAME");
    struct attach_msg msg;
    int fd, rc, blob = -1;

    if (!name || *name == '\0')
        return DDICT_ENODICT;
    fd = attach_connect(name, DD_GPUS_MS);
    if (fd < 0)
        return fd;
    attach_msg_init(&msg, ATTACH_GPUS);
    rc = attach_send(fd, &msg, NULL, 0);
    if (rc == 0)
        rc = attach_recv(fd, &msg, &blob, 1, DD_GPUS_MS);
    close(fd);
    if (rc >= 0)
        rc = msg.type != ATTACH_GPUS || attach_version_check(&msg) < 0 ? -EPROTO
             : msg.status < 0                                          ? msg.status
             : rc == 1                                                 ? blob_take(m, blob)
                                                                       : -EPROTO;
    if (blob >= 0)
        close(blob);
    return rc;
}
