/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pmix_lib.c - open the PMIx library. By its bare name first: if MPI has already loaded one, from
 * any folder, that one is used. Never closed: the library has a thread of its own.
 */
#include "pmix_lib.h"

#include <base/error.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pmix_calls opened;
static int is_open;

static int call_find(void *lib, const char *name, void *call) {
    void *at = dlsym(lib, name);

    if (!at)
        return dd_error(-EIO, "PMIx: the library has no %s: want version 3 or later", name);
    memcpy(call, &at, sizeof at);
    return 0;
}

static int calls_find(void *lib, struct pmix_calls *c) {
    int rc = call_find(lib, "PMIx_Init", &c->init);

    rc = rc < 0 ? rc : call_find(lib, "PMIx_Finalize", &c->finalize);
    rc = rc < 0 ? rc : call_find(lib, "PMIx_Put", &c->put);
    rc = rc < 0 ? rc : call_find(lib, "PMIx_Commit", &c->commit);
    rc = rc < 0 ? rc : call_find(lib, "PMIx_Fence_nb", &c->fence_nb);
    rc = rc < 0 ? rc : call_find(lib, "PMIx_Get_nb", &c->get_nb);
    rc = rc < 0 ? rc : call_find(lib, "PMIx_Resolve_nodes", &c->resolve_nodes);
    return rc < 0 ? rc : call_find(lib, "PMIx_Error_string", &c->error_string);
}

static int lib_open(void) {
    const char *name = getenv("DDICT_PMIX");
    struct pmix_calls c;
    void *lib;
    int rc;

    if (name && strcmp(name, "no") == 0)
        return -ENOENT;
    if (name && *name != '\0') {
        lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!lib)
            return dd_error(-EIO, "DDICT_PMIX=%s: %s", name, dlerror());
    } else {
        lib = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
        if (!lib)
            lib = dlopen(DDICT_PMIX_LIBDIR "/libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
        if (!lib)
            return -ENOENT;
    }
    rc = calls_find(lib, &c);
    if (rc < 0) {
        dlclose(lib);
        return rc;
    }
    opened = c;
    is_open = 1;
    return 0;
}

int pmix_lib_open(const struct pmix_calls **calls) {
    int rc = 0;

    pthread_mutex_lock(&lock);
    if (!is_open)
        rc = lib_open();
    pthread_mutex_unlock(&lock);
    *calls = rc < 0 ? NULL : &opened;
    return rc;
}
