/* SPDX-License-Identifier: Apache-2.0 */
/* broadcast.c - calls to all managers: len, clear, stats. All requests are sent before the first
 * answer is awaited. */
#include "request.h"
#include "stats_public.h"
#include "window_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct outgoing manager_ask(enum msg_type type, unsigned manager) {
    return (struct outgoing){.head = {.type = type, .manager = manager}};
}

static int answer_await(struct session *s, enum msg_type type, unsigned manager, struct request *r,
                        struct call_deadline *w) {
    struct node_manager *m = session_route(s, manager);
    int rc = client_lane_wait(&m->lane, r, w);
    if (rc < 0)
        return rc;
    if (unlikely(request_is_stale(r, w))) {
        struct outgoing out = manager_ask(type, manager);
        request_drop(r);
        rc = request_again(r);
        return rc < 0 ? rc : request_call_within(s, m, &out, r, w);
    }
    return r->status < 0 ? request_error(s, m, r, r->status) : 0;
}

/*
 * Send a request to every manager for which want() is true; take() sees each answer. Returns the
 * first failure, after all requests are over.
 */
static int request_all(struct session *s, enum msg_type type, enum sink sink,
                       bool (*want)(struct session *, unsigned),
                       int (*take)(void *, unsigned, struct request *), void *arg, int timeout_ms) {
    struct request *r = calloc(s->managers, sizeof *r);
    struct call_deadline w;
    int rc = 0;
    if (!r)
        return dd_error(-ENOMEM, "no memory for %u requests", s->managers);
    call_deadline_init(&w, s, timeout_ms);
    unsigned sent = 0;
    for (; rc == 0 && sent < s->managers; sent++) {
        if (want && !want(s, sent))
            continue;
        r[sent].sink = sink;
        if (timeout_ms == 0) {
            rc = dd_error(-ETIMEDOUT,
                          "manager %u must be asked, which a timeout of 0 does not allow", sent);
            break;
        }
        struct outgoing out = manager_ask(type, sent);
        rc = client_lane_send(&session_route(s, sent)->lane, &out, &r[sent], &w);
        if (rc < 0)
            break;
    }
    for (unsigned i = 0; i < sent; i++) {
        if (want && !want(s, i))
            continue;
        int e = 0;
        if (rc < 0)
            client_lane_cancel(&session_route(s, i)->lane, &r[i]);
        else if ((e = answer_await(s, type, i, &r[i], &w)) == 0 && take)
            e = take(arg, i, &r[i]);
        if (rc == 0 && e < 0)
            rc = e;
        request_drop(&r[i]);
    }
    free(r);
    return rc;
}

/* --- len --- */

/* Others have no keys. */
static bool manager_owns(struct session *s, unsigned manager) {
    return deal_owns(&s->deal, manager);
}

static bool manager_is_remote(struct session *s, unsigned manager) {
    return manager_owns(s, manager) && !s->local_of[manager];
}

static int len_take(void *arg, unsigned manager, struct request *r) {
    (void)manager;
    *(int64_t *)arg += (int64_t)r->reply.aux;
    return 0;
}

/* hidden keys are not in num_keys. As of some moment: writers store it relaxed, so it orders nothing
 * that it counts */
static int64_t len_in_place(struct session *s) {
    int64_t sum = 0;
    for (unsigned i = 0; i < s->nlocal; i++)
        sum += (int64_t)__atomic_load_n(&s->local[i].arena.header->num_keys, __ATOMIC_ACQUIRE);
    return sum;
}

int64_t ddict_len(ddict_t *d, int timeout_ms) {
    struct session *s;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    if (unlikely(s->working_set))
        return window_len(d, -1, timeout_ms);
    bool reads = status_page_reads(s->status_page);
    int64_t sum = reads ? len_in_place(s) : 0;
    if (!reads || s->nlocal < s->managers)
        rc = request_all(s, MSG_LEN, SINK_NONE, reads ? manager_is_remote : manager_owns, len_take,
                         &sum, timeout_ms);
    return rc < 0 ? rc : sum;
}

static bool manager_is_here(struct session *s, unsigned manager) {
    return manager_owns(s, manager) && s->local_of[manager];
}

int64_t ddict_local_len(ddict_t *d, int timeout_ms) {
    struct session *s;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    if (unlikely(s->working_set))
        return window_len(d, -2, timeout_ms);
    int64_t sum = 0;
    if (!status_page_reads(s->status_page))
        rc = request_all(s, MSG_LEN, SINK_NONE, manager_is_here, len_take, &sum, timeout_ms);
    else
        sum = len_in_place(s);
    return rc < 0 ? rc : sum;
}

/* --- clear --- */

int ddict_clear(ddict_t *d, int timeout_ms) {
    struct session *s;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc == 0 && unlikely(s->working_set))
        return window_clear(d, timeout_ms);
    return rc < 0 ? rc : request_all(s, MSG_CLEAR, SINK_NONE, manager_owns, NULL, NULL, timeout_ms);
}

/* --- stats --- */

struct stats_place {
    char *out; /* array of entries of the size that the caller asked for */
    size_t size;
};

static int stats_take(void *arg, unsigned manager, struct request *r) {
    const struct stats_place *place = arg;
    struct manager_stats s;
    if (stats_read(&s, r->buf, (size_t)r->got) < 0)
        return dd_error(DDICT_EPROTO, "the figures of manager %u make no sense (%llu bytes)",
                        manager, (unsigned long long)r->got);
    stats_to_public(place->out + manager * place->size, place->size, &s);
    return 0;
}

int ddict_stats(ddict_t *d, struct ddict_manager_stats **out, size_t size, int timeout_ms) {
    struct session *s;
    *out = NULL;
    if (!stats_size_known(size))
        return dd_error(-EINVAL, "ddict_stats: no struct ddict_manager_stats has %zu bytes", size);
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    struct stats_place place = {.out = calloc(s->managers, size), .size = size};
    if (!place.out)
        return dd_error(-ENOMEM, "no memory for the figures of %u managers", s->managers);
    rc = request_all(s, MSG_STATS, SINK_MEMORY, NULL, stats_take, &place, timeout_ms);
    if (rc < 0) {
        free(place.out);
        return rc;
    }
    *out = (void *)place.out;
    return (int)s->managers;
}

char *ddict_stats_json(const struct ddict_manager_stats *public, size_t size) {
    struct manager_stats s;
    stats_from_public(&s, public, size);
    return stats_json(&s);
}
