/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_client.c - a process of a random run (model.py): any call of ddict.h on any key, each
 * answer compared with what model.h says it may be. model_client FILE WORKER, with DDICT_NAME and
 * DDICT_NODE. Ends with 0 when the run does, with 1 after a difference; what it says is on stderr.
 */
#include "model_client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

ddict_t *d;
ddict_async_t *async;
unsigned me;
int bad;
char *out;
static char *in; /* a value */
static ddict_sub_t *sub;
static struct ddict_info info;

struct key *key_at(unsigned slot, unsigned id) {
    static struct key *keys;
    if (!keys)
        keys = calloc(MANY + 2, sizeof *keys);
    keys[slot].id = id;
    keys[slot].len = model_name(id, keys[slot].name);
    return &keys[slot];
}

/* One of ours whose state is known, or -1. */
static int own_key(void) {
    for (int i = 0; i < 50; i++) {
        unsigned id = me * MODEL_KEYS + (unsigned)below(MODEL_KEYS);
        if (model_free(id))
            return (int)id;
    }
    return -1;
}

int some_ms(void) {
    switch (below(24)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return (int)below(30);
    default:
        return LONG_MS;
    }
}

uint32_t outcome(const char *what, unsigned id, int rc, int ms, unsigned flags, bool known,
                 bool there) {
    if (rc == 0) {
        if (known && ((flags & DDICT_NEW && there) || (flags & DDICT_EXISTING && !there)))
            found(model_wrong("%s of key %u, flags %x, was done, and it was %s", what, id, flags,
                              there ? "there" : "absent"));
        return MODEL_OK;
    }
    if (rc == DDICT_EFULL || rc == DDICT_EFROZEN) {
        model_count(rc == DDICT_EFULL ? "EFULL" : "EFROZEN", 1);
        return MODEL_FAILED;
    }
    if ((rc == DDICT_EEXISTS && flags & DDICT_NEW && (!known || there)) ||
        (rc == DDICT_ENOKEY && flags & DDICT_EXISTING && (!known || !there)))
        return MODEL_FAILED;
    if (rc == -ETIMEDOUT && ms < LONG_MS) {
        model_count("ETIMEDOUT", 1);
        return ms == 0 ? MODEL_FAILED : MODEL_UNKNOWN;
    }
    found(model_wrong("%s of key %u, flags %x, %d ms: %d %s", what, id, flags, ms, rc,
                      ddict_errmsg()));
    return MODEL_UNKNOWN;
}

static void read_failed(const char *what, unsigned id, int rc, int ms) {
    if (rc == -ETIMEDOUT && ms < LONG_MS)
        model_count("ETIMEDOUT", 1);
    else
        found(model_wrong("%s of key %u, %d ms: %d %s", what, id, ms, rc, ddict_errmsg()));
}

/* --- changes --- */

static int put_once(const struct key *k, uint64_t op, size_t len, unsigned flags, int ms,
                    const char **how) {
    struct ddict_place p;
    struct iovec v[4];
    int rc;
    switch (below(5)) {
    case 0:
        *how = "putv";
        model_fill(out, k->id, op, len);
        size_t a = below(len + 1), b = below(len - a + 1);
        v[0] = (struct iovec){out, a};
        v[1] = (struct iovec){out + a, b};
        v[2] = (struct iovec){NULL, 0};
        v[3] = (struct iovec){out + a + b, len - a - b};
        return ddict_putv(d, k->name, k->len, v, 4, flags, ms);
    case 1:
        *how = "commit";
        rc = ddict_reserve(d, k->name, k->len, len, flags, &p);
        if (rc < 0)
            return rc;
        model_fill(p.data, k->id, op, len);
        if (one_in(3)) {
            rc = ddict_commit_keep(&p, ms);
            ddict_abort(&p);
            return rc;
        }
        return ddict_commit(&p, ms);
    default:
        *how = "put";
        model_fill(out, k->id, op, len);
        return ddict_put(d, k->name, k->len, out, len, flags, ms);
    }
}

static void put_of(int id) {
    const struct key *k = key_at(0, (unsigned)id);
    unsigned flags = one_in(4) ? DDICT_NEW : one_in(4) ? DDICT_EXISTING : 0;
    size_t len = model_len(k->id, 1);
    int ms = some_ms();
    const char *how;
    bool there = model_there(k->id);
    uint64_t op = model_begin(k->id, MODEL_PUT, len, 0);
    int rc = put_once(k, op, len, flags, ms, &how);
    uint32_t state = outcome(how, k->id, rc, ms, flags, true, there);
    found(model_end(k->id, op, state));
    model_count(how, 1);
    /* calls of one thread take effect in its order */
    if (state == MODEL_UNKNOWN && one_in(2)) {
        len = model_len(k->id, 1);
        op = model_begin(k->id, MODEL_PUT, len, 0);
        rc = put_once(k, op, len, 0, LONG_MS, &how);
        found(model_end(k->id, op, outcome(how, k->id, rc, LONG_MS, 0, false, false)));
        model_count("put again", 1);
    }
}

static void put_one(void) {
    int id = own_key();
    if (id >= 0)
        put_of(id);
}

static void del_one(void) {
    int id = own_key(), ms = some_ms();
    if (id < 0)
        return;
    const struct key *k = key_at(0, (unsigned)id);
    bool there = model_there(k->id);
    uint64_t op = model_begin(k->id, MODEL_DEL, 0, 0);
    int rc = ddict_del(d, k->name, k->len, ms);
    found(model_end(k->id, op, outcome("del", k->id, rc, ms, DDICT_EXISTING, true, there)));
    model_count("del", 1);
}

static void pop_one(void) {
    int id = own_key(), ms = some_ms();
    if (id < 0)
        return;
    const struct key *k = key_at(0, (unsigned)id);
    bool there = model_there(k->id);
    uint64_t look = model_look(k->id), op = model_begin(k->id, MODEL_DEL, 0, 0);
    struct ddict_view v;
    unsigned flags = one_in(3) ? DDICT_SURE | DDICT_WAIT : 0;
    if (!there && flags != 0 && ms == LONG_MS)
        ms = 30;
    int rc = ddict_pop(d, k->name, k->len, &v, flags, ms);
    /* certainly nothing was popped */
    if ((rc == -ETIMEDOUT && !there) ||
        (rc == DDICT_ENOKEY && flags & DDICT_SURE && ms < LONG_MS)) {
        model_count("ETIMEDOUT", 1);
        found(model_end(k->id, op, MODEL_FAILED));
    } else {
        found(model_end(k->id, op, outcome("pop", k->id, rc, ms, DDICT_EXISTING, true, there)));
    }
    if (rc == 0)
        viewed("pop", k->id, look, &v);
    model_count("pop", 1);
}

unsigned own_keys(unsigned *ids, unsigned n) {
    unsigned found_n = 0;
    for (unsigned i = 0; i < n; i++) {
        int id = own_key();
        for (unsigned j = 0; id >= 0 && j < found_n; j++)
            if (ids[j] == (unsigned)id)
                id = -1;
        if (id >= 0)
            ids[found_n++] = (unsigned)id;
    }
    return found_n;
}

static void put_many(void) {
    unsigned ids[MANY], n = own_keys(ids, 1 + (unsigned)below(MANY)), kept = 0;
    struct ddict_pair pair[MANY];
    uint64_t op[MANY];
    bool there[MANY];
    size_t sum = 0;
    int ms = some_ms();
    for (unsigned i = 0; i < n; i++) {
        size_t len = model_len(ids[i], 1);
        if (sum + len > MODEL_VALUE_MAX)
            continue;
        const struct key *k = key_at(kept, ids[i]);
        there[kept] = model_there(k->id);
        op[kept] = model_begin(k->id, MODEL_PUT, len, 0);
        model_fill(out + sum, k->id, op[kept], len);
        pair[kept] = (struct ddict_pair){
            k->name, k->len, out + sum, len, one_in(8) ? DDICT_NEW : one_in(8) ? DDICT_EXISTING : 0,
            1};
        sum += len;
        kept++;
    }
    if (kept == 0)
        return;
    ssize_t rc = ddict_put_many(d, pair, kept, ms), stored = 0;
    for (unsigned i = 0; i < kept; i++) {
        int id = model_id(pair[i].key, pair[i].klen);
        int status = rc < 0 ? (int)rc : pair[i].status;
        stored += rc >= 0 && status == 0;
        if (status == -ECANCELED && rc >= 0 && ms < LONG_MS) {
            model_count("not sent", 1);
            found(model_end((unsigned)id, op[i], MODEL_FAILED));
            continue;
        }
        found(model_end(
            (unsigned)id, op[i],
            outcome("put_many", (unsigned)id, status, ms, pair[i].flags, true, there[i])));
    }
    if (rc >= 0 && stored != rc)
        found(model_wrong("put_many gave %zd, and %zd have status 0", rc, stored));
    model_count("put_many", kept);
}

/* --- reading --- */

static void get_one(void) {
    const struct key *k = key_at(0, any_key());
    size_t cap = one_in(4) ? below(70000) : MODEL_VALUE_MAX + 64, len = 0;
    unsigned tag = 0, flags = one_in(10) ? DDICT_WAIT : 0;
    int ms = flags ? (int)below(50) : some_ms();
    uint64_t look = model_look(k->id);
    int rc = ddict_get(d, k->name, k->len, in, cap, &len, &tag, flags, ms);
    if (rc == 0)
        found(model_seen(k->id, look, in, len, tag, 0, NULL, "get"));
    else if (rc == DDICT_ENOKEY)
        found(model_seen(k->id, look, NULL, 0, 0, 0, NULL, "get"));
    else if (rc == DDICT_ESMALL)
        found(len > cap ? model_seen_len(k->id, look, true, len, "get, too small")
                        : model_wrong("get: %zu bytes are too small for %zu", cap, len));
    else
        read_failed("get", k->id, rc, ms);
    model_count("get", 1);
}

static void view_one(void) {
    const struct key *k = key_at(0, any_key());
    unsigned flags = one_in(10) ? DDICT_WAIT : 0;
    int ms = flags ? (int)below(50) : some_ms();
    uint64_t look = model_look(k->id);
    struct ddict_view v;
    int rc = ddict_view(d, k->name, k->len, &v, flags, ms);
    if (rc == 0)
        viewed("view", k->id, look, &v);
    else if (rc == DDICT_ENOKEY)
        found(model_seen(k->id, look, NULL, 0, 0, 0, NULL, "view"));
    else
        read_failed("view", k->id, rc, ms);
    model_count("view", 1);
}

static void contains_one(void) {
    const struct key *k = key_at(0, any_key());
    size_t len = 0;
    int ms = some_ms();
    uint64_t look = model_look(k->id);
    int rc = ddict_contains(d, k->name, k->len, &len, ms);
    if (rc >= 0)
        found(model_seen_len(k->id, look, rc == 1, len, "contains"));
    else
        read_failed("contains", k->id, rc, ms);
    model_count("contains", 1);
}

static void get_many(void) {
    struct ddict_want want[MANY];
    unsigned n = 1 + (unsigned)below(MANY), ids[MANY];
    uint64_t look[MANY];
    int ms = some_ms();
    for (unsigned i = 0; i < n; i++) {
        const struct key *k = key_at(i, ids[i] = any_key());
        want[i] = (struct ddict_want){.key = k->name, .klen = k->len, .status = 1};
        look[i] = model_look(k->id);
    }
    ssize_t rc = ddict_get_many(d, want, n, 0, ms), got = 0;
    if (rc < 0) {
        read_failed("get_many", ids[0], (int)rc, ms);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        if (want[i].status == 0) {
            got++;
            viewed("get_many", ids[i], look[i], &want[i].view);
        } else if (want[i].status == DDICT_ENOKEY) {
            found(model_seen(ids[i], look[i], NULL, 0, 0, 0, NULL, "get_many"));
        } else {
            read_failed("get_many", ids[i], want[i].status, ms);
        }
    }
    if (got != rc)
        found(model_wrong("get_many gave %zd, and %zd have status 0", rc, got));
    model_count("get_many", n);
}

static void list_keys(void) {
    ddict_iter_t *it;
    char prefix[8];
    int which = (int)below(3), worker = (int)below(MODEL_WORKERS),
        manager = which == 1 ? (int)below(info.managers + 1) - 1 : -1;
    uint8_t of[MODEL_ALL];
    static char name[MODEL_KEY_MAX];
    const void *key;
    size_t klen;
    if (manager == -1 && which == 1)
        manager = -2;
    for (unsigned id = 0; id < MODEL_ALL; id++) {
        unsigned m = ddict_owner(d, name, model_name(id, name));
        of[id] = manager == -1 ||
                 (manager == -2 ? m % info.nodes == info.node_id : m == (unsigned)manager);
    }
    model_list();
    int n = snprintf(prefix, sizeof prefix, "bm%d/", worker);
    int rc = which == 2 ? ddict_iter_open_prefix(d, manager, prefix, (size_t)n, &it, LONG_MS)
                        : ddict_iter_open(d, manager, &it, LONG_MS);
    if (rc < 0) {
        read_failed("iter_open", 0, rc, LONG_MS);
        return;
    }
    bool whole = true;
    while ((rc = ddict_iter_next(it, &key, &klen)) == 1) {
        int id = model_id(key, klen);
        model_listed(id);
        if (which == 2 && (id < 0 || id / MODEL_KEYS != worker))
            found(model_wrong("a key was listed that has not the prefix %s", prefix));
        if (one_in(4000)) { /* closed in the middle */
            whole = false;
            break;
        }
    }
    ddict_iter_close(it);
    if (rc < 0)
        read_failed("iter_next", 0, rc, LONG_MS);
    else if (whole)
        found(model_list_end(which == 2 ? worker : -1, of,
                             which == 2      ? "list of a prefix"
                             : manager == -1 ? "list"
                                             : "list of managers"));
    model_count("list", 1);
}

static void ask_things(void) {
    struct ddict_manager_stats *s;
    int64_t n = ddict_len(d, LONG_MS);
    if (n < 0 || n > MODEL_ALL + MODEL_QUEUES)
        found(model_wrong("len: %lld %s", (long long)n, n < 0 ? ddict_errmsg() : ""));
    int rc = ddict_stats(d, &s, sizeof *s, LONG_MS);
    if (rc != (int)info.managers) {
        found(model_wrong("stats: %d %s", rc, ddict_errmsg()));
    } else {
        for (int i = 0; i < rc; i++)
            if (s[i].state != 0 || s[i].total_used_bytes > s[i].total_bytes)
                found(model_wrong("stats of manager %d: state %d, %llu of %llu bytes used", i,
                                  s[i].state, (unsigned long long)s[i].total_used_bytes,
                                  (unsigned long long)s[i].total_bytes));
        free(s);
    }
    rc = ddict_ending(d);
    if (rc != 0)
        found(model_wrong("ending: %d %s", rc, ddict_errmsg()));
    model_count("len, stats", 1);
}

/* --- events --- */

static void subscribe(void) {
    unsigned flags = (one_in(2) ? DDICT_SUB_DELS : 0) | (one_in(2) ? DDICT_SUB_VALUES : 0) |
                     (one_in(4) ? DDICT_SUB_THERE : 0);
    ddict_unsubscribe(sub);
    sub = NULL;
    model_sub_before();
    int rc = ddict_subscribe(d, "bm", 2, flags, &sub, LONG_MS);
    if (rc < 0)
        found(model_wrong("subscribe: %d %s", rc, ddict_errmsg()));
    else
        model_sub_after(flags & DDICT_SUB_DELS);
    model_count("subscribe", 1);
}

/* Up to n events; how many came. */
static unsigned listen(unsigned n, int ms) {
    struct ddict_event e;
    for (unsigned i = 0; i < n && !bad; i++) {
        int rc = ddict_next_event(sub, &e, ms);
        if (rc < 0)
            found(model_wrong("next_event: %d %s", rc, ddict_errmsg()));
        if (rc != 1)
            return i;
        if (e.kind == DDICT_EVENT_MISSED) {
            model_count("missed", 1);
            subscribe();
        } else if (e.kind != DDICT_EVENT_CLEAR) {
            found(model_event(e.kind, e.key, e.klen, e.val, e.vlen, e.vlen, e.tag, e.version));
            model_count("event", 1);
        }
    }
    return n;
}

/* --- the rest --- */

static void freeze(void) {
    int rc = ddict_freeze(d, LONG_MS);
    if (rc < 0) {
        found(model_wrong("freeze: %d %s", rc, ddict_errmsg()));
        return;
    }
    struct iovec want[MANY];
    unsigned n = (unsigned)below(MANY);
    for (unsigned i = 0; i < n; i++) {
        struct key *k = key_at(i, any_key());
        want[i] = (struct iovec){k->name, k->len};
    }
    ssize_t k = ddict_prefetch(d, want, n, LONG_MS);
    if (k < 0)
        found(model_wrong("prefetch: %zd %s", k, ddict_errmsg()));
    for (uint64_t end = model_now() + below(300) * 1000000; model_now() < end && !bad;)
        switch (below(3)) {
        case 0:
            view_one();
            break;
        case 1:
            get_many();
            break;
        default:
            get_one();
        }
    rc = ddict_unfreeze(d, LONG_MS);
    if (rc < 0)
        found(model_wrong("unfreeze: %d %s", rc, ddict_errmsg()));
    model_count("freeze", 1);
}

/* Frozen by one that was killed before it could end that. */
static void thaw(void) {
    static uint64_t since;
    if (ddict_is_frozen(d) != 1) {
        since = 0;
    } else if (since == 0) {
        since = model_now();
    } else if (model_now() - since > 2000000000ull) {
        int rc = ddict_unfreeze(d, LONG_MS);
        if (rc < 0)
            found(model_wrong("unfreeze: %d %s", rc, ddict_errmsg()));
        since = 0;
    }
}

static void other_handle(void) {
    ddict_t *mine = d;
    int rc = ddict_attach(&d, NULL, LONG_MS);
    if (rc < 0) {
        found(model_wrong("attach: %d %s", rc, ddict_errmsg()));
        d = mine;
        return;
    }
    for (int i = 0; i < 5; i++) {
        view_one();
        put_one();
        get_many();
    }
    ddict_detach(d);
    d = mine;
    model_count("attach", 1);
}

enum { CHILD_OK, CHILD_BAD, CHILD_REFUSED, CHILD_UNKNOWN };

static int in_child(const struct key *k, uint64_t op, size_t len) {
    model_doing("child");
    if (one_in(2))
        let_all_go();
    for (int i = 0; i < 3; i++) {
        view_one();
        get_many();
    }
    listen(50, 0);
    model_fill(out, k->id, op, len);
    int rc = ddict_put(d, k->name, k->len, out, len, 0, LONG_MS);
    get_one();
    let_all_go();
    uint32_t state = outcome("put in a child", k->id, rc, LONG_MS, 0, false, false);
    if (one_in(2))
        ddict_detach(d);
    return bad                     ? CHILD_BAD
           : state == MODEL_OK     ? CHILD_OK
           : state == MODEL_FAILED ? CHILD_REFUSED
                                   : CHILD_UNKNOWN;
}

static void fork_one(void) {
    int id = own_key(), status = 0;
    if (id < 0)
        return;
    pid_t parent = getpid();
    uint64_t next = model_random(); /* else the child draws the same numbers */
    const struct key *k = key_at(MANY, (unsigned)id);
    size_t len = model_len(k->id, 4);
    uint64_t op = model_begin(k->id, MODEL_PUT, len, 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(CHILD_UNKNOWN);
        for (next %= 7; next > 0; next--)
            model_random();
        _exit(in_child(k, op, len));
    }
    if (child < 0) {
        found(model_end(k->id, op, MODEL_FAILED));
        return;
    }
    for (int i = 0; i < 3; i++) {
        get_one();
        get_many();
        put_one();
    }
    uint64_t end = model_now() + 150 * 1000000000ull;
    while (waitpid(child, &status, WNOHANG) == 0) {
        usleep(2000);
        model_phase();
        if (model_now() > end) {
            found(model_wrong("the child %d does not end", (int)child));
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
        }
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code != CHILD_OK && code != CHILD_REFUSED && code != CHILD_UNKNOWN)
        found(model_wrong("the child ended with status %x", status));
    found(model_end(k->id, op,
                    code == CHILD_OK        ? MODEL_OK
                    : code == CHILD_REFUSED ? MODEL_FAILED
                                            : MODEL_UNKNOWN));
    model_count("fork", 1);
}

static void settle(bool wait) {
    for (unsigned i = 0; i < MODEL_KEYS; i++) {
        unsigned id = me * MODEL_KEYS + i;
        while (wait && !model_free(id) && !model_due(id) && !bad) {
            usleep(10000);
            model_phase();
        }
        if (!model_due(id))
            continue;
        const struct key *k = key_at(MANY + 1, id);
        struct ddict_view v;
        int rc = ddict_view(d, k->name, k->len, &v, 0, LONG_MS);
        if (rc == 0) {
            found(model_settled(id, v.data, v.len, v.tag));
            ddict_release(&v);
        } else if (rc == DDICT_ENOKEY) {
            found(model_settled(id, NULL, 0, 0));
        } else {
            read_failed("settling view", id, rc, LONG_MS);
        }
        model_count("settled", 1);
    }
}

/* Nobody changes anything: all is as it should be, and every event has come. Worker 0 empties the
 * queues. */
static void audit(void) {
    static char owed[700];
    let_all_go();
    for (uint64_t end = model_now() + 60 * 1000000000ull;
         model_sub_owed(owed, sizeof owed) != 0 && !bad;) {
        if (listen(1000, 500) == 0 && model_now() > end)
            found(model_wrong("event: %s", owed));
        model_phase();
    }
    for (unsigned id = 0; id < MODEL_ALL && !bad; id++) {
        const struct key *k = key_at(0, id);
        struct ddict_view v;
        uint64_t look = model_look(id);
        int rc = ddict_view(d, k->name, k->len, &v, 0, LONG_MS);
        if (rc == 0) {
            found(model_seen(id, look, v.data, v.len, v.tag, v.version, NULL, "audit"));
            ddict_release(&v);
        } else if (rc == DDICT_ENOKEY) {
            found(model_seen(id, look, NULL, 0, 0, 0, NULL, "audit"));
        } else {
            read_failed("audit", id, rc, LONG_MS);
        }
        model_phase();
    }
    list_keys();
    if (me == 0 && !bad) {
        if (ddict_is_frozen(d) == 1)
            ddict_unfreeze(d, LONG_MS);
        for (unsigned q = 0; q < MODEL_QUEUES; q++) {
            while (!bad && take_one(q, 0, LONG_MS) == 0)
                model_phase();
            found(model_queue_audit(q));
        }
        int64_t n = ddict_len(d, LONG_MS);
        if (n != (int64_t)model_present())
            found(model_wrong("len is %lld, and %llu keys are there", (long long)n,
                              (unsigned long long)model_present()));
    }
}

static const struct {
    const char *name;
    void (*run)(void);
    unsigned weight;
} calls[] = {
    {"put", put_one, 30},          {"del", del_one, 6},         {"pop", pop_one, 6},
    {"put_many", put_many, 3},     {"get", get_one, 14},        {"view", view_one, 14},
    {"contains", contains_one, 6}, {"get_many", get_many, 3},   {"list", list_keys, 1},
    {"len", ask_things, 1},        {"push", push_one, 10},      {"take", take_any, 6},
    {"async", async_some, 3},      {"attach", other_handle, 1}, {"fork", fork_one, 1},
};

static void rare(void) {
    if (one_in(3000)) {
        model_doing("freeze");
        freeze();
    }
    if (one_in(400)) {
        model_doing("subscribe");
        subscribe();
    }
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    me = (unsigned)atoi(argv[2]);
    model_open(argv[1], (int)me, 0);
    out = malloc(MODEL_VALUE_MAX + 64);
    in = malloc(MODEL_VALUE_MAX + 64);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        sum += calls[i].weight;
    model_doing("attach");
    int rc = ddict_attach(&d, NULL, LONG_MS);
    if (rc == 0)
        rc = ddict_get_info(d, &info);
    if (rc == 0)
        rc = ddict_async_open(d, &async);
    if (rc < 0) {
        model_wrong("attach: %d %s", rc, ddict_errmsg());
        return 1;
    }
    subscribe();
    uint64_t settled = 0, audited = 0;
    while (!bad) {
        uint64_t phase = model_phase(), round = model_round();
        if (phase == MODEL_END)
            break;
        if (phase != MODEL_RUN) {
            model_doing(phase == MODEL_SETTLE ? "settle" : "audit");
            if (phase == MODEL_SETTLE && settled != round) {
                settle(true);
                settled = round;
            } else if (phase == MODEL_AUDIT && audited != round) {
                audit();
                audited = round;
            }
            if (!bad)
                model_reached(phase, round);
            listen(100, 20);
            continue;
        }
        model_doing("events");
        listen(200, 0);
        thaw();
        settle(false);
        if (one_in(3))
            let_one_go();
        rare();
        unsigned r = (unsigned)below(sum), i = 0;
        while (r >= calls[i].weight)
            r -= calls[i++].weight;
        model_doing(calls[i].name);
        calls[i].run();
    }
    if (bad)
        return 1;
    let_all_go();
    ddict_unsubscribe(sub);
    ddict_async_close(async);
    ddict_detach(d);
    free(in);
    free(out);
    model_reached(MODEL_END, 0);
    return 0;
}
