/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_find.c - which provider to use: the first of a name, or of an HPC network, whose endpoint
 * can be opened here. */
#include "fabric_find.h"

#include "fabric.h"
#include "fabric_library.h"
#include <base/error.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* "tcp" names both "tcp" and "tcp;ofi_rxm", which is tcp behind a layer that adds such
 * endpoints. */
static bool is_called(const char *name, const char *wanted) {
    size_t n = strlen(wanted);
    return strncmp(name, wanted, n) == 0 && (name[n] == 0 || name[n] == ';');
}

static bool seen_before(const struct fi_info *all, const struct fi_info *i) {
    for (; all != i; all = all->next)
        if (strcmp(all->fabric_attr->prov_name, i->fabric_attr->prov_name) == 0)
            return true;
    return false;
}

/* The first provider of that name whose endpoint can be opened. 0; -ENOENT: none has the name; or
 * why the last one failed. */
static int try_all(const struct fi_info *all, const char *wanted, const char *node,
                   char name[FABRIC_NAME_MAX]) {
    int e = -ENOENT;
    for (const struct fi_info *i = all; i; i = i->next) {
        const char *called = i->fabric_attr->prov_name;
        struct fabric *f;
        if (!is_called(called, wanted) || seen_before(all, i) || strlen(called) >= FABRIC_NAME_MAX)
            continue;
        e = fabric_open(&f, -1, called, node);
        if (e < 0)
            continue;
        fabric_close(f);
        strcpy(name, called);
        return 0;
    }
    return e;
}

static int none_such(const struct fi_info *all, const char *wanted) {
    char there[256] = "";
    for (const struct fi_info *i = all; i; i = i->next)
        if (!seen_before(all, i) &&
            strlen(there) + strlen(i->fabric_attr->prov_name) + 3 < sizeof there)
            sprintf(there + strlen(there), "%s%s", there[0] ? ", " : "", i->fabric_attr->prov_name);
    return wanted[0] ? dd_error(-ENOENT, "libfabric has no provider %s here; there are: %s", wanted,
                                there[0] ? there : "none")
                     : dd_error(-ENOENT,
                                "libfabric has no provider of an HPC network here; there are: %s",
                                there[0] ? there : "none");
}

int fabric_find(const char *wanted, const char *node, char name[FABRIC_NAME_MAX]) {
    /* in order of preference */
    static const char *const fast[] = {"cxi", "efa", "opx", "psm3", "psm2", "verbs"};
    struct fi_info *all = NULL;
    int e = fabric_providers(NULL, &all);
    if (e < 0)
        return e;
    if (wanted[0]) {
        e = try_all(all, wanted, node, name);
    } else {
        e = -ENOENT;
        for (unsigned i = 0; e != 0 && i < sizeof fast / sizeof *fast; i++) {
            int r = try_all(all, fast[i], node, name);
            if (r != -ENOENT)
                e = r;
        }
    }
    if (e == -ENOENT)
        e = none_such(all, wanted);
    fabric_info_free(all);
    return e;
}

static bool has_entries(const char *folder) {
    DIR *d = opendir(folder);
    bool any = false;
    for (struct dirent *e; d && (e = readdir(d));)
        any |= e->d_name[0] != '.';
    if (d)
        closedir(d);
    return any;
}

bool fabric_devices(void) {
    return has_entries("/sys/class/infiniband") || has_entries("/sys/class/cxi");
}
