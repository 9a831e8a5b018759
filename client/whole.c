/* SPDX-License-Identifier: Apache-2.0 */
/* whole.c - calls about whole managers: len, clear, stats. All are asked before the first answer is waited for. */
#include "ask.h"
#include <base/stats.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct outgoing manager_ask(enum msg_type type, unsigned manager) {
    return (struct outgoing){.head = {.type = type, .manager = manager}};
}

/*
 * Ask all managers for which want() is true; take() sees each answer. The first failure is returned when all requests are over.
 */
static int ask_all(struct session *s, enum msg_type type, enum sink sink,
                   bool (*want)(struct session *, unsigned),
                   int (*take)(void *, unsigned, struct request *), void *arg, int timeout_ms) {
    struct request *r = calloc(s->managers, sizeof *r);
    struct patience w;
    int rc = 0;
    if (r == NULL)
        return dd_error(-ENOMEM, "no memory for %u requests", s->managers);
    patience_init(&w, s, timeout_ms);
    unsigned sent = 0;
    for (; rc == 0 && sent < s->managers; sent++) {
        if (want != NULL && !want(s, sent))
            continue;
        r[sent].sink = sink;
        if (timeout_ms == 0) {
            rc = dd_error(-ETIMEDOUT,
                          "manager %u must be asked, which a timeout of 0 does not allow", sent);
            break;
        }
        struct outgoing out = manager_ask(type, sent);
        rc = port_send(&session_ask(s, sent)->port, &out, &r[sent], &w);
        if (rc < 0)
            break;
    }
    for (unsigned i = 0; i < sent; i++) {
        struct node_manager *m = session_ask(s, i);
        if (want != NULL && !want(s, i))
            continue;
        int e = 0;
        if (rc < 0)
            port_give_up(&m->port, &r[i]);
        else if ((e = port_wait(&m->port, &r[i], &w)) == 0)
            e = r[i].status < 0 ? request_error(s, m, &r[i], r[i].status)
                : take == NULL  ? 0
                                : take(arg, i, &r[i]);
        if (rc == 0 && e < 0)
            rc = e;
        request_drop(&r[i]);
    }
    free(r);
    return rc;
}

/* --- len --- */

static bool elsewhere(struct session *s, unsigned manager) {
    return s->here[manager] == NULL;
}

static int len_take(void *arg, unsigned manager, struct request *r) {
    (void)manager;
    *(int64_t *)arg += (int64_t)r->reply.aux;
    return 0;
}

int64_t ddict_len(ddict_t *d, int timeout_ms) {
    struct session *s;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    int64_t sum = 0;
    for (unsigned i = 0; i < s->nlocal;
         i++) /* acquire: with it the writes that it counts; the writer stores it after them */
        sum += (int64_t)__atomic_load_n(&s->local[i].arena.header->num_keys, __ATOMIC_ACQUIRE);
    if (s->nlocal < s->managers &&
        (rc = ask_all(s, MSG_LEN, SINK_NONE, elsewhere, len_take, &sum, timeout_ms)) < 0)
        return rc;
    return sum;
}

/* --- clear --- */

int ddict_clear(ddict_t *d, int timeout_ms) {
    struct session *s;
    int rc = session_enter(d, &s, timeout_ms);
    return rc < 0 ? rc : ask_all(s, MSG_CLEAR, SINK_NONE, NULL, NULL, NULL, timeout_ms);
}

/* --- stats --- */

static int stats_take(void *arg, unsigned manager, struct request *r) {
    struct ddict_manager_stats *all = arg;
    if (r->got != sizeof *all)
        return dd_error(DDICT_EPROTO, "the figures of manager %u have %llu bytes, expected %zu",
                        manager, (unsigned long long)r->got, sizeof *all);
    memcpy(&all[manager], r->buf, sizeof *all);
    all[manager].hostname[sizeof all->hostname - 1] = 0;
    all[manager].node[sizeof all->node - 1] = 0;
    return 0;
}

int ddict_stats(ddict_t *d, struct ddict_manager_stats **out, int timeout_ms) {
    struct session *s;
    *out = NULL;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    struct ddict_manager_stats *all = calloc(s->managers, sizeof *all);
    if (all == NULL)
        return dd_error(-ENOMEM, "no memory for the figures of %u managers", s->managers);
    rc = ask_all(s, MSG_STATS, SINK_MEMORY, NULL, stats_take, all, timeout_ms);
    if (rc < 0) {
        free(all);
        return rc;
    }
    *out = all;
    return (int)s->managers;
}

char *ddict_stats_json(const struct ddict_manager_stats *s) {
    return stats_json(s);
}
