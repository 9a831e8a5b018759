/* SPDX-License-Identifier: Apache-2.0 */
/* wire_msg.c - the check of message headers: what each type allows, and that nothing else passes.
 * */
#include "wire_test.h"
#include <ddict.h>
#include <wire/msg.h>

#include <stdbool.h>
#include <string.h>

static int check(struct msg m) {
    return msg_check(&m, MSG_LEN_MAX);
}

START_TEST(well_formed_messages_of_every_type_pass) {
    ck_assert_int_eq(check((struct msg){.len = 74, .type = MSG_PUT, .key_len = 4, .val_len = 6}),
                     0);
    ck_assert_int_eq(check((struct msg){.len = 68, .type = MSG_PUT, .key_len = 4}), 0);
    ck_assert_int_eq(
        check((struct msg){
            .len = 68, .type = MSG_PUT, .key_len = 4, .val_len = 1ull << 40, .flags = MSGF_STREAM}),
        0);
    for (unsigned t = MSG_GET; t <= MSG_DEL; t++)
        ck_assert_int_eq(check((struct msg){
                             .len = 64 + MSG_KEY_MAX, .type = (uint16_t)t, .key_len = MSG_KEY_MAX}),
                         0);
    for (unsigned t = MSG_CLEAR; t <= MSG_CANCEL; t++)
        ck_assert_int_eq(check((struct msg){.len = 64, .type = (uint16_t)t, .aux = UINT64_MAX}), 0);
    ck_assert_int_eq(check((struct msg){.len = 64 + DD_MSG_PIECE, .type = MSG_DATA}), 0);
    ck_assert_int_eq(
        check((struct msg){.len = 64, .type = MSG_DATA, .flags = MSGF_LAST, .status = -5}), 0);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_ABORT}), 0);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_CREDIT, .aux = UINT64_MAX}), 0);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_HOLD, .aux = 1, .manager = 7}), 0);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_FREEZE, .aux = 1}), 0);
    ck_assert_int_eq(check((struct msg){.len = 65, .type = MSG_FREEZE}), DDICT_EPROTO);
    for (unsigned t = MSG_PUT; t <= MSG_CLEAR; t++) {
        bool changes = t == MSG_PUT || t == MSG_DEL;
        ck_assert_int_eq(check((struct msg){.len = t == MSG_CLEAR ? 64 : 65,
                                            .type = (uint16_t)t,
                                            .key_len = t != MSG_CLEAR,
                                            .flags = MSGF_RESTORE}),
                         changes ? 0 : DDICT_EPROTO);
    }
    ck_assert_int_eq(check((struct msg){.len = 100, .type = MSG_PREFETCH}), 0);
    ck_assert_int_eq(
        check((struct msg){
            .len = MSG_LEN_MAX, .type = MSG_REPLY, .val_len = 5, .flags = MSGF_STREAM}),
        0);
    for (unsigned t = MSG_CTL_READY; t <= MSG_CTL_INFOS; t++)
        ck_assert_int_eq(check((struct msg){.len = 164, .type = (uint16_t)t}), 0);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_TOOK, .flags = MSGF_HOP}), 0);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_REWIND, .aux = 7, .rewind = 1}), 0);
    ck_assert_int_eq(check((struct msg){.len = 65, .type = MSG_DATA, .rewind = UINT32_MAX}), 0);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_CANCEL, .rewind = 1}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 65, .type = MSG_REWIND}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){
                         .len = 65, .type = MSG_DEL, .key_len = 1, .flags = MSGF_HOP | MSGF_AGAIN}),
                     0);
}
END_TEST

START_TEST(a_rule_goes_with_what_it_can_judge) {
    struct msg put = {.len = 65, .type = MSG_PUT, .key_len = 1, .rule = RULE_IF};
    struct msg add = {.len = 65, .type = MSG_PUT, .key_len = 1, .rule = RULE_ADD, .aux = 1};
    struct msg del = {.len = 65, .type = MSG_DEL, .key_len = 1, .rule = RULE_IF, .version = 1};
    struct msg head = {.len = 65, .type = MSG_HEAD, .key_len = 1, .rule = RULE_IF};
    struct msg repl = {
        .len = 65, .type = MSG_REPL, .key_len = 1, .rule = RULE_ADD, .status = REPL_PUT};
    ck_assert(check(put) == 0 && check(add) == 0 && check(del) == 0 && check(repl) == 0);
    struct msg link = {.len = 65 + MSG_LINK,
                       .type = MSG_PUT,
                       .key_len = 1,
                       .val_len = MSG_LINK,
                       .flags = MSGF_LINK};
    ck_assert_int_eq(check(link), 0);
    link.flags |= MSGF_APPEND;
    ck_assert_int_eq(check(link), DDICT_EPROTO);
    link.flags = MSGF_LINK | MSGF_STREAM;
    link.len = 65;
    ck_assert_int_eq(check(link), DDICT_EPROTO);
    link.flags = MSGF_LINK;
    link.len = 65 + --link.val_len;
    ck_assert_int_eq(check(link), DDICT_EPROTO);
    ck_assert_int_eq(check(head), DDICT_EPROTO);
    head.flags = MSGF_WAIT;
    ck_assert_int_eq(check(head), 0);
    for (unsigned flag = 1; flag <= MSGF_REFILL; flag <<= 1) {
        bool may = flag & (MSGF_HOP | MSGF_AGAIN | MSGF_LOADED | MSGF_REFILL);
        put.flags = add.flags = (uint16_t)flag;
        ck_assert_int_eq(check(put), may || flag == MSGF_STREAM ? 0 : DDICT_EPROTO);
        ck_assert_int_eq(check(add), may ? 0 : DDICT_EPROTO);
    }
    add = (struct msg){.len = 66, .type = MSG_PUT, .key_len = 1, .val_len = 1, .rule = RULE_ADD};
    ck_assert_int_eq(check(add), DDICT_EPROTO);
    del.version = 0;
    ck_assert_int_eq(check(del), DDICT_EPROTO);
    del.version = 1;
    del.rule = head.rule = RULE_ADD;
    ck_assert(check(del) == DDICT_EPROTO && check(head) == DDICT_EPROTO);
    repl.status = REPL_DEL;
    ck_assert_int_eq(check(repl), DDICT_EPROTO);
    put.flags = 0;
    put.rule = RULE_N;
    ck_assert_int_eq(check(put), DDICT_EPROTO);
    for (unsigned t = MSG_CLEAR; t <= MSG_CANCEL; t++)
        for (uint8_t rule = RULE_IF; rule <= RULE_N; rule++)
            ck_assert_int_eq(check((struct msg){.len = 64, .type = (uint16_t)t, .rule = rule}),
                             DDICT_EPROTO);
}
END_TEST

START_TEST(lengths_that_do_not_agree_are_refused) {
    ck_assert_int_eq(check((struct msg){.len = 74, .type = MSG_PUT, .key_len = 4, .val_len = 7}),
                     DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 74, .type = MSG_PUT, .key_len = 4, .val_len = 5}),
                     DDICT_EPROTO);
    ck_assert_int_eq(
        check((struct msg){
            .len = 74, .type = MSG_PUT, .key_len = 4, .val_len = 6, .flags = MSGF_STREAM}),
        DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 74, .type = MSG_PUT, .key_len = 0, .val_len = 10}),
                     DDICT_EPROTO);
    ck_assert_int_eq(
        check((struct msg){.len = 74, .type = MSG_PUT, .key_len = 11, .val_len = UINT64_MAX}),
        DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 68,
                                        .type = MSG_PUT,
                                        .key_len = 4,
                                        .val_len = MSG_VALUE_MAX,
                                        .flags = MSGF_STREAM}),
                     DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){
                         .len = 64 + MSG_KEY_MAX + 1, .type = MSG_GET, .key_len = MSG_KEY_MAX + 1}),
                     DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_GET}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_DATA}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 65, .type = MSG_DATA, .aux = MSG_VALUE_MAX}),
                     DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 65, .type = MSG_LEN}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 65, .type = MSG_REPLY, .key_len = 1}), DDICT_EPROTO);
}
END_TEST

START_TEST(what_is_too_short_or_long_or_unknown_is_refused) {
    struct msg m = {.len = 200, .type = MSG_REPLY};
    ck_assert_int_eq(msg_check(&m, 200), 0);
    ck_assert_int_eq(msg_check(&m, 199), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 63, .type = MSG_LEN}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = MSG_LEN_MAX + 1, .type = MSG_REPLY}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = 0}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_PAD}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_TYPE_N}), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = 0xffff}), DDICT_EPROTO);
}
END_TEST

START_TEST(changes_for_a_backup_are_of_a_known_kind) {
    struct msg m = {.len = 70, .type = MSG_REPL, .key_len = 2, .val_len = 4};
    for (m.status = REPL_PUT; m.status <= REPL_WHOLE; m.status++)
        ck_assert_int_eq(check(m), 0);
    ck_assert_int_eq(check(m), DDICT_EPROTO);
    m.status = 0;
    ck_assert_int_eq(check(m), DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_SYNC, .flags = MSGF_NEW}), 0);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_ACK, .flags = MSGF_NEW}),
                     DDICT_EPROTO);
}
END_TEST

START_TEST(flags_that_a_type_does_not_know_are_refused) {
    ck_assert_int_eq(check((struct msg){.len = 65,
                                        .type = MSG_GET,
                                        .key_len = 1,
                                        .flags = MSGF_WAIT | MSGF_VIEW | MSGF_HOP | MSGF_REMOTE}),
                     0);
    ck_assert_int_eq(
        check((struct msg){.len = 65, .type = MSG_GET, .key_len = 1, .flags = MSGF_NEW}),
        DDICT_EPROTO);
    ck_assert_int_eq(
        check((struct msg){
            .len = 65, .type = MSG_PUT, .key_len = 1, .flags = MSGF_NEW | MSGF_EXISTING}),
        DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 64, .type = MSG_TOOK, .flags = MSGF_AGAIN}),
                     DDICT_EPROTO);
    ck_assert_int_eq(check((struct msg){.len = 65, .type = MSG_REPLY, .flags = 0x100}),
                     DDICT_EPROTO);
}
END_TEST

/* Whatever passes satisfies what the readers of messages rely on. */
START_TEST(random_headers_that_pass_are_within_bounds) {
    uint64_t seed = 1, passed = 0;
    for (int i = 0; i < 2000000; i++) {
        uint64_t r = test_random(&seed);
        struct msg m = {.len = 60 + (uint32_t)(r & 63),
                        .type = (uint16_t)(r >> 8 & 31),
                        .flags = (uint16_t)(r >> 16 & r >> 24 & 255),
                        .key_len = (uint32_t)(r >> 32 & 63),
                        .val_len = r >> 40 & 63,
                        .aux = test_random(&seed)};
        if (msg_check(&m, 120) != 0)
            continue;
        passed++;
        if (m.len < 64 || m.len > 120 || m.type <= MSG_PAD || m.type >= MSG_TYPE_N ||
            m.key_len > m.len - 64 ||
            (m.type == MSG_PUT && !(m.flags & MSGF_STREAM) && 64 + m.key_len + m.val_len != m.len))
            ck_abort_msg("type %u len %u key %u value %lu", m.type, m.len, m.key_len,
                         (unsigned long)m.val_len);
    }
    ck_assert_uint_gt(passed, 1000);
}
END_TEST

START_TEST(every_type_has_a_name) {
    for (unsigned t = MSG_PAD; t < MSG_TYPE_N; t++)
        ck_assert_str_ne(msg_name(t), "?");
    ck_assert_str_eq(msg_name(MSG_PUT), "PUT");
    ck_assert_str_eq(msg_name(0), "?");
    ck_assert_str_eq(msg_name(MSG_TYPE_N), "?");
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire_msg");
    TCase *c = wire_case(s, "check", 30);
    tcase_add_test(c, well_formed_messages_of_every_type_pass);
    tcase_add_test(c, a_rule_goes_with_what_it_can_judge);
    tcase_add_test(c, lengths_that_do_not_agree_are_refused);
    tcase_add_test(c, what_is_too_short_or_long_or_unknown_is_refused);
    tcase_add_test(c, changes_for_a_backup_are_of_a_known_kind);
    tcase_add_test(c, flags_that_a_type_does_not_know_are_refused);
    tcase_add_test(c, random_headers_that_pass_are_within_bounds);
    tcase_add_test(c, every_type_has_a_name);
    return wire_main(s);
}
