/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_copy.c - a primary that is alone gets a new backup: all is copied to it while it is changed,
 * with results, whatever breaks; and before it is whole it is nobody's.
 */
#include "sides.h"
#include <manager/replica_primary.h>

enum { SHADOW = 3, MANY = 3000 };

static uint64_t epoch; /* of the map */

/* Of all objects of this test (-Wl,--wrap=calloc). */
static bool no_flights; /* there is no memory for changes in flight */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    return no_flights && size == sizeof(struct flights) ? NULL : __real_calloc(n, size);
}

/* --- the map --- */
static void row_send(struct side *to, uint32_t number, uint32_t other, bool whole) {
    struct sup_msg s = {.type = SUP_MAP,
                        .id = OWNER,
                        .count = epoch,
                        .pid = number,
                        .room = other,
                        .total_bytes = other == SHADOW_NONE ? 0 : backup.port,
                        .status = whole};
    ck_assert_int_eq(sup_send(to->supervisor_fd, &s, NULL, 0), 0);
}
static void rows_send(bool whole) {
    epoch++;
    row_send(&primary, OWNER, SHADOW, whole);
    row_send(&backup, OWNER, SHADOW, whole);
}
static unsigned told(struct side *by, uint32_t type, uint64_t *count) {
    static struct sup_msg s;
    unsigned n = 0;
    int fds[4];
    while (sup_recv(by->supervisor_fd, &s, fds, 4) >= 0)
        if (s.type == type) {
            n++;
            if (count)
                *count = s.count;
        }
    return n;
}
static bool copied(void) {
    uint64_t of = 0;
    unsigned n = told(&primary, SUP_COPIED, &of);
    ck_assert_uint_le(n, 1);
    ck_assert(n == 0 || of == epoch);
    return n == 1;
}
static void becomes_whole(void) {
    rows_send(true);
    for (int i = 0; i < 50; i++)
        turn();
    quiet();
}

/* --- the sides --- */
static void primary_alone(void) {
    epoch = 2;
    row_send(&primary, OWNER, SHADOW_NONE, false);
    UNTIL_BY(alone_turn, !m->primary && !m->flights);
}
/* It listens where the map says, and the node infos do not. */
static void backup_new(void) {
    side_prepare(&backup, SHADOW);
    peers[shadow_slot(&deal, SHADOW)].naddr = 0;
    peers[SHADOW % 2] = (struct peer_address){.naddr = 1};
    *(struct sockaddr_in *)(void *)&peers[SHADOW % 2].addr[0] =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    backup.setup.fills = true;
    side_start(&backup);
}
static void backup_dies(void) {
    manager_close(&backup.m);
    close(backup.m.epoll_fd);
    backup.page.lives++;
    side_start(&backup);
    backup.m.knows = true;
    results_open(&backup.m);
    row_send(&backup, OWNER, SHADOW, false);
}
static void before(void) {
    fds_look(false);
    memset(&proxy, 0, sizeof proxy);
    memset(peers, 0, sizeof peers);
    side_open(&primary, OWNER);
    client_open();
    client_tell();
    primary_alone();
    backup_new();
}
/* --- what is there --- */
static const char *key_of(unsigned n) {
    static char name[MANY][16];
    static unsigned made, next;
    for (; made <= n; next++) {
        snprintf(name[made], sizeof name[0], "key%u", next);
        made += deal_owner(&deal, name[made], strlen(name[made]),
                           key_hash(name[made], strlen(name[made]))) == OWNER;
    }
    return name[n];
}
static void put_here(const char *k, const char *value, uint8_t tag) {
    struct store_ref ref;
    size_t n = strlen(value);
    ck_assert_int_eq(store_reserve(m->store, k, (uint32_t)strlen(k), n, tag, &ref), 0);
    memcpy(ref.value, value, n);
    ck_assert_int_eq(store_commit(m->store, &ref, STORE_ANY, NULL), 0);
}
static void push_here(const char *k, const char *value) {
    struct store_ref ref;
    size_t n = strlen(value);
    if (!value_of(&primary, k, (uint32_t)strlen(k), 0)) {
        put_here(k, value, 0);
        return;
    }
    ck_assert_int_eq(store_reserve(m->store, k, (uint32_t)strlen(k), n, 1, &ref), 0);
    memcpy(ref.value, value, n);
    ck_assert_int_eq(store_queue_push(m->store, &ref), 0);
}
static void many_put(unsigned many) {
    char value[32];
    for (unsigned i = 0; i < many; i++) {
        snprintf(value, sizeof value, "value of %u", i);
        put_here(key_of(i), value, (uint8_t)(i % 7));
        for (unsigned n = 0; i % 10 == 3 && n < i % 40; n++)
            push_here(key_of(i), value);
        if (i % 20 == 3)
            ck_assert_int_eq(store_queue_limit(m->store, key_of(i), (uint32_t)strlen(key_of(i)), i),
                             0);
    }
}
static int version_same(void *arg, const void *k, uint32_t len) {
    ck_assert_uint_eq(value_of(&primary, k, len, 0)->version,
                      value_of(&backup, k, len, 0)->version);
    return 0;
}
static void versions_same(void) {
    uint64_t cursor = 0;
    do
        ck_assert_int_ge(store_keys(m->store, &cursor, version_same, NULL), 0);
    while (cursor != 0);
    ck_assert_uint_eq(primary.m.header->version, backup.m.header->version);
}
static unsigned keys_at(struct side *s) {
    return (unsigned)s->m.header->num_keys;
}

START_TEST(all_that_is_there_is_copied) {
    many_put(MANY);
    ck_assert_int_eq(store_queue_limit(m->store, "bare", 4, 77), 0);
    rows_send(false);
    UNTIL(copied());
    ck_assert_uint_eq(keys_at(&backup), MANY);
    both_same();
    versions_same();
    becomes_whole();
    ck_assert_uint_eq(told(&primary, SUP_COPIED, NULL), 0);
    uint64_t put = ask(MSG_PUT, 0, key(0), "more"), pop = ask(MSG_POP, 0, key_of(13), NULL);
    quiet();
    ck_assert(is(put, 0, NULL) && is(pop, 0, "value of 13") && is_on_both(key(0), "more"));
    both_same();
    versions_same();
}
END_TEST

START_TEST(an_empty_owner_is_whole_at_once) {
    ck_assert_uint_eq(replica_copies(m), 1);
    rows_send(false);
    UNTIL(copied());
    ck_assert_uint_eq(replica_copies(m), 1); /* not by the map */
    becomes_whole();
    ck_assert_uint_eq(replica_copies(m), 2);
    ask(MSG_PUT, 0, key(0), "one");
    quiet();
    ck_assert(is_on_both(key(0), "one"));
}
END_TEST

START_TEST(a_backup_of_which_no_port_is_known_is_not_there) {
    struct sup_msg s = {.type = SUP_MAP, .id = OWNER, .count = ++epoch, .room = SHADOW};
    ck_assert_int_eq(sup_send(primary.supervisor_fd, &s, NULL, 0), 0);
    uint64_t put = ask(MSG_PUT, 0, key(0), "one");
    UNTIL_BY(alone_turn, answered(put));
    ck_assert(!m->primary && !m->flights);
    rows_send(false);
    UNTIL(copied());
    both_same();
}
END_TEST

START_TEST(changes_wait_for_it_from_the_beginning) {
    many_put(MANY);
    rows_send(false);
    UNTIL(keys_at(&backup) > 100);
    uint64_t put = ask(MSG_PUT, 0, key_of(0), "new"), added = ask(MSG_PUT, 0, key(0), "new");
    alone(300);
    ck_assert(!answered(put) && !answered(added) && is_at(&primary, key_of(0), "value of 0"));
    UNTIL(answered(put) && answered(added));
    ck_assert(is_on_both(key_of(0), "new"));
    UNTIL(copied());
    both_same();
    versions_same();
}
END_TEST

static void took(uint64_t id) {
    struct msg r = {.type = MSG_TOOK, .id = id};
    ck_assert_int_eq(conn_send(proxy.c, &r, NULL, 0, NULL, 0, NULL, NULL), 0);
}
/* One random request. */
static void something(uint64_t *r, uint32_t i, unsigned many) {
    static const unsigned types[] = {MSG_PUT, MSG_PUT, MSG_PUT, MSG_GET,
                                     MSG_POP, MSG_POP, MSG_DEL, MSG_HEAD};
    static uint32_t asked;
    unsigned type = types[unit_random(r) % 8], flags = 0;
    const char *k = unit_random(r) % 2 ? key_of((unsigned)(unit_random(r) % many))
                                       : key((unsigned)(unit_random(r) % 3));
    char value[32];
    snprintf(value, sizeof value, "other %u", i);
    if (type == MSG_PUT)
        flags = unit_random(r) % 2 ? MSGF_APPEND : 0;
    if ((type == MSG_PUT || type == MSG_DEL) && unit_random(r) % 3 == 0)
        flags |= MSGF_LOADED;
    else if (type == MSG_POP)
        flags = unit_random(r) % 4 ? 0 : MSGF_WAIT;
    if (proxy.last_id && unit_random(r) % 8 == 0)
        took(proxy.last_id);
    if (flags && unit_random(r) % 2)
        append(k, value, unit_random(r) % 2 ? MSGF_WAIT : 0, 3);
    else if (unit_random(r) % 3 == 0)
        proxy_ask(type, flags, id_of(i + 1, asked++ % 512), k, type == MSG_PUT ? value : NULL);
    else
        ask(type, flags, k, type == MSG_PUT ? value : NULL);
}

static void changes_meanwhile(uint64_t seed, unsigned breaks, bool clear) {
    uint64_t r = seed;
    unsigned ended = 0;
    bool over = false;
    many_put(MANY);
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    rows_send(false);
    for (uint32_t i = 0; i < 3000 || !over; i++) {
        if (i < 30000)
            something(&r, i, MANY);
        if (clear && i == 700)
            ask(MSG_CLEAR, 0, NULL, NULL);
        for (uint64_t n = unit_random(&r) % 3; n > 0; n--)
            unit_random(&r) % 3 ? turn() : alone_turn();
        if (ended < breaks && unit_random(&r) % 40 == 0)
            ended += connection_break() > 0;
        over |= told(&primary, SUP_COPIED, NULL) > 0;
    }
    quiet();
    both_same();
    becomes_whole();
    both_same();
    ck_assert_ptr_null(m->answering);
    ck_assert_ptr_null(m->resumed);
}
START_TEST(what_is_changed_meanwhile_is_the_same_on_both) {
    changes_meanwhile(7, 0, false);
}
END_TEST
START_TEST(whatever_breaks_it_begins_anew) {
    changes_meanwhile(11, 25, false);
}
END_TEST
START_TEST(clear_meanwhile_clears_both) {
    changes_meanwhile(13, 5, true);
}
END_TEST

/* What is in flight of a queue is one value: those before it go with the copy. */
START_TEST(a_queue_that_is_never_at_rest_is_copied_whole) {
    uint64_t last = 0, n = 0;
    for (unsigned i = 0; i < 40; i++)
        push_here(key(0), "before");
    rows_send(false);
    UNTIL(m->flights);
    for (bool over = false; !over; over = copied()) {
        if (last == 0 || answered(last))
            for (unsigned k = 0; k < 4; k++, n++)
                last = n % 2 ? ask(MSG_POP, 0, key(0), NULL) : append(key(0), "more", 0, 0);
        turn();
    }
    quiet();
    both_same();
    ck_assert_uint_eq(m->flights->keys, 0);
}
END_TEST

START_TEST(what_waits_for_a_key_is_served_behind_its_copy) {
    many_put(MANY);
    for (unsigned i = 0; i < 300; i++)
        push_here(key(0), "before");
    rows_send(false);
    UNTIL(flight_copies(m) && m->flights->copy->key_len == strlen(key(0)));
    ck_assert(!flights_open(m)); /* FROZEN is reached */
    uint64_t get = ask(MSG_GET, 0, key(0), NULL), put = append(key(0), "last", 0, 0),
             pop = ask(MSG_POP, 0, key(0), NULL);
    alone(3);
    ck_assert(flights_open(m));
    UNTIL(answered(pop));
    ck_assert(is(get, 0, "before") && is(put, 0, NULL) && is(pop, 0, "before"));
    UNTIL(copied());
    both_same();
}
END_TEST

/* Its copy takes longer than they have. */
START_TEST(what_waits_for_a_key_that_is_copied_ends_at_its_time) {
    enum { N = 200, LEN = 64 << 10 };
    struct store_ref ref;
    uint8_t payload[256];
    push_here(key(0), "first");
    for (unsigned i = 0; i < N; i++) {
        ck_assert_int_eq(store_reserve(m->store, key(0), (uint32_t)strlen(key(0)), LEN, 0, &ref),
                         0);
        memset(ref.value, (int)i, LEN);
        ck_assert_int_eq(store_queue_push(m->store, &ref), 0);
    }
    rows_send(false);
    UNTIL(m->flights && flight_copies(m));
    alone(20); /* the backup takes nothing more */
    struct msg r = request(MSG_GET, MSGF_WAIT, key(0), NULL, payload);
    r.aux = 30000;
    uint64_t get = client_send(r, payload);
    r = request(MSG_POP, MSGF_WAIT, key(0), NULL, payload);
    r.aux = 30000;
    uint64_t pop = client_send(r, payload);
    r = request(MSG_PUT, MSGF_WAIT | MSGF_APPEND, key(0), "late", payload);
    r.aux = 30000;
    uint64_t put = client_send(r, payload), misses = m->count->misses, began = clock_ms();
    uint64_t later = ask(MSG_GET, MSGF_WAIT, key(0), NULL); /* it has more time */
    UNTIL_BY(alone_turn, answered(get) && answered(pop) && answered(put));
    ck_assert(is(get, -ETIMEDOUT, NULL) && is(pop, -ETIMEDOUT, NULL) && is(put, -ETIMEDOUT, NULL));
    ck_assert_uint_ge(clock_ms() - began, 29);
    ck_assert_uint_eq(m->count->misses, misses + 2);
    ck_assert(flight_copies(m) && !answered(later));
    UNTIL(copied());
    UNTIL(answered(later));
    ck_assert(is(later, 0, "first"));
    quiet();
    both_same();
    ck_assert_ptr_null(value_of(&primary, key(0), (uint32_t)strlen(key(0)), N + 1));
}
END_TEST

START_TEST(large_values_are_copied_in_pieces) {
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    proxy_large(id_of(1, 0), key(0));
    proxy_large(id_of(2, 1), key(1));
    proxy_ask(MSG_PUT, MSGF_APPEND, id_of(3, 2), key(1), "second");
    UNTIL(proxy.answers == 3);
    rows_send(false);
    UNTIL(m->flights && m->primary);
    proxy_ask(MSG_PUT, 0, id_of(4, 3), key(0), "small");
    proxy_ask(MSG_POP, 0, id_of(5, 4), key(2), NULL);
    UNTIL(copied());
    UNTIL(proxy.answers == 5);
    quiet();
    both_same();
    ck_assert(is_on_both(key(0), "small"));
}
END_TEST

/* --- results --- */
static void promote(void) {
    epoch++;
    row_send(&primary, SHADOW, SHADOW_NONE, false);
    row_send(&backup, SHADOW, SHADOW_NONE, false);
    for (int i = 0; i < 20; i++)
        side_turn(&backup);
    ck_assert(backup.m.listener.ready && !backup.m.stopping);
    proxy_open(&backup, 3);
    UNTIL_BY(backup_turn, proxy.up);
}
static void again(unsigned type, unsigned flags, uint64_t id, const char *k, const char *value) {
    unsigned n = proxy.answers;
    proxy_ask(type, MSGF_AGAIN | flags, id, k, value);
    UNTIL_BY(backup_turn, proxy.answers > n);
    ck_assert_uint_eq(proxy.last_id, id);
}

START_TEST(what_was_answered_before_and_meanwhile_is_made_once) {
    many_put(MANY);
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    push_here(key(0), "one");
    push_here(key(0), "two");
    proxy_ask(MSG_POP, 0, id_of(1, 0), key(0), NULL); /* before */
    proxy_ask(MSG_PUT, MSGF_APPEND, id_of(2, 1), key(0), "three");
    proxy_ask(MSG_POP, 0, id_of(3, 2), key_of(0), NULL);
    UNTIL_BY(alone_turn, proxy.answers == 3);
    took(id_of(3, 2));
    rows_send(false);
    UNTIL(m->flights);
    proxy_ask(MSG_POP, 0, id_of(4, 3), key(0), NULL); /* meanwhile; its key may not be there yet */
    proxy_ask(MSG_DEL, 0, id_of(5, 4), key_of(1), NULL);
    proxy_ask(MSG_PUT, MSGF_NEW, id_of(6, 5), key(1), "new");
    UNTIL(proxy.answers == 6);
    UNTIL(copied());
    ck_assert_uint_eq(proxy.refused, 0);
    quiet();
    both_same();
    uint64_t version = primary.setup.results[PROXY].at[1].version;
    becomes_whole();
    promote();
    again(MSG_POP, 0, id_of(1, 0), key(0), NULL);
    ck_assert(proxy.last.status == 0 && strcmp(proxy.last.value, "one") == 0);
    again(MSG_PUT, MSGF_APPEND, id_of(2, 1), key(0), "three");
    ck_assert(proxy.last.status == 0 && proxy.last.version == version);
    again(MSG_POP, 0, id_of(4, 3), key(0), NULL);
    ck_assert(proxy.last.status == 0 && strcmp(proxy.last.value, "two") == 0);
    again(MSG_DEL, 0, id_of(5, 4), key_of(1), NULL);
    ck_assert_int_eq(proxy.last.status, 0);
    again(MSG_PUT, MSGF_NEW, id_of(6, 5), key(1), "new");
    ck_assert_int_eq(proxy.last.status, 0);
    ck_assert(is_at(&backup, key(0), "three") && !value_of(&backup, key(0), 2, 1));
}
END_TEST

START_TEST(a_change_in_doubt_when_the_copy_begins_anew_is_made_once) {
    many_put(MANY);
    for (unsigned i = 0; i < 3; i++)
        push_here(key(0), "before");
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    rows_send(false);
    UNTIL(keys_at(&backup) > 100);
    proxy_ask(MSG_PUT, MSGF_APPEND, id_of(1, 0), key(0), "pushed");
    proxy_ask(MSG_POP, 0, id_of(2, 1), key_of(5), NULL);
    UNTIL_BY(alone_turn, m->flights->air && m->flights->air->next);
    alone(50);
    for (int i = 0; i < 100; i++) /* it has them; what it says is lost */
        side_turn(&backup);
    ck_assert_uint_gt(connection_break(), 0);
    UNTIL(copied());
    UNTIL(proxy.answers == 2);
    ck_assert_uint_eq(proxy.refused, 0);
    quiet();
    both_same();
    becomes_whole();
    promote();
    again(MSG_PUT, MSGF_APPEND, id_of(1, 0), key(0), "pushed");
    again(MSG_POP, 0, id_of(2, 1), key_of(5), NULL);
    ck_assert(proxy.last.status == 0 && strcmp(proxy.last.value, "value of 5") == 0);
    ck_assert_ptr_nonnull(value_of(&backup, key(0), (uint32_t)strlen(key(0)), 3));
    ck_assert_ptr_null(value_of(&backup, key(0), (uint32_t)strlen(key(0)), 4));
}
END_TEST

START_TEST(what_a_pop_took_is_kept_by_the_next_life_of_the_backup) {
    push_here(key(0), "one");
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    proxy_ask(MSG_POP, 0, id_of(1, 0), key(0), NULL);
    UNTIL_BY(alone_turn, proxy.answers == 1);
    rows_send(false);
    UNTIL(copied());
    becomes_whole();
    backup_dies();
    rows_send(true);
    for (int i = 0; i < 200; i++) /* it would have been used again */
        ask(MSG_PUT, 0, key(1), "over");
    quiet();
    promote();
    again(MSG_POP, 0, id_of(1, 0), key(0), NULL);
    ck_assert(proxy.last.status == 0 && strcmp(proxy.last.value, "one") == 0);
}
END_TEST

/* --- a key that is changed before its turn --- */
/* The backup has other values of it then. */
START_TEST(what_a_pop_took_is_what_the_primary_gave) {
    many_put(MANY);
    push_here(key(0), "one");
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    rows_send(false);
    UNTIL_BY(alone_turn, m->flights);
    proxy_ask(MSG_PUT, MSGF_APPEND, id_of(1, 0), key(0), "two");
    proxy_ask(MSG_POP, 0, id_of(2, 1), key(0), NULL);
    UNTIL_BY(alone_turn, m->flights->air && m->flights->air->behind);
    UNTIL(copied());
    UNTIL(proxy.answers == 2);
    ck_assert_str_eq(proxy.last.value, "one");
    quiet();
    both_same();
    becomes_whole();
    promote();
    again(MSG_POP, 0, id_of(2, 1), key(0), NULL);
    ck_assert_str_eq(proxy.last.value, "one");
    ck_assert(is_at(&backup, key(0), "two"));
}
END_TEST

START_TEST(a_key_that_is_deleted_has_no_limit) {
    uint8_t payload[256];
    struct msg limit = request(MSG_HEAD, MSGF_APPEND, key(0), NULL, payload);
    limit.version = 3;
    many_put(MANY);
    put_here(key(0), "one", 0);
    rows_send(false);
    UNTIL_BY(alone_turn, m->flights);
    client_send(limit, payload);
    uint64_t del = ask(MSG_DEL, 0, key(0), NULL);
    UNTIL_BY(alone_turn, m->flights->air && m->flights->air->behind);
    UNTIL(answered(del));
    UNTIL(copied());
    both_same();
}
END_TEST

/* Its limit was sent, and is made; what was to follow is not. */
START_TEST(a_push_of_nobody_does_not_wait_for_room) {
    uint8_t payload[256];
    struct msg r = request(MSG_PUT, MSGF_APPEND | MSGF_WAIT, key(0), "nobody's", payload);
    for (unsigned i = 0; i < 3; i++)
        push_here(key(0), "before");
    rows_send(false);
    UNTIL(copied());
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    r.version = 3;
    r.id = id_of(1, 0);
    ck_assert_int_eq(conn_send(proxy.c, &r, payload, r.len - MSG_HEADER, NULL, 0, NULL, NULL), 0);
    UNTIL_BY(alone_turn, m->flights->air);
    conn_free(proxy.c);
    proxy.c = NULL;
    UNTIL_BY(alone_turn, m->flights->air->pending.requester == &m->flights->nobody);
    quiet();
    epoch++;
    row_send(&primary, OWNER, SHADOW_NONE, false);
    UNTIL_BY(alone_turn, !m->flights);
    uint64_t pop = ask(MSG_POP, 0, key(0), NULL);
    UNTIL_BY(alone_turn, answered(pop));
    ck_assert_ptr_nonnull(value_of(&primary, key(0), (uint32_t)strlen(key(0)), 1));
    ck_assert_ptr_null(value_of(&primary, key(0), (uint32_t)strlen(key(0)), 2));
}
END_TEST

START_TEST(what_a_pop_took_may_be_large) {
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    proxy_large(id_of(1, 0), key(0));
    proxy_ask(MSG_POP, 0, id_of(2, 1), key(0), NULL);
    UNTIL_BY(alone_turn, proxy.answers == 2);
    rows_send(false);
    UNTIL(copied());
    both_same();
    becomes_whole();
    backup_dies();
    rows_send(true);
    for (int i = 0; i < 30; i++) /* it would have been used again */
        proxy_large(id_of((uint32_t)i + 3, 2), key(1));
    UNTIL(proxy.answers == 32);
    quiet();
    both_same();
}
END_TEST

/* --- how fast --- */
START_TEST(it_goes_at_a_rate_and_requests_are_served_meanwhile) {
    enum { N = 400, LEN = 64 << 10 };
    struct store_ref ref;
    uint64_t gets = 0, last = 0;
    for (unsigned i = 0; i < N; i++) {
        ck_assert_int_eq(
            store_reserve(m->store, key_of(i), (uint32_t)strlen(key_of(i)), LEN, 0, &ref), 0);
        memset(ref.value, (int)i, LEN);
        ck_assert_int_eq(store_commit(m->store, &ref, STORE_ANY, NULL), 0);
    }
    put_here(key(0), "value", 0);
    rows_send(false);
    uint64_t began = clock_ms();
    for (bool over = false; !over; over = copied()) {
        if (last == 0 || answered(last)) {
            gets += last != 0;
            last = ask(MSG_GET, 0, key(0), NULL);
        }
        turn();
    }
    ck_assert_uint_ge(clock_ms() - began, 1000ull * N * LEN / DD_COPY_BYTES - 20);
    ck_assert_uint_gt(gets, 20);
    both_same();
}
END_TEST

/* --- whole --- */
START_TEST(one_that_is_not_whole_is_not_promoted) {
    many_put(MANY);
    rows_send(false);
    UNTIL(keys_at(&backup) > 100);
    epoch++;
    row_send(&backup, SHADOW, SHADOW_NONE, false);
    for (int i = 0; i < 10 && !backup.m.stopping; i++) {
        backup.m.now = clock_ns();
        ck_assert_int_ge(io_wait(backup.m.epoll_fd, 0), 0);
    }
    ck_assert(backup.m.stopping);
    ck_assert_uint_eq(told(&backup, SUP_READY, NULL), 1);
    backup.m.stopping = false;
}
END_TEST

/* ddictd has been told, and the map comes when it comes: it stays whole until then. */
START_TEST(once_whole_it_is_not_emptied_again) {
    many_put(MANY);
    rows_send(false);
    UNTIL(copied());
    for (int k = 0; k < 2; k++) {
        uint64_t put = ask(MSG_PUT, 0, key(0), k ? "one" : "two");
        connection_break();
        if (k)
            backup_dies();
        for (bool over = false; !over; over = copied()) {
            turn();
            ck_assert_uint_ge(keys_at(&backup), MANY);
        }
        UNTIL(answered(put));
        both_same();
    }
    becomes_whole();
    both_same();
    promote();
}
END_TEST

START_TEST(a_whole_one_is_not_copied_to_again) {
    many_put(10);
    rows_send(false);
    UNTIL(copied());
    becomes_whole();
    uint64_t moved = backup.m.header->version;
    connection_break();
    for (int i = 0; i < 2000; i++)
        turn();
    quiet();
    ck_assert_uint_eq(backup.m.header->version, moved);
    ck_assert_uint_eq(told(&primary, SUP_COPIED, NULL), 0);
}
END_TEST

/* What a subscriber had of the one before is not taken for an event of this one. */
START_TEST(each_that_is_promoted_has_numbers_of_its_own) {
    uint64_t events[2];
    for (unsigned i = 0; i < 2; i++) {
        rows_send(false);
        UNTIL(copied());
        becomes_whole();
        epoch += 2 * i;
        promote();
        events[i] = backup.page.events;
        if (i == 0) {
            both_close();
            before();
        }
    }
    ck_assert_uint_gt(events[1], events[0] + (1ull << 32));
}
END_TEST

/* --- what goes wrong --- */
/* A connection of the primary, made by hand. */
static void hand_open(uint64_t group) {
    static struct sockaddr_storage at;
    *(struct sockaddr_in *)(void *)&at =
        (struct sockaddr_in){.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(backup.port)};
    conn_free(proxy.c);
    proxy = (struct proxy){.me = {.keys = (const uint8_t(*)[KEY_SIZE])keys,
                                  .nodes = 2,
                                  .self = OWNER,
                                  .group = group,
                                  .life = 1}};
    ck_assert_int_eq(conn_open(&proxy.c, backup.m.epoll_fd, &proxy.me, ROLE_REPLICA, SHADOW, &at, 1,
                               &proxy_ops, NULL),
                     0);
    UNTIL_BY(backup_turn, proxy.up);
}

START_TEST(what_is_copied_to_a_whole_one_breaks_the_rules) {
    static const int ops[] = {REPL_ITEM, REPL_RESULT, REPL_WHOLE};
    put_here(key(0), "value", 0);
    rows_send(false);
    UNTIL(copied());
    becomes_whole();
    for (int i = 0; i < 3; i++) {
        struct msg r = {.type = MSG_REPL, .status = ops[i], .manager = PROXY};
        r.key_len = ops[i] == REPL_ITEM;
        r.id = ops[i] == REPL_RESULT;
        struct msg sync = {.type = MSG_SYNC, .manager = OWNER, .aux = epoch};
        hand_open(1000 + (uint64_t)i);
        ck_assert_int_eq(conn_send(proxy.c, &sync, NULL, 0, NULL, 0, NULL, NULL), 0);
        for (int n = 0; n < 50; n++)
            side_turn(&backup);
        ck_assert(!proxy.down);
        ck_assert_int_eq(conn_send(proxy.c, &r, "x", r.key_len, NULL, 0, NULL, NULL), 0);
        UNTIL_BY(backup_turn, proxy.down);
        ck_assert(is_at(&backup, key(0), "value") && is_at(&backup, "x", NULL));
    }
}
END_TEST

START_TEST(without_room_it_is_told_of_and_the_primary_goes_on) {
    for (unsigned i = 0; i < 6; i++) {
        struct store_ref ref;
        char name[16];
        snprintf(name, sizeof name, "fill%u", i);
        ck_assert_int_eq(store_reserve(m->store, name, 5, 9 << 20, 0, &ref), 0);
        ck_assert_int_eq(store_commit(m->store, &ref, STORE_ANY, NULL), 0);
    }
    side_close(&backup);
    struct store_options o = {.budget = MEMORY / 2, .managers = 2};
    side_prepare(&backup, SHADOW);
    close(backup.setup.arena_fd);
    ck_assert_int_ge(backup.setup.arena_fd = arena_create(&o), 0);
    peers[shadow_slot(&deal, SHADOW)].naddr = 0;
    backup.setup.fills = true;
    side_start(&backup);
    rows_send(false);
    UNTIL(told(&primary, SUP_BACKUP_LOST, NULL) == 1);
    epoch++;
    row_send(&primary, OWNER, SHADOW_NONE, false);
    uint64_t put = ask(MSG_PUT, 0, key(0), "alone");
    UNTIL(answered(put));
    ck_assert(is(put, 0, NULL) && !m->primary && !m->flights);
}
END_TEST

/* It was alone, or has a change in flight to the backup before. */
START_TEST(without_memory_for_changes_in_flight_it_is_told_of) {
    for (int with = 0; with < 2; with++) {
        uint64_t of = 0;
        many_put(10);
        if (with) {
            rows_send(false);
            UNTIL(copied());
            ask(MSG_PUT, 0, key(0), "in flight");
            alone(5);
            ck_assert(flights_open(m));
        }
        no_flights = true;
        rows_send(false);
        alone(20);
        no_flights = false;
        ck_assert_uint_eq(told(&primary, SUP_BACKUP_LOST, &of), 1);
        ck_assert_uint_eq(of, epoch);
        uint64_t put = ask(MSG_PUT, 0, key(0), "alone");
        UNTIL_BY(alone_turn, answered(put));
        epoch++;
        row_send(&primary, OWNER, SHADOW_NONE, false); /* it is dropped, and tried again */
        rows_send(false);
        UNTIL(copied());
        both_same();
        both_close();
        before();
    }
}
END_TEST

START_TEST(a_backup_that_says_nothing_is_told_of) {
    many_put(10);
    rows_send(false);
    UNTIL_BY(alone_turn, told(&primary, SUP_BACKUP_LOST, NULL) == 1);
}
END_TEST

static void alone_slowly(void) {
    alone_turn();
    usleep(1000);
}
START_TEST(without_a_lease_a_silent_backup_is_not_told_of) {
    many_put(10);
    rows_send(false);
    alone(20);
    primary.page.lease = 1;
    uint64_t end = clock_ms() + DD_BACKUP_LOST_MS + 1000;
    UNTIL_BY(alone_slowly, clock_ms() > end);
    ck_assert_uint_eq(told(&primary, SUP_BACKUP_LOST, NULL), 0);
    primary.page.lease = UINT64_MAX;
    uint64_t again = clock_ms();
    UNTIL_BY(alone_slowly, told(&primary, SUP_BACKUP_LOST, NULL) == 1);
    ck_assert_uint_ge(clock_ms() - again, DD_BACKUP_LOST_MS - 1000);
}
END_TEST

/* Another takes its place in one step: what was in flight is made, and goes with the copy. */
START_TEST(another_backup_is_filled_from_the_beginning) {
    many_put(MANY);
    rows_send(false);
    UNTIL(keys_at(&backup) > 100);
    for (unsigned i = 0; i < 3; i++)
        push_here(key(0), "before");
    uint64_t put = append(key(0), "pushed", 0, 0), pop = ask(MSG_POP, 0, key(0), NULL);
    alone(100);
    ck_assert(!answered(put));
    side_close(&backup);
    backup_new();
    rows_send(false);
    UNTIL(copied());
    ck_assert(is(put, 0, NULL) && is(pop, 0, "before"));
    both_same();
}
END_TEST

START_TEST(its_next_life_in_the_midst_is_filled_from_the_beginning) {
    many_put(MANY);
    rows_send(false);
    for (unsigned n = 1; n < 4; n++) {
        UNTIL(keys_at(&backup) > 500 * n);
        ask(MSG_PUT, 0, key(0), "one");
        ask(MSG_DEL, 0, key_of(n), NULL);
        backup_dies();
    }
    UNTIL(copied());
    quiet();
    both_same();
    becomes_whole();
    both_same();
}
END_TEST

/* --- lives of the primary --- */
static void primary_lives(void) {
    close(m->epoll_fd);
    primary.page.lives++;
    primary.setup.identity.life++;
    side_start(&primary);
    ck_assert_int_eq(recovery_begin(m), 0);
    client_close();
    client_open();
    client_tell();
    row_send(&primary, OWNER, SHADOW, false);
    struct sup_msg s = {.type = SUP_GO};
    ck_assert_int_eq(sup_send(primary.supervisor_fd, &s, NULL, 0), 0);
    UNTIL_BY(alone_turn, m->knows);
}
/* One life ends in order; the next, a process of its own, is killed when its backup has so many keys, with
 * changes in flight. */
static void primary_dies(unsigned many) {
    int status = 1;
    manager_close(m);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        backup.supervisor_fd = -1;
        primary_lives();
        for (uint64_t end = clock_ms() + WAIT_MS; clock_ms() < end;) {
            if (m->primary && m->flights->keys == 0) {
                append(key(0), "pushed", 0, 0);
                ask(MSG_PUT, 0, key_of(1), "new");
            }
            alone_turn();
        }
        _exit(1);
    }
    UNTIL_BY(backup_turn, keys_at(&backup) >= many);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status));
    primary.page.lives++;
    primary.setup.identity.life++;
    for (unsigned n = 0; n < 200; n++)
        side_turn(&backup);
}

START_TEST(the_next_life_of_the_primary_in_the_midst_copies_anew) {
    many_put(MANY);
    push_here(key(0), "before");
    rows_send(false);
    primary_dies(700);
    primary_lives();
    UNTIL(copied());
    quiet();
    both_same();
    ck_assert_ptr_null(ledger_next(primary.setup.ledger, NULL));
    becomes_whole();
    both_same();
}
END_TEST

UNIT_MAIN_WITH(
    "manager_copy", before, both_close, all_that_is_there_is_copied,
    an_empty_owner_is_whole_at_once, a_backup_of_which_no_port_is_known_is_not_there,
    changes_wait_for_it_from_the_beginning, what_is_changed_meanwhile_is_the_same_on_both,
    whatever_breaks_it_begins_anew, clear_meanwhile_clears_both,
    a_queue_that_is_never_at_rest_is_copied_whole, what_waits_for_a_key_is_served_behind_its_copy,
    what_waits_for_a_key_that_is_copied_ends_at_its_time, large_values_are_copied_in_pieces,
    what_was_answered_before_and_meanwhile_is_made_once,
    a_change_in_doubt_when_the_copy_begins_anew_is_made_once,
    what_a_pop_took_is_kept_by_the_next_life_of_the_backup,
    what_a_pop_took_is_what_the_primary_gave, a_key_that_is_deleted_has_no_limit,
    a_push_of_nobody_does_not_wait_for_room, each_that_is_promoted_has_numbers_of_its_own,
    what_a_pop_took_may_be_large, it_goes_at_a_rate_and_requests_are_served_meanwhile,
    one_that_is_not_whole_is_not_promoted, once_whole_it_is_not_emptied_again,
    a_whole_one_is_not_copied_to_again, what_is_copied_to_a_whole_one_breaks_the_rules,
    without_room_it_is_told_of_and_the_primary_goes_on,
    without_memory_for_changes_in_flight_it_is_told_of, a_backup_that_says_nothing_is_told_of,
    without_a_lease_a_silent_backup_is_not_told_of, another_backup_is_filled_from_the_beginning,
    its_next_life_in_the_midst_is_filled_from_the_beginning,
    the_next_life_of_the_primary_in_the_midst_copies_anew)
