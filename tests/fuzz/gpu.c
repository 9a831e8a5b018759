/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - the map of a node's GPUs that ddictd sends to a rank, and the texts for sets of cpus. */
#include "fuzz.h"
#include <place/cpus.h>
#include <place/gpu_blob.h>

static void cpus_take(const char *text) {
    static struct cpus c, of[8];
    char shown[64];
    memset(&c, 0, sizeof c);
    if (cpus_list(&c, text) == 0)
        fuzz_must(strlen(cpus_text(shown, sizeof shown, &c)) < sizeof shown);
    fuzz_must(cpus_count(&c) <= CPUS_MAX);
    cpus_mask(&c, text, strlen(text));
    fuzz_must(cpus_count(&c) <= CPUS_MAX);
    const char *list = strchr(text, ' ');
    char *type = strndup(text, list ? (size_t)(list - text) : strlen(text));
    cpus_tasks(of, 8, type, list ? list + 1 : "");
    free(type);
}

/* As gpu_blob.c packs it: the map begins with these bytes, and zeros follow. */
static void map_take(struct fuzz_input in) {
    struct {
        char magic[8];
        uint32_t map_size, area_size, areas, pad;
    } head = {.map_size = sizeof(struct gpu_map), .area_size = sizeof(struct gpu_area)};
    struct gpu_map m, again;
    void *blob = NULL;
    memcpy(head.magic, "ddictGP1", sizeof head.magic);
    head.areas = fuzz_byte(&in);
    size_t areas = head.areas % 4, len = sizeof head + sizeof m + areas * sizeof(struct gpu_area);
    uint8_t *bytes = malloc(len);
    fuzz_must(bytes);
    memcpy(bytes, &head, sizeof head);
    fuzz_copy(&in, bytes + sizeof head, len - sizeof head);
    if (gpu_map_unpack(&m, bytes, len) == 0) {
        fuzz_must((size_t)m.areas == areas && m.gpus >= 0 && m.gpus <= GPU_MAX);
        for (int g = 0; g < m.gpus; g++)
            fuzz_must(gpu_vendor_name(m.gpu[g].vendor) && strlen(m.gpu[g].uuid) < 48);
        gpu_vendor_here(&m);
        fuzz_must(gpu_map_pack(&m, &blob, &len) == 0); /* what was taken can be passed on */
        fuzz_must(gpu_map_unpack(&again, blob, len) == 0);
        gpu_map_free(&again);
        gpu_map_free(&m);
    }
    free(blob);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct gpu_map m;
    if (gpu_map_unpack(&m, data, size) == 0)
        gpu_map_free(&m);
    map_take(in);
    char *text = fuzz_text(&in, in.left);
    cpus_take(text);
    free(text);
    return 0;
}
