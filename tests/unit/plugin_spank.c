/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_spank.c - whole commands with the plugin, played by plugin_host.c, and `ddict` a small
 * script. Invariants, whatever fails:
 *
 *  1. slurmstepd never ends or hangs by us, and does nothing for who asks for nothing.
 *  2. A program that asked for a dictionary runs with the name of the right one, or it does not
 *     run, the command fails and one line says why.
 *  3. sbatch and salloc either pass the whole request on or submit nothing.
 */
#include "launch_test.h"
#include "plugin/batch_end.h"
#include "plugin/job_process.h"
#include "plugin_fake.h"
#include "plugin_host.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/process.h>

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define JOB (1000000u + (uint32_t)getpid())

static struct outcome o;

static const char *name(const char *last) {
    static char text[64];

    snprintf(text, sizeof text, "%u.%u.%s", geteuid(), JOB, last);
    return text;
}

static int lines(const char *text) {
    int n = 0;

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

static void has(const char *text, const char *part) {
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in '%s'", part, text);
}
static void has_not(const char *text, const char *part) {
    ck_assert_msg(!strstr(text, part), "'%s' is in '%s'", part, text);
}
static void program_has(const char *variable, const char *value) {
    const char *got = host_value(o.env, variable);

    ck_assert_msg(!value ? !got : got && strcmp(got, value) == 0, "%s is %s, wanted %s; said: %s",
                  variable, !got ? "not set" : got, !value ? "nothing" : value, o.said);
}

/* play_ends(code, .command = ..., ...) */
static void play_run(struct play p) {
    if (!p.words[0])
        p.words[0] = fake_word;
    if (p.job == 0)
        p.job = JOB;
    p.step = 3;
    host_play(&p, &o);
}
#define PLAY(...) play_run((struct play){__VA_ARGS__})
#define ENDS(want, ...)                                                                          \
    do {                                                                                         \
        PLAY(__VA_ARGS__);                                                                       \
        ck_assert_msg(o.code == (want), "code %d, wanted %d; said: %s", o.code, (want), o.said); \
    } while (0)

/* The environment of the shell in a job that salloc or sbatch asked a dictionary for. */
static const char *job_env(const char *more) {
    static char env[32768];

    snprintf(env, sizeof env,
             "SLURM_JOB_ID=%u\nSLURM_SPANK_DDICT_SCOPE=job\nSLURM_SPANK__SLURM_SPANK_OPTION_ddict_"
             "ddict_managers=2\n"
             "SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem=1G\n%s",
             JOB, more);
    return env;
}

START_TEST(srun_of_its_own_has_a_dictionary_that_ends_with_it) {
    int fd = dictionary_begin(JOB, "3");

    ENDS(0, .command = "srun",
         .typed = {"--ddict-managers=2", "--ddict-mem=1G", "--ddict-record=r.jsonl"});
    ck_assert_int_eq(o.ran, 1);
    program_has("DDICT_NAME", name("3"));
    program_has("SLURM_DDICT_STEP", NULL);
    has(o.said, "noise\n");
    has(o.said, "\nddict: 2 managers: 5 keys\n");
    has(asked(), " --step=3 ");
    ENDS(0, .command = "srun", .env = "DDICT_MEM=1G\n", .export = "NONE");
    program_has("DDICT_NAME", name("3"));
    has(asked(), " --mem=1G");
    ENDS(0, .command = "srun", .env = "FAKE=late\n", .typed = {"--ddict-mem=1G"});
    ENDS(0, .command = "srun", .env = "FAKE=warn\n", .typed = {"--ddict-mem=1G"});
    has(o.said, "ddict: no record: read only\n");
    has_not(o.said, "a prolog");
    ENDS(0, .command = "srun", .env = "FAKE=lost\n", .typed = {"--ddict-mem=1G"});
    has(o.said, "srun: error: ddict: node n2 is lost\n");
    dictionary_end(fd);
}
END_TEST

START_TEST(who_asks_for_nothing_gets_nothing) {
    static const char *const commands[] = {"srun", "sbatch", "salloc", "batch", "shell", "ddictd"};
    size_t i;

    for (i = 0; i < 6; i++) {
        ENDS(0, .command = commands[i],
             .env = "DDICT_RECORD=x\nDDICT_SCOPE=step\nDDICT_NAME=mine\n");
        ck_assert_str_eq(o.said, "");
        ck_assert_str_eq(o.log, "");
        ck_assert_str_eq(asked(), "");
        program_has("DDICT_NAME", "mine");
        program_has("SLURM_DDICT_JOB", NULL);
    }
}
END_TEST

START_TEST(srun_whose_managers_do_not_start_fails_with_one_line) {
    static const char *const how[][2] = {{"FAKE=error\n", "no room on n1"},
                                         {"FAKE=silent\n", "without a word"},
                                         {"FAKE=killed\n", "without a word"}};
    char env[128];
    size_t i;

    for (i = 0; i < 3; i++) {
        ENDS(1, .command = "srun", .env = how[i][0], .typed = {"--ddict-mem=1G"});
        ck_assert_int_eq(o.ran, 0);
        has(o.said, how[i][1]);
        ck_assert_int_eq(lines(o.said), 1);
        /* in a job the tasks end it */
        snprintf(env, sizeof env, "%sSLURM_JOB_ID=%u\n", how[i][0], JOB);
        ENDS(1, .command = "srun", .env = env, .typed = {"--ddict-mem=1G"});
        ck_assert_int_eq(o.ran, 0);
        ck_assert_int_eq(lines(o.said), 1);
    }
    ENDS(1, .command = "srun", .words = {"ddict=/nonexistent/ddict"}, .typed = {"--ddict-mem=1G"});
    has(o.said, "/nonexistent/ddict: No such file or directory (plugstack.conf: ddict=PATH)");
    /* ready, it says, but not on this node */
    ENDS(1, .command = "srun", .typed = {"--ddict-mem=1G"});
    ck_assert_int_eq(o.ran, 0);
    has(o.said, "node n1 has no dictionary");
}
END_TEST

START_TEST(sbatch_and_salloc_judge_and_pass_the_request_on) {
    static const char *const commands[] = {"sbatch", "salloc"};
    static const struct {
        const char *typed, *part;
    } wrong[] = {{"--ddict-mem=16Q", "--ddict-mem=16Q"},
                 {"--ddict-mem=0%", "--ddict-mem=0%"},
                 {"--ddict-mem=101%", "--ddict-mem=101%"},
                 {"--ddict-managers=0", "--ddict-managers=0"},
                 {"--ddict-scope=jobs", "--ddict-scope=jobs"},
                 {"--ddict-record=x", "also ask"},
                 {"--ddict-scope=job", "also ask"}};
    char env[128];
    size_t c, i;

    for (c = 0; c < 2; c++) {
        for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            ENDS(1, .command = commands[c], .typed = {wrong[i].typed});
            ck_assert_int_eq(o.begun, 0);
            has(o.said, wrong[i].part);
            ck_assert_int_eq(lines(o.said), 1);
        }
        ENDS(1, .command = commands[c], .env = "DDICT_MEM=x\n");
        has(o.said, "DDICT_MEM=x");
        ENDS(0, .command = commands[c], .typed = {"--ddict-mem=1G"}, .components = 2);
        program_has("SLURM_DDICT_JOB", "--mem=1G");
        ENDS(0, .command = commands[c],
             .typed = {"--ddict-managers=4", "--ddict-mem=40%", "--ddict-record=my record %j"},
             .export = "NONE");
        ck_assert_str_eq(o.said, "");
        program_has("SLURM_DDICT_JOB", "--managers=4 --mem=40%25 --record=my%20record%20%25j");
        program_has("SLURM_SPANK_DDICT_SCOPE", "job");
        ENDS(0, .command = commands[c], .typed = {"--ddict-mem=1G", "--ddict-scope=step"});
        program_has("SLURM_DDICT_JOB", NULL);
        program_has("SLURM_SPANK_DDICT_SCOPE", NULL);
        ENDS(0, .command = commands[c], .env = "DDICT_MEM=1G\nDDICT_SCOPE=job\n");
        program_has("SLURM_DDICT_JOB", "--mem=1G");
        program_has("DDICT_MEM", NULL);
        /* within a job: that one's request is not the new one's */
        ENDS(0, .command = commands[c], .env = job_env("SLURM_DDICT_JOB=--mem=1G\n"));
        program_has("SLURM_DDICT_JOB", NULL);
        program_has("SLURM_SPANK_DDICT_SCOPE", NULL);
        snprintf(env, sizeof env, "DDICT_NAME=%s\n", name("job"));
        ENDS(0, .command = commands[c], .env = job_env(env));
        program_has("DDICT_NAME", NULL);
        ENDS(0, .command = commands[c], .env = job_env(""), .typed = {"--ddict-managers=1"});
        program_has("SLURM_DDICT_JOB", "--managers=1");
    }
    ck_assert_str_eq(asked(), "");
}
END_TEST

START_TEST(a_batch_script_begins_when_its_dictionary_is_ready) {
    static const char *const gone[] = {
        "DDICT_MANAGERS", "DDICT_MEM",     "DDICT_RECORD", "DDICT_RESULTS", "DDICT_TRANSPORT",
        "DDICT_LOAD",     "DDICT_RESTORE", "DDICT_SAVE",   "DDICT_SPILL",   "DDICT_WIRE"};
    static char env[sizeof o.env];
    const char *line;
    size_t i;

    PLAY(.command = "sbatch",
         .typed = {"--ddict-managers=4", "--ddict-mem=40%", "--ddict-record=my record %j"},
         .export = "NONE", .env = "DDICT_MEM=2G\n");
    snprintf(env, sizeof env, "%s", o.env);
    ENDS(0, .command = "batch", .env = env);
    ck_assert_int_eq(o.ran, 1);
    program_has("DDICT_NAME", name("job"));
    program_has("SLURM_DDICT_JOB", NULL);
    program_has("SLURM_SPANK_DDICT_SCOPE", "job");
    ck_assert_str_eq(o.said, "noise\n");
    line = asked();
    has(line, "up --plugin --name=");
    has(line, " --chdir=/");
    has(line, " --managers=4 --mem=40% --record=my record %j --site=ddict=");
    has_not(line, "--step");
    ENDS(0, .command = "batch",
         .env = "SLURM_DDICT_JOB=--mem=1G\nFAKE=exists\nDDICT_MANAGERS=2\nDDICT_MEM=1G\nDDICT_LOG_"
                "FILE=x\nDDICT_RESULTS=x\nDDICT_TRANSPORT=tcp\n"
                "DDICT_LOAD=x\nDDICT_RESTORE=x\nDDICT_SAVE=x\nDDICT_SPILL=/x\nDDICT_WIRE=auth\n");
    for (i = 0; i < sizeof gone / sizeof *gone; i++)
        program_has(gone[i], NULL);
    /* who did not ask keeps what he has */
    ENDS(0, .command = "batch", .env = "DDICT_MEM=1G\nDDICT_RESULTS=x\n");
    program_has("DDICT_RESULTS", "x");
    ENDS(0, .command = "batch", .env = "SLURM_DDICT_JOB=--mem=1G\nFAKE=warn\n");
    ck_assert_str_eq(o.said, "ddict: no record: read only\n");
    ENDS(1, .command = "batch", .env = "SLURM_DDICT_JOB=--mem=1G\nFAKE=error\n");
    ck_assert_int_eq(o.ran, 0);
    ck_assert_str_eq(o.said, "ddict: no room on n1; the script is not started\n");
    ENDS(1, .command = "batch", .env = "SLURM_DDICT_JOB=--mem=1G\nFAKE=silent\n");
    ENDS(1, .command = "batch", .env = "SLURM_DDICT_JOB=--mem=1G%\n");
    ENDS(1, .command = "batch", .env = "SLURM_DDICT_JOB=--srun=/x\n");
    ck_assert_int_eq(o.ran, 0);
    has(o.said, "SLURM_DDICT_JOB");
    ENDS(1, .command = "batch", .env = "SLURM_DDICT_JOB=--mem=1G\n",
         .words = {fake_word, "nonsense"});
    has(o.said, "plugstack.conf: unknown word 'nonsense'");
}
END_TEST

/* "--x=" and n letters. */
static const char *long_word(char *text, const char *head, char letter, int n) {
    int len = sprintf(text, "%s", head);

    memset(text + len, letter, (size_t)n);
    text[len + n] = '\0';
    return text;
}

START_TEST(long_options_arrive_whole_or_nothing_starts) {
    static char env[40000], load[2048], restore[2048], save[2048], results[2048];
    const char *line;

    snprintf(env, sizeof env, "SLURMD_NODENAME=n1\nSLURM_DDICT_JOB=--mem=1G %s %s %s %s\n",
             long_word(results, "--results=", 'a', 1900), long_word(load, "--load=", 'b', 2000),
             long_word(restore, "--restore=", 'c', 2000), long_word(save, "--save=", 'd', 2000));
    ENDS(0, .command = "batch", .env = env);
    ck_assert_int_eq(o.ran, 1);
    line = asked();
    has(line, results);
    has(line, load);
    has(line, restore);
    has(line, save);
    has(line, " --site=ddict=");
    has(line, " --script=n1/");
    ENDS(1, .command = "srun", .env = long_word(env, "DDICT_RECORD=", 'e', 33000),
         .typed = {"--ddict-mem=1G"});
    ck_assert_int_eq(o.ran, 0);
    has(o.said, "the options of the dictionary are too long together");
    ck_assert_int_eq(lines(o.said), 1);
    ck_assert_str_eq(asked(), "");
    ENDS(1, .command = "sbatch", .env = long_word(env, "DDICT_RECORD=", 'e', 9000),
         .typed = {"--ddict-mem=1G"});
    ck_assert_int_eq(o.begun, 0);
    has(o.said, "the options of --ddict-* are too long together");
}
END_TEST

/* How long the whole of it took, ms, with what stands for srun living for the seconds in fake. */
static int64_t script_plays_as(const char *how, int contained) {
    uint64_t began = clock_ms();
    char env[160], path[160];
    FILE *f;
    int pid;

    snprintf(env, sizeof env, "SLURM_DDICT_JOB=--mem=1G\nSLURMD_NODENAME=n1\nFAKE=%s\n", how);
    ENDS(0, .command = "batch", .env = env, .contained = contained);
    ck_assert_int_eq(o.ran, 1);
    began = clock_ms() - began;
    snprintf(path, sizeof path, "%s/srun", fake_folder());
    f = fopen(path, "r");
    if (f) {
        ck_assert_int_eq(fscanf(f, "%d", &pid), 1);
        kill(pid, SIGKILL);
        fclose(f);
        unlink(path);
    }
    return (int64_t)began;
}

static int64_t script_plays(const char *how) {
    return script_plays_as(how, 0);
}

START_TEST(the_end_of_a_script_waits_for_srun_whose_managers_watch_it) {
    static const char *const others[] = {"1/1", "x", "1", "999999999/5", "99999999999999999999/1"};
    char want[64], how[64];
    int64_t took;
    const char *line;
    size_t i;

    took = script_plays("watched0.6");
    ck_assert_int_ge(took, 600);
    ck_assert_int_ge(script_plays_as("watched0.6", 1), 600);
    line = asked();
    has(line, " --script=n1/");
    snprintf(want, sizeof want, " --script=n1/%d/", (int)getpid()); /* it is the task's */
    has_not(line, want);
    took = script_plays("watched60");
    ck_assert_int_ge(took, DD_SCRIPT_END_MS);
    ck_assert_int_lt(took, 30000);
    ck_assert_int_lt(script_plays("unwatched"), 30000);
    /* One that is not watched is not waited for, nor what is no process, or another one: quicker
     * than the wait, in one of some tries. */
    for (took = 100000; took >= DD_SCRIPT_END_MS;)
        took = script_plays("watched0");
    for (took = 100000; took >= DD_SCRIPT_END_MS;)
        took = script_plays("unwatched");
    for (i = 0; i < sizeof others / sizeof *others; i++)
        for (took = 100000; took >= DD_SCRIPT_END_MS;) {
            snprintf(how, sizeof how, "named%s", others[i]);
            took = script_plays(how);
        }
}
END_TEST

START_TEST(who_is_named_at_the_end_of_a_script_is_looked_at) {
    static const char v1[] = "12:pids:/\n6:freezer:/slurm_n1/uid_7/job_17\n4:memory:/slurm_n1/"
                             "uid_7/job_17/step_batch\n0::/\n",
                      v2[] = "0::/system.slice/slurmstepd.scope/job_17/step_batch/slurm\n",
                      sluid[] = "0::/system.slice/u1n1_slurmstepd.scope/s07HM83WGBX800/step_batch/"
                                "slurm\n"; /* Slurm 26.05 */
    static const struct {
        const char *mine, *its;
        int belongs;
    } rows[] = {
        {v1, "6:freezer:/slurm_n1/uid_7/job_17/step_batch\n0::/\n", 1},
        {v1,
         "4:memory:/slurm_n1/uid_7/job_17/step_batch\n6:freezer:/slurm_n1/uid_7/job_17/step_batch/"
         "task_0\n",
         1},
        {v1, "6:freezer:/slurm_n1/uid_7/job_17/step_batch", 1},
        {v1, "6:freezer:/slurm_n1/uid_7/job_17\n", 0},
        {v1, "6:freezer:/slurm_n1/uid_7/job_17/step_0\n", 0},
        {v1, "6:freezer:/slurm_n1/uid_7/job_17/step_batch2\n", 0},
        {v1, "6:freezer:/slurm_n1/uid_7/job_18/step_batch\n", 0},
        {v1, "6:freezer:/slurm_n1/uid_7/job_171/step_batch\n", 0},
        {v1, "6:freezer:/own/slurm_n1/uid_7/job_17/step_batch\n", 0},
        {v1,
         "6:freezer:/\n4:memory:/slurm_n1/uid_7/job_17/step_batch\n0::/slurm_n1/uid_7/job_17/"
         "step_batch/user\n",
         0},
        {v1, "6:cpu,freezer:/slurm_n1/uid_7/job_17/step_batch\n", 0},
        {v1, "", 0},
        {"6:freezer:/\n0::/\n", "6:freezer:/job_17/step_batch\n0::/job_17/step_batch/user\n", 0},
        {"6:freezer:/slurm/uid_7/job_170/x\n", "6:freezer:/slurm/uid_7/job_17/step_batch\n", 0},
        {"6:freezer:/\n4:memory:/job_17\n", "6:freezer:/step_batch\n4:memory:/job_17/step_batch\n",
         0},
        {v2, "0::/system.slice/slurmstepd.scope/job_17/step_batch/user/task_0\n", 1},
        {v2, "0::/system.slice/slurmstepd.scope/job_17/step_batch/slurm\n", 0},
        {v2, "0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0\n", 0},
        {v2, "0::/system.slice/slurmstepd.scope/job_18/step_batch/user/task_0\n", 0},
        {v2, "0::/user.slice/user-7.slice/user@7.service/job_17/step_batch/user/task_0\n", 0},
        {v2, "0::/user.slice/system.slice/slurmstepd.scope/job_17/step_batch/user\n", 0},
        {sluid, "0::/system.slice/u1n1_slurmstepd.scope/s07HM83WGBX800/step_batch/user/task_0\n",
         1},
        {sluid, "0::/system.slice/u1n1_slurmstepd.scope/s07HM83WGBX800/step_batch/user", 1},
        {sluid, "0::/system.slice/u1n1_slurmstepd.scope/s07HM83WGBX800/step_batch/slurm\n", 0},
        {sluid, "0::/system.slice/u1n1_slurmstepd.scope/s07HM83WGBX800/step_0/user/task_0\n", 0},
        {sluid, "0::/system.slice/u1n1_slurmstepd.scope/s07HM83WGBX801/step_batch/user/task_0\n",
         0},
        {sluid, "0::/s07HM83WGBX800/step_batch/user/task_0\n", 0},
        /* a cluster that runs in a job of another one */
        {"0::/a.scope/s07HM83WGBX800/step_0/user/b.scope/job_17/step_batch/slurm\n",
         "0::/a.scope/s07HM83WGBX800/step_0/user/b.scope/job_17/step_batch/user/task_0\n", 1},
        {"0::/a.scope/s07HM83WGBX80/step_batch/slurm\n",
         "0::/a.scope/s07HM83WGBX80/step_batch/user/task_0\n", 0},
        {"0::/a.scope/slurmstepd.sco/step_batch/slurm\n",
         "0::/a.scope/slurmstepd.sco/step_batch/user/task_0\n", 0},
        {"6:freezer:/a/s07HM83WGBX800/step_batch\n",
         "6:freezer:/a/s07HM83WGBX800/step_batch/task_0\n", 0},
    };
    static const char *const wrong[] = {"",
                                        "s",
                                        "w",
                                        "1 s",
                                        "1/1",
                                        "1/1 x",
                                        "1/1 s ",
                                        "1/1  s",
                                        " 1/1 s",
                                        "1/1s",
                                        "-1/1 s",
                                        "0/1 s",
                                        "1/0 s",
                                        "+1/1 s",
                                        "1/-1 w",
                                        "1234567890/1 s",
                                        "1/12345678901234567890 s",
                                        "1/1 ss",
                                        "1/1 s\n",
                                        "0x1/1 s",
                                        "1 /1 s"};
    struct named who;
    int saves;
    size_t i;

    for (i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(belongs_by_cgroup(rows[i].mine, rows[i].its, 17) == rows[i].belongs,
                      "row %zu", i);
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(batch_end_read_watch(wrong[i], &who, &saves) < 0, "'%s'", wrong[i]);
    ck_assert_int_eq(batch_end_read_watch("4711/123456789012 s", &who, &saves), 0);
    ck_assert(who.pid == 4711 && who.began == 123456789012 && saves == 1);
    ck_assert_int_eq(batch_end_read_watch("1/1 w", &who, &saves), 0);
    ck_assert_int_eq(saves, 0);
    who = (struct named){.pid = getpid(), .began = process_began(getpid())};
    ck_assert_int_eq(belongs_to_user(&who, geteuid()), 1);
    ck_assert_int_eq(belongs_to_user(&who, geteuid() + 1), 0);
    ck_assert_int_eq(belongs_to_step(&who, 17), 0);
    who.began++;
    ck_assert_int_eq(belongs_to_user(&who, geteuid()), 0);
}
END_TEST

START_TEST(sruns_of_a_job_use_its_dictionary) {
    int fd = dictionary_begin(JOB, "job"), own;

    /* on a node of the job a look is enough */
    ENDS(0, .command = "srun", .env = job_env("SLURMD_NODENAME=n1\n"));
    program_has("DDICT_NAME", name("job"));
    ck_assert_str_eq(asked(), "");
    ck_assert_str_eq(o.said, "");
    ENDS(0, .command = "srun", .env = job_env("SLURMD_NODENAME=n1\n"), .export = "NONE");
    program_has("DDICT_NAME", name("job"));
    /* elsewhere `ddict up` finds or starts it, and stays behind */
    ENDS(0, .command = "srun", .env = job_env("SLURM_SUBMIT_DIR=/home\n"));
    program_has("DDICT_NAME", name("job"));
    /* for the sruns of the tasks */
    program_has("SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem", "1G");
    has(asked(), " --chdir=/home --srun=");
    ENDS(0, .command = "srun", .env = job_env("FAKE=exists\n"));
    has(asked(), "--managers=2 --mem=1G");
    /* other figures: the job's all the same, and the user is told */
    ENDS(0, .command = "srun", .env = job_env(""), .typed = {"--ddict-mem=2G"});
    has(asked(), "--managers=2 --mem=1G");
    ck_assert_str_eq(o.said, "ddict: --ddict-mem=2G: this step uses the job's dictionary; "
                             "--ddict-scope=step would give it one of its own\nnoise\n");
    ENDS(0, .command = "srun", .env = job_env("SLURMD_NODENAME=n1\n"), .typed = {"--ddict-mem=1G"});
    ck_assert_str_eq(o.said, "");
    /* of its own */
    own = dictionary_begin(JOB, "3");
    ENDS(0, .command = "srun", .env = job_env("SLURMD_NODENAME=n1\n"),
         .typed = {"--ddict-scope=step", "--ddict-mem=8M"});
    program_has("DDICT_NAME", name("3"));
    program_has("SLURM_SPANK_DDICT_SCOPE", NULL); /* an srun in its tasks has what they have */
    program_has("SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem", NULL);
    has(asked(), "--step=3 ");
    ck_assert_str_eq(o.said, "noise\nddict: 2 managers: 5 keys\n");
    dictionary_end(own);
    /* the job's is no substitute */
    ENDS(1, .command = "srun", .env = job_env("SLURMD_NODENAME=n1\n"),
         .typed = {"--ddict-scope=step"});
    ck_assert_int_eq(o.ran, 0);
    /* salloc's own srun for a shell on the first node */
    ENDS(0, .command = "shell", .env = job_env(""));
    program_has("DDICT_NAME", name("job"));
    /* --ddict-scope=step: its sruns ask */
    ENDS(0, .command = "shell",
         .env = "SLURM_JOB_ID=5\nSLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem=1G\n");
    program_has("DDICT_NAME", NULL);
    program_has("SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem", "1G");
    /* as salloc leaves it */
    ENDS(0, .command = "srun", .env = job_env("SLURM_DDICT_JOB=--mem=1G\n"));
    program_has("SLURM_DDICT_JOB", NULL);
    /* --jobid of another job: not ours */
    ENDS(0, .command = "srun", .env = job_env(""), .job = JOB + 1);
    program_has("DDICT_NAME", NULL);
    ENDS(1, .command = "srun", .typed = {"--ddict-scope=job", "--ddict-mem=1G"});
    has(o.said, "say it to salloc or sbatch");
    dictionary_end(fd);
}
END_TEST

START_TEST(tasks_of_a_step_get_what_torch_reads) {
    int fd = dictionary_begin(JOB, "3");

    ENDS(0, .command = "srun", .typed = {"--ddict-mem=1G"}, .rank = 5, .local = 2, .tasks = 8);
    program_has("MASTER_ADDR", "10.9.8.7");
    program_has("MASTER_PORT", "4711");
    program_has("RANK", "5");
    program_has("LOCAL_RANK", "2");
    program_has("WORLD_SIZE", "8");
    program_has("LOCAL_WORLD_SIZE", "8");
    program_has("GROUP_RANK", "0");
    program_has("SLURM_DDICT_TASKS", NULL);
    /* each by itself, and nothing of the user's */
    ENDS(0, .command = "srun", .env = "RANK=7\nMASTER_PORT=29500\n", .typed = {"--ddict-mem=1G"});
    program_has("RANK", "7");
    program_has("WORLD_SIZE", "1");
    program_has("MASTER_ADDR", "10.9.8.7");
    program_has("MASTER_PORT", "29500");
    /* what an outer step set is not the user's, unless he changed it */
    ENDS(0, .command = "srun",
         .env = "RANK=7\nWORLD_SIZE=9\nMASTER_PORT=1\nDDICT_TORCH_SET=RANK=7 WORLD_SIZE=99 "
                "MASTER_PORT=1\n",
         .typed = {"--ddict-mem=1G"});
    program_has("RANK", "0");
    program_has("WORLD_SIZE", "9");
    program_has("MASTER_PORT", "4711");
    ENDS(0, .command = "srun", .env = "RANK=7\nWORLD_SIZE=9\nDDICT_TORCH_SET=RANK=7\n",
         .typed = {"--ddict-mem=1G", "--ddict-torch-env=no"});
    program_has("RANK", NULL);
    program_has("WORLD_SIZE", "9");
    program_has("DDICT_TORCH_SET", NULL);
    ENDS(0, .command = "sbatch", .env = "RANK=7\nWORLD_SIZE=9\nDDICT_TORCH_SET=RANK=7\n");
    program_has("RANK", NULL);
    program_has("WORLD_SIZE", "9");
    /* the site's word, the variable's, the command line's */
    ENDS(0, .command = "srun", .words = {fake_word, "torch_env=no"}, .typed = {"--ddict-mem=1G"});
    program_has("RANK", NULL);
    ENDS(0, .command = "srun", .words = {fake_word, "torch_env=no"}, .env = "DDICT_TORCH_ENV=yes\n",
         .typed = {"--ddict-mem=1G"});
    program_has("RANK", "0");
    ENDS(0, .command = "srun", .env = "DDICT_TORCH_ENV=yes\n",
         .typed = {"--ddict-mem=1G", "--ddict-torch-env=no"}, .export = "NONE");
    program_has("RANK", NULL);
    /* nobody knows: the program runs, the first task of the node says why */
    ENDS(0, .command = "srun", .typed = {"--ddict-mem=1G"}, .rank = 99, .tasks = 100);
    ck_assert_int_eq(o.ran, 1);
    program_has("RANK", "99");
    program_has("MASTER_PORT", NULL);
    has(o.said, "ddict: MASTER_ADDR and MASTER_PORT are not set: rank 0 of step");
    ENDS(0, .command = "srun", .typed = {"--ddict-mem=1G"}, .rank = 99, .local = 1, .tasks = 100);
    has_not(o.said, "MASTER_ADDR");
    /* nobody is asked */
    ENDS(0, .command = "srun", .env = "MASTER_ADDR=n9\nMASTER_PORT=1\n",
         .typed = {"--ddict-mem=1G"}, .rank = 99, .tasks = 100);
    has_not(o.said, "MASTER_ADDR");
    dictionary_end(fd);
}
END_TEST

#define GPU_STEP                                                                                   \
    "SLURM_STEP_GPUS=0,1,2,3\nSLURM_GPUS_ON_NODE=4\nCUDA_VISIBLE_DEVICES=0,1,2,3\nSLURM_CPU_BIND_" \
    "TYPE=mask_cpu:\nSLURM_CPU_BIND_LIST=0xf,0xf0\n"

START_TEST(tasks_of_a_step_get_their_gpus_in_order) {
    int fd = dictionary_begin(JOB, "3");

    ENDS(0, .command = "srun", .env = GPU_STEP, .typed = {"--ddict-mem=1G"}, .tasks = 2);
    program_has("CUDA_VISIBLE_DEVICES", "2,1,0,3");
    program_has("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    program_has("DDICT_GPU_SET", "CUDA_VISIBLE_DEVICES=2,1,0,3");
    ck_assert_str_eq(o.said, "noise\nddict: 2 managers: 5 keys\n");
    ENDS(0, .command = "srun", .env = GPU_STEP,
         .typed = {"--ddict-mem=1G", "--ddict-gpu-bind=rotate"}, .rank = 1, .local = 1, .tasks = 2);
    program_has("CUDA_VISIBLE_DEVICES", "1,2,3,0");
    ENDS(0, .command = "srun", .env = GPU_STEP "DDICT_GPU_BIND=rotate\n",
         .typed = {"--ddict-mem=1G"}, .tasks = 2);
    program_has("CUDA_VISIBLE_DEVICES", "2,3,0,1");
    program_has("DDICT_GPU_BIND", NULL);
    ENDS(0, .command = "srun", .words = {fake_word, "gpu_bind=rotate"}, .env = GPU_STEP,
         .typed = {"--ddict-mem=1G"}, .tasks = 2);
    program_has("CUDA_VISIBLE_DEVICES", "2,3,0,1");
    ENDS(0, .command = "srun", .env = GPU_STEP "DDICT_GPU_BIND=rotate\n",
         .typed = {"--ddict-mem=1G", "--ddict-gpu-bind=none"}, .tasks = 2);
    program_has("CUDA_VISIBLE_DEVICES", "0,1,2,3");
    program_has("CUDA_DEVICE_ORDER", NULL);
    /* more tasks than GPUs: said once on the node */
    ENDS(0, .command = "srun", .env = GPU_STEP, .typed = {"--ddict-mem=1G"}, .tasks = 8);
    has(o.said, "ddict: 8 tasks of this node share 4 GPUs, up to 2 on one\n");
    ENDS(0, .command = "srun", .env = GPU_STEP, .typed = {"--ddict-mem=1G"}, .tasks = 8, .rank = 1,
         .local = 1);
    has_not(o.said, "share");
    /* GPUs that a task has for itself, none at all, and a variable of the user's own */
    ENDS(0, .command = "srun",
         .env = "SLURM_STEP_GPUS=0,1,2,3\nSLURM_GPUS_ON_NODE=4\nCUDA_VISIBLE_DEVICES=2\n",
         .typed = {"--ddict-mem=1G"}, .tasks = 4);
    program_has("CUDA_VISIBLE_DEVICES", "2");
    program_has("CUDA_DEVICE_ORDER", NULL);
    has_not(o.said, "own");
    ENDS(0, .command = "srun", .env = GPU_STEP "SLURM_GPUS_PER_TASK=1\n",
         .typed = {"--ddict-mem=1G", "--ddict-gpu-bind=rotate"}, .tasks = 4);
    program_has("CUDA_VISIBLE_DEVICES", "0,1,2,3");
    has(o.said,
        "ddict: --gpus-per-task has given each task GPUs of its own; they are left as they are\n");
    ENDS(0, .command = "srun", .env = "CUDA_VISIBLE_DEVICES=3,1\n", .typed = {"--ddict-mem=1G"});
    program_has("CUDA_VISIBLE_DEVICES", "3,1");
    program_has("CUDA_DEVICE_ORDER", NULL);
    ENDS(0, .command = "srun",
         .env =
             "CUDA_VISIBLE_DEVICES=3,1\nSLURM_CPU_BIND_TYPE=mask_cpu:\nSLURM_CPU_BIND_LIST=0xf0\n",
         .typed = {"--ddict-mem=1G", "--ddict-gpu-bind=closest"});
    program_has("CUDA_VISIBLE_DEVICES", "1,3");
    /* without a dictionary it means nothing, and that is said */
    ENDS(1, .command = "srun", .env = GPU_STEP, .typed = {"--ddict-gpu-bind=rotate"});
    has(o.said, "--ddict-gpu-bind=rotate: also ask for a dictionary");
    ENDS(0, .command = "srun", .env = GPU_STEP "DDICT_GPU_BIND=rotate\nDDICT_TORCH_ENV=maybe\n");
    program_has("CUDA_VISIBLE_DEVICES", "0,1,2,3");
    ENDS(1, .command = "srun", .typed = {"--ddict-mem=1G", "--ddict-gpu-bind=nearest"});
    has(o.said, "--ddict-gpu-bind=nearest: want closest, rotate or none");
    ENDS(1, .command = "sbatch", .env = "DDICT_TORCH_ENV=maybe\n", .typed = {"--ddict-mem=1G"});
    has(o.said, "DDICT_TORCH_ENV=maybe: want yes or no");
    ENDS(1, .command = "srun", .words = {fake_word, "gpu_bind=near"}, .typed = {"--ddict-mem=1G"});
    has(o.said, "plugstack.conf: gpu_bind=near: want closest, rotate or none");
    dictionary_end(fd);
}
END_TEST

START_TEST(a_job_whose_dictionary_is_gone_starts_no_empty_one) {
    char env[512];

    snprintf(env, sizeof env, "SLURMD_NODENAME=n1\nDDICT_NAME=%s\n", name("job"));
    asked();
    ENDS(1, .command = "srun", .env = job_env(env));
    ck_assert_int_eq(o.ran, 0);
    ck_assert_str_eq(asked(), "");
    ck_assert_int_eq(lines(o.said), 1);
    has(o.said, "the job's dictionary is gone");
    ENDS(1, .command = "srun", .env = job_env("FAKE=error\n"));
    ck_assert_int_eq(o.ran, 0);
    ck_assert_int_eq(lines(o.said), 1);
}
END_TEST

START_TEST(the_managers_step_leaves_two_lines_for_the_administrator) {
    ENDS(0, .command = "ddictd", .env = "DDICT_INTERNAL=1\n",
         .noted = "2 managers\033[31m: 5 keys\nand more\n");
    ck_assert_str_eq(
        o.log,
        "ddict: dictionary a?b starts: 4 managers, ? bytes\nddict: 2 managers?[31m: 5 keys\n");
    ck_assert_str_eq(o.said, "");
    ENDS(0, .command = "ddictd", .env = "DDICT_INTERNAL=1\n", .contained = 1,
         .noted = "2 managers: 5 keys\n");
    ck_assert_str_eq(
        o.log, "ddict: dictionary a?b starts: 4 managers, ? bytes\nddict: 2 managers: 5 keys\n");
    /* ddictd was killed: no word, no wait */
    ENDS(0, .command = "ddictd", .env = "DDICT_INTERNAL=1\n");
    ck_assert_int_eq(lines(o.log), 1);
    ENDS(0, .command = "ddictd", .env = "DDICT_INTERNAL=1\n",
         .noted = "01234567890123456789012345678901234567890123456789012345678901234567890123456789"
                  "01234567890123456789"
                  "01234567890123456789012345678901234567890123456789012345678901234567890123456789"
                  "01234567890123456789"
                  "01234567890123456789012345678901234567890123456789012345678901234567890123456789"
                  "01234567890123456789"
                  "01234567890123456789012345678901234567890123456789012345678901234567890123456789"
                  "01234567890123456789"
                  "more than that");
    has_not(o.log, "more");
    ENDS(0, .command = "batch", .env = "DDICT_INTERNAL=1\nSLURM_DDICT_JOB=--mem=1G\n",
         .noted = "text");
    ck_assert_str_eq(o.log, "");
}
END_TEST

/* --- one call fails --- */

struct scene {
    /* last part of the right name, NULL: nothing was asked for; with a dash: the request */
    const char *command, *typed, *env, *last;
};

static void scene_judge(const struct scene *s, const char *what) {
    const char *got =
        host_value(o.env, s->command[0] == 's' && s->command[1] != 'r' && s->command[1] != 'h'
                              ? "SLURM_DDICT_JOB"
                              : "DDICT_NAME");

    ck_assert_msg(o.code < 128 && o.task_code < 128, "%s: code %d, task %d: %s", what, o.code,
                  o.task_code, o.said);
    if (o.code != 0) {
        ck_assert_msg(o.ran == 0 && s->last, "%s: the program ran", what);
        ck_assert_msg(o.said[0] != '\0', "%s: not a word", what);
        return;
    }
    if (!s->last)
        ck_assert_msg(!got, "%s: got %s", what, got);
    else if (strchr(s->last, '-'))
        ck_assert_msg(got && strcmp(got, s->last) == 0 &&
                          host_value(o.env, "SLURM_SPANK_DDICT_SCOPE"),
                      "%s: got %s", what, got);
    else
        ck_assert_msg(got && strcmp(got, name(s->last)) == 0, "%s: got %s: %s", what, got, o.said);
}

START_TEST(no_fault_of_slurm_breaks_the_rules) {
    static char on_node[4096], elsewhere[4096];
    const struct scene scenes[] = {
        {"srun", "--ddict-mem=1G", "", "3"},
        {"srun", NULL, "", NULL},
        {"srun", NULL, on_node, "job"},
        {"srun", "--ddict-scope=step", on_node, "3"},
        {"sbatch", "--ddict-mem=1G", "", "--mem=1G"},
        {"salloc", "--ddict-mem=1G", "", "--mem=1G"},
        {"batch", NULL, "SLURM_DDICT_JOB=--mem=1G\n", "job"},
        {"batch", NULL, "", NULL},
        {"shell", NULL, elsewhere, "job"},
        {"ddictd", NULL, "DDICT_INTERNAL=1\n", NULL},
    };
    int job = dictionary_begin(JOB, "job"), step, call, at;
    size_t i;

    strcpy(on_node, job_env("SLURMD_NODENAME=n1\n"));
    strcpy(elsewhere, job_env(""));
    for (i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        step = scenes[i].last && strcmp(scenes[i].last, "3") == 0 ? dictionary_begin(JOB, "3") : -1;
        for (call = HOST_NONE + 1; call < HOST_CALLS; call++)
            for (at = 1;; at++) {
                char what[96];

                PLAY(.command = scenes[i].command, .typed = {scenes[i].typed}, .env = scenes[i].env,
                     .fault = (enum host_call)call, .fault_at = at);
                if (o.calls[call] < at)
                    break;
                snprintf(what, sizeof what, "scene %zu, call %d fails the %d. time", i, call, at);
                scene_judge(&scenes[i], what);
            }
        if (step >= 0)
            dictionary_end(step);
    }
    dictionary_end(job);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("plugin_spank");
    TCase *c = tcase_create("plugin_spank");

    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, fake_make, fake_remove);
    tcase_add_checked_fixture(c, state_note, state_check);
    tcase_add_test(c, srun_of_its_own_has_a_dictionary_that_ends_with_it);
    tcase_add_test(c, who_asks_for_nothing_gets_nothing);
    tcase_add_test(c, srun_whose_managers_do_not_start_fails_with_one_line);
    tcase_add_test(c, sbatch_and_salloc_judge_and_pass_the_request_on);
    tcase_add_test(c, a_batch_script_begins_when_its_dictionary_is_ready);
    tcase_add_test(c, long_options_arrive_whole_or_nothing_starts);
    tcase_add_test(c, the_end_of_a_script_waits_for_srun_whose_managers_watch_it);
    tcase_add_test(c, who_is_named_at_the_end_of_a_script_is_looked_at);
    tcase_add_test(c, sruns_of_a_job_use_its_dictionary);
    tcase_add_test(c, tasks_of_a_step_get_what_torch_reads);
    tcase_add_test(c, tasks_of_a_step_get_their_gpus_in_order);
    tcase_add_test(c, a_job_whose_dictionary_is_gone_starts_no_empty_one);
    tcase_add_test(c, the_managers_step_leaves_two_lines_for_the_administrator);
    tcase_add_test(c, no_fault_of_slurm_breaks_the_rules);
    suite_add_tcase(s, c);
    return s;
}

int main(void) {
    SRunner *r = srunner_create(suite());
    int failed;

    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
