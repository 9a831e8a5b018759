/* SPDX-License-Identifier: Apache-2.0 */
/* client_window_races.c - working sets: memory, forks, puts that are overtaken, clients that are killed. */
#include "client_window.h"

/* --- memory --- */
START_TEST(values_that_no_checkpoint_sees_are_removed) {
    begin("3");
    EACH(0)
    for (unsigned c = 0; c < 40; c++)
        ok(put(d[c % 2], m_ * 100 + c, "value"));
    /* W6: of each key an index and at most K + 1 values; and W */
    items_are_at_most(MANAGERS * (1 + 4) + 1);
    EACH(0) {
        at(d[0], 400);
        ok(ddict_del(d[0], key, klen, WAIT));
        at(d[0], 402);
        fails(DDICT_ENOKEY, ddict_del(d[0], key, klen, WAIT));
    }
    klen = key_of(d[0], 0, 1, key, sizeof key);
    ok(put(d[0], 500, "x"));
    EACH(0)
    has_none(d[0], 500); /* takes what is left out: W4 */
    items_become(3);
    end();
}
END_TEST

START_TEST(a_view_outlives_its_checkpoint) {
    begin("1");
    struct ddict_view v[MANAGERS];
    EACH(0) {
        ok(put(d[0], 0, "the first"));
        ok(ddict_view(d[0], key, klen, &v[m_], 0, WAIT));
    }
    for (unsigned c = 1; c < 30; c++)
        EACH(0)
    ok(put(d[1], c, "a later one"));
    for (unsigned m = 0; m < MANAGERS; m++) {
        ck_assert(v[m].len == 9 && memcmp(v[m].data, "the first", 9) == 0);
        ddict_release(&v[m]);
    }
    end();
}
END_TEST

START_TEST(a_forked_child_begins_with_its_parents_checkpoint) {
    begin("3");
    klen = key_of(d[0], 2, 0, key, sizeof key);
    ok(put(d[0], 1, "parent"));
    pid_t p = fork();
    if (p == 0) {
        ck_assert_int_eq(ddict_checkpoint_id(d[0]), 1);
        has(d[0], 1, "parent");
        ok(put(d[0], 2, "child"));
        _exit(0);
    }
    expect_exit(p, 0);
    ck_assert_int_eq(ddict_checkpoint_id(d[0]), 1);
    has(d[0], 2, "child");
    has(d[0], 1, "parent");
    end();
}
END_TEST

/* --- races --- */
#define RACES 400u

/* Of two processes, one each time begins a little later: up to some 100 us. */
static void wait_a_little(uint64_t c, bool is_late) {
    for (volatile uint64_t i = is_late ? c % 40 * 4000 : 0; i > 0; i--)
        ;
}

/* No assertion here, nor in crew_work(): it would write into check's file beside those of the parent. */
static void late_writer(int in, int out) {
    uint64_t c;
    while (read(in, &c, sizeof c) == sizeof c) {
        wait_a_little(c, c % 2);
        int rc = ddict_set_checkpoint_id(d[1], c);
        if (rc == 0)
            rc = ddict_put(d[1], key, klen, "late", 4, DDICT_TAG(4), WAIT);
        if (write(out, &rc, sizeof rc) != sizeof rc)
            break;
    }
    _exit(0);
}
static bool has_late(ddict_t *of, uint64_t id) {
    struct ddict_view v;
    at(of, id);
    int rc = ddict_view(of, key, klen, &v, 0, WAIT);
    ck_assert_msg(rc == 0 || rc == DDICT_ENOKEY, "%d %s", rc, ddict_errmsg());
    bool late = rc == 0 && v.len == 4 && memcmp(v.data, "late", 4) == 0;
    ddict_release(&v);
    return late;
}

/* W3, W4: whoever saw that an older checkpoint had no such value never sees it later. */
static void race(bool with_old) {
    begin("1");
    int in[2], out[2], rc;
    klen = key_of(d[0], 3, 0, key, sizeof key);
    ck_assert(pipe(in) == 0 && pipe(out) == 0);
    pid_t p = fork();
    if (p == 0) {
        close(in[1]);
        late_writer(in[0], out[1]);
    }
    char other[32];
    size_t olen = key_of(d[0], 0, 1, other, sizeof other);
    unsigned stored = 0, retired = 0;
    for (uint64_t c = 0; c < RACES; c++) {
        at(d[0], c);
        if (with_old)
            ok(put(d[0], c, "old"));
        else if ((rc = ddict_del(d[0], key, klen, WAIT)) != DDICT_ENOKEY)
            ok(rc);
        ck_assert(write(in[1], &c, sizeof c) == sizeof c);
        wait_a_little(c, c % 2 == 0);
        at(d[0], c + 1);
        ok(ddict_put(d[0], other, olen, "v", 1, 0, WAIT)); /* retires c */
        bool first = has_late(d[0], c + 1);
        ck_assert(read(out[0], &rc, sizeof rc) == sizeof rc);
        ck_assert_msg(rc == 0 || rc == DDICT_ERETIRED, "%d", rc);
        ck_assert_msg(has_late(d[0], c + 1) == first, "at %d it came later: %d", (int)c, rc);
        ck_assert_int_eq(first, rc == 0);
        stored += rc == 0;
        retired += rc != 0;
    }
    close(in[1]);
    expect_exit(p, 0);
    ck_assert_msg(stored > 0 && retired > 0, "no race: %u, %u", stored, retired);
    end();
}

START_TEST(a_put_that_is_overtaken_is_seen_by_all_or_none) {
    race(true);
}
END_TEST
START_TEST(a_first_put_that_is_overtaken_is_seen_by_all_or_none) {
    race(false);
}
END_TEST

#define KILLS 60u
#define CREW  4u

static void crew_work(char keys[MANAGERS][sizeof key], unsigned seed) {
    char text[64];
    for (;;) {
        const char *k = keys[(unsigned)rand_r(&seed) % MANAGERS];
        ddict_t *of = d[rand_r(&seed) % NODES];
        int64_t newest = ddict_sync_to_newest_checkpoint(of, WAIT);
        int64_t c = newest + rand_r(&seed) % 5 - 3;
        ddict_set_checkpoint_id(of, c < 0 ? 0 : (uint64_t)c);
        snprintf(text, sizeof text, "%s %llu", k, (unsigned long long)(c < 0 ? 0 : c));
        int rc = rand_r(&seed) % 4 == 0 ? ddict_del(of, k, strlen(k), WAIT)
                                        : ddict_put(of, k, strlen(k), text, strlen(text), 0, WAIT);
        if (rc < 0 && rc != DDICT_ERETIRED && rc != DDICT_ENOKEY)
            _exit(1);
    }
}

START_TEST(clients_may_be_killed_at_any_moment) {
    begin("3");
    pid_t crew[CREW] = {0};
    unsigned seed = 5;
    char keys[MANAGERS][sizeof key] = {0};
    for (unsigned m = 0; m < MANAGERS; m++)
        keys[m][key_of(d[0], m, 0, keys[m], sizeof keys[m])] = 0;
    for (unsigned i = 0; i < KILLS + CREW; i++) {
        pid_t *p = &crew[i % CREW];
        int status;
        if (*p > 0) {
            usleep((unsigned)rand_r(&seed) % 30000);
            kill(*p, SIGKILL);
            ck_assert(waitpid(*p, &status, 0) == *p);
            ck_assert_msg(WIFSIGNALED(status), "a client gave up: %x", status);
        }
        if (i < KILLS && (*p = fork()) == 0)
            crew_work(keys, i * 7919);
    }
    int64_t newest = ddict_sync_to_newest_checkpoint(d[0], WAIT);
    ck_assert_int_gt(newest, 10);
    EACH(0)
    for (int64_t c = newest - 2; c <= newest; c++) {
        struct ddict_view v;
        char text[64];
        unsigned long long of;
        at(d[0], (uint64_t)c);
        int rc = ddict_view(d[0], key, klen, &v, 0, WAIT);
        ck_assert_msg(rc == 0 || rc == DDICT_ENOKEY, "%d %s", rc, ddict_errmsg());
        ck_assert_int_eq(ddict_contains(d[0], key, klen, NULL, WAIT), rc == 0);
        if (rc < 0)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)v.len, (const char *)v.data);
        ck_assert(strncmp(text, key, klen) == 0 && sscanf(text + klen, "%llu", &of) == 1);
        ck_assert_int_le((int64_t)of, c);
        ddict_release(&v);
    }
    /* all that is there still changes */
    EACH(0) {
        ok(put(d[1], (uint64_t)newest + 9, "end"));
        has(d[0], (uint64_t)newest + 9, "end");
    }
    /* each may have left two values: one that no index named yet, and one that none named any more */
    items_are_at_most(2 * KILLS + MANAGERS * 5 + 1);
    end();
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {
        values_that_no_checkpoint_sees_are_removed,
        a_view_outlives_its_checkpoint,
        a_forked_child_begins_with_its_parents_checkpoint,
        a_put_that_is_overtaken_is_seen_by_all_or_none,
        a_first_put_that_is_overtaken_is_seen_by_all_or_none,
        clients_may_be_killed_at_any_moment,
    };
    return tests_main("client_window_races", argc, argv, tests, sizeof tests / sizeof *tests);
}
