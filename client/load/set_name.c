/* SPDX-License-Identifier: Apache-2.0 */
/* set_name.c - kinds of the sources and the name of their set, set_name.h */
#include "set_name.h"

#include "load.h"
#include <base/error.h>

#include <load/format/sources.h>
#include <stdio.h>
#include <string.h>

/* "/data/train.tar.gz" -> "train" */
static void set_name(char *name, size_t cap, const char *source, bool folder) {
    static const char *const pressed[] = {".gz", ".zst", ".bz2", ".xz"};
    const char *slash = strrchr(source, '/');
    snprintf(name, cap, "%s", slash && slash[1] != 0 ? slash + 1 : source);
    size_t n = strlen(name);
    for (unsigned i = 0; i < 4 && !folder; i++)
        if (n > strlen(pressed[i]) && strcmp(name + n - strlen(pressed[i]), pressed[i]) == 0) {
            name[n - strlen(pressed[i])] = 0;
            break;
        }
    char *dot = strrchr(name, '.');
    if (dot && dot != name && !folder)
        *dot = 0;
}

/* Choose the set's name; the kinds of the sources are known. */
static int set_choose(void) {
    struct load *l = &the_load;
    if (l->o->set)
        snprintf(l->set, sizeof l->set, "%s", l->o->set);
    else if (*l->o->prefix != 0)
        snprintf(l->set, sizeof l->set, "%s", l->o->prefix);
    else
        set_name(l->set, sizeof l->set, l->o->sources[0],
                 strcmp(l->origins[0].kind->name, "dir") == 0);
    size_t n = strlen(l->set);
    while (!l->o->set && n > 1 && (l->set[n - 1] == '/' || l->set[n - 1] == '.'))
        l->set[--n] = 0;
    if (n == 0 || n > SET_NAME_MAX)
        return dd_error(-EINVAL, "--set=%s: want a name of 1 to %d bytes", l->set, SET_NAME_MAX);
    if (!text_is_utf8((const uint8_t *)l->set, n))
        return dd_error(-EINVAL, "--set=%s: a name is UTF-8%s", l->set,
                        !l->o->set
                            ? "; this one is of the prefix or the source, --set=NAME gives another"
                            : "");
    return 0;
}

static int kinds_find(void) {
    struct load *l = &the_load;
    for (unsigned i = 0; i < l->o->nsources; i++) {
        l->origins[i].text = l->o->sources[i];
        l->origins[i].kind = source_find(l->o->sources[i], l->o->as);
        if (!l->origins[i].kind)
            return -EINVAL;
        if (l->origins[i].kind != l->origins[0].kind)
            return dd_error(-EINVAL,
                            "%s is of kind %s, and %s of kind %s: sources of one set are of one "
                            "kind; load them one after the other",
                            l->o->sources[0], l->origins[0].kind->name, l->o->sources[i],
                            l->origins[i].kind->name);
    }
    return 0;
}

int sources_look(void) {
    int rc = kinds_find();
    return rc < 0 ? rc : set_choose();
}
