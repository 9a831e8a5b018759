/* SPDX-License-Identifier: Apache-2.0 */
/* persist_ids.c - read the names in a folder of states. */
#include "persist_ids.h"

#include "error.h"
#include "size.h"
#include "vec.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder that has its name is whole; saves under way, and what dead ones left, have others. */
static bool id_take(const char *dir, const char *name, uint64_t *id) {
    char path[4352], again[24];
    if (count_parse(name, 0, INT64_MAX, id) < 0)
        return false;
    snprintf(again, sizeof again, "%" PRIu64, *id);
    snprintf(path, sizeof path, "%s/%s/manifest.json", dir, name);
    return strcmp(again, name) == 0 && access(path, F_OK) == 0;
}

int persist_ids_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

ssize_t persist_ids_read(const char *dir, uint64_t **out) {
    uint64_t *ids = NULL;
    size_t n = 0, cap = 0;
    DIR *folder = opendir(dir);
    if (!folder && errno != ENOENT)
        return dd_error(-errno, "cannot read %s: %s", dir, strerror(errno));
    int rc = VEC_ROOM(&ids, &cap, 1, 16);
    for (struct dirent *e; rc == 0 && folder && (e = readdir(folder));)
        if (id_take(dir, e->d_name, &ids[n]))
            rc = VEC_ROOM(&ids, &cap, ++n + 1, 16);
    if (folder)
        closedir(folder);
    if (rc < 0) {
        free(ids);
        return dd_error(-ENOMEM, "out of memory");
    }
    qsort(ids, n, sizeof *ids, persist_ids_compare);
    *out = ids;
    return (ssize_t)n;
}
