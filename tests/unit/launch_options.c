/* SPDX-License-Identifier: Apache-2.0 */
/* launch_options.c - the command lines of `ddict up` and `ddict run`. Invariant: the command line
 * wins over the environment, and a wrong word is named. */
#include "launch_test.h"
#include <base/defaults.h>
#include <launch/options.h>

#include <string.h>

static const char *managers, *mem, *transport, *wire;
static char why[ASK_WHY];

static const char *environment(const char *name) {
    return strcmp(name, "DDICT_MANAGERS") == 0    ? managers
           : strcmp(name, "DDICT_MEM") == 0       ? mem
           : strcmp(name, "DDICT_TRANSPORT") == 0 ? transport
           : strcmp(name, "DDICT_WIRE") == 0      ? wire
                                                  : NULL;
}

static int parse(struct options *o, const char *verb, const char *line) {
    static char text[512];
    static char *argv[32];
    char *save, *word;
    int argc = 0;

    snprintf(text, sizeof text, "%s", line);
    argv[argc++] = (char *)(uintptr_t)verb;
    for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    argv[argc] = NULL;
    memset(o, 0, sizeof *o);
    o->verb = verb;
    why[0] = '\0';
    return options_parse(o, argc, argv, environment, why, sizeof why);
}

START_TEST(defaults_are_one_manager_a_node_and_1_gib) {
    struct options o;

    managers = mem = NULL;
    ck_assert_int_eq(parse(&o, "ddict up", ""), 0);
    ck_assert_uint_eq(number_of(&o.set, OPT_MANAGERS), 0);
    ck_assert_uint_eq(o.set.of[OPT_MEM].amount.bytes, DD_MEM_DEFAULT);
    ck_assert_str_eq(text_of(&o.set, OPT_MPI), "auto");
    ck_assert_int_eq(number_of(&o.set, OPT_DRAIN_MS), DD_DRAIN_MS);
    ck_assert(!is_said(&o.set, OPT_FOREGROUND) && !is_said(&o.set, OPT_LOCAL) &&
              !text_of(&o.set, OPT_JOBID) && !o.cmd);
}
END_TEST

START_TEST(the_transport_is_the_users_the_variables_or_auto) {
    struct options o;

    managers = mem = transport = NULL;
    ck_assert_int_eq(parse(&o, "ddict up", ""), 0);
    ck_assert_str_eq(text_of(&o.set, OPT_TRANSPORT), "auto");
    ck_assert_int_eq(parse(&o, "ddict up", "--site=transport=tcp"), 0);
    ck_assert_str_eq(text_of(&o.set, OPT_TRANSPORT), "tcp");
    transport = "ofi";
    ck_assert_int_eq(parse(&o, "ddict up", "--site=transport=tcp"), 0);
    ck_assert_str_eq(text_of(&o.set, OPT_TRANSPORT), "ofi");
    ck_assert_int_eq(parse(&o, "ddict run", "--transport=ofi:cxi train"), 0);
    ck_assert_str_eq(text_of(&o.set, OPT_TRANSPORT), "ofi:cxi");
    transport = "pigeon";
    ck_assert_int_lt(parse(&o, "ddict up", ""), 0);
    ck_assert_ptr_nonnull(
        strstr(why, "DDICT_TRANSPORT=pigeon: want auto, tcp, ofi or ofi:PROVIDER"));
    ck_assert_int_lt(parse(&o, "ddict up", "--transport=ofi:"), 0);
    transport = NULL;
}
END_TEST

START_TEST(refill_needs_no_value) {
    struct options o;

    managers = mem = transport = NULL;
    ck_assert_int_eq(parse(&o, "ddict up", ""), 0);
    ck_assert(!is_yes(&o.set, OPT_REFILL));
    ck_assert_int_eq(parse(&o, "ddict run", "--refill train"), 0);
    ck_assert(is_yes(&o.set, OPT_REFILL));
    ck_assert_int_eq(parse(&o, "ddict up", "--site=refill=yes"), 0);
    ck_assert(is_yes(&o.set, OPT_REFILL));
    ck_assert_int_eq(parse(&o, "ddict up", "--site=refill=yes --refill=no"), 0);
    ck_assert(!is_yes(&o.set, OPT_REFILL));
    ck_assert_int_lt(parse(&o, "ddict up", "--refill=perhaps"), 0);
    ck_assert_ptr_nonnull(strstr(why, "--refill=perhaps: want yes or no"));
}
END_TEST

START_TEST(copies_are_one_or_two) {
    struct options o;

    managers = mem = transport = NULL;
    ck_assert_int_eq(parse(&o, "ddict up", ""), 0);
    ck_assert_uint_eq(number_of(&o.set, OPT_REPLICAS), 1);
    ck_assert_int_eq(parse(&o, "ddict up", "--site=replicas=2"), 0);
    ck_assert_uint_eq(number_of(&o.set, OPT_REPLICAS), 2);
    ck_assert(!is_by_user(&o.set, OPT_REPLICAS));
    ck_assert_int_eq(parse(&o, "ddict up", "--site=replicas=2 --replicas=1"), 0);
    ck_assert_uint_eq(number_of(&o.set, OPT_REPLICAS), 1);
    ck_assert_int_eq(parse(&o, "ddict run", "--replicas=2 train"), 0);
    ck_assert_uint_eq(number_of(&o.set, OPT_REPLICAS), 2);
    ck_assert_int_lt(parse(&o, "ddict up", "--replicas=3"), 0);
    ck_assert_ptr_nonnull(strstr(why, "--replicas=3: want 1 or 2"));
    ck_assert_int_lt(parse(&o, "ddict up", "--replicas=0"), 0);
}
END_TEST

START_TEST(protection_can_only_be_raised_above_the_sites) {
    struct options o;

    managers = mem = transport = wire = NULL;
    ck_assert_int_eq(parse(&o, "ddict up", ""), 0);
    ck_assert_ptr_null(text_of(&o.set, OPT_WIRE));
    ck_assert_int_eq(parse(&o, "ddict up", "--wire=encrypt --site=wire=auth"), 0);
    ck_assert_str_eq(text_of(&o.set, OPT_WIRE), "encrypt");
    ck_assert_int_eq(parse(&o, "ddict up", "--site=wire=auth"), 0);
    ck_assert_str_eq(text_of(&o.set, OPT_WIRE), "auth");
    ck_assert_int_eq(parse(&o, "ddict up", "--site=wire=auth --site=wire=plain"), 0);
    ck_assert_str_eq(text_of(&o.set, OPT_WIRE), "auth");
    ck_assert_int_lt(parse(&o, "ddict up", "--wire=plain --site=wire=auth"), 0);
    ck_assert_ptr_nonnull(strstr(why, "--wire=plain: this site wants at least auth"));
    ck_assert_int_lt(parse(&o, "ddict up", "--plugin --wire=auth --site=wire=encrypt"), 0);
    ck_assert_ptr_nonnull(strstr(why, "--ddict-wire=auth: this site wants at least encrypt"));
    ck_assert_int_lt(parse(&o, "ddict up", "--wire=tls"), 0);
    ck_assert_ptr_nonnull(strstr(why, "--wire=tls: want plain, auth or encrypt"));
    wire = "auth";
    ck_assert_int_eq(parse(&o, "ddict up", ""), 0);
    ck_assert_str_eq(text_of(&o.set, OPT_WIRE), "auth");
    ck_assert_int_eq(parse(&o, "ddict up", "--wire=plain"), 0);
    ck_assert_str_eq(text_of(&o.set, OPT_WIRE), "plain");
    wire = "no";
    ck_assert_int_lt(parse(&o, "ddict up", ""), 0);
    ck_assert_ptr_nonnull(strstr(why, "DDICT_WIRE=no: want plain, auth or encrypt"));
    wire = "";
    ck_assert_int_eq(parse(&o, "ddict up", ""), 0);
    ck_assert_ptr_null(text_of(&o.set, OPT_WIRE));
    wire = NULL;
}
END_TEST

START_TEST(ranks_are_of_run_and_a_number) {
    struct options o;

    managers = mem = NULL;
    ck_assert_int_eq(parse(&o, "ddict run", "-n 4 train -n 9"), 0);
    ck_assert_int_eq(number_of(&o.set, OPT_RANKS), 4);
    ck_assert_str_eq(o.cmd[1], "-n");
    ck_assert_int_eq(parse(&o, "ddict run", "--ranks=2 train"), 0);
    ck_assert_int_eq(number_of(&o.set, OPT_RANKS), 2);
    ck_assert_int_eq(parse(&o, "ddict run", "train"), 0);
    ck_assert_int_eq(number_of(&o.set, OPT_RANKS), 0);
    ck_assert_int_lt(parse(&o, "ddict run", "-n 0 train"), 0);
    ck_assert_int_lt(parse(&o, "ddict run", "-n x train"), 0);
    ck_assert_int_lt(parse(&o, "ddict run", "-n 5000 train"), 0);
    ck_assert_int_lt(parse(&o, "ddict up", "-n 2"), 0);
    ck_assert_ptr_nonnull(strstr(why, "--ranks: only with `ddict run`"));
}
END_TEST

START_TEST(the_command_line_wins_over_the_environment) {
    struct options o;

    managers = "3";
    mem = "64M";
    ck_assert_int_eq(parse(&o, "ddict up", ""), 0);
    ck_assert_uint_eq(number_of(&o.set, OPT_MANAGERS), 3);
    ck_assert_uint_eq(o.set.of[OPT_MEM].amount.bytes, 64u << 20);
    ck_assert_str_eq(settings_name(&o.set, OPT_MEM), "DDICT_MEM");
    ck_assert_int_eq(parse(&o, "ddict up", "--managers=5 --mem 1G"), 0);
    ck_assert_uint_eq(number_of(&o.set, OPT_MANAGERS), 5);
    ck_assert_uint_eq(o.set.of[OPT_MEM].amount.bytes, 1u << 30);
    ck_assert_str_eq(settings_name(&o.set, OPT_MEM), "--mem");
    mem = "rubbish"; /* overruled, so nobody minds */
    ck_assert_int_eq(parse(&o, "ddict up", "--mem=8M"), 0);
    ck_assert_int_lt(parse(&o, "ddict up", ""), 0);
    ck_assert_ptr_nonnull(strstr(why, "DDICT_MEM=rubbish"));
}
END_TEST

START_TEST(the_plugin_s_errors_name_the_options_of_srun) {
    struct options o;

    managers = mem = NULL;
    ck_assert_int_lt(parse(&o, "ddict up", "--plugin --mem=x"), 0);
    ck_assert_ptr_nonnull(strstr(why, "--ddict-mem=x"));
    ck_assert(is_said(&o.set, OPT_PLUGIN) && !is_said(&o.set, OPT_FOREGROUND));
    ck_assert_int_lt(parse(&o, "ddict up", "--plugin --managers=0"), 0);
    ck_assert_ptr_nonnull(strstr(why, "--ddict-managers=0"));
}
END_TEST

START_TEST(the_site_says_what_the_user_does_not) {
    struct options o;
    struct start_times times;
    struct {
        const char *line;
        uint32_t managers;
        uint64_t bytes;
        uint32_t share;
    } const cases[] = {
        {"--site managers=3 --site mem=4G", 3, 4ull << 30, 0},
        {"--site managers=3 --managers=2 --site mem=4G --mem=10%", 2, 0, 1000},
        {"--site mem=25% --site max_mem=64M", 0, 0, 2500},
        {"--site max_mem=64M", 0, 64u << 20, 0},         /* our own default is too much there */
        {"--site max_mem=64M --mem=1G", 0, 1u << 30, 0}, /* judged when the nodes are known */
    };
    size_t i;

    managers = mem = NULL;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(parse(&o, "ddict up", cases[i].line) == 0, "%s: %s", cases[i].line, why);
        ck_assert_msg(number_of(&o.set, OPT_MANAGERS) == cases[i].managers &&
                          o.set.of[OPT_MEM].amount.bytes == cases[i].bytes &&
                          o.set.of[OPT_MEM].amount.share == cases[i].share,
                      "%s", cases[i].line);
    }
    ck_assert_int_eq(parse(&o, "ddict up",
                           "--site drain=2 --site mpi=none --site start_timeout=9 --site srun=/a "
                           "--site ddictd=/b"),
                     0);
    ck_assert(number_of(&o.set, OPT_DRAIN_MS) == 2000 && number_of(&o.set, OPT_START_TIMEOUT) == 9);
    start_times(&o.set, &times);
    ck_assert(times.create_ms == 9000 && times.ready_ms == DD_READY_MS);
    ck_assert_int_eq(times.elect_ms, DD_ELECT_MS);
    ck_assert_str_eq(text_of(&o.set, OPT_MPI), "none");
    ck_assert_str_eq(text_of(&o.set, OPT_SRUN), "/a");
    ck_assert_str_eq(text_of(&o.set, OPT_DDICTD), "/b");
    ck_assert_int_eq(parse(&o, "ddict up", "--start-timeout=30"), 0);
    start_times(&o.set, &times);
    ck_assert(times.create_ms == 30000 && times.ready_ms == 30000);
    ck_assert_int_eq(times.elect_ms, DD_ELECT_MS - DD_READY_MS + 30000);
    ck_assert_int_eq(
        parse(&o, "ddict up",
              "--site drain=2 --drain-ms=3 --site mpi=none --mpi=pmix --srun=/c --site srun=/a"),
        0);
    ck_assert_int_eq(number_of(&o.set, OPT_DRAIN_MS), 3);
    ck_assert_str_eq(text_of(&o.set, OPT_MPI), "pmix");
    ck_assert_str_eq(text_of(&o.set, OPT_SRUN), "/c");
    mem = "8M"; /* the user's too */
    ck_assert_int_eq(parse(&o, "ddict up", "--site mem=4G"), 0);
    ck_assert_uint_eq(o.set.of[OPT_MEM].amount.bytes, 8u << 20);
    mem = NULL;
}
END_TEST

START_TEST(the_plugin_stays_with_a_step_and_leaves_a_job) {
    struct options o;

    ck_assert_int_eq(parse(&o, "ddict up", "--plugin --jobid=3 --step=1"), 0);
    ck_assert(is_said(&o.set, OPT_PLUGIN) && is_said(&o.set, OPT_FOREGROUND));
    ck_assert_int_eq(parse(&o, "ddict up", "--plugin --jobid=3"), 0);
    ck_assert(is_said(&o.set, OPT_PLUGIN) && !is_said(&o.set, OPT_FOREGROUND));
}
END_TEST

START_TEST(options_of_the_command_are_the_command_s) {
    struct options o;

    managers = mem = NULL;
    ck_assert_int_eq(parse(&o, "ddict run", "--managers=2 -v python3 --mem=x -h"), 0);
    ck_assert_str_eq(o.cmd[0], "python3");
    ck_assert_str_eq(o.cmd[1], "--mem=x");
    ck_assert(is_said(&o.set, OPT_VERBOSE) && !is_said(&o.set, OPT_HELP));
    ck_assert_int_eq(parse(&o, "ddict run", "--mem=8M -- -x y"), 0);
    ck_assert_str_eq(o.cmd[0], "-x");
}
END_TEST

START_TEST(wrong_words_are_named) {
    static const struct {
        const char *verb, *line, *part;
    } bad[] = {{"ddict up", "--foo", "--foo"},
               {"ddict up", "--mem", "--mem"},
               {"ddict up", "more", "more"},
               {"ddict up", "--step=3", "--jobid"},
               {"ddict up", "--jobid=12x", "--jobid=12x"},
               {"ddict up", "--jobid=3 --step=-1", "--step=-1"},
               {"ddict up", "--name=a/b", "--name=a/b"},
               {"ddict up", "--name=", "--name="},
               {"ddict up",
                "--name=0123456789012345678901234567890123456789012345678901234567890123",
                "at most 63"},
               {"ddict up", "--drain-ms=-1", "--drain-ms=-1"},
               {"ddict up", "--start-timeout=0", "--start-timeout=0"},
               {"ddict up", "--site=foo", "--site: unknown word 'foo'"},
               {"ddict up", "--log=x", "unknown option --log=x: it is --record"},
               {"ddict run", "--site=rma=perhaps x", "--site: rma=perhaps: want"},
               {"ddict up", "--plugin --site=foo", "plugstack.conf: unknown word 'foo'"},
               {"ddict up", "--chdir=here", "--chdir=here: want an absolute path"},
               {"ddict up", "--mem=101%", "--mem=101%"},
               {"ddict run", "--mem=8M", "no command"},
               {"ddict run", "--managers=99999999 x", "--managers=99999999"}};
    struct options o;
    size_t i;

    managers = mem = NULL;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(parse(&o, bad[i].verb, bad[i].line) < 0, "%s", bad[i].line);
        ck_assert_msg(strstr(why, bad[i].part) != NULL, "'%s' is not in '%s'", bad[i].part, why);
    }
}
END_TEST

int main(void) {
    return TESTS_RUN("launch_options", 60, defaults_are_one_manager_a_node_and_1_gib,
                     the_transport_is_the_users_the_variables_or_auto, copies_are_one_or_two,
                     refill_needs_no_value, protection_can_only_be_raised_above_the_sites,
                     ranks_are_of_run_and_a_number, the_command_line_wins_over_the_environment,
                     the_plugin_s_errors_name_the_options_of_srun,
                     options_of_the_command_are_the_command_s, the_site_says_what_the_user_does_not,
                     the_plugin_stays_with_a_step_and_leaves_a_job, wrong_words_are_named);
}
