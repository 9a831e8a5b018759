/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_blob.c - the map of GPUs as bytes. Both sides are on one machine, so numbers are in host byte
 * order. */
#include "gpu_blob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct blob_head {
    char magic[8];
    uint32_t map_size, area_size; /* of this version's structs */
    uint32_t areas, pad;
};
static const char magic[8] = {'d', 'd', 'i', 'c', 't', 'G', 'P', '1'};

int gpu_map_pack(const struct gpu_map *m, void **blob, size_t *len) {
    struct blob_head h = {
        .map_size = sizeof *m, .area_size = sizeof *m->area, .areas = (uint32_t)m->areas};
    size_t areas = (size_t)m->areas * sizeof *m->area;
    char *at = malloc(sizeof h + sizeof *m + areas);

    if (!at)
        return -ENOMEM;
    memcpy(h.magic, magic, sizeof magic);
    *blob = at;
    *len = sizeof h + sizeof *m + areas;
    memcpy(at, &h, sizeof h);
    memcpy(at + sizeof h, m, sizeof *m);
    if (areas > 0)
        memcpy(at + sizeof h + sizeof *m, m->area, areas);
    return 0;
}

static int map_check(struct gpu_map *m) {
    if (m->gpus < 0 || m->gpus > GPU_MAX)
        return -EPROTO;
    for (int g = 0; g < m->gpus; g++) {
        struct gpu *p = &m->gpu[g];

        if ((unsigned)p->vendor >= GPU_VENDORS || p->tiles < 1 || p->tiles > GPU_MAX)
            return -EPROTO;
        p->pci[sizeof p->pci - 1] = p->uuid[sizeof p->uuid - 1] = '\0';
    }
    return 0;
}

int gpu_map_unpack(struct gpu_map *m, const void *blob, size_t len) {
    struct blob_head h;
    size_t areas;

    if (len < sizeof h + sizeof *m)
        return -EPROTO;
    memcpy(&h, blob, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.map_size != sizeof *m ||
        h.area_size != sizeof *m->area || h.areas > CPUS_MAX ||
        len != sizeof h + sizeof *m + h.areas * sizeof *m->area)
        return -EPROTO;
    areas = h.areas * sizeof *m->area;
    memcpy(m, (const char *)blob + sizeof h, sizeof *m);
    m->areas = (int)h.areas;
    m->area = malloc(areas + 1);
    if (!m->area)
        return -ENOMEM;
    memcpy(m->area, (const char *)blob + sizeof h + sizeof *m, areas);
    if (map_check(m) < 0) {
        gpu_map_free(m);
        return -EPROTO;
    }
    return 0;
}
