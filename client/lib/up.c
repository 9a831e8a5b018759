/* SPDX-License-Identifier: Apache-2.0 */
/* up.c - ddict_up(): dictionaries that this process makes, by `ddict up`, and that end with it. */
#include "up.h"

#include "handle.h"
#include "up_child.h"
#include <base/defaults.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct ddict_start {
    struct ddict_start *next;
    bool up; /* it can be taken by ddict_down(); under ups_lock */
    struct up_child child;
};

/* Held while pipes are made, too: a child that another thread forks then would keep them open. It is
 * taken before all other locks, and not held while waiting. */
static pthread_mutex_t ups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ddict_start *ups; /* begun and not freed, the last one first; under ups_lock */

void ups_lock_take(void) {
    pthread_mutex_lock(&ups_lock);
}

void ups_lock_give(void) {
    pthread_mutex_unlock(&ups_lock);
}

void ups_forget(void) {
    pthread_mutex_init(&ups_lock, NULL);
    for (struct ddict_start *u = ups; u; u = u->next) /* its memory may be another thread's */
        up_child_close(&u->child);
    ups = NULL;
}

static void up_list(struct ddict_start *u) {
    ups_lock_take();
    u->next = ups;
    ups = u;
    ups_lock_give();
}

static bool is_wanted(const struct ddict_start *u, const char *name) {
    return u->up && (!name || strcmp(u->child.name, name) == 0);
}

/* Take u out of the list, or the first one that is up and has the name (NULL: any). Its stdin is
 * closed at once: a child that is forked later would keep it open. */
static struct ddict_start *up_unlist(struct ddict_start *u, const char *name) {
    ups_lock_take();
    struct ddict_start **at = &ups;
    while (*at && (u ? *at != u : !is_wanted(*at, name)))
        at = &(*at)->next;
    u = *at;
    if (u) {
        *at = u->next;
        up_child_end(&u->child);
    }
    ups_lock_give();
    return u;
}

struct ddict_start *up_take(const char *name) {
    return up_unlist(NULL, name);
}

/* < 0: for ever; the child's silence is limited. */
static void limit_start(struct deadline *d, int timeout_ms) {
    deadline_start(d, timeout_ms < 0 ? 0 : timeout_ms);
    if (timeout_ms < 0)
        d->at_ns = UINT64_MAX;
}

/* --- the end --- */

static int end_judge(const struct up_child *c, int rc) {
    if (c->unsaved)
        return dd_error(-EIO, "%s", c->why);
    if (c->why[0])
        return dd_error(DDICT_ELOST, "%s", c->why);
    if (rc == -EIO)
        return dd_error(DDICT_ELOST, "`ddict up` has not ended: it has said nothing for %d s",
                        c->silent_ms / 1000);
    if (c->ended || c->kept)
        return 0;
    if (c->status > 0 && WIFSIGNALED(c->status))
        return dd_error(DDICT_ELOST,
                        "`ddict up`, which kept the dictionary, was killed by signal %d",
                        WTERMSIG(c->status));
    return dd_error(DDICT_ELOST, "`ddict up`, which kept the dictionary, ended early");
}

int up_end(struct ddict_start *u, int timeout_ms) {
    struct up_child *c = &u->child;
    struct deadline d;
    limit_start(&d, timeout_ms);
    int rc = up_child_follow(c, false, &d);
    if (rc == -ETIMEDOUT) {
        up_list(u);
        return dd_error(rc, "the dictionary %s has not ended yet; it goes on to end", c->name);
    }
    up_child_reap(c);
    rc = end_judge(c, rc);
    free(u);
    return rc;
}

/* At exit() nobody of this process uses it any more: its managers need not wait for our handles. */
static void sessions_leave(const char *name) {
    pthread_mutex_lock(&registry_lock);
    for (struct session *s = sessions; s; s = s->next)
        if (s->sock >= 0 && strcmp(s->name, name) == 0)
            shutdown(s->sock, SHUT_RDWR);
    pthread_mutex_unlock(&registry_lock);
}

static void ups_end(void) {
    struct ddict_start *u;
    ups_lock_take();
    for (u = ups; u; u = u->next) /* all at once */
        up_child_end(&u->child);
    ups_lock_give();
    while ((u = up_unlist(NULL, NULL))) {
        sessions_leave(u->child.name);
        if (up_end(u, -1) < 0)
            fprintf(stderr, "ddict: %s\n", dd_errmsg());
    }
}

/* --- the start --- */

static int exit_error;
static void exit_install(void) {
    exit_error = atexit(ups_end);
}

int ddict_up_begin(ddict_start_t **s, const char *const *options) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc = fork_handlers_install();
    *s = NULL;
    if (rc < 0)
        return rc;
    pthread_once(&once, exit_install);
    struct ddict_start *u = calloc(1, sizeof *u);
    if (exit_error || !u) {
        free(u);
        return dd_error(-ENOMEM, "no memory to start a dictionary");
    }
    ups_lock_take();
    rc = up_child_start(&u->child, options);
    if (rc == 0) {
        u->next = ups;
        ups = u;
    }
    ups_lock_give();
    if (rc == 0)
        *s = u;
    else
        free(u);
    return rc;
}

int ddict_up_cancel(ddict_start_t *s) {
    struct deadline d;
    up_unlist(s, NULL);
    limit_start(&d, -1);
    up_child_follow(&s->child, false, &d);
    up_child_reap(&s->child);
    free(s);
    return 0;
}

/* It was not ready and is over, or is about to end, or hangs (rc). */
static int start_failed(struct ddict_start *u, int rc) {
    struct up_child *c = &u->child;
    struct deadline d;
    up_unlist(u, NULL);
    limit_start(&d, -1);
    if (rc == 0) /* it has said why, and ends */
        up_child_follow(c, false, &d);
    up_child_reap(c);
    if (c->why[0])
        rc = dd_error(DDICT_ENODICT, "%s", c->why);
    else if (rc == -EIO)
        rc = dd_error(DDICT_ENODICT, "`ddict up` hangs: it has said nothing for %d s",
                      c->silent_ms / 1000);
    else if (c->status > 0 && WIFSIGNALED(c->status))
        rc = dd_error(DDICT_ENODICT, "`ddict up` was killed by signal %d", WTERMSIG(c->status));
    else
        rc = dd_error(DDICT_ENODICT,
                      "`ddict up` ended without a word (exit code %d); is it of this version? "
                      "(DDICT_COMMAND=PATH names another one)",
                      c->status > 0 ? WEXITSTATUS(c->status) : 0);
    free(u);
    return rc;
}

/* Where nobody of the dictionary is, as on a login node. */
static int not_here(const char *name) {
    char node[NODE_NAME_MAX];
    return dd_error(
        DDICT_ENODICT,
        "the dictionary %s began, but none of its nodes is %s, where this program runs: "
        "start the program on a node of the job, by srun or sbatch, or with --local",
        name, attach_node_name(node, sizeof node));
}

/* It is ready: the child ends where it is kept, else the dictionary can be ended from now on. NULL:
 * nothing is left to be ended. */
static struct ddict_start *start_ready(struct ddict_start *s) {
    struct deadline d;
    if (!s->child.kept) {
        ups_lock_take();
        s->up = true;
        ups_lock_give();
        return s;
    }
    limit_start(&d, -1);
    up_unlist(s, NULL);
    up_child_follow(&s->child, false, &d);
    up_child_reap(&s->child);
    free(s);
    return NULL;
}

int ddict_up_wait(ddict_start_t *s, ddict_t **out, int timeout_ms) {
    char name[DICT_NAME_MAX], why[DD_ERRMSG_MAX];
    struct deadline d;
    *out = NULL;
    limit_start(&d, timeout_ms);
    int rc = up_child_follow(&s->child, true, &d);
    if (rc == -ETIMEDOUT)
        return dd_error(rc, "the dictionary was not ready in time");
    if (!s->child.ready)
        return start_failed(s, rc);
    strcpy(name, s->child.name);
    s = start_ready(s);
    rc = ddict_attach(out, name, -1);
    if (rc == DDICT_ENODICT)
        rc = not_here(name);
    if (rc < 0) {
        snprintf(why, sizeof why, "%s", dd_errmsg());
        if (s)
            ddict_up_cancel(s);
        /* -ETIMEDOUT would say that s can be waited for again */
        rc = dd_error(rc == -ETIMEDOUT ? DDICT_ENODICT : rc, "%s", why);
    }
    return rc;
}

int ddict_up(ddict_t **out, const char *const *options, int timeout_ms) {
    ddict_start_t *s;
    *out = NULL;
    int rc = ddict_up_begin(&s, options);
    if (rc == 0 && (rc = ddict_up_wait(s, out, timeout_ms)) == -ETIMEDOUT) {
        ddict_up_cancel(s);
        dd_error(rc, "the dictionary was not ready within %d ms", timeout_ms);
    }
    return rc;
}
