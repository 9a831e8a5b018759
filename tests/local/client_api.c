/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_api.c - every function of ddict.h against running managers, on this node and on another.
 * Invariants: what was put is what is read, by every way of reading; each error code comes for its
 * cause and no other; after a refusal nothing has changed; a process that detached holds no
 * descriptor and no mapping.
 */
#include "client_dict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

static const size_t sizes[] = {0,    1,      15,     16,     255,    256,     4096,
                               4097, 131000, 131007, 131008, 131072, 1000000, 5u << 20};
#define SIZES (sizeof sizes / sizeof sizes[0])

int old_program_keys(ddict_t *d); /* old_program.c */

static void read_all_ways(ddict_t *d, const char *key, size_t klen, size_t len, uint64_t seed,
                          unsigned tag) {
    static unsigned char buf[6u << 20];
    size_t got = 99;
    unsigned t = 0;
    struct ddict_view v;
    ok(ddict_get(d, key, klen, buf, sizeof buf, &got, &t, 0, -1));
    ck_assert_uint_eq(got, len);
    ck_assert_uint_eq(t, tag);
    ck_assert(value_is(buf, len, seed));
    ok(ddict_view(d, key, klen, &v, 0, -1));
    ck_assert_uint_eq(v.len, len);
    ck_assert_uint_eq(v.tag, tag);
    ck_assert(v.version > 0);
    ck_assert_uint_eq((uintptr_t)v.data % (len >= 256 ? 64 : 16), 0);
    ck_assert(value_is(v.data, len, seed));
    ddict_release(&v);
    got = 99;
    ck_assert_int_eq(ddict_contains(d, key, klen, &got, -1), 1);
    ck_assert_uint_eq(got, len);
    if (len > 0) {
        buf[0] = 42;
        fails(DDICT_ESMALL, ddict_get(d, key, klen, buf, len - 1, &got, NULL, 0, -1));
        ck_assert_uint_eq(got, len);
        got = 0;
        fails(DDICT_ESMALL, ddict_get(d, key, klen, NULL, 0, &got, NULL, 0, -1));
        ck_assert_uint_eq(got, len);
        ck_assert_uint_eq(buf[0], 42);
    }
}

START_TEST(a_value_of_any_size_is_read_as_it_was_put) {
    struct dict x;
    dict_start(&x, 2, 4, 400 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    unsigned char *val = malloc(6u << 20);
    for (unsigned m = 0; m < 4; m++) {
        for (unsigned i = 0; i < SIZES; i++) {
            char key[32];
            size_t klen = key_of(d, m, i, key, sizeof key);
            value_fill(val, sizes[i], m * 100 + i);
            ok(ddict_put(d, key, klen, val, sizes[i], DDICT_TAG(i + 1), -1));
            read_all_ways(d, key, klen, sizes[i], m * 100 + i, i + 1);
        }
    }
    ck_assert_int_eq(ddict_len(d, -1), 4 * SIZES);
    ddict_t *e = dict_attach(&x, 1); /* the same from the other node */
    for (unsigned m = 0; m < 4; m++) {
        for (unsigned i = 0; i < SIZES; i++) {
            char key[32];
            struct ddict_view v;
            size_t klen = key_of(e, m, i, key, sizeof key);
            read_all_ways(e, key, klen, sizes[i], m * 100 + i, i + 1);
            ok(ddict_pop(e, key, klen, &v, 0, -1));
            ck_assert(v.len == sizes[i] && value_is(v.data, v.len, m * 100 + i) && v.tag == i + 1);
            ddict_release(&v);
            fails(DDICT_ENOKEY, ddict_pop(e, key, klen, &v, 0, -1));
            ck_assert_int_eq(ddict_contains(d, key, klen, NULL, -1), 0);
        }
    }
    ck_assert_int_eq(ddict_len(e, -1), 0);
    free(val);
    ddict_detach(e);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(keys_have_any_bytes_up_to_64_kib) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    static const size_t lens[] = {1, 2, 63, 64, 65, 1000, 65535, 65536};
    char *key = malloc(DDICT_KEY_MAX + 1), buf[16];
    memset(key, 0, DDICT_KEY_MAX + 1);
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++) {
        size_t n;
        ok(ddict_put(d, key, lens[i], &i, sizeof i, 0, -1));
        ok(ddict_get(d, key, lens[i], buf, sizeof buf, &n, NULL, 0, -1));
        ck_assert(n == sizeof i && memcmp(buf, &i, n) == 0);
    }
    ck_assert_int_eq(ddict_len(d, -1), sizeof lens / sizeof *lens);
    struct ddict_view v;
    struct ddict_pair p = {.key = key, .klen = 0};
    struct ddict_want w = {.key = key, .klen = 65537};
    fails(DDICT_EKEYSIZE, ddict_put(d, key, 0, "", 0, 0, -1));
    fails(DDICT_EKEYSIZE, ddict_put(d, key, 65537, "", 0, 0, -1));
    fails(DDICT_EKEYSIZE, ddict_get(d, key, 65537, buf, 1, NULL, NULL, 0, -1));
    fails(DDICT_EKEYSIZE, ddict_view(d, key, 0, &v, 0, -1));
    fails(DDICT_EKEYSIZE, ddict_del(d, key, 0, -1));
    fails(DDICT_EKEYSIZE, ddict_pop(d, key, 65537, &v, 0, -1));
    fails(DDICT_EKEYSIZE, ddict_contains(d, key, 0, NULL, -1));
    ck_assert_int_eq(ddict_put_many(d, &p, 1, -1), 0);
    ck_assert_int_eq(p.status, DDICT_EKEYSIZE);
    ck_assert_int_eq(ddict_get_many(d, &w, 1, 0, -1), 0);
    ck_assert_int_eq(w.status, DDICT_EKEYSIZE);
    free(key);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(put_modes_and_misses_have_their_codes) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    for (unsigned m = 0; m < 2; m++) {
        char key[32], buf[8];
        struct ddict_view v;
        size_t n, k = key_of(d, m, 0, key, sizeof key);
        fails(DDICT_ENOKEY, ddict_get(d, key, k, buf, 8, NULL, NULL, 0, -1));
        fails(DDICT_ENOKEY, ddict_view(d, key, k, &v, 0, -1));
        ddict_release(&v); /* nothing in it: allowed */
        fails(DDICT_ENOKEY, ddict_del(d, key, k, -1));
        fails(DDICT_ENOKEY, ddict_put(d, key, k, "a", 1, DDICT_EXISTING, -1));
        ck_assert_int_eq(ddict_contains(d, key, k, NULL, -1), 0);
        ok(ddict_put(d, key, k, "a", 1, DDICT_NEW, -1));
        fails(DDICT_EEXISTS, ddict_put(d, key, k, "b", 1, DDICT_NEW, -1));
        ok(ddict_get(d, key, k, buf, 8, &n, NULL, 0, -1));
        ck_assert(n == 1 && buf[0] == 'a');
        ok(ddict_put(d, key, k, "c", 1, DDICT_EXISTING, -1));
        ok(ddict_get(d, key, k, buf, 8, &n, NULL, 0, -1));
        ck_assert(n == 1 && buf[0] == 'c');
        fails(-EINVAL, ddict_put(d, key, k, "d", 1, DDICT_NEW | DDICT_EXISTING, -1));
        fails(-EINVAL, ddict_put(d, key, k, "d", 1, 1u << 30, -1));
        fails(-EINVAL, ddict_get(d, key, k, buf, 8, NULL, NULL, DDICT_NEW, -1));
        ok(ddict_del(d, key, k, -1));
        fails(DDICT_ENOKEY, ddict_get(d, key, k, buf, 8, NULL, NULL, 0, -1));
        ck_assert_str_eq(ddict_errmsg(), ddict_strerror(DDICT_ENOKEY));
    }
    ddict_iter_t *it;
    fails(-EINVAL, ddict_iter_open(d, 2, &it, -1));
    fails(-EINVAL, ddict_iter_open(d, -3, &it, -1));
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(a_full_manager_refuses_and_touches_nothing) {
    struct dict x;
    dict_start(&x, 2, 2, 32 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    unsigned char *val = malloc(40u << 20);
    value_fill(val, 40u << 20, 1);
    for (unsigned m = 0; m < 2; m++) {
        char key[32];
        unsigned n = 0;
        int rc;
        for (;; n++) {
            size_t k = key_of(d, m, n, key, sizeof key);
            value_fill(val, 300000, n);
            if ((rc = ddict_put(d, key, k, val, 300000, 0, -1)) != 0)
                break;
        }
        fails(DDICT_EFULL, rc);
        char number[8];
        snprintf(number, sizeof number, "%u", m);
        ck_assert_msg(strstr(ddict_errmsg(), x.node[m]) && strstr(ddict_errmsg(), number), "%s",
                      ddict_errmsg());
        ck_assert(n > 30);
        for (unsigned i = 0; i < n; i++) {
            struct ddict_view v;
            size_t k = key_of(d, m, i, key, sizeof key);
            ok(ddict_view(d, key, k, &v, 0, -1));
            ck_assert(v.len == 300000 && value_is(v.data, v.len, i));
            ddict_release(&v);
        }
        /* Larger than the manager: never. Streamed and refused while pieces are on their way: the
         * lane goes on. */
        size_t k = key_of(d, m, n, key, sizeof key);
        fails(DDICT_EVALSIZE, ddict_put(d, key, k, val, 40u << 20, 0, -1));
        fails(DDICT_EFULL, ddict_put(d, key, k, val, 10u << 20, 0, -1));
        for (unsigned i = 0; i < n; i++)
            ok(ddict_del(d, key, key_of(d, m, i, key, sizeof key), -1));
        ok(ddict_put(d, key, key_of(d, m, n, key, sizeof key), val, 8u << 20, 0, -1));
        ok(ddict_del(d, key, key_of(d, m, n, key, sizeof key), -1));
    }
    ck_assert_int_eq(ddict_len(d, -1), 0);
    free(val);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(a_view_does_not_change_when_its_key_does) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    for (unsigned m = 0; m < 2; m++) {
        char key[32], buf[5000];
        size_t k = key_of(d, m, 0, key, sizeof key);
        struct ddict_view v[50], same;
        for (unsigned i = 0; i < 50; i++) {
            value_fill(buf, sizeof buf, i);
            ok(ddict_put(d, key, k, buf, sizeof buf, 0, -1));
            ok(ddict_view(d, key, k, &v[i], 0, -1));
            ck_assert(i == 0 || v[i].version > v[i - 1].version);
        }
        ok(ddict_del(d, key, k, -1));
        for (unsigned i = 0; i < 20000; i++) { /* enough retired to start scans */
            value_fill(buf, sizeof buf, 1000 + i);
            ok(ddict_put(d, key, k, buf, 2000 + i % 3000, 0, -1));
        }
        for (unsigned i = 0; i < 50; i++)
            ck_assert(value_is(v[i].data, v[i].len, i));
        same = v[7]; /* the struct may be copied, and is released once */
        v[7].kind_ = 0;
        for (unsigned i = 0; i < 50; i++)
            ddict_release(&v[i]);
        ck_assert(value_is(same.data, same.len, 7));
        ddict_release(&same);
    }
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

static uint64_t clients_now(ddict_t *d) {
    struct ddict_manager_stats *s;
    ok(ddict_stats(d, &s, sizeof *s, -1));
    uint64_t n = s[0].clients_now;
    free(s);
    return n;
}

START_TEST(views_outlive_their_handle_and_the_last_one_ends_it) {
    struct dict x;
    dict_start(&x, 1, 2, 64 * MIB);
    ddict_t *watch = dict_attach(&x, 0), *d = dict_attach(&x, 0);
    char buf[3000];
    struct ddict_view v[2];
    value_fill(buf, sizeof buf, 5);
    for (int i = 0; i < 2; i++) {
        char key[32];
        size_t k = key_of(d, (unsigned)i, 0, key, sizeof key);
        ok(ddict_put(d, key, k, buf, sizeof buf, 0, -1));
        ok(ddict_view(d, key, k, &v[i], 0, -1));
    }
    ck_assert_uint_eq(clients_now(watch), 2);
    ok(ddict_detach(d));
    ok(ddict_clear(watch, -1));
    for (int i = 0; i < 20000; i++)
        ok(ddict_put(watch, "x", 1, buf, 2000, 0, -1));
    ck_assert(value_is(v[0].data, v[0].len, 5) && value_is(v[1].data, v[1].len, 5));
    ck_assert_uint_eq(clients_now(watch), 2);
    ddict_release(&v[0]);
    ck_assert(value_is(v[1].data, v[1].len, 5));
    ddict_release(&v[1]);
    double end = now_s() + 20;
    while (clients_now(watch) != 1 && now_s() < end)
        usleep(5000);
    ck_assert_uint_eq(clients_now(watch), 1);
    ok(ddict_detach(watch));
    ok(ddict_detach(NULL));
    dict_stop(&x);
}
END_TEST

/* A str key, a tuple, a key of the runtime library (FORMAT 5), and their neighbours that are listed. */
#define BYTES(text) \
    { text, sizeof text - 1 }
static const struct {
    const char *key;
    size_t len;
} hidden_keys[] = {BYTES("sddict.x"), BYTES("t\x0a\0\0\0sddict.set\x02\0\0\0sx"),
                   BYTES("\0ddict.rt/x")},
  plain_keys[] = {BYTES("sddict"),
                  BYTES("sddicu."),
                  BYTES("ddict.x"),
                  BYTES("bddict.x"),
                  BYTES("t\x05\0\0\0sddict"),
                  BYTES("t\x01\0\0\0s"),
                  BYTES("\0ddict/x"),
                  BYTES("t")};
#define HIDDEN (int)(sizeof hidden_keys / sizeof *hidden_keys)
#define PLAIN  (int)(sizeof plain_keys / sizeof *plain_keys)

static int listed(ddict_t *d, const char *prefix, unsigned flags) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    int n = 0, rc;
    ok(ddict_iter_open_flags(d, -1, prefix, strlen(prefix), flags, &it, -1));
    while ((rc = ddict_iter_next(it, &key, &klen)) == 1)
        n++;
    ck_assert_int_eq(rc, 0);
    ddict_iter_close(it);
    return n;
}

static int events(ddict_sub_t *sub) {
    struct ddict_event e;
    int n = 0;
    while (ddict_next_event(sub, &e, 300) == 1)
        n++;
    return n;
}

START_TEST(hidden_keys_are_there_and_not_listed) {
    struct dict x;
    dict_start(&x, 2, 4, 64 * MIB);
    ddict_t *d[2] = {dict_attach(&x, 0), dict_attach(&x, 1)};
    ddict_sub_t *sub[3];
    ddict_iter_t *it;
    struct ddict_view v;
    fails(-EINVAL, ddict_iter_open_flags(d[0], -1, NULL, 0, 2, &it, -1));
    ok(ddict_subscribe(d[0], NULL, 0, 0, &sub[0], -1));
    ok(ddict_subscribe(d[0], NULL, 0, DDICT_SUB_HIDDEN, &sub[1], -1));
    ok(ddict_subscribe(d[0], "sddict.x", 8, 0, &sub[2], -1));
    for (int i = 0; i < PLAIN; i++)
        ok(ddict_put(d[0], plain_keys[i].key, plain_keys[i].len, "v", 1, 0, -1));
    for (int i = 0; i < HIDDEN; i++)
        for (int twice = 0; twice < 2; twice++)
            ok(ddict_put(d[1], hidden_keys[i].key, hidden_keys[i].len, "v", 1, 0, -1));
    ck_assert_int_eq(events(sub[0]), PLAIN);
    ck_assert_int_eq(events(sub[1]), PLAIN + 2 * HIDDEN);
    ck_assert_int_eq(events(sub[2]), 2);
    for (int i = 0; i < 3; i++)
        ddict_unsubscribe(sub[i]);
    for (int i = 0; i < 2; i++) {
        struct ddict_manager_stats *s;
        uint64_t keys = 0, hidden = 0;
        ck_assert_int_eq(ddict_len(d[i], -1), PLAIN);
        ck_assert_int_eq(listed(d[i], "", 0), PLAIN);
        ck_assert_int_eq(listed(d[i], "", DDICT_ITER_HIDDEN), PLAIN + HIDDEN);
        ck_assert_int_eq(listed(d[i], "s", 0), 2);
        ck_assert_int_eq(listed(d[i], "sddict.x", 0), 1);
        for (int k = 0; k < HIDDEN; k++)
            ck_assert_int_eq(ddict_contains(d[i], hidden_keys[k].key, hidden_keys[k].len, NULL, -1),
                             1);
        int n = ddict_stats(d[i], &s, sizeof *s, -1);
        for (int m = 0; m < n; m++) {
            keys += s[m].num_keys;
            hidden += s[m].hidden_keys;
        }
        free(s);
        ck_assert_uint_eq(keys, PLAIN + HIDDEN);
        ck_assert_uint_eq(hidden, HIDDEN);
    }
    /* as queues: the second value takes the place of the first */
    for (int i = 0; i < 2; i++)
        ok(ddict_push(d[i], hidden_keys[0].key, hidden_keys[0].len, "w", 1, 0, 0, -1));
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ddict_len(d[i % 2], -1), PLAIN);
        ok(ddict_pop(d[i % 2], hidden_keys[0].key, hidden_keys[0].len, &v, 0, -1));
        ddict_release(&v);
    }
    ok(ddict_del(d[0], hidden_keys[1].key, hidden_keys[1].len, -1));
    ck_assert_int_eq(ddict_len(d[0], -1), PLAIN);
    ck_assert_int_eq(listed(d[1], "", DDICT_ITER_HIDDEN), PLAIN + 1);
    ok(ddict_clear(d[1], -1));
    ck_assert_int_eq(ddict_len(d[0], -1), 0);
    ck_assert_int_eq(listed(d[1], "", DDICT_ITER_HIDDEN), 0);
    ddict_detach(d[0]);
    ddict_detach(d[1]);
    dict_stop(&x);
}
END_TEST

START_TEST(attach_and_detach_leave_nothing_in_the_process) {
    struct dict x;
    dict_start(&x, 1, 2, 64 * MIB);
    int fds = 0, maps = 0;
    for (int i = 0; i < 300; i++) {
        ddict_t *d = dict_attach(&x, 0);
        struct ddict_view v;
        ok(ddict_put(d, "k", 1, "v", 1, 0, -1));
        ok(ddict_view(d, "k", 1, &v, 0, -1));
        ddict_release(&v);
        ok(ddict_detach(d));
        if (i == 10) {
            fds = open_fds();
            maps = mappings();
        }
    }
    ck_assert_int_eq(open_fds(), fds);
#ifndef __SANITIZE_ADDRESS__ /* it maps memory of its own as it goes */
    ck_assert_msg(mappings() <= maps + 2, "%d mappings, before %d", mappings(), maps);
#endif
    fails(DDICT_ENODICT, ddict_attach(&(ddict_t *){NULL}, "0.local.none", 100));
    ck_assert_int_eq(open_fds(), fds);
    dict_stop(&x);
}
END_TEST

START_TEST(pieces_are_gathered) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    unsigned char *val = malloc(3u << 20), *back = malloc(3u << 20);
    struct iovec v[1025];
    for (int i = 0; i < 1025; i++)
        v[i] = (struct iovec){.iov_base = val, .iov_len = 1};
    for (unsigned m = 0; m < 2; m++) {
        for (unsigned total = 1000; total <= 3u << 20; total *= 50) {
            char key[32];
            size_t n, k = key_of(d, m, total % 7, key, sizeof key), at = 0;
            int pieces = 0;
            value_fill(val, total, total);
            while (at < total) { /* of odd lengths, some empty */
                size_t len = pieces % 5 == 0 ? 0 : 1 + (size_t)pieces * 977 % (total / 100 + 7);
                if (len > total - at || pieces == 1023)
                    len = total - at;
                v[pieces++] = (struct iovec){.iov_base = val + at, .iov_len = len};
                at += len;
            }
            ok(ddict_putv(d, key, k, v, pieces, 0, -1));
            ok(ddict_get(d, key, k, back, 3u << 20, &n, NULL, 0, -1));
            ck_assert(n == total && memcmp(val, back, n) == 0);
        }
    }
    ok(ddict_putv(d, "empty", 5, v, 0, 0, -1));
    size_t n = 9;
    ck_assert_int_eq(ddict_contains(d, "empty", 5, &n, -1), 1);
    ck_assert_uint_eq(n, 0);
    fails(-EINVAL, ddict_putv(d, "k", 1, v, 1025, 0, -1));
    fails(-EINVAL, ddict_putv(d, "k", 1, v, -1, 0, -1));
    free(val);
    free(back);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(info_owner_and_texts_are_there) {
    struct dict x;
    dict_start(&x, 2, 5, 100 * MIB);
    ddict_t *d = dict_attach(&x, 1);
    struct ddict_info i;
    ok(ddict_get_info(d, &i));
    ck_assert_str_eq(i.name, x.name);
    ck_assert_str_eq(i.node, x.node[1]);
    ck_assert(i.managers == 5 && i.nodes == 2 && i.node_id == 1 && i.local_managers == 2);
    ck_assert(i.total_bytes > 95 * MIB && i.total_bytes <= 100 * MIB);
    unsigned seen[5] = {0};
    for (unsigned k = 0; k < 5000; k++)
        seen[ddict_owner(d, &k, sizeof k)]++;
    for (unsigned m = 0; m < 5; m++)
        ck_assert_msg(seen[m] > 800 && seen[m] < 1200, "manager %u owns %u of 5000", m, seen[m]);
    for (int c = DDICT_ESMALL; c <= DDICT_ENOKEY; c++)
        ck_assert(strlen(ddict_strerror(c)) > 5);
    ck_assert_str_ne(ddict_strerror(-ETIMEDOUT), ddict_strerror(-ENOMEM));
    ck_assert_str_eq(ddict_version(), DDICT_VERSION_STRING);
    struct ddict_manager_stats *s;
    ck_assert_int_eq(ddict_stats(d, &s, sizeof *s, -1), 5);
    for (unsigned m = 0; m < 5; m++) {
        char *json = ddict_stats_json(&s[m], sizeof s[m]);
        ck_assert(s[m].manager_id == m && s[m].node_id == m % 2 && json &&
                  strstr(json, "\"num_keys\":0"));
        ck_assert_str_eq(s[m].node, x.node[m % 2]);
        free(json);
    }
    free(s);
    for (unsigned k = 0; k < 40; k++)
        ok(ddict_put(d, &k, sizeof k, "v", 1, 0, -1));
    ck_assert_int_eq(old_program_keys(d), 40);
    fails(-EINVAL, ddict_stats(d, &s, sizeof *s - 1, -1));
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

START_TEST(a_timeout_of_zero_reads_in_place_and_sends_nothing) {
    struct dict x;
    dict_start(&x, 2, 2, 64 * MIB);
    ddict_t *d = dict_attach(&x, 0);
    char here[32], far[32], buf[8];
    size_t h = key_of(d, 0, 0, here, sizeof here), f = key_of(d, 1, 0, far, sizeof far);
    struct ddict_view v;
    ok(ddict_put(d, here, h, "a", 1, 0, -1));
    ok(ddict_put(d, far, f, "b", 1, 0, -1));
    ok(ddict_get(d, here, h, buf, 8, NULL, NULL, 0, 0));
    ok(ddict_view(d, here, h, &v, DDICT_WAIT, 0));
    ddict_release(&v);
    ck_assert_int_eq(ddict_contains(d, here, h, NULL, 0), 1);
    char none[32];
    size_t n = key_of(d, 0, 1, none, sizeof none);
    fails(DDICT_ENOKEY, ddict_get(d, none, n, buf, 8, NULL, NULL, DDICT_WAIT, 0));
    fails(-ETIMEDOUT, ddict_get(d, far, f, buf, 8, NULL, NULL, 0, 0));
    fails(-ETIMEDOUT, ddict_put(d, here, h, "c", 1, 0, 0));
    fails(-ETIMEDOUT, ddict_del(d, far, f, 0));
    fails(-ETIMEDOUT, ddict_pop(d, here, h, &v, 0, 0));
    fails(-ETIMEDOUT, ddict_clear(d, 0));
    fails(-ETIMEDOUT, ddict_len(d, 0));
    usleep(20000);
    ck_assert_int_eq(ddict_len(d, -1), 2);
    ok(ddict_get(d, here, h, buf, 8, NULL, NULL, 0, 0));
    ck_assert_int_eq(buf[0], 'a');
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

int main(void) {
    Suite *s = suite_create("client_api");
    TCase *t = tcase_create("calls");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_value_of_any_size_is_read_as_it_was_put);
    tcase_add_test(t, keys_have_any_bytes_up_to_64_kib);
    tcase_add_test(t, put_modes_and_misses_have_their_codes);
    tcase_add_test(t, a_full_manager_refuses_and_touches_nothing);
    tcase_add_test(t, a_view_does_not_change_when_its_key_does);
    tcase_add_test(t, views_outlive_their_handle_and_the_last_one_ends_it);
    tcase_add_test(t, attach_and_detach_leave_nothing_in_the_process);
    tcase_add_test(t, hidden_keys_are_there_and_not_listed);
    tcase_add_test(t, pieces_are_gathered);
    tcase_add_test(t, info_owner_and_texts_are_there);
    tcase_add_test(t, a_timeout_of_zero_reads_in_place_and_sends_nothing);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
