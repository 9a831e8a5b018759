/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch_site.c - the administrator's words. Invariants: a refusal says where (file and line, or
 * plugstack.conf), which word and what is wanted, in one sentence, and changes nothing; a missing
 * file says nothing.
 */
#include "launch_test.h"
#include <launch/site.h>
#include <launch/text_keep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char why[ASK_WHY], path[4096];

/* Of all objects of this test (-Wl,--wrap=calloc,--wrap=malloc). */
static int calloc_ends, malloc_ends;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    return calloc_ends ? NULL : __real_calloc(n, size);
}
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    return malloc_ends ? NULL : __real_malloc(size);
}

static void refused(const char *word, const char *part) {
    struct settings s = {.of[OPT_MANAGERS] = {.by = BY_SITE, .number = 7}}, before = s;

    ck_assert_int_eq(settings_take_word(&s, word, "plugstack.conf", why, sizeof why), -EINVAL);
    ck_assert_msg(strncmp(why, "plugstack.conf: ", 16) == 0 && strstr(why, part),
                  "'%s' is not in '%s'", part, why);
    ck_assert_ptr_null(strchr(why, '\n'));
    ck_assert_int_eq(memcmp(&s, &before, sizeof s), 0);
}

START_TEST(wrong_words_are_refused_one_by_one) {
    static const char *const bad[][2] = {
        {"nonsense", "unknown word 'nonsense'"},
        {"log_dir=/x", "unknown word 'log_dir=/x': it is record_dir"},
        {"memory=4G", "unknown word 'memory=4G'"},
        {"mem", "mem needs a value"},
        {"mem=", "mem needs a value"},
        {"=", "unknown word"},
        {"mem=4Q", "mem=4Q: want a size"},
        {"mem=0%", "mem=0%"},
        {"mem=101%", "at most 100%"},
        {"mem=4%x", "want a share"},
        {"max_mem=50%", "max_mem=50%: want a size"},
        {"max_mem=1", "too small"},
        {"max_mem_share=4G", "want a share"},
        {"max_mem_share=0%", "want a share"},
        {"max_mem_share=100.01%", "want a share"},
        {"managers=0", "1 to 65535"},
        {"max_managers=65536", "1 to 65535"},
        {"ddict=ddict", "absolute path"},
        {"ddictd=../ddictd", "absolute path"},
        {"srun=srun", "absolute path"},
        {"record_dir=logs", "absolute path, or none"},
        {"mpi=pmix v4", "srun --mpi=list"},
        {"mpi=--x;y", "srun --mpi=list"},
        {"ports=50000", "two ports"},
        {"transport=fast", "auto, tcp, ofi or ofi:PROVIDER"},
        {"rma=maybe", "yes, no or auto"},
        {"wire=secret", "plain, auth or encrypt"},
        {"transport=ofi:", "auto, tcp"},
        {"transport=ofi:a b", "auto, tcp"},
        {"connections=0", "from 1 to 16"},
        {"hugepages=yes", "no, advise, or the size"},
        {"hugepages=3M", "2M or 1G"},
        {"connections=17", "from 1 to 16"},
        {"restarts=17", "from 0 to 16"},
        {"restarts=no", "from 0 to 16"},
        {"ports=2-1", "the lower one first"},
        {"ports=0-9", "two ports"},
        {"cache=some", "or none"},
        {"ports=1-65536", "two ports"},
        {"ports=1-2-3", "two ports"},
        {"start_timeout=0", "seconds from 1"},
        {"start_timeout=1d", "seconds from 1"},
        {"drain=-1", "seconds from 0"},
        {"drain=86401", "seconds from 0"},
        {"Mem=4G", "unknown word"},
        {"save_lead=86401", "seconds from 0"},
        {"save_lead=2m", "seconds from 0"},
    };
    char longer[SITE_TEXT + 16];
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i][0], bad[i][1]);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    memcpy(longer, "ddict=/", 7);
    refused(longer, "absolute path");
}
END_TEST

static void word(struct settings *s, const char *text) {
    ck_assert_msg(settings_take_word(s, text, "x", why, sizeof why) == 0, "%s: %s", text, why);
}

START_TEST(every_word_comes_to_its_place) {
    struct settings s = {0};

    word(&s, "ddict=/opt/ddict");
    word(&s, "ddictd=/opt/ddictd");
    word(&s, "srun=/opt/srun");
    word(&s, "record_dir=/var/log/ddict/%u");
    word(&s, "mpi=pmix_v4");
    word(&s, "managers=3");
    word(&s, "max_managers=65535");
    word(&s, "mem=12.5%");
    word(&s, "max_mem=1T");
    word(&s, "max_mem_share=80%");
    word(&s, "ports=50000-50999");
    word(&s, "connections=5");
    word(&s, "restarts=0");
    word(&s, "hugepages=2M");
    word(&s, "transport=ofi:verbs;ofi_rxm");
    word(&s, "rma=no");
    word(&s, "start_timeout=30");
    word(&s, "drain=0");
    word(&s, "save_lead=0");
    word(&s, "cache=50%");
    ck_assert_str_eq(text_of(&s, OPT_DDICT), "/opt/ddict");
    ck_assert_str_eq(text_of(&s, OPT_DDICTD), "/opt/ddictd");
    ck_assert_str_eq(text_of(&s, OPT_SRUN), "/opt/srun");
    ck_assert_str_eq(text_of(&s, OPT_RECORD_DIR), "/var/log/ddict/%u");
    ck_assert_str_eq(text_of(&s, OPT_MPI), "pmix_v4");
    ck_assert_uint_eq(number_of(&s, OPT_MANAGERS), 3);
    ck_assert_uint_eq(number_of(&s, OPT_MAX_MANAGERS), 65535);
    ck_assert_uint_eq(s.of[OPT_MEM].amount.share, 1250);
    ck_assert_uint_eq(number_of(&s, OPT_MAX_MEM), 1ull << 40);
    ck_assert_uint_eq(s.of[OPT_MAX_MEM_SHARE].amount.share, 8000);
    ck_assert(s.of[OPT_PORTS].ports.low == 50000 && s.of[OPT_PORTS].ports.high == 50999);
    ck_assert_uint_eq(number_of(&s, OPT_CONNECTIONS), 5);
    ck_assert(is_said(&s, OPT_RESTARTS) && number_of(&s, OPT_RESTARTS) == 0);
    ck_assert_str_eq(text_of(&s, OPT_HUGEPAGES), "2M");
    ck_assert_str_eq(text_of(&s, OPT_TRANSPORT), "ofi:verbs;ofi_rxm");
    ck_assert_str_eq(text_of(&s, OPT_RMA), "no");
    ck_assert(!is_said(&s, OPT_WIRE_LEAST));
    word(&s, "wire=auth");
    word(&s, "wire=plain"); /* the most of all that is said */
    ck_assert_str_eq(text_of(&s, OPT_WIRE_LEAST), "auth");
    word(&s, "wire=encrypt");
    ck_assert_str_eq(text_of(&s, OPT_WIRE_LEAST), "encrypt");
    ck_assert_uint_eq(number_of(&s, OPT_START_TIMEOUT), 30);
    ck_assert(is_said(&s, OPT_DRAIN) && number_of(&s, OPT_DRAIN) == 0);
    ck_assert(is_said(&s, OPT_SAVE_LEAD) && number_of(&s, OPT_SAVE_LEAD) == 0);
    ck_assert(s.of[OPT_CACHE].amount.share == 5000);
    word(&s, "cache=none");
    ck_assert(is_said(&s, OPT_CACHE) && s.of[OPT_CACHE].amount.share == 0 &&
              s.of[OPT_CACHE].amount.bytes == 0);
    word(&s, "cache=3G");
    ck_assert(s.of[OPT_CACHE].amount.bytes == 3ull << 30);
    word(&s, "mem=4G"); /* the later one wins, whole */
    ck_assert(s.of[OPT_MEM].amount.share == 0 && s.of[OPT_MEM].amount.bytes == 4ull << 30);
    word(&s, "record_dir=none");
    word(&s, "ports=7-7");
    ck_assert(s.of[OPT_PORTS].ports.low == 7 && s.of[OPT_PORTS].ports.high == 7);
}
END_TEST

static int file_read(struct settings *s, const char *text) {
    const char *tmp = getenv("TMPDIR");
    int fd, rc;

    ck_assert_int_lt(snprintf(path, sizeof path, "%s/launch_site.XXXXXX", tmp ? tmp : "/tmp"),
                     sizeof path);
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    why[0] = '\0';
    rc = site_read_file(s, path, why, sizeof why);
    unlink(path);
    return rc;
}

START_TEST(the_file_has_comments_blanks_and_blank_lines) {
    struct settings s = {0};

    ck_assert_int_eq(
        file_read(&s, "# of the site\n\n  mem=4G  # not much\r\n\t\nmanagers=2\nmanagers=5"), 0);
    ck_assert(s.of[OPT_MEM].amount.bytes == 4ull << 30 && number_of(&s, OPT_MANAGERS) == 5);
    ck_assert_int_eq(file_read(&s, ""), 0);
}
END_TEST

START_TEST(a_wrong_line_is_named_with_its_file_and_number) {
    struct settings s = {0};
    char want[sizeof path + 64];

    ck_assert_int_eq(file_read(&s, "mem=4G\n\nfoo\nmanagers=2\n"), -EINVAL);
    snprintf(want, sizeof want, "%s line 3: unknown word 'foo'", path);
    ck_assert_str_eq(why, want);
    ck_assert(s.of[OPT_MEM].amount.bytes == 4ull << 30 && number_of(&s, OPT_MANAGERS) == 0);
    ck_assert_int_eq(file_read(&s, "mem = 4G\n"), -EINVAL); /* no blanks around = */
    ck_assert_ptr_nonnull(strstr(why, "line 1: unknown word"));
    ck_assert_int_eq(file_read(&s, "mem=4G managers=2\n"), -EINVAL); /* one word a line */
}
END_TEST

START_TEST(a_missing_file_is_fine_and_an_unreadable_one_is_not) {
    struct settings s = {0};

    ck_assert_int_eq(site_read_file(&s, "/nonexistent/ddict.conf", why, sizeof why), 0);
    ck_assert_int_lt(site_read_file(&s, "/", why, sizeof why), 0);
    ck_assert_ptr_nonnull(strstr(why, "/: "));
}
END_TEST

static void limit(struct settings *s, enum option_id o, enum said_by by, const char *text) {
    ck_assert_msg(settings_take(s, o, by, text, why, sizeof why) == 0, "%s", why);
}

START_TEST(limits_name_both_figures) {
    struct settings s = {0}, of_srun = {.of[OPT_PLUGIN].by = BY_OPTION};

    ck_assert_int_eq(site_judge(&s, 65535, 1ull << 50, why, sizeof why), 0);
    ck_assert_int_eq(
        site_judge_share(&s, OPT_MEM, 1u << 30, 1, 1u << 30, "n1", 1u << 30, why, sizeof why), 0);
    limit(&s, OPT_MAX_MANAGERS, BY_SITE, "4");
    limit(&s, OPT_MAX_MEM, BY_SITE, "1G");
    limit(&s, OPT_MAX_MEM_SHARE, BY_SITE, "50%");
    ck_assert_int_eq(site_judge(&s, 4, 1u << 30, why, sizeof why), 0);
    ck_assert_int_eq(site_judge(&s, 5, 1u << 30, why, sizeof why), -EINVAL);
    ck_assert_str_eq(why, "--managers=5: at most 4 on this cluster");
    limit(&s, OPT_MEM, BY_VARIABLE, "2G");
    ck_assert_int_eq(site_judge(&s, 4, 2u << 30, why, sizeof why), -EINVAL);
    ck_assert_str_eq(why, "DDICT_MEM of 2.0 GiB: at most 1.0 GiB on this cluster");
    limit(&of_srun, OPT_MAX_MEM, BY_SITE, "1G");
    ck_assert_int_eq(site_judge(&of_srun, 4, 2u << 30, why, sizeof why), -EINVAL);
    ck_assert_str_eq(why, "--ddict-mem of 2.0 GiB: at most 1.0 GiB on this cluster");
    limit(&s, OPT_MEM, BY_OPTION, "2G");
    ck_assert_int_eq(
        site_judge_share(&s, OPT_MEM, 2u << 30, 1, 1u << 30, "n1", 2u << 30, why, sizeof why), 0);
    /* not known */
    ck_assert_int_eq(site_judge_share(&s, OPT_MEM, 2u << 30, 1, 1u << 30, "n1", 0, why, sizeof why),
                     0);
    ck_assert_int_eq(
        site_judge_share(&s, OPT_MEM, 2u << 30, 1, (1u << 30) + 1, "n1", 2u << 30, why, sizeof why),
        -EINVAL);
    ck_assert_str_eq(why, "--mem of 2.0 GiB is 1.0 GiB on node n1, where the job has 2.0 GiB: on "
                          "this cluster at most 50% of that, 1.0 GiB");
    ck_assert_int_eq(
        site_judge_share(&s, OPT_MEM, 2u << 30, 2, 2u << 30, "n1", 2u << 30, why, sizeof why),
        -EINVAL);
    ck_assert_ptr_nonnull(strstr(why, "--mem of 2.0 GiB, in two copies, is 2.0 GiB on node n1"));
}
END_TEST

START_TEST(a_text_is_kept_once_and_only_if_it_counts) {
    struct settings s = {0};
    char line[32] = "ddict=/opt/ddict";
    const char *kept;

    text_keep_clear();
    word(&s, line);
    kept = text_of(&s, OPT_DDICT);
    memset(line, 'x', sizeof line - 1); /* it is a copy */
    ck_assert_str_eq(kept, "/opt/ddict");
    word(&s, "ddict=/opt/ddict");
    ck_assert_ptr_eq(text_of(&s, OPT_DDICT), kept);
    refused("ddict=ddict", "absolute path");
    refused("nonsense=1", "unknown word");
    word(&s, "wire=encrypt");
    word(&s, "wire=plain"); /* the other one stays */
    ck_assert_uint_eq(text_keep_clear(), 2);
    ck_assert_uint_eq(text_keep_clear(), 0);
}
END_TEST

START_TEST(many_texts_are_kept_as_fast_as_few) {
    enum { MANY = 200000 }; /* one after the other, to find them takes minutes */
    char text[16];

    text_keep_clear();
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < MANY; i++) {
            snprintf(text, sizeof text, "%d", i);
            ck_assert_str_eq(text_keep(text), text);
        }
    ck_assert_uint_eq(text_keep_clear(), MANY);
}
END_TEST

START_TEST(without_memory_nothing_changes) {
    struct settings s = {.of[OPT_MANAGERS] = {.by = BY_SITE, .number = 7}}, before = s;

    text_keep_clear();
    for (int i = 0; i < 2; i++) {
        calloc_ends = i == 0; /* libcheck allocates, too: no assertion in here */
        malloc_ends = i == 1;
        int e = settings_take_word(&s, "managers=2", "x", why, sizeof why);
        calloc_ends = malloc_ends = 0;
        ck_assert_int_eq(e, -EINVAL);
        ck_assert_str_eq(why, "x: out of memory");
        ck_assert_int_eq(memcmp(&s, &before, sizeof s), 0);
    }
    ck_assert_uint_eq(text_keep_clear(), 0);
    word(&s, "managers=2");
    ck_assert_uint_eq(text_keep_clear(), 1);
}
END_TEST

int main(void) {
    return TESTS_RUN("launch_site", 60, wrong_words_are_refused_one_by_one,
                     every_word_comes_to_its_place, the_file_has_comments_blanks_and_blank_lines,
                     a_wrong_line_is_named_with_its_file_and_number,
                     a_missing_file_is_fine_and_an_unreadable_one_is_not, limits_name_both_figures,
                     a_text_is_kept_once_and_only_if_it_counts, many_texts_are_kept_as_fast_as_few,
                     without_memory_nothing_changes);
}
