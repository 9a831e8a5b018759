/* SPDX-License-Identifier: Apache-2.0 */
/* launch_text.c - what others print: node lists, scontrol, handshake lines, the stderr of srun; and
 * the command line that we build. */
#include "launch_test.h"
#include <base/error.h>
#include <base/hostlist.h>
#include <launch/command.h>
#include <launch/reason.h>
#include <launch/sruns.h>
#include <launch/starter.h>
#include <launch/startup_lines.h>
#include <launch/step.h>
#include <launch/step_argv.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void expands(const char *text, const char *names) {
    struct hostlist l = {0};
    char got[4096] = "";
    size_t i;

    ck_assert_int_eq(hostlist_add(&l, text), 0);
    for (i = 0; i < l.count; i++) {
        strcat(got, i > 0 ? " " : "");
        strcat(got, l.names[i]);
    }
    ck_assert_str_eq(got, names);
    hostlist_free(&l);
}

START_TEST(node_lists_expand_in_order) {
    expands("n1", "n1");
    expands("n[1-3]", "n1 n2 n3");
    expands("n[08-11]", "n08 n09 n10 n11");
    expands("n[3,1],gpu-a", "n3 n1 gpu-a");
    expands("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02");
    expands("a[1-2]-ib,b", "a1-ib a2-ib b");
    expands("n[1,3-4,007]", "n1 n3 n4 n007");
}
END_TEST

START_TEST(node_lists_that_are_none_are_refused) {
    static const char *const bad[] = {"n[1-",
                                      "n[",
                                      "n[1-2",
                                      "n[a-b]",
                                      "n[2-1]",
                                      "n[]",
                                      "n[1,]",
                                      "n[,1]",
                                      "n[1-99999999]",
                                      "n]1[",
                                      "n[1;2]",
                                      ",",
                                      "n[1-65000]m[1-65000]",
                                      "n[-1]",
                                      "n[1--2]"};
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hostlist l = {0};

        ck_assert_msg(hostlist_add(&l, bad[i]) < 0, "%s", bad[i]);
        hostlist_free(&l);
    }
}
END_TEST

START_TEST(nodes_of_a_step_are_read) {
    struct step s = {0};

    ck_assert_int_eq(step_parse_nodes(&s, -1,
                                      "StepId=5.0 UserId=1000\n   State=RUNNING Partition=main "
                                      "NodeList=n[1-2]\n   Nodes=2 CPUs=3\n"),
                     0);
    ck_assert_str_eq(s.parts[0].nodelist, "n[1-2]");
    ck_assert_uint_eq(s.nodes.count, 2);
    step_free(&s);
    /* ReqNodeList and ExcNodeList come first in `show job` */
    ck_assert_int_eq(
        step_parse_nodes(&s, -1, "JobId=4\n   ReqNodeList=n9 ExcNodeList=n8\n   NodeList=n7\n"), 0);
    ck_assert_str_eq(s.parts[0].nodelist, "n7");
    step_free(&s);
    ck_assert_int_lt(
        step_parse_nodes(&s, -1, "JobId=4\n   ReqNodeList=(null)\n   NodeList=(null)\n"), 0);
    step_free(&s);
    ck_assert_int_lt(step_parse_nodes(&s, -1, ""), 0);
    step_free(&s);
}
END_TEST

/* Slurm 22.05.8 to 26.05.5: `scontrol -d show job 7`, shortened; n3 is shared. */
START_TEST(nodes_and_memory_of_a_heterogeneous_job_are_read) {
    static const char text[] =
        "JobId=7 HetJobId=7 HetJobOffset=0 JobName=interactive\n   HetJobIdSet=7-8\n"
        "   ReqNodeList=(null) ExcNodeList=(null)\n   NodeList=n[1,3]\n"
        "     Nodes=n[1,3] CPU_IDs=0 Mem=2000 GRES=\n   MinCPUsNode=1 MinMemoryCPU=2000M\n\n"
        "JobId=8 HetJobId=7 HetJobOffset=1 JobName=interactive\n   HetJobIdSet=7-8\n"
        "   ReqNodeList=(null) ExcNodeList=(null)\n   NodeList=n[2-4]\n"
        "     Nodes=n[2-4] CPU_IDs=0 Mem=500 GRES=\n   MinCPUsNode=1 MinMemoryNode=500M\n\n";
    static const uint64_t mb[] = {2000, 2000, 500, 500};
    const char *next = text;
    struct step s = {0};
    unsigned job;
    int group, n;
    char *record;

    for (n = 0; (record = step_component(&next, &job, &group)); n++) {
        ck_assert_uint_eq(job, 7 + (unsigned)n);
        ck_assert_int_eq(group, n);
        ck_assert_int_eq(step_parse_nodes(&s, group, record), 0);
        ck_assert_int_eq(step_parse_memory(&s, record), 0);
        free(record);
    }
    ck_assert_int_eq(n, 2);
    ck_assert_uint_eq(s.nparts, 2);
    ck_assert_str_eq(s.parts[0].nodelist, "n[1,3]");
    ck_assert_str_eq(s.parts[1].nodelist, "n2,n4");
    ck_assert_int_eq(s.parts[1].group, 1);
    ck_assert_uint_eq(s.parts[1].nodes, 2);
    ck_assert_uint_eq(s.nodes.count, 4);
    ck_assert_str_eq(s.nodes.names[2], "n2");
    for (n = 0; n < 4; n++) {
        ck_assert_uint_eq(s.mb[n], mb[n]);
        ck_assert_int_eq(s.per_cpu[n], n < 2); /* what the component said that has the node */
    }
    ck_assert_int_eq(step_parse_nodes(&s, 2, "NodeList=n1"), 0); /* no node of its own */
    ck_assert_uint_eq(s.nparts, 2);
    step_free(&s);
    next = "JobId=4 JobName=x\n   NodeList=n1\n";
    ck_assert_ptr_null(step_component(&next, &job, &group));
}
END_TEST

static void order_is(const struct step *s, const char *names, const char *parts) {
    char text[64] = "", groups[64] = "";
    uint32_t at = 0;

    for (size_t i = 0; i < s->nparts; i++) {
        sprintf(groups + strlen(groups), "%d", s->parts[i].group);
        for (uint32_t k = 0; k < s->parts[i].nodes; k++, at++) {
            strcat(text, s->nodes.names[at]);
            /* n3 has 300 MB */
            ck_assert_uint_eq(s->mb[at], 100 * strtoull(s->nodes.names[at] + 1, NULL, 10));
        }
    }
    ck_assert_uint_eq(at, s->nodes.count);
    ck_assert_str_eq(text, names);
    ck_assert_str_eq(groups, parts);
}

START_TEST(components_that_shall_have_the_keys_come_first) {
    struct step s = {0};

    ck_assert_int_eq(step_parse_nodes(&s, 0, "NodeList=n[1-3]"), 0);
    ck_assert_int_eq(step_parse_nodes(&s, 1, "NodeList=n4"), 0);
    ck_assert_int_eq(step_parse_nodes(&s, 3, "NodeList=n[5-6]"), 0);
    for (uint32_t i = 0; i < 6; i++)
        s.mb[i] = 100 * (i + 1);
    ck_assert_int_eq(step_put_first(&s, 2, 0), -ENOENT);
    order_is(&s, "n1n2n3n4n5n6", "013");
    ck_assert_int_eq(step_put_first(&s, 0, 0), 0);
    order_is(&s, "n1n2n3n4n5n6", "013");
    ck_assert_int_eq(step_put_first(&s, 3, 0), 0);
    order_is(&s, "n5n6n1n2n3n4", "301");
    ck_assert_int_eq(step_put_first(&s, 3, 1), 0); /* it is */
    ck_assert_int_eq(step_put_first(&s, 1, 1), 0);
    order_is(&s, "n5n6n4n1n2n3", "310");
    ck_assert_str_eq(s.parts[1].nodelist, "n4");
    ck_assert_uint_eq(step_memory(&s, 3), 1500ull << 20);
    step_free(&s);
}
END_TEST

/* Slurm 24.11.5, SlurmctldParameters=enable_stepmgr: `scontrol show step 1.1` */
START_TEST(of_all_steps_of_a_job_the_one_asked_for_is_read) {
    static const char text[] =
        "StepId=1.0 UserId=59300 StartTime=2026-11-23T06:31:34 TimeLimit=UNLIMITED\n"
        "   State=RUNNING Partition=main NodeList=n1\n"
        "   Nodes=1 CPUs=1 Tasks=1 Name=sleep Network=(null)\n"
        "   TRES=cpu=1,mem=100M,node=1\n   ResvPorts=(null)\n"
        "   CPUFreqReq=Default Dist=Cyclic\n   SrunHost:Pid=ctl:20587\n\n"
        "StepId=1.1 UserId=59300 StartTime=2026-11-23T06:31:36 TimeLimit=UNLIMITED\n"
        "   State=RUNNING Partition=main NodeList=n[2-3]\n"
        "   Nodes=2 CPUs=2 Tasks=2 Name=sh Network=(null)\n"
        "   TRES=cpu=2,mem=400M,node=2\n   ResvPorts=(null)\n"
        "   CPUFreqReq=Default Dist=Cyclic\n   SrunHost:Pid=ctl:20622\n\n";
    static const struct {
        const char *text, *job, *step, *nodes;
    } asked[] = {{text, "1", "0", "n1"},
                 {text, "1", "1", "n[2-3]"},
                 {"StepId=7_3.0 UserId=1\n   NodeList=n1\nStepId=7_3.10 UserId=1\n   NodeList=n2\n",
                  "9", "10", "n2"},
                 {"StepId=9.0+0 UserId=1\n   NodeList=n5\n", "9", "0", "n5"}};
    size_t i;

    for (i = 0; i < sizeof asked / sizeof *asked; i++) {
        char *record = step_record(asked[i].text, asked[i].job, asked[i].step);
        struct step s = {0};

        ck_assert_ptr_nonnull(record);
        ck_assert_int_eq(step_parse_nodes(&s, -1, record), 0);
        ck_assert_str_eq(s.parts[0].nodelist, asked[i].nodes);
        step_free(&s);
        free(record);
    }
    ck_assert_ptr_null(step_record(text, "1", "2"));
    ck_assert_ptr_null(step_record(text, "1", ""));
    ck_assert_ptr_null(step_record(text, "11", "1"));
    ck_assert_ptr_null(step_record("", "1", "0"));
}
END_TEST

START_TEST(memory_of_each_node_is_read) {
    struct step s = {0};

    ck_assert_int_eq(step_parse_nodes(&s, -1, "NodeList=n[1-4]"), 0);
    ck_assert_int_eq(step_parse_memory(&s, "   NumNodes=4 TRES=cpu=3,mem=8000M,node=2\n     "
                                           "Nodes=n[1,3] CPU_IDs=0-1 Mem=4000 GRES=\n"
                                           "     Nodes=n2,m9 CPU_IDs=0 Mem=700 GRES=gpu:1(IDX:0)\n "
                                           "  MinCPUsNode=1 MinMemoryCPU=100M\n"),
                     0);
    ck_assert_uint_eq(s.mb[0], 4000);
    ck_assert_uint_eq(s.mb[1], 700);
    ck_assert_uint_eq(s.mb[2], 4000);
    ck_assert_uint_eq(s.mb[3], 0);
    ck_assert_int_eq(s.per_cpu[2], 1);
    ck_assert_int_eq(s.per_cpu[3], 0);
    step_free(&s);
    ck_assert_int_eq(step_parse_nodes(&s, -1, "NodeList=n1"), 0);
    ck_assert_int_eq(step_parse_memory(&s, "   Nodes=n1 CPU_IDs=0 Mem=700 GRES=\n   MinCPUsNode=1 "
                                           "MinMemoryNode=0\n"),
                     0);
    ck_assert_int_eq(s.per_cpu[0], 0);
    step_free(&s);
}
END_TEST

START_TEST(who_shares_the_nodes_and_where_output_goes_is_read) {
    struct step s = {0};

    step_parse_kind(
        &s, "JobId=4 JobName=x\n   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0\n   OverSubscribe=NO "
            "Contiguous=0\n   StdErr=/e\n   StdOut=/home/al/my out.%j\n   Power=\n");
    ck_assert(s.batch && s.exclusive);
    ck_assert_str_eq(s.stdout_path, "/home/al/my out.%j");
    step_free(&s);
    step_parse_kind(&s, "JobId=4 BatchFlag=0\n   OverSubscribe=OK\n");
    ck_assert(!s.batch && !s.exclusive && !s.stdout_path);
    step_free(&s);
    /* 26.05: of a job that shares its nodes, of one that does not, and by user */
    step_parse_kind(&s, "JobId=4 BatchFlag=0\n   OverSubscribe=NO Exclusive=NO Contiguous=0\n");
    ck_assert(!s.exclusive);
    step_free(&s);
    step_parse_kind(&s, "JobId=4 BatchFlag=0\n   OverSubscribe=NO Exclusive=NODE Contiguous=0\n");
    ck_assert(s.exclusive);
    step_free(&s);
    step_parse_kind(&s, "JobId=4 BatchFlag=0\n   OverSubscribe=NO Exclusive=USER Contiguous=0\n");
    ck_assert(!s.exclusive);
    step_free(&s);
}
END_TEST

START_TEST(what_time_the_job_has_left_is_read) {
    static const struct {
        const char *text;
        uint64_t left;
    } jobs[] = {{"JobId=4\n   RunTime=00:00:10 TimeLimit=00:01:00 TimeMin=N/A\n", 50},
                {"   RunTime=1-00:00:00 TimeLimit=2-00:00:30 X=1\n", 86430},
                {"   RunTime=00:02:00 TimeLimit=00:01:00\n", 1},
                {"   RunTime=00:00:10 TimeLimit=UNLIMITED\n", 0},
                {"   RunTime=00:00:10 TimeLimit=Partition_Limit\n", 0},
                {"   TimeLimit=00:01:00\n", 0},
                {"   RunTime=00:00:10 TimeLimit=1:2\n", 0},
                {"   RunTime=x-00:00:10 TimeLimit=00:01:00\n", 0}};
    size_t i;

    for (i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct step s = {0};

        step_parse_kind(&s, jobs[i].text);
        ck_assert_msg(s.left == jobs[i].left, "%s: %llu", jobs[i].text, (unsigned long long)s.left);
        step_free(&s);
    }
    ck_assert_uint_eq(
        step_parse_kill_wait(
            "Kerb = 1\nKillOnBadExit           = 0\nKillWait                = 45 sec\n"),
        45);
    ck_assert_uint_eq(step_parse_kill_wait("KillOnBadExit = 0\n"), 0);
}
END_TEST

START_TEST(memory_of_nodes_stands_in_where_the_job_s_is_not_limited) {
    struct step s = {0};
    static const char text[] = "NodeName=n1 Arch=x86_64\n   OS=Linux NodeHostName=n1\n   "
                               "RealMemory=4000 AllocMem=0 FreeMem=10\n\n"
                               "NodeName=n2 Arch=x86_64\n   RealMemory=1 "
                               "AllocMem=0\n\nNodeName=other\n   RealMemory=9999\n";

    ck_assert_int_eq(step_parse_nodes(&s, -1, "NodeList=n[1-2]"), 0);
    ck_assert_uint_eq(step_memory(&s, s.nodes.count), 0);
    ck_assert_int_eq(step_parse_real_memory(&s, text), 0);
    ck_assert_uint_eq(s.mb[0], 4000);
    ck_assert_uint_eq(s.mb[1], 0); /* 1 MB is what Slurm says when nobody told it */
    ck_assert_uint_eq(step_memory(&s, s.nodes.count), 0);
    s.mb[0] = 700;
    s.mb[1] = 300;
    ck_assert_int_eq(step_parse_real_memory(&s, text), 0);
    ck_assert_uint_eq(s.mb[0], 700);
    ck_assert_uint_eq(step_memory(&s, s.nodes.count), 1000ull << 20);
    step_free(&s);
}
END_TEST

START_TEST(clusters_that_count_shared_memory_are_known) {
    ck_assert(!step_parse_overcounts(""));
    ck_assert(!step_parse_overcounts(
        "JobAcctGatherFrequency  = 30\nJobAcctGatherType = "
        "jobacct_gather/none\nJobAcctGatherParams = (null)\nX = OverMemoryKill\n"));
    ck_assert(
        step_parse_overcounts("A = 1\nJobAcctGatherParams     = OverMemoryKill\nB = NoShared\n"));
    ck_assert(!step_parse_overcounts("JobAcctGatherParams     = OverMemoryKill,UsePss\n"));
    ck_assert(!step_parse_overcounts("JobAcctGatherParams     = NoShared,OverMemoryKill\n"));
}
END_TEST

static char seen[64][128];
static int count;

static void keep(void *arg, char *line) {
    ck_assert_int_lt(count, 64);
    snprintf(seen[count++], sizeof seen[0], "%s", line);
}

START_TEST(lines_are_whole_however_they_come) {
    static const char text[] = "noise\nddict1 ready id=1\r\n\nlast one\nunfinished";
    size_t piece;

    for (piece = 1; piece < sizeof text; piece++) {
        struct lines l = {.max = 100};
        size_t at;

        count = 0;
        for (at = 0; at < sizeof text - 1; at += piece)
            ck_assert_int_eq(lines_feed(&l, text + at,
                                        at + piece < sizeof text ? piece : sizeof text - 1 - at,
                                        keep, NULL),
                             0);
        ck_assert_int_eq(count, 4);
        ck_assert_str_eq(seen[1], "ddict1 ready id=1");
        ck_assert_str_eq(seen[2], "");
        ck_assert_str_eq(seen[3], "last one");
        lines_free(&l);
    }
}
END_TEST

START_TEST(a_line_that_is_too_long_is_dropped_whole) {
    struct lines l = {.max = 10};

    count = 0;
    lines_feed(&l, "0123456789\nshort\n0123456", 24, keep, NULL);
    lines_feed(&l, "7890123456789012345\nnext\n", 25, keep, NULL);
    ck_assert_int_eq(count, 3);
    ck_assert_str_eq(seen[0], "0123456789");
    ck_assert_str_eq(seen[1], "short");
    ck_assert_str_eq(seen[2], "next");
    lines_free(&l);
}
END_TEST

START_TEST(only_lines_of_the_handshake_count) {
    const char *rest = NULL;
    char value[16];

    ck_assert_int_eq(line_parse("ddict1 ready id=1 managers=4", &rest), LINE_READY);
    ck_assert_str_eq(rest, "id=1 managers=4");
    ck_assert_int_eq(line_parse("ddict1 end", &rest), LINE_END);
    ck_assert_str_eq(rest, "");
    ck_assert_int_eq(line_parse("ddict1 error  no room on n1", &rest), LINE_ERROR);
    ck_assert_str_eq(rest, "no room on n1");
    ck_assert_int_eq(line_parse(" ddict1 ready", NULL), LINE_OTHER);
    ck_assert_int_eq(line_parse("ddict1 readyness", NULL), LINE_OTHER);
    ck_assert_int_eq(line_parse("ddict2 ready", NULL), LINE_OTHER);
    ck_assert_int_eq(line_parse("ddict1", NULL), LINE_OTHER);
    ck_assert_int_eq(line_parse("", NULL), LINE_OTHER);
    ck_assert_int_eq(line_value("node=0 step=12.3 x=", "step", value, sizeof value), 4);
    ck_assert_str_eq(value, "12.3");
    ck_assert_int_eq(line_value("node=0 mystep=1", "step", value, sizeof value), -1);
    ck_assert_int_eq(line_value("step=123456789012345678", "step", value, sizeof value), -1);
}
END_TEST

static void reason_is(const char *text, const char *want) {
    char why[DD_ERRMSG_MAX];

    reason_read(text, strlen(text), why, sizeof why);
    ck_assert_str_eq(why, want);
}

START_TEST(the_reason_is_told_from_the_noise) {
    reason_is(
        "slurmstepd-n1: error: execve(): /x/ddictd: No such file or directory\nsrun: error: n1: "
        "task 0: Exited with exit code 2\n",
        "execve(): /x/ddictd: No such file or directory (n1: task 0: Exited with exit code 2)");
    reason_is("srun: Job step aborted: Waiting up to 7 seconds\nsrun: error: n1: task 0: Killed\n",
              "n1: task 0: Killed");
    reason_is("srun: fatal: a\nsrun: fatal: a\nb\n\nc\nd\n", "a; b; c");
    reason_is("slurmstepd-n1: error: *** STEP 84.1 ON n1 CANCELLED AT 2026-11-21T10:00:00 "
              "***\nsrun: error: n1: task 0: Killed\n",
              "Slurm's step 84.1 was cancelled");
    reason_is("srun: error: n1: task 0: Killed\nslurmstepd: error: *** STEP 84.1 ON n1 CANCELLED "
              "AT 2026-11-21T10:00:00 DUE TO NODE FAILURE, SEE ***\n",
              "Slurm's step 84.1 was cancelled due to node failure");
    reason_is("slurmstepd: error: *** STEP 8.1 ON n1 CANCELLED AT 2026-11-21T10:00:00 DUE TO TIME "
              "LIMIT ***\n",
              "Slurm's step 8.1 was cancelled due to time limit");
    reason_is("srun: error: execve(): x\nslurmstepd: error: *** STEP 8.1 ON n1 CANCELLED AT "
              "2026-11-21T10:00:00 ***\n",
              "execve(): x");
    reason_is("", "");
}
END_TEST

/* As Slurm 26.05.5 writes them. */
START_TEST(the_reason_is_told_behind_a_time) {
    static const char *const slurm[] = {"[2026-11-22T07:45:46.022] error: *** STEP 221.2 ON n1 "
                                        "CANCELLED AT 2026-11-22T07:45:46 ***",
                                        "[Nov 22 07:45:46] fatal: x", "slurmstepd-n1: error: x",
                                        "slurmstepd: error: x", "srun: error: x"};
    static const char *const others[] = {"", "[1] x", "ddict load: [2] error: x", "x] error: y",
                                         "[2026-11-22T07:45:46.022] INFO: loading"};
    char what[160];
    size_t i;

    reason_is("[2026-11-22T07:57:21.216] error: execve(): /x/ddictd: No such file or directory\n"
              "srun: error: n1: task 0: Exited with exit code 2\n",
              "execve(): /x/ddictd: No such file or directory (n1: task 0: Exited with exit code "
              "2)");
    reason_is("[2026-11-22T07:45:46.022] error: *** STEP 84.1 ON n1 CANCELLED AT "
              "2026-11-22T07:45:46 DUE to SIGNAL Terminated ***\n"
              "srun: error: n1: task 0: Terminated\n",
              "Slurm's step 84.1 was cancelled");
    reason_is("[2026-11-22T07:45:46.022] error: *** STEP 84.1 ON n1 CANCELLED AT "
              "2026-11-22T07:45:46 DUE TO TASK FAILURE ***\n",
              "Slurm's step 84.1 was cancelled due to task failure");
    reason_is("[2026-11-22T07:45:46.022] error: *** STEP 84.1 ON n1 CANCELLED AT "
              "2026-11-22T07:45:46 DUE TO TIME LIMIT ***\n",
              "Slurm's step 84.1 was cancelled due to time limit");
    ck_assert(reason_cancelled(slurm[0], strlen(slurm[0]), what, sizeof what));
    for (i = 0; i < sizeof slurm / sizeof *slurm; i++)
        ck_assert_msg(reason_is_slurm(slurm[i]), "%s", slurm[i]);
    for (i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!reason_is_slurm(others[i]), "%s", others[i]);
}
END_TEST

static int has(char **argv, const char *word) {
    for (; *argv; argv++)
        if (strcmp(*argv, word) == 0)
            return 1;
    return 0;
}

START_TEST(the_hidden_step_says_everything) {
    struct settings told = {0};
    struct part part = {.group = -1, .nodelist = (char *)"n[1-2]", .nodes = 2};
    struct hidden h = {.ddictd = "/opt/bin/ddictd",
                       .told = &told,
                       .srun = "/usr/bin/srun",
                       .job = "2",
                       .parts = &part,
                       .nparts = 1,
                       .mpi = "pmix"};
    static const char *const want[] = {"--jobid=2",
                                       "--nodelist=n[1-2]",
                                       "--nodes=2",
                                       "--ntasks=2",
                                       "--ntasks-per-node=1",
                                       "--overlap",
                                       "--mem=0",
                                       "--gres=none",
                                       "--cpu-bind=none",
                                       "--export=ALL",
                                       "--unbuffered",
                                       "--wait=0",
                                       "--kill-on-bad-exit=0",
                                       "--no-kill",
                                       "--propagate=NONE",
                                       "--mpi=pmix",
                                       "--job-name=ddict",
                                       "--input=all"};
    char **argv;
    size_t i;
    int n;

    settings_put(&told, OPT_MEM, 1u << 30);
    settings_put(&told, OPT_MANAGERS, 5);
    settings_put_text(&told, OPT_NAME, "1.2.0");
    settings_put_text(&told, OPT_RECORD, "");
    argv = hidden_argv(&h);
    ck_assert_ptr_nonnull(argv);
    ck_assert_str_eq(argv[0], "/usr/bin/srun");
    for (i = 0; i < sizeof want / sizeof *want; i++)
        ck_assert_msg(has(argv, want[i]), "%s is missing", want[i]);
    ck_assert(!has(argv, "--external-launcher"));
    for (n = 0; strcmp(argv[n], "--") != 0; n++)
        ck_assert_msg(strncmp(argv[n], "-c", 2) != 0 && strncmp(argv[n], "--cpus", 6) != 0,
                      "%s implies --exact", argv[n]);
    ck_assert_str_eq(argv[n + 1], "/opt/bin/ddictd");
    /* first of all: who looks for it by its command line finds it */
    ck_assert_str_eq(argv[n + 2], "--name");
    ck_assert_str_eq(argv[n + 3], "1.2.0");
    ck_assert_str_eq(argv[n + 5], "5");
    ck_assert_str_eq(argv[n + 7], "1073741824");
    ck_assert_ptr_null(argv[n + 8]); /* what nobody said is not told */
    argv_free(argv);
    for (i = 0; i < 2; i++) {
        h.mpi = i == 0 ? "auto" : "none";
        argv = hidden_argv(&h);
        ck_assert(has(argv, "--mpi=none"));
        ck_assert_str_eq(hidden_wireup(&h), "stdio");
        argv_free(argv);
    }
    h.srun = NULL;
    argv = hidden_argv(&h);
    ck_assert_str_eq(argv[0], "/opt/bin/ddictd");
    ck_assert(!has(argv, "--"));
    ck_assert_str_eq(hidden_wireup(&h), "none");
    argv_free(argv);
}
END_TEST

/* One for each component; its managers count their nodes from where those of the one before end. */
START_TEST(a_heterogeneous_job_has_an_srun_for_each_component) {
    struct settings told = {0};
    struct part parts[] = {{.job = 7, .group = 0, .nodelist = (char *)"n1", .nodes = 1},
                           {.job = 9, .group = 2, .nodelist = (char *)"m[1-3]", .nodes = 3},
                           {.job = 10, .group = 3, .nodelist = (char *)"k1", .nodes = 1}};
    static const char *const want[][4] = {
        {"--nodelist=n1", "--nodes=1", "--het-group=0", NULL},
        {"--export=ALL,DDICT_COMPONENT=9", "--nodes=3", "--het-group=2", "1"},
        {"--nodelist=k1", "--ntasks=1", "--het-group=3", "4"}};
    struct hidden h = {.ddictd = "/opt/bin/ddictd",
                       .told = &told,
                       .srun = "/usr/bin/srun",
                       .job = "7",
                       .parts = parts,
                       .nparts = 3,
                       .mpi = "pmix"};
    char **argv = hidden_argv(&h), **at, *next;
    size_t i, k;

    ck_assert_ptr_nonnull(argv);
    ck_assert(argv_has_sruns(argv));
    ck_assert_str_eq(argv[2], SRUNS_APART);
    for (i = 0, at = argv + 3; i < 3; i++) {
        long n = strtol(*at++, NULL, 10);

        ck_assert_str_eq(at[0], "/usr/bin/srun");
        next = at[n];
        at[n] = NULL;
        for (k = 0; k < 3; k++)
            ck_assert_msg(has(at, want[i][k]), "%s is missing", want[i][k]);
        ck_assert(has(at, "--jobid=7") && has(at, "--mpi=none"));
        ck_assert_int_eq(has(at, "--node-base"), i > 0);
        if (i > 0)
            ck_assert_str_eq(at[n - 1], want[i][3]);
        at[n] = next;
        at += n;
    }
    ck_assert_ptr_null(*at);
    ck_assert_str_eq(hidden_wireup(&h), "stdio");
    argv_free(argv);
    h.nparts = 1; /* a step that runs in one component only */
    argv = hidden_argv(&h);
    ck_assert(!argv_has_sruns(argv) && has(argv, "--het-group=0") && has(argv, "--mpi=pmix"));
    argv_free(argv);
}
END_TEST

/* Value `text` of an option, on its way from who says it to ddictd. */
static void goes_on(enum option_id o, enum said_by by, const char *text, const char *value) {
    struct settings told = {0};
    struct hidden h = {.ddictd = "d", .told = &told};
    char why[ASK_WHY], **argv;

    ck_assert_msg(settings_take(&told, o, by, text, why, sizeof why) == 0, "%s", why);
    argv = hidden_argv(&h);
    ck_assert_str_eq(argv[1], option_rows[o].option);
    if (!value)
        ck_assert_ptr_null(argv[2]);
    else
        ck_assert_str_eq(argv[2], value);
    argv_free(argv);
}

START_TEST(what_was_said_goes_on_to_ddictd) {
    struct settings told = {0};
    struct hidden h = {.ddictd = "d", .told = &told};
    char **argv;

    goes_on(OPT_TRANSPORT, BY_OPTION, "ofi:cxi", "ofi:cxi");
    goes_on(OPT_PORTS, BY_SITE, "50000-50999", "50000-50999");
    goes_on(OPT_CONNECTIONS, BY_SITE, "7", "7");
    goes_on(OPT_RMA, BY_SITE, "no", "no");
    goes_on(OPT_SCRIPT, BY_OPTION, "n1/17/4711", "n1/17/4711");
    goes_on(OPT_ASKED, BY_OPTION, "--mem=4G --record=a b", "--mem=4G --record=a b");
    goes_on(OPT_MEM, BY_SITE, "2G", "2147483648");
    goes_on(OPT_STAY, BY_STARTER, NULL, NULL);
    settings_put_text(&told, OPT_LOAD, "x.tar"); /* not its business */
    argv = hidden_argv(&h);
    ck_assert_ptr_null(argv[1]);
    argv_free(argv);
}
END_TEST

START_TEST(only_what_is_needed_passes_into_the_hidden_step) {
    char *const from[] = {(char *)"PATH=/bin",
                          (char *)"SLURM_NTASKS=8",
                          (char *)"SLURM_CONF=/c",
                          (char *)"DDICT_LOG=debug",
                          (char *)"DDICT_NAME=x",
                          (char *)"DDICT_MANAGERS=4",
                          (char *)"LD_PRELOAD=evil.so",
                          (char *)"SBATCH_X=1",
                          (char *)"SLURM_EXPORT_ENV=NONE",
                          (char *)"PATHOLOGY=1",
                          (char *)"SLURM_SPANK__SLURM_SPANK_OPTION_ddict_ddict_mem=1G",
                          (char *)"PMIX_RANK=0",
                          (char *)"SLURM_RESTART_COUNT=2",
                          (char *)"SLURM_SACK_SOCKET=/s",
                          (char *)"SLURM_SACK_KEY=/k",
                          (char *)"SLURM_SACK_JWKS=/j",
                          (char *)"SLURM_CONF_SERVER=a:6817",
                          (char *)"SLURM_CONFIGURED=1",
                          (char *)"LD_LIBRARY_PATH=/opt/slurm/deps",
                          NULL};
    char **env = command_environment(from, 0), internal[32];
    int n = 0;

    while (env[n])
        n++;
    ck_assert_int_eq(n, 10); /* LD_LIBRARY_PATH is not among them */
    snprintf(internal, sizeof internal, "DDICT_INTERNAL=%d", (int)getpid());
    ck_assert(has(env, "PATH=/bin") && has(env, "SLURM_CONF=/c") && has(env, "DDICT_LOG=debug") &&
              has(env, internal) && has(env, "SLURM_PMIX_DIRECT_CONN=false") &&
              has(env, "SLURM_RESTART_COUNT=2"));
    ck_assert(has(env, "SLURM_SACK_SOCKET=/s") && has(env, "SLURM_SACK_KEY=/k") &&
              has(env, "SLURM_SACK_JWKS=/j") && has(env, "SLURM_CONF_SERVER=a:6817"));
    command_environment_add(env, internal);
    ck_assert(env[n] == internal && !env[n + 1]);
    free(env);
    env = command_environment(from, 1); /* ddictd as our own child */
    ck_assert(has(env, "LD_PRELOAD=evil.so") && !has(env, "DDICT_NAME=x") &&
              !has(env, "DDICT_MANAGERS=4") && !has(env, "SLURM_PMIX_DIRECT_CONN=false"));
    free(env);
}
END_TEST

/* A script in scontrol's place; tries has a line for each time it was asked. */
static int scontrol_asked(const char *script, char **text, int *tries) {
    char dir[] = "/tmp/ddict-scontrol.XXXXXX", path[64], log[64];
    char *env[] = {NULL};
    FILE *f;
    int rc;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/scontrol", dir);
    snprintf(log, sizeof log, "%s/tries", dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "#!/bin/sh\necho >>%s; n=$(/usr/bin/wc -l <%s)\n%s\n", log, log, script);
    ck_assert(fclose(f) == 0 && chmod(path, 0700) == 0);
    rc = step_ask(path, env, "7.0", text);
    f = fopen(log, "r");
    ck_assert_ptr_nonnull(f);
    for (*tries = 0; fgetc(f) != EOF; ++*tries)
        continue;
    fclose(f);
    unlink(path);
    unlink(log);
    rmdir(dir);
    return rc;
}

START_TEST(a_slurmctld_that_does_not_answer_is_asked_again) {
    char *text;
    int tries;

    ck_assert_int_eq(
        scontrol_asked("[ $n = 3 ] || { echo slurm_get_job_steps error: none >&2; exit 1; }\n"
                       "echo \"$2 $3\"",
                       &text, &tries),
        0);
    ck_assert_str_eq(text, "step 7.0\n");
    ck_assert_int_eq(tries, 3);
    free(text);

    ck_assert_int_eq(
        scontrol_asked("echo Unable to contact slurm controller >&2; exit 1", &text, &tries),
        -EAGAIN);
    ck_assert_str_eq(dd_errmsg(), "Slurm does not say where step 7.0 runs: Unable to contact slurm "
                                  "controller");
    ck_assert_int_gt(tries, 2);
    ck_assert_ptr_null(text);

    ck_assert_int_eq(scontrol_asked("exit 1", &text, &tries), -EAGAIN);
    ck_assert_int_gt(tries, 2);

    ck_assert_int_eq(scontrol_asked("echo Job step 7.0 not found; exit 1", &text, &tries), -ENOENT);
    ck_assert_str_eq(dd_errmsg(), "Slurm does not know step 7.0");
    ck_assert_int_eq(tries, 1);
    /* a site's scontrol may warn of something each time */
    ck_assert_int_eq(scontrol_asked("echo Job step 7.0 not found; echo old slurm.conf >&2; exit 1",
                                    &text, &tries),
                     -ENOENT);
    ck_assert_int_eq(tries, 1);
    ck_assert_int_eq(scontrol_asked("echo \"$2 $3\"; echo old slurm.conf >&2", &text, &tries), 0);
    ck_assert_str_eq(text, "step 7.0\n");
    free(text);
}
END_TEST

int main(void) {
    return TESTS_RUN(
        "launch_text", 60, node_lists_expand_in_order, node_lists_that_are_none_are_refused,
        nodes_of_a_step_are_read, of_all_steps_of_a_job_the_one_asked_for_is_read,
        memory_of_each_node_is_read, who_shares_the_nodes_and_where_output_goes_is_read,
        what_time_the_job_has_left_is_read, a_slurmctld_that_does_not_answer_is_asked_again,
        memory_of_nodes_stands_in_where_the_job_s_is_not_limited,
        clusters_that_count_shared_memory_are_known, lines_are_whole_however_they_come,
        a_line_that_is_too_long_is_dropped_whole, only_lines_of_the_handshake_count,
        the_reason_is_told_from_the_noise, the_reason_is_told_behind_a_time,
        the_hidden_step_says_everything, a_heterogeneous_job_has_an_srun_for_each_component,
        nodes_and_memory_of_a_heterogeneous_job_are_read,
        components_that_shall_have_the_keys_come_first, what_was_said_goes_on_to_ddictd,

        only_what_is_needed_passes_into_the_hidden_step);
}
