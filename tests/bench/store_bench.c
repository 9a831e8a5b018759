/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_bench.c - how fast the store is in one process, without manager and lanes: fill, random
 * views of 1 KiB values, the same from a plain table in private memory, overwrite. Usage:
 * store_bench [megabytes [value bytes]]. Built by make check, run by hand.
 */
#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <store/reader.h>
#include <store/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOKS 4000000u

static uint64_t rng = 88172645463325252ull;
static uint64_t next_random(void) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    return rng ^= rng << 17;
}

static void key_of(uint64_t i, char key[17]) {
    snprintf(key, 17, "key-%012llu", (unsigned long long)i % 1000000000000ull);
}

static void say(const char *what, uint64_t n, uint64_t ns) {
    printf("%-44s %8.1f ns each, %7.2f M/s\n", what, (double)ns / (double)n,
           (double)n * 1e3 / (double)ns);
}

static void die(const char *what, int rc) {
    fprintf(stderr, "%s: %s (%s)\n", what, dd_strerror(rc), dd_errmsg());
    exit(1);
}

static void put(struct store *s, const char *key, const void *value, size_t len) {
    struct store_ref ref;
    int rc = store_reserve(s, key, 16, len, 0, &ref);
    if (rc < 0)
        die("reserve", rc);
    memcpy(ref.value, value, len);
    rc = store_commit(s, &ref, STORE_ANY, NULL);
    if (rc < 0)
        die("commit", rc);
}

static uint64_t touch_value(const uint8_t *v, size_t len) {
    uint64_t sum = 0, w;
    for (size_t i = 0; i + 8 <= len; i += 64) {
        memcpy(&w, v + i, 8);
        sum += w;
    }
    return sum;
}

/* The comparison: open addressing on the hash, values in malloc'ed rows. */
struct plain {
    uint64_t hash;
    char key[16];
    uint8_t *value;
};

int main(int argc, char **argv) {
    uint64_t mb = argc > 1 ? strtoull(argv[1], NULL, 10) : 1024, sink = 0;
    size_t len = argc > 2 ? strtoull(argv[2], NULL, 10) : 1024;
    struct store_options o = {.budget = mb << 20, .managers = 1};
    struct store *s;
    struct arena_view a;
    int fd = arena_create(&o), rc;
    if (fd < 0)
        die("create", fd);
    if ((rc = store_open(&s, fd, -1, 0)) < 0)
        die("open", rc);
    int ro = arena_reopen_readonly(fd);
    if ((rc = arena_view_map(&a, ro, -1, 0)) < 0)
        die("map", rc);
    struct lease_chunk *page =
        mmap(NULL, LEASE_FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    page->chunks = 1;
    store_leases_add(s, 1, page, (uint32_t)getpid());

    uint64_t n = (mb << 20) * 88 / 100 / (len + 90), t0 = clock_ns(), bytes = 0;
    for (int64_t got; (got = store_populate(s)) > 0;)
        bytes += (uint64_t)got;
    printf("%llu values of %zu bytes, arena %llu MiB; populated %llu MiB in %.2f s\n",
           (unsigned long long)n, len, (unsigned long long)mb, (unsigned long long)bytes >> 20,
           (double)(clock_ns() - t0) / 1e9);

    char key[17];
    uint8_t *value = malloc(len);
    memset(value, 7, len);
    t0 = clock_ns();
    for (uint64_t i = 0; i < n; i++) {
        key_of(i, key);
        put(s, key, value, len);
    }
    say("put, new keys", n, clock_ns() - t0);
    struct manager_stats st;
    store_stats(s, &st);
    printf("%.1f bytes of memory a pair (%.1f of them data)\n",
           (double)st.total_used_bytes / (double)n, (double)(len + 16));

    char(*keys)[17] = malloc(LOOKS * sizeof *keys);
    for (unsigned i = 0; i < LOOKS; i++)
        key_of(next_random() % n, keys[i]);
    for (int touch = 0; touch < 2; touch++) {
        struct found f;
        t0 = clock_ns();
        for (unsigned i = 0; i < LOOKS; i++) {
            rc = reader_find(&a, key_hash(keys[i], 16), keys[i], 16, &page->slot[0], &f);
            if (rc < 0)
                die("find", rc);
            if (touch)
                sink += touch_value(f.value, f.val_len);
            reader_release(&page->slot[0]);
        }
        say(touch ? "view at random, all lines of the value read" : "view at random", LOOKS,
            clock_ns() - t0);
    }
    struct found f;
    t0 = clock_ns();
    for (unsigned i = 0; i < LOOKS; i++) {
        key_of(i % 64, key);
        if (reader_find(&a, key_hash(keys[i % 64], 16), keys[i % 64], 16, &page->slot[0], &f) == 0)
            sink += f.val_len;
        reader_release(&page->slot[0]);
    }
    uint64_t hot = clock_ns() - t0;
    t0 = clock_ns();
    for (unsigned i = 0; i < LOOKS; i++)
        key_of(i % 64, key);
    say("view of 64 hot keys", LOOKS, hot - (clock_ns() - t0));

    size_t cap = 1;
    while (cap < n * 2)
        cap *= 2;
    struct plain *table = calloc(cap, sizeof *table);
    uint8_t *rows = malloc(n * len);
    for (uint64_t i = 0; i < n; i++) {
        key_of(i, key);
        uint64_t h = key_hash(key, 16), p = h & (cap - 1);
        while (table[p].value)
            p = (p + 1) & (cap - 1);
        table[p].hash = h;
        memcpy(table[p].key, key, 16);
        table[p].value = rows + i * len;
        memcpy(table[p].value, value, len);
    }
    t0 = clock_ns();
    for (unsigned i = 0; i < LOOKS; i++) {
        uint64_t h = key_hash(keys[i], 16), p = h & (cap - 1);
        while (table[p].hash != h || memcmp(table[p].key, keys[i], 16))
            p = (p + 1) & (cap - 1);
        sink += touch_value(table[p].value, len);
    }
    say("plain private table, all lines read", LOOKS, clock_ns() - t0);
    free(table);
    free(rows);

    t0 = clock_ns();
    for (unsigned i = 0; i < LOOKS / 2; i++) {
        put(s, keys[i], value, len);
        if ((i & 63) == 0)
            store_work(s);
    }
    say("overwrite at random", LOOKS / 2, clock_ns() - t0);
    free(value);
    free(keys);
    store_close(s);
    arena_view_unmap(&a);
    munmap(page, LEASE_FILE_SIZE);
    close(ro);
    close(fd);
    printf("(%llu)\n", (unsigned long long)sink & 1);
    return 0;
}
