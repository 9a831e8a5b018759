/* SPDX-License-Identifier: Apache-2.0 */
/* rows_many.c - the rows of several processes: two that read together, and one that reads while
 * another writes. */
#include "peers.h"
#include <ddict.h>

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct crew {
    struct workers *workers;
    const struct store *store;
    bool latencies, writer;
};

static const struct store *const both[] = {&store_ddict, &store_table};

static int64_t go_crew(struct turn *t, uint64_t ns, uint64_t *spent) {
    struct crew *c = t->self;
    struct job job[2] = {{.store = c->store,
                          .op = VIEW,
                          .batch = 1,
                          .cpu = c->latencies ? 0 : -1,
                          .latencies = c->latencies},
                         {0}};
    struct done done[2];
    if (c->writer)
        job[1] = (struct job){.store = c->store, .op = PUT, .batch = 1, .cpu = 1};
    else if (t->clients == 2)
        job[1] = job[0];
    int rc = workers_do(c->workers, job, ns, done);
    if (rc < 0)
        return rc;
    unsigned readers = c->writer ? 1 : t->clients;
    *spent = 0;
    t->cpu = 0;
    uint64_t ops = 0;
    for (unsigned i = 0; i < readers; i++) {
        *spent += done[i].ns;
        t->cpu += done[i].cpu;
        ops += done[i].ops;
    }
    t->given[0] = done[0].p50;
    t->given[1] = done[0].p99;
    t->given[2] = done[0].max;
    return (int64_t)ops;
}

static int crew_turn(struct turn *t, const char *name, struct crew *c, const struct where *w,
                     unsigned clients) {
    int rc = turn_other(t, name, go_crew, w);
    t->self = c;
    t->clients = clients;
    return rc;
}

static int load_both(const struct where *w, void *self[2]) {
    int rc = 0;
    for (unsigned i = 0; i < 2 && rc == 0; i++) {
        rc = both[i]->open(&self[i], w);
        if (rc == 0)
            rc = store_load(both[i], self[i], w);
    }
    return rc;
}

int rows_two(const struct row *r, const struct where *w, const struct plan *p) {
    struct crew crew[2] = {{.store = &store_ddict}, {.store = &store_table}};
    struct turn *t = calloc(4, sizeof *t);
    void *self[2] = {NULL, NULL};
    struct workers *workers = NULL;
    int rc = !t ? -ENOMEM : load_both(w, self);
    if (rc == 0)
        rc = workers_start(&workers, 2, both, 2, w);
    crew[0].workers = crew[1].workers = workers;
    static const char *const name[] = {"ddict", "ddict, two", "table", "table, two"};
    for (unsigned i = 0; i < 4 && rc == 0; i++)
        rc = crew_turn(&t[i], name[i], &crew[i / 2], w, i % 2 + 1);
    rc = rc == 0 ? turns_run(r->name, t, 4, p) : turns_fail(t, rc);
    workers_end(workers);
    for (unsigned i = 0; i < 4; i++)
        turn_free(&t[i]);
    free(t);
    for (unsigned i = 0; i < 2; i++)
        if (self[i])
            both[i]->close(self[i]);
    return rc;
}

/* The managers go beside the writer, so that the reader has a core to itself. */
static int managers_to(ddict_t *d, int cpu) {
    struct ddict_manager_stats *s;
    int n = ddict_stats(d, &s, sizeof *s, -1);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    for (int i = 0; i < n; i++)
        sched_setaffinity((pid_t)s[i].pid, sizeof set, &set);
    if (n > 0)
        free(s);
    return n < 0 ? n : 0;
}

int rows_writer(const struct row *r, const struct where *w, const struct plan *p) {
    struct crew crew[4] = {{.store = &store_ddict},
                           {.store = &store_ddict, .writer = true},
                           {.store = &store_table},
                           {.store = &store_table, .writer = true}};
    struct turn *t = calloc(4, sizeof *t);
    void *self[2] = {NULL, NULL};
    struct workers *workers = NULL;
    int rc = !t ? -ENOMEM : load_both(w, self);
    if (rc == 0)
        rc = managers_to(self[0], 1);
    if (rc == 0)
        rc = workers_start(&workers, 2, both, 2, w);
    static const char *const name[] = {"ddict, quiet", "ddict, written", "table, quiet",
                                       "table, written"};
    for (unsigned i = 0; i < 4 && rc == 0; i++) {
        crew[i].workers = workers;
        crew[i].latencies = true;
        rc = crew_turn(&t[i], name[i], &crew[i], w, 1);
    }
    rc = rc == 0 ? turns_run(r->name, t, 4, p) : turns_fail(t, rc);
    workers_end(workers);
    for (unsigned i = 0; i < 4; i++)
        turn_free(&t[i]);
    free(t);
    for (unsigned i = 0; i < 2; i++)
        if (self[i])
            both[i]->close(self[i]);
    return rc;
}
