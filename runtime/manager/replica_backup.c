/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica_backup.c - the shadow of an owner while it is the backup. A change that finds no room yet
 * is kept, and its connection paused, until the store has made some: the order stays. If there is
 * none, an ACK says so, and what still comes by that connection is dropped.
 */
#include "replica_backup.h"

#include "peer_server.h"
#include "record_rate.h"
#include "requester.h"
#include "results.h"
#include "rooms.h"
#include "rules.h"
#include "subscriptions.h"
#include "supmsg.h"
#include <base/error.h>
#include <base/hash.h>
#include <base/log.h>
#include <base/shadow.h>
#include <wire/conn.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* between two ACKs that only say that a long value is being taken, or that there is no room yet */
#define ALIVE_NS (DD_BACKUP_LOST_MS * 1000000ull / 8)

/* more than a primary has given since its last REPL */
#define VERSIONS_ANEW (1ull << 32)

struct later { /* a change that waits for room */
    struct msg m;
    uint8_t payload[];
};
struct replica_in { /* a connection of the primary */
    struct replica_in *next;
    struct replica_backup *b;
    struct conn *conn;
    bool up, gone, paused;
    bool synced;    /* SYNC was taken */
    bool waits_map; /* it is of a newer epoch than the map here */
    bool over;      /* a change found no room: the primary goes on without this backup */
    bool anew;      /* SYNC has NEW: the store is to be filled, unless it is whole already */
    bool fills_all; /* it is being filled by this connection */
    uint32_t peer;
    uint64_t epoch; /* of SYNC */
    /* changes carried out; those of them that were acknowledged, and when */
    uint64_t done, told, told_ns;
    bool heard; /* a piece of a value has come since */
    /* the value that comes in pieces, or is complete and not on disk yet */
    bool fills;
    bool passes; /* or is here already, and is dropped */
    struct msg req;
    struct store_ref ref;
    uint64_t got;
    struct later *later;
    bool room_waits; /* until the spill makes progress; what waits is not tried before */
    uint64_t scan, since;
};
struct replica_backup {
    struct manager *m;
    bool serves; /* it was promoted */
    /* the map of its owner; primary SHADOW_NONE: it is not known yet */
    uint64_t epoch;
    uint32_t primary, backup;
    struct replica_in *in;
    /* of the last connection of the primary: an older one may come up late */
    uint32_t life;
    uint64_t group;
};

bool replica_backup_is(const struct manager *m) {
    return m->backup && !m->backup->serves;
}

/* It has all that the primary has. */
static bool is_whole(const struct manager *m) {
    return !m->setup->page->filling && (!m->setup->fills || m->setup->page->filled);
}

/* --- a connection --- */
static void in_pause(struct replica_in *in, bool paused) {
    if (in->paused != paused)
        conn_pause(in->conn, paused);
    in->paused = paused;
}

static void in_end(struct replica_in *in) {
    in->gone = in->b->m->reap = true;
}

static void ack_send(struct replica_in *in, int status) {
    struct msg r = {.type = MSG_ACK, .manager = in->b->m->setup->id, .status = status};
    r.aux = in->done;
    if (conn_send(in->conn, &r, NULL, 0, NULL, 0, NULL, NULL) < 0)
        in_end(in);
    in->told = in->done;
    in->told_ns = in->b->m->now;
    in->heard = false;
}

/* It cannot be carried out: the copy is not one any more. */
static void in_fail(struct replica_in *in, int code) {
    log_warn("the backup of manager %u can not go on: %s", in->b->m->setup->id,
             code == DDICT_EFULL ? dd_errmsg() : dd_strerror(code));
    in->over = true;
    ack_send(in, code);
}

static void value_drop(struct replica_in *in) {
    if (in->fills)
        store_abort(in->b->m->store, &in->ref);
    in->fills = false;
}

/* --- changes --- */
/* A later life that finds it made, and no result, writes that (LAYOUT I24). */
static void change_begin(struct replica_in *in, const struct msg *r) {
    results_note(in->b->m, r->manager, r->id, r->rule);
}

static void change_done(struct replica_in *in, const struct msg *r, uint64_t version,
                        const struct store_ref *popped) {
    if (faults.on)
        faults_step(STEP_CHANGED);
    if (r->id)
        results_enter(in->b->m, r->manager, r->id, version, popped);
    in->done++;
}

/* The primary does not know whether it was carried out: it was, if the key has not as many values as
 * before it. */
static bool is_made(struct replica_in *in, const struct msg *r, const uint8_t *key) {
    struct store *s = in->b->m->store;
    struct store_queue q;
    struct store_ref first;
    if (r->aux == 0 || in->fills_all) /* then all of the key follows */
        return false;
    store_queue_look(s, key, r->key_len, key_hash(key, r->key_len), &q);
    return (store_find(s, key, r->key_len, &first) == 0) + q.more != r->aux - 1;
}

/* Its result is here, too. */
static int change_kept(struct replica_in *in) {
    in->done++;
    return TAKE_DONE;
}

/* The store makes room: in a later turn, for a while. */
static int room_made(struct replica_in *in) {
    struct manager *m = in->b->m;
    if (!in->since)
        in->since = m->now;
    if (m->now - in->since < DD_COMPACT_WAIT_MS * 1000000ull)
        return TAKE_LATER;
    store_reserve_late(m->store);
    in->since = 0;
    return DDICT_EFULL;
}

/* As its primary has it, in place of all that is here of its key. */
static int item_commit(struct replica_in *in) {
    struct store *s = in->b->m->store;
    const struct item *it = in->ref.item;
    struct store_queue q;
    if (in->req.aux > 0)
        return store_queue_push_as(s, &in->ref);
    int e = store_queue_look(s, it->key, it->key_len, it->hash, &q)
                ? store_remove(s, it->key, it->key_len, NULL)
                : 0;
    return e < 0 && e != DDICT_ENOKEY ? e : store_commit_as(s, &in->ref, in->req.version);
}

/* What a request has taken is kept for who may ask again; it has no place in the index. */
static int result_commit(struct replica_in *in) {
    struct manager *m = in->b->m;
    const struct msg *r = &in->req;
    const struct result of = {.id = r->id, .version = r->version};
    int e = store_filled(m->store, &in->ref);
    if (e == -EAGAIN)
        return manager_waits_for_room(m);
    if (e < 0)
        return e;
    results_copy(m, r->manager, &of, &in->ref, false);
    value_drop(in);
    in->done++;
    return TAKE_DONE;
}

static int value_commit(struct replica_in *in) {
    struct store *s = in->b->m->store;
    const struct item *it = in->ref.item;
    struct store_ref first;
    uint64_t version = 0;
    if (in->req.status == REPL_RESULT)
        return result_commit(in);
    bool behind = in->req.status == REPL_APPEND &&
                  store_find(s, it->key, it->key_len, &first) != DDICT_ENOKEY;
    store_version_reach(s, in->req.version);
    change_begin(in, &in->req);
    int e = in->req.status == REPL_ITEM ? item_commit(in)
            : behind                    ? store_queue_push(s, &in->ref)
                                        : store_commit(s, &in->ref, STORE_ANY, &version);
    if (e == -EINPROGRESS && !in->ref.fill)
        return room_made(in);
    if (e < 0)
        return e;
    in->since = 0;
    in->fills = false;
    change_done(in, &in->req, rule_version(in->req.rule, it, version), NULL);
    return TAKE_DONE;
}

/* The first `got` bytes of the value are here. */
static int value_filled(struct replica_in *in) {
    int e = store_fill(in->b->m->store, &in->ref, in->got);
    if (e == -EAGAIN)
        return manager_waits_for_room(in->b->m);
    return e < 0 || in->got < in->req.val_len ? e : value_commit(in);
}

static int value_reserve(struct replica_in *in, const struct msg *r, const uint8_t *key) {
    struct manager *m = in->b->m;
    int e = store_reserve_again(m->store, key, r->key_len, r->val_len, r->tag, &in->ref, &in->scan);
    if (e == -EINPROGRESS)
        return room_made(in);
    if (e == -EAGAIN)
        return manager_waits_for_room(m);
    in->since = in->scan = 0;
    if (e == 0 && r->flags & MSGF_LOADED)
        store_mark_loaded(&in->ref);
    if (e == 0 && r->flags & MSGF_LINK) {
        store_mark_link(&in->ref);
        m->linked = true;
    }
    return e;
}

static int repl_value(struct replica_in *in, const struct msg *r, const uint8_t *payload) {
    bool made = is_made(in, r, payload);
    if (made && !(r->flags & MSGF_STREAM))
        return change_kept(in);
    int e = made ? 0 : value_reserve(in, r, payload);
    if (e != 0)
        return e;
    in->fills = !made;
    in->passes = made;
    in->req = *r;
    in->got = 0;
    if (r->flags & MSGF_STREAM)
        return TAKE_DONE;
    memcpy(in->ref.value, payload + r->key_len, r->val_len);
    in->got = r->val_len;
    return value_filled(in);
}

/* The primary has removed it, and this one has not got it yet. Versions go on in step, so that a later
 * one here is never lower than there (PROTOCOL 2, Rules). */
static void removed_there(struct store *s) {
    store_version_reach(s, store_header(s)->version + 1);
}

static int repl_pop(struct replica_in *in, const struct msg *r, const uint8_t *key) {
    struct store *s = in->b->m->store;
    struct store_ref ref, next;
    if (is_made(in, r, key))
        return change_kept(in);
    int e = store_pop(s, key, r->key_len, &ref, &next);
    bool later = e == DDICT_ENOKEY && in->fills_all; /* RESULT says what it took */
    if (e < 0 && !later)
        return e;
    change_done(in, r, 0, later ? NULL : &ref);
    if (later)
        removed_there(s);
    else
        store_unpin(s, ref.off);
    return TAKE_DONE;
}

static int repl_del(struct replica_in *in, const struct msg *r, const uint8_t *key) {
    struct store *s = in->b->m->store;
    struct store_queue q;
    int e = store_remove(s, key, r->key_len, NULL);
    if (e == DDICT_ENOKEY)
        removed_there(s);
    /* of a key whose values were not copied yet its limit may be here */
    if (e == DDICT_ENOKEY && store_queue_look(s, key, r->key_len, key_hash(key, r->key_len), &q))
        e = store_queue_limit(s, key, r->key_len, 0);
    if (e < 0 && e != DDICT_ENOKEY)
        return e;
    change_done(in, r, 0, NULL);
    return TAKE_DONE;
}

static int repl_clear(struct replica_in *in, const struct msg *r, const uint8_t *key) {
    int e = store_clear(in->b->m->store);
    if (e == 0)
        change_done(in, r, 0, NULL);
    return e;
}

static int repl_limit(struct replica_in *in, const struct msg *r, const uint8_t *key) {
    struct store *s = in->b->m->store;
    struct store_queue q;
    bool none = r->aux == 0 && !store_queue_look(s, key, r->key_len, key_hash(key, r->key_len), &q);
    int e = none ? 0 : store_queue_limit(s, key, r->key_len, r->aux);
    in->done += e == 0;
    return e;
}

static int repl_took(struct replica_in *in, const struct msg *r, const uint8_t *key) {
    results_leave(in->b->m, r->manager, r->id);
    in->done++;
    return TAKE_DONE;
}

static int repl_result(struct replica_in *in, const struct msg *r, const uint8_t *payload) {
    const struct result of = {.id = r->id, .version = r->version};
    if (r->key_len > 0)
        return repl_value(in, r, payload);
    results_copy(in->b->m, r->manager, &of, NULL, r->aux != 0);
    in->done++;
    return TAKE_DONE;
}

static int repl_whole(struct replica_in *in, const struct msg *r, const uint8_t *payload) {
    struct manager_page *page = in->b->m->setup->page;
    page->filled = in->epoch;
    page->filling = in->fills_all = false;
    in->done++;
    return TAKE_DONE;
}

static const struct repl_row {
    bool key, value;
    /* results as of request_take(); negative: it cannot be done */
    int (*take)(struct replica_in *in, const struct msg *r, const uint8_t *payload);
} rows[] = {
    [REPL_PUT] = {true, true, repl_value},     [REPL_APPEND] = {true, true, repl_value},
    [REPL_POP] = {true, false, repl_pop},      [REPL_DEL] = {true, false, repl_del},
    [REPL_CLEAR] = {false, false, repl_clear}, [REPL_LIMIT] = {true, false, repl_limit},
    [REPL_TOOK] = {false, false, repl_took},   [REPL_ITEM] = {true, true, repl_value},
    [REPL_RESULT] = {true, true, repl_result}, [REPL_WHOLE] = {false, false, repl_whole},
};

/* msg_check() knows that there is such a row. */
static bool repl_good(const struct replica_in *in, const struct msg *r) {
    const struct repl_row *row = &rows[r->status];
    if (r->status >= REPL_ITEM && !in->fills_all)
        return false;
    if (r->status == REPL_RESULT && (r->id == 0 || (r->key_len == 0 && r->len > MSG_HEADER)))
        return false;
    bool key = row->key && (r->status != REPL_RESULT || r->key_len > 0);
    return in->synced && !in->fills && !in->passes && (r->key_len > 0) == key &&
           (row->value || (r->val_len == 0 && !(r->flags & MSGF_STREAM))) &&
           (r->id == 0 || (r->manager < in->b->m->setup->managers && in->b->m->setup->results));
}

static int repl_take(struct replica_in *in, const struct msg *r, const uint8_t *payload) {
    if (!rows[r->status].value) { /* of a value when it is published */
        store_version_reach(in->b->m->store, r->version);
        change_begin(in, r);
    }
    return rows[r->status].take(in, r, payload);
}

static int later_keep(struct replica_in *in, const struct msg *r, const void *payload) {
    struct later *l = malloc(sizeof *l + r->len - MSG_HEADER);
    if (!l)
        return -ENOMEM;
    l->m = *r;
    memcpy(l->payload, payload, r->len - MSG_HEADER);
    in->later = l;
    return 0;
}

/* e: of a change that was tried, its message r if that is to be tried again as a whole, or NULL. */
static void change_tried(struct replica_in *in, int e, const struct msg *r, const void *payload) {
    if (e > 0 && r && !in->fills && !in->later)
        e = later_keep(in, r, payload) < 0 ? -ENOMEM : e;
    in->room_waits = e == TAKE_STALL;
    if (e <= 0 || in->fills) { /* it is done, or its value is in the block */
        free(in->later);
        in->later = NULL;
    }
    if (e < 0) {
        value_drop(in);
        in_fail(in, e);
    }
    in_pause(in, e > 0);
}

static int data_take(struct replica_in *in, const struct msg *r, const uint8_t *payload) {
    uint32_t len = r->len - MSG_HEADER;
    bool last = r->flags & MSGF_LAST;
    if (!(in->fills || in->passes) || r->status < 0 || r->aux != in->got ||
        len > in->req.val_len - in->got || last != (in->got + len == in->req.val_len))
        return DDICT_EPROTO;
    if (in->fills && payload != in->ref.value + in->got)
        memcpy(in->ref.value + in->got, payload, len);
    in->got += len;
    in->heard = true;
    if (in->passes) {
        in->passes = !last;
        in->done += last;
        return 0;
    }
    change_tried(in, value_filled(in), NULL, NULL);
    return 0;
}

/* --- SYNC --- */
/* All is gone: what is here was never a primary's. */
static int all_drop(struct manager *m) {
    m->setup->page->filling = true;
    m->setup->page->filled = 0;
    m->setup->page->cleared = false;
    results_empty(m);
    store_begin(m->store, NULL);
    return store_clear(m->store);
}

/* The copy begins, or goes on where it was whole in this epoch already: that may be in the map soon. */
static int sync_done(struct replica_in *in) {
    struct manager *m = in->b->m;
    bool whole = is_whole(m);
    in->synced = true;
    if (!in->anew)
        return whole ? 0 : -ESTALE;
    whole &= m->setup->page->filled == in->epoch;
    int e = whole ? 0 : all_drop(m);
    if (e < 0)
        in_fail(in, e);
    in->fills_all = !whole;
    if (e == 0)
        ack_send(in, whole);
    return 0;
}

/* Its epoch against that of the map. 0, or why the connection ends. */
static int sync_judge(struct replica_in *in) {
    struct replica_backup *b = in->b;
    bool ours = b->backup == b->m->setup->identity.self && b->primary == in->peer;
    in->waits_map = in->epoch > b->epoch;
    if (!in->waits_map && (in->epoch < b->epoch || !ours))
        return -ESTALE;
    in_pause(in, in->waits_map);
    return in->waits_map || in->synced ? 0 : sync_done(in);
}

static int sync_take(struct replica_in *in, const struct msg *r) {
    if (in->synced || r->manager != in->b->m->setup->id)
        return DDICT_EPROTO;
    in->epoch = r->aux;
    in->anew = r->flags & MSGF_NEW;
    return sync_judge(in);
}

/* --- messages --- */
static void *in_payload_to(struct conn *c, void *arg, const struct msg *r) {
    const struct replica_in *in = arg;
    bool fits = in->fills && !in->over && r->type == MSG_DATA && r->aux == in->got &&
                r->len - MSG_HEADER <= in->req.val_len - in->got;
    return fits ? in->ref.value + in->got : NULL;
}

static int in_message(struct conn *c, void *arg, const struct msg *r, void *payload) {
    struct replica_in *in = arg;
    if (in->gone)
        return -ECONNRESET;
    if (in->over)
        return 0;
    switch (r->type) {
    case MSG_SYNC:
        return sync_take(in, r);
    case MSG_REPL:
        if (!repl_good(in, r))
            return DDICT_EPROTO;
        change_tried(in, repl_take(in, r, payload), r, payload);
        return 0;
    case MSG_DATA:
        return data_take(in, r, payload);
    default:
        return DDICT_EPROTO;
    }
}

static void in_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct replica_in *in = arg;
    struct replica_backup *b = in->b;
    uint32_t life = conn_life(c);
    uint64_t group = conn_group(c);
    /* who asks for keys tries again when this is the primary */
    if (role != ROLE_REPLICA || peer != b->primary || life < b->life ||
        (life == b->life && group < b->group)) {
        in_end(in);
        return;
    }
    b->life = life;
    b->group = group;
    in->peer = peer;
    in->up = true;
    in->told_ns = b->m->now;
    for (struct replica_in *i = b->in; i; i = i->next)
        if (i != in && i->up)
            in_end(i);
}

static void in_down(struct conn *c, void *arg, int code) {
    struct replica_in *in = arg;
    if (in->up)
        log_line(in->b->m->ending ? LOG_LVL_DEBUG : LOG_LVL_WARN,
                 "the connection of manager %u to its backup has ended: %s", in->b->m->setup->id,
                 dd_strerror(code));
    else
        note_refused(in->b->m, code);
    in_end(in);
}

static const struct conn_ops in_ops = {
    .up = in_up, .payload_to = in_payload_to, .message = in_message, .down = in_down};

/* --- who is there --- */
static void replica_accept(struct io_handler *h, uint32_t events) {
    struct manager *m = (struct manager *)(void *)((char *)h - offsetof(struct manager, listener));
    int fd;
    while ((fd = conn_take(h->fd)) >= 0) {
        struct replica_in *in = calloc(1, sizeof *in);
        if (!in) {
            close(fd);
            return;
        }
        in->b = m->backup;
        if (conn_accept(&in->conn, m->epoll_fd, &m->setup->identity, fd, &in_ops, in) < 0) {
            free(in);
            continue;
        }
        in->next = m->backup->in;
        m->backup->in = in;
        manager_ticks(m);
    }
}

int replica_backup_listen(struct manager *m) {
    m->listener = (struct io_handler){.fd = m->setup->listen_fd, .ready = replica_accept};
    return io_add(m->epoll_fd, &m->listener, EPOLLIN);
}

static void in_free(struct replica_in *in) {
    conn_free(in->conn); /* first: then nothing more is received into the block */
    value_drop(in);
    free(in->later);
    free(in);
}

static void in_free_all(struct replica_backup *b) {
    while (b->in) {
        struct replica_in *in = b->in;
        b->in = in->next;
        in_free(in);
    }
}

void replica_backup_reap(struct manager *m) {
    for (struct replica_in **at = m->backup ? &m->backup->in : NULL; at && *at;) {
        struct replica_in *in = *at;
        if (!in->gone) {
            at = &in->next;
            continue;
        }
        *at = in->next;
        in_free(in);
    }
}

bool replica_backup_tick(struct manager *m) {
    bool more = false;
    for (struct replica_in *in = m->backup ? m->backup->in : NULL; in; in = in->next) {
        if (in->up || in->gone)
            continue;
        conn_tick(in->conn, m->now);
        more |= !in->up && !in->gone;
    }
    return more;
}

/* --- turns --- */
void replica_backup_look(struct manager *m) {
    for (struct replica_in *in = m->backup ? m->backup->in : NULL; in; in = in->next)
        in->room_waits = false;
}

/* What waited for room. */
static void in_again(struct replica_in *in) {
    if (in->later)
        change_tried(in, repl_take(in, &in->later->m, in->later->payload), &in->later->m, NULL);
    else
        change_tried(in, value_filled(in), NULL, NULL);
}

bool replica_backup_turn(struct manager *m) {
    bool more = false;
    for (struct replica_in *in = m->backup ? m->backup->in : NULL; in; in = in->next) {
        if (in->gone || in->over || !in->synced)
            continue;
        if (in->paused && !in->room_waits)
            in_again(in);
        bool alive = (in->paused || in->heard) && m->now - in->told_ns > ALIVE_NS;
        if (!in->over && (in->done != in->told || alive))
            ack_send(in, 0);
        more |= in->paused && !in->room_waits;
    }
    return more;
}

/* --- the map --- */
/* It must not: ddictd is told, and says what is lost. */
static void promotion_refuse(struct manager *m) {
    static struct sup_msg s;
    memset(&s, 0, sizeof s);
    s.type = SUP_READY;
    s.status = DDICT_ELOST;
    snprintf(s.text, sizeof s.text, "it has not got all keys of manager %u", m->setup->id);
    log_error("the backup on %s is to serve, and %s", m->setup->node, s.text);
    manager_tell(m, &s);
    __atomic_store_n(&m->stopping, true, __ATOMIC_RELAXED);
}

static void backup_promote(struct replica_backup *b, bool anew) {
    struct manager *m = b->m;
    uint64_t before = anew ? b->epoch * VERSIONS_ANEW : store_header(m->store)->version;
    in_free_all(b);
    b->serves = true;
    if (!m->setup->page->promoted) /* not in each life */
        store_version_reach(m->store, before + VERSIONS_ANEW);
    m->setup->page->promoted = true;
    subscriptions_anew(m, b->epoch);
    peer_server_take_over(m);
    log_warn(anew ? "the keys of manager %u begin anew on %s"
                  : "the backup of manager %u on %s serves its keys from now on",
             m->setup->id, m->setup->node);
}

/* It begins empty: what it has is a part of a copy, or one of which it is not known how old it is. */
static void anew_promote(struct replica_backup *b) {
    struct manager *m = b->m;
    if (all_drop(m) < 0) {
        promotion_refuse(m);
        return;
    }
    m->setup->page->filling = false;
    backup_promote(b, true);
}

void replica_backup_map(struct manager *m, const struct sup_msg *s) {
    struct replica_backup *b = m->backup;
    if (s->count <= b->epoch || b->serves)
        return;
    b->epoch = s->count;
    b->primary = s->pid;
    b->backup = s->room;
    if (b->primary == m->setup->identity.self) {
        enum owner_keys keys = sup_map_keys(s);
        if (m->setup->page->promoted || (is_whole(m) && keys != OWNER_REFILLING))
            backup_promote(b, false);
        else if (owner_began_anew(keys))
            anew_promote(b);
        else
            promotion_refuse(m);
        return;
    }
    for (struct replica_in *in = b->in; in; in = in->next)
        if (in->up && !in->gone && (in->synced || in->waits_map) && sync_judge(in) < 0)
            in_end(in);
}

int replica_backup_init(struct manager *m) {
    if (!m->setup->shadow)
        return 0;
    m->backup = calloc(1, sizeof *m->backup);
    if (!m->backup)
        return -ENOMEM;
    *m->backup = (struct replica_backup){.m = m, .primary = SHADOW_NONE, .backup = SHADOW_NONE};
    if (m->setup->fills)
        return 0;
    m->backup->epoch = 1;
    m->backup->primary = m->setup->id;
    m->backup->backup = m->setup->identity.self;
    return 0;
}

void replica_backup_free(struct manager *m) {
    if (m->backup)
        in_free_all(m->backup);
    free(m->backup);
    m->backup = NULL;
}
