/* SPDX-License-Identifier: Apache-2.0 */
/* ownership.c - the identity and the owner of a load: of several processes that start the same load
 * one does it, and of several loads with one name one makes the set. */
#include "ownership.h"

#include "format/sources.h"
#include "load.h"
#include "state.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/verb.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

int load_id_make(void) {
    XXH3_state_t *h = XXH3_createState();
    char stamp[256];
    int rc = !h ? dd_error(-ENOMEM, "out of memory") : 0;
    if (rc == 0) {
        XXH3_128bits_reset(h);
        XXH3_128bits_update(h, the_load.o->prefix, strlen(the_load.o->prefix) + 1);
        XXH3_128bits_update(h, the_load.set, strlen(the_load.set) + 1);
    }
    for (unsigned i = 0; i < the_load.o->nsources && rc == 0; i++) {
        const struct origin *o = &the_load.origins[i];
        rc = source_stamp(o->kind, o->text, stamp, sizeof stamp);
        if (rc == 0) {
            XXH3_128bits_update(h, o->kind->name, strlen(o->kind->name) + 1);
            XXH3_128bits_update(h, o->text, strlen(o->text) + 1);
            XXH3_128bits_update(h, stamp, strlen(stamp) + 1);
        }
    }
    if (rc == 0) {
        XXH128_hash_t hash = XXH3_128bits_digest(h);
        snprintf(the_load.id, sizeof the_load.id, "%016" PRIx64 "%016" PRIx64,
                 (uint64_t)hash.high64, (uint64_t)hash.low64);
    }
    XXH3_freeState(h);
    return rc;
}

/* Check whether this load is complete, or its name taken by another. 1: complete; 0: go on; or
 * negative. */
static int set_check(struct set_found *found) {
    int rc = set_look(the_load.set, found);
    if (rc <= 0 || the_load.o->replace)
        return rc < 0 ? rc : 0;
    if (strcmp(found->id, the_load.id) == 0)
        return 1;
    if (found->is_incomplete)
        return dd_error(DDICT_EEXISTS,
                        "the set \"%s\" is being replaced or removed, or that was broken off; "
                        "--replace loads it, `ddict rm --set` removes it",
                        the_load.set);
    return dd_error(DDICT_EEXISTS,
                    "there is a set \"%s\" already, of another load; --set=NAME gives this one "
                    "another name, --replace replaces it",
                    the_load.set);
}

/* The main thread beats meanwhile. */
static int turn_wait(void) {
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    return load_stopped() ? -ECANCELED : 0;
}

/* Whether another run has ended: 1, 0: not yet, or negative. last: its last beat; since: when that
 * changed. */
static int run_ended(const char *run, char last[LOAD_ERROR_MAX], uint64_t *since) {
    char text[LOAD_ERROR_MAX] = "", word[16] = "";
    int rc = state_text(run, NULL, -1, text, sizeof text);
    if (rc < 0 && rc != DDICT_ENOKEY)
        return rc;
    sscanf(text, "%*u %15s", word);
    if (strcmp(word, "failed") == 0)
        return 1;
    if (strcmp(text, last) != 0 || *since == 0) {
        snprintf(last, LOAD_ERROR_MAX, "%s", text);
        *since = clock_ms();
    }
    return clock_ms() > *since + LOAD_LOST_MS;
}

static void wait_say(const char *node, bool *said) {
    if (!*said && !the_load.o->run && !the_load.o->quiet)
        verb_say("another process (%s) is loading this; waiting for it", node);
    *said = true;
}

/* Whether the try of another process has ended: 1, 0: not yet, or negative. */
static int try_ended(struct claim *c, char last[LOAD_ERROR_MAX], uint64_t *since, bool *said) {
    char who[256], run[LOAD_RUN_CAP] = "", node[128] = "";
    int rc = state_text(the_load.id, "run", c->try, who, sizeof who);
    if (rc == DDICT_ENOKEY)
        return 0; /* deleted just now: the next turn finds out */
    if (rc < 0)
        return rc;
    sscanf(who, "%16s %127s", run, node);
    rc = run_ended(run, last, since);
    if (rc == 1)
        strcpy(c->previous_run, run);
    if (rc == 0)
        wait_say(node, said);
    return rc;
}

/* Whether the run that has the set's name has ended, as run_ended(). A run of this same load has,
 * because we own the latest try. With --refill that is certain only of the run whose try came
 * before ours: the key of another's try may be lost while it runs, so its beat decides. */
static int name_holder_ended(const struct claim *c, const char *run, bool same,
                             char last[LOAD_ERROR_MAX], uint64_t *since) {
    if (same && (!the_load.refills || strcmp(run, c->previous_run) == 0))
        return 1;
    return run_ended(run, last, since);
}

/* Claim the set's name, unless another load that still runs has it; a run of this load is waited
 * for. 0 or negative. */
static int name_claim(struct claim *c, bool *said) {
    char mine[256], who[256], id[LOAD_ID_CAP], run[LOAD_RUN_CAP], node[128],
        first[LOAD_ERROR_MAX] = "", last[LOAD_ERROR_MAX] = "";
    uint64_t since = 0;
    XXH128_hash_t hash = XXH3_128bits(the_load.set, strlen(the_load.set));
    snprintf(c->name, sizeof c->name, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64,
             (uint64_t)hash.low64);
    snprintf(mine, sizeof mine, "%s %s %s", the_load.id, the_load.run, the_load.info.node);
    for (;;) {
        int rc = state_put(c->name, "set", -1, -1, mine, strlen(mine),
                           DDICT_NEW | DDICT_TAG(LOAD_TAG_STR));
        if (rc != DDICT_EEXISTS)
            return rc;
        *id = *run = *node = 0;
        rc = state_text(c->name, "set", -1, who, sizeof who);
        if (rc == DDICT_ENOKEY)
            continue;
        if (rc < 0)
            return rc;
        sscanf(who, "%32s %16s %127s", id, run, node);
        bool same = strcmp(id, the_load.id) == 0;
        rc = name_holder_ended(c, run, same, last, &since);
        if (rc != 0)
            return rc < 0 ? rc
                          : state_put(c->name, "set", -1, -1, mine, strlen(mine),
                                      DDICT_TAG(LOAD_TAG_STR));
        if (same)
            wait_say(node, said);
        else if (*first == 0)
            strcpy(first, last);
        else if (strcmp(first, last) != 0)
            return dd_error(DDICT_EEXISTS,
                            "another load, led on %s, makes a set \"%s\" now; --set=NAME gives "
                            "this one another name",
                            node, the_load.set);
        if ((rc = turn_wait()) < 0)
            return rc;
    }
}

/* Our try is there: claim the name, too. Returns as load_claim(). */
static int try_begin(struct claim *c, struct set_found *found, bool *said) {
    int rc = name_claim(c, said);
    /* another process may have completed the load since load_claim() looked */
    if (rc == 0 && (rc = set_check(found)) != 0)
        state_del(c->name, "set", -1, -1);
    if (rc != 0)
        state_del(the_load.id, "run", c->try, -1);
    the_load.continued = c->try > 0;
    c->mine = rc == 0;
    return rc;
}

int load_claim(struct claim *c, struct set_found *found) {
    char mine[256], last[LOAD_ERROR_MAX] = "";
    uint64_t since = 0;
    bool said = false;
    snprintf(mine, sizeof mine, "%s %s %d %u", the_load.run, the_load.info.node, (int)getpid(),
             the_load.workers);
    c->try = 0;
    for (;;) {
        int rc = set_check(found);
        if (rc != 0)
            return rc;
        rc = state_put(the_load.id, "run", c->try, -1, mine, strlen(mine),
                       DDICT_NEW | DDICT_TAG(LOAD_TAG_STR));
        if (rc == 0)
            return try_begin(c, found, &said);
        if (rc != DDICT_EEXISTS)
            return rc;
        rc = try_ended(c, last, &since, &said);
        if (rc < 0)
            return rc;
        if (rc == 1) {
            c->try++;
            *last = 0;
            since = 0;
            continue;
        }
        if ((rc = turn_wait()) < 0)
            return rc;
        if (state_has(the_load.id, "run", 0) == 0)
            c->try = 0; /* the other process has completed the load and deleted its keys */
    }
}

void load_release(const struct claim *c) {
    state_del(the_load.run, "stop", -1, -1);
    if (c->mine) {
        state_del(c->name, "set", -1, -1);
        state_del(the_load.id, "run", c->try, -1);
    }
    state_del(the_load.run, NULL, -1, -1);
}
