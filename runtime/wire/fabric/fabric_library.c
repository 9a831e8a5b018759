/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_library.c - open libfabric and list what it offers. Its headers call everything but these
 * five functions through tables. */
#include "fabric_library.h"

#include <base/error.h>
#include <base/size.h>
#include <wire/conn.h>

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdlib.h>
#include <string.h>

#define ABI       FI_VERSION(1, 9)
#define ADDRESSES 8
/* bytes of a message that rxm sends at once; a larger one is read out of its sender's memory */
#define RXM_BUFFER "FI_OFI_RXM_BUFFER_SIZE"

static struct {
    void *handle;
    __typeof__(fi_getinfo) *getinfo;
    __typeof__(fi_freeinfo) *freeinfo;
    __typeof__(fi_dupinfo) *dupinfo;
    __typeof__(fi_fabric) *fabric;
    __typeof__(fi_strerror) *strerror;
} lib;

static int library_open(void) {
    if (lib.handle)
        return 0;
    /* Unless told otherwise, rxm looks after connections every 10 ms, and reports work all that
     * time. A value that the user has set stays. */
    setenv("FI_OFI_RXM_CM_PROGRESS_INTERVAL", "100", 0);
    setenv(RXM_BUFFER, "16384", 0); /* its default, so that it is known */
    void *h = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!h)
        return dd_error(-ENOSYS, "libfabric cannot be opened: %s", dlerror());
#define TAKE(name) *(void **)&lib.name = dlsym(h, "fi_" #name)
    TAKE(getinfo);
    TAKE(freeinfo);
    TAKE(dupinfo);
    TAKE(fabric);
    TAKE(strerror);
#undef TAKE
    if (!lib.getinfo || !lib.freeinfo || !lib.dupinfo || !lib.fabric || !lib.strerror) {
        dlclose(h);
        return dd_error(-ENOSYS, "libfabric.so.1 is not the library that is wanted");
    }
    lib.handle = h;
    return 0;
}

size_t fabric_message_max(const struct fi_info *info) {
    const char *rxm = getenv(RXM_BUFFER);
    uint64_t n;
    if (!strstr(info->fabric_attr->prov_name, "ofi_rxm"))
        return info->ep_attr->max_msg_size;
    return rxm && count_parse(rxm, 0, SIZE_MAX, &n) == 0 ? n : 0;
}

void fabric_info_free(struct fi_info *info) {
    lib.freeinfo(info);
}
int fabric_start(struct fi_fabric_attr *attr, struct fid_fabric **fabric) {
    return lib.fabric(attr, fabric, NULL);
}
const char *fabric_strerror(int e) {
    return lib.strerror(e < 0 ? -e : e);
}

int fabric_providers(const char *name, struct fi_info **info) {
    int e = library_open();
    if (e < 0)
        return e;
    struct fi_info *want = lib.dupinfo(NULL);
    if (!want)
        return -ENOMEM;
    want->caps = FI_MSG | FI_RMA;
    want->mode = FI_CONTEXT | FI_CONTEXT2;
    want->ep_attr->type = FI_EP_RDM;
    want->domain_attr->mr_mode =
        FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    want->domain_attr->threading = FI_THREAD_DOMAIN;
    want->domain_attr->resource_mgmt = FI_RM_ENABLED;
    if (name)
        want->fabric_attr->prov_name = strdup(name); /* freed with it */
    e = lib.getinfo(ABI, NULL, NULL, 0, want, info);
    lib.freeinfo(want);
    return e == 0 ? 0
                  : dd_error(-ENOENT, "libfabric has no provider%s%s here: %s", name ? " " : "",
                             name ? name : "", fabric_strerror(e));
}

static bool same_address(const struct fi_info *i, const struct sockaddr_storage *a) {
    const struct sockaddr *s = i->src_addr;
    if (!s || s->sa_family != a->ss_family)
        return false;
    if (i->addr_format == FI_SOCKADDR_IN)
        return ((const struct sockaddr_in *)(const void *)s)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr;
    return i->addr_format == FI_SOCKADDR_IN6 &&
           memcmp(&((const struct sockaddr_in6 *)(const void *)s)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16) == 0;
}

/* Put the endpoint with the best address first. */
static struct fi_info *best_first(struct fi_info *all, const char *node) {
    struct sockaddr_storage addr[ADDRESSES];
    int n = conn_addresses(node, addr, ADDRESSES);
    for (int a = 0; a < n; a++)
        for (struct fi_info *i = all, *before = NULL; i; before = i, i = i->next) {
            if (!same_address(i, &addr[a]))
                continue;
            if (before) {
                before->next = i->next;
                i->next = all;
            }
            return i;
        }
    return all;
}

int fabric_info(const char *name, const char *node, struct fi_info **info) {
    struct fi_info *all = NULL;
    int e = fabric_providers(name, &all);
    if (e == 0)
        *info = best_first(all, node);
    return e;
}
