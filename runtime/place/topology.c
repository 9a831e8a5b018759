/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - hwloc's topology of this machine or of a saved one. */
#include "topology.h"

#include "distance.h"
#include <base/error.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/*
 * hwloc asks drivers and X servers too, where plugins for that are installed: they start GPUs up,
 * take seconds, or hang. What the kernel says of PCI is enough, and read without a library (pci is
 * the plugin that needs one). Switching off a plugin that is not there fails: no matter.
 */
static void components_leave_out(hwloc_topology_t t) {
    static const char *const asking[] = {"opencl",    "cuda", "nvml", "rsmi",
                                         "levelzero", "gl",   "pci"};

    for (size_t i = 0; i < sizeof asking / sizeof *asking; i++)
        hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, asking[i]);
}

static int topology_load(struct hwloc_topology **out, const char *path, const char *text,
                         size_t len) {
    const char *what = path ? path : text ? "text" : "this machine";
    hwloc_topology_t t;
    int rc = 0;

    if (hwloc_topology_init(&t) < 0)
        return dd_error(-ENOMEM, "cannot read the topology of %s: no memory", what);
    components_leave_out(t);
    hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_icache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (path)
        rc = hwloc_topology_set_xml(t, path);
    else if (text)
        rc = hwloc_topology_set_xmlbuffer(t, text, (int)len);
    if (rc < 0 || hwloc_topology_load(t) < 0) {
        hwloc_topology_destroy(t);
        return dd_error(-EINVAL, "cannot read the topology of %s: %s", what,
                        path || text ? "it is no XML of hwloc" : "hwloc gave up");
    }
    *out = t;
    return 0;
}

int topology_here(struct hwloc_topology **t) {
    return topology_load(t, NULL, NULL, 0);
}

int topology_file(struct hwloc_topology **t, const char *path) {
    /* hwloc says no more than that it failed, and takes "-" for stdin. */
    if (access(path, R_OK) < 0)
        return dd_error(-errno, "cannot read the topology of %s: %s", path, strerror(errno));
    return topology_load(t, path, NULL, 0);
}

int topology_xml(struct hwloc_topology **t, const char *text, size_t len) {
    if (len >= INT_MAX)
        return dd_error(-EINVAL, "a topology of %zu bytes is none", len);
    return topology_load(t, NULL, text, len);
}

int topology_cores(struct hwloc_topology *t) {
    int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);

    return n > 0 ? n : hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
}

void topology_core(struct hwloc_topology *t, int i, struct cpus *c) {
    hwloc_obj_t core = hwloc_get_obj_by_type(t, HWLOC_OBJ_CORE, (unsigned)i);
    struct cpus own;

    if (!core)
        core = hwloc_get_obj_by_type(t, HWLOC_OBJ_PU, (unsigned)i);
    if (!core)
        return;
    distance_cpus(&own, core->cpuset);
    for (int w = 0; w < CPUS_MAX / 64; w++)
        c->word[w] |= own.word[w];
}

void topology_free(struct hwloc_topology *t) {
    if (t)
        hwloc_topology_destroy(t);
}
