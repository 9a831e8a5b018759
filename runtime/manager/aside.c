/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aside.c - a thread that gives back the memory of clients that have gone. To unmap a lane and
 * close its last descriptor takes time for each of its pages: a second for some GiB of unfinished
 * puts, in which the loop would serve nobody. A backlog may be as large.
 */
#include "aside.h"

#include "manager.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

struct gone {
    struct gone *next;
    struct lane lane;
    const struct lease_chunk *leases; /* NULL: a backlog alone */
    struct backlog backlog;
};
struct aside {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t come;
    struct gone *first, **end;
    bool stop;
};

static void gone_free(struct gone *g) {
    if (g->leases) {
        munmap((void *)(uintptr_t)g->leases, LEASE_FILE_SIZE);
        lane_unmap(&g->lane);
    }
    backlog_free(&g->backlog);
}

static void *aside_run(void *arg) {
    struct aside *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct gone *g = s->first;
        if (g) {
            s->first = g->next;
            if (!s->first)
                s->end = &s->first;
            pthread_mutex_unlock(&s->lock);
            gone_free(g);
            free(g);
            pthread_mutex_lock(&s->lock);
        } else if (s->stop)
            break;
        else
            pthread_cond_wait(&s->come, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static struct aside *aside_start(void) {
    struct aside *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->end = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->come, NULL);
    if (pthread_create(&s->thread, NULL, aside_run, s) == 0)
        return s;
    pthread_cond_destroy(&s->come);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

static void aside_take(struct manager *m, struct gone *all) {
    if (!m->aside)
        m->aside = aside_start();
    struct gone *g = m->aside ? malloc(sizeof *g) : NULL;
    if (!g) { /* no memory: do it here, however long it takes */
        gone_free(all);
        return;
    }
    *g = *all;
    pthread_mutex_lock(&m->aside->lock);
    *m->aside->end = g;
    m->aside->end = &g->next;
    pthread_cond_signal(&m->aside->come);
    pthread_mutex_unlock(&m->aside->lock);
}

void aside_free(struct manager *m, struct lane *lane, const struct lease_chunk *leases) {
    struct gone g = {.lane = *lane, .leases = leases};
    aside_take(m, &g);
}

void aside_backlog(struct manager *m, struct backlog *backlog) {
    struct gone g = {.backlog = *backlog};
    if (backlog->first != backlog->last)
        aside_take(m, &g);
    else /* empty or small */
        backlog_free(backlog);
    *backlog = (struct backlog){0};
}

void aside_end(struct manager *m) {
    struct aside *s = m->aside;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->come);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->come);
    pthread_mutex_destroy(&s->lock);
    free(s);
    m->aside = NULL;
}
