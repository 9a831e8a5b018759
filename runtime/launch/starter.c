/* SPDX-License-Identifier: Apache-2.0 */
/* starter.c - start ddictd or the hidden step, follow its lines, end it in order. */
#include "starter.h"

#include "command.h"
#include "reason.h"
#include "srun_leave.h"
#include "step_argv.h"
#include "up_run_common.h"
#include <base/defaults.h>
#include <base/io.h>
#include <base/process.h>
#include <base/verb.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OF_MEMORY      "cause=memory " /* of an `error` line */
#define OF_CUT         "cause=cut "    /* likewise: of one node; the others may go on */
#define SLICE_MS       500             /* < DD_SUSPEND_GAP_MS */
#define LINE_MAX_BYTES (256u << 20)    /* the report of DD_MANAGERS_MAX managers */

static void why_set(struct starter *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void why_set(struct starter *s, const char *fmt, ...) {
    va_list ap;

    if (s->why[0] != '\0') /* the first cause counts */
        return;
    va_start(ap, fmt);
    vsnprintf(s->why, sizeof s->why, fmt, ap);
    va_end(ap);
}

static void fd_close(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void starter_enter(struct starter *s, enum starter_state state, int64_t limit_ms) {
    s->state = state;
    deadline_start(&s->limit, limit_ms);
}

int starter_spawn(struct starter *s, char *const *argv, char *const *envp, const char *srun,
                  uint32_t nodes, int drain_ms, int start_s) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, rc;
    const char *log = getenv("DDICT_LOG");

    memset(s, 0, sizeof *s);
    s->in = s->out = s->err = -1;
    s->nodes = nodes;
    s->drain_ms = drain_ms;
    s->start_s = start_s;
    s->ready_ms = DD_READY_MS;
    s->envp = envp;
    s->srun = srun;
    s->sruns = argv_has_sruns(argv);
    s->lines.max = LINE_MAX_BYTES;
    s->echo = log && (strcmp(log, "info") == 0 || strcmp(log, "debug") == 0);
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
        rc = dd_error(-errno, "cannot make pipes: %s", strerror(errno));
    else
        rc = command_spawn(argv, envp, in[0], out[1], err[1]);
    fd_close(&in[0]);
    fd_close(&out[1]);
    fd_close(&err[1]);
    if (rc < 0) {
        fd_close(&in[1]);
        fd_close(&out[0]);
        fd_close(&err[0]);
        s->state = STARTER_OVER;
        return rc;
    }
    s->pid = rc;
    s->in = in[1];
    s->out = out[0];
    s->err = err[0];
    fcntl(s->in, F_SETFL, O_NONBLOCK);
    fcntl(s->out, F_SETFL, O_NONBLOCK);
    fcntl(s->err, F_SETFL, O_NONBLOCK);
    s->say_at = clock_ms() + DD_STEP_SAY_MS;
    starter_enter(s, STARTER_CREATING, (int64_t)start_s * 1000);
    return 0;
}

void starter_stop(struct starter *s, const char *why) {
    if (why)
        why_set(s, "%s", why);
    if (s->state >= STARTER_STOPPING)
        return;
    fd_close(&s->in);
    if (s->pid > 0)
        kill(s->pid, SIGTERM);
    starter_enter(s, STARTER_STOPPING, DD_STOP_MS + DD_DRAIN_GRACE_MS);
}

void starter_drain(struct starter *s) {
    if (s->state >= STARTER_DRAINING)
        return;
    if (s->state < STARTER_READY) {
        starter_stop(s, "ended before it was ready");
        return;
    }
    starter_enter(s, STARTER_DRAINING, s->drain_ms + DD_DRAIN_GRACE_MS + 2 * DD_STOP_MS);
    /* full or closed: the EOF has to do */
    if (s->in >= 0)
        write_all(s->in, "drain\n", 6);
    fd_close(&s->in);
}

static void node_infos_free(struct starter *s) {
    uint32_t i;

    for (i = 0; s->node_infos && i < s->nodes; i++)
        free(s->node_infos[i]);
    free(s->node_infos);
    s->node_infos = NULL;
}

/* Within the limit of the present state: srun reads while it runs, but it may be stopped. 0 or a
 * negative code. */
static int input_write(struct starter *s, const char *bytes, size_t n) {
    while (n > 0) {
        struct pollfd p = {.fd = s->in, .events = POLLOUT};
        ssize_t w = write(s->in, bytes, n);
        int left;

        if (w < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (w < 0 && errno == EAGAIN) {
            left = deadline_left(&s->limit, SLICE_MS);
            if (left == 0)
                return -ETIMEDOUT;
            poll(&p, 1, left);
        }
        if (w > 0) {
            bytes += w;
            n -= (size_t)w;
        }
    }
    return 0;
}

/* All node infos, in the order of node ids, with a blank between. */
static char *node_infos_join(const struct starter *s) {
    size_t n = 0, len;
    uint32_t i;
    char *all;

    for (i = 0; i < s->nodes; i++)
        n += strlen(s->node_infos[i]) + 1;
    all = malloc(n);
    for (i = 0, n = 0; all && i < s->nodes; i++) {
        len = strlen(s->node_infos[i]);
        memcpy(all + n, s->node_infos[i], len);
        n += len;
        all[n++] = i + 1 < s->nodes ? ' ' : '\0';
    }
    return all;
}

/* "gather DIGEST SECRET <node info 0>\n": srun gives our line to every node, so its length does not
 * depend on their number. NULL: no memory, or no libsodium. */
static char *gather_line_make(const struct starter *s) {
    enum { BASE64 = sodium_base64_VARIANT_ORIGINAL };
    uint8_t digest[STARTUP_DIGEST], secret[STARTUP_SECRET];
    char digest_text[sodium_base64_ENCODED_LEN(STARTUP_DIGEST, BASE64)];
    char secret_text[sodium_base64_ENCODED_LEN(STARTUP_SECRET, BASE64)];
    char *all = sodium_init() < 0 ? NULL : node_infos_join(s), *line = NULL;
    size_t cap =
        sizeof "gather   \n" + sizeof digest_text + sizeof secret_text + strlen(s->node_infos[0]);

    if (all)
        line = malloc(cap);
    if (line) {
        crypto_generichash(digest, sizeof digest, (const uint8_t *)all, strlen(all), NULL, 0);
        randombytes_buf(secret, sizeof secret);
        sodium_bin2base64(digest_text, sizeof digest_text, digest, sizeof digest, BASE64);
        sodium_bin2base64(secret_text, sizeof secret_text, secret, sizeof secret, BASE64);
        snprintf(line, cap, "gather %s %s %s\n", digest_text, secret_text, s->node_infos[0]);
        sodium_memzero(secret_text, sizeof secret_text);
        sodium_memzero(secret, sizeof secret);
    }
    free(all);
    return line;
}

static void node_infos_send(struct starter *s) {
    char *line = gather_line_make(s);

    if (!line) {
        starter_stop(s, "no memory for the wire-up, or libsodium does not work here");
    } else {
        input_write(s, line, strlen(line));
        sodium_memzero(line, strlen(line));
    }
    free(line);
    node_infos_free(s);
}

/* "I <base64>": when all are there, every node is told where to get them. */
static void node_info_take(struct starter *s, const char *text) {
    char *rest;
    unsigned long i = strtoul(text, &rest, 10);

    if (!s->node_infos && s->node_infos_n == 0)
        s->node_infos = calloc(s->nodes, sizeof *s->node_infos);
    if (!s->node_infos || rest == text || *rest != ' ' || i >= s->nodes || s->node_infos[i])
        return;
    s->node_infos[i] = strdup(rest + 1);
    if (!s->node_infos[i] || ++s->node_infos_n < s->nodes || s->in < 0)
        return;
    node_infos_send(s);
}

/* Each node of a step names it. */
static void hidden_step_add(struct starter *s, const char *step) {
    size_t n = strlen(s->hidden_steps), k = strlen(step);
    const char *at = s->hidden_steps;

    for (; k > 0 && (at = strstr(at, step)); at += k)
        if ((at == s->hidden_steps || at[-1] == ' ') && (at[k] == '\0' || at[k] == ' '))
            return;
    if (n + 1 + k < sizeof s->hidden_steps) /* half an id is that of another step */
        snprintf(s->hidden_steps + n, sizeof s->hidden_steps - n, "%s%s", n > 0 ? " " : "", step);
}

static void on_start(struct starter *s, const char *rest) {
    char step[64];

    if (s->state == STARTER_CREATING && ++s->started >= s->nodes)
        starter_enter(s, STARTER_WAITING, s->ready_ms);
    if (line_value(rest, "step", step, sizeof step) > 0 && strcmp(step, "-") != 0)
        hidden_step_add(s, step);
}

static void on_ready(struct starter *s, const char *rest) {
    if (s->state >= STARTER_READY)
        return;
    snprintf(s->about, sizeof s->about, "%s", rest);
    s->ready = 1;
    s->state = STARTER_READY;
}

static void on_exists(struct starter *s, const char *rest) {
    if (s->state >= STARTER_READY)
        return;
    snprintf(s->about, sizeof s->about, "%s", rest);
    s->ready = s->exists = 1;
    starter_enter(s, STARTER_DRAINING, DD_LINGER_MS + 2 * DD_STOP_MS);
}

/* Ready: only the exit of all can tell that nobody has gone on. True: so it is. */
static int on_cut(struct starter *s, const char *rest) {
    if (strncmp(rest, OF_CUT, sizeof OF_CUT - 1) != 0 || s->state < STARTER_READY)
        return 0;
    rest += sizeof OF_CUT - 1;
    snprintf(s->cut_off, sizeof s->cut_off, "%s", rest);
    if (s->news)
        s->news(s->news_arg, LINE_WARN, rest);
    return 1;
}

static void on_error(struct starter *s, const char *rest) {
    if (on_cut(s, rest))
        return;
    if (strncmp(rest, OF_MEMORY, sizeof OF_MEMORY - 1) == 0) {
        s->memory = 1;
        rest += sizeof OF_MEMORY - 1;
    }
    why_set(s, "%s", *rest != '\0' ? rest : "the managers failed without a word");
    if (s->state < STARTER_READY)
        starter_stop(s, NULL);
    else
        starter_drain(s); /* lost: it ends by itself, but not later than a drain would */
}

static void on_end(struct starter *s) {
    s->ended = 1;
    if (s->state == STARTER_READY) /* the job ended, or `ddict down` */
        starter_drain(s);
}

static void on_saving(struct starter *s) {
    if (s->state == STARTER_DRAINING)
        starter_enter(s, STARTER_DRAINING, s->drain_ms + DD_DRAIN_GRACE_MS + 2 * DD_STOP_MS);
    if (s->news)
        s->news(s->news_arg, LINE_SAVING, "");
}

static void on_line(void *arg, char *line) {
    struct starter *s = arg;
    const char *rest = "";

    switch (line_parse(line, &rest)) {
    case LINE_START:
        on_start(s, rest);
        break;
    case LINE_READY:
        on_ready(s, rest);
        break;
    case LINE_EXISTS:
        on_exists(s, rest);
        break;
    case LINE_UNSAVED:
        s->unsaved = 1;
        /* fall through */
    case LINE_WARN:
    case LINE_SUMMARY:
        if (s->news)
            s->news(s->news_arg, line_parse(line, NULL), rest);
        break;
    case LINE_ERROR:
        on_error(s, rest);
        break;
    case LINE_REPORT:
        free(s->report);
        s->report = strdup(rest);
        break;
    case LINE_END:
        on_end(s);
        break;
    case LINE_CARD:
        node_info_take(s, rest);
        break;
    case LINE_SAVING:
        on_saving(s);
        break;
    case LINE_LOADING:
    case LINE_OTHER:
        break;
    }
}

static void tail_add(struct starter *s, const char *bytes, size_t n) {
    if (s->echo)
        write_all(2, bytes, n);
    if (n > sizeof s->tail) {
        bytes += n - sizeof s->tail;
        n = sizeof s->tail;
    }
    if (s->tail_len + n > sizeof s->tail) {
        size_t drop = s->tail_len + n - sizeof s->tail;

        memmove(s->tail, s->tail + drop, s->tail_len - drop);
        s->tail_len -= drop;
    }
    memcpy(s->tail + s->tail_len, bytes, n);
    s->tail_len += n;
    if (s->state < STARTER_READY && !s->gone && s->srun && reason_task_gone(s->tail, s->tail_len)) {
        /* the others would wait for it in vain; but it may have said why, on the other pipe */
        s->gone = 1;
        deadline_start(&s->limit, DD_DRAIN_GRACE_MS);
    }
}

static void outputs_read(struct starter *s) {
    char buf[16384];
    ssize_t n;

    while (s->err >= 0 && (n = read(s->err, buf, sizeof buf)) != -1) {
        if (n == 0)
            fd_close(&s->err);
        else
            tail_add(s, buf, (size_t)n);
    }
    while (s->out >= 0 && (n = read(s->out, buf, sizeof buf)) != -1) {
        if (n == 0)
            fd_close(&s->out);
        else
            lines_feed(&s->lines, buf, (size_t)n, on_line, s);
    }
}

/* srun was killed and its step may live on: tell slurmctld. */
static void step_cancel(struct starter *s) {
    char path[4096], steps[sizeof s->hidden_steps], *text, *step, *save;
    char *argv[sizeof steps / 4 + 2] = {path, NULL};
    size_t n = 1;

    if (!s->srun || s->hidden_steps[0] == '\0' ||
        command_beside(s->srun, "scancel", path, sizeof path) < 0)
        return;
    strcpy(steps, s->hidden_steps);
    for (step = strtok_r(steps, " ", &save); step; step = strtok_r(NULL, " ", &save))
        argv[n++] = step;
    argv[n] = NULL;
    if (command_read(argv, s->envp, DD_STOP_MS, &text) == 0)
        free(text);
}

/* A node's ddictd is gone, and it did not say why. */
static void starter_gone(struct starter *s) {
    char text[DD_ERRMSG_MAX];

    reason_read(s->tail, s->tail_len, text, sizeof text);
    why_set(s, "the managers did not start: %s", text);
    starter_stop(s, NULL);
}

static void starter_late(struct starter *s) {
    if (s->gone && s->state < STARTER_READY) {
        starter_gone(s);
        return;
    }
    switch (s->state) {
    case STARTER_CREATING:
        if (s->srun)
            why_set(s, "Slurm did not start the managers' step within %d s (%u of %u nodes began)",
                    s->start_s, s->started, s->nodes);
        else
            why_set(s, "ddictd did not begin within %d s", s->start_s);
        starter_stop(s, NULL);
        break;
    case STARTER_WAITING:
        why_set(s, "the managers were not ready within %d s", s->ready_ms / 1000);
        starter_stop(s, NULL);
        break;
    case STARTER_DRAINING:
        if (!s->ended)
            why_set(s, "the managers did not end in time");
        starter_stop(s, NULL);
        break;
    case STARTER_STOPPING:
        if (s->pid > 0) {
            if (s->sruns)
                srun_children_kill(s->pid); /* the child of each srun ends its step */
            kill(s->pid, SIGKILL);
        }
        step_cancel(s);
        starter_enter(s, STARTER_KILLING, DD_STOP_MS);
        break;
    /* only a process in uninterruptible sleep gets here; nobody can wait for it */
    case STARTER_KILLING:
        s->state = STARTER_OVER;
        break;
    case STARTER_READY:
    case STARTER_OVER:
        break;
    }
}

int starter_poll(struct starter *s, struct pollfd *p) {
    p[0] = (struct pollfd){.fd = s->out, .events = POLLIN};
    p[1] = (struct pollfd){.fd = s->err, .events = POLLIN};
    return s->state == STARTER_READY ? -1 : deadline_left(&s->limit, SLICE_MS);
}

void starter_turn(struct starter *s) {
    outputs_read(s);
    if (s->state <= STARTER_WAITING && s->say_at != 0 && clock_ms() >= s->say_at) {
        s->say_at = 0;
        verb_say("still waiting for the managers (%u of %u node%s began)", s->started, s->nodes,
                 s->nodes == 1 ? "" : "s");
    }
    if (s->state != STARTER_READY && s->state != STARTER_OVER && deadline_over(&s->limit))
        starter_late(s);
}

/* A ddictd exits with 0 only when it has ended in order, and srun when all have. Then `end` was said
 * but did not arrive: Slurm ends the step with its job, whatever is under way in it. */
static void cut_judge(struct starter *s) {
    if (!s->ready || s->ended || s->why[0] != '\0' || !s->srun || !WIFEXITED(s->status) ||
        WEXITSTATUS(s->status) != 0 || !reason_is_quiet(s->tail, s->tail_len))
        return;
    s->ended = s->cut = 1;
}

/* Somebody cancelled the step: that its nodes were lost then is no news. What we stopped ourselves
 * does not count. */
static void cancel_judge(struct starter *s) {
    char what[160];

    if (s->memory) /* of which Slurm cancels the step */
        return;
    if ((s->state == STARTER_READY || s->state == STARTER_DRAINING) &&
        (!s->ended || s->why[0] != '\0') &&
        reason_cancelled(s->tail, s->tail_len, what, sizeof what))
        snprintf(s->why, sizeof s->why, "the managers ended early: %s", what);
}

/* Gone without `end`: say why. */
static void exit_judge(struct starter *s) {
    char text[DD_ERRMSG_MAX];

    if (s->ended && (s->ready || s->why[0] != '\0'))
        return;
    if (s->cut_off[0] != '\0')
        why_set(s, "%s", s->cut_off);
    reason_read(s->tail, s->tail_len, text, sizeof text);
    if (WIFSIGNALED(s->status))
        why_set(s, "%s %s: killed by signal %d", s->srun ? "the srun of the managers" : "ddictd",
                s->ready ? "ended early" : "did not start", WTERMSIG(s->status));
    else if (text[0] != '\0')
        why_set(s, "%s: %s", s->ready ? "the managers ended early" : "the managers did not start",
                text);
    else
        why_set(s, "%s %s: exit code %d", s->srun ? "the srun of the managers" : "ddictd",
                s->ready ? "ended early" : "did not start", WEXITSTATUS(s->status));
}

void starter_reap(struct starter *s) {
    if (s->pid <= 0 || waitpid(s->pid, &s->status, WNOHANG) != s->pid)
        return;
    s->pid = 0;
    outputs_read(s);
    if (WIFSIGNALED(s->status) && !s->ended)
        step_cancel(s);
    cut_judge(s);
    cancel_judge(s);
    exit_judge(s);
    s->state = STARTER_OVER;
}

int starter_unsaved(const struct starter *s, const char *save, char *text, size_t cap) {
    *text = '\0';
    if (*save == '\0' || !s->ready || s->exists || (s->ended && !s->cut && !s->unsaved))
        return 0;
    if (!s->unsaved && s->cut)
        snprintf(text, cap,
                 "nobody knows whether all was saved to %s: Slurm cut off what the managers said "
                 "at their end",
                 save);
    else if (!s->unsaved)
        snprintf(text, cap, "NOT ALL WAS SAVED to %s: %s", save,
                 s->why[0] != '\0' ? s->why : "the managers ended early");
    return 1;
}

void starter_free(struct starter *s) {
    fd_close(&s->in);
    fd_close(&s->out);
    fd_close(&s->err);
    lines_free(&s->lines);
    free(s->report);
    s->report = NULL;
    node_infos_free(s);
}

/* Nobody needs what comes now. *fd is -1 when it is closed. */
static void rest_read(struct starter *s, int *fd) {
    char buf[4096];
    ssize_t n;

    while (*fd >= 0 && (n = read(*fd, buf, sizeof buf)) != -1)
        if (n == 0)
            fd_close(fd);
        else if (fd == &s->err)
            tail_add(s, buf, (size_t)n);
}

/* Our plugin in it has closed our pipes when the signals that it could get are harmless. 1: it
 * lives on, and needs nobody. */
static int srun_let_go(struct starter *s) {
    struct deadline limit;
    int left;

    if (!srun_leave_tell(s->pid))
        return 0;
    deadline_start(&limit, DD_LEAVE_MS);
    while ((s->out >= 0 || s->err >= 0) && (left = deadline_left(&limit, SLICE_MS)) > 0) {
        struct pollfd p[2] = {{.fd = s->out, .events = POLLIN}, {.fd = s->err, .events = POLLIN}};

        poll(p, 2, left);
        rest_read(s, &s->out);
        rest_read(s, &s->err);
    }
    return s->out < 0 && s->err < 0 && waitpid(s->pid, &s->status, WNOHANG) == 0;
}

void starter_leave(struct starter *s) {
    struct deadline limit;

    if (s->pid > 0 && s->srun) {
        /* where it is killed its child becomes ours, to be reaped */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (!s->sruns) /* else its children are the sruns */
            srun_children_kill(s->pid);
        if (!srun_let_go(s)) {
            kill(s->pid, SIGKILL);
            deadline_start(&limit, DD_STOP_MS);
            while (waitpid(-1, NULL, WNOHANG) >= 0 && deadline_left(&limit, SLICE_MS) > 0)
                poll(NULL, 0, 1);
        }
        s->pid = 0;
    }
    s->state = STARTER_OVER;
}
