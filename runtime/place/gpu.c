/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - the map of a node's GPUs: distances, and what /proc, /sys and /dev say in addition. */
#include "gpu.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gpu_map_free(struct gpu_map *m) {
    free(m->area);
    memset(m, 0, sizeof *m);
}

int64_t gpu_distance(const struct gpu_map *m, int gpu, const struct cpus *from) {
    int64_t sum = 0, all_sum = 0;
    int cpus = 0, all = 0;

    for (int i = 0; i < m->areas; i++) {
        int n = cpus_shared(&m->area[i].cpus, from), size = cpus_count(&m->area[i].cpus);

        sum += (int64_t)n * m->area[i].distance[gpu];
        cpus += n;
        all_sum += (int64_t)size * m->area[i].distance[gpu];
        all += size;
    }
    if (cpus > 0)
        return sum * GPU_DISTANCE_UNIT / cpus;
    return all > 0 ? all_sum * GPU_DISTANCE_UNIT / all : 0;
}

const char *gpu_vendor_name(enum gpu_vendor v) {
    return v == GPU_NVIDIA ? "NVIDIA" : v == GPU_AMD ? "AMD" : "Intel";
}

int gpu_vendor_here(const struct gpu_map *m) {
    int count[GPU_VENDORS] = {0}, best = -1;

    for (int g = 0; g < m->gpus; g++)
        count[m->gpu[g].vendor] += m->gpu[g].visible != GPU_HIDDEN;
    for (int v = 0; v < GPU_VENDORS; v++)
        if (count[v] > 0 && (best < 0 || count[v] > count[best]))
            best = v;
    return best;
}

/* --- what the topology does not tell --- */

static FILE *open_below(const char *root, const char *folder, const char *pci, const char *file) {
    char path[512];

    return snprintf(path, sizeof path, "%s%s/%s/%s", root, folder, pci, file) < (int)sizeof path
               ? fopen(path, "re")
               : NULL;
}

/* access() asks the device cgroup too (tried with version 1), and wakes no device as open() would.
 * */
static enum gpu_visible node_visible(const char *root, const char *node) {
    char path[512];

    if (snprintf(path, sizeof path, "%s/dev/%s", root, node) >= (int)sizeof path)
        return GPU_VISIBLE_UNKNOWN;
    return access(path, R_OK | W_OK) == 0 ? GPU_VISIBLE : GPU_HIDDEN;
}

static void probe_nvidia(struct gpu *g, const char *root) {
    FILE *f = open_below(root, "/proc/driver/nvidia/gpus", g->pci, "information");
    char line[256], node[32];
    int minor;

    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        /* The driver has question marks for one that nobody has used yet. */
        if (sscanf(line, "GPU UUID: %47s", g->uuid) == 1 && strchr(g->uuid, '?'))
            g->uuid[0] = '\0';
        if (sscanf(line, "Device Minor: %d", &minor) == 1) {
            snprintf(node, sizeof node, "nvidia%d", minor);
            g->visible = node_visible(root, node);
        }
    }
    fclose(f);
}

static void probe_render(struct gpu *g, const char *root) {
    char path[512], node[300];
    struct dirent *e;
    DIR *d;

    if (snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/drm", root, g->pci) >=
            (int)sizeof path ||
        !(d = opendir(path)))
        return;
    while ((e = readdir(d))) {
        if (strncmp(e->d_name, "renderD", 7) == 0) {
            snprintf(node, sizeof node, "dri/%s", e->d_name);
            g->visible = node_visible(root, node);
        }
        if (g->vendor == GPU_INTEL && strncmp(e->d_name, "card", 4) == 0 &&
            !strchr(e->d_name, '-')) {
            int tiles = 0;
            do
                snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/drm/%.32s/gt/gt%d", root,
                         g->pci, e->d_name, tiles);
            while (access(path, F_OK) == 0 && ++tiles < 16);
            if (tiles > 1)
                g->tiles = tiles;
        }
    }
    closedir(d);
}

static void probe_amd_uuid(struct gpu *g, const char *root) {
    FILE *f = open_below(root, "/sys/bus/pci/devices", g->pci, "unique_id");
    char id[24];

    if (!f)
        return;
    if (fscanf(f, "%23s", id) == 1)
        snprintf(g->uuid, sizeof g->uuid, "GPU-%s", id);
    fclose(f);
}

void gpu_map_probe(struct gpu_map *m, const char *root) {
    int known[GPU_VENDORS] = {0};

    for (int i = 0; i < m->gpus; i++) {
        struct gpu *g = &m->gpu[i];

        if (g->vendor == GPU_NVIDIA)
            probe_nvidia(g, root);
        else
            probe_render(g, root);
        if (g->vendor == GPU_AMD)
            probe_amd_uuid(g, root);
        known[g->vendor] |= g->visible != GPU_VISIBLE_UNKNOWN;
    }
    /* Where the driver has some of a vendor's, one that it has not is not its own (passed on to a
     * virtual machine). */
    for (int i = 0; i < m->gpus; i++)
        if (known[m->gpu[i].vendor] && m->gpu[i].visible == GPU_VISIBLE_UNKNOWN)
            m->gpu[i].visible = GPU_HIDDEN;
}
