/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memlimit.c - how many bytes may still be taken before the kernel would kill a process: the
 * smallest of limit minus usage, over our memory cgroup and its ancestors, v1 and v2, and of what
 * the node has left. File pages that the kernel can drop do not count as used; they are looked up
 * only when a limit is near, because memory.stat takes long on large nodes.
 */
#include "store.h"
#include <base/io.h>
#include <base/size.h>
#include <base/vec.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 1024
#define NO_LIMIT   (1ull << 62) /* v1 says "none" with a number near 2^63 */

/* Files of a cgroup that are read again and again. */
enum level_file { LEVEL_MAX, LEVEL_HIGH, LEVEL_USED, LEVEL_STAT, LEVEL_FILES };
static const char *const level_files[2][LEVEL_FILES] = {{[LEVEL_MAX] = "memory.limit_in_bytes",
                                                         [LEVEL_USED] = "memory.usage_in_bytes",
                                                         [LEVEL_STAT] = "memory.stat"},
                                                        {[LEVEL_MAX] = "memory.max",
                                                         [LEVEL_HIGH] = "memory.high",
                                                         [LEVEL_USED] = "memory.current",
                                                         [LEVEL_STAT] = "memory.stat"}};

enum { NO_FILE = -2 };

/* One of our cgroups. */
struct level {
    bool v2;
    size_t mount;             /* bytes of dir before the cgroup's path */
    char dir[2 * PATH_BYTES]; /* its folder */
    /*
     * Open since we know of it; NO_FILE: it has none; -1: that failed for want of something, and is tried
     * again. Atomic, for the thread that populates. To open a file takes memory of the kernel, even
     * where there is none, and above memory.high the kernel stops us for up to 2 s each time: who
     * looks at seven files a second would do nothing else.
     */
    int fd[LEVEL_FILES];
};
struct memory_cgroup {
    bool found, v2;
    char mount[PATH_BYTES]; /* the hierarchy's root as we see it */
    char path[PATH_BYTES];  /* ours below it, "" at the root */
    struct level *levels;   /* from our own up to the root of what is mounted */
    size_t levels_n, levels_cap;
};
static struct memory_cgroup cgroups[2]; /* v1, v2 */
static int meminfo = -1;                /* /proc/meminfo, open for the same reason */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread char limit_name[PATH_BYTES + 64];

static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ',') && (p[n] == 0 || p[n] == ',' || p[n] == '\n'))
            return true;
    return false;
}

/* "36 35 98:0 /root /mount opts ... - type source superopts" */
static void mount_line(char *line) {
    char *sep = strstr(line, " - "), type[32], super[512], root[PATH_BYTES], mount[PATH_BYTES];
    if (!sep || sscanf(sep + 3, "%31s %*s %511s", type, super) != 2)
        return;
    if (sscanf(line, "%*s %*s %*s %1023s %1023s", root, mount) != 2)
        return;
    bool v2 = strcmp(type, "cgroup2") == 0;
    struct memory_cgroup *c = &cgroups[v2];
    if (c->found || (!v2 && (strcmp(type, "cgroup") || !has_word(super, "memory"))))
        return;
    c->found = true;
    c->v2 = v2;
    strcpy(c->mount, mount);
    size_t n = strcmp(root, "/") ? strlen(root) : 0;
    if (strncmp(c->path, root, n) == 0 && (c->path[n] == '/' || !c->path[n]))
        memmove(c->path, c->path + n, strlen(c->path + n) + 1);
    /* our cgroup is outside of this mount: use the mount's root */
    if (strcmp(c->path, "/") == 0 || strstr(c->path, ".."))
        c->path[0] = 0;
}

static void cgroup_line(char *line) {
    char *controllers = strchr(line, ':'),
         *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return;
    *controllers++ = *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    bool v2 = strcmp(line, "0") == 0;
    if (!v2 && !has_word(controllers, "memory"))
        return;
    if (strlen(path) < PATH_BYTES)
        strcpy(cgroups[v2].path, path);
}

static void each_line(const char *file, void (*fn)(char *line)) {
    char *line = NULL;
    size_t cap = 0;
    FILE *f = fopen(file, "re");
    if (!f)
        return;
    while (getline(&line, &cap, f) > 0)
        fn(line);
    free(line);
    fclose(f);
}

static int file_open(const char *dir, const char *file) {
    char path[2 * PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool text_read(int fd, char *buf, size_t cap) {
    ssize_t n = read_all_at(fd, buf, cap - 1, 0);
    buf[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Text of a small file into buf; false when it cannot be read. */
static bool file_read(const char *dir, const char *file, char *buf, size_t cap) {
    int fd = file_open(dir, file);
    if (fd < 0)
        return false;
    bool read = text_read(fd, buf, cap);
    close(fd);
    return read;
}

static int level_fd(struct level *l, enum level_file f) {
    int fd = __atomic_load_n(&l->fd[f], __ATOMIC_ACQUIRE), none = -1;
    if (fd != -1)
        return fd;
    fd = file_open(l->dir, level_files[l->v2][f]);
    if (fd < 0)
        fd = errno == ENOMEM || errno == EMFILE || errno == ENFILE ? -1 : NO_FILE;
    if (__atomic_compare_exchange_n(&l->fd[f], &none, fd, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return fd;
    if (fd >= 0)
        close(fd);
    return none;
}

static uint64_t level_number(struct level *l, enum level_file f, uint64_t otherwise) {
    char buf[64];
    int fd = level_fd(l, f);
    if (fd < 0 || !text_read(fd, buf, sizeof buf) || *buf < '0' || *buf > '9')
        return otherwise;
    return strtoull(buf, NULL, 10);
}

/* --- the levels --- */
static void level_open(struct level *l) {
    for (int f = 0; f < LEVEL_FILES; f++) {
        l->fd[f] = level_files[l->v2][f] ? -1 : NO_FILE;
        level_fd(l, f);
    }
}

static void levels_close(struct memory_cgroup *c) {
    for (size_t i = 0; i < c->levels_n; i++)
        for (int f = 0; f < LEVEL_FILES; f++)
            if (c->levels[i].fd[f] >= 0)
                close(c->levels[i].fd[f]);
    free(c->levels);
}

static void levels_open(struct memory_cgroup *c) {
    struct level l = {.v2 = c->v2, .mount = strlen(c->mount)};
    char *up;
    if (!c->found)
        return;
    snprintf(l.dir, sizeof l.dir, "%.*s%.*s", PATH_BYTES - 1, c->mount, PATH_BYTES - 1, c->path);
    do {
        if (VEC_ROOM(&c->levels, &c->levels_cap, c->levels_n + 1, 8) < 0)
            return;
        level_open(&l);
        c->levels[c->levels_n++] = l;
        up = strrchr(l.dir + l.mount, '/');
        if (up)
            *up = 0;
    } while (up);
}

void memlimit_find_in(const char *cgroup, const char *mountinfo) {
    for (int i = 0; i < 2; i++)
        levels_close(&cgroups[i]);
    if (meminfo >= 0)
        close(meminfo);
    memset(cgroups, 0, sizeof cgroups);
    each_line(cgroup, cgroup_line);
    each_line(mountinfo, mount_line);
    for (int i = 0; i < 2; i++)
        levels_open(&cgroups[i]);
    meminfo = file_open("/proc", "meminfo");
}

void memlimit_find(void) {
    memlimit_find_in("/proc/self/cgroup", "/proc/self/mountinfo");
}

static size_t levels_fds(const struct memory_cgroup *c, int *fds, size_t n, size_t cap) {
    for (size_t i = 0; i < c->levels_n; i++)
        for (int f = 0; f < LEVEL_FILES; f++) {
            int fd = c->levels[i].fd[f];
            if (fd >= 0 && n++ < cap)
                fds[n - 1] = fd;
        }
    return n;
}

size_t memlimit_fds(int *fds, size_t cap) {
    size_t n = levels_fds(&cgroups[1], fds, levels_fds(&cgroups[0], fds, 0, cap), cap);
    if (n > 0 && meminfo >= 0 && n++ < cap)
        fds[n - 1] = meminfo;
    return n <= cap ? n : 0;
}

/* The number behind "name" at the start of a line. */
static uint64_t field_value(const char *text, const char *name) {
    size_t n = strlen(name);
    for (const char *p = text; p; p = strchr(p, '\n')) {
        if (*p == '\n')
            p++;
        if (strncmp(p, name, n) == 0 && (p[n] == ' ' || p[n] == ':'))
            return strtoull(p + n + 1, NULL, 10);
    }
    return 0;
}

static uint64_t files_droppable(struct level *l) {
    char buf[8192];
    int fd = level_fd(l, LEVEL_STAT);
    if (fd < 0 || !text_read(fd, buf, sizeof buf))
        return 0;
    return l->v2 ? field_value(buf, "inactive_file") + field_value(buf, "active_file")
                 : field_value(buf, "total_inactive_file") + field_value(buf, "total_active_file");
}

/* What is left below limit when `reserve` of it stays free. */
static uint64_t limit_left(uint64_t limit, uint64_t used) {
    uint64_t reserve = limit / 8 < DD_MEM_RESERVE ? limit / 8 : DD_MEM_RESERVE;
    return used + reserve < limit ? limit - used - reserve : 0;
}

static void limit_call(struct level *l, const char *what, uint64_t limit) {
    char size[24];
    snprintf(limit_name, sizeof limit_name, "%s of cgroup %.*s (%s)", what, PATH_BYTES,
             l->dir[l->mount] ? l->dir + l->mount : "/", size_format(size, sizeof size, limit));
}

static uint64_t level_high(struct level *l) {
    return level_number(l, LEVEL_HIGH, NO_LIMIT);
}

static uint64_t level_used(struct level *l) {
    return level_number(l, LEVEL_USED, 0);
}

static uint64_t level_max(struct level *l) {
    return level_number(l, LEVEL_MAX, NO_LIMIT);
}

/* Above memory.high the kernel slows us to a crawl, so that is a limit, too. */
static uint64_t level_limit(struct level *l) {
    uint64_t limit = level_max(l), high = level_high(l);
    return high < limit ? high : limit;
}

static uint64_t level_room(struct level *l, uint64_t limit) {
    if (limit >= NO_LIMIT)
        return UINT64_MAX;
    uint64_t used = level_used(l);
    if (limit_left(limit, used) >= 4 * (uint64_t)DD_MEM_RESERVE)
        return limit_left(limit, used);
    uint64_t files = files_droppable(l);
    return limit_left(limit, used > files ? used - files : 0);
}

static void cgroup_room(const struct memory_cgroup *c, uint64_t *room) {
    for (size_t i = 0; i < c->levels_n; i++) {
        struct level *l = &c->levels[i];
        uint64_t max = level_max(l), high = level_high(l), limit = high < max ? high : max;
        uint64_t here = level_room(l, limit);
        if (here >= *room)
            continue;
        *room = here;
        limit_call(l, high < max ? "memory.high" : "the memory limit", limit);
    }
}

uint64_t memlimit_room(const char **limit) {
    char buf[4096];
    uint64_t room = UINT64_MAX;
    pthread_once(&once, memlimit_find);
    if (limit)
        *limit = limit_name;
    strcpy(limit_name, "no limit");
    if (meminfo >= 0 && text_read(meminfo, buf, sizeof buf) && field_value(buf, "MemAvailable")) {
        uint64_t total = field_value(buf, "MemTotal") << 10,
                 free_now = field_value(buf, "MemAvailable") << 10;
        room = limit_left(total, total > free_now ? total - free_now : 0);
        strcpy(limit_name, "the end of the node's memory (MemAvailable)");
    }
    cgroup_room(&cgroups[0], &room);
    cgroup_room(&cgroups[1], &room);
    return room;
}

static uint64_t cgroup_limit(const struct memory_cgroup *c, uint64_t least) {
    for (size_t i = 0; i < c->levels_n; i++) {
        struct level *l = &c->levels[i];
        uint64_t limit = level_limit(l);
        if (limit < least)
            least = limit;
    }
    return least;
}

uint64_t memlimit_total(void) {
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    pthread_once(&once, memlimit_find);
    return cgroup_limit(&cgroups[1], cgroup_limit(&cgroups[0], machine));
}

bool memlimit_slowed(const char **limit) {
    const struct memory_cgroup *c = &cgroups[1];
    pthread_once(&once, memlimit_find);
    *limit = limit_name;
    for (size_t i = 0; i < c->levels_n; i++) {
        struct level *l = &c->levels[i];
        uint64_t high = level_high(l);
        if (high < NO_LIMIT && level_used(l) > high) {
            limit_call(l, "memory.high", high);
            return true;
        }
    }
    return false;
}

/* cgroup v1 does not count by level: there the smallest limit is named. */
const char *memlimit_reached(void) {
    char text[4096];
    uint64_t least = NO_LIMIT;
    pthread_once(&once, memlimit_find);
    limit_name[0] = 0;
    for (int i = 0; i < 2; i++)
        for (size_t n = 0; n < cgroups[i].levels_n; n++) {
            struct level *l = &cgroups[i].levels[n];
            uint64_t max = level_max(l);
            bool reached = l->v2 && file_read(l->dir, "memory.events.local", text, sizeof text) &&
                           field_value(text, "oom") > 0;
            if (max < least || (reached && max < NO_LIMIT))
                limit_call(l, "the memory limit", max);
            if (reached)
                return limit_name;
            least = max < least ? max : least;
        }
    return limit_name;
}

uint64_t memlimit_kills(void) {
    char dir[2 * PATH_BYTES], text[4096];
    uint64_t kills = 0;
    pthread_once(&once, memlimit_find);
    for (int i = 0; i < 2; i++) {
        const struct memory_cgroup *c = &cgroups[i];
        if (!c->found)
            continue;
        snprintf(dir, sizeof dir, "%s%s", c->mount, c->path);
        if (file_read(dir, c->v2 ? "memory.events" : "memory.oom_control", text, sizeof text))
            kills += field_value(text, "oom_kill");
    }
    return kills;
}
