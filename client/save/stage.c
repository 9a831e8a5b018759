/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c - passes over the managers of a node, which write what has changed since the pass before.
 */
#include "stage.h"

#include "files.h"
#include "manifest.h"
#include "seen.h"
#include <base/clock.h>
#include <base/error.h>

#include <common/lost_keys.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define TICK_MS 200
#define SAY_MS  1000

/* --- can it be written? --- */

static int folders_make(const char *folder) {
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s", folder) >= sizeof path)
        return -ENAMETOOLONG;
    for (char *c = path + 1; (c = strchr(c, '/')); *c++ = '/') {
        *c = 0;
        /* the last one says which */
        if (mkdir(path, 0777) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES &&
            errno != EPERM)
            return -errno;
    }
    return mkdir(path, 0777) < 0 && errno != EEXIST ? -errno : 0;
}

/* Write a file of one byte and remove it. 0 or a negated errno. */
static int folder_probe(const char *folder) {
    char path[4200], node[64] = "";
    int rc = folders_make(folder);
    if (rc < 0)
        return rc;
    gethostname(node, sizeof node - 1);
    snprintf(path, sizeof path, "%s/.ddict-probe-%s-%ld", folder, node, (long)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    rc = write(fd, "x", 1) == 1 ? 0 : errno != 0 ? -errno : -ENOSPC;
    if (close(fd) < 0 && rc == 0)
        rc = -errno;
    unlink(path);
    return rc;
}

/* --- while a pass runs --- */

static int ticking;     /* atomic */
static uint64_t wanted; /* atomic: items of this pass */
static bool whole;      /* the pass before was complete, and by this process */

static void at_say(const struct save_run *run) {
    printf("at %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           __atomic_load_n(&run->items, __ATOMIC_RELAXED),
           __atomic_load_n(&run->bytes, __ATOMIC_RELAXED),
           /* figures alone */
           __atomic_load_n(&wanted, __ATOMIC_RELAXED),
           __atomic_load_n(&run->moved, __ATOMIC_RELAXED));
}

/* During a pass ddictd says nothing but `stop`, and stdin ends when ddictd does. */
static void *ticker_run(void *arg) {
    struct save_run *run = arg;
    for (unsigned n = 1; __atomic_load_n(&ticking, __ATOMIC_RELAXED); n++) { /* only a flag */
        struct pollfd p = {.fd = 0, .events = POLLIN};
        if (poll(&p, 1, 0) > 0) {
            __atomic_store_n(&run->stopped, 1, __ATOMIC_RELAXED); /* only a flag */
        } else if (n % (SAY_MS / TICK_MS) == 0) {
            at_say(run);
        }
        nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000}, NULL);
    }
    return NULL;
}

/* --- a dump: parts of each manager, which are made anew when something in it has changed --- */

static struct manager {
    json_t *parts;  /* NULL: not written yet */
    uint64_t state; /* of the manager's content before these parts were made */
    uint64_t items, bytes;
    struct save_seen seen; /* files */
} * managers;
/* with --replicas, as ddictd says: managers of lost nodes that are ours now; lost nodes. [managers],
 * [nodes] */
static bool *more, *without;

struct scan {
    uint64_t sum, items, bytes;
};

static int item_scan(struct save_run *run, void *arg, const struct save_item *item) {
    struct scan *s = arg;
    __atomic_fetch_add(&run->moved, 1, __ATOMIC_RELAXED); /* a figure */
    /* in any order */
    s->sum += XXH3_64bits_withSeed(item->key, item->klen, item->view.version);
    s->items++;
    s->bytes += item->view.len;
    return 0;
}

static int manager_dump(struct save_run *run, unsigned i) {
    struct manager *m = &managers[i];
    struct scan s = {0};
    int rc = save_each(run, i, item_scan, &s);
    if (rc < 0)
        return rc;
    s.sum ^= s.items;
    if (m->parts && m->state == s.sum && m->items == s.items &&
        manifest_parts_there(run, m->parts)) {
        __atomic_fetch_add(&run->items, m->items, __ATOMIC_RELAXED); /* figures alone */
        __atomic_fetch_add(&run->bytes, m->bytes, __ATOMIC_RELAXED);
        __atomic_fetch_add(&run->same, m->items, __ATOMIC_RELAXED);
        return 0;
    }
    json_t *parts = json_array();
    rc = parts ? save_manager(run, i, parts) : dd_error(-ENOMEM, "out of memory");
    if (rc < 0) {
        manifest_drop(run, parts);
        json_decref(parts);
        return rc;
    }
    manifest_drop(run, m->parts); /* a pass that failed elsewhere left them */
    json_decref(m->parts);
    *m = (struct manager){.parts = parts, .state = s.sum};
    json_t *part;
    size_t at;
    /* not the sums of the scan: something may have come or gone since */
    json_array_foreach(parts, at, part) {
        m->items += (uint64_t)json_integer_value(json_object_get(part, "items"));
        m->bytes += (uint64_t)json_integer_value(json_object_get(part, "bytes"));
    }
    return 0;
}

static void dumps_write(struct save_run *run) {
    int rc = 0;
    /* a number for one thread */
    for (uint64_t i; rc == 0 && (i = __atomic_fetch_add(&run->claimed, 1, __ATOMIC_RELAXED),
                                i < run->info.managers);)
        if (save_ours(run, i))
            rc = manager_dump(run, (unsigned)i);
    if (rc < 0)
        save_fail(run);
}

/* Write what this node has of the dump, for the node that writes the manifest. */
static int worker_say(struct save_run *run) {
    json_decref(run->parts);
    run->parts = json_array();
    for (unsigned i = 0; i < run->info.managers; i++)
        if (managers[i].parts && json_array_extend(run->parts, managers[i].parts) < 0)
            return dd_error(-ENOMEM, "out of memory");
    return run->parts ? manifest_worker_write(run) : dd_error(-ENOMEM, "out of memory");
}

/* --- a pass --- */

static void stage_count(struct save_run *run) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    uint64_t n = 0;
    for (unsigned i = 0; i < run->info.managers; i++) {
        if (!save_ours(run, i) ||
            ddict_iter_open_flags(run->d, (int)i, NULL, 0, DDICT_ITER_HIDDEN, &it, -1) < 0)
            continue;
        while (ddict_iter_next(it, &key, &klen) == 1)
            n += save_wanted(run, key, klen);
        ddict_iter_close(it);
    }
    __atomic_store_n(&wanted, n, __ATOMIC_RELAXED); /* a figure */
}

static int stage_attach(struct save_run *run, const char *name) {
    int rc = ddict_attach(&run->d, name, -1);
    rc = rc < 0 ? rc : ddict_get_info(run->d, &run->info);
    if (rc < 0)
        return dd_error(rc, "%s", ddict_errmsg());
    if ((rc = save_checkpoint(run, NULL)) < 0)
        return rc;
    run->worker = run->info.node_id;
    run->workers = run->info.nodes;
    memcpy(run->id, run->info.id, sizeof run->id);
    for (unsigned i = 0; i < 4; i++)
        snprintf(run->tag + 2 * i, 3, "%02x", run->id[i]);
    if (!managers)
        managers = calloc(run->info.managers, sizeof *managers);
    if (!more)
        run->more = more = calloc(run->info.managers, sizeof *more);
    if (!without)
        run->without = without = calloc(run->info.nodes, sizeof *without);
    return managers && more && without ? 0 : dd_error(-ENOMEM, "out of memory");
}

/* Those that the text names, and no others. */
static void numbers_take(bool *set, size_t n, const char *text) {
    char *end;
    memset(set, 0, n * sizeof *set);
    for (unsigned long i; i = strtoul(text, &end, 10), end != text; text = end)
        if (i < n)
            set[i] = true;
}

static void stage_detach(struct save_run *run) {
    ddict_detach(run->d);
    run->d = NULL;
}

static struct save_seen *seen_of(unsigned manager) {
    return &managers[manager].seen;
}

static int pass_run(struct save_run *run, bool files) {
    pthread_t tick;
    stage_count(run);
    ticking = 1;
    bool ticks = pthread_create(&tick, NULL, ticker_run, run) == 0;
    int rc = files ? save_files(run) : save_threads(run, run->info.local_managers, dumps_write);
    int looked = files || rc < 0 ? 0 : save_look_lost(run, 0);
    if (ticks) {
        __atomic_store_n(&ticking, 0, __ATOMIC_RELAXED);
        pthread_join(tick, NULL);
    }
    if (rc < 0)
        return dd_error(-ECANCELED, "%s", *run->why != 0 ? run->why : "it was stopped");
    return files || looked < 0 ? looked : worker_say(run);
}

/* Another of the keys that are alike may be there. */
static bool is_elsewhere(int rc) {
    return rc == 0 || rc == DDICT_EKEYLOST || rc == -ETIMEDOUT;
}

/* Refuse the pass until --load and --restore are done: until then the dictionary has less than
 * was saved before. */
static int stage_is_loaded(struct save_run *run) {
    char key[SAVE_LOADED_CAP];
    int rc = !run->after_load;
    bool refills = ddict_refills(run->d) == 1;
    /* each is alike: none is waited for that is read again now */
    for (unsigned n = 0; n < loaded_keys(run->d) && is_elsewhere(rc); n++)
        rc = ddict_contains(run->d, key, loaded_key(key, n), NULL, refills ? LOST_LOOK_MS : -1);
    rc = refills && is_elsewhere(rc) ? 0 : rc;
    if (rc < 0)
        return dd_error(rc, "%s", ddict_errmsg());
    return rc > 0 ? 0
                  : dd_error(-EAGAIN, "what --restore and --load bring was not complete, so what "
                                      "was saved before is left as it was");
}

static void stage_pass(struct save_run *run, bool files, const char *name, const char *numbers) {
    uint64_t began = clock_ns();
    run->items = run->bytes = run->same = run->claimed = run->left_out = 0;
    run->stopped = run->lost = 0;
    whole = false;
    *run->why = *run->first_left_out = 0;
    run->seen = files ? seen_of : NULL;
    int rc = stage_attach(run, name);
    if (rc >= 0)
        numbers_take(more, run->info.managers, numbers);
    rc = rc < 0 ? rc : stage_is_loaded(run);
    rc = rc < 0 ? rc : pass_run(run, files);
    whole = rc >= 0;
    at_say(run);
    if (rc < 0)
        printf("failed %s\n", dd_errmsg());
    else
        printf("done %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.3f %s\n", run->items,
               run->bytes, run->same, run->left_out, (double)(clock_ns() - began) / 1e9,
               run->first_left_out);
    stage_detach(run);
}

static void stage_publish(struct save_run *run, const char *numbers) {
    if (whole)
        numbers_take(without, run->info.nodes, numbers);
    int rc = whole ? manifest_write(run, NULL)
                   : dd_error(-ESRCH, "who saves was killed after its pass, and started anew");
    if (rc < 0)
        printf("failed %s\n", dd_errmsg());
    else
        printf("published %" PRIu64 " %" PRIu64 "\n", run->items, run->bytes);
}

/* Bytes in use on the node that uses most. */
static void size_say(struct save_run *run, const char *name) {
    struct ddict_manager_stats *s = NULL;
    uint64_t most = 0;
    int n = stage_attach(run, name);
    n = n < 0 ? n : ddict_stats(run->d, &s, sizeof *s, -1);
    uint64_t *node = n > 0 ? calloc(run->info.nodes, sizeof *node) : NULL;
    for (int i = 0; node && i < n; i++) {
        uint64_t *at = &node[s[i].node_id % run->info.nodes];
        *at += s[i].total_used_bytes;
        most = *at > most ? *at : most;
    }
    printf("size %" PRIu64 "\n", most);
    free(node);
    free(s);
    stage_detach(run);
}

int stage_run(struct save_run *run, bool files, const char *name) {
    char *line = NULL;
    size_t cap = 0;
    /* Slurm's signals reach ddictd, too, which tells us */
    static const int ignored[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGTSTP, SIGPIPE};
    for (unsigned i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("DDICT_TIMEOUT", "60",
           0); /* not as long as a node's keys may be read again (--refill) */
    setvbuf(stdout, NULL, _IOLBF, 0);
    int rc = folder_probe(run->folder);
    if (rc < 0)
        printf("error %s\n", strerror(-rc));
    else if (!files && (rc = manifest_foreign(run->folder)) < 0) /* it would be replaced */
        printf("error %s\n", dd_errmsg());
    else
        puts("ready");
    while (rc == 0 && getline(&line, &cap, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "pass", 4) == 0)
            stage_pass(run, files, name, line + 4);
        else if (strncmp(line, "publish", 7) == 0)
            stage_publish(run, line + 7);
        else if (strcmp(line, "size") == 0)
            size_say(run, name);
    }
    for (unsigned i = 0; managers && i < run->info.managers; i++) {
        json_decref(managers[i].parts);
        save_seen_free(&managers[i].seen);
    }
    free(managers);
    free(more);
    free(without);
    free(line);
    return rc < 0 ? 1 : 0;
}
