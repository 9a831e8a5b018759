/* SPDX-License-Identifier: Apache-2.0 */
/* refill_child.c - the child that reads sets again. */
#include "refill_child.h"

#include "results.h"
#include <base/error.h>
#include <base/log.h>
#include <base/vec.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_MAX (16u << 20) /* bytes of what it says: an object with some 100 bytes a set */

static struct refill_child {
    struct supervisor *s;
    pid_t pid;           /* 0: none */
    refill_ended *ended; /* whom its end is told; NULL: nobody */
    struct io_handler out;
    uint32_t *owners;
    unsigned n;
    struct timer limit;
    char *text; /* what it said */
    size_t len, cap;
} child = {.out.fd = -1};

bool refill_child_is(pid_t pid) {
    return pid > 0 && pid == child.pid;
}

static void child_out_close(void) {
    if (child.out.fd < 0)
        return;
    io_remove(child.s->epoll_fd, &child.out);
    close(child.out.fd);
    child.out.fd = -1;
}

/* --- what it said --- */

static void set_take(struct refill_said *said, const json_t *set) {
    const char *name = json_string_value(json_object_get(set, "set")),
               *why = json_string_value(json_object_get(set, "error"));
    if (why && !said->failed)
        snprintf(said->why, sizeof said->why, "%s: %s", name ? name : "", why);
    said->failed |= why != NULL;
    said->again |= why && !json_is_true(json_object_get(set, "final"));
    said->sets += json_integer_value(json_object_get(set, "items")) > 0;
}

/* False: it is no such object. */
static bool text_take(struct refill_said *said) {
    json_t *o = child.text ? json_loadb(child.text, child.len, JSON_DISABLE_EOF_CHECK, NULL) : NULL,
           *set;
    const json_t *sets = json_object_get(o, "sets");
    const char *why = json_string_value(json_object_get(o, "error"));
    size_t i;
    said->items = (uint64_t)json_integer_value(json_object_get(o, "items"));
    json_array_foreach(sets, i, set) set_take(said, set);
    if (why) {
        said->failed = said->again = true;
        snprintf(said->why, sizeof said->why, "%s", why);
    }
    bool is = why || json_is_array(sets);
    json_decref(o);
    return is;
}

/* Nobody waits for it any more. Its owners, for the caller to free. */
static uint32_t *child_leave(void) {
    uint32_t *owners = child.owners;
    timer_clear(&child.s->timers, &child.limit);
    child_out_close();
    free(child.text);
    child.text = NULL;
    child.ended = NULL;
    child.owners = NULL;
    return owners;
}

static void child_report(const struct refill_said *said) {
    refill_ended *ended = child.ended;
    if (!ended)
        return;
    uint32_t *owners = child_leave();
    ended(child.s, owners, child.n, said);
    free(owners);
}

static void failure_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void failure_report(const char *fmt, ...) {
    struct refill_said said = {.failed = true, .again = true};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(said.why, sizeof said.why, fmt, ap);
    va_end(ap);
    child_report(&said);
}

/* --- the process --- */

static void child_out_ready(struct io_handler *h, uint32_t events) {
    char buf[4096];
    ssize_t n;
    while ((n = read(h->fd, buf, sizeof buf)) > 0)
        if (child.len + (size_t)n <= OUTPUT_MAX &&
            VEC_ROOM(&child.text, &child.cap, child.len + (size_t)n, sizeof buf) == 0) {
            memcpy(child.text + child.len, buf, (size_t)n);
            child.len += (size_t)n;
        }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        child_out_close();
}

/* A read that hangs in a file system is not ended by a signal either: nobody waits for it. */
static void limit_over(struct timer *t) {
    kill(child.pid, SIGKILL);
    failure_report("it was not done within %d min", DD_REFILL_MS / 60000);
}

static void child_run(const struct supervisor *s, const char *owners, int out, pid_t parent)
    __attribute__((noreturn));
static void child_run(const struct supervisor *s, const char *owners, int out, pid_t parent) {
    char path[PATH_MAX];
    sigset_t none;
    int null = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    /* Slurm sends it to the whole step; ddictd decides when the child ends */
    signal(SIGTERM, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    program_find(path, sizeof path);
    dup2(null, 0);
    dup2(out, 1);
    close_range(3, ~0u, 0);
    setenv("DDICT_NODE", s->node, 1);
    unsetenv("DDICT_TIMEOUT"); /* of the user's programs */
    execl(path, "ddict", "load", "--name", s->opt.name, "--refill", owners, (char *)NULL);
    dprintf(1, "{\"error\":\"%s: %s\"}\n", path, strerror(errno));
    _exit(127);
}

static char *owners_text(const uint32_t *owners, unsigned n) {
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    for (unsigned i = 0; f && i < n; i++)
        fprintf(f, "%s%u", i > 0 ? "," : "", owners[i]);
    if (f && fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

static int child_spawn(struct supervisor *s, const char *owners) {
    int out[2], e = 0;
    if (pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    pid_t parent = getpid();
    child.pid = fork();
    if (child.pid == 0) {
        fcntl(out[1], F_SETFL, 0);
        child_run(s, owners, out[1], parent);
    }
    if (child.pid < 0) {
        e = -errno;
        child.pid = 0;
    }
    close(out[1]);
    child.out = (struct io_handler){.fd = out[0], .ready = child_out_ready};
    if (e == 0 && (e = io_add(s->epoll_fd, &child.out, EPOLLIN)) < 0)
        kill(child.pid, SIGKILL);
    if (e < 0) {
        close(out[0]);
        child.out.fd = -1;
    }
    return e;
}

int refill_child_begin(struct supervisor *s, const uint32_t *owners, unsigned n,
                       refill_ended *ended) {
    if (child.pid > 0)
        return -EBUSY;
    char *text = owners_text(owners, n);
    uint32_t *copy = malloc((n + 1) * sizeof *copy);
    child.s = s;
    child.len = child.cap = 0;
    child.limit.fire = limit_over;
    int e =
        text && copy ? timer_after(&s->timers, &child.limit, DD_REFILL_MS * 1000000ull) : -ENOMEM;
    if (e == 0)
        e = child_spawn(s, text);
    free(text);
    if (e < 0) {
        timer_clear(&s->timers, &child.limit);
        free(copy);
        return dd_error(e, "cannot start `ddict load`: %s", strerror(-e));
    }
    memcpy(copy, owners, n * sizeof *copy);
    child.owners = copy;
    child.n = n;
    child.ended = ended;
    return 0;
}

void refill_child_reap(struct supervisor *s) {
    struct refill_said said = {0};
    int status;
    if (child.pid <= 0 || waitpid(child.pid, &status, WNOHANG) != child.pid)
        return;
    child.pid = 0;
    if (child.out.fd >= 0)
        child_out_ready(&child.out, 0); /* the rest of its output */
    if (WIFSIGNALED(status))
        failure_report("`ddict load` was killed by signal %d", WTERMSIG(status));
    else if (text_take(&said) && (said.failed || WEXITSTATUS(status) == 0))
        child_report(&said);
    else
        failure_report("`ddict load` ended with exit code %d", WEXITSTATUS(status));
}

void refill_child_stop(struct supervisor *s) {
    if (!child.s)
        return;
    if (child.pid > 0)
        kill(child.pid, SIGKILL);
    free(child_leave());
}

void refill_child_end(struct supervisor *s) {
    refill_child_stop(s);
    if (child.pid > 0)
        waitpid(child.pid, NULL, WNOHANG); /* one that hangs in the file system is left to init */
}
