/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - command lines of `ddict up`, `ddict run` and ddictd, and the paths that come of them.
 * The first line of the input is the verb's letter; each further one a word, or a variable
 * ("DDICT_MEM=1G").
 */
#include "fuzz.h"
#include <launch/load_spec.h>
#include <launch/options.h>
#include <launch/record_path.h>
#include <launch/text_keep.h>

#include <errno.h>
#include <getopt.h>

enum { WORDS = 64 };

static char *words[WORDS + 2], *variables[WORDS];
static int words_n, variables_n;

static const char *environment(const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < variables_n; i++)
        if (strncmp(variables[i], name, n) == 0 && variables[i][n] == '=')
            return variables[i] + n + 1;
    return NULL;
}

static void input_take(struct fuzz_input *in) {
    words_n = variables_n = 0;
    words[words_n++] = strdup("ddict");
    for (char *line; (line = fuzz_line(in));)
        if (strncmp(line, "DDICT_", 6) == 0 && variables_n < WORDS)
            variables[variables_n++] = line;
        else if (words_n < WORDS)
            words[words_n++] = line;
        else
            free(line);
    words[words_n] = NULL;
}

static void input_free(void) {
    for (int i = 0; i < words_n; i++)
        free(words[i]);
    for (int i = 0; i < variables_n; i++)
        free(variables[i]);
}

static void refusal_check(int e, const char *why) {
    fuzz_must(e == 0 || (e < 0 && *why && !strchr(why, '\n')));
}

static void paths_take(const struct settings *s) {
    char path[4096], why[400];
    const char *prefix;
    uint64_t bytes;
    refusal_check(record_path(path, sizeof path, s, "/work%j", "user", why, sizeof why), why);
    refusal_check(spill_path(path, sizeof path, &bytes, s, "user", why, sizeof why), why);
    refusal_check(results_path(path, sizeof path, s, "/home", "user", why, sizeof why), why);
    refusal_check(save_path(path, sizeof path, &prefix, s, "/home", "user", why, sizeof why), why);
}

/* What cuts up the values of --load, --restore, --save and --script, whatever the option. */
static void value_take(const char *text) {
    struct intake_set sets[INTAKE_SETS];
    char why[400] = "", prefix[256], node[64];
    const char *dir;
    pid_t pid;
    uint64_t began;
    int files;
    refusal_check(intake_judge_load("--load", text, why, sizeof why), why);
    refusal_check(intake_judge_restore("--restore", text, why, sizeof why), why);
    refusal_check(intake_save("--save", text, &dir, prefix, sizeof prefix, &files, why, sizeof why),
                  why);
    char *copy = strdup(text);
    int n = intake_sets(copy, sets, "--load", why, sizeof why);
    fuzz_must(n <= INTAKE_SETS);
    for (int i = 0; i < n; i++) {
        fuzz_must(sets[i].nwords <= INTAKE_WORDS);
        fuzz_read(sets[i].sources, strlen(sets[i].sources));
    }
    free(copy);
    int e = script_parse(text, node, sizeof node, &pid, &began);
    fuzz_must(e == -EINVAL || (e == 0 && strlen(node) < sizeof node && pid > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct options o = {.verb = "ddict up"};
    struct settings told = {0};
    char why[400] = "", *verb = fuzz_line(&in), buf[64];
    int e;
    if (verb && *verb == 'r')
        o.verb = "ddict run";
    input_take(&in);
    if (verb && *verb == 'd')
        e = settings_take_argv(&told, OF_DDICTD, BY_STARTER, words_n, words, why, sizeof why);
    else
        e = options_parse(&o, words_n, words, environment, why, sizeof why);
    refusal_check(e, why);
    if (e == 0)
        paths_take(&o.set);
    for (int i = 0; e == 0 && i < OPTS; i++)
        settings_write(&o.set, (enum option_id)i, buf, sizeof buf);
    for (int i = 1; i < words_n && i < 4; i++)
        value_take(words[i]);
    input_free();
    text_keep_clear();
    free(verb);
    return 0;
}
