/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch_starter.c - the life of a started process, with shell scripts in place of srun and ddictd.
 * Invariants: it is over within the limits whatever the child does; the first cause is the one
 * told; no process and no descriptor is left.
 */
#include "launch_test.h"
#include <base/clock.h>
#include <launch/command.h>
#include <launch/starter.h>

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;
static struct starter s;
#define START_S 60 /* for what begins at once, on a busy machine */

/* libc that fails: the call with this number. */
static int pipe_fails, fork_fails;

int pipe2(int fds[2], int flags) {
    if (pipe_fails > 0 && --pipe_fails == 0) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_pipe2, fds, flags);
}

pid_t fork(void) {
    static pid_t (*real)(void);

    if (fork_fails > 0 && --fork_fails == 0) {
        errno = EAGAIN;
        return -1;
    }
    if (!real)
        real = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
    return real();
}

static void begin(const char *script, unsigned nodes, int start_s) {
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)(uintptr_t)script, NULL};

    ck_assert_int_eq(starter_spawn(&s, argv, environ, NULL, nodes, 500, start_s), 0);
}

/* Turn until `state` or later; the test's time limit is the deadline. */
static void turn_until(enum starter_state state) {
    while (s.state < state) {
        struct pollfd p[STARTER_FDS];
        int timeout = starter_poll(&s, p);

        poll(p, STARTER_FDS, timeout < 0 || timeout > 20 ? 20 : timeout);
        starter_turn(&s);
        starter_reap(&s);
    }
}

static void ends(const char *why) {
    pid_t pid = s.pid;

    turn_until(STARTER_OVER);
    ck_assert_msg(!why ? s.why[0] == '\0' : strstr(s.why, why) != NULL, "why is '%s', not '%s'",
                  s.why, why ? why : "");
    ck_assert(pid == 0 || (kill(pid, 0) < 0 && errno == ESRCH));
    starter_free(&s);
}

#define UP "echo noise; echo ddict1 start node=0 step=-; echo ddict1 ready id=7; "

START_TEST(a_whole_life_with_noise) {
    begin(UP "cat >/dev/null; echo 'ddict1 report {\"total\":{}}'; echo ddict1 end", 1, START_S);
    turn_until(STARTER_READY);
    ck_assert_str_eq(s.about, "id=7");
    starter_drain(&s);
    starter_drain(&s);
    turn_until(STARTER_OVER);
    ck_assert_str_eq(s.report, "{\"total\":{}}");
    ck_assert(s.ended && s.ready);
    ends(NULL);
}
END_TEST

START_TEST(ready_counts_only_when_all_nodes_began) {
    begin("echo ddict1 start node=0 step=1.2; sleep 0.2; echo ddict1 start node=1 step=1.2; sleep "
          "0.2; echo ddict1 ready x=1; cat; echo ddict1 end",
          2, START_S);
    turn_until(STARTER_WAITING);
    ck_assert_uint_eq(s.started, 2);
    ck_assert_str_eq(s.hidden_steps, "1.2");
    turn_until(STARTER_READY);
    starter_drain(&s);
    ends(NULL);
}
END_TEST

START_TEST(an_error_before_ready_is_told) {
    begin("echo ddict1 start node=0 step=-; echo ddict1 error no room on n1; echo ddict1 error "
          "second; exit 1",
          1, START_S);
    ends("no room on n1");
}
END_TEST

START_TEST(an_exit_without_a_word_is_told_with_what_stderr_said) {
    begin("echo 'srun: error: Unable to create step: Requested node configuration is not "
          "available' >&2; exit 1",
          1, START_S);
    ends("did not start: Unable to create step: Requested node configuration");
    begin("exit 3", 1, START_S);
    ends("exit code 3");
    begin("kill -9 $$", 1, START_S);
    ends("killed by signal 9");
}
END_TEST

START_TEST(a_program_that_is_not_there_is_named) {
    char *argv[] = {(char *)"/nowhere/ddictd", NULL};

    ck_assert_int_eq(starter_spawn(&s, argv, environ, NULL, 1, 500, START_S), 0);
    ends("/nowhere/ddictd: no such file");
}
END_TEST

START_TEST(a_step_that_is_never_created_is_given_up) {
    uint64_t t = clock_ms();

    begin("echo ddict1 start node=0 step=-; exec sleep 60", 2, 1);
    ends("did not begin within 1 s");
    ck_assert_uint_lt(clock_ms() - t, 30000);
}
END_TEST

START_TEST(a_task_that_is_gone_before_ready_ends_the_waiting) {
    uint64_t t = clock_ms();
    char *argv[] = {
        (char *)"/bin/sh", (char *)"-c",
        (char *)"echo ddict1 start node=0 step=1.2; echo 'srun: error: execve(): /x: no' >&2;"
                "echo 'srun: error: n2: task 1: Exited with exit code 2' >&2; exec sleep 60",
        NULL};

    ck_assert_int_eq(starter_spawn(&s, argv, environ, "/nowhere/srun", 2, 500, START_S), 0);
    ends("did not start: execve(): /x: no (n2: task 1: Exited with exit code 2)");
    ck_assert_uint_lt(clock_ms() - t, 30000);
}
END_TEST

START_TEST(who_cancelled_the_step_is_the_cause) {
    begin(UP "echo ddict1 error node n2 is lost; echo 'srun: error: *** STEP 1.2 ON n1 CANCELLED "
             "AT 2026-01-01T00:00:00 ***' >&2; sleep 0.2",
          1, START_S);
    turn_until(STARTER_READY);
    ends("ended early: Slurm's step 1.2 was cancelled");
}
END_TEST

/* Says `ready`, and ends with what an srun says whose job is over. */
static void cut_off(const char *words, const char *then, const char *why) {
    char script[512];
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", script, NULL};

    snprintf(script, sizeof script, UP "cat >/dev/null; echo '%s' >&2; %s", words, then);
    ck_assert_int_eq(starter_spawn(&s, argv, environ, "/nowhere/srun", 1, 500, START_S), 0);
    turn_until(STARTER_READY);
    starter_drain(&s);
    ends(why);
}
#define ABORTED "srun: Job step aborted: Waiting up to 7 seconds for job step to finish."

START_TEST(an_end_in_order_that_Slurm_cut_off_is_no_failure) {
    char text[256];

    cut_off(ABORTED, "exit 0", NULL);
    ck_assert(s.ended && s.cut);
    ck_assert_int_eq(starter_unsaved(&s, "", text, sizeof text), 0);
    ck_assert_int_eq(starter_unsaved(&s, "/d", text, sizeof text), 1);
    ck_assert_str_eq(text, "nobody knows whether all was saved to /d: Slurm cut off what the "
                           "managers said at their end");
    cut_off(ABORTED "\nslurmstepd-n1: error: *** STEP 1.1 ON n1 CANCELLED AT "
                    "2026-01-01T00:00:00 ***",
            "exit 0", NULL);
    cut_off(ABORTED, "echo ddict1 error n2 is lost", "n2 is lost");
    cut_off(ABORTED, "exit 1", "ended early: Job step aborted");
    cut_off(ABORTED, "kill -9 $$", "killed by signal 9");
    cut_off(ABORTED "\nsrun: error: n1: task 0: Killed", "exit 0",
            "ended early: n1: task 0: Killed");
    cut_off(ABORTED "\nsrun: error: Timed out waiting for job step to complete", "exit 0",
            "ended early: Timed out");
    cut_off("slurmstepd-n1: error: *** STEP 1.1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME "
            "LIMIT ***",
            "exit 0", "cancelled due to time limit");
}
END_TEST

START_TEST(memory_is_the_cause_although_the_step_was_cancelled) {
    begin(UP "echo ddict1 error cause=memory manager 0 was killed; echo 'srun: error: *** STEP 1.2 "
             "ON n1 CANCELLED AT 2026-01-01T00:00:00 ***' >&2; sleep 0.2",
          1, START_S);
    turn_until(STARTER_READY);
    ends("manager 0 was killed");
    ck_assert_ptr_null(strstr(s.why, "cause="));
}
END_TEST

START_TEST(what_ignores_SIGTERM_is_killed) {
    begin("trap '' TERM; echo ddict1 start node=0 step=-; echo ddict1 error broken; while :; do "
          "sleep 0.1; done",
          1, START_S);
    ends("broken");
}
END_TEST

START_TEST(a_node_that_is_cut_off_does_not_end_the_others) {
    begin(
        UP
        "sleep 0.1; echo ddict1 error cause=cut n1 was cut off; read word; test \"$word\" = drain "
        "&& echo ddict1 end; exit 1",
        1, START_S);
    turn_until(STARTER_READY);
    for (int i = 0; i < 100 && s.cut_off[0] == '\0'; i++) {
        poll(NULL, 0, 20);
        starter_turn(&s);
    }
    ck_assert_str_eq(s.cut_off, "n1 was cut off");
    ck_assert_int_eq(s.state, STARTER_READY);
    starter_drain(&s);
    ends(NULL);
}
END_TEST

START_TEST(all_that_are_cut_off_have_ended) {
    begin(UP "sleep 0.1; echo ddict1 error cause=cut n1 was cut off; exit 1", 1, START_S);
    turn_until(STARTER_READY);
    ends("n1 was cut off");
    ck_assert_ptr_null(strstr(s.why, "cause="));
}
END_TEST

START_TEST(lost_is_told_and_comes_to_its_end) {
    begin(UP "sleep 0.1; echo ddict1 error manager 3 was lost; echo 'ddict1 report {}'; echo "
             "ddict1 end; exit 1",
          1, START_S);
    turn_until(STARTER_READY);
    ends("manager 3 was lost");
}
END_TEST

START_TEST(an_end_without_asking_is_no_error) {
    /* `ddict down`, or the end of the job */
    begin(UP "sleep 0.1; echo ddict1 end; exit 0", 1, START_S);
    ends(NULL);
}
END_TEST

START_TEST(a_drain_is_said_before_the_end_of_input) {
    begin(UP "read word; test \"$word\" = drain && echo ddict1 end", 1, START_S);
    turn_until(STARTER_READY);
    starter_drain(&s);
    ends(NULL);
}
END_TEST

START_TEST(another_start_s_dictionary_is_ready_and_ours_ends) {
    begin("echo ddict1 start node=0 step=-; echo ddict1 exists id=8; echo ddict1 end", 1, START_S);
    turn_until(STARTER_DRAINING);
    ck_assert(s.ready && s.exists);
    ck_assert_str_eq(s.about, "id=8");
    ends(NULL);
}
END_TEST

static char news[200];

static void on_news(void *arg, enum line_kind kind, const char *text) {
    snprintf(news + strlen(news), sizeof news - strlen(news), "%s %s;",
             kind == LINE_WARN      ? "warn"
             : kind == LINE_UNSAVED ? "unsaved"
                                    : "summary",
             text);
}

START_TEST(warnings_and_the_summary_are_passed_on) {
    news[0] = '\0';
    begin("echo ddict1 start node=0 step=-; echo ddict1 warn no log; echo ddict1 ready x=1; cat "
          ">/dev/null; echo ddict1 summary 2 keys; echo ddict1 end",
          1, START_S);
    s.news = on_news;
    turn_until(STARTER_READY);
    starter_drain(&s);
    ends(NULL);
    ck_assert_str_eq(news, "warn no log;summary 2 keys;");
}
END_TEST

/* The word counts, not the sentence. */
START_TEST(what_was_not_saved_has_a_word_of_its_own) {
    char text[200];

    news[0] = '\0';
    begin(UP
          "cat >/dev/null; echo ddict1 warn NOT ALL WAS SAVED, says a file name; echo ddict1 end",
          1, START_S);
    s.news = on_news;
    turn_until(STARTER_READY);
    starter_drain(&s);
    ends(NULL);
    ck_assert_int_eq(starter_unsaved(&s, "/d", text, sizeof text), 0);
    ck_assert_str_eq(news, "warn NOT ALL WAS SAVED, says a file name;");
    news[0] = '\0';
    begin(UP "cat >/dev/null; echo ddict1 unsaved no room on /d; echo ddict1 end", 1, START_S);
    s.news = on_news;
    turn_until(STARTER_READY);
    starter_drain(&s);
    ends(NULL);
    ck_assert_int_eq(starter_unsaved(&s, "/d", text, sizeof text), 1);
    ck_assert_str_eq(text, "");
    ck_assert_str_eq(news, "unsaved no room on /d;");
}
END_TEST

START_TEST(what_is_left_when_ready_loses_srun_and_its_child_and_goes_on) {
    const char *tmp = getenv("TMPDIR");
    char path[120], text[64] = "", *argv[] = {(char *)"/bin/sh", (char *)"-c", NULL, NULL};
    char script[600];
    int fd, pid = 0;
    struct deadline limit;

    ck_assert_int_lt(snprintf(path, sizeof path, "%s/launch_starter.XXXXXX", tmp ? tmp : "/tmp"),
                     sizeof path);
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    /* The child stands for what ends srun's step when srun is killed. */
    snprintf(script, sizeof script,
             "p=$$; (while kill -0 $p 2>/dev/null; do sleep 0.02; done; echo hurt >>%s) & echo $! "
             ">%s; " UP "exec sleep 60",
             path, path);
    argv[2] = script;
    ck_assert_int_eq(starter_spawn(&s, argv, environ, "/bin/sh", 1, 500, START_S), 0);
    turn_until(STARTER_READY);
    starter_leave(&s);
    ck_assert(starter_over(&s) && s.pid == 0);
    ck_assert_int_gt(pread(fd, text, sizeof text - 1, 0), 0);
    ck_assert_int_eq(sscanf(text, "%d", &pid), 1);
    ck_assert(kill(pid, 0) < 0 && errno == ESRCH);
    deadline_start(&limit, 200);
    while (deadline_left(&limit, 50) > 0) {
        poll(NULL, 0, 20);
        memset(text, 0, sizeof text);
        ck_assert_int_ge(pread(fd, text, sizeof text - 1, 0), 0);
        ck_assert_ptr_null(strstr(text, "hurt"));
    }
    close(fd);
    unlink(path);
    while (waitpid(-1, NULL, 0) > 0) /* a sleep of the child, which became ours */
        continue;
    ends(NULL);
}
END_TEST

/* Its child that ends the step is a sleep here; the shell reaps it, as our plugin in srun does. */
#define LIVES "sleep 61 & echo $! >&2; "

START_TEST(what_lets_go_of_our_pipes_stays_alone) {
    char *argv[] = {
        (char *)"/bin/sh", (char *)"-c",
        (char *)"trap 'exec >/dev/null 2>&1' URG; " LIVES UP "while :; do sleep 0.05; done", NULL};
    int pid, child;

    ck_assert_int_eq(starter_spawn(&s, argv, environ, "/bin/sh", 1, 500, START_S), 0);
    turn_until(STARTER_READY);
    pid = s.pid;
    starter_leave(&s);
    ck_assert(starter_over(&s) && s.pid == 0 && s.out < 0 && s.err < 0);
    s.tail[s.tail_len] = '\0';
    ck_assert_int_eq(sscanf(s.tail, "%d", &child), 1);
    /* killed, and the shell reaps it with its next sleep; the test's time limit is the deadline */
    while (kill(child, 0) == 0)
        poll(NULL, 0, 10);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    ends(NULL);
}
END_TEST

START_TEST(what_does_not_let_go_is_killed) {
    char *argv[] = {(char *)"/bin/sh", (char *)"-c",
                    (char *)"trap 'exec 2>/dev/null' URG; " UP "while :; do sleep 0.05; done",
                    NULL};
    int pid;

    ck_assert_int_eq(starter_spawn(&s, argv, environ, "/bin/sh", 1, 500, START_S), 0);
    turn_until(STARTER_READY);
    pid = s.pid;
    starter_leave(&s);
    ck_assert(starter_over(&s) && s.pid == 0);
    ck_assert(kill(pid, 0) < 0 && errno == ESRCH);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    ends(NULL);
}
END_TEST

START_TEST(death_after_ready_is_told) {
    begin(UP "sleep 0.1; echo boom >&2; exit 0", 1, START_S);
    ends("ended early: boom");
}
END_TEST

START_TEST(a_long_report_comes_whole) {
    begin(UP "cat >/dev/null; printf 'ddict1 report '; head -c 3000000 /dev/zero | tr '\\0' x; "
             "echo; echo ddict1 end",
          1, START_S);
    turn_until(STARTER_READY);
    starter_drain(&s);
    turn_until(STARTER_OVER);
    ck_assert_uint_eq(strlen(s.report), 3000000);
    ends(NULL);
}
END_TEST

START_TEST(much_stderr_blocks_nobody_and_its_end_is_kept) {
    begin(UP "cat >/dev/null; yes 123456789 | head -c 1000000 >&2; echo last words >&2; exit 1", 1,
          START_S);
    turn_until(STARTER_READY);
    starter_drain(&s);
    turn_until(STARTER_OVER);
    ck_assert_uint_eq(s.tail_len, STARTER_TAIL);
    ck_assert_int_eq(memcmp(s.tail + STARTER_TAIL - 11, "last words\n", 11), 0);
    ends("ended early");
}
END_TEST

/* BLAKE2b of "YQ== Yg==", from another implementation. */
#define DIGEST_OF_TWO "0skF5naOtdPte5TN5vbMzxA1mPEH1FIuUIrA4o6uUxs="
START_TEST(the_digest_of_all_cards_and_the_first_go_round_when_all_are_there) {
    char digest[64], secret[64], card[64], first[64] = "";

    for (int i = 0; i < 2; i++) {
        begin("echo ddict1 start node=0 step=-; echo ddict1 card 1 Yg==; echo ddict1 card 7 eA==; "
              "echo ddict1 card 1 eg==; echo ddict1 card x; "
              "sleep 0.1; echo ddict1 start node=1 step=-; echo ddict1 card 0 YQ==; read l; echo "
              "ddict1 ready $l; cat; echo ddict1 end",
              2, START_S);
        turn_until(STARTER_READY);
        ck_assert_int_eq(sscanf(s.about, "gather %63s %63s %63s", digest, secret, card), 3);
        ck_assert_str_eq(digest, DIGEST_OF_TWO);
        ck_assert_uint_eq(strlen(secret), 44);
        ck_assert_str_ne(secret, first); /* each start has another one */
        ck_assert_str_eq(card, "YQ==");
        strcpy(first, secret);
        starter_drain(&s);
        ends(NULL);
    }
}
END_TEST

START_TEST(cards_that_nobody_takes_block_only_to_the_limit) {
    uint64_t t = clock_ms();

    begin("echo ddict1 start node=0 step=-; for i in 0 1; do printf \"ddict1 card $i \"; head -c "
          "120000 /dev/zero | tr '\\0' A; echo; done; exec sleep 60",
          2, 1);
    ends("did not begin within 1 s");
    ck_assert_uint_lt(clock_ms() - t, 30000);
}
END_TEST

START_TEST(the_child_has_three_descriptors_and_a_session_of_its_own) {
    char *argv[] = {
        (char *)"/bin/sh", (char *)"-c",
        (char *)"set -- /proc/$$/fd/*; echo $#; cut -d' ' -f6 /proc/$$/stat; echo $$; pwd", NULL};
    int extra = dup(0), n = 0, session = 0, pid = 1;
    char *text, dir[8];

    ck_assert_int_eq(command_read(argv, environ, 30000, &text), 0);
    ck_assert_int_eq(sscanf(text, "%d %d %d %7s", &n, &session, &pid, dir), 4);
    ck_assert_int_eq(n, 4); /* with the folder that is being listed */
    ck_assert_int_eq(session, pid);
    ck_assert_str_eq(dir, "/");
    free(text);
    close(extra);
}
END_TEST

START_TEST(a_command_that_hangs_or_fails_is_told) {
    char *hang[] = {(char *)"/bin/sleep", (char *)"60", NULL};
    char *silent[] = {(char *)"/bin/sh", (char *)"-c", (char *)"echo all; exec sleep 60 >&- 2>&-",
                      NULL};
    char *fail[] = {(char *)"/bin/sh", (char *)"-c",
                    (char *)"echo slurm_load_jobs error: Invalid job id specified >&2; exit 1",
                    NULL};
    char *text;

    ck_assert_int_eq(command_read(hang, environ, 300, &text), -ETIMEDOUT);
    ck_assert_ptr_null(text);
    ck_assert_int_eq(command_read(silent, environ, 300, &text), -ETIMEDOUT);
    ck_assert_ptr_null(text);
    ck_assert_int_eq(command_read(fail, environ, 30000, &text), -EIO);
    ck_assert_str_eq(dd_errmsg(), "slurm_load_jobs error: Invalid job id specified");
}
END_TEST

START_TEST(a_start_without_pipes_or_processes_leaks_nothing) {
    char *argv[] = {(char *)"/bin/true", NULL}, *text;

    for (int i = 1; i <= 3; i++) {
        pipe_fails = i;
        ck_assert_int_eq(starter_spawn(&s, argv, environ, NULL, 1, 500, START_S), -EMFILE);
        ck_assert(starter_over(&s));
        starter_free(&s);
    }
    fork_fails = 1;
    ck_assert_int_eq(starter_spawn(&s, argv, environ, NULL, 1, 500, START_S), -EAGAIN);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "/bin/true"));
    starter_free(&s);
    pipe_fails = 1;
    ck_assert_int_eq(command_read(argv, environ, 1000, &text), -EMFILE);
    pipe_fails = 2;
    ck_assert_int_eq(command_read(argv, environ, 1000, &text), -EMFILE);
    fork_fails = 1;
    ck_assert_int_eq(command_read(argv, environ, 1000, &text), -EAGAIN);
}
END_TEST

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* as the owner of a starter does */
    return TESTS_RUN(
        "launch_starter", 60, a_whole_life_with_noise, ready_counts_only_when_all_nodes_began,
        an_error_before_ready_is_told, an_exit_without_a_word_is_told_with_what_stderr_said,
        a_program_that_is_not_there_is_named, a_step_that_is_never_created_is_given_up,
        a_task_that_is_gone_before_ready_ends_the_waiting, who_cancelled_the_step_is_the_cause,
        an_end_in_order_that_Slurm_cut_off_is_no_failure,
        memory_is_the_cause_although_the_step_was_cancelled, what_ignores_SIGTERM_is_killed,
        a_node_that_is_cut_off_does_not_end_the_others, all_that_are_cut_off_have_ended,
        lost_is_told_and_comes_to_its_end, an_end_without_asking_is_no_error,
        a_drain_is_said_before_the_end_of_input, another_start_s_dictionary_is_ready_and_ours_ends,
        warnings_and_the_summary_are_passed_on, what_was_not_saved_has_a_word_of_its_own,
        what_is_left_when_ready_loses_srun_and_its_child_and_goes_on,
        what_lets_go_of_our_pipes_stays_alone, what_does_not_let_go_is_killed,
        death_after_ready_is_told, a_long_report_comes_whole,
        much_stderr_blocks_nobody_and_its_end_is_kept,
        the_digest_of_all_cards_and_the_first_go_round_when_all_are_there,
        cards_that_nobody_takes_block_only_to_the_limit,
        the_child_has_three_descriptors_and_a_session_of_its_own,
        a_command_that_hangs_or_fails_is_told, a_start_without_pipes_or_processes_leaks_nothing);
}
