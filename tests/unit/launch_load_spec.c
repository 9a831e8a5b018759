/* SPDX-License-Identifier: Apache-2.0 */
/* launch_load_spec.c - the words of --load and --restore. Invariant: what is wrong is named before
 * a dictionary is started, and no comma, colon or scheme of a source is taken for a word. */
#include "launch_test.h"
#include <launch/load_spec.h>

#include <string.h>

static char why[256], text[4096];
static struct intake_set sets[INTAKE_SETS];

static int cut(const char *words) {
    snprintf(text, sizeof text, "%s", words);
    why[0] = '\0';
    return intake_sets(text, sets, "--load", why, sizeof why);
}

START_TEST(sources_without_words_are_one_set) {
    ck_assert_int_eq(cut("a.tar"), 1);
    ck_assert_str_eq(sets[0].sources, "a.tar");
    ck_assert_int_eq(sets[0].nwords, 0);
    ck_assert_int_eq(cut("images.idx,labels.idx,s3://bucket/a:b"), 1);
    ck_assert_str_eq(sets[0].sources, "images.idx,labels.idx,s3://bucket/a:b");
}
END_TEST

START_TEST(words_end_a_set) {
    ck_assert_int_eq(cut("a,b;set=train;prefix=t/;replace,s3://bucket/v;as=s3,c,d"), 3);
    ck_assert_str_eq(sets[0].sources, "a,b");
    ck_assert_int_eq(sets[0].nwords, 3);
    ck_assert_str_eq(sets[0].words[0], "set=train");
    ck_assert_str_eq(sets[0].words[1], "prefix=t/");
    ck_assert_str_eq(sets[0].words[2], "replace");
    ck_assert_str_eq(sets[1].sources, "s3://bucket/v");
    ck_assert_str_eq(sets[1].words[0], "as=s3");
    ck_assert_str_eq(sets[2].sources, "c,d");
    ck_assert_int_eq(sets[2].nwords, 0);
    ck_assert_int_eq(cut("a;on-error=skip;threads=4"), 1);
}
END_TEST

START_TEST(what_is_wrong_is_named) {
    static const char *const bad[][2] = {
        {"", "a source is empty"},
        {",a", "a source is empty"},
        {"a,", "a source is empty"},
        {"a,,b", "a source is empty"},
        {";set=x", "a source is empty"},
        {"a;", "an empty word"},
        {"a;;set=x", "an empty word"},
        {"a;set=x;", "an empty word"},
        {"a;color=red", "color=red"},
        {"a;set=", "set="},
        {"a;replace=1", "replace=1"},
        {"a;on-error=ignore", "on-error=ignore"},
        {"a;threads=0", "threads=0"},
        {"a;threads=x", "threads=x"},
        {"a;prefix", "\"prefix\""},
        {"a;set=1;set=2;set=3;set=4;set=5;set=6;set=7;set=8;set=9", "set=9"},
        {"a;replace,a;replace,a;replace,a;replace,a;replace,a;replace,a;replace,a;replace,a;"
         "replace,a;replace,a;replace,a;replace,a;replace,a;replace,a;replace,a;replace,a",
         "at most 16 sets"},
    };
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(cut(bad[i][0]) == -EINVAL, "'%s' was taken", bad[i][0]);
        ck_assert_msg(strstr(why, bad[i][1]) && strncmp(why, "--load: ", 8) == 0, "'%s': %s",
                      bad[i][0], why);
    }
}
END_TEST

START_TEST(judging_changes_nothing) {
    char long_one[INTAKE_MAX + 2];

    ck_assert_int_eq(intake_judge_load("--ddict-load", "a,b;set=x", why, sizeof why), 0);
    ck_assert_int_eq(intake_judge_load("--ddict-load", "a;set", why, sizeof why), -EINVAL);
    memset(long_one, 'a', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = '\0';
    ck_assert_int_eq(intake_judge_load("--ddict-load", long_one, why, sizeof why), -EINVAL);
    ck_assert_ptr_nonnull(strstr(why, "want 1 to 2000 bytes"));
    long_one[INTAKE_MAX] = '\0';
    ck_assert_int_eq(intake_judge_load("--ddict-load", long_one, why, sizeof why), 0);
    ck_assert_int_eq(intake_judge_restore("--ddict-restore", long_one, why, sizeof why), 0);
    ck_assert_int_eq(intake_judge_load("--ddict-load", "", why, sizeof why), -EINVAL);
}
END_TEST

START_TEST(paths_to_restore_are_judged) {
    static const char *const bad[] = {"", ",", "a,", ",a", "-", "a,-", "-,a", "a,,b"};
    size_t i;

    ck_assert_int_eq(intake_judge_restore("--ddict-restore", "a,-b,/c;d:e", why, sizeof why), 0);
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(intake_judge_restore("--ddict-restore", bad[i], why, sizeof why) == -EINVAL,
                      "'%s' was taken", bad[i]);
}
END_TEST

START_TEST(what_is_saved_where) {
    static const struct {
        const char *text, *dir, *prefix;
        int files;
    } good[] = {{"out", "out", "", 0},
                {"/data/a:b", "/data/a:b", "", 0},
                {"./a:b", "./a:b", "", 0},
                {"../a:b", "../a:b", "", 0},
                {"k/:out", "out", "k/", 1},
                {":out", "out", "", 1},
                {"run:1/:/o", "/o", "run:1/", 1},
                {".x:o", "o", ".x", 1},
                {"k/:none", "none", "k/", 1},
                {"./a://b", "./a://b", "", 0}};
    static const char *const bad[] = {
        "", ":", "k/:", "k:/a:", "s3://b/x", "k/:s3://b/x", "file:///x"};
    const char *dir;
    char prefix[64], long_one[100];
    int files;
    size_t i;

    for (i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(intake_save("--save", good[i].text, &dir, prefix, sizeof prefix, &files,
                                     why, sizeof why),
                         0);
        ck_assert_str_eq(dir, good[i].dir);
        ck_assert_str_eq(prefix, good[i].prefix);
        ck_assert_int_eq(files, good[i].files);
    }
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(intake_save("--save", bad[i], &dir, prefix, sizeof prefix, &files, why,
                                  sizeof why) == -EINVAL &&
                          strstr(why, "--save"),
                      "'%s': %s", bad[i], why);
    intake_save("--ddict-save", "s3://b/x", &dir, prefix, sizeof prefix, &files, why, sizeof why);
    ck_assert_str_eq(why,
                     "--ddict-save=s3://b/x: want a folder; an address is only for --ddict-load");
    memset(long_one, 'p', sizeof long_one);
    strcpy(long_one + 64, ":out");
    ck_assert_int_eq(
        intake_save("--save", long_one, &dir, prefix, sizeof prefix, &files, why, sizeof why),
        -EINVAL);
    ck_assert_int_eq(
        intake_save("--save", long_one + 1, &dir, prefix, sizeof prefix, &files, why, sizeof why),
        0);
}
END_TEST

int main(void) {
    return TESTS_RUN("launch_intake", 60, sources_without_words_are_one_set, words_end_a_set,
                     what_is_wrong_is_named, judging_changes_nothing, paths_to_restore_are_judged,
                     what_is_saved_where);
}
