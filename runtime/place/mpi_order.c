/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_order.c - ask the MPI library that is loaded; the two calls may be made before MPI_Init(). */
#include "mpi_order.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define VERSION_MAX 8192 /* MPICH's MPI_MAX_LIBRARY_VERSION_STRING; Open MPI's is 256 */

static int mpi_is(struct dl_phdr_info *info, size_t size, void *path) {
    const char *base = strrchr(info->dlpi_name, '/');

    (void)size;
    if (strncmp(base ? base + 1 : info->dlpi_name, "libmpi.so", 9) != 0)
        return 0;
    *(const char **)path = info->dlpi_name;
    return 1;
}

int mpi_will_fail(void) {
    int (*get_version)(char *, int *), (*initialized)(int *), len = 0, is = 0, major = 0;
    char version[VERSION_MAX + 1] = "";
    const char *path = NULL;
    void *lib, *at;

    if (!dl_iterate_phdr(mpi_is, &path))
        return 0;
    lib = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (!lib)
        return 0;
    at = dlsym(lib, "MPI_Get_library_version");
    memcpy(&get_version, &at, sizeof at);
    at = dlsym(lib, "MPI_Initialized");
    memcpy(&initialized, &at, sizeof at);
    if (get_version && initialized && get_version(version, &len) == 0 && initialized(&is) == 0)
        (void)sscanf(version, "Open MPI v%d", &major);
    dlclose(lib);
    return major >= 5 && !is;
}
