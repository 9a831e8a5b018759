/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_replicas.c - a primary and its backup, both real and in one process, with a client and a
 * proxy made by hand: a change is made and answered when it is on both, in order, once, and whatever
 * breaks on the way, both have the same in the end.
 */
#include "sides.h"

START_TEST(a_put_is_answered_and_seen_when_the_backup_has_it) {
    uint64_t put = ask(MSG_PUT, 0, key(0), "one");
    alone(300);
    ck_assert(!answered(put) && is_at(&primary, key(0), NULL));
    UNTIL(answered(put));
    ck_assert(is(put, 0, NULL) && is_on_both(key(0), "one"));
    ck_assert_uint_gt(answers[put].version, 0);
    put = ask(MSG_PUT, 0, key(0), "two");
    alone(300);
    ck_assert(!answered(put) && is_on_both(key(0), "one"));
    quiet();
    ck_assert(is(put, 0, NULL) && is_on_both(key(0), "two"));
    both_same();
}
END_TEST

START_TEST(what_is_asked_of_a_key_keeps_its_order) {
    uint64_t id[8];
    id[0] = ask(MSG_PUT, 0, key(0), "one");
    id[1] = ask(MSG_GET, 0, key(0), NULL);
    id[2] = ask(MSG_PUT, 0, key(0), "two");
    id[3] = ask(MSG_GET, 0, key(0), NULL);
    id[4] = ask(MSG_DEL, 0, key(0), NULL);
    id[5] = ask(MSG_GET, 0, key(0), NULL);
    id[6] = ask(MSG_GET, 0, key(1), NULL); /* of another key: at once */
    id[7] = ask(MSG_PUT, 0, key(1), "other");
    alone(300);
    ck_assert(is(id[6], DDICT_ENOKEY, NULL) && !answered(id[1]) && !answered(id[7]));
    quiet();
    ck_assert(is(id[0], 0, NULL) && is(id[1], 0, "one") && is(id[2], 0, NULL));
    ck_assert(is(id[3], 0, "two") && is(id[4], 0, NULL) && is(id[5], DDICT_ENOKEY, NULL));
    ck_assert(is(id[7], 0, NULL));
    both_same();
}
END_TEST

START_TEST(new_and_existing_are_judged_in_their_turn) {
    uint64_t id[6];
    id[0] = ask(MSG_PUT, MSGF_EXISTING, key(0), "never");
    id[1] = ask(MSG_PUT, MSGF_NEW, key(0), "one");
    id[2] = ask(MSG_PUT, MSGF_NEW, key(0), "two");
    id[3] = ask(MSG_DEL, 0, key(0), NULL);
    id[4] = ask(MSG_DEL, 0, key(0), NULL);
    id[5] = ask(MSG_PUT, MSGF_EXISTING, key(0), "never");
    quiet();
    ck_assert(is(id[0], DDICT_ENOKEY, NULL) && is(id[1], 0, NULL) &&
              is(id[2], DDICT_EEXISTS, NULL));
    ck_assert(is(id[3], 0, NULL) && is(id[4], DDICT_ENOKEY, NULL) && is(id[5], DDICT_ENOKEY, NULL));
    both_same();
}
END_TEST

START_TEST(who_waits_for_a_key_is_served_in_order) {
    uint64_t get = ask(MSG_GET, MSGF_WAIT, key(0), NULL),
             first = ask(MSG_POP, MSGF_WAIT, key(0), NULL),
             second = ask(MSG_POP, MSGF_WAIT, key(0), NULL);
    alone(100);
    uint64_t put = ask(MSG_PUT, 0, key(0), "one"), late = ask(MSG_POP, 0, key(0), NULL);
    UNTIL(answered(late));
    ck_assert(is(put, 0, NULL) && is(get, 0, "one") && is(first, 0, "one"));
    ck_assert(!answered(second) && is(late, DDICT_ENOKEY, NULL));
    put = ask(MSG_PUT, 0, key(0), "two");
    UNTIL(answered(second));
    quiet();
    ck_assert(is(second, 0, "two") && is_on_both(key(0), NULL));
    both_same();
}
END_TEST

START_TEST(queues_have_their_limit_and_their_order) {
    uint64_t in[6], out[6];
    for (unsigned i = 0; i < 6; i++) {
        char value[8];
        snprintf(value, sizeof value, "v%u", i);
        in[i] = append(key(0), value, MSGF_WAIT, 2);
    }
    uint64_t none = append(key(0), "none", 0, 2), wrong = append(key(0), "wrong", 0, 3);
    UNTIL(answered(in[1]) && answered(none) && answered(wrong));
    ck_assert(is(none, -EAGAIN, NULL) && is(wrong, -EINVAL, NULL) && !answered(in[2]));
    both_same();
    for (unsigned i = 0; i < 6; i++)
        out[i] = ask(MSG_POP, MSGF_WAIT, key(0), NULL);
    UNTIL(answered(out[5]));
    quiet();
    for (unsigned i = 0; i < 6; i++) {
        char value[8];
        snprintf(value, sizeof value, "v%u", i);
        ck_assert(is(in[i], 0, NULL) && is(out[i], 0, value));
    }
    both_same();
    uint8_t payload[64];
    struct msg open = request(MSG_HEAD, MSGF_APPEND, key(1), NULL, payload);
    open.version = 7;
    uint64_t opened = client_send(open, payload);
    alone(100);
    ck_assert(!answered(opened));
    quiet();
    ck_assert(is(opened, 0, NULL) && answers[opened].version == 7);
    both_same();
}
END_TEST

START_TEST(clear_waits_for_all_before_and_all_behind_for_it) {
    uint64_t a = ask(MSG_PUT, 0, key(0), "one"), b = ask(MSG_PUT, 0, key(1), "two");
    uint64_t all = ask(MSG_CLEAR, 0, NULL, NULL), c = ask(MSG_PUT, 0, key(2), "three");
    uint64_t none = ask(MSG_GET, 0, key(0), NULL), again = ask(MSG_CLEAR, 0, NULL, NULL);
    uint64_t d = ask(MSG_PUT, 0, key(0), "four"), get = ask(MSG_GET, 0, key(2), NULL);
    alone(300);
    ck_assert(!answered(all) && !answered(none));
    quiet();
    ck_assert(is(a, 0, NULL) && is(b, 0, NULL) && is(all, 0, NULL) && is(c, 0, NULL));
    ck_assert(is(none, DDICT_ENOKEY, NULL) && is(again, 0, NULL) && is(d, 0, NULL));
    ck_assert(is(get, DDICT_ENOKEY, NULL) && is_on_both(key(0), "four") &&
              is_on_both(key(2), NULL));
    both_same();
}
END_TEST

START_TEST(cancel_ends_what_waits_and_not_what_was_sent) {
    uint8_t payload[64];
    uint64_t sent = ask(MSG_PUT, 0, key(0), "one"), waits = ask(MSG_PUT, 0, key(0), "two"),
             clear = ask(MSG_CLEAR, 0, NULL, NULL), behind = ask(MSG_PUT, 0, key(1), "three");
    alone(100);
    struct msg r = request(MSG_CANCEL, 0, NULL, NULL, payload);
    uint64_t ids[] = {sent, waits, clear};
    for (int i = 0; i < 3; i++) {
        r.aux = ids[i];
        client_send(r, payload);
    }
    alone(100);
    ck_assert(!answered(sent) && is(waits, -ECANCELED, NULL) && is(clear, -ECANCELED, NULL));
    quiet();
    ck_assert(is(sent, 0, NULL) && is(behind, 0, NULL) && is_on_both(key(0), "one"));
    both_same();
}
END_TEST

/* Who has cancelled may use the place of its id again: what comes later has the result there. */
START_TEST(a_value_is_not_put_for_who_cancelled_while_the_limit_was_sent) {
    uint8_t payload[256];
    struct msg r = request(MSG_PUT, MSGF_APPEND, key(0), "a", payload), cancel;
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    r.id = id_of(1, 3);
    r.version = 5;
    ck_assert_int_eq(conn_send(proxy.c, &r, payload, r.len - MSG_HEADER, NULL, 0, NULL, NULL), 0);
    UNTIL_BY(alone_turn, m->flights->air);
    cancel = (struct msg){.type = MSG_CANCEL, .aux = id_of(1, 3), .id = id_of(2, 4)};
    ck_assert_int_eq(conn_send(proxy.c, &cancel, NULL, 0, NULL, 0, NULL, NULL), 0);
    proxy_ask(MSG_PUT, 0, id_of(3, 3), key(1), "b");
    UNTIL_BY(alone_turn, m->flights->air->next);
    quiet();
    ck_assert_uint_eq(primary.setup.results[PROXY].at[3].id, id_of(3, 3));
    ck_assert(is_on_both(key(0), NULL) && is_on_both(key(1), "b"));
    both_same();
}
END_TEST

START_TEST(what_a_client_sent_is_made_when_it_is_gone) {
    ask(MSG_PUT, 0, key(0), "one");
    ask(MSG_PUT, 0, key(1), "queue");
    quiet();
    ask(MSG_PUT, 0, key(0), "two");
    ask(MSG_PUT, 0, key(0), "never");
    ask(MSG_POP, 0, key(1), NULL);
    alone(100);
    client_del(m, 1);
    quiet();
    ck_assert(is_on_both(key(0), "two") && is_on_both(key(1), NULL));
    both_same();
}
END_TEST

START_TEST(a_proxy_that_asks_again_is_answered_once) {
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    proxy_ask(MSG_PUT, 0, id_of(1, 0), key(0), "one");
    quiet();
    UNTIL(proxy.answers == 1);
    proxy_ask(MSG_PUT, MSGF_NEW, id_of(2, 1), key(1), "two");
    proxy_ask(MSG_POP, 0, id_of(3, 2), key(0), NULL);
    proxy_ask(MSG_PUT, 0, id_of(4, 3), key(0), "three"); /* waits */
    UNTIL_BY(alone_turn, m->flights->air && m->flights->air->next);
    alone(50);
    proxy_open(&primary, 2);
    UNTIL_BY(alone_turn, proxy.up);
    proxy_ask(MSG_PUT, MSGF_AGAIN | MSGF_NEW, id_of(2, 1), key(1), "two");
    proxy_ask(MSG_POP, MSGF_AGAIN, id_of(3, 2), key(0), NULL);
    proxy_ask(MSG_PUT, MSGF_AGAIN, id_of(4, 3), key(0), "three");
    alone(100);
    ck_assert_uint_eq(proxy.answers, 0);
    UNTIL(proxy.answers == 3);
    ck_assert(proxy.last.status == 0 && proxy.last_id == id_of(4, 3));
    ck_assert_uint_eq(proxy.refused, 0);
    ck_assert_uint_eq(primary.page.count.puts, 3);
    ck_assert_uint_eq(primary.page.count.deletes, 1);
    both_same();
    struct msg took = {.type = MSG_TOOK, .id = id_of(3, 2)};
    ck_assert_uint_ne(backup.setup.results[PROXY].at[2].item, 0);
    ck_assert_int_eq(conn_send(proxy.c, &took, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(backup.setup.results[PROXY].at[2].item == 0);
    quiet();
    both_same();
}
END_TEST

START_TEST(after_a_promotion_a_proxy_is_answered_by_what_was_the_backup) {
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    proxy_ask(MSG_PUT, 0, id_of(1, 0), key(0), "one");
    UNTIL(proxy.answers == 1);
    proxy_ask(MSG_POP, 0, id_of(2, 1), key(0), NULL);
    alone(100);
    primary.page.lease = 1;
    UNTIL(is_at(&backup, key(0), NULL)); /* and the primary knows */
    alone(100);
    ck_assert(is_at(&primary, key(0), "one") && m->flights->air->acked);
    map_send(&backup, 2, shadow_of(&deal, OWNER), SHADOW_NONE);
    map_send(&primary, 2, shadow_of(&deal, OWNER), SHADOW_NONE);
    alone(100);
    primary.page.lease = UINT64_MAX;
    alone(300);
    ck_assert(is_at(&primary, key(0), "one") && proxy.answers == 1); /* it makes nothing more */
    for (int i = 0; i < 10; i++)
        side_turn(&backup);
    proxy_open(&backup, 3);
    UNTIL(proxy.up);
    proxy_ask(MSG_POP, MSGF_AGAIN, id_of(2, 1), key(0), NULL);
    UNTIL(proxy.answers == 1);
    ck_assert(proxy.last.status == 0 && strcmp(proxy.last.value, "one") == 0);
}
END_TEST

START_TEST(without_a_backup_all_in_flight_is_made_and_it_goes_on) {
    uint64_t id[5];
    ask(MSG_PUT, 0, key(3), "there");
    quiet();
    id[0] = ask(MSG_PUT, 0, key(0), "one");
    id[1] = ask(MSG_POP, 0, key(0), NULL);
    id[2] = append(key(1), "first", MSGF_WAIT, 1);
    id[3] = append(key(1), "second", MSGF_WAIT, 1);
    id[4] = ask(MSG_POP, 0, key(1), NULL);
    alone(100);
    ck_assert(!answered(id[0]));
    drop_backup();
    UNTIL_BY(alone_turn, answered(id[3]));
    ck_assert(is(id[0], 0, NULL) && is(id[1], 0, "one") && is(id[2], 0, NULL) &&
              is(id[3], 0, NULL));
    ck_assert(is(id[4], 0, "first") && is_at(&primary, key(1), "second"));
    ck_assert(!m->flights && !m->primary);
    id[0] = ask(MSG_CLEAR, 0, NULL, NULL);
    id[1] = ask(MSG_PUT, 0, key(0), "alone");
    UNTIL_BY(alone_turn, answered(id[1]));
    ck_assert(is_at(&primary, key(0), "alone") && is_at(&primary, key(3), NULL));
    ck_assert(is_at(&backup, key(3), "there"));
}
END_TEST

START_TEST(a_backup_that_says_nothing_is_told_of) {
    ask(MSG_PUT, 0, key(0), "one");
    uint64_t began = clock_ms();
    UNTIL_BY(alone_turn, backup_lost());
    ck_assert_uint_ge(clock_ms() - began, DD_BACKUP_LOST_MS - 600);
}
END_TEST

START_TEST(a_backup_without_room_is_told_of) {
    for (unsigned i = 0; i < 6; i++) {
        struct store_ref ref;
        char name[16];
        snprintf(name, sizeof name, "fill%u", i);
        ck_assert_int_eq(store_reserve(backup.m.store, name, 5, 10 << 20, 0, &ref), 0);
        ck_assert_int_eq(store_commit(backup.m.store, &ref, STORE_ANY, NULL), 0);
    }
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    for (uint32_t i = 0; i < 3; i++)
        proxy_large(id_of(i + 1, i), key(i));
    UNTIL(backup_lost());
    drop_backup();
    UNTIL(proxy.answers == 3);
    ck_assert_int_eq(proxy.last.status, 0);
}
END_TEST

START_TEST(large_values_go_in_pieces) {
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    proxy_large(id_of(1, 0), key(0));
    proxy_ask(MSG_PUT, 0, id_of(2, 1), key(1), "behind");
    proxy_large(id_of(3, 2), key(2));
    UNTIL(proxy.answers == 3);
    quiet();
    both_same();
    const struct item *it = value_of(&backup, key(2), (uint32_t)strlen(key(2)), 0);
    ck_assert(it && item_len(it) == LARGE);
    for (size_t i = 0; i < LARGE; i++)
        ck_assert_uint_eq(((const uint8_t *)item_value(it))[i], pattern(i));
    /* all of a key again, with a large one among its values */
    proxy_ask(MSG_PUT, MSGF_APPEND, id_of(4, 3), key(0), "second");
    UNTIL(proxy.answers == 4);
    proxy_ask(MSG_PUT, MSGF_APPEND, id_of(5, 4), key(0), "third");
    alone(100);
    ck_assert_uint_gt(connection_break(), 0);
    UNTIL(proxy.answers == 5);
    quiet();
    both_same();
}
END_TEST

/* --- what was loaded --- */
static bool is_loaded(struct side *s, const char *k) {
    const struct item *it = value_of(s, k, (uint32_t)strlen(k), 0);
    return it && item_is_loaded(it);
}

START_TEST(what_was_loaded_is_sealed) {
    uint64_t id[9];
    id[0] = ask(MSG_POP, MSGF_WAIT, key(0), NULL);
    id[1] = ask(MSG_PUT, MSGF_NEW | MSGF_LOADED, key(0), "loaded");
    quiet();
    ck_assert(is(id[0], DDICT_ESEALED, NULL) && is(id[1], 0, NULL));
    ck_assert(is_loaded(&primary, key(0)) && is_loaded(&backup, key(0)));
    id[0] = ask(MSG_PUT, 0, key(0), "other");
    id[1] = ask(MSG_PUT, MSGF_EXISTING, key(0), "other");
    id[2] = append(key(0), "other", MSGF_WAIT, 1);
    id[3] = ask(MSG_POP, 0, key(0), NULL);
    id[4] = ask(MSG_DEL, 0, key(0), NULL);
    id[5] = ask(MSG_PUT, MSGF_NEW, key(0), "other");
    id[6] = ask(MSG_GET, 0, key(0), NULL);
    quiet();
    for (int i = 0; i < 5; i++)
        ck_assert(is(id[i], DDICT_ESEALED, NULL));
    ck_assert(is(id[5], DDICT_EEXISTS, NULL) && is(id[6], 0, "loaded"));
    ck_assert_uint_eq(flights_open(m), 0);
    /* by its own */
    id[0] = ask(MSG_PUT, MSGF_LOADED, key(0), "again");
    id[1] = ask(MSG_PUT, 0, key(0), "other");
    id[2] = ask(MSG_DEL, MSGF_LOADED, key(0), NULL);
    id[3] = ask(MSG_PUT, 0, key(0), "free"); /* in their order */
    id[4] = ask(MSG_PUT, MSGF_LOADED, key(1), "loaded");
    quiet();
    ck_assert(is(id[0], 0, NULL) && is(id[1], DDICT_ESEALED, NULL) && is(id[2], 0, NULL));
    ck_assert(is(id[3], 0, NULL) && is_on_both(key(0), "free") && !is_loaded(&primary, key(0)));
    id[5] = ask(MSG_CLEAR, 0, NULL, NULL);
    quiet();
    ck_assert(is(id[5], 0, NULL) && is_on_both(key(1), NULL));
    both_same();
}
END_TEST

START_TEST(a_large_value_for_what_is_sealed_is_refused) {
    ask(MSG_PUT, MSGF_LOADED, key(0), "loaded");
    quiet();
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    proxy_stream(id_of(1, 0), 0, key(0)); /* at once */
    UNTIL(proxy.answers == 1);
    ck_assert_int_eq(proxy.last.status, DDICT_ESEALED);
    ck_assert_uint_eq(m->puts_open, 0);
    proxy_pieces(id_of(1, 0));
    proxy_stream(id_of(2, 1), 0, key(1)); /* or at its end, where it was loaded meanwhile */
    UNTIL(m->puts_open == 1);
    ask(MSG_PUT, MSGF_LOADED, key(1), "loaded");
    quiet();
    proxy_pieces(id_of(2, 1));
    UNTIL(proxy.answers == 2);
    ck_assert_int_eq(proxy.last.status, DDICT_ESEALED);
    proxy_stream(id_of(3, 2), MSGF_LOADED, key(1));
    proxy_pieces(id_of(3, 2));
    UNTIL(proxy.answers == 3);
    ck_assert(proxy.last.status == 0 && is_on_both(key(0), "loaded"));
    uint64_t del = ask(MSG_DEL, MSGF_LOADED, key(0), NULL); /* behind a removal that is under way */
    UNTIL_BY(alone_turn, m->flights->air);
    proxy_stream(id_of(4, 3), 0, key(0));
    proxy_pieces(id_of(4, 3));
    UNTIL(proxy.answers == 4);
    ck_assert(is(del, 0, NULL) && proxy.last.status == 0);
    quiet();
    ck_assert(is_loaded(&backup, key(1)) && !is_loaded(&backup, key(0)));
    both_same();
}
END_TEST

START_TEST(what_is_read_again_waits_until_a_freeze_has_begun) {
    struct sup_msg s = {.type = SUP_FREEZE, .id = 1, .status = FREEZE_CLOSED};
    uint64_t put = ask(MSG_PUT, 0, key(0), "one");
    UNTIL_BY(alone_turn, m->flights->air);
    ck_assert_int_eq(sup_send(primary.supervisor_fd, &s, NULL, 0), 0);
    UNTIL_BY(alone_turn, m->shut);
    uint64_t again = ask(MSG_PUT, MSGF_NEW | MSGF_LOADED | MSGF_REFILL, key(1), "again");
    alone(300);
    ck_assert(!answered(put) && !answered(again)); /* and no other change is in flight */
    UNTIL(answered(again));
    ck_assert(is(put, 0, NULL) && is(again, DDICT_EEXISTS, NULL)); /* it is not awaited here */
    both_same();
}
END_TEST

START_TEST(what_is_in_doubt_is_made_the_same_on_both) {
    uint64_t id[5];
    ask(MSG_PUT, 0, key(0), "old");
    append(key(1), "a", 0, 9);
    append(key(1), "b", 0, 9);
    append(key(1), "c", 0, 9);
    quiet();
    id[0] = ask(MSG_DEL, 0, key(0), NULL);
    id[1] = ask(MSG_POP, 0, key(1), NULL);
    id[2] = append(key(2), "d", 0, 0);
    id[3] = ask(MSG_PUT, MSGF_NEW, key(3), "e");
    alone(100);
    for (int i = 0; i < 100; i++) /* it has them; what it says is lost */
        side_turn(&backup);
    ck_assert(is_at(&backup, key(0), NULL) && is_at(&backup, key(1), "b") &&
              is_at(&backup, key(2), "d"));
    ck_assert_uint_gt(connection_break(), 0);
    for (int i = 0; i < 10; i++)
        side_turn(&backup);
    quiet();
    ck_assert(is(id[0], 0, NULL) && is(id[1], 0, "a") && is(id[2], 0, NULL) && is(id[3], 0, NULL));
    both_same();
    id[4] = ask(MSG_CLEAR, 0, NULL, NULL);
    alone(100);
    for (int i = 0; i < 100; i++)
        side_turn(&backup);
    connection_break();
    quiet();
    ck_assert(is(id[4], 0, NULL));
    both_same();
}
END_TEST

START_TEST(whatever_breaks_both_have_the_same) {
    uint64_t r = 5, asked = 0;
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    for (uint32_t i = 0; i < 6000; i++) {
        static const unsigned types[] = {MSG_PUT, MSG_PUT, MSG_PUT, MSG_GET,
                                         MSG_POP, MSG_POP, MSG_DEL, MSG_HEAD};
        unsigned type = types[unit_random(&r) % 8], flags = 0;
        const char *k = key((unsigned)(unit_random(&r) % 5));
        char value[32];
        snprintf(value, sizeof value, "value %u", i);
        if (type == MSG_PUT)
            flags = unit_random(&r) % 3   ? MSGF_APPEND
                    : unit_random(&r) % 2 ? 0
                                          : (unit_random(&r) % 2 ? MSGF_NEW : MSGF_EXISTING);
        if ((type == MSG_PUT || type == MSG_DEL) && unit_random(&r) % 3 == 0)
            flags |= MSGF_LOADED;
        if (unit_random(&r) % 200 == 0)
            ask(MSG_CLEAR, 0, NULL, NULL);
        else if (flags & MSGF_APPEND && unit_random(&r) % 2)
            append(k, value, unit_random(&r) % 2 ? MSGF_WAIT : 0, 3);
        else if (unit_random(&r) % 3 == 0) {
            proxy_ask(type, flags, id_of(i + 1, (uint32_t)(asked++ % 512)), k,
                      type == MSG_PUT ? value : NULL);
        } else
            ask(type, flags, k, type == MSG_PUT ? value : NULL);
        for (uint64_t n = unit_random(&r) % 3; n > 0; n--)
            unit_random(&r) % 3 ? turn() : alone_turn();
        if (unit_random(&r) % 150 == 0)
            connection_break();
        if (i % 1500 == 1499) {
            quiet();
            both_same();
        }
    }
    quiet();
    both_same();
    ck_assert_ptr_null(m->answering);
    ck_assert_ptr_null(m->resumed);
}
END_TEST

/* The connection breaks, and all is sent again: at no time has the backup less than what was
 * acknowledged, nor a result of what it has not. */
START_TEST(what_is_sent_again_takes_nothing_from_the_backup) {
    const struct result *put = &backup.setup.results[PROXY].at[3];
    uint64_t id[4];
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    for (unsigned n = 0; n < 2; n++) { /* sent in pieces, it takes several turns */
        proxy_large(id_of(n + 1, 2), key(n));
        UNTIL(proxy.answers == n + 1);
    }
    id[0] = append(key(1), "b", 0, 0);
    append(key(2), "a", 0, 0);
    id[1] = append(key(2), "b", 0, 0);
    quiet();
    proxy_ask(MSG_PUT, 0, id_of(4, 3), key(0), "new");
    UNTIL_BY(alone_turn, m->flights->air);
    id[2] = append(key(1), "c", 0, 0);
    id[3] = ask(MSG_POP, 0, key(2), NULL);
    primary.page.lease = 1; /* it makes nothing of what is acknowledged */
    UNTIL_BY(alone_turn, m->flights->air->next && m->flights->air->next->next);
    alone(100);
    UNTIL_BY(backup_turn, is_at(&backup, key(2), "b")); /* it has them; what it says is lost */
    ck_assert_uint_gt(connection_break(), 0);
    ck_assert(!m->flights->air->acked);
    while (!m->flights->air->acked) {
        turn();
        ck_assert(put->id == id_of(4, 3) && is_at(&backup, key(0), "new"));
        const struct item *it = value_of(&backup, key(1), (uint32_t)strlen(key(1)), 0);
        ck_assert(it && item_len(it) == LARGE && is_at(&backup, key(2), "b"));
    }
    primary.page.lease = UINT64_MAX;
    quiet();
    for (int i = 0; i < 4; i++)
        ck_assert(is(id[i], 0, i == 3 ? "a" : NULL));
    UNTIL(proxy.answers == 3);
    both_same();
}
END_TEST

/* --- lives --- */
START_TEST(a_later_life_goes_on_with_what_was_in_flight) {
    uint64_t id[9];
    life_none();
    id[0] = ask(MSG_PUT, 0, key(0), "one");
    id[1] = ask(MSG_PUT, MSGF_NEW, key(0), "two");
    id[2] = ask(MSG_POP, 0, key(0), NULL);
    id[3] = append(key(1), "a", 0, 2);
    id[4] = append(key(1), "b", MSGF_WAIT, 2);
    id[5] = append(key(1), "c", MSGF_WAIT, 2);
    id[6] = ask(MSG_PUT, 0, key(2), "three");
    id[7] = ask(MSG_CLEAR, 0, NULL, NULL);
    id[8] = ask(MSG_PUT, MSGF_LOADED, key(3), "behind");
    life_first(false);
    life_next();
    quiet();
    ck_assert(is(id[0], 0, NULL) && is(id[1], DDICT_EEXISTS, NULL) && is(id[2], 0, "one"));
    ck_assert(is(id[3], 0, NULL) && is(id[4], 0, NULL) && is(id[6], 0, NULL) && is(id[7], 0, NULL));
    ck_assert(is(id[8], 0, NULL) && is_on_both(key(2), NULL) && is_on_both(key(3), "behind"));
    ck_assert(is_loaded(&primary, key(3)));
    UNTIL(answered(id[5]));
    quiet();
    both_same();
    ck_assert_ptr_null(ledger_next(primary.setup.ledger, NULL));
}
END_TEST

/* What nobody asks for again is undone on the backup, but for CLEAR, which is made. */
static void nobody_asks_again(bool carried_out) {
    life_none();
    ask(MSG_PUT, 0, key(0), "one");
    append(key(1), "a", 0, 5);
    life_first(carried_out);
    client_close();
    memset(&client, 0, sizeof client);
    client_open(); /* another one */
    life_next();
    UNTIL(!m->flights->air);
    uint64_t put = ask(MSG_PUT, 0, key(2), "two");
    UNTIL(answered(put));
    quiet();
    both_same();
    UNTIL(!ledger_next(primary.setup.ledger, NULL));
    both_same();
}
START_TEST(a_later_life_undoes_what_nobody_asks_for_again) {
    nobody_asks_again(true);
}
END_TEST
START_TEST(a_later_life_undoes_what_did_not_arrive) {
    nobody_asks_again(false);
}
END_TEST

/* And the backup does not say that it was done. */
START_TEST(what_a_later_life_undoes_has_no_result) {
    life_none();
    proxy_open_via(&backup, &primary, 1);
    proxy_ask(MSG_PUT, 0, id_of(7, 3), key(0), "one");
    life_first(true);
    ck_assert_uint_eq(backup.setup.results[PROXY].at[3].id, id_of(7, 3));
    ck_assert(is_at(&backup, key(0), "one"));
    life_next();
    UNTIL(!ledger_next(primary.setup.ledger, NULL));
    ck_assert(is_on_both(key(0), NULL));
    map_send(&backup, 2, shadow_of(&deal, OWNER), SHADOW_NONE);
    for (int i = 0; i < 10; i++)
        side_turn(&backup);
    proxy_open(&backup, 3);
    UNTIL(proxy.up);
    proxy_ask(MSG_PUT, MSGF_AGAIN, id_of(7, 3), key(0), "one");
    UNTIL(proxy.answers == 1);
    ck_assert(proxy.last.status == 0 && is_at(&backup, key(0), "one"));
}
END_TEST

START_TEST(a_later_life_clears_again) {
    life_none();
    ask(MSG_CLEAR, 0, NULL, NULL);
    life_first(true);
    client_close();
    client_open();
    life_next();
    quiet();
    both_same();
    ck_assert_ptr_null(ledger_next(primary.setup.ledger, NULL));
}
END_TEST

UNIT_MAIN_WITH(
    "manager_replicas", both_open, both_close, a_put_is_answered_and_seen_when_the_backup_has_it,
    what_is_asked_of_a_key_keeps_its_order, new_and_existing_are_judged_in_their_turn,
    who_waits_for_a_key_is_served_in_order, queues_have_their_limit_and_their_order,
    clear_waits_for_all_before_and_all_behind_for_it, cancel_ends_what_waits_and_not_what_was_sent,
    a_value_is_not_put_for_who_cancelled_while_the_limit_was_sent,
    what_a_client_sent_is_made_when_it_is_gone, a_proxy_that_asks_again_is_answered_once,
    after_a_promotion_a_proxy_is_answered_by_what_was_the_backup,
    without_a_backup_all_in_flight_is_made_and_it_goes_on, a_backup_that_says_nothing_is_told_of,
    a_backup_without_room_is_told_of, large_values_go_in_pieces, what_was_loaded_is_sealed,
    a_large_value_for_what_is_sealed_is_refused, what_is_read_again_waits_until_a_freeze_has_begun,
    what_is_in_doubt_is_made_the_same_on_both, what_is_sent_again_takes_nothing_from_the_backup,
    whatever_breaks_both_have_the_same, a_later_life_goes_on_with_what_was_in_flight,
    a_later_life_undoes_what_nobody_asks_for_again, a_later_life_undoes_what_did_not_arrive,
    what_a_later_life_undoes_has_no_result, a_later_life_clears_again)
