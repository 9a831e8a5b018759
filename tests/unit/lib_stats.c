/* SPDX-License-Identifier: Apache-2.0 */
/* lib_stats.c - figures of a manager between versions: of the message that brings them, and of
 * the struct that a program was compiled with. */
#include "unit.h"

#include <lib/stats_public.h>
#include <stdlib.h>
#include <string.h>

/* Another number in each byte that can have one; the texts end. */
static struct manager_stats sample(void) {
    struct manager_stats s;
    memset(&s, 0x5a, sizeof s);
    s.version = STATS_VERSION;
    s.bytes = sizeof s;
    s.puts = 17;
    s.turn_max_us = 4711;
    s.pool_utilization = 12.5;
    s.hostname[sizeof s.hostname - 1] = s.node[sizeof s.node - 1] =
        s.transport[sizeof s.transport - 1] = s.wire[sizeof s.wire - 1] = 0;
    return s;
}

START_TEST(every_figure_comes_back_from_the_public_struct) {
    struct manager_stats s = sample(), back;
    struct ddict_manager_stats public;
    memset(&public, 0, sizeof public);
    stats_to_public(&public, sizeof public, &s);
    ck_assert_uint_eq(public.puts, 17);
    stats_from_public(&back, &public, sizeof public);
    ck_assert_mem_eq(&s, &back, sizeof s);
}
END_TEST

START_TEST(nothing_is_written_behind_a_smaller_struct) {
    struct manager_stats s = sample(), back;
    for (size_t size = offsetof(struct ddict_manager_stats, num_keys);
         size <= sizeof(struct ddict_manager_stats) + 64; size += 8) {
        unsigned char *out = malloc(size + 64), *whole = malloc(size + 64);
        ck_assert(stats_size_known(size) && out && whole);
        memset(out, 0xa5, size + 64);
        memset(whole, 0xa5, size + 64);
        struct ddict_manager_stats all;
        stats_to_public(&all, sizeof all, &s);
        memset(whole, 0, size);
        memcpy(whole, &all, size < sizeof all ? size : sizeof all);
        stats_to_public(out, size, &s);
        ck_assert_mem_eq(out, whole, size + 64);
        stats_from_public(&back, (void *)out, size);
        ck_assert_uint_eq(back.puts, size > offsetof(struct ddict_manager_stats, puts) ? 17 : 0);
        ck_assert_uint_eq(back.turn_max_us,
                          size > offsetof(struct ddict_manager_stats, turn_max_us) ? 4711 : 0);
        free(out);
        free(whole);
    }
}
END_TEST

START_TEST(sizes_that_no_version_has_are_refused) {
    ck_assert(stats_size_known(sizeof(struct ddict_manager_stats)) &&
              stats_size_known(2 * sizeof(struct ddict_manager_stats)));
    ck_assert(!stats_size_known(0) && !stats_size_known(8) &&
              !stats_size_known(sizeof(struct ddict_manager_stats) - 1) &&
              !stats_size_known((size_t)-8));
}
END_TEST

START_TEST(a_message_of_another_version_gives_what_both_know) {
    struct {
        struct manager_stats s;
        uint64_t later[3];
    } sent = {.s = sample(), .later = {1, 2, 3}};
    struct manager_stats got, here = sent.s;
    sent.s.version = STATS_VERSION + 1;
    sent.s.bytes = sizeof sent;
    ck_assert_int_eq(stats_read(&got, &sent, sizeof sent), 0);
    ck_assert_mem_eq(&got, &here, sizeof got);
    sent.s.version = 1;
    sent.s.bytes = offsetof(struct manager_stats, turn_max_us); /* of before that */
    ck_assert_int_eq(stats_read(&got, &sent, sent.s.bytes), 0);
    here.turn_max_us = 0;
    memset(here.wire, 0, sizeof here.wire);
    here.restarts = 0;
    here.copies = 0;
    here.hidden_keys = 0;
    ck_assert_mem_eq(&got, &here, sizeof got);
    sent.s.bytes = offsetof(struct manager_stats, numa_node);
    ck_assert_int_eq(stats_read(&got, &sent, sent.s.bytes), 0);
    ck_assert_int_eq(got.numa_node, -1);
}
END_TEST

START_TEST(a_message_that_makes_no_sense_is_refused_and_texts_have_an_end) {
    struct manager_stats sent = sample(), got;
    memset(sent.node, 'n', sizeof sent.node);
    ck_assert_int_eq(stats_read(&got, &sent, sizeof sent), 0);
    ck_assert_uint_eq(strlen(got.node), sizeof got.node - 1);
    ck_assert_int_eq(stats_read(&got, &sent, 7), DDICT_EPROTO);
    ck_assert_int_eq(stats_read(&got, &sent, sizeof sent - 8), DDICT_EPROTO);
    sent.version = 0;
    ck_assert_int_eq(stats_read(&got, &sent, sizeof sent), DDICT_EPROTO);
}
END_TEST

UNIT_MAIN("client_stats", every_figure_comes_back_from_the_public_struct,
          nothing_is_written_behind_a_smaller_struct, sizes_that_no_version_has_are_refused,
          a_message_of_another_version_gives_what_both_know,
          a_message_that_makes_no_sense_is_refused_and_texts_have_an_end)
