/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.c - what hwloc knows of this node: the NUMA node of each manager, chosen before the
 * managers start (numa_bind.c binds them), and the map of the node's GPUs, which ranks ask for so
 * that they need not read the topology again.
 */
#include "places.h"

#include "supervisor.h"
#include <base/error.h>
#include <base/log.h>
#include <place/gpu_blob.h>
#include <place/topology.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void manager_places_find(struct supervisor *s) {
    if (numa_map_here(&s->places, NULL, faults_root()) < 0)
        log_info("managers are not bound to NUMA nodes: %s", dd_errmsg());
}

const struct numa_place *manager_place(const struct supervisor *s, unsigned i, uint64_t *need) {
    const struct numa_place *p = numa_map_place(&s->places, (int)i);
    *need = 0;
    for (unsigned k = 0; p && k < processes_n(s); k++)
        if (numa_map_place(&s->places, (int)k) == p)
            *need += s->local[k].budget;
    return p;
}

/* The map as a sealed file: nobody can change it any more. */
static int gpus_keep(const struct gpu_map *map) {
    void *blob;
    size_t len;
    int e = gpu_map_pack(map, &blob, &len),
        fd = e < 0 ? e : memfd_create("ddict-gpus", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (e < 0)
        return e;
    if (fd < 0)
        e = -errno;
    else if (write(fd, blob, len) != (ssize_t)len ||
             fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
        e = -EIO;
        close(fd);
    }
    free(blob);
    return e < 0 ? e : fd;
}

/* Once, and only when a rank asks: reading takes 10 ms, on the largest machines a second. Meanwhile
 * the managers go on, and no new client attaches. */
int gpus_fd(struct supervisor *s) {
    struct hwloc_topology *t;
    struct gpu_map map;
    if (s->gpus_fd != 0)
        return s->gpus_fd < 0 ? dd_error(s->gpus_fd, "the GPUs of node %s are not known", s->node)
                              : s->gpus_fd;
    int e = faults_topology() ? topology_file(&t, faults_topology()) : topology_here(&t);
    if (e == 0) {
        e = gpu_map_make(&map, t);
        topology_free(t);
    }
    if (e == 0) {
        e = gpus_keep(&map);
        gpu_map_free(&map);
    }
    s->gpus_fd = e;
    return e;
}
