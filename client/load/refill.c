/* SPDX-License-Identifier: Apache-2.0 */
/* refill.c - read lost items of loaded sets again, refill.h */
#include "refill.h"

#include "complain.h"
#include "load.h"
#include "losses.h"
#include "lost_items.h"
#include "lost_set.h"
#include "names.h"
#include "ownership.h"
#include "plan.h"
#include "set.h"
#include "set_key.h"
#include "set_name.h"
#include "signals.h"
#include "state.h"
#include "text_json.h"
#include "wanted.h"
#include "worker.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/size.h>

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define TICK_MS 50

static struct refill {
    bool *anew;                       /* [managers] */
    const struct load_options *asked; /* the command line's */
} refill;

static int no_memory(void) {
    return dd_error(-ENOMEM, "out of memory");
}

/* --- reading a set --- */

/* As the load had them. free() sources and origins. */
static int options_make(const struct lost_set *l, struct load_options *o) {
    const json_t *sources = json_object_get(l->head, "sources");
    size_t n = json_array_size(sources);
    *o = (struct load_options){
        .name = refill.asked->name,
        .prefix = json_string_value(json_object_get(l->head, "prefix")),
        .set = l->name,
        .as = json_string_value(json_object_get(l->head, "kind")),
        .skip = true, /* the others count */
        .json = true,
        .report = true,
        .quiet = true,
        .anon = json_is_true(json_object_get(json_object_get(l->head, "refill"), "anon")),
        .threads = refill.asked->threads,
        .nsources = (unsigned)n};
    o->sources = calloc(n + 1, sizeof *o->sources);
    the_load.origins = calloc(n + 1, sizeof *the_load.origins);
    if (!o->sources || !the_load.origins)
        return no_memory();
    for (size_t i = 0; i < n; i++)
        if (!(o->sources[i] = json_string_value(json_array_get(sources, i))))
            return dd_error(-EBADMSG, "its description cannot be read");
    return n > 0 && o->prefix && o->as ? 0 : dd_error(-EBADMSG, "its description cannot be read");
}

static bool is_folder(void) {
    return strcmp(the_load.origins[0].kind->name, "dir") == 0;
}

/* All sources are as they were. Of folders each file is looked at when it is read: others may come. */
static int sources_check(const struct lost_set *l) {
    const char *id = json_string_value(json_object_get(l->head, "load"));
    int rc = sources_look();
    if (rc < 0 || is_folder())
        return rc;
    rc = load_id_make();
    if (rc == 0 && (!id || strcmp(id, the_load.id) != 0))
        rc = dd_error(-ESTALE, "%s%s has changed since it was loaded", the_load.o->sources[0],
                      the_load.o->nsources > 1 ? ", or another source," : "");
    return rc;
}

static int folders_check(const struct lost_set *l, const struct load_plan *p) {
    if (!is_folder() || (json_int_t)p->tops == refill_int(l, "tops"))
        return 0;
    return dd_error(-ESTALE, "%s%s is another folder than when it was loaded",
                    the_load.o->sources[0], the_load.o->nsources > 1 ? ", or another source," : "");
}

/* False: a thread hangs. */
static bool units_read(void) {
    struct load *l = &the_load;
    l->claimed = 0;
    l->ended = 0;
    memset(&l->figures, 0, sizeof l->figures);
    worker_start();
    /* Acquire pairs with the release at the end of thread_run() (worker.c). */
    while (__atomic_load_n(&l->ended, __ATOMIC_ACQUIRE) < l->nthreads && !load_stopped())
        if (signals_wait(TICK_MS) != 0)
            load_fail(-EINTR, "ended by a signal");
    return worker_join();
}

/* A copy of its target, unless that cannot be had: then it is one of the missing. *wait_ms: for the
 * target, which another node may read again now; only one is waited for long. */
static int link_restore(struct wanted *w, const uint8_t *key, size_t klen, const uint8_t *target,
                        size_t tlen, int *wait_ms) {
    struct ddict_view v;
    if (!wanted_has(w, key, klen) || wanted_is_marked(w, key, klen) ||
        (wanted_has(w, target, tlen) && !wanted_is_marked(w, target, tlen)))
        return 0;
    int rc = ddict_view(the_load.d, target, tlen, &v, 0, *wait_ms);
    if (rc == -ETIMEDOUT)
        *wait_ms = TICK_MS;
    if (rc < 0)
        return 0;
    rc = wanted_fits(w, key, klen, v.len)
             ? ddict_put(the_load.d, key, klen, v.data, v.len,
                         DDICT_TAG(v.tag) | the_load.wanted_flags | DDICT_NEW, -1)
             : -ESTALE;
    ddict_release(&v);
    if (rc == 0 || rc == DDICT_EEXISTS)
        wanted_mark(w, key, klen, rc == 0);
    return rc == DDICT_EGONE || rc == DDICT_EFULL ? load_error(rc) : 0;
}

static int links_restore(void) {
    struct wanted *w = the_load.wanted;
    const struct pack *links = wanted_links(w);
    struct unpack u = {.at = links->data, .left = links->len};
    int rc = 0, wait_ms = LISTED_WAIT_MS;
    while (rc == 0 && u.left > 0 && !u.bad) {
        size_t klen, tlen;
        const char *key = unpack_text(&u, &klen), *target = unpack_text(&u, &tlen);
        if (!u.bad)
            rc = link_restore(w, (const uint8_t *)key, klen, (const uint8_t *)target, tlen,
                              &wait_ms);
    }
    return rc;
}

/* Read all units. 0 or negative, also LOAD_HANGS. */
static int plan_read(void) {
    char why[LOAD_ERROR_MAX];
    if (!units_read())
        return dd_error(LOAD_HANGS, "a read of a source hangs");
    int rc = load_why(why, sizeof why);
    return rc < 0 ? dd_error(rc, "%s", why) : 0;
}

/* Read the wanted records of the set of the_load.o. 0 or negative, also LOAD_HANGS. */
static int set_read(const struct lost_set *l) {
    static struct load_plan plan; /* a thread that hangs may still use it */
    memset(&plan, 0, sizeof plan);
    int rc = sources_check(l);
    rc = rc == 0 ? load_plan_make(&plan) : rc;
    rc = rc == 0 ? folders_check(l, &plan) : rc;
    if (rc == 0) {
        the_load.plan = &plan;
        the_load.units = plan.units;
        the_load.newest = refill_int(l, "newest");
        the_load.moved = (json_int_t)plan.folders != refill_int(l, "folders");
        rc = plan_read();
        if (rc == LOAD_HANGS)
            return rc;
        the_load.plan = NULL;
        rc = rc == 0 ? links_restore() : rc;
    }
    load_plan_free(&plan);
    if (the_load.wanted_flags & DDICT_REFILL) /* other sets come */
        error_clear();
    return rc;
}

/* What could not be read: the first reason is that of the set. */
static void outcome_note(struct lost_set *l, const struct wanted *w, int rc) {
    const struct pack *failures = wanted_failures(w);
    struct unpack u = {.at = failures->data, .left = failures->len};
    char text[LOAD_ERROR_MAX];
    uint64_t missing;
    size_t n;
    l->lost = wanted_count(w);
    l->items = wanted_sum(w, &l->bytes, &missing);
    if (missing == 0)
        return;
    const char *first = unpack_text(&u, &n);
    if (rc < 0)
        snprintf(text, sizeof text, "%s", dd_errmsg());
    else
        snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " items could not be read%s%.*s",
                 missing, l->lost, n > 0 ? ": " : "", (int)(n < 700 ? n : 700), first);
    lost_set_failed(l, text);
}

/* A failure is the set's: 0, -ENOMEM, or LOAD_HANGS, which ends all. */
static int set_refill(struct lost_set *l) {
    static struct load_options o; /* a thread that hangs may still use it */
    struct wanted *w = wanted_new();
    if (!w)
        return no_memory();
    int rc = items_claim(l, w);
    if (rc == 1) {
        rc = options_make(l, &o);
        the_load.o = &o;
        the_load.wanted = w;
        if (rc == 0)
            rc = set_read(l);
        if (rc == LOAD_HANGS)
            return rc;
        the_load.wanted = NULL;
        outcome_note(l, w, rc);
        if (rc < 0)
            lost_set_failed(l, dd_errmsg());
        the_load.o = refill.asked;
        free(the_load.origins);
        the_load.origins = NULL;
        free(o.sources);
    }
    wanted_free(w);
    return 0;
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
