/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leader.c - one worker leads: it claims the load, plans it, waits for all units, and writes the
 * set. Long work runs in a thread; meanwhile the main thread beats and takes signals.
 */
#include "leader.h"

#include "beat.h"
#include "complain.h"
#include "existing_set.h"
#include "load.h"
#include "losses.h"
#include "ownership.h"
#include "plan.h"
#include "progress.h"
#include "refill.h"
#include "set.h"
#include "set_name.h"
#include "signals.h"
#include "state.h"
#include "summary.h"
#include "tries.h"
#include "worker.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/size.h>
#include <base/verb.h>

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_MS     50
#define PROGRESS_MS 400

struct peer { /* another worker */
    char last[200];
    uint64_t seen; /* clock_ms() when its beat last changed; 0: not yet */
    struct figures figures;
};

static struct leader {
    uint64_t shown, began;
    uint64_t todo, need;
    struct peer *peers; /* [workers] */
    struct claim claim;
    bool complete; /* the set is in the dictionary; atomic */
    bool begun;    /* an item was put, so a later try will continue this one */
    /* the set is there, but not all that was lost of it meanwhile could be read again */
    bool unrepaired;
    struct set_found found; /* the set that is there already */
    struct load_plan plan;
    struct set_result result;
    uint64_t repaired; /* items of the set that were lost with a node, and read again */
} lead;

/* counters; they order nothing */
static uint64_t figure_read(const uint64_t *f) {
    return __atomic_load_n(f, __ATOMIC_RELAXED);
}

static struct figures figures_sum(void) {
    const struct figures *own = &the_load.figures;
    struct figures f = {figure_read(&own->units), figure_read(&own->items),
                        figure_read(&own->bytes), figure_read(&own->read),
                        figure_read(&own->there), figure_read(&own->failed)};
    for (unsigned w = 0; w < the_load.workers; w++) {
        const struct figures *p = &lead.peers[w].figures;
        f.units += p->units, f.items += p->items, f.bytes += p->bytes, f.read += p->read,
            f.there += p->there, f.failed += p->failed;
    }
    return f;
}

/* --- long work, while the main thread beats --- */

struct call {
    int (*run)(void);
    int rc, ended; /* ended: atomic */
    char why[LOAD_ERROR_MAX];
};

static void *call_thread(void *arg) {
    struct call *c = arg;
    c->rc = c->run();
    snprintf(c->why, sizeof c->why, "%s", dd_errmsg());
    /* pairs with the acquire in call_run(): rc and why */
    __atomic_store_n(&c->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static int call_run(int (*run)(void)) {
    const struct load_options *o = the_load.o; /* a repair has others */
    /* leaked if its thread hangs, because the thread may still write to it */
    struct call *c = calloc(1, sizeof *c);
    pthread_t thread;
    struct deadline limit;
    bool limited = false;
    if (!c)
        return dd_error(-ENOMEM, "out of memory");
    c->run = run;
    if (pthread_create(&thread, NULL, call_thread, c) != 0) {
        free(c);
        return dd_error(-EAGAIN, "cannot start a thread");
    }
    /* pairs with the release in call_thread() */
    while (!__atomic_load_n(&c->ended, __ATOMIC_ACQUIRE)) {
        if (beat_tick(5) < 0 && !limited) {
            deadline_start(&limit, LOAD_STOP_MS);
            limited = true;
        }
        if (limited && deadline_over(&limit)) {
            pthread_detach(thread);
            the_load.o = o;
            the_load.hangs = true;
            return -ECANCELED;
        }
    }
    pthread_join(thread, NULL);
    int rc = c->rc;
    if (rc < 0 && rc != -ECANCELED)
        dd_error(rc, "%s", c->why);
    free(c);
    return load_stopped() ? -ECANCELED : rc;
}

/* --- the sources --- */

static int sources_identify(void) {
    int rc = sources_look();
    return rc < 0 ? rc : load_id_make();
}

/* --- keys that were lost with a node --- */

static int losses_look(void) {
    int n = losses_find(NULL);
    the_load.losses = n > 0 ? n : 0;
    return n < 0 ? n : 0;
}

/* A node may be lost while another process is waited for. */
static int claim_and_clear(void) {
    int rc = load_claim(&lead.claim, &lead.found);
    if (rc == 0 && the_load.refills)
        rc = losses_look();
    return rc == 0 && the_load.losses > 0 ? tries_clear() : rc;
}

/* --- the plan --- */

static int done_look(void) {
    lead.todo = 0;
    for (uint64_t n = 0; n < lead.plan.units; n++) {
        uint8_t *value;
        size_t len;
        int rc = the_load.continued ? state_get(the_load.id, "done", (int64_t)n, -1, &value, &len)
                                    : DDICT_ENOKEY;
        if (rc == DDICT_ENOKEY) {
            lead.todo++;
            continue;
        }
        if (rc < 0)
            return rc;
        struct unpack u = {.at = value, .left = len};
        unpack_u32(&u);
        unpack_u64(&u);
        uint64_t items = unpack_u64(&u), bytes = unpack_u64(&u), done = bytes + items * 96;
        lead.need -= done < lead.need ? done : lead.need;
        free(value);
        struct unit unit;
        rc = unit_fetch(&unit, n);
        if (rc < 0)
            return rc;
        /* counters; they order nothing */
        __atomic_fetch_add(&the_load.figures.items, items, __ATOMIC_RELAXED);
        __atomic_fetch_add(&the_load.figures.bytes, bytes, __ATOMIC_RELAXED);
        __atomic_fetch_add(&the_load.figures.there, items, __ATOMIC_RELAXED);
        __atomic_fetch_add(&the_load.figures.read, unit.facts.read, __ATOMIC_RELAXED);
        free(unit.value);
        if (n % 256 == 0 && load_stopped())
            return -ECANCELED;
    }
    return 0;
}

static int plan_fits(void) {
    struct ddict_manager_stats *s;
    uint64_t left = 0, total = 0, spill = 0;
    char need[24], have[24], all[24];
    int n = ddict_stats(the_load.d, &s, sizeof *s, -1);
    if (n < 0)
        return load_error(n);
    for (int i = 0; i < n; i++) {
        left += s[i].pool_free_space + s[i].spill_total_bytes - s[i].spill_used_bytes;
        total += s[i].total_bytes + s[i].spill_total_bytes;
        spill += s[i].spill_total_bytes;
    }
    free(s);
    /* replaced items free their memory, but how much is not known in advance; nor is how much of
     * what is there is ours */
    bool all_is_free = the_load.o->replace || (the_load.continued && the_load.losses > 0);
    if (all_is_free)
        left = total;
    if (lead.need <= left)
        return 0;
    return dd_error(DDICT_EFULL,
                    "%s needs %s at the least, and the dictionary has %s%s%s; more memory, such as "
                    "--ddict-mem=%" PRIu64 "M, would do",
                    the_load.o->nsources == 1 ? the_load.origins[0].text : "what is to be loaded",
                    size_format(need, sizeof need, lead.need), size_format(have, sizeof have, left),
                    all_is_free ? "" : " free of its ",
                    all_is_free ? " in all" : size_format(all, sizeof all, total),
                    (total - spill + (lead.need - left) + lead.need / 8) / (1u << 20) + 1);
}

static int plan_get_ready(void) {
    int rc = DDICT_ENOKEY;
    if (the_load.continued)
        rc = load_plan_fetch(&lead.plan);
    bool fresh = rc == DDICT_ENOKEY;
    if (fresh)
        rc = load_plan_make(&lead.plan);
    lead.need = lead.plan.need;
    if (rc == 0 && fresh)
        rc = plan_fits();
    if (rc == 0 && the_load.o->replace && the_load.refills)
        rc = set_mark_incomplete(the_load.set);
    if (rc == 0 && fresh) {
        lead.begun = true;
        rc = try_mark();
        rc = rc < 0 ? rc : load_plan_store(&lead.plan);
    }
    if (rc == 0)
        rc = done_look();
    if (rc == 0 && !fresh)
        rc = plan_fits();
    if (rc < 0 && fresh)
        load_plan_free(&lead.plan);
    return rc;
}

/* --- while the workers read --- */

static int peers_read(void) {
    char text[200];
    uint64_t now = clock_ms();
    for (unsigned w = 1; w < the_load.workers; w++) {
        struct peer *p = &lead.peers[w];
        struct figures *f = &p->figures;
        int rc = state_peek(the_load.run, "beat", w, text, sizeof text);
        if (rc == DDICT_ENOKEY || rc == -EAGAIN || (rc == 0 && strcmp(text, p->last) == 0))
            continue;
        if (rc < 0)
            return rc;
        strcpy(p->last, text);
        p->seen = now;
        sscanf(text, "%*u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &f->units, &f->items, &f->bytes, &f->read, &f->there, &f->failed);
    }
    return 0;
}

/* Late workers, which find the load complete, must see that before our state is deleted. */
static int peers_leave(void) {
    struct deadline limit;
    bool all = false;
    if (the_load.workers < 2)
        return state_del(the_load.run, NULL, -1, -1);
    int rc = beat_say("ok");
    deadline_start(&limit, LOAD_LOST_MS);
    while (rc == 0 && !all && !deadline_over(&limit) && signals_wait(10) == 0) {
        rc = peers_read();
        all = true;
        for (unsigned w = 1; w < the_load.workers && all; w++)
            all = strstr(lead.peers[w].last, " bye") != NULL;
    }
    for (unsigned w = 1; w < the_load.workers && rc == 0; w++)
        rc = state_del(the_load.run, "beat", w, -1);
    return rc == 0 && all ? state_del(the_load.run, NULL, -1, -1) : rc;
}

/* Whether a thread here or a worker elsewhere still reads. */
static bool worker_is_left(void) {
    /* Acquire pairs with the release at the end of thread_run() (worker.c). */
    bool somebody = __atomic_load_n(&the_load.ended, __ATOMIC_ACQUIRE) < the_load.nthreads;
    for (unsigned w = 1; w < the_load.workers && !somebody; w++)
        somebody =
            lead.peers[w].seen + LOAD_LOST_MS > clock_ms() && !strstr(lead.peers[w].last, " bye");
    return somebody;
}

static int all_read(void) {
    char stop[LOAD_ERROR_MAX];
    struct figures f;
    uint64_t looked = 0, alone = 0;
    int rc = 0;
    worker_start();
    while ((f = figures_sum()).units < lead.todo && rc == 0) {
        uint64_t now = clock_ms();
        rc = beat_tick(f.units + 8 >= lead.todo ? 2 : TICK_MS);
        if (rc == 0 && the_load.workers > 1 && now >= looked + TICK_MS + the_load.workers) {
            looked = now;
            rc = peers_read();
            if (rc == 0 && (rc = state_peek(the_load.run, "stop", -1, stop, sizeof stop)) == 0) {
                char *sentence;
                int code = (int)strtol(stop, &sentence, 10);
                load_fail(code, sentence + (*sentence == ' '));
                rc = -ECANCELED;
            } else if (rc == DDICT_ENOKEY || rc == -EAGAIN) {
                rc = 0;
            }
        }
        if (worker_is_left())
            alone = 0;
        else if (alone == 0)
            alone = now;
        else if (now > alone + LOAD_LOST_MS)
            rc = dd_error(
                DDICT_ELOST,
                "%" PRIu64 " of %" PRIu64
                " units were taken by workers that are gone; the same command goes on from here",
                lead.todo - f.units, lead.plan.units);
        if (now >= lead.shown + PROGRESS_MS) {
            lead.shown = now;
            progress_show(&(struct progress){
                .read = f.read, .total = lead.plan.read, .items = f.items, .bytes = f.bytes});
        }
    }
    if (rc < 0 && rc != -ECANCELED)
        load_fail(rc, dd_errmsg());
    /* a thread hangs in a file system: only the end of the process can stop it */
    if (!worker_join())
        the_load.nthreads = 0;
    return rc < 0 ? rc : load_stopped() ? -ECANCELED : 0;
}

static int set_complete(void) {
    int rc = set_write(&lead.plan, &lead.result);
    if (rc == 0)
        /* a flag alone; it orders nothing */
        __atomic_store_n(&lead.complete, true, __ATOMIC_RELAXED);
    return rc;
}

static int set_repair(void) {
    return the_load.refills ? own_set_refill(&lead.repaired) : 0;
}

/* Once the set is written the load is complete, and a signal or another worker's error comes too
 * late. */
static int call_complete(int (*run)(void)) {
    int rc = call_run(run);
    /* a flag alone; it orders nothing */
    return rc == -ECANCELED && __atomic_load_n(&lead.complete, __ATOMIC_RELAXED) ? 0 : rc;
}

/* --- afterwards --- */

static int tries_tidy(void) {
    return tries_delete(&lead.claim);
}

/* Number of units that each worker read. With --json, else NULL. */
static json_t *units_json(void) {
    json_t *units = the_load.o->json ? json_array() : NULL;
    for (unsigned w = 0; units && w < the_load.workers; w++)
        json_array_append_new(
            units, json_integer((json_int_t)(w == 0 ? figure_read(&the_load.figures.units)
                                                    : lead.peers[w].figures.units)));
    return units;
}

static int load_all(void) {
    struct figures f;
    int rc = beat_say("wait");
    if (rc == 0)
        /* may take long: many sources on a slow file system, or the long list of a bucket */
        rc = call_run(sources_identify);
    if (rc == 0 && the_load.refills)
        rc = call_run(losses_look);
    if (rc == 0)
        /* may have to wait for another process, or for a lost key */
        rc = call_run(claim_and_clear);
    lead.begun = the_load.continued;
    if (rc == 1) {
        if ((rc = call_run(set_repair)) < 0)
            return rc;
        return summary_print(&(struct summary){.already = true,
                                               .items = lead.found.items,
                                               .bytes = lead.found.bytes,
                                               .there = lead.found.items - lead.repaired,
                                               .repaired = lead.repaired,
                                               .result = &lead.result,
                                               .once = lead.found.once,
                                               .units = units_json()});
    }
    if (rc == 0)
        rc = call_run(plan_get_ready);
    if (rc < 0)
        return rc;
    the_load.units = lead.plan.units;
    rc = beat_say("go %s %" PRIu64 " %s%s", the_load.id, the_load.units,
                  the_load.origins[0].kind->name, the_load.continued ? " continued" : "");
    if (rc == 0)
        rc = all_read();
    f = figures_sum();
    if (rc == 0)
        rc = call_complete(set_complete);
    double seconds = (double)(clock_ns() - lead.began) / 1e9;
    if (rc == 0)
        rc = call_complete(tries_tidy);
    if (rc == 0 && the_load.refills) { /* of what was lost meanwhile */
        rc = call_run(set_repair);
        lead.unrepaired = rc < 0;
    }
    if (rc == 0)
        rc = summary_print(&(struct summary){
            .items = lead.result.items,
            .bytes = lead.result.bytes,
            .seconds = seconds,
            .there = f.there,
            .result = &lead.result,
            .once = the_load.refills ? set_why_once(&lead.plan, &lead.result) : NULL,
            .units = units_json()});
    return rc;
}

/* The set is there: nothing of this try is needed any more. */
static void run_end(void) {
    state_del(the_load.run, "stop", -1, -1); /* a signal may have come too late */
    peers_leave();
}

int leader_run(void) {
    char why[LOAD_ERROR_MAX];
    lead.began = clock_ns();
    lead.peers = calloc(the_load.workers, sizeof *lead.peers);
    if (!lead.peers)
        return 1;
    progress_start();
    int rc = load_all();
    if (rc < 0) {
        int first = load_why(why, sizeof why);
        if (first < 0)
            rc = first;
        else
            snprintf(why, sizeof why, "%s", rc == -ENOMEM ? "out of memory" : dd_errmsg());
        progress_clear();
        /* a thread, another node or a signal has set the reason */
        if (rc == -ECANCELED)
            rc = beat_signal() != 0 ? -EINTR : -EIO;
        size_t n = strlen(why);
        if (lead.begun && !lead.unrepaired && rc != -EINTR && losses_exceed(the_load.losses))
            snprintf(why + n, sizeof why - n,
                     "; keys were lost with a node meanwhile: the same command goes on");
        load_complain(why, rc);
        if (lead.unrepaired)
            run_end();
        else if (lead.begun)
            beat_say("failed %.900s", why);
        else
            load_release(&lead.claim); /* nothing was read, so no trace of this try is needed */
        /* a flag alone; it orders nothing */
        __atomic_store_n(&the_load.stopped, 1, __ATOMIC_RELAXED);
        rc = 1;
    } else {
        run_end();
    }
    load_plan_free(&lead.plan);
    pack_free(&lead.result.failures);
    pack_free(&lead.result.left);
    free(lead.peers);
    return rc;
}
