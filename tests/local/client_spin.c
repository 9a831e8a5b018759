/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_spin.c - a manager spins after work as long as it has more than one core to run on, also
 * when cores are taken away and given back while it runs. What it spins is counted in its arena's
 * header.
 */
#include "client_dict.h"
#include <base/defaults.h>
#include <store/layout.h>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct dict x;
static ddict_t *d;

/* The header as the manager has it. */
static const struct arena_header *header_of(pid_t manager) {
    char folder[40], path[80], is[80];
    const struct arena_header *h = NULL;
    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)manager);
    DIR *all = opendir(folder);
    ck_assert_ptr_nonnull(all);
    for (struct dirent *e; !h && (e = readdir(all));) {
        snprintf(path, sizeof path, "%s/%.20s", folder, e->d_name);
        ssize_t n = readlink(path, is, sizeof is - 1);
        if (n < 0 || (is[n] = 0, strncmp(is, "/memfd:ddict-arena", 18)) != 0)
            continue;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        h = mmap(NULL, sizeof *h, PROT_READ, MAP_SHARED, fd, 0);
        ck_assert(h != MAP_FAILED && h->magic == ARENA_MAGIC);
        close(fd);
    }
    closedir(all);
    ck_assert_ptr_nonnull(h);
    return h;
}

/* A put, and the manager has gone to sleep since: what it has spun is said. */
static uint32_t put_spins(const struct arena_header *h) {
    ok(ddict_put(d, "k", 1, "v", 1, 0, 20000));
    usleep(500);
    for (double end = now_s() + 20; !__atomic_load_n(&h->sleeping, __ATOMIC_RELAXED);) {
        ck_assert_msg(now_s() < end, "the manager does not sleep");
        usleep(100);
    }
    return __atomic_load_n(&h->spun, __ATOMIC_RELAXED);
}

/* Does it come to spin, or to spin no more, for longer than it rests from spinning where others
 * took its core? */
static bool soon(const struct arena_header *h, bool spins) {
    uint32_t last = put_spins(h);
    double since = now_s();
    for (double end = since + 60; now_s() < end;) {
        uint32_t now = put_spins(h);
        if (now != last ? spins : !spins && now_s() - since > 1.3e-9 * DD_SPIN_REST_MAX_NS)
            return true;
        if (now != last)
            since = now_s();
        last = now;
    }
    return false;
}

START_TEST(a_manager_spins_only_while_it_has_more_than_one_core) {
    cpu_set_t all, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    dict_start(&x, 1, 1, 16 * MIB);
    d = dict_attach(&x, 0);
    const struct arena_header *h = header_of(x.manager[0]);
    bool several = CPU_COUNT(&all) > 1;
    ck_assert(soon(h, several));
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    ck_assert_int_eq(sched_setaffinity(x.manager[0], sizeof one, &one), 0);
    ck_assert(soon(h, false));
    ck_assert_int_eq(sched_setaffinity(x.manager[0], sizeof all, &all), 0);
    ck_assert(soon(h, several));
    munmap((void *)(uintptr_t)h, sizeof *h);
    ddict_detach(d);
    dict_stop(&x);
}
END_TEST

int main(int argc, char **argv) {
    const TTest *const tests[] = {a_manager_spins_only_while_it_has_more_than_one_core};
    return tests_main("client_spin", argc, argv, tests, sizeof tests / sizeof *tests);
}
