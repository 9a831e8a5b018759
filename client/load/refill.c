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

/* --- all sets --- */

static int owners_read(const char *text, bool *anew) {
    uint32_t nodes = the_load.info.nodes, keyed = ddict_keyed_nodes(the_load.d);
    for (const char *at = text; *at != 0;) {
        char word[16];
        size_t n = strcspn(at, ",");
        uint64_t owner;
        snprintf(word, sizeof word, "%.*s", (int)(n < 15 ? n : 15), at);
        if (count_parse(word, 0, the_load.info.managers - 1, &owner) < 0 || owner % nodes >= keyed)
            return dd_error(-EINVAL, "--refill=%s: %s is no manager that owns keys", text, word);
        anew[owner] = true;
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

int refill_run(const char *owners) {
    uint64_t began = clock_ns();
    bool *anew = calloc(the_load.info.managers, sizeof *anew);
    size_t n;
    the_load.wanted_flags = DDICT_LOADED | DDICT_REFILL;
    the_load.workers = 1;
    int rc = !anew ? dd_error(-ENOMEM, "out of memory") : owners_read(owners, anew);
    if (rc == 0)
        rc = lost_sets_find(anew, NULL);
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
    lost_sets_free();
    free(anew);
    return rc;
}

/* --- one set, by the load of it --- */

/* A set that was loaded later claims what it lost, and is not read. */
static int later_set_claim(struct lost_set *l) {
    struct wanted *w = wanted_new();
    if (!w)
        return dd_error(-ENOMEM, "out of memory");
    items_claim(l, w);
    wanted_free(w);
    return 0;
}

static int own_set_read(const bool *anew, uint64_t *items) {
    size_t n, i = 0;
    int rc = lost_sets_find(anew, the_load.set);
    struct lost_set *sets = lost_sets(&n);
    for (; i < n && rc == 0 && strcmp(sets[i].name, the_load.set) != 0; i++)
        rc = later_set_claim(&sets[i]);
    if (rc < 0 || i == n)
        return rc;
    rc = set_refill(&sets[i]);
    *items = sets[i].items;
    if (rc < 0 || sets[i].why[0] == 0)
        return rc;
    return dd_error(-ENODATA, "the set \"%s\" lost items with a node: %s; %s", sets[i].name,
                    sets[i].why,
                    sets[i].is_final ? "--replace loads it anew"
                                     : "the same command tries it again, --replace loads it anew");
}

int own_set_refill(uint64_t *items) {
    /* set_refill() changes these, and the load needs them afterwards */
    const struct load_options *o = the_load.o;
    struct origin *origins = the_load.origins;
    struct figures figures = the_load.figures;
    uint64_t units = the_load.units;
    bool continued = the_load.continued;
    bool *anew = calloc(the_load.info.managers, sizeof *anew);
    *items = 0;
    the_load.wanted_flags = DDICT_LOADED;
    the_load.continued = false;
    int rc = !anew ? dd_error(-ENOMEM, "out of memory") : losses_find(anew);
    if (rc > 0)
        rc = own_set_read(anew, items);
    the_load.o = o;
    the_load.origins = origins;
    the_load.figures = figures;
    the_load.units = units;
    the_load.continued = continued;
    if (rc != LOAD_HANGS) {
        lost_sets_free();
        free(anew);
    }
    return rc < 0 ? rc : 0;
}
