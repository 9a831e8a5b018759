/* SPDX-License-Identifier: Apache-2.0 */
/* refill.c - read lost items of loaded sets again, refill.h */
#include "refill.h"

#include "complain.h"
#include "load.h"
#include "losses.h"
#include "lost_items.h"
#include "lost_set.h"
#include "set_refill.h"
#include "state.h"
#include "text_json.h"
#include "wanted.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/size.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct refill {
    bool *anew;                       /* [managers] */
    const struct load_options *asked; /* the command line's */
} refill;

static int no_memory(void) {
    return dd_error(-ENOMEM, "out of memory");
}

/* --- all sets --- */

static int owners_read(const char *text) {
    uint32_t nodes = the_load.info.nodes, keyed = ddict_keyed_nodes(the_load.d);
    refill.anew = calloc(the_load.info.managers, sizeof *refill.anew);
    if (!refill.anew)
        return no_memory();
    for (const char *at = text; *at != 0;) {
        char word[16];
        size_t n = strcspn(at, ",");
        uint64_t owner;
        snprintf(word, sizeof word, "%.*s", (int)(n < 15 ? n : 15), at);
        if (count_parse(word, 0, the_load.info.managers - 1, &owner) < 0 || owner % nodes >= keyed)
            return dd_error(-EINVAL, "--refill=%s: %s is no manager that owns keys", text, word);
        refill.anew[owner] = true;
        at += n + (at[n] == ',');
    }
    return *text != 0 ? 0 : dd_error(-EINVAL, "--refill: no manager");
}

/* The exit code. */
static int sets_print(double seconds) {
    uint64_t items = 0, bytes = 0;
    json_t *sets = json_array();
    bool bad = !sets, failed = false;
    size_t n;
    const struct lost_set *l = lost_sets(&n);
    for (; n > 0 && !bad; n--, l++) {
        json_t *o = json_pack("{s:o,s:I,s:I,s:I}", "set", text_json(l->name, strlen(l->name)),
                              "items", (json_int_t)l->items, "bytes", (json_int_t)l->bytes, "lost",
                              (json_int_t)l->lost);
        if (l->why[0] != 0)
            json_object_set_new(o, "error", text_json(l->why, strlen(l->why)));
        if (l->is_final)
            json_object_set_new(o, "final", json_true());
        failed |= l->why[0] != 0;
        items += l->items;
        bytes += l->bytes;
        bad = json_array_append_new(sets, o) < 0;
    }
    json_t *all = json_pack("{s:o,s:I,s:I,s:f}", "sets", sets, "items", (json_int_t)items, "bytes",
                            (json_int_t)bytes, "seconds", seconds);
    char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    bad |= !text || puts(text) == EOF || fflush(stdout) != 0;
    free(text);
    json_decref(all);
    return bad || failed;
}

static void refill_free(void) {
    lost_sets_free();
    free(refill.anew);
    memset(&refill, 0, sizeof refill);
}

int refill_run(const char *owners) {
    uint64_t began = clock_ns();
    refill.asked = the_load.o;
    the_load.wanted_flags = DDICT_LOADED | DDICT_REFILL;
    the_load.workers = 1;
    size_t n;
    int rc = owners_read(owners);
    if (rc == 0)
        rc = lost_sets_find(refill.anew, NULL);
    struct lost_set *sets = lost_sets(&n);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = set_refill(&sets[i]);
    if (rc < 0 && rc != LOAD_HANGS) {
        load_complain(dd_errmsg(), rc);
        rc = 1;
    } else {
        rc = sets_print((double)(clock_ns() - began) / 1e9) | (rc != 0);
    }
    if (the_load.nthreads > 0) /* it hangs in a file system: only the end of the process stops it */
        _exit(1);
    refill_free();
    return rc;
}

/* --- one set, by the load of it --- */

static int owners_find(void) {
    refill.anew = calloc(the_load.info.managers, sizeof *refill.anew);
    return !refill.anew ? no_memory() : losses_find(refill.anew);
}

/* Sets that were loaded later are only looked at. */
static int own_set_read(uint64_t *items) {
    size_t n;
    int rc = lost_sets_find(refill.anew, the_load.set);
    struct lost_set *sets = lost_sets(&n);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct lost_set *l = &sets[i];
        if (strcmp(l->name, the_load.set) == 0) {
            rc = set_refill(l);
            *items = l->items;
            return rc == 0 && l->why[0] != 0
                       ? dd_error(-ENODATA, "the set \"%s\" lost items with a node: %s; %s",
                                  l->name, l->why,
                                  l->is_final
                                      ? "--replace loads it anew"
                                      : "the same command tries it again, --replace loads it anew")
                       : rc;
        }
        struct wanted *w = wanted_new();
        rc = !w ? no_memory() : 0;
        if (w)
            items_claim(l, w);
        wanted_free(w);
    }
    return rc;
}

int own_set_refill(uint64_t *items) {
    struct origin *origins = the_load.origins;
    struct figures figures = the_load.figures;
    uint64_t units = the_load.units;
    bool continued = the_load.continued;
    *items = 0;
    refill.asked = the_load.o;
    the_load.wanted_flags = DDICT_LOADED;
    the_load.continued = false;
    int rc = owners_find();
    if (rc > 0)
        rc = own_set_read(items);
    the_load.o = refill.asked;
    the_load.origins = origins;
    the_load.figures = figures;
    the_load.units = units;
    the_load.continued = continued;
    if (rc != LOAD_HANGS)
        refill_free();
    return rc < 0 ? rc : 0;
}
