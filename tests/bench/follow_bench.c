/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow_bench.c - the two sides of tests/bench/follow.py, as clients of $DDICT_NAME.
 *
 *     follow_bench publish BYTES COUNT GAP_MS    says each version and when its call was over; with
 *                                                a gap it begins when managers have their memory
 *     follow_bench follow COUNT                  says each version, and the us from its begin
 *
 * A value begins with the time at which its publication began; all nodes have one clock. The rest of
 * it is checked: words that the version's begin and their place make.
 */
#include <ddict.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME    "bench"
#define TIME_MS 120000

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int failed(const char *what, int rc) {
    fprintf(stderr, "%s: %d %s\n", what, rc, ddict_errmsg());
    return 1;
}

/* Every page of a value is looked at: one word of it. */
static void mark(uint64_t *w, size_t words, uint64_t begin) {
    w[0] = begin;
    for (size_t i = 64; i < words; i += 512)
        w[i] = begin ^ i;
}

static int is_marked(const uint64_t *w, size_t words) {
    for (size_t i = 64; i < words; i += 512)
        if (w[i] != (w[0] ^ i))
            return 0;
    return 1;
}

/* Managers take memory ahead of use behind their service: at most a minute of it is waited for. It is
 * that of many nodes on one machine here, and made a first publication up to three times as long. */
static void await_memory(ddict_t *d) {
    uint64_t was = 0, is = 1;
    for (int s = 0; s < 60 && was != is; s++) {
        struct ddict_manager_stats *m;
        int n = ddict_stats(d, &m, sizeof *m, TIME_MS);
        was = is;
        is = 0;
        for (int i = 0; i < n; i++)
            is += m[i].populated_bytes;
        if (n > 0)
            free(m);
        nanosleep(&(struct timespec){1, 0}, NULL);
    }
}

static int publish(ddict_t *d, size_t bytes, int count, int gap_ms) {
    uint64_t *w = calloc(1, bytes), version;
    if (gap_ms > 0)
        await_memory(d);
    for (int i = 0; i < count; i++) {
        nanosleep(&(struct timespec){gap_ms / 1000, gap_ms % 1000 * 1000000}, NULL);
        uint64_t begin = now_ns();
        struct iovec iov = {w, bytes};
        mark(w, bytes / 8, begin);
        int rc = ddict_publish(d, NAME, sizeof NAME - 1, &iov, 1, 0, &version, TIME_MS);
        if (rc < 0)
            return failed("publish", rc);
        printf("%llu %llu\n", (unsigned long long)version,
               (unsigned long long)(now_ns() - begin) / 1000);
        fflush(stdout);
    }
    free(w);
    return 0;
}

static int follow(ddict_t *d, uint64_t last) {
    ddict_follow_t *f;
    uint64_t version = 0;
    int rc = ddict_follow_open(d, NAME, sizeof NAME - 1, &f, TIME_MS);
    if (rc < 0)
        return failed("follow", rc);
    puts("ready");
    fflush(stdout);
    while (version < last) {
        struct ddict_view v;
        rc = ddict_follow_next(f, &v, &version, TIME_MS);
        uint64_t now = now_ns();
        if (rc != 1)
            return failed("next", rc);
        if (!is_marked(v.data, v.len / 8))
            return failed("the value is mixed", 0);
        printf("%llu %llu%s\n", (unsigned long long)version,
               (unsigned long long)(now - *(const uint64_t *)v.data) / 1000,
               v.kind_ == 1 ? "" : " own");
        fflush(stdout);
        ddict_release(&v);
    }
    ddict_follow_close(f);
    return 0;
}

int main(int argc, char **argv) {
    ddict_t *d;
    int rc = ddict_attach(&d, NULL, TIME_MS);
    if (rc < 0)
        return failed("attach", rc);
    if (argc == 5 && strcmp(argv[1], "publish") == 0)
        rc = publish(d, (size_t)atoll(argv[2]), atoi(argv[3]), atoi(argv[4]));
    else if (argc == 3 && strcmp(argv[1], "follow") == 0)
        rc = follow(d, (uint64_t)atoll(argv[2]));
    else
        rc = failed("usage: publish BYTES COUNT GAP_MS | follow COUNT", 0);
    ddict_detach(d);
    return rc;
}
