/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reopen_bench.c - what it takes to open an arena that was in use (LAYOUT 7), up to the first get
 * and the first put, in one process, without manager and lanes. Each opening is in a child of its
 * own, as a next life is. Usage: reopen_bench [keys [value bytes [openings]]]. Built by make check,
 * run by hand.
 */
#include <base/clock.h>
#include <base/error.h>
#include <store/reader.h>
#include <store/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what, int rc) {
    fprintf(stderr, "%s: %s (%s)\n", what, dd_strerror(rc), dd_errmsg());
    exit(1);
}

static void key_of(uint64_t i, char key[17]) {
    snprintf(key, 17, "key-%012llu", (unsigned long long)i % 1000000000000ull);
}

static void put(struct store *s, const char *key, const void *value, size_t len) {
    struct store_ref ref;
    int rc = store_reserve(s, key, 16, len, 0, &ref);
    if (rc < 0)
        die("reserve", rc);
    memcpy(ref.value, value, len);
    if ((rc = store_commit(s, &ref, STORE_ANY, NULL)) < 0)
        die("commit", rc);
}

struct at {
    uint64_t wall, cpu;
    long faults;
};

static struct at at_now(void) {
    struct rusage u;
    struct timespec t;
    getrusage(RUSAGE_SELF, &u);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (struct at){clock_ns(), (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec,
                       u.ru_minflt};
}

static void say(const char *what, struct at from, struct at to) {
    printf("  %-10s %8.1f ms of a processor, %8.1f ms, %6ld faults\n", what,
           (double)(to.cpu - from.cpu) / 1e6, (double)(to.wall - from.wall) / 1e6,
           to.faults - from.faults);
}

/* A next life: opens the arena, reads one key, and then changes it, which settles the heap. */
static void life(int fd, void *value, size_t len) {
    struct store *s;
    struct store_ref ref;
    char key[17];
    key_of(0, key);
    struct at began = at_now();
    int rc = store_open(&s, fd, -1, 0);
    if (rc < 0)
        die("open", rc);
    struct at opened = at_now();
    if ((rc = store_find(s, key, 16, &ref)) < 0)
        die("find", rc);
    put(s, key, value, len);
    struct at settled = at_now();
    say("opened", began, opened);
    say("settled", opened, settled);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv) {
    uint64_t keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    size_t len = argc > 2 ? strtoull(argv[2], NULL, 10) : 64;
    unsigned openings = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 3;
    struct store_options o = {.budget = (keys * (len + 128) + (64u << 20)) & ~4095ull,
                              .managers = 1};
    struct store *s;
    int fd = arena_create(&o), rc;
    if (fd < 0)
        die("create", fd);
    if ((rc = store_open(&s, fd, -1, 0)) < 0)
        die("open", rc);
    void *value = calloc(1, len + 1);
    char key[17];
    for (uint64_t i = 0; i < keys; i++) {
        key_of(i, key);
        put(s, key, value, len);
    }
    store_close(s);
    printf("%llu keys, values of %zu bytes\n", (unsigned long long)keys, len);
    fflush(stdout);
    for (unsigned i = 0; i < openings; i++) {
        pid_t child = fork();
        if (child == 0)
            life(fd, value, len);
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            die("a life", -1);
    }
    free(value);
    close(fd);
    return 0;
}
