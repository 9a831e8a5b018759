/* SPDX-License-Identifier: Apache-2.0 */
/* persist.c - states of the dictionary on disk, by number (SAVE 4). Saving and restoring is the work
 * of `ddict save` and `ddict restore`, on all nodes; here they are started. */
#include "persist.h"

#include "program.h"
#include "up.h"
#include <base/defaults.h>
#include <base/persist_ids.h>
#include <base/persist_text.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what was asked for --- */

int ddict_get_persistence(ddict_t *d, struct ddict_persistence *out) {
    struct persist_text p;
    struct session *s;
    memset(out, 0, sizeof *out);
    int rc = session_enter(d, &s, -1);
    if (rc < 0)
        return rc;
    const char *text = s->status_page->persist;
    if (*text == 0 || persist_text_parse(text, &p) < 0)
        return dd_error(-EINVAL, "the dictionary has no folder for its states: start it with "
                                 "--ddict-persist=DIR (srun), --persist=DIR (ddict up) or "
                                 "up(persist=DIR)");
    snprintf(out->dir, sizeof out->dir, "%.*s", (int)p.dir_len, text);
    out->freq = p.freq;
    out->count = p.count;
    out->read_only = p.read_only;
    return 0;
}

/* --- the states that are there --- */

ssize_t ddict_persisted_ids(ddict_t *d, uint64_t **ids, int timeout_ms) {
    struct ddict_persistence p;
    (void)timeout_ms; /* nobody is asked */
    *ids = NULL;
    int rc = ddict_get_persistence(d, &p);
    return rc < 0 ? rc : persist_ids_read(p.dir, ids);
}

/* "1, 2, 5", or the last ones. */
static void ids_show(char *text, size_t cap, const uint64_t *ids, size_t n) {
    size_t at = n > 8 ? n - 8 : 0;
    int len = snprintf(text, cap, "%s", n == 0 ? "none" : at > 0 ? "..." : "");
    for (size_t i = at; i < n && (size_t)len < cap; i++)
        len += snprintf(text + len, cap - (size_t)len, "%s%" PRIu64, i > 0 ? ", " : "", ids[i]);
}

static int id_missing(const struct ddict_persistence *p, uint64_t id, const uint64_t *ids,
                      size_t n) {
    char text[240];
    ids_show(text, sizeof text, ids, n);
    return dd_error(-ENOENT, "state %" PRIu64 " is not in %s; there: %s", id, p->dir, text);
}

/* --- the command --- */

struct ddict_state {
    pid_t pid;
    int from, status;
    const char *verb;
    char text[DD_PERSIST_ANSWER + 1]; /* what it has said */
    size_t len;
};

static int command_start(struct ddict_state *s, const char *name, uint64_t id, uint64_t turn) {
    char path[PATH_MAX], number[40], taken[40];
    char *argv[] = {path,
                    (char *)(uintptr_t)s->verb,
                    (char *)(uintptr_t) "--report",
                    (char *)(uintptr_t) "--quiet",
                    (char *)(uintptr_t) "--name",
                    (char *)(uintptr_t)name,
                    number,
                    turn != 0 ? taken : NULL,
                    NULL};
    snprintf(number, sizeof number, "--persist=%" PRIu64, id);
    snprintf(taken, sizeof taken, "--turn=%" PRIu64, turn);
    int rc = program_find(path);
    if (rc < 0)
        return rc;
    ups_lock_take();
    rc = program_start(&s->pid, argv, NULL, &s->from);
    ups_lock_give();
    return rc;
}

/* turn: the version of the item with which this process has the turn, and which the command takes over;
 * 0: it takes a turn of its own. */
static int command_begin(ddict_t *d, const char *verb, uint64_t id, uint64_t turn,
                         ddict_state_t **out) {
    struct session *session;
    int rc = session_enter(d, &session, -1);
    if (rc < 0)
        return rc;
    struct ddict_state *s = calloc(1, sizeof *s);
    if (!s)
        return dd_error(-ENOMEM, "out of memory");
    s->verb = verb;
    s->from = -1;
    rc = command_start(s, session->name, id, turn);
    if (rc < 0)
        free(s);
    else
        *out = s;
    return rc;
}

/* 1: it has said all; 0: there is more. */
static int command_read(struct ddict_state *s) {
    char buf[1024];
    ssize_t n = read(s->from, buf, sizeof buf);
    if (n <= 0)
        return n == 0 || (errno != EINTR && errno != EAGAIN);
    if (s->len + (size_t)n <= DD_PERSIST_ANSWER) {
        memcpy(s->text + s->len, buf, (size_t)n);
        s->len += (size_t)n;
    }
    return 0;
}

/* Reap it; if it lives when the time is over, by SIGKILL. What hangs in the kernel even then stays. */
static void command_reap(struct ddict_state *s, int ms) {
    struct deadline d, last;
    pid_t rc;
    deadline_start(&d, ms);
    deadline_start(&last, ms + DD_STOP_MS);
    while (!deadline_over(&last) &&
           ((rc = waitpid(s->pid, &s->status, WNOHANG)) == 0 || (rc < 0 && errno == EINTR))) {
        if (deadline_over(&d))
            kill(s->pid, SIGKILL);
        poll(NULL, 0, 5);
    }
    program_close(&s->from);
}

static int command_judge(const struct ddict_state *s) {
    json_t *o = json_loads(s->text, 0, NULL);
    const char *error = json_string_value(json_object_get(o, "error"));
    int code = (int)json_integer_value(json_object_get(o, "code")), rc = 0;
    if (error)
        rc = dd_error(code < 0 ? code : -EIO, "%s", error);
    else if (!json_object_get(o, "items"))
        rc = dd_error(-EIO, "`ddict %s` %s", s->verb,
                      WIFSIGNALED(s->status) ? "was killed" : "ended without a word");
    json_decref(o);
    return rc;
}

int ddict_state_wait(ddict_state_t *s, int timeout_ms) {
    struct deadline d;
    deadline_start(&d, timeout_ms < 0 ? 0 : timeout_ms);
    for (int over = 0; !over;) {
        struct pollfd p = {.fd = s->from, .events = POLLIN};
        int left = timeout_ms < 0 ? -1 : deadline_left(&d, INT32_MAX);
        int n = poll(&p, 1, left);
        if (n > 0)
            over = command_read(s);
        else if (n == 0 && left == 0)
            return dd_error(-ETIMEDOUT, "`ddict %s` has not ended yet", s->verb);
    }
    command_reap(s, DD_STOP_MS);
    int rc = command_judge(s);
    free(s);
    return rc;
}

int ddict_state_cancel(ddict_state_t *s) {
    kill(s->pid, SIGTERM); /* it ends its workers on other nodes, and removes what it wrote */
    command_reap(s, DD_PERSIST_STOP_MS);
    free(s);
    return 0;
}

static int command_finish(ddict_state_t *s, int timeout_ms) {
    const char *verb = s->verb;
    int rc = ddict_state_wait(s, timeout_ms);
    if (rc == -ETIMEDOUT) {
        ddict_state_cancel(s);
        dd_error(rc, "`ddict %s` has not ended in time, and was ended", verb);
    }
    return rc;
}

/* --- the calls --- */

int ddict_persist_begin(ddict_t *d, uint64_t id, ddict_state_t **out) {
    struct ddict_persistence p;
    *out = NULL;
    int rc = ddict_get_persistence(d, &p);
    if (rc < 0)
        return rc;
    if (p.read_only)
        return dd_error(DDICT_EFROZEN, "the dictionary only reads the states in %s (read-only)",
                        p.dir);
    return command_begin(d, "save", id, 0, out);
}

int ddict_restore_begin(ddict_t *d, uint64_t id, ddict_state_t **out) {
    struct ddict_persistence p;
    uint64_t *ids;
    *out = NULL;
    int rc = ddict_get_persistence(d, &p);
    ssize_t n = rc < 0 ? rc : persist_ids_read(p.dir, &ids);
    if (n < 0)
        return (int)n;
    if (!bsearch(&id, ids, (size_t)n, sizeof *ids, persist_ids_compare))
        rc = id_missing(&p, id, ids, (size_t)n);
    free(ids);
    return rc < 0 ? rc : command_begin(d, "restore", id, 0, out);
}

int ddict_persist_as(ddict_t *d, uint64_t id, int timeout_ms) {
    ddict_state_t *s;
    int rc = ddict_persist_begin(d, id, &s);
    return rc < 0 ? rc : command_finish(s, timeout_ms);
}

static int64_t persist_id(ddict_t *d) {
    int k = ddict_working_set(d, NULL);
    return k > 0 ? ddict_checkpoint_id(d) : k;
}

int ddict_persist(ddict_t *d, int timeout_ms) {
    int64_t id = persist_id(d);
    return id < 0 ? (int)id : ddict_persist_as(d, (uint64_t)id, timeout_ms);
}

int ddict_restore(ddict_t *d, uint64_t id, int timeout_ms) {
    ddict_state_t *s;
    int rc = ddict_restore_begin(d, id, &s);
    rc = rc < 0 ? rc : command_finish(s, timeout_ms);
    return rc == 0 && ddict_working_set(d, NULL) > 0 ? ddict_set_checkpoint_id(d, id) : rc;
}

static int item_read(ddict_t *d, struct persist_item *item, uint64_t *version, int timeout_ms) {
    struct ddict_view v;
    int rc = ddict_view(d, PERSIST_KEY, PERSIST_KEY_LEN, &v, 0, timeout_ms);
    *item = (struct persist_item){0};
    *version = 0;
    if (rc < 0)
        return key_is_absent(rc) ? 0 : rc;
    *version = v.version;
    if (v.len == sizeof *item)
        memcpy(item, v.data, sizeof *item);
    ddict_release(&v);
    return 0;
}

/* The state that a read-only dictionary has; -1: none yet. */
static int at_read(ddict_t *d, int64_t *at, int timeout_ms) {
    struct persist_item item;
    uint64_t version;
    int rc = item_read(d, &item, &version, timeout_ms);
    *at = (int64_t)item.at - 1;
    return rc;
}

/* --- checkpoints that are retired --- */

/* The process a thread of which has the turn, or takes it; atomic. A forked child finds another one's
 * number. */
static pid_t turn_taker;

static bool turn_begin(void) {
    pid_t me = getpid(), was = __atomic_load_n(&turn_taker, __ATOMIC_ACQUIRE);
    return was != me && __atomic_compare_exchange_n(&turn_taker, &was, me, false, __ATOMIC_ACQ_REL,
                                                    __ATOMIC_RELAXED);
}

static void turn_end(void) {
    __atomic_store_n(&turn_taker, 0, __ATOMIC_RELEASE);
}

/* It is our turn, until the command has taken it over. */
static int checkpoint_save(ddict_t *d, uint64_t id, struct persist_item *item, uint64_t version) {
    char why[DD_ERRMSG_MAX];
    ddict_state_t *s;
    int rc = command_begin(d, "save", id, version, &s);
    rc = rc < 0 ? rc : command_finish(s, DD_PERSIST_TURN_MS);
    if (rc == 0)
        return 0;
    snprintf(why, sizeof why, "%s", dd_errmsg());
    item->node = item->client = 0;
    /* refused where the command has taken it over, and with it ended it */
    ddict_put_if(d, PERSIST_KEY, PERSIST_KEY_LEN, item, sizeof *item, 0, version, NULL, -1);
    return dd_error(rc, "checkpoint %" PRIu64 " is not retired, as it cannot be saved: %.300s", id,
                    why);
}

static int checkpoint_await(ddict_t *d, uint64_t id) {
    struct ddict_client me;
    struct persist_item item;
    struct deadline limit;
    uint64_t version;
    deadline_start(&limit, DD_PERSIST_TURN_MS);
    int rc = ddict_self(d, &me, -1);
    while (rc == 0 && (rc = item_read(d, &item, &version, -1)) == 0) {
        struct ddict_client by = {.node = item.node, .id = item.client};
        if (item.saved > id)
            return 0;
        /* an earlier turn of ours, whose end could not be said */
        bool mine = by.node == me.node && by.id == me.id;
        bool begun = turn_begin();
        if (item.client != 0 && !(mine && begun) && (rc = ddict_alive(d, by, -1)) != 0) {
            if (begun)
                turn_end();
            if (rc == 1)
                rc = ddict_wait_change(d, PERSIST_KEY, PERSIST_KEY_LEN, version, NULL,
                                       PERSIST_LOOK_MS);
            if (rc == -ETIMEDOUT && !deadline_over(&limit))
                rc = 0;
            continue;
        }
        if (!begun) { /* another thread is about to take it */
            poll(NULL, 0, PERSIST_LOOK_MS);
            if (deadline_over(&limit))
                rc = dd_error(-ETIMEDOUT, "another thread saves a checkpoint");
            continue;
        }
        item.node = me.node;
        item.client = me.id;
        rc = ddict_put_if(d, PERSIST_KEY, PERSIST_KEY_LEN, &item, sizeof item, 0, version, &version,
                          -1);
        bool over = rc == 0;
        if (over)
            rc = checkpoint_save(d, id, &item, version);
        turn_end();
        if (over)
            return rc;
        if (rc == DDICT_ECHANGED)
            rc = 0;
    }
    return rc;
}

int persist_retiring(ddict_t *d, const struct session *s, uint64_t from, uint64_t to) {
    struct persist_text p;
    int rc = 0;
    if (s->status_page->persist[0] == 0 || persist_text_parse(s->status_page->persist, &p) < 0 ||
        p.freq == 0 || p.read_only)
        return 0;
    for (uint64_t id = (from + p.freq - 1) / p.freq * p.freq; rc == 0 && id < to; id += p.freq)
        rc = checkpoint_await(d, id);
    return rc;
}

/* --- one after another --- */

/* Which state comes next. */
static int next_find(ddict_t *d, uint64_t *next, int timeout_ms) {
    struct ddict_persistence p;
    uint64_t *ids;
    int64_t at;
    int rc = ddict_get_persistence(d, &p);
    if (rc == 0 && !p.read_only)
        rc = dd_error(-EINVAL,
                      "advance is for dictionaries that only read the states in %s: "
                      "--ddict-persist=DIR,read-only",
                      p.dir);
    rc = rc < 0 ? rc : at_read(d, &at, timeout_ms);
    ssize_t n = rc < 0 ? rc : persist_ids_read(p.dir, &ids), i = 0;
    if (n < 0)
        return (int)n;
    while (i < n && at >= 0 && ids[i] <= (uint64_t)at)
        i++;
    if (i == n)
        rc = at < 0 ? dd_error(-ENOENT, "there is no state in %s", p.dir)
                    : dd_error(-ENOENT, "state %" PRId64 " is the last one in %s", at, p.dir);
    else
        *next = at >= 0 && p.freq > 0 ? (uint64_t)at + p.freq : ids[i];
    free(ids);
    return rc;
}

int ddict_advance_begin(ddict_t *d, uint64_t *id, ddict_state_t **out) {
    uint64_t next;
    *out = NULL;
    int rc = next_find(d, &next, -1);
    if (id && rc == 0)
        *id = next;
    return rc < 0 ? rc : ddict_restore_begin(d, next, out);
}

int ddict_advance(ddict_t *d, int timeout_ms) {
    uint64_t next;
    int rc = next_find(d, &next, timeout_ms);
    return rc < 0 ? rc : ddict_restore(d, next, timeout_ms);
}
