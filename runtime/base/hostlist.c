/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.c - expand Slurm's lists of node names. */
#include "hostlist.h"

#include "vec.h"

#include <errno.h>
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

/* Write i with zeros in front, at least `width` digits, and its end; the length, or -EINVAL: no room. */
static int number_write(char *to, size_t room, size_t width, unsigned long i) {
    char digit[24]; /* the last one first */
    size_t n = 0, k;

    for (; i > 0 || n < width; i /= 10)
        digit[n++] = (char)('0' + i % 10);
    if (n >= room)
        return -EINVAL;
    for (k = 0; k < n; k++)
        to[k] = digit[n - 1 - k];
    to[n] = '\0';
    return (int)n;
}

/* The first n bytes of name are settled; text is the rest of it, up to end. Each bracket multiplies. */
static int part_expand(struct hostlist *list, char name[NAME_ROOM], size_t n, const char *text,
                       const char *end) {
    const char *open = memchr(text, '[', (size_t)(end - text)), *close, *s;
    size_t plain = (size_t)((open ? open : end) - text);
    int rc = 0;

    if (plain >= NAME_ROOM - n)
        return -EINVAL;
    memcpy(name + n, text, plain);
    name[n += plain] = '\0';
    if (!open)
        return name_add(list, name);
    close = memchr(open, ']', (size_t)(end - open));
    if (!close)
        return -EINVAL;
    for (s = open + 1; rc == 0;) {
        char *stop;
        unsigned long lo, hi, i;
        size_t width;

        if (*s < '0' || *s > '9')
            return -EINVAL;
        lo = hi = strtoul(s, &stop, 10);
        width = (size_t)(stop - s);
        if (*stop == '-') {
            if (stop[1] < '0' || stop[1] > '9')
                return -EINVAL;
            hi = strtoul(stop + 1, &stop, 10);
        }
        if (stop > close || (*stop != ',' && *stop != ']') || width > 18 || hi < lo ||
            hi - lo >= HOSTLIST_MAX)
            return -EINVAL;
        for (i = lo; i <= hi && rc == 0; i++) {
            int digits = number_write(name + n, NAME_ROOM - n, width, i);

            rc = digits < 0 ? digits : part_expand(list, name, n + (size_t)digits, close + 1, end);
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
        char name[NAME_ROOM];
        int depth = 0, rc;

        for (; *end != '\0' && (depth > 0 || *end != ','); end++)
            depth += *end == '[' ? 1 : *end == ']' ? -1 : 0;
        rc = depth != 0 ? -EINVAL : part_expand(list, name, 0, text, end);
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
