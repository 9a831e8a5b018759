/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c - `ddict apply`: run a command for each item of this node. */
#include "cmd.h"
#include "verbs.h"
#include <base/error.h>
#include <base/io.h>
#include <base/size.h>
#include <base/verb.h>

#include <common/key_text.h>
#include <errno.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: ddict apply [OPTION...] [--] COMMAND [ARGUMENT...]\n"
    "Run COMMAND for each item of this node's managers. Its stdin is the value, as\n"
    "`ddict get --raw` prints it, $DDICT_KEY the key: of a str its text, of others\n"
    "as `ddict ls` prints them. For all items of the dictionary, on each node:\n"
    "srun --ntasks-per-node=1 ddict apply ...\n"
    "  -p, --prefix=P       only str keys that begin with P; with --int, --literal\n"
    "                       or --raw-key only keys of that form\n"
    "  -j, --jobs=N         N commands at once (default: one for each core)\n" CMD_KEY_USAGE
        CMD_COMMON_USAGE;

struct apply {
    ddict_t *d;
    char **command;
    uint64_t jobs, running, failed;
    struct bytes text;
    struct child {
        pid_t pid; /* 0: none */
        char *key; /* as text */
    } * child;     /* [jobs] */
};

static uint64_t cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint64_t)CPU_COUNT(&set) : 1;
}

/* Wait for one of the commands, and tell of it if it failed. Other children: none of ours. */
static void child_await(struct apply *a) {
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (uint64_t i = 0; pid > 0 && i < a->jobs; i++) {
        struct child *c = &a->child[i];
        if (c->pid != pid)
            continue;
        if (WIFSIGNALED(status))
            verb_say("%s: %s ended by signal %d", c->key, a->command[0], WTERMSIG(status));
        else if (WEXITSTATUS(status) != 0)
            verb_say("%s: %s ended with %d", c->key, a->command[0], WEXITSTATUS(status));
        a->failed += status != 0;
        a->running--;
        free(c->key);
        *c = (struct child){0};
    }
}

static int failed_by(const char *what, int e) {
    verb_say("%s: %s", what, strerror(e < 0 ? -e : e));
    return EXIT_FAILED;
}

/* *fd: a file in memory with the value; -1: it was removed meanwhile. The exit code. */
static int value_file(struct apply *a, const void *key, size_t klen, int *fd) {
    struct ddict_view v;
    int rc = ddict_view(a->d, key, klen, &v, 0, -1);
    *fd = -1;
    if (rc < 0)
        return key_is_absent(rc) ? EXIT_OK : cmd_failed(NULL, rc);
    *fd = memfd_create("ddict value", MFD_CLOEXEC);
    rc = *fd < 0 ? -errno : write_all(*fd, v.data, v.len);
    ddict_release(&v);
    if (rc == 0 && lseek(*fd, 0, SEEK_SET) < 0)
        rc = -errno;
    if (rc < 0 && *fd >= 0)
        close(*fd);
    return rc < 0 ? failed_by("no memory for a value", rc) : EXIT_OK;
}

/* What $DDICT_KEY is: the text of a str, else the key as it is shown. */
static int key_export(const struct apply *a, const uint8_t *key, size_t klen) {
    char *text = NULL;
    if (key[0] == 's' && klen > 1 && !memchr(key, 0, klen)) {
        if (!(text = strndup((const char *)key + 1, klen - 1)))
            return -ENOMEM;
    }
    int e = setenv("DDICT_KEY", text ? text : (const char *)a->text.data, 1) < 0 ? -errno : 0;
    free(text);
    return e;
}

/* posix_spawn() and not fork(), which would keep the leases of views for the child. 0 or an errno. */
static int command_start(const struct apply *a, int fd, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    int e = posix_spawn_file_actions_init(&actions);
    if (e != 0)
        return e;
    e = posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    if (e == 0)
        e = posix_spawnp(pid, a->command[0], &actions, NULL, a->command, environ);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

static int item_apply(struct apply *a, const void *key, size_t klen) {
    int fd, e;
    while (a->running == a->jobs)
        child_await(a);
    int rc = value_file(a, key, klen, &fd);
    if (rc != EXIT_OK || fd < 0)
        return rc;
    struct child *c = a->child;
    while (c->pid != 0)
        c++;
    e = key_show(&a->text, key, klen, NULL) < 0 || key_export(a, key, klen) < 0 ||
                !(c->key = strdup((const char *)a->text.data))
            ? ENOMEM
            : command_start(a, fd, &c->pid);
    close(fd);
    if (e == 0) {
        a->running++;
        return EXIT_OK;
    }
    free(c->key);
    *c = (struct child){0};
    return failed_by(a->command[0], e);
}

/* The keys as they are now: what the commands put meanwhile is not gone over. */
static int keys_list(struct apply *a, const struct bytes *prefix, struct bytes *keys) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    int rc = ddict_iter_open_prefix(a->d, -2, prefix->data, prefix->len, &it, -1), e = 0;
    if (rc < 0)
        return cmd_failed(NULL, rc);
    while (e == 0 && (rc = ddict_iter_next(it, &key, &klen)) == 1)
        e = bytes_add(keys, &klen, sizeof klen) < 0 || bytes_add(keys, key, klen) < 0;
    ddict_iter_close(it);
    return e ? failed_by("the keys", ENOMEM) : rc < 0 ? cmd_failed(NULL, rc) : EXIT_OK;
}

static int apply_run(struct apply *a, const struct bytes *prefix) {
    struct bytes keys = {0};
    int rc = keys_list(a, prefix, &keys);
    a->child = calloc(a->jobs, sizeof *a->child);
    if (!a->child)
        rc = failed_by("the commands", ENOMEM);
    for (size_t at = 0, klen; rc == EXIT_OK && at < keys.len; at += sizeof klen + klen) {
        memcpy(&klen, keys.data + at, sizeof klen);
        rc = item_apply(a, keys.data + at + sizeof klen, klen);
    }
    while (a->running > 0)
        child_await(a);
    free(a->child);
    bytes_free(&keys);
    return rc == EXIT_OK && a->failed > 0 ? EXIT_FAILED : rc;
}

int cmd_apply(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS,
                                          CMD_KEY_LONGS,
                                          {"prefix", required_argument, NULL, 'p'},
                                          {"jobs", required_argument, NULL, 'j'},
                                          {0}};
    struct apply a = {.jobs = cores()};
    struct bytes key = {0};
    enum key_form form = KEY_STR;
    const char *prefix = NULL;
    for (int c; (c = cmd_option(argc, argv, "+hp:j:", longs, usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (cmd_key_option(c, &form))
            continue;
        if (c == 'p')
            prefix = optarg;
        else if (count_parse(optarg, 1, 4096, &a.jobs) < 0)
            return cmd_usage(usage, "--jobs=%s: a number from 1 to 4096 is wanted", optarg);
    }
    if (optind == argc)
        return cmd_usage(usage, "wants a command");
    if (prefix && cmd_key_of(&key, form, prefix) < 0)
        return cmd_usage(usage, "--prefix=%s: not of that form", prefix);
    a.command = argv + optind;
    a.d = cmd_attach();
    int rc = a.d ? apply_run(&a, &key) : EXIT_FAILED;
    bytes_free(&key);
    bytes_free(&a.text);
    ddict_detach(a.d);
    return rc;
}
