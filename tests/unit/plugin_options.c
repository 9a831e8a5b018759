/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_options.c - ddict.so with a SPANK of ours in place of Slurm's. Invariants: in slurmstepd
 * options are registered and nothing of their values is looked at; wrong options end srun with one
 * line; nothing fails in slurmstepd, whatever the user asked for.
 */
#include "launch_test.h"
#include "plugin/dictionary.h"
#include "plugin/options.h"

#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* --- the SPANK that the plugin sees --- */

static spank_context_t context;
static struct spank_option *registered[OPTS];
static int registered_n;
static const char *step_option; /* what spank_option_getopt finds, NULL: nothing */
static uint32_t job_id = 12, step_id = 3;
static char task_name[128], refused[64];

spank_context_t spank_context(void) {
    return context;
}
spank_err_t spank_option_register(spank_t sp, struct spank_option *o) {
    registered[registered_n++] = o;
    return ESPANK_SUCCESS;
}
spank_err_t spank_option_getopt(spank_t sp, struct spank_option *o, char **value) {
    if (strcmp(o->name, "ddict-torch-env") == 0) { /* only the name is looked at here */
        *value = (char *)"no";
        return ESPANK_SUCCESS;
    }
    if (!step_option || strcmp(o->name, "ddict-mem") != 0)
        return ESPANK_ERROR;
    *value = (char *)(uintptr_t)step_option;
    return ESPANK_SUCCESS;
}
spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...) {
    va_list ap;

    if (item != S_JOB_ID && item != S_JOB_STEPID && item != S_TASK_ID)
        return ESPANK_BAD_ARG;
    va_start(ap, item);
    *va_arg(ap, uint32_t *) = item == S_JOB_ID ? job_id : item == S_JOB_STEPID ? step_id : 0;
    va_end(ap);
    return ESPANK_SUCCESS;
}
spank_err_t spank_getenv(spank_t sp, const char *name, char *buf, int len) {
    if (strcmp(name, "SLURMD_NODENAME") == 0)
        snprintf(buf, (size_t)len, "n1");
    else if (strcmp(name, "SLURM_DDICT_REFUSED") == 0 && refused[0] != '\0')
        snprintf(buf, (size_t)len, "%s", refused);
    else
        return ESPANK_ENV_NOEXIST;
    return ESPANK_SUCCESS;
}
spank_err_t spank_setenv(spank_t sp, const char *name, const char *value, int overwrite) {
    snprintf(task_name, sizeof task_name, "%s=%s/%d", name, value, overwrite);
    return ESPANK_SUCCESS;
}
spank_err_t spank_job_control_getenv(spank_t sp, const char *name, char *buf, int len) {
    return ESPANK_ENV_NOEXIST;
}
spank_err_t spank_job_control_setenv(spank_t sp, const char *name, const char *value,
                                     int overwrite) {
    return ESPANK_SUCCESS;
}
spank_err_t spank_unsetenv(spank_t sp, const char *name) {
    return ESPANK_SUCCESS;
}
void slurm_spank_log(const char *fmt, ...) {
    ck_abort();
}
void slurm_info(const char *fmt, ...) {
    ck_abort();
}
void slurm_error(const char *fmt, ...) {
    va_list ap;

    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

/* --- helpers --- */

static struct spank_option *option(const char *name) {
    int i;

    for (i = 0; i < registered_n; i++)
        if (strcmp(registered[i]->name, name) == 0)
            return registered[i];
    ck_abort_msg("%s is not registered", name);
    return NULL;
}

static void give(const char *name, const char *value) {
    ck_assert_int_eq(option(name)->cb(option(name)->val, value, 0), 0);
}

/* Run body in a child that is to end by exit(code) with `part` on stderr; "" for silence. */
static void ends_with(void (*body)(void), int code, const char *part) {
    char text[2048];
    int p[2], status;
    ssize_t n, all = 0;
    pid_t pid;

    ck_assert_int_eq(pipe(p), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(p[1], 2);
        body();
        _exit(0);
    }
    close(p[1]);
    while ((n = read(p[0], text + all, sizeof text - 1 - (size_t)all)) > 0)
        all += n;
    text[all] = '\0';
    close(p[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %x: %s", status, text);
    ck_assert_msg(*part == '\0' ? all == 0 : strstr(text, part) != NULL, "'%s' is not in '%s'",
                  part, text);
    ck_assert_msg(all == 0 || strchr(text, '\n') == text + all - 1, "more than one line: %s", text);
}

static const char *managers, *mem, *words[4];
static int words_n, times;

static void srun_like(void) {
    int i;

    slurm_spank_init(NULL, 0, NULL);
    if (managers)
        give("ddict-managers", managers);
    if (mem)
        give("ddict-mem", mem);
    for (i = 0; i < times; i++)
        slurm_spank_init_post_opt(NULL, words_n, (char **)(uintptr_t)words);
}

static void srun_ends(const char *m, const char *s, const char *word, int n, int code,
                      const char *part) {
    managers = m;
    mem = s;
    words[0] = word;
    words_n = word != NULL;
    times = n;
    ends_with(srun_like, code, part);
}

/* --- tests --- */

START_TEST(wrong_options_end_srun_with_one_line) {
    context = S_CTX_LOCAL;
    srun_ends("0", NULL, NULL, 1, 1, "--ddict-managers=0:");
    srun_ends("99999999", NULL, NULL, 1, 1, "--ddict-managers=99999999:");
    srun_ends(NULL, "16Q", NULL, 1, 1, "--ddict-mem=16Q:");
    srun_ends(NULL, "-1", NULL, 1, 1, "--ddict-mem=-1:");
    srun_ends(NULL, "0", NULL, 1, 1, "--ddict-mem=0:");
    srun_ends("100", "64M", NULL, 1, 1, "--ddict-mem=400M");
    srun_ends("100", "400M", NULL, 1, 0, "");
    srun_ends("4", "1G", NULL, 2, 0, ""); /* one call for each component */
    srun_ends(NULL, NULL, NULL, 2, 0, "");
}
END_TEST

/* --- of a heterogeneous job: what each component is asked for --- */
static const char *mem_of[2], *mem_variable;

static void components_like(void) {
    const char *again;
    int i;

    if (mem_variable)
        setenv("DDICT_MEM", mem_variable, 1);
    slurm_spank_init(NULL, 0, NULL);
    for (i = 0; i < 2; i++) {
        /* by which Slurm hands options on, and reads them for each component */
        again = getenv("SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem");
        if (again)
            give("ddict-mem", again);
        if (mem_of[i])
            give("ddict-mem", mem_of[i]);
        slurm_spank_init_post_opt(NULL, 0, NULL);
    }
    if (mem_of[0] && strcmp(options_of(SCOPE_STEP)->value[OPT_MEM], mem_of[0]) != 0)
        _exit(9);
}

static void components_end(const char *first, const char *second, const char *variable, int code,
                           const char *part) {
    mem_of[0] = first;
    mem_of[1] = second;
    mem_variable = variable;
    ends_with(components_like, code, part);
}

START_TEST(components_of_a_heterogeneous_job_ask_for_one_dictionary) {
    context = S_CTX_LOCAL;
    components_end("1G", NULL, NULL, 0, "");
    components_end("1G", "1G", NULL, 0, "");
    components_end("1G", "2G", NULL, 1, "--ddict-mem=2G: all components");
    components_end(NULL, "2G", NULL, 1, "before the first \":\"");
    components_end(NULL, NULL, "2G", 0, "");
    components_end("1G", NULL, "2G", 0, ""); /* the variable comes again with the second */
    components_end("1G", "1G", "2G", 0, "");
    components_end("1G", "2G", "2G", 1, "--ddict-mem=2G: all components"); /* this was typed */
    context = S_CTX_ALLOCATOR;
    components_end("1G", "2G", NULL, 1, "--ddict-mem=2G: all components");
}
END_TEST

START_TEST(the_job_of_a_component_is_its_leader) {
    ck_assert_uint_eq(job_of_component(8, "2", "7"), 7);
    ck_assert_uint_eq(job_of_component(8, NULL, "7"), 8);
    ck_assert_uint_eq(job_of_component(8, "", "7"), 8);
    ck_assert_uint_eq(job_of_component(8, "2", NULL), 8);
    ck_assert_uint_eq(job_of_component(8, "2", ""), 8);
    ck_assert_uint_eq(job_of_component(8, "2", "7+0"), 8);
    ck_assert_uint_eq(job_of_component(8, "2", "99999999999"), 8);
}
END_TEST

/* This program once more, as an srun with these words; getopt has come to the first one of the
 * program that srun starts. */
static char **typed;
static void srun_exec(void) {
    execv("/proc/self/exe", typed);
    _exit(99);
}

static int srun_main(void) {
    const char *asks = getenv("PLUGIN_ASKS");
    struct spank_option *o;

    optind = atoi(getenv("PLUGIN_OPTIND"));
    context = S_CTX_LOCAL;
    slurm_spank_init(NULL, 0, NULL);
    o = option("ddict-mem");
    if (asks && o->cb(o->val, asks, 0) != 0)
        return 2;
    slurm_spank_init_post_opt(NULL, 0, NULL);
    return 0;
}

START_TEST(srun_that_does_not_wait_gets_no_dictionary_of_its_step) {
    static char *lines[][6] = {
        {(char *)"srun", (char *)"-N1", (char *)"--async", (char *)"sh", NULL},
        {(char *)"srun", (char *)"-N1", (char *)"--asy", (char *)"sh", NULL},
        {(char *)"srun", (char *)"-N1", (char *)"-Jx", (char *)"sh", (char *)"--async", NULL},
        {(char *)"srun", (char *)"-N1", (char *)"--a", (char *)"sh", NULL},
        {(char *)"--async", (char *)"-N1", (char *)"-Jx", (char *)"sh", NULL}};
    size_t i;

    setenv("PLUGIN_OPTIND", "3", 1);
    setenv("PLUGIN_ASKS", "1G", 1);
    for (i = 0; i < sizeof lines / sizeof *lines; i++) {
        typed = lines[i];
        ends_with(srun_exec, i < 2, i < 2 ? "srun --async does not wait for its step" : "");
    }
    unsetenv("PLUGIN_ASKS");
    typed = lines[0];
    ends_with(srun_exec, 0, "");
}
END_TEST

START_TEST(words_of_the_site_are_defaults_and_limits) {
    context = S_CTX_LOCAL;
    srun_ends("4", NULL, "mem=rubbish", 1, 1, "plugstack.conf: mem=rubbish");
    srun_ends(NULL, NULL, "mem=rubbish", 1, 0, ""); /* who asks for nothing is not hurt */
    srun_ends("4", "2G", "max_mem=1G", 1, 1,
              "--ddict-mem of 2.0 GiB: at most 1.0 GiB on this cluster");
    srun_ends("4", "1G", "max_mem=1G", 1, 0, "");
    /* the default is 1G, or less where that is too much */
    srun_ends("4", NULL, "max_mem=512M", 1, 0, "");
    srun_ends("200", NULL, "max_mem=512M", 1, 1, "--ddict-mem=800M");
    srun_ends("4", "1G", "start_timeout=never", 1, 1, "plugstack.conf: start_timeout=never");
    srun_ends("4", "1G", "start_timeout=30", 1, 0, "");
    srun_ends("4", "1G", "max_managers=3", 1, 1, "--ddict-managers=4: at most 3");
    srun_ends("4", "1G", "nonsense", 1, 1, "plugstack.conf: unknown word 'nonsense'");
    srun_ends(NULL, NULL, "nonsense", 1, 0, "");
}
END_TEST

static void hidden(void) {
    char parent[16];

    snprintf(parent, sizeof parent, "%d", (int)getppid());
    setenv("DDICT_INTERNAL", parent, 1);
    setenv("DDICT_MEM", "rubbish", 1);
    slurm_spank_init(NULL, 0, NULL);
    give("ddict-mem", "rubbish");
    slurm_spank_init_post_opt(NULL, 0, NULL);
    slurm_spank_local_user_init(NULL, 0, NULL);
    slurm_spank_exit(NULL, 0, NULL);
}

START_TEST(the_hidden_srun_finds_us_inert) {
    context = S_CTX_LOCAL;
    ends_with(hidden, 0, "");
}
END_TEST

START_TEST(variables_become_options_and_leave_the_environment) {
    context = S_CTX_LOCAL;
    setenv("DDICT_INTERNAL", "1", 1); /* the user's own: no child of `ddict up` */
    setenv("DDICT_MEM", "1G", 1);
    setenv("DDICT_MANAGERS", "", 1); /* empty is not given */
    slurm_spank_init(NULL, 0, NULL);
    ck_assert_str_eq(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem"), "1G");
    ck_assert_ptr_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_managers"));
    give("ddict-mem", "1G"); /* as srun does next */
    slurm_spank_init_post_opt(NULL, 0, NULL);
    ck_assert_int_eq(options_scope(), SCOPE_STEP);
    options_launch();
    ck_assert_ptr_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem"));
    ck_assert_ptr_null(getenv("DDICT_MEM"));
}
END_TEST

START_TEST(nothing_fails_or_is_read_in_slurmstepd) {
    static char *const words_bad[] = {(char *)"mem=rubbish", (char *)"nonsense"};

    context = S_CTX_REMOTE;
    setenv("DDICT_MEM", "rubbish", 1);
    ck_assert_int_eq(slurm_spank_init(NULL, 2, (char **)(uintptr_t)words_bad), 0);
    ck_assert_ptr_null(getenv("SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem"));
    /* the value is not even read */
    ck_assert_int_eq(option("ddict-mem")->cb(option("ddict-mem")->val, (const char *)16, 1), 0);
    ck_assert_int_eq(
        option("ddict-managers")->cb(option("ddict-managers")->val, (const char *)16, 1), 0);
    ck_assert_int_eq(slurm_spank_init_post_opt(NULL, 2, (char **)(uintptr_t)words_bad), 0);
    ck_assert_int_eq(slurm_spank_exit(NULL, 0, NULL), 0);
    ck_assert_int_eq(options_scope(), SCOPE_NONE);
    context = S_CTX_SLURMD;
    ck_assert_int_eq(slurm_spank_init(NULL, 0, NULL), 0);
    context = S_CTX_JOB_SCRIPT;
    ck_assert_int_eq(slurm_spank_init(NULL, 0, NULL), 0);
}
END_TEST

static void task(void) {
    slurm_spank_task_init(NULL, 0, NULL);
}

static int dictionary_listen(const char *node) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "ddict/%u.%u.%u/%s", geteuid(), job_id,
                     step_id, node);

    ck_assert_int_eq(
        bind(fd, (struct sockaddr *)&a, (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)n)), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    return fd;
}

START_TEST(a_task_gets_the_name_only_when_its_step_asked) {
    char want[128];
    int fd;

    context = S_CTX_REMOTE;
    job_id = 1000000u + (uint32_t)getpid();
    fd = dictionary_listen("n1");
    task_name[0] = '\0';
    task();
    ck_assert_str_eq(task_name, "");
    step_option = "1G";
    task();
    snprintf(want, sizeof want, "DDICT_NAME=%u.%u.%u/1", geteuid(), job_id, step_id);
    ck_assert_str_eq(task_name, want);
    task_name[0] = '\0';
    step_id = 0xfffffffb; /* the batch script */
    task();
    ck_assert_str_eq(task_name, "");
    close(fd);
}
END_TEST

START_TEST(a_task_without_its_dictionary_does_not_begin) {
    context = S_CTX_REMOTE;
    job_id = 1000000u + (uint32_t)getpid();
    step_option = "1G";
    ends_with(task, 1, "node n1 has no dictionary");
    snprintf(refused, sizeof refused, "1"); /* the user's own variable means nothing */
    ends_with(task, 1, "node n1 has no dictionary");
    /* srun has said why */
    snprintf(refused, sizeof refused, "%u.%u.%u", geteuid(), job_id, step_id);
    ends_with(task, 1, "");
}
END_TEST

int main(void) {
    if (getenv("PLUGIN_OPTIND"))
        return srun_main();
    return TESTS_RUN("plugin_options", 60, wrong_options_end_srun_with_one_line,
                     components_of_a_heterogeneous_job_ask_for_one_dictionary,
                     the_job_of_a_component_is_its_leader,
                     srun_that_does_not_wait_gets_no_dictionary_of_its_step,
                     words_of_the_site_are_defaults_and_limits, the_hidden_srun_finds_us_inert,
                     variables_become_options_and_leave_the_environment,
                     nothing_fails_or_is_read_in_slurmstepd,
                     a_task_gets_the_name_only_when_its_step_asked,
                     a_task_without_its_dictionary_does_not_begin);
}
