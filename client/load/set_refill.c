/* SPDX-License-Identifier: Apache-2.0 */
/* set_refill.c - read the lost items of one set again, set_refill.h */
#include "set_refill.h"

#include "lost_items.h"
#include "ownership.h"
#include "plan.h"
#include "set_name.h"
#include "signals.h"
#include "state.h"
#include "wanted.h"
#include "worker.h"
#include <base/error.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 50

/* Options as the load had them, and the_load.origins. free() both sources and origins. */
static int options_make(const struct lost_set *l, struct load_options *o) {
    const json_t *sources = json_object_get(l->head, "sources");
    size_t n = json_array_size(sources);
    *o = (struct load_options){
        .name = the_load.o->name,
        .prefix = json_string_value(json_object_get(l->head, "prefix")),
        .set = l->name,
        .as = json_string_value(json_object_get(l->head, "kind")),
        .skip = true, /* the others count */
        .json = true,
        .report = true,
        .quiet = true,
        .anon = json_is_true(json_object_get(json_object_get(l->head, "refill"), "anon")),
        .threads = the_load.o->threads,
        .nsources = (unsigned)n};
    o->sources = calloc(n + 1, sizeof *o->sources);
    the_load.origins = calloc(n + 1, sizeof *the_load.origins);
    if (!o->sources || !the_load.origins)
        return dd_error(-ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        if (!(o->sources[i] = json_string_value(json_array_get(sources, i))))
            return dd_error(-EBADMSG, "its description cannot be read");
    return n > 0 && o->prefix && o->as ? 0 : dd_error(-EBADMSG, "its description cannot be read");
}

static bool is_folder(void) {
    return strcmp(the_load.origins[0].kind->name, "dir") == 0;
}

/* Check that all sources are as they were. Those of folders may come and go: each file is looked at
 * when it is read. */
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

/* Of folders. */
static int tops_check(const struct lost_set *l, const struct load_plan *p) {
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

/* Read the wanted items of the set of the_load.o. 0 or negative, also LOAD_HANGS. */
static int set_read(const struct lost_set *l) {
    static struct load_plan plan; /* a thread that hangs may still use it */
    memset(&plan, 0, sizeof plan);
    int rc = sources_check(l);
    rc = rc == 0 ? load_plan_make(&plan) : rc;
    rc = rc == 0 ? tops_check(l, &plan) : rc;
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

static int claimed_read(struct lost_set *l, struct wanted *w) {
    static struct load_options o; /* a thread that hangs may still use it */
    const struct load_options *asked = the_load.o;
    int rc = options_make(l, &o);
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
    the_load.o = asked;
    free(the_load.origins);
    the_load.origins = NULL;
    free(o.sources);
    return 0;
}

int set_refill(struct lost_set *l) {
    struct wanted *w = wanted_new();
    if (!w)
        return dd_error(-ENOMEM, "out of memory");
    int rc = items_claim(l, w) == 1 ? claimed_read(l, w) : 0;
    if (rc != LOAD_HANGS)
        wanted_free(w);
    return rc;
}
