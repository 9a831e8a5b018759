/* SPDX-License-Identifier: Apache-2.0 */
/* launch_record.c - which file gets the record. Invariants: the path is absolute or ""; a refusal
 * names the option, and path is "" then. */
#include "launch_test.h"
#include <launch/record_path.h>

#include <string.h>

static char why[ASK_WHY], path[200];
static struct settings o;

/* Unjudged; NULL: nobody says it. */
static void say(enum option_id id, enum said_by by, const char *text) {
    o.of[id] = (struct setting){.by = text ? by : BY_NOBODY, .text = text};
}

static void begin(const char *log) {
    memset(&o, 0, sizeof o);
    say(OPT_JOBID, BY_OPTION, "12");
    say(OPT_RECORD, BY_OPTION, log);
}

static void gives(const char *want) {
    ck_assert_msg(record_path(path, sizeof path, &o, "/home/al%j", "al", why, sizeof why) == 0,
                  "%s", why);
    ck_assert_str_eq(path, want);
}

static void refused(const char *part) {
    strcpy(path, "x");
    ck_assert_int_eq(record_path(path, sizeof path, &o, "/home/al", "al", why, sizeof why),
                     -EINVAL);
    ck_assert_msg(strstr(why, part) != NULL, "'%s' is not in '%s'", part, why);
    ck_assert_str_eq(path, "");
}

START_TEST(by_default_it_is_in_the_working_folder_of_a_job) {
    begin(NULL);
    gives("/home/al%j/ddict-12.jsonl"); /* folders are taken as they are */
    say(OPT_CHDIR, BY_OPTION, "/home/me/%s");
    gives("/home/me/%s/ddict-12.jsonl");
    settings_put(&o, OPT_LOCAL, 1);
    gives("");
    begin(NULL);
    say(OPT_JOBID, BY_OPTION, NULL);
    gives("");
    say(OPT_RECORD, BY_OPTION, "x"); /* who asks for one gets it */
    gives("/home/al%j/x");
}
END_TEST

START_TEST(names_expand_job_step_and_user) {
    begin("%j-%s-%u-%%.log");
    gives("/home/al%j/12-job-al-%.log");
    say(OPT_STEP, BY_OPTION, "3");
    gives("/home/al%j/12-3-al-%.log");
    begin("/abs/%j");
    gives("/abs/12");
    say(OPT_CHDIR, BY_OPTION, "/elsewhere");
    gives("/abs/12");
    begin("none");
    gives("");
}
END_TEST

START_TEST(the_site_says_where_unless_the_user_does) {
    begin(NULL);
    say(OPT_RECORD_DIR, BY_SITE, "/var/log/%u");
    gives("/var/log/al/ddict-12.jsonl");
    say(OPT_RECORD, BY_OPTION, "mine");
    gives("/home/al%j/mine");
    begin(NULL);
    say(OPT_RECORD_DIR, BY_SITE, "none");
    gives("");
    say(OPT_RECORD, BY_OPTION, "mine");
    gives("/home/al%j/mine");
}
END_TEST

START_TEST(wrong_names_are_refused) {
    char longer[300];

    begin("x%q");
    refused("--record=x%q: %q is none of %j");
    settings_put(&o, OPT_PLUGIN, 1);
    refused("--ddict-record=x%q");
    begin("x%");
    refused("%% is none of");
    begin("folder/");
    refused("want the name of a file");
    begin("");
    refused("want the name of a file");
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    begin(longer);
    refused("too long");
    begin(NULL);
    say(OPT_RECORD_DIR, BY_SITE, "/var/%z");
    refused("record_dir=/var/%z: %z");
}
END_TEST

START_TEST(the_folder_of_a_spill_has_job_and_user_in_its_name_and_perhaps_a_size) {
    static const struct {
        const char *text, *path;
        uint64_t size;
    } good[] = {{NULL, "", 0},
                {"none", "", 0},
                {"/scratch", "/scratch", 0},
                {"/scratch/%u/%j.%s:2T", "/scratch/al/12.job", 2ull << 40},
                {"/a%%:512M", "/a%", 512ull << 20}};
    static const char *const bad[] = {"",     "scratch",     "none:1G", "/scratch:", "/scratch:2X",
                                      "/a:b", "/scratch/%z", "/x\ny"};
    uint64_t size;

    begin(NULL);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        say(OPT_SPILL, BY_OPTION, good[i].text);
        ck_assert_msg(spill_path(path, sizeof path, &size, &o, "al", why, sizeof why) == 0, "%s",
                      why);
        ck_assert_str_eq(path, good[i].path);
        ck_assert_uint_eq(size, good[i].size);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        say(OPT_SPILL, BY_OPTION, bad[i]);
        ck_assert_int_eq(spill_path(path, sizeof path, &size, &o, "al", why, sizeof why), -EINVAL);
        ck_assert_ptr_eq(strstr(why, "--spill="), why);
        ck_assert_str_eq(path, "");
    }
    settings_put(&o, OPT_PLUGIN, 1);
    ck_assert_int_eq(spill_path(path, sizeof path, &size, &o, "al", why, sizeof why), -EINVAL);
    ck_assert_ptr_eq(strstr(why, "--ddict-spill="), why);
}
END_TEST

START_TEST(none_is_no_folder_only_when_it_stands_alone) {
    const char *prefix;

    begin(NULL);
    say(OPT_SAVE, BY_OPTION, "none");
    say(OPT_RESULTS, BY_OPTION, "none");
    ck_assert_int_eq(save_path(path, sizeof path, &prefix, &o, "/home/al", "al", why, sizeof why),
                     0);
    ck_assert_str_eq(path, "");
    ck_assert_int_eq(results_path(path, sizeof path, &o, "/home/al", "al", why, sizeof why), 0);
    ck_assert_str_eq(path, "");
    say(OPT_SAVE, BY_OPTION, "out/:none");
    ck_assert_int_eq(save_path(path, sizeof path, &prefix, &o, "/home/al", "al", why, sizeof why),
                     0);
    ck_assert_str_eq(path, "/home/al/none");
    ck_assert_str_eq(prefix, "out/");
    say(OPT_RESULTS, BY_OPTION, "r%j");
    ck_assert_int_eq(results_path(path, sizeof path, &o, "/home/al", "al", why, sizeof why), 0);
    ck_assert_str_eq(path, "/home/al/r12");
}
END_TEST

int main(void) {
    return TESTS_RUN("launch_record", 60, by_default_it_is_in_the_working_folder_of_a_job,
                     names_expand_job_step_and_user, the_site_says_where_unless_the_user_does,
                     wrong_names_are_refused,
                     the_folder_of_a_spill_has_job_and_user_in_its_name_and_perhaps_a_size,
                     none_is_no_folder_only_when_it_stands_alone);
}
