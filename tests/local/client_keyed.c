/* SPDX-License-Identifier: Apache-2.0 */
/* client_keyed.c - libddict on nodes whose managers own no keys: each call does what it does
 * elsewhere, and nothing lies there. */
#include "client_dict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB  (1ull << 20)
#define N    200u
#define WAIT 20000

static struct dict x;
static ddict_t *with, *without; /* on node 0, which has all keys, and on node 2 */

static void before(void) {
    setenv("DDICT_TEST_KEYED", "1", 1);
    dict_start(&x, 3, 2, 96 * MIB);
    with = dict_attach(&x, 0);
    without = dict_attach(&x, 2);
}
static void after(void) {
    struct ddict_manager_stats *s;
    int n = ddict_stats(with, &s, sizeof *s, WAIT);
    ck_assert_int_eq(n, 4); /* 0 and 3 are on node 0 */
    for (int m = 0; m < n; m++)
        ck_assert(m % 3 == 0 || s[m].num_keys == 0);
    free(s);
    ddict_detach(without);
    ddict_detach(with);
    dict_stop(&x);
    unsetenv("DDICT_TEST_KEYED");
}

START_TEST(it_says_which_nodes_have_keys) {
    struct ddict_info info;
    unsigned seen[4] = {0};
    ck_assert_uint_eq(ddict_keyed_nodes(without), 1);
    ck_assert_int_eq(ddict_get_info(without, &info), 0);
    ck_assert_uint_eq(info.managers, 4);
    ck_assert_uint_eq(info.local_managers, 1);
    ck_assert_uint_eq(info.total_bytes, 96 * MIB);
    for (unsigned k = 0; k < N; k++)
        seen[ddict_owner(without, &k, sizeof k)]++;
    ck_assert(seen[0] > 0 && seen[3] > 0 && seen[1] + seen[2] == 0);
}
END_TEST

START_TEST(many_values_are_put_walked_and_got) {
    static struct ddict_pair pairs[N];
    static struct ddict_want wants[N];
    static unsigned key[N];
    ddict_iter_t *it;
    const void *at;
    size_t len;
    unsigned walked = 0;
    for (unsigned k = 0; k < N; k++) {
        key[k] = k;
        pairs[k] = (struct ddict_pair){
            .key = &key[k], .klen = sizeof *key, .val = &key[k], .vlen = sizeof *key};
        wants[k] = (struct ddict_want){.key = &key[k], .klen = sizeof *key};
    }
    ck_assert_int_eq(ddict_put_many(without, pairs, N, WAIT), N);
    ck_assert_int_eq(ddict_len(without, WAIT), N);
    ck_assert_int_eq(ddict_get_many(without, wants, N, 0, WAIT), N);
    for (unsigned k = 0; k < N; k++) {
        ck_assert(wants[k].status == 0 && memcmp(wants[k].view.data, &key[k], sizeof *key) == 0);
        ddict_release(&wants[k].view);
    }
    ck_assert_int_eq(ddict_iter_open(without, -1, &it, WAIT), 0);
    while (ddict_iter_next(it, &at, &len) == 1)
        walked++;
    ddict_iter_close(it);
    ck_assert_uint_eq(walked, N);
    ck_assert_int_eq(ddict_clear(without, WAIT), 0);
    ck_assert_int_eq(ddict_len(with, WAIT), 0);
}
END_TEST

START_TEST(a_queue_is_filled_and_emptied) {
    struct ddict_view v;
    for (char c = 'a'; c <= 'e'; c++)
        ck_assert_int_eq(ddict_push(c % 2 ? without : with, "q", 1, &c, 1, 0, 5, WAIT), 0);
    ck_assert_int_eq(ddict_push(without, "q", 1, "f", 1, 0, 5, WAIT), -EAGAIN);
    ck_assert_int_eq(ddict_queued(without, "q", 1, WAIT), 5);
    for (char c = 'a'; c <= 'e'; c++) {
        ck_assert_int_eq(ddict_pop(without, "q", 1, &v, 0, WAIT), 0);
        ck_assert(v.len == 1 && *(const char *)v.data == c);
        ddict_release(&v);
    }
    ck_assert_int_eq(ddict_pop(without, "q", 1, &v, 0, WAIT), DDICT_ENOKEY);
}
END_TEST

START_TEST(a_subscription_hears_of_every_put) {
    ddict_sub_t *sub;
    struct ddict_event e;
    ck_assert_int_eq(ddict_subscribe(without, "s", 1, 0, &sub, WAIT), 0);
    for (unsigned k = 0; k < 2; k++) {
        ck_assert_int_eq(ddict_put(k ? without : with, "s1", 2, "v", 1, 0, WAIT), 0);
        ck_assert_int_eq(ddict_next_event(sub, &e, WAIT), 1);
        ck_assert(e.kind == DDICT_EVENT_PUT && e.klen == 2 && memcmp(e.key, "s1", 2) == 0);
    }
    ddict_unsubscribe(sub);
    ck_assert_int_eq(ddict_del(without, "s1", 2, WAIT), 0);
}
END_TEST

START_TEST(what_is_read_while_frozen_is_kept) {
    static char value[100000];
    struct ddict_view v;
    memset(value, 7, sizeof value);
    ck_assert_int_eq(ddict_put(without, "f", 1, value, sizeof value, 0, WAIT), 0);
    ck_assert_int_eq(ddict_freeze(without, WAIT), 0);
    ck_assert_int_eq(ddict_put(without, "f", 1, "", 0, 0, WAIT), DDICT_EFROZEN);
    for (int i = 0; i < 2; i++) {
        /* the second is in place, so it need not wait */
        ck_assert_int_eq(ddict_view(without, "f", 1, &v, 0, i == 0 ? WAIT : 0), 0);
        ck_assert(v.len == sizeof value && memcmp(v.data, value, sizeof value) == 0);
        ddict_release(&v);
    }
    ck_assert_int_eq(ddict_unfreeze(without, WAIT), 0);
    ck_assert_int_eq(ddict_del(without, "f", 1, WAIT), 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_keyed");
    TCase *c = tcase_create("client_keyed");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, before, after);
    tcase_add_test(c, it_says_which_nodes_have_keys);
    tcase_add_test(c, many_values_are_put_walked_and_got);
    tcase_add_test(c, a_queue_is_filled_and_emptied);
    tcase_add_test(c, a_subscription_hears_of_every_put);
    tcase_add_test(c, what_is_read_while_frozen_is_kept);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
