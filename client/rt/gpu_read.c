/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_read.c - the GPUs of this node: asked of ddictd, else read by the module
 * ddict-topology.so. */
#include "gpu_module.h"
#include <base/error.h>
#include <place/gpu_blob.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE "ddict-topology.so"

/* The folder of the library (or program) that contains this code. */
static size_t own_folder(char *buf, size_t cap) {
    Dl_info me;
    const char *end;

    if (dladdr(MODULE, &me) == 0 || !me.dli_fname || !(end = strrchr(me.dli_fname, '/')) ||
        (size_t)(end - me.dli_fname) >= cap)
        return 0;
    memcpy(buf, me.dli_fname, (size_t)(end - me.dli_fname));
    return (size_t)(end - me.dli_fname);
}

static void *module_open(void) {
    /* in the build folder; installed */
    static const char *const below[] = {"/" MODULE, "/slurm-ddict/" MODULE};
    const char *name = getenv("DDICT_TOPOLOGY");
    char path[PATH_MAX];
    size_t len = own_folder(path, sizeof path - 64);

    if (name && *name != '\0')
        return dlopen(name, RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; len > 0 && i < 2; i++) {
        strcpy(path + len, below[i]);
        if (access(path, F_OK) == 0)
            return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return dlopen(DDICT_PKGLIBDIR "/" MODULE, RTLD_NOW | RTLD_LOCAL);
}

static int module_ask(struct gpu_map *m) {
    void *module = module_open(), *at;
    gpu_module_read *read_map;
    char text[DD_ERRMSG_MAX] = "";
    int rc;

    if (!module)
        return dd_error(-ENOENT, "cannot look for GPUs: %s", dlerror());
    at = dlsym(module, GPU_MODULE_READ);
    memcpy(&read_map, &at, sizeof at);
    rc = !at ? dd_error(-ENOENT, "cannot look for GPUs: %s is of another version", MODULE)
             : read_map(m, sizeof *m, text, sizeof text);
    if (rc < 0 && text[0] != '\0')
        dd_error(rc, "cannot look for GPUs: %s", text);
    /* The module stays open: some plugins of hwloc fail when it is closed, and it costs nothing. */
    return rc;
}

int gpu_map_read(struct gpu_map *m) {
    int rc = gpu_map_ask(m);

    if (rc < 0)
        rc = module_ask(m);
    if (rc == 0)
        gpu_map_probe(m, "");
    return rc;
}
