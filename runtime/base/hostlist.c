/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.c - expand Slurm's lists of node names. */
#include "hostlist.h"

#include "vec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ROOM 256

static int name_add(struct hostlist *list, const char *name) {
    if (*name == '\0')
        return -EINVAL;
    if (list->count == HOSTLIST_MAX)
        return -E2BIG;
    if (VEC_ROOM(&list->names, &list->room, list->count + 1, 16) < 0)
        return -ENOMEM;
    list->names[list->count] = strdup(name);
    return !list->names[list->count++] ? -ENOMEM : 0;
}

/* head is what is settled of the name, text the rest of it up to end; each bracket multiplies. */
static int part_expand(struct hostlist *list, const char *head, const char *text, const char *end) {
    const char *open = memchr(text, '[', (size_t)(end - text)), *close, *s;
    char name[NAME_ROOM];
    int rc = 0;

    if (!open) {
        if ((size_t)snprintf(name, sizeof name, "%s%.*s", head, (int)(end - text), text) >=
            sizeof name)
            return -EINVAL;
        return name_add(list, name);
    }
    close = memchr(open, ']', (size_t)(end - open));
    if (!close)
        return -EINVAL;
    for (s = open + 1; rc == 0;) {
        char *stop;
        unsigned long lo, hi, i;
        int width;

        if (*s < '0' || *s > '9')
            return -EINVAL;
        lo = hi = strtoul(s, &stop, 10);
        width = (int)(stop - s);
        if (*stop == '-') {
            if (stop[1] < '0' || stop[1] > '9')
                return -EINVAL;
            hi = strtoul(stop + 1, &stop, 10);
        }
        if (stop > close || (*stop != ',' && *stop != ']') || width > 18 || hi < lo ||
            hi - lo >= HOSTLIST_MAX)
            return -EINVAL;
        for (i = lo; i <= hi && rc == 0; i++) {
            if ((size_t)snprintf(name, sizeof name, "%s%.*s%0*lu", head, (int)(open - text), text,
                                 width, i) >= sizeof name)
                return -EINVAL;
            rc = part_expand(list, name, close + 1, end);
        }
        if (*stop == ']')
            break;
        s = stop + 1;
    }
    return rc;
}

int hostlist_add(struct hostlist *list, const char *text) {
    while (*text != '\0') {
        const char *end = text;
        int depth = 0, rc;

        for (; *end != '\0' && (depth > 0 || *end != ','); end++)
            depth += *end == '[' ? 1 : *end == ']' ? -1 : 0;
        rc = depth != 0 ? -EINVAL : part_expand(list, "", text, end);
        if (rc < 0)
            return rc;
        text = *end == ',' ? end + 1 : end;
    }
    return 0;
}

long hostlist_find(const struct hostlist *list, const char *name) {
    size_t i;

    for (i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0)
            return (long)i;
    return -1;
}

void hostlist_free(struct hostlist *list) {
    size_t i;

    for (i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    memset(list, 0, sizeof *list);
}
