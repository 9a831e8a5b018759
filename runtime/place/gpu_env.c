/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_env.c - read the variables that say which GPUs are visible, and write one in a new order. */
#include "gpu_env.h"

#include <base/error.h>
#include <base/size.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_set(const char *name) {
    return getenv(name) != NULL;
}

/* HIP looks at HIP_VISIBLE_DEVICES, else at CUDA_VISIBLE_DEVICES, and counts in what
 * ROCR_VISIBLE_DEVICES left: the last to be applied says the order. */
static const char *variable_of(enum gpu_vendor v) {
    if (v == GPU_NVIDIA)
        return "CUDA_VISIBLE_DEVICES";
    if (v == GPU_INTEL)
        return "ZE_AFFINITY_MASK";
    if (is_set("HIP_VISIBLE_DEVICES"))
        return "HIP_VISIBLE_DEVICES";
    if (is_set("ROCR_VISIBLE_DEVICES") && is_set("CUDA_VISIBLE_DEVICES") &&
        strcmp(getenv("ROCR_VISIBLE_DEVICES"), getenv("CUDA_VISIBLE_DEVICES")) != 0)
        return "CUDA_VISIBLE_DEVICES";
    return is_set("ROCR_VISIBLE_DEVICES") || !is_set("CUDA_VISIBLE_DEVICES")
               ? "ROCR_VISIBLE_DEVICES"
               : "CUDA_VISIBLE_DEVICES";
}

/* The devices as a runtime counts them: of the vendor, those that can be opened (all where that is
 * not known); Intel's tiles one by one unless told otherwise. Their number. */
static int devices_visible(const struct gpu_map *map, enum gpu_vendor v, int hidden_too, int *gpu) {
    const char *hierarchy = getenv("ZE_FLAT_DEVICE_HIERARCHY");
    int composite = hierarchy && strcmp(hierarchy, "COMPOSITE") == 0, n = 0;

    for (int g = 0; g < map->gpus; g++) {
        if (map->gpu[g].vendor != v || (!hidden_too && map->gpu[g].visible == GPU_HIDDEN))
            continue;
        for (int t = 0; t < (composite ? 1 : map->gpu[g].tiles) && n < GPU_MAX; t++)
            gpu[n++] = g;
    }
    return n;
}

/* "GPU-8a5b" or "MIG-GPU-8a5b.../1/0": the GPU whose name begins so; -1 when none or several do. */
static int gpu_named(const struct gpu_map *map, enum gpu_vendor v, const char *name) {
    int found = -1;

    if (strncmp(name, "MIG-", 4) == 0)
        name += 4;
    if (strncmp(name, "GPU-", 4) != 0)
        return -1;
    size_t len = strcspn(name, "/");
    for (int g = 0; g < map->gpus; g++) {
        if (map->gpu[g].vendor != v || map->gpu[g].uuid[0] == '\0' ||
            strncasecmp(map->gpu[g].uuid, name, len) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = g;
    }
    return found;
}

/* --- what the text says --- */

static int is_name(const char *s) {
    if (strncmp(s, "GPU-", 4) != 0 && strncmp(s, "MIG-", 4) != 0)
        return 0;
    s += 4;
    return *s != '\0' &&
           s[strspn(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-/")] == '\0';
}

/* "3"; for Level Zero also "3.1", a tile of device 3. The index, or -1. */
static int index_of(const char *s, enum gpu_vendor v) {
    char *end;
    long i;

    if (!isdigit((unsigned char)*s))
        return -1;
    i = strtol(s, &end, 10);
    if (v == GPU_INTEL && *end == '.' && isdigit((unsigned char)end[1]))
        strtol(end + 1, &end, 10);
    return *end == '\0' && i < 1000 ? (int)i : -1;
}

static int mask_split(struct gpu_mask *m, const char *text) {
    m->entries = 0;
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ","), skip = strspn(at, " \t"), n;
        char *name = m->name[m->entries];

        n = len > skip ? len - skip : 0;
        while (n > 0 && isspace((unsigned char)at[skip + n - 1]))
            n--;
        if (m->entries == GPU_MAX || n == 0 || n >= GPU_NAME_MAX)
            return dd_error(-EINVAL, "%s=%.100s: %s; it is left as it is", m->variable, text,
                            m->entries == GPU_MAX ? "too many entries"
                            : n == 0              ? "an entry is empty"
                                                  : "an entry is too long");
        memcpy(name, at + skip, n);
        name[n] = '\0';
        if (!is_name(name) && index_of(name, m->vendor) < 0)
            return dd_error(-EINVAL,
                            "%s=%.100s: \"%s\" is neither the number nor the name of a GPU; it is "
                            "left as it is",
                            m->variable, text, name);
        for (int i = 0; i < m->entries; i++)
            if (strcasecmp(m->name[i], name) == 0)
                return dd_error(-EINVAL,
                                "%s=%.100s: \"%s\" stands there twice; it is left as it is",
                                m->variable, text, name);
        m->entries++;
        at += len;
        if (*at == '\0')
            return 0;
    }
}

/* --- which GPU an index means --- */

/* Of the step, in global numbers; 0: Slurm does not say. */
static int granted_by_slurm(struct cpus *set) {
    const char *v = getenv("SLURM_STEP_GPUS");

    if (!v)
        v = getenv("SLURM_JOB_GPUS");
    return v && cpus_list(set, v) == 0 ? cpus_count(set) : 0;
}

/* The i-th of the set, -1 when it has fewer. */
static int cpu_at(const struct cpus *set, int i) {
    for (int n = 0; n < CPUS_MAX; n++)
        if (cpus_has(set, n) && i-- == 0)
            return n;
    return -1;
}

enum numbering { LOCAL, GLOBAL, UNTOLD, WRONG };

/* By comparing the indices with what Slurm granted, where nothing hides a device or nobody knows.
 * */
static enum numbering numbering_of(const struct gpu_mask *m, const struct cpus *granted,
                                   int count) {
    int local = 1, global = 1, indices = 0, same = 1;

    for (int i = 0; i < count; i++)
        same = same && cpus_has(granted, i);
    for (int i = 0; i < m->entries; i++) {
        int n = index_of(m->name[i], m->vendor);

        if (n < 0)
            continue;
        indices++;
        local = local && n < count;
        global = global && cpus_has(granted, n);
    }
    if (same || indices == 0)
        return local ? GLOBAL : WRONG;
    if (local && global)
        return UNTOLD;
    return global ? GLOBAL : local ? LOCAL : WRONG;
}

static int hides_some(const struct gpu_map *map, enum gpu_vendor v) {
    for (int g = 0; g < map->gpus; g++)
        if (map->gpu[g].vendor == v && map->gpu[g].visible == GPU_HIDDEN)
            return 1;
    return 0;
}

static int knows_all(const struct gpu_map *map, enum gpu_vendor v) {
    for (int g = 0; g < map->gpus; g++)
        if (map->gpu[g].vendor == v && map->gpu[g].visible == GPU_VISIBLE_UNKNOWN)
            return 0;
    return 1;
}

/* On AMD: an index of a variable that counts in what another one left. The GPU, -1 not known, -2
 * out of range. */
static int below_rocr(const struct gpu_map *map, int index) {
    struct gpu_mask rocr = {.vendor = GPU_AMD, .variable = "ROCR_VISIBLE_DEVICES"};
    int gpu[GPU_MAX], n = devices_visible(map, GPU_AMD, 0, gpu), i;

    if (mask_split(&rocr, getenv("ROCR_VISIBLE_DEVICES")) < 0 || index >= rocr.entries)
        return -2;
    i = index_of(rocr.name[index], GPU_AMD);
    if (i < 0)
        return gpu_named(map, GPU_AMD, rocr.name[index]);
    return i < n ? gpu[i] : -1;
}

static int mask_resolve(struct gpu_mask *m, const struct gpu_map *map, const char *text) {
    int gpu[GPU_MAX], n = devices_visible(map, m->vendor, 0, gpu), count, use_granted = 0;
    int on_rocr = m->vendor == GPU_AMD && strcmp(m->variable, "ROCR_VISIBLE_DEVICES") != 0 &&
                  is_set("ROCR_VISIBLE_DEVICES");
    struct cpus granted = {{0}};

    if (!on_rocr && !hides_some(map, m->vendor) && !knows_all(map, m->vendor) &&
        (count = granted_by_slurm(&granted)) > 0) {
        switch (numbering_of(m, &granted, count)) {
        case UNTOLD:
            return dd_error(-EINVAL,
                            "%s=%.100s may count all GPUs of the node or those of SLURM_STEP_GPUS "
                            "only; it is left as it is",
                            m->variable, text);
        case WRONG:
            return dd_error(
                -EINVAL,
                "%s=%.100s does not fit to the GPUs that Slurm granted; it is left as it is",
                m->variable, text);
        case LOCAL:
            use_granted = 1;
            break;
        case GLOBAL:
            break;
        }
    }
    for (int i = 0; i < m->entries; i++) {
        int index = index_of(m->name[i], m->vendor), at;

        m->gpu[i] = -1;
        if (index < 0) {
            m->gpu[i] = gpu_named(map, m->vendor, m->name[i]);
            continue;
        }
        if (on_rocr) {
            at = below_rocr(map, index);
        } else {
            int place = use_granted ? cpu_at(&granted, index) : index;
            at = place >= 0 && place < n ? gpu[place] : -2;
        }
        if (at == -2)
            return dd_error(
                -EINVAL,
                "%s=%.100s: there is no GPU %d, this process sees %d of %s's; it is left as it is",
                m->variable, text, index, n, gpu_vendor_name(m->vendor));
        m->gpu[i] = at;
    }
    return m->entries;
}

/* No variable: the entries are what the process sees anyway, or what Slurm granted where nothing
 * hides the others. */
static int mask_all(struct gpu_mask *m, const struct gpu_map *map) {
    int gpu[GPU_MAX], n = devices_visible(map, m->vendor, 0, gpu), all[GPU_MAX],
                      total = devices_visible(map, m->vendor, 1, all);
    struct cpus granted = {{0}};
    int count = n == total ? granted_by_slurm(&granted) : 0;

    for (int i = 0; i < n; i++) {
        if (count > 0 && !cpus_has(&granted, i))
            continue;
        snprintf(m->name[m->entries], GPU_NAME_MAX, "%d", i);
        m->gpu[m->entries++] = gpu[i];
    }
    return m->entries;
}

/* Has a binding written it? Then it may differ from rank to rank. */
static int is_ours(const char *variable, const char *text) {
    const char *mark = getenv(GPU_MARK);
    size_t n = strlen(variable);

    return mark && strncmp(mark, variable, n) == 0 && mark[n] == '=' &&
           strcmp(mark + n + 1, text) == 0;
}

static int entry_before(const struct gpu_mask *m, int a, int b) {
    return m->gpu[a] != m->gpu[b] ? m->gpu[a] < m->gpu[b] : strcmp(m->name[a], m->name[b]) < 0;
}

static void mask_sort(struct gpu_mask *m) {
    for (int i = 1; i < m->entries; i++)
        for (int k = i; k > 0 && entry_before(m, k, k - 1); k--) {
            char name[GPU_NAME_MAX];
            int gpu = m->gpu[k];

            memcpy(name, m->name[k], sizeof name);
            m->gpu[k] = m->gpu[k - 1];
            memcpy(m->name[k], m->name[k - 1], sizeof name);
            m->gpu[k - 1] = gpu;
            memcpy(m->name[k - 1], name, sizeof name);
        }
}

int gpu_mask_read(struct gpu_mask *m, const struct gpu_map *map) {
    int vendor = gpu_vendor_here(map), named = 1, rc;
    const char *text, *order;

    memset(m, 0, sizeof *m);
    if (vendor < 0)
        return dd_error(0, map->gpus > 0 ? "this process can open none of the node's GPUs"
                                         : "there is no GPU on this node");
    m->vendor = (enum gpu_vendor)vendor;
    m->variable = variable_of(m->vendor);
    text = getenv(m->variable);
    m->set = text != NULL;
    if (!text) {
        rc = mask_all(m, map);
    } else {
        while (isspace((unsigned char)*text))
            text++;
        if (*text == '\0' || strcmp(text, "NoDevFiles") == 0 || strcmp(text, "-1") == 0)
            return dd_error(0, "%s=%s: no GPU for this process", m->variable, text);
        rc = mask_split(m, text);
        if (rc == 0)
            rc = mask_resolve(m, map, text);
        if (rc > 0 && is_ours(m->variable, text))
            mask_sort(m);
    }
    if (rc <= 0)
        return rc;
    for (int i = 0; i < m->entries; i++)
        named = named && is_name(m->name[i]);
    order = getenv("CUDA_DEVICE_ORDER");
    if (m->vendor == GPU_NVIDIA && !named && order && *order != '\0' &&
        strcmp(order, "PCI_BUS_ID") != 0)
        return dd_error(-EINVAL,
                        "CUDA_DEVICE_ORDER=%.40s: which GPU a number of %s means is not known; it "
                        "is left as it is",
                        order, m->variable);
    return rc;
}

int gpu_mask_text(const struct gpu_mask *m, const int *order, int n, char *buf, size_t cap) {
    size_t at = 0;

    buf[0] = '\0';
    for (int i = 0; i < n; i++) {
        int len = snprintf(buf + at, cap - at, "%s%s", i ? "," : "", m->name[order[i]]);

        if (len < 0 || (size_t)len >= cap - at)
            return -E2BIG;
        at += (size_t)len;
    }
    return (int)at;
}

int gpu_mask_orders(const struct gpu_mask *m) {
    return m->vendor != GPU_INTEL;
}

const char *gpu_bound_by_slurm(void) {
    /* of the user, of slurmstepd in two forms */
    static const char *const binds[] = {"SLURM_GPU_BIND", "SLURMD_TRES_BIND", "SLURM_TRES_BIND"};

    for (size_t i = 0; i < sizeof binds / sizeof *binds; i++) {
        const char *bind = getenv(binds[i]);

        if (!bind || *bind == '\0' || (i > 0 && !(bind = strstr(bind, "gpu:"))))
            continue;
        return strstr(bind, "none")       ? NULL
               : strstr(bind, "per_task") ? "--gpus-per-task"
                                          : "--gpu-bind";
    }
    return is_set("SLURM_GPUS_PER_TASK") ? "--gpus-per-task" : NULL;
}

int gpu_mask_narrowed(const struct gpu_mask *m) {
    const char *v = getenv("SLURM_GPUS_ON_NODE");
    uint64_t n;

    return m->set && v && count_parse(v, 1, 1 << 20, &n) == 0 && (uint64_t)m->entries < n;
}

int gpu_granted(void) {
    struct cpus set = {{0}};

    return granted_by_slurm(&set) > 0 || is_set("SLURM_GPUS_ON_NODE");
}
