/* SPDX-License-Identifier: Apache-2.0 */
/* client_near.c - where keys are: those that share a tag are on one manager, and every call finds them there
 * from every node. */
#include "client_dict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576u
#define N   40u /* keys of a tag: short, of the common length, and long */

static struct dict x;
static ddict_t *d[2];

static void before(void) {
    dict_begin_all(&x, d, 2, 4, 64 * MIB);
}
static void after(void) {
    dict_end_all(&x, d);
}

static size_t tagged(char key[64], unsigned tag, unsigned i) {
    static const char *const form[] = {"{%u}%u", "{t%u}/a%04u", "a/long/name/of/some/file/{%u}/%u"};
    return (size_t)snprintf(key, 64, form[i % 3], i % 3 == 1 ? tag : tag + 1000, i);
}

/* The manager that has the keys of a tag, of the statistics: the only one that has as many. */
static unsigned counted(unsigned keys) {
    struct ddict_manager_stats *s;
    unsigned owner = 99, n = 0;
    ok(ddict_stats(d[0], &s, sizeof *s, -1));
    for (unsigned m = 0; m < 4; m++)
        if (s[m].num_keys > 0) {
            owner = m;
            n++;
        }
    ck_assert(n == 1 && s[owner].num_keys == keys);
    free(s);
    return owner;
}

static void found_by_each(ddict_t *at, const char *key, size_t klen, const char *val) {
    char buf[8];
    size_t len;
    struct ddict_view v;
    struct ddict_want w = {.key = key, .klen = klen};
    ok(ddict_get(at, key, klen, buf, sizeof buf, &len, NULL, 0, -1));
    ck_assert(len == 3 && memcmp(buf, val, 3) == 0);
    ok(ddict_view(at, key, klen, &v, 0, -1));
    ck_assert(v.len == 3 && memcmp(v.data, val, 3) == 0 && v.version > 0 && v.version < 1u << 30);
    ddict_release(&v);
    ck_assert_int_eq(ddict_get_many(at, &w, 1, 0, -1), 1);
    ck_assert(w.view.len == 3 && memcmp(w.view.data, val, 3) == 0);
    ddict_release(&w.view);
    ck_assert_int_eq(ddict_contains(at, key, klen, NULL, -1), 1);
}

START_TEST(keys_with_a_tag_are_on_one_manager_for_every_call) {
    unsigned seen[4] = {0};
    for (unsigned tag = 0; tag < 12; tag++) {
        char key[64];
        size_t n = tagged(key, tag, 1);
        unsigned owner = ddict_owner(d[0], key, n);
        for (unsigned i = 1; i < N; i += 3) {
            n = tagged(key, tag, i);
            ck_assert_uint_eq(ddict_owner(d[i % 2], key, n), owner);
            if (i % 4 == 0) {
                struct ddict_pair p = {.key = key, .klen = n, .val = "val", .vlen = 3};
                ck_assert_int_eq(ddict_put_many(d[i % 2], &p, 1, -1), 1);
            } else if (i % 4 == 1) {
                struct ddict_place p;
                ok(ddict_reserve(d[i % 2], key, n, 3, 0, &p));
                memcpy(p.data, "val", 3);
                ok(ddict_commit(&p, -1));
            } else {
                ok(ddict_put(d[i % 2], key, n, "val", 3, 0, -1));
            }
        }
        ck_assert_uint_eq(counted(N / 3), owner);
        for (unsigned i = 1; i < N; i += 3)
            for (int at = 0; at < 2; at++)
                found_by_each(d[at], key, tagged(key, tag, i), "val");
        n = tagged(key, tag, 1);
        struct ddict_view v;
        ok(ddict_pop(d[0], key, n, &v, 0, -1));
        ddict_release(&v);
        ck_assert_int_eq(ddict_contains(d[1], key, n, NULL, -1), 0);
        fails(DDICT_ENOKEY, ddict_view(d[0], key, n, &v, 0, 0 + 5000));
        ok(ddict_push(d[1], key, n, "one", 3, 0, 0, -1));
        ok(ddict_push(d[0], key, n, "two", 3, 0, 0, -1));
        ck_assert_int_eq(ddict_queued(d[1], key, n, -1), 2);
        ok(ddict_del(d[1], key, n, -1));
        seen[owner]++;
        ok(ddict_clear(d[0], -1));
    }
    ck_assert((seen[0] > 0) + (seen[1] > 0) + (seen[2] > 0) + (seen[3] > 0) >= 2);
}
END_TEST

START_TEST(a_key_with_a_tag_that_the_proxy_keeps_is_as_its_owner_has_it) {
    char key[64];
    for (unsigned tag = 0; tag < 40; tag++)
        ok(ddict_put(d[0], key, tagged(key, tag, 2), "val", 3, 0, -1));
    ok(ddict_freeze(d[0], -1));
    for (int round = 0; round < 3; round++)
        for (unsigned tag = 0; tag < 40; tag++)
            for (int at = 0; at < 2; at++)
                found_by_each(d[at], key, tagged(key, tag, 2), "val");
    struct iovec ahead = {.iov_base = key, .iov_len = tagged(key, 3, 2)};
    ok(ddict_prefetch(d[ddict_owner(d[0], key, ahead.iov_len) % 2 == 0], &ahead, 1, -1));
    ok(ddict_unfreeze(d[0], -1));
    for (unsigned tag = 0; tag < 40; tag++)
        ok(ddict_put(d[1], key, tagged(key, tag, 2), "new", 3, 0, -1));
    for (unsigned tag = 0; tag < 40; tag++)
        for (int at = 0; at < 2; at++)
            found_by_each(d[at], key, tagged(key, tag, 2), "new");
}
END_TEST

START_TEST(the_lengths_of_the_nodes_are_that_of_all) {
    for (int i = 0; i < 500; i++)
        ok(ddict_put(d[i % 2], &i, sizeof i, "v", 1, 0, -1));
    ok(ddict_put(d[0], "sddict.x", 8, "v", 1, 0, -1));
    for (int at = 0; at < 2; at++) {
        ddict_iter_t *it;
        const void *key;
        size_t klen;
        int64_t n = 0;
        ok(ddict_iter_open(d[at], -2, &it, -1));
        while (ddict_iter_next(it, &key, &klen) == 1) {
            ck_assert_int_eq(ddict_owner(d[at], key, klen) % 2, at);
            n++;
        }
        ddict_iter_close(it);
        ck_assert(n > 0 && ddict_local_len(d[at], 0) == n);
    }
    ck_assert_int_eq(ddict_local_len(d[0], -1) + ddict_local_len(d[1], -1), 500);
    ck_assert_int_eq(ddict_len(d[0], -1), 500);
}
END_TEST

START_TEST(a_directed_key_is_on_its_manager_and_found_from_every_node) {
    char at[64], small[8];
    struct ddict_info info;
    ok(ddict_get_info(d[0], &info));
    for (unsigned m = 0; m < info.managers; m++)
        for (unsigned i = 0; i < 20; i++) {
            char key[16], val[16];
            size_t klen = (size_t)snprintf(key, sizeof key, "key%u", i), len;
            snprintf(val, sizeof val, "%03u", 100 + m * 20 + i);
            ssize_t n = ddict_key_at(d[i % 2], m, key, klen, at, sizeof at);
            ck_assert_int_eq(
                n, (ssize_t)(klen + (ddict_owner(d[0], key, klen) == m ? 0 : DDICT_KEY_AT)));
            ck_assert_uint_eq(ddict_owner(d[0], at, (size_t)n), m);
            ck_assert_uint_eq(ddict_owner(d[1], at, (size_t)n), m);
            ok(ddict_put(d[i % 2], at, (size_t)n, val, 3, 0, -1));
            len = (size_t)n;
            for (int node = 0; node < 2; node++)
                found_by_each(d[node], at, len, val);
        }
    ck_assert_int_eq(ddict_len(d[0], -1), 20); /* those whose manager owns the key are plain ones */
    struct ddict_manager_stats *s;
    ok(ddict_stats(d[0], &s, sizeof *s, -1));
    for (unsigned m = 0; m < info.managers; m++)
        ck_assert_uint_eq(s[m].num_keys, 20);
    free(s);
    /* of a manager that is not there: by its hash, as any key */
    char far[] = "\0ddict.at/\xff\0\0\0key";
    ok(ddict_put(d[0], far, sizeof far, "val", 3, 0, -1));
    found_by_each(d[1], far, sizeof far, "val");
    static char big[DDICT_KEY_MAX + DDICT_KEY_AT], out[DDICT_KEY_MAX + DDICT_KEY_AT];
    unsigned other = (ddict_owner(d[0], big, DDICT_KEY_MAX) + 1) % info.managers;
    fails(-EINVAL, ddict_key_at(d[0], info.managers, "k", 1, at, sizeof at));
    fails(DDICT_EKEYSIZE, ddict_key_at(d[0], other, big, DDICT_KEY_MAX, out, sizeof out));
    fails(DDICT_EKEYSIZE, ddict_key_at(d[0], 0, big, 0, out, sizeof out));
    fails(DDICT_ESMALL, ddict_key_at(d[0], (ddict_owner(d[0], "key1", 4) + 1) % info.managers,
                                     "key1", 4, small, sizeof small));
}
END_TEST

START_TEST(keys_with_the_tag_of_a_manager_are_plain_and_on_it) {
    struct ddict_info info;
    char tag[DDICT_KEY_TAG], other[DDICT_KEY_TAG], key[64], path[80];
    ok(ddict_get_info(d[0], &info));
    for (unsigned m = 0; m < info.managers; m++) {
        ssize_t n = ddict_key_tag(d[0], m, tag, sizeof tag);
        ck_assert_int_gt(n, 2);
        ck_assert_uint_eq(strlen(tag), (size_t)n);
        ck_assert_int_eq(ddict_key_tag(d[1], m, other, (size_t)n + 1), n);
        ck_assert_str_eq(tag, other);
        for (unsigned i = 0; i < 20; i++) {
            size_t klen = (size_t)snprintf(key, sizeof key, "s%s/key%u", tag, i);
            ck_assert_uint_eq(ddict_owner(d[i % 2], key, klen), m);
            ok(ddict_put(d[i % 2], key, klen, "val", 3, 0, -1));
            for (int node = 0; node < 2; node++)
                found_by_each(d[node], key, klen, "val");
            /* by the node of the manager without a message, alone or in front */
            if (m % info.nodes < 2)
                ck_assert_int_eq(ddict_contains(d[m % info.nodes], key, klen, NULL, 0), 1);
            snprintf(path, sizeof path, "a/b%s", tag);
            ck_assert_uint_eq(ddict_owner(d[0], path, strlen(path)), m);
        }
    }
    ck_assert_int_eq(ddict_len(d[0], -1), (int64_t)info.managers * 20);
    fails(-EINVAL, ddict_key_tag(d[0], info.managers, tag, sizeof tag));
    fails(DDICT_ESMALL, ddict_key_tag(d[0], 0, tag, 3));
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        keys_with_a_tag_are_on_one_manager_for_every_call,
        a_key_with_a_tag_that_the_proxy_keeps_is_as_its_owner_has_it,
        the_lengths_of_the_nodes_are_that_of_all,
        a_directed_key_is_on_its_manager_and_found_from_every_node,
        keys_with_the_tag_of_a_manager_are_plain_and_on_it,
    };
    return tests_main_with("client_near", before, after, argc, argv, tests,
                           sizeof tests / sizeof *tests);
}
