/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_typed.c - every option of the plugin, typed at srun and sbatch that plugin_host.c plays:
 * it comes to `ddict up` as it was typed, a wrong value ends the command with one line, and so does
 * an option without a dictionary.
 */
#include "launch_test.h"
#include "plugin_fake.h"
#include "plugin_host.h"
#include <launch/option_table.h>

#include <string.h>
#include <unistd.h>

#define JOB (1000000u + (uint32_t)getpid())

static struct outcome o;

static void has(const char *text, const char *part) {
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in '%s'", part, text);
}

static void plays(int code, struct play p) {
    p.words[0] = fake_word;
    p.job = JOB;
    p.step = 3;
    host_play(&p, &o);
    ck_assert_msg(o.code == code, "%s %s: code %d, wanted %d; said: %s", p.command,
                  !p.typed[0]  ? p.env
                  : p.typed[1] ? p.typed[1]
                               : p.typed[0],
                  o.code, code, o.said);
}

/* No job and no step begins, and one line says why. */
static void refused(const char *why) {
    ck_assert_int_eq(o.begun, 0);
    has(o.said, why);
    ck_assert_msg(strchr(o.said, '\n') == o.said + strlen(o.said) - 1, "more than one line: %s",
                  o.said);
}

/* typed, how `ddict up` is asked, a value that is refused, and how */
static const struct option {
    const char *typed, *asked, *wrong, *why;
} all[] = {
    {"--ddict-managers=3", " --managers=3 ", "--ddict-managers=x", "--ddict-managers=x"},
    {"--ddict-mem=2G", " --mem=2G ", "--ddict-mem=-1", "--ddict-mem=-1"},
    {"--ddict-nodes=het:1:4G", " --nodes=het:1:4G ", "--ddict-nodes=het",
     "--ddict-nodes=het: want"},
    {"--ddict-replicas=2", " --replicas=2 ", "--ddict-replicas=3",
     "--ddict-replicas=3: want 1 or 2"},
    {"--ddict-refill", " --refill=yes ", "--ddict-refill=maybe",
     "--ddict-refill=maybe: want yes or no"},
    {"--ddict-working-set=3,wait-for-keys", " --working-set=3,wait-for-keys ",
     "--ddict-working-set=1,wait-for-keys", "--ddict-working-set=1,wait-for-keys: a checkpoint"},
    {"--ddict-record=my record", " --record=my record ", NULL, NULL},
    {"--ddict-persist=/a b,freq=2", " --persist=/a b,freq=2 ", "--ddict-persist=/a,freq=0",
     "--ddict-persist=/a,freq=0: "},
    {"--ddict-scope=step", NULL, "--ddict-scope=all",
     "--ddict-scope=all: want job, step or component"},
    {"--ddict-gpu-bind=rotate", NULL, "--ddict-gpu-bind=x", "--ddict-gpu-bind=x: want"},
    {"--ddict-torch-env=no", NULL, "--ddict-torch-env=x", "--ddict-torch-env=x: want"},
    {"--ddict-results=out", " --results=out ", NULL, NULL},
    {"--ddict-transport=tcp", " --transport=tcp ", "--ddict-transport=x",
     "--ddict-transport=x: want"},
    {"--ddict-load=a.tar,b.tar", " --load=a.tar,b.tar ", "--ddict-load=", "--ddict-load=: want"},
    {"--ddict-restore=-saved", " --restore=-saved ", "--ddict-restore=", "--ddict-restore=: want"},
    {"--ddict-save=out/:kept", " --save=out/:kept ", "--ddict-save=", "--ddict-save=: want"},
    {"--ddict-spill=/scratch:4G", " --spill=/scratch:4G ", "--ddict-spill=scratch",
     "--ddict-spill=scratch: want"},
    {"--ddict-wire=encrypt", " --wire=encrypt ", "--ddict-wire=x",
     "--ddict-wire=x: want plain, auth or encrypt"},
};

static void option_play(const struct option *p) {
    char env[256];

    plays(0, (struct play){.command = "srun", .typed = {"--ddict-mem=1G", p->typed}});
    ck_assert_int_eq(o.ran, 1);
    has(asked(), p->asked ? p->asked : " --mem=1G ");
    plays(0, (struct play){.command = "sbatch", .typed = {"--ddict-mem=1G", p->typed}});
    ck_assert_int_eq(o.begun, 1);
    if (!p->asked)
        return;
    snprintf(env, sizeof env, "SLURM_DDICT_JOB=%s\n", host_value(o.env, "SLURM_DDICT_JOB"));
    plays(0, (struct play){.command = "batch", .env = env});
    has(asked(), p->asked);
}

static void option_refuse(const char *command, const struct option *p) {
    if (p->wrong) {
        plays(1, (struct play){.command = command, .typed = {"--ddict-managers=2", p->wrong}});
        refused(p->why);
    }
    if (strncmp(p->typed, "--ddict-m", 9) != 0) {
        plays(1, (struct play){.command = command, .typed = {p->typed}});
        refused("also ask for a dictionary");
    }
}

START_TEST(each_option_is_known_and_goes_on) {
    int step = dictionary_begin(JOB, "3");
    size_t i, n = 0;

    for (i = 0; i < sizeof all / sizeof *all; i++) {
        option_play(&all[i]);
        option_refuse("srun", &all[i]);
        option_refuse("sbatch", &all[i]);
    }
    for (i = 0; i < OPTS; i++)
        n += (option_rows[i].of & OF_SRUN) != 0;
    ck_assert_uint_eq(sizeof all / sizeof *all, n);
    ck_assert_int_eq(o.calls[HOST_REGISTER], (int)n);
    dictionary_end(step);
}
END_TEST

START_TEST(an_option_of_nobody_is_refused) {
    plays(1, (struct play){.command = "srun", .typed = {"--ddict-loads=x", "--ddict-mem=1G"}});
    has(o.said, "unrecognized option '--ddict-loads=x'");
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("plugin_typed");
    TCase *c = tcase_create("plugin_typed");

    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, fake_make, fake_remove);
    tcase_add_checked_fixture(c, state_note, state_check);
    tcase_add_test(c, each_option_is_known_and_goes_on);
    tcase_add_test(c, an_option_of_nobody_is_refused);
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
