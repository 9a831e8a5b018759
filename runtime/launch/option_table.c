/* SPDX-License-Identifier: Apache-2.0 */
/* option_table.c - read, judge and tell what was said of the options in option_rows.h. */
#include "option_table.h"

#include "load_spec.h"
#include "text_keep.h"
#include <base/defaults.h>
#include <base/persist_text.h>
#include <base/size.h>
#include <wire/attach.h>
#include <wire/fabric/fabric_types.h>
#include <wire/seal.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

/* --- values that are good --- */

/* 1 to cap - 1 characters, all of them of `of`. */
static int is_made_of(const char *text, const char *of, size_t cap) {
    return *text != '\0' && strlen(text) < cap && strspn(text, of) == strlen(text);
}

static int is_name(const char *text, enum said_by by) {
    return is_made_of(text, DIGITS LETTERS "._-", DICT_NAME_MAX);
}

static int is_node(const char *text, enum said_by by) {
    return *text != '\0' && strlen(text) < NODE_NAME_MAX && !strpbrk(text, "/ \t\n");
}

static int is_number(const char *text, enum said_by by) {
    return is_made_of(text, DIGITS, 16);
}

static int is_hex(const char *text, enum said_by by) {
    return is_made_of(text, DIGITS "abcdefABCDEF", 33) && strlen(text) == 32;
}

static int is_path(const char *text, enum said_by by) {
    return *text == '/';
}

/* The user's may be found on PATH. */
static int is_program(const char *text, enum said_by by) {
    return by != BY_SITE || (*text == '/' && strlen(text) < SITE_TEXT);
}

static int is_folder(const char *text, enum said_by by) {
    return strcmp(text, "none") == 0 || is_program(text, by);
}

static int is_mpi(const char *text, enum said_by by) {
    return is_made_of(text, DIGITS LETTERS "_-+.", 32);
}

static int is_transport(const char *text, enum said_by by) {
    if (strncmp(text, "ofi:", 4) == 0)
        return strlen(text) < FABRIC_NAME_MAX &&
               is_made_of(text + 4, DIGITS LETTERS "_;-", FABRIC_NAME_MAX);
    return strcmp(text, "auto") == 0 || strcmp(text, "tcp") == 0 || strcmp(text, "ofi") == 0;
}

static int is_share(const char *text, enum said_by by) {
    struct amount amount;
    char why[ASK_WHY];

    return strchr(text, '%') && ask_amount("", text, &amount, why, sizeof why) == 0;
}

static int is_cache(const char *text, enum said_by by) {
    struct amount amount;
    char why[ASK_WHY];

    return strcmp(text, "none") == 0 || ask_amount("", text, &amount, why, sizeof why) == 0;
}

int script_parse(const char *text, char *node, size_t cap, pid_t *pid, uint64_t *began) {
    char process[12], ticks[24];
    size_t length = strcspn(text, "/");
    uint64_t number;

    if (length == 0 || length >= cap ||
        sscanf(text + length, "/%11[0-9]/%23[0-9]", process, ticks) != 2 ||
        strlen(text + length) != strlen(process) + strlen(ticks) + 2 ||
        count_parse(process, 1, INT32_MAX, &number) < 0 ||
        count_parse(ticks, 0, INT64_MAX, began) < 0)
        return -EINVAL;
    memcpy(node, text, length);
    node[length] = '\0';
    *pid = (pid_t)number;
    return 0;
}

static int is_script(const char *text, enum said_by by) {
    char node[NODE_NAME_MAX];
    uint64_t began;
    pid_t pid;

    return script_parse(text, node, sizeof node, &pid, &began) == 0;
}

static int judge_spill(const char *name, const char *text, char *why, size_t cap) {
    uint64_t bytes;
    size_t length;

    return ask_spill(name, text, &length, &bytes, why, cap);
}

static int judge_key_nodes(const char *name, const char *text, char *why, size_t cap) {
    struct key_nodes nodes;

    return ask_key_nodes(name, text, &nodes, why, cap);
}

static int judge_working_set(const char *name, const char *text, char *why, size_t cap) {
    struct working_set working;

    return ask_working_set(name, text, &working, why, cap);
}

static int judge_save(const char *name, const char *text, char *why, size_t cap) {
    char prefix[INTAKE_MAX];
    const char *dir;
    int files;

    return intake_save(name, text, &dir, prefix, sizeof prefix, &files, why, cap);
}

static int judge_persist(const char *name, const char *text, char *why, size_t cap) {
    struct persist_text p;

    if (strcmp(text, "none") == 0 || (!strpbrk(text, "\n\r") && persist_text_parse(text, &p) == 0))
        return 0;
    snprintf(why, cap,
             "%s=%.60s: want a folder, and perhaps freq=N, count=N (from 1) and read-only behind "
             "it, each with its comma; or none",
             name, text);
    return -EINVAL;
}

/* --- the rows --- */

const struct option_row option_rows[OPTS] = {
#define ROW(id, n, ...) \
    [OPT_##id] = {.name = n, .option = "--" n, .of_srun = "--ddict-" n, __VA_ARGS__}
#include "option_rows.h"
#undef ROW
};

/* --- reading --- */

static int value_wrong(const char *name, const char *text, const char *want, char *why,
                       size_t cap) {
    snprintf(why, cap, "%s=%.60s: want %s", name, text, want);
    return -EINVAL;
}

/* Whether text is one of the words of "closest, rotate or none". */
static int is_choice(const char *text, const char *words) {
    size_t n = strlen(text), length;

    for (; *words != '\0'; words += length, words += strspn(words, ", ")) {
        length = strcspn(words, ", ");
        if (length == n && strncmp(words, text, n) == 0 && strcmp(text, "or") != 0)
            return 1;
    }
    return 0;
}

static int is_ports(const char *text, uint32_t *low, uint32_t *high) {
    const char *dash = strchr(text, '-');
    uint64_t from, to;
    char first[8];

    if (!dash ||
        (size_t)snprintf(first, sizeof first, "%.*s", (int)(dash - text), text) >= sizeof first ||
        count_parse(first, 1, 65535, &from) < 0 || count_parse(dash + 1, from, 65535, &to) < 0)
        return 0;
    *low = (uint32_t)from;
    *high = (uint32_t)to;
    return 1;
}

/* v->text is read into v. */
static int value_read(const struct option_row *row, const char *name, struct setting *v, char *why,
                      size_t cap) {
    const char *text = v->text;

    if (v->by == BY_STARTER && (row->kind == KIND_SIZE || row->kind == KIND_AMOUNT)) {
        v->amount = (struct amount){0};
        return size_parse(text, &v->number) == 0 && v->number >= row->low
                   ? 0
                   : value_wrong(name, text, "bytes, or a number with K, M, G or T", why, cap);
    }
    if (v->by == BY_STARTER && (row->of & PATH) != 0)
        return is_path(text, v->by) ? 0 : value_wrong(name, text, row->want, why, cap);
    if (row->is_good && !row->is_good(text, v->by))
        return value_wrong(name, text, row->want, why, cap);
    if (row->judge)
        return row->judge(name, text, why, cap);
    switch (row->kind) {
    case KIND_FLAG:
        v->number = 1;
        return 0;
    case KIND_CHOICE:
        return is_choice(text, row->want) ? 0 : value_wrong(name, text, row->want, why, cap);
    case KIND_NUMBER:
        return count_parse(text, row->low, row->high, &v->number) == 0
                   ? 0
                   : value_wrong(name, text, row->want, why, cap);
    case KIND_SIZE:
        return ask_mem(name, text, &v->number, why, cap);
    case KIND_AMOUNT: /* "none" where the row lets it pass */
        v->amount = (struct amount){0};
        return strcmp(text, "none") == 0 && row->is_good
                   ? 0
                   : ask_amount(name, text, &v->amount, why, cap);
    case KIND_PORTS:
        return is_ports(text, &v->ports.low, &v->ports.high)
                   ? 0
                   : value_wrong(name, text, row->want, why, cap);
    case KIND_PAGES:
        return hugepages_parse(text, &v->number) == 0
                   ? 0
                   : value_wrong(name, text, row->want, why, cap);
    case KIND_TEXT:
        break;
    }
    return 0;
}

static enum seal_mode protection_of(const struct settings *s, enum option_id o) {
    enum seal_mode mode = SEAL_PLAIN;

    if (is_said(s, o))
        seal_parse(text_of(s, o), &mode);
    return mode;
}

static const char *name_of_said(const struct settings *s, enum option_id o, enum said_by by) {
    const struct option_row *row = &option_rows[o];

    if (by == BY_SITE)
        return row->word;
    if (by == BY_VARIABLE)
        return row->variable;
    return is_said(s, OPT_PLUGIN) && (row->of & OF_SRUN) != 0 ? row->of_srun : row->option;
}

const char *settings_name(const struct settings *s, enum option_id o) {
    return name_of_said(s, o, s->of[o].by == BY_VARIABLE ? BY_VARIABLE : BY_OPTION);
}

int settings_take(struct settings *s, enum option_id o, enum said_by by, const char *text,
                  char *why, size_t cap) {
    struct settings one = {0};
    struct setting *v = &one.of[o];

    *v = (struct setting){.by = by, .text = text ? text : option_rows[o].bare};
    if (o == OPT_SITE)
        return settings_take_word(s, text, is_said(s, OPT_PLUGIN) ? "plugstack.conf" : "--site",
                                  why, cap);
    if (value_read(&option_rows[o], name_of_said(s, o, by), v, why, cap) < 0)
        return -EINVAL;
    /* no word lowers what another wants */
    if (by < s->of[o].by || (o == OPT_WIRE_LEAST && protection_of(&one, o) < protection_of(s, o)))
        return 0;
    s->of[o] = *v;
    return 0;
}

/* What a word is called now, as the end of a sentence. */
static const char *word_renamed(const char *word) {
    return strncmp(word, "--log", 5) == 0     ? ": it is --record"
           : strncmp(word, "log_dir", 7) == 0 ? ": it is record_dir"
                                              : "";
}

int settings_take_word(struct settings *s, const char *word, const char *where, char *why,
                       size_t cap) {
    const char *equals = strchr(word, '='), *value = equals ? equals + 1 : "";
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    char inner[ASK_WHY];
    struct setting before;
    enum option_id o;

    for (o = 0; o < OPTS; o++)
        if (option_rows[o].word && strlen(option_rows[o].word) == n &&
            memcmp(option_rows[o].word, word, n) == 0)
            break;
    if (o == OPTS) {
        snprintf(why, cap, "%s: unknown word '%.60s'%s", where, word, word_renamed(word));
        return -EINVAL;
    }
    before = s->of[o];
    if (*value == '\0')
        snprintf(why, cap, "%s: %s needs a value: %s=...", where, option_rows[o].word,
                 option_rows[o].word);
    else if (settings_take(s, o, BY_SITE, value, inner, sizeof inner) < 0)
        snprintf(why, cap, "%s: %s", where, inner);
    else if (s->of[o].text == value && !(s->of[o].text = text_keep(value))) {
        s->of[o] = before;
        snprintf(why, cap, "%s: out of memory", where);
    } else
        return 0;
    return -EINVAL;
}

int settings_take_variables(struct settings *s, unsigned of, const char *(*env)(const char *),
                            char *why, size_t cap) {
    for (enum option_id o = 0; o < OPTS; o++) {
        const struct option_row *row = &option_rows[o];
        const char *text = (row->of & of) != 0 && row->variable && s->of[o].by < BY_VARIABLE
                               ? env(row->variable)
                               : NULL;

        if (text && *text != '\0' && settings_take(s, o, BY_VARIABLE, text, why, cap) < 0)
            return -EINVAL;
    }
    return 0;
}

/* For getopt_long(): a row is OPTION_VALUE + its number. `+`: up to the first word that is no
 * option; `:` tells a missing value from an unknown option. */
#define OPTION_VALUE 256

static void getopt_fill(unsigned of, struct option longs[OPTS + 1], char letters[2 * OPTS + 3]) {
    struct option *to = longs;

    letters = stpcpy(letters, "+:");
    for (int i = 0; i < OPTS; i++) {
        const struct option_row *row = &option_rows[i];

        if ((row->of & of) == 0)
            continue;
        *to++ = (struct option){row->name,
                                row->kind == KIND_FLAG ? no_argument
                                : row->bare            ? optional_argument
                                                       : required_argument,
                                NULL, OPTION_VALUE + i};
        if (row->letter != '\0') {
            *letters++ = row->letter;
            if (row->kind != KIND_FLAG)
                *letters++ = ':';
        }
    }
    *to = (struct option){0};
    *letters = '\0';
}

static enum option_id option_answered(int c) {
    enum option_id o = 0;

    if (c >= OPTION_VALUE)
        return (enum option_id)(c - OPTION_VALUE);
    while (option_rows[o].letter != c)
        o++;
    return o;
}

int settings_take_argv(struct settings *s, unsigned of, enum said_by by, int argc, char **argv,
                       char *why, size_t cap) {
    struct option longs[OPTS + 1];
    char letters[2 * OPTS + 3];
    int c;

    getopt_fill((of & (OF_UP | OF_RUN)) != 0 ? OF_UP | OF_RUN : of, longs, letters);
    optind = 0; /* glibc: begin anew */
    opterr = 0;
    while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        enum option_id o = c != ':' && c != '?' ? option_answered(c) : OPTS;

        if (o == OPTS)
            snprintf(why, cap, c == ':' ? "%.60s: needs a value%s" : "unknown option %.60s%s",
                     argv[optind - 1], word_renamed(argv[optind - 1]));
        else if ((option_rows[o].of & of) == 0)
            snprintf(why, cap, "%s: only with `ddict %s`", option_rows[o].option,
                     of == OF_UP ? "run" : "up");
        else if (settings_take(s, o, by, optarg, why, cap) == 0)
            continue;
        return -EINVAL;
    }
    return 0;
}

int settings_complete(struct settings *s, char *why, size_t cap) {
    struct setting *mem = &s->of[OPT_MEM];

    if (is_said(s, OPT_DRAIN) && !is_said(s, OPT_DRAIN_MS))
        s->of[OPT_DRAIN_MS] =
            (struct setting){.by = BY_SITE, .number = 1000 * number_of(s, OPT_DRAIN)};
    if (is_said(s, OPT_WIRE_LEAST) && !is_said(s, OPT_WIRE))
        s->of[OPT_WIRE] = s->of[OPT_WIRE_LEAST];
    if (protection_of(s, OPT_WIRE) < protection_of(s, OPT_WIRE_LEAST)) {
        snprintf(why, cap, "%s=%s: this site wants at least %s", settings_name(s, OPT_WIRE),
                 text_of(s, OPT_WIRE), text_of(s, OPT_WIRE_LEAST));
        return -EINVAL;
    }
    for (enum option_id o = 0; o < OPTS; o++)
        if (!is_said(s, o))
            s->of[o] = option_rows[o].otherwise;
    if (!is_by_user(s, OPT_MEM) && mem->amount.share == 0 && is_said(s, OPT_MAX_MEM) &&
        mem->amount.bytes > number_of(s, OPT_MAX_MEM))
        mem->amount.bytes = number_of(s, OPT_MAX_MEM);
    return 0;
}

int is_read_only(const struct settings *s) {
    struct persist_text p;

    return is_said(s, OPT_PERSIST) && persist_text_parse(text_of(s, OPT_PERSIST), &p) == 0 &&
           p.read_only;
}

int is_yes(const struct settings *s, enum option_id o) {
    return strcmp(text_of(s, o), "yes") == 0;
}

void start_times(const struct settings *s, struct start_times *t) {
    int is_set = s->of[OPT_START_TIMEOUT].by > BY_DEFAULT,
        said_ms = (int)number_of(s, OPT_START_TIMEOUT) * 1000;

    t->create_ms = is_set ? said_ms : DD_STEP_CREATE_MS;
    t->ready_ms = is_set && said_ms > DD_READY_MS ? said_ms : DD_READY_MS;
    t->elect_ms = DD_ELECT_FOR_MS(t->ready_ms);
}

void settings_put(struct settings *s, enum option_id o, uint64_t number) {
    s->of[o] = (struct setting){.by = BY_STARTER, .amount = {.bytes = number}};
}

void settings_put_text(struct settings *s, enum option_id o, const char *text) {
    s->of[o] = (struct setting){0};
    if (text && *text != '\0')
        s->of[o] = (struct setting){.by = BY_STARTER, .text = text};
}

const char *settings_write(const struct settings *s, enum option_id o, char *buf, size_t cap) {
    switch (option_rows[o].kind) {
    case KIND_FLAG:
        return NULL;
    case KIND_TEXT:
    case KIND_CHOICE:
    case KIND_PAGES:
        return text_of(s, o);
    case KIND_PORTS:
        snprintf(buf, cap, "%u-%u", s->of[o].ports.low, s->of[o].ports.high);
        return buf;
    case KIND_NUMBER:
    case KIND_SIZE:
    case KIND_AMOUNT:
        break;
    }
    snprintf(buf, cap, "%" PRIu64, number_of(s, o));
    return buf;
}

/* --- for people --- */

#define HELP_COLUMN 23
#define HELP_WIDTH  80

/* text from column `at` on, in lines of HELP_WIDTH. */
static int help_wrap(FILE *f, const char *text, int at) {
    while (*text != '\0') {
        int n = (int)strcspn(text, " ");

        if (at < HELP_COLUMN || at + 1 + n > HELP_WIDTH) {
            fprintf(f, at < HELP_COLUMN ? "%*s" : "\n%*s",
                    at < HELP_COLUMN ? HELP_COLUMN - at : HELP_COLUMN, "");
            at = HELP_COLUMN;
        } else {
            fputs(at == HELP_COLUMN ? "" : " ", f);
            at += at != HELP_COLUMN;
        }
        fprintf(f, "%.*s", n, text);
        at += n;
        text += n;
        text += strspn(text, " ");
    }
    return at;
}

void option_help(FILE *f, unsigned of) {
    int internal = of != OF_DDICTD ? INTERNAL : 0;

    for (enum option_id o = 0; o < OPTS; o++) {
        const struct option_row *row = &option_rows[o];
        const char *argument = of == OF_DDICTD && row->told ? row->told : row->argument,
                   *help = of == OF_DDICTD && row->told_help ? row->told_help : row->help;
        int at = 0;

        if ((row->of & of) == 0 || (row->of & internal) != 0)
            continue;
        if (row->letter != '\0' && of != OF_DDICTD)
            at = fprintf(f, "  -%c, %s", row->letter, row->option);
        else
            at = fprintf(f, "      %s", row->option);
        if (argument)
            at += fprintf(f, row->bare ? "[=%s]" : "=%s", argument);
        at += fprintf(f, " ");
        at = help_wrap(f, help, at);
        if (row->variable && (of != OF_DDICTD || is_ddictd_only(o))) {
            char text[64];

            snprintf(text, sizeof text, "($%s)", row->variable);
            help_wrap(f, text, at);
        }
        fputc('\n', f);
    }
}
