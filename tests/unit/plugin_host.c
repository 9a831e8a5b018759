/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_host.c - the SPANK functions and the processes of plugin_host.h. */
#include "plugin_host.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The processes played here end anywhere, as Slurm's do; what they hold then is no leak. */
const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__asan_default_options(void) {
    return "detect_leaks=0";
}

#define OPTIONS_MAX 24 /* more than the plugin has: none of them is ever without its room */
#define STEM        "_SLURM_SPANK_OPTION_ddict_"
#define BATCH       0xfffffffbu
#define SHELL       0xfffffffau

spank_f slurm_spank_user_init __attribute__((weak)), slurm_spank_task_exit __attribute__((weak)),
    slurm_spank_task_init_privileged __attribute__((weak)),
    slurm_spank_task_post_fork __attribute__((weak));

extern char **environ;

/* Of all processes of a play. */
static struct shared {
    struct outcome out;
    char typed[OPTIONS_MAX][512]; /* "ddict-mem=1G": what srun sends along with the step */
    int typed_n;
} * all;

/* Of this process. */
static const struct play *play;
static spank_context_t context;
static struct spank_option *options[OPTIONS_MAX];
static int options_n, task, late; /* late: slurmstepd is beyond init_post_opt */
static char *job_env[512];        /* slurmstepd: of the job */

static int fails(enum host_call call) {
    return ++all->out.calls[call] == play->fault_at && play->fault == call;
}

/* --- what the plugin calls --- */

static void text_add(char *text, size_t cap, const char *head, const char *fmt, va_list ap) {
    size_t n = strlen(text);

    n += (size_t)snprintf(text + n, cap - n, "%s", head);
    if (n < cap)
        n += (size_t)vsnprintf(text + n, cap - n, fmt, ap);
    if (n + 1 < cap)
        strcpy(text + n, "\n");
}
#define SAY(head, fmt)                                \
    do {                                              \
        char line[2048] = "";                         \
        va_list args;                                 \
                                                      \
        va_start(args, fmt);                          \
        text_add(line, sizeof line, head, fmt, args); \
        va_end(args);                                 \
        if (write(2, line, strlen(line)) < 0)         \
            abort();                                  \
    } while (0)

void slurm_error(const char *fmt, ...) {
    SAY(context == S_CTX_REMOTE ? "slurmstepd: error: " : "srun: error: ", fmt);
}
void slurm_spank_log(const char *fmt, ...) {
    SAY("", fmt);
}
void slurm_info(const char *fmt, ...) {
    va_list ap;

    if (context != S_CTX_REMOTE) {
        SAY("srun: ", fmt);
        return;
    }
    va_start(ap, fmt);
    text_add(all->out.log, sizeof all->out.log, "", fmt, ap);
    va_end(ap);
}

spank_context_t spank_context(void) {
    return context;
}

spank_err_t spank_option_register(spank_t sp, struct spank_option *o) {
    if (fails(HOST_REGISTER) || options_n == OPTIONS_MAX)
        return ESPANK_ERROR;
    options[options_n++] = o;
    return ESPANK_SUCCESS;
}

spank_err_t spank_option_getopt(spank_t sp, struct spank_option *o, char **value) {
    int i;

    if (fails(HOST_GETOPT))
        return ESPANK_ERROR;
    if (context == S_CTX_REMOTE && !late)
        return ESPANK_NOT_AVAIL;
    for (i = all->typed_n - 1; i >= 0; i--) {
        char *equals = strchr(all->typed[i], '=');

        if (strlen(o->name) == (size_t)(equals - all->typed[i]) &&
            strncmp(all->typed[i], o->name, strlen(o->name)) == 0) {
            *value = equals + 1;
            return ESPANK_SUCCESS;
        }
    }
    return ESPANK_ERROR;
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...) {
    spank_err_t rc = ESPANK_SUCCESS;
    va_list ap;

    if (fails(HOST_ITEM))
        return ESPANK_ERROR;
    va_start(ap, item);
    switch (item) {
    case S_JOB_ID:
        *va_arg(ap, uint32_t *) = play->job;
        break;
    case S_JOB_STEPID:
        *va_arg(ap, uint32_t *) = strcmp(play->command, "batch") == 0   ? BATCH
                                  : strcmp(play->command, "shell") == 0 ? SHELL
                                                                        : play->step;
        break;
    case S_JOB_UID:
        *va_arg(ap, uid_t *) = geteuid();
        break;
    case S_JOB_NODEID:
        *va_arg(ap, uint32_t *) = 0;
        break;
    case S_TASK_ID:
        *va_arg(ap, int *) = (int)play->local;
        break;
    case S_TASK_GLOBAL_ID:
        *va_arg(ap, uint32_t *) = play->rank;
        break;
    case S_JOB_TOTAL_TASK_COUNT:
    case S_JOB_LOCAL_TASK_COUNT:
        *va_arg(ap, uint32_t *) = play->tasks > 0 ? play->tasks : 1;
        break;
    case S_TASK_EXIT_STATUS:
        *va_arg(ap, int *) = all->out.task_code << 8;
        break;
    case S_JOB_ARGV: {
        static char *argv[] = {(char *)"ddictd",     (char *)"--name", (char *)"a\033b",
                               (char *)"--managers", (char *)"4",      NULL};

        *va_arg(ap, int *) = 5;
        *va_arg(ap, char ***) = argv;
        break;
    }
    case S_JOB_ENV:
        if (context == S_CTX_REMOTE)
            *va_arg(ap, char ***) = job_env;
        else
            rc = ESPANK_NOT_REMOTE;
        break;
    default:
        rc = ESPANK_BAD_ARG;
        break;
    }
    va_end(ap);
    return rc;
}

static char **place_of(const char *name) {
    size_t n = strlen(name);
    char **e;

    for (e = job_env; *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            break;
    return e;
}

static spank_err_t copy_out(const char *value, char *buf, int len) {
    if (!value)
        return ESPANK_ENV_NOEXIST;
    return snprintf(buf, (size_t)len, "%s", value) < len ? ESPANK_SUCCESS : ESPANK_NOSPACE;
}

spank_err_t spank_getenv(spank_t sp, const char *name, char *buf, int len) {
    char **e = place_of(name);

    if (fails(HOST_GETENV))
        return ESPANK_ERROR;
    return context != S_CTX_REMOTE ? ESPANK_NOT_REMOTE
                                   : copy_out(!*e ? NULL : *e + strlen(name) + 1, buf, len);
}

spank_err_t spank_setenv(spank_t sp, const char *name, const char *value, int overwrite) {
    char **e = place_of(name);

    if (fails(HOST_SETENV) || e == job_env + sizeof job_env / sizeof *job_env - 1)
        return ESPANK_ERROR;
    if (context != S_CTX_REMOTE)
        return ESPANK_NOT_REMOTE;
    if (*e && !overwrite)
        return ESPANK_ENV_EXISTS;
    return asprintf(e, "%s=%s", name, value) < 0 ? ESPANK_ERROR : ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t sp, const char *name) {
    char **e = place_of(name);

    if (fails(HOST_UNSETENV))
        return ESPANK_ERROR;
    for (; *e; e++)
        e[0] = e[1];
    return context != S_CTX_REMOTE ? ESPANK_NOT_REMOTE : ESPANK_SUCCESS;
}

/* Job control variables of salloc and sbatch are SLURM_SPANK_* in the job, which srun reads back.
 * */
static const char *control(const char *name) {
    static char variable[160];

    snprintf(variable, sizeof variable, "SLURM_SPANK_%s", name);
    return variable;
}

spank_err_t spank_job_control_getenv(spank_t sp, const char *name, char *buf, int len) {
    if (fails(HOST_CONTROL_GETENV))
        return ESPANK_ERROR;
    return context == S_CTX_REMOTE ? ESPANK_NOT_LOCAL : copy_out(getenv(control(name)), buf, len);
}

spank_err_t spank_job_control_setenv(spank_t sp, const char *name, const char *value,
                                     int overwrite) {
    if (fails(HOST_CONTROL_SETENV))
        return ESPANK_ERROR;
    if (context == S_CTX_REMOTE)
        return ESPANK_NOT_LOCAL;
    setenv(control(name), value, overwrite);
    return ESPANK_SUCCESS;
}

spank_err_t spank_job_control_unsetenv(spank_t sp, const char *name) {
    if (fails(HOST_CONTROL_UNSETENV))
        return ESPANK_ERROR;
    unsetenv(control(name));
    return ESPANK_SUCCESS;
}

/* --- the processes that call the plugin --- */

static int words_n(void) {
    int n = 0;

    while (n < 4 && play->words[n])
        n++;
    return n;
}

static int call(spank_f *fn) {
    return !fn ? 0 : fn(NULL, words_n(), (char **)(uintptr_t)play->words);
}

static int contained_run(void *fn) {
    spank_f *const *f = fn;

    call(*f);
    return 0;
}

/* A callback of slurmstepd that Slurm runs in the job's namespace, if it is told to: by a process
 * that shares the memory and has descriptors of its own. */
static void call_contained(spank_f *fn) {
    static char stack[1 << 20] __attribute__((aligned(16)));
    pid_t pid;

    if (!play->contained) {
        call(fn);
        return;
    }
    pid = clone(contained_run, stack + sizeof stack, CLONE_VM | SIGCHLD, &fn);
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        abort();
}

static const char *variable_of(const struct spank_option *o) {
    static char variable[128];
    char *c;

    snprintf(variable, sizeof variable, STEM "%s", o->name);
    for (c = variable; *c != '\0'; c++)
        if (*c == '-')
            *c = '_';
    return variable;
}

/* value NULL: typed without one, of which Slurm makes two things. */
static void option_call(struct spank_option *o, const char *value) {
    if (o->cb(o->val, value, 0) != 0)
        exit(1);
    snprintf(all->typed[all->typed_n++ % OPTIONS_MAX], sizeof all->typed[0], "%s=%s", o->name,
             value ? value : "");
    if (context == S_CTX_ALLOCATOR)
        setenv(control(variable_of(o)), value ? value : "(null)", 1);
    if (strcmp(play->command, "salloc") == 0)
        setenv(variable_of(o), value ? value : "", 1);
}

static void options_call(void) {
    int i, t;

    for (i = 0; i < options_n; i++) {
        const char *value = getenv(control(variable_of(options[i])));

        if (value)
            option_call(options[i], value);
    }
    for (t = 0; t < 6 && play->typed[t]; t++) {
        size_t length = strcspn(play->typed[t] + 2, "=");
        const char *equals = strchr(play->typed[t], '=');

        for (i = 0; i < options_n; i++)
            if (strlen(options[i]->name) == length &&
                strncmp(options[i]->name, play->typed[t] + 2, length) == 0)
                break;
        if (i == options_n) {
            dprintf(2, "srun: unrecognized option '%s'\n", play->typed[t]);
            exit(1);
        }
        if (!equals && options[i]->has_arg != 2) {
            dprintf(2, "srun: option '%s' requires an argument\n", play->typed[t]);
            exit(1);
        }
        option_call(options[i], equals ? equals + 1 : NULL);
    }
}

static void env_begin(const char *env) {
    char *copy = strdup(env ? env : ""), *line, *save;

    clearenv();
    setenv("PATH", "/usr/bin:/bin", 1);
    for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        putenv(line);
}

/* What --export leaves of it goes on. */
static void env_keep(char *const *env) {
    size_t n = 0;

    all->out.env[0] = '\0';
    for (; *env; env++)
        if (!play->export || strncmp(*env, "SLURM_", 6) == 0)
            n += (size_t)snprintf(all->out.env + n, sizeof all->out.env - n, "%s\n", *env);
}

static void client_begin(spank_context_t which) {
    int i;

    context = which;
    env_begin(play->env);
    if (call(slurm_spank_init) < 0)
        exit(1);
    options_call();
    for (i = 0; i < (play->components > 0 ? play->components : 1); i++)
        if (call(slurm_spank_init_post_opt) < 0)
            exit(1);
    all->out.begun = 1;
}

static void allocator_run(void) {
    client_begin(S_CTX_ALLOCATOR);
    env_keep(environ);
    call(slurm_spank_exit);
}

/* launched: one byte each way, when the step begins and when it has ended. */
static void srun_run(int launched, int ended) {
    char number[16], byte = 0;

    client_begin(S_CTX_LOCAL);
    snprintf(number, sizeof number, "%u", play->job);
    setenv("SLURM_JOB_ID", number, 1);
    if (call(slurm_spank_local_user_init) < 0)
        exit(1);
    env_keep(environ);
    if (write(launched, &byte, 1) != 1 || read(ended, &byte, 1) != 1)
        exit(99);
    call(slurm_spank_exit);
    exit(all->out.task_code);
}

static void task_run(void) {
    const char *note;

    task = 1;
    if (call(slurm_spank_task_init_privileged) < 0 || call(slurm_spank_task_init) < 0)
        _exit(1);
    all->out.ran++;
    note = *place_of("DDICT_NOTE_FD");
    if (play->noted && note &&
        write(atoi(strchr(note, '=') + 1), play->noted, strlen(play->noted)) < 0)
        _exit(1);
    play = &(const struct play){.command = ""};
    env_keep(job_env);
    _exit(0);
}

static void slurmstepd_run(void) {
    char *copy =
             strdup(strcmp(play->command, "batch") == 0 && play->env ? play->env : all->out.env),
         *line, *save;
    int status, twice, i, t, n = 0;
    pid_t pid;

    for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        job_env[n++] = line;
    job_env[n++] = (char *)(uintptr_t) "SLURMD_NODENAME=n1";
    env_begin("SLURMD=1\n");
    context = S_CTX_REMOTE;
    call(slurm_spank_init);
    for (t = 0; t < all->typed_n; t++)
        for (twice = 0; twice < 2; twice++)
            for (i = 0; i < options_n; i++)
                if (strncmp(options[i]->name, all->typed[t], strcspn(all->typed[t], "=")) == 0)
                    options[i]->cb(options[i]->val, strchr(all->typed[t], '=') + 1, 1);
    call(slurm_spank_init_post_opt);
    late = 1;
    call_contained(slurm_spank_user_init);
    pid = fork();
    if (pid == 0)
        task_run();
    call_contained(slurm_spank_task_post_fork);
    waitpid(pid, &status, 0);
    all->out.task_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    call_contained(slurm_spank_task_exit);
    call(slurm_spank_exit);
}

static int code_of(pid_t pid) {
    int status;

    if (waitpid(pid, &status, 0) != pid)
        abort();
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static pid_t process(void) {
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        abort();
    return pid;
}

/* srun waits while its slurmstepd, which knows nothing of srun's memory, runs. */
static void step_play(int terminal) {
    int launched[2], ended[2];
    pid_t srun, stepd;
    char byte = 0;

    if (pipe2(launched, O_CLOEXEC) < 0 || pipe2(ended, O_CLOEXEC) < 0)
        abort();
    srun = process();
    if (srun == 0) {
        dup2(terminal, 2);
        close(launched[0]);
        close(ended[1]);
        srun_run(launched[1], ended[0]);
    }
    close(launched[1]);
    close(ended[0]);
    if (read(launched[0], &byte, 1) == 1) {
        stepd = process();
        if (stepd == 0) {
            dup2(terminal, 2);
            close(launched[0]);
            close(ended[1]);
            slurmstepd_run();
            _exit(0);
        }
        if (code_of(stepd) != 0)
            all->out.task_code = 255; /* slurmstepd must never end early */
        if (write(ended[1], &byte, 1) != 1)
            abort();
    }
    all->out.code = code_of(srun);
    close(launched[0]);
    close(ended[1]);
}

static void other_play(int terminal) {
    pid_t pid = process();

    if (pid == 0) {
        dup2(terminal, 2);
        if (strcmp(play->command, "batch") == 0)
            slurmstepd_run();
        else
            allocator_run();
        exit(0);
    }
    all->out.code = code_of(pid);
    if (strcmp(play->command, "batch") == 0 && all->out.code == 0)
        all->out.code = all->out.task_code;
}

void host_play(const struct play *p, struct outcome *out) {
    int terminal = memfd_create("terminal", MFD_CLOEXEC);
    ssize_t n;

    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (terminal < 0 || all == MAP_FAILED || fcntl(terminal, F_SETFL, O_APPEND) < 0)
        abort();
    play = p;
    if (strcmp(p->command, "srun") == 0 || strcmp(p->command, "shell") == 0 ||
        strcmp(p->command, "ddictd") == 0)
        step_play(terminal);
    else
        other_play(terminal);
    n = pread(terminal, all->out.said, sizeof all->out.said - 1, 0);
    all->out.said[n > 0 ? n : 0] = '\0';
    close(terminal);
    *out = all->out;
    munmap(all, sizeof *all);
}

const char *host_value(const char *env, const char *name) {
    static char value[4096];
    size_t n = strlen(name);

    for (; *env != '\0'; env += strcspn(env, "\n"), env += *env == '\n')
        if (strncmp(env, name, n) == 0 && env[n] == '=') {
            snprintf(value, sizeof value, "%.*s", (int)strcspn(env + n + 1, "\n"), env + n + 1);
            return value;
        }
    return NULL;
}
