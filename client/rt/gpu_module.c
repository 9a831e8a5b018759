/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_module.c - ddict-topology.so: reads this machine's topology and returns the part that GPU
 * binding needs. */
#include "gpu_module.h"

#include <base/error.h>
#include <place/topology.h>

#include <errno.h>
#include <stdio.h>

/* makes the compiler check the type against gpu_module.h */
__attribute__((visibility("default"))) gpu_module_read gpu_module_read_;

int gpu_module_read_(struct gpu_map *m, size_t size, char *text, size_t cap) {
    struct hwloc_topology *t;
    int rc = size == sizeof *m ? 0 : dd_error(-EPROTO, "ddict-topology.so is of another version");

    if (rc == 0)
        rc = topology_here(&t);
    if (rc == 0) {
        rc = gpu_map_make(m, t);
        topology_free(t);
    }
    if (rc < 0)
        snprintf(text, cap, "%s", dd_errmsg());
    return rc;
}
