/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.c - who of the tasks starts the managers, how the others come to know, and the command of
 * each. */
#include "tasks.h"

#include "command.h"
#include "loading.h"
#include "plan.h"
#include "ranks.h"
#include "starter.h"
#include "tasks_end.h"
#include "up_run_common.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/verb.h>
#include <place/meet_ask.h>
#include <place/torch_env.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_FIRST_MS 10 /* between two looks for the name; grows to */
#define LOOK_LAST_MS  200
/* When the right to start is free again, a task waits so long before it takes it: the signal that
 * ends all tasks may come, or the managers. */
#define FOLLOW_MS 2000
/* A task that failed keeps the right so long. The others see it taken, so they do not all fail in
 * the same way before they are ended. */
#define LINGER_MS 500
#define WORD_MS   10000 /* scancel */

struct tasks {
    const struct options *asked;
    struct options o; /* of the managers */
    const struct place *p;
    char name[DICT_NAME_MAX], node[NODE_NAME_MAX], meeting[STEP_NAME_MAX];
    int first; /* it may start the managers */
    int right; /* listens on the name of that right; -1 */
    /* clock_ms() when another one was last seen to have it; 0: never */
    uint64_t taken_at;
    struct deadline limit;
    int said;
};

/* --- is there anything to share --- */
int tasks_find(struct place *p, const struct options *o) {
    const char *job = getenv("SLURM_JOB_ID");
    int several = 0;

    if (is_said(&o->set, OPT_LOCAL) ||
        (options_job(o) && (!job || strcmp(job, options_job(o)) != 0)))
        return 0;
    if (place_init(p, PLACE_AS_TASK) == 0)
        several =
            p->size > 1 && ((p->how == PLACE_SLURM && options_job(o) && getenv("SLURM_STEP_ID")) ||
                            p->how == PLACE_MPIRUN);
    if (!several)
        return 0;
    if (is_said(&o->set, OPT_RANKS))
        return dd_error(-EINVAL,
                        "-n %d in one of %d tasks: let srun or mpirun start the ranks, or give "
                        "each task a dictionary of its own by --local",
                        (int)number_of(&o->set, OPT_RANKS), p->size);
    if (p->how == PLACE_MPIRUN && !options_job(o) && p->local_size != p->size)
        return dd_error(-ENOTSUP,
                        "%d tasks on several nodes without Slurm: start them in a Slurm job, or "
                        "give each task a dictionary of its own by --local",
                        p->size);
    return 1;
}

void tasks_refuse(const struct place *p, const char *why) {
    if (p->rank == 0)
        verb_say("%s", why);
    else if (p->how == PLACE_MPIRUN)
        poll(NULL, 0, FOLLOW_MS);
}

/* Of the text that tells this mpirun from others. */
static uint64_t text_hash(const char *text) {
    uint64_t h = 0xcbf29ce484222325ull;

    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
    return h;
}

static void tasks_init(struct tasks *t, const struct options *o, const struct place *p) {
    const char *job = options_job(o) ? options_job(o) : "local", *step = getenv("SLURM_STEP_ID");

    memset(t, 0, sizeof *t);
    t->asked = o;
    t->o = *o;
    t->p = p;
    t->right = -1;
    if (p->how == PLACE_SLURM) {
        settings_put_text(&t->o.set, OPT_STEP, step);
        t->first = p->node_id == 0;
        snprintf(t->name, sizeof t->name, "%u.%.16s.%.16s.run", geteuid(), job, step);
        snprintf(t->meeting, sizeof t->meeting, "%.16s.%.16s", job, step);
    } else {
        t->first = p->local_size == p->size || p->rank == 0;
        snprintf(t->name, sizeof t->name, "%u.%.16s.m%016" PRIx64, geteuid(), job,
                 text_hash(p->group));
        snprintf(t->meeting, sizeof t->meeting, "%.16s.m%016" PRIx64, job, text_hash(p->group));
    }
    if (is_said(&o->set, OPT_NAME))
        snprintf(t->name, sizeof t->name, "%s", text_of(&o->set, OPT_NAME));
    settings_put_text(&t->o.set, OPT_NAME, t->name);
    t->o.tasks = (uint32_t)p->size;
    unsetenv("DDICT_SOCKET"); /* of another dictionary */
    if (!options_job(o)) {
        unsetenv("DDICT_NODE");
        attach_node_name(t->node, sizeof t->node);
        setenv("DDICT_NODE", t->node, 1);
    } else {
        unsetenv("DDICT_NODE");
    }
}

/* --- start the managers --- */
static void on_news(void *arg, enum line_kind kind, const char *text) {
    if (kind == LINE_WARN || kind == LINE_UNSAVED)
        verb_say("%s", text);
}

static void signals_read(struct starter *s, int fd) {
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGCHLD)
            starter_reap(s);
        else if (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2)
            starter_stop(s, "ended by a signal before the managers were ready");
}

/* Until they are ready, and then left alone. 0 or a negative code with the sentence set. */
static int managers_follow(struct starter *s, int signals) {
    while (!starter_over(s)) {
        struct pollfd fds[1 + STARTER_FDS] = {{.fd = signals, .events = POLLIN}};
        int timeout = starter_poll(s, fds + 1);

        if (poll(fds, 1 + STARTER_FDS, timeout) < 0 && errno != EINTR)
            starter_stop(s, strerror(errno));
        starter_turn(s);
        signals_read(s, signals);
        if (s->ready)
            starter_leave(s);
    }
    return s->why[0] != '\0' ? dd_error(-ECANCELED, "%s", s->why) : 0;
}

static int managers_make(struct tasks *t) {
    struct starter s;
    struct plan plan;
    struct start_times times;
    sigset_t before;
    int signals, rc;

    sigprocmask(SIG_BLOCK, NULL, &before);
    signals = signals_open();
    rc = signals < 0 ? dd_error(signals, "signalfd: %s", strerror(-signals))
                     : plan_make(&plan, &t->o);
    if (rc == 0 && plan.note[0] != '\0')
        verb_say("%s", plan.note);
    if (rc == 0)
        rc = starter_spawn(&s, plan.argv, plan.envp, plan.srun[0] != '\0' ? plan.srun : NULL,
                           plan.nodes, (int)number_of(&t->o.set, OPT_DRAIN_MS),
                           (int)number_of(&t->o.set, OPT_START_TIMEOUT));
    if (rc == 0) {
        s.news = on_news;
        start_times(&t->o.set, &times);
        s.ready_ms = times.ready_ms + times.elect_ms;
        plan_warn(&plan);
        rc = managers_follow(&s, signals);
        starter_free(&s);
    }
    if (signals >= 0)
        plan_free(&plan);
    if (signals >= 0)
        close(signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* In a process of its own: what it leaves, the managers' srun, is then no child of the command. */
static int managers_start(struct tasks *t) {
    pid_t pid = fork(), rc;
    int status = 1;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        rc = managers_make(t);
        if (rc < 0)
            verb_say("%s", rc == -ENOMEM ? "out of memory" : dd_errmsg());
        _exit(rc < 0);
    }
    if (pid < 0)
        verb_say("cannot start a process: %s", strerror(errno));
    while (pid > 0 && (rc = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        continue;
    return status == 0 ? 0 : -ECANCELED;
}

/* The other tasks of the step would wait in vain. mpirun ends them by itself. */
static void others_end(const struct tasks *t) {
    char path[4096], id[64], srun[4096], *text, **envp;
    char *argv[] = {path, (char *)(uintptr_t) "--signal=TERM", id, NULL};

    if (t->p->how != PLACE_SLURM ||
        command_find(is_said(&t->o.set, OPT_SRUN) ? text_of(&t->o.set, OPT_SRUN) : "srun", srun,
                     sizeof srun) < 0 ||
        command_beside(srun, "scancel", path, sizeof path) < 0)
        return;
    snprintf(id, sizeof id, "%s.%s", options_job(&t->o), text_of(&t->o.set, OPT_STEP));
    envp = command_environment(environ, 0);
    signal(SIGTERM, SIG_IGN);
    if (envp && command_read(argv, envp, WORD_MS, &text) == 0)
        free(text);
    free(envp);
}

/* 1: this task is to start them; 0: another one does, or is about to. */
static int right_take(struct tasks *t) {
    char name[DICT_NAME_MAX + 8];

    if (!t->first || t->right >= 0)
        return t->first;
    snprintf(name, sizeof name, "%.*s.start", DICT_NAME_MAX - 8, t->name);
    if (t->taken_at != 0 && clock_ms() - t->taken_at < FOLLOW_MS) {
        int fd = attach_connect(name, 0);

        if (fd >= 0)
            close(fd);
        if (fd != DDICT_ENODICT)
            t->taken_at = clock_ms();
        return 0;
    }
    t->right = attach_listen(name);
    if (t->right < 0)
        t->taken_at = clock_ms();
    return t->right >= 0;
}

/* --- come --- */
/* The longest start of the managers. */
static int64_t start_ms(const struct tasks *t) {
    struct start_times times;

    start_times(&t->o.set, &times);
    return (int64_t)times.create_ms + times.ready_ms + times.elect_ms;
}

/* The dictionary that is there ends; then there is room for ours. It may last as long as others of
 * us run their commands. */
static void end_await(struct tasks *t, int fd) {
    struct pollfd p = {.fd = fd, .events = 0};

    while (poll(&p, 1, DD_STEP_SAY_MS) <= 0)
        if (t->p->rank == 0 && !t->said++)
            verb_say("waits for the end of an earlier `ddict run` of this step in its other tasks");
    deadline_start(&t->limit, start_ms(t));
    t->taken_at = 0;
}

/* 0: this process is one of the dictionary's; 1: look again; negative with the sentence set. */
static int task_join(struct tasks *t) {
    int fd = attach_connect(t->name, 1000), rc;
    struct attach_msg m;

    if (fd < 0)
        return fd == DDICT_ECRED || fd == -EINVAL ? fd : 1;
    attach_msg_init(&m, ATTACH_TASK);
    m.manager = (uint32_t)t->p->rank;
    rc = attach_send(fd, &m, NULL, 0);
    if (rc == 0)
        rc = attach_recv_by(fd, &m, NULL, 0, &t->limit);
    if (rc < 0) { /* it has just gone, or does not get ready */
        close(fd);
        return rc == -ETIMEDOUT ? dd_error(rc, "the dictionary %s did not get ready", t->name) : 1;
    }
    rc = attach_version_check(&m);
    if (rc == 0 && m.type != ATTACH_TASK)
        rc = dd_error(DDICT_EPROTO, "ddictd answered what was not asked");
    if (rc == 0 && m.status == 0) {
        if (m.manager != 0)
            close(fd);
        else /* only this descriptor tells it that the command lives */
            fcntl(fd, F_SETFD, 0);
        return 0;
    }
    if (rc == 0 && (m.status == -EALREADY || m.status == DDICT_EGONE)) {
        end_await(t, fd);
        rc = 1;
    } else if (rc == 0) {
        /* the task that started the managers is told too: it tells the user and ends us */
        if (m.status == DDICT_ELOST)
            poll(NULL, 0, FOLLOW_MS);
        rc = dd_error(m.status, "%s", m.text);
    }
    close(fd);
    return rc;
}

/* One of the waiting tasks says so: the last one, which runs wherever the first one hangs. */
static void waiting_say(struct tasks *t, uint64_t since) {
    if (t->said || t->p->rank != t->p->size - 1 || clock_ms() - since < DD_TASKS_SAY_MS)
        return;
    t->said = 1;
    verb_say("task %d still waits for the managers, which task 0 starts: every task has to call "
             "`ddict run` (or --local: each has its own)",
             t->p->rank);
}

static int task_come(struct tasks *t) {
    uint64_t since = clock_ms();
    int pause = LOOK_FIRST_MS, rc;

    deadline_start(&t->limit, start_ms(t));
    for (;;) {
        rc = task_join(t);
        if (rc <= 0)
            break;
        if (right_take(t)) {
            rc = managers_start(t);
            if (rc == 0)
                continue;
            others_end(t);
            poll(NULL, 0, LINGER_MS);
            return rc;
        }
        if (deadline_over(&t->limit)) {
            rc = dd_error(
                -ETIMEDOUT,
                "no dictionary %s came on node %s within %d s; task 0 starts it: what does it say?",
                t->name, t->p->node, (int)(start_ms(t) / 1000));
            break;
        }
        waiting_say(t, since);
        poll(NULL, 0, pause);
        pause = pause + pause / 4 < LOOK_LAST_MS ? pause + pause / 4 : LOOK_LAST_MS;
    }
    if (rc < 0)
        verb_say("%s", dd_errmsg());
    return rc;
}

/* --- the command --- */
static void text_set(char mark[TORCH_MARK_MAX], const char *name, const char *text) {
    if (getenv(name))
        return;
    setenv(name, text, 1);
    torch_mark_add(mark, name, text);
}

static void number_set(char mark[TORCH_MARK_MAX], const char *name, int n) {
    char text[16];

    snprintf(text, sizeof text, "%d", n);
    text_set(mark, name, text);
}

static int torch_is_wanted(const struct options *o) {
    const char *text = getenv(option_rows[OPT_TORCH_ENV].variable);

    return strcmp(text && *text != '\0' ? text : text_of(&o->set, OPT_TORCH_ENV), "no") != 0;
}

/* What torch looks for; nothing of the user's is changed. Both of MASTER_* are of rank 0, so where
 * he set one the other fits to it. */
static void torch_environment_set(const struct tasks *t) {
    const struct place *p = t->p;
    char mark[TORCH_MARK_MAX] = "";
    struct meeting_place at;

    torch_env_forget();
    if (!torch_is_wanted(t->asked))
        return;
    number_set(mark, "RANK", p->rank);
    number_set(mark, "LOCAL_RANK", p->local_rank);
    number_set(mark, "WORLD_SIZE", p->size);
    number_set(mark, "LOCAL_WORLD_SIZE", p->local_size);
    if (p->node_id >= 0)
        number_set(mark, "GROUP_RANK", p->node_id);
    if (!getenv("MASTER_ADDR") || !getenv("MASTER_PORT")) {
        if (meet_ask_place(&at, t->name, t->meeting, (uint32_t)p->rank) == 0) {
            text_set(mark, "MASTER_ADDR", at.address);
            text_set(mark, "MASTER_PORT", at.port);
        } else if (p->rank == 0) {
            verb_say("MASTER_ADDR and MASTER_PORT are not set: %s", dd_errmsg());
        }
    }
    if (mark[0] != '\0')
        setenv(TORCH_MARK, mark, 1);
}

/* Each task calls for it: one loads, by readers on all nodes, and the others wait for that. */
static int load_all(const struct tasks *t) {
    char said[DD_ERRMSG_MAX];
    const struct settings *set = &t->asked->set;
    const char *save = text_of(set, OPT_SAVE);
    struct loading_ask ask = {.restore = text_of(set, OPT_RESTORE),
                              .load = text_of(set, OPT_LOAD),
                              .folder = text_of(set, OPT_CHDIR),
                              .shared = 1,
                              .saves = save && strcmp(save, "none") != 0,
                              .read_only = is_read_only(set),
                              .name = t->name,
                              .node = t->node};
    int rc = loading_do(&ask, said, sizeof said);

    if (rc < 0)
        verb_say("%s; the command is not started", dd_errmsg());
    else if (t->p->rank == 0 && said[0] != '\0')
        verb_say("%s", said);
    return rc == 0;
}

/* Returns only when there is no command to run. joined: is told when the dictionary is ours; -1:
 * nobody is. */
static int command_run(struct tasks *t, int joined) {
    if (task_come(t) < 0)
        return 1;
    if (joined >= 0 && write(joined, "j", 1) != 1)
        return 1;
    setenv("DDICT_NAME", t->name, 1);
    once_forget(); /* an srun in it would start another dictionary */
    if ((is_said(&t->asked->set, OPT_LOAD) || is_said(&t->asked->set, OPT_RESTORE) ||
         is_read_only(&t->asked->set)) &&
        !load_all(t))
        return 1;
    torch_environment_set(t);
    if (t->right >= 0)
        close(t->right);
    command_exec(t->asked->cmd);
}

int tasks_run(const struct options *o, const struct place *p) {
    struct tasks t;
    pid_t pid;
    int ends[2];

    tasks_init(&t, o, p);
    /* One task stays until the dictionary has ended, so that the record is there when the step has
     * ended, and the user is told. */
    if (p->how == PLACE_SLURM ? p->node_id != 0 || p->local_rank != 0 : p->rank != 0)
        return command_run(&t, -1);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* the managers' srun is to be ours */
    if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        verb_say("cannot start a process: %s", strerror(errno));
        return 1;
    }
    if (pid == 0) {
        close(ends[0]);
        _exit(command_run(&t, ends[1]));
    }
    close(ends[1]);
    return tasks_end_await(pid, ends[0], t.name, is_said(&o->set, OPT_VERBOSE));
}
