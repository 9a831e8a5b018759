/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option_table.h - every option of slurm-ddict, one row each (option_rows.h), and what was said of
 * each. All that knows options by name comes from the rows: those of srun, salloc and sbatch, of
 * `ddict up`, `ddict run` and ddictd, their environment forms, the words of ddict.conf, --help, the
 * shell's completion, and the test that compares the man pages. CONTRIBUTING.md adds one.
 * libc only: the plugin has it, too.
 *
 *     struct settings s = { 0 };                                     nothing said
 *     settings_take(&s, OPT_MEM, BY_SITE, "4G", why, sizeof why);    who ranks higher wins
 *     settings_complete(&s, why, sizeof why);                        the rest is our default
 *     s.of[OPT_MEM].amount                                           the value, read once
 */
#ifndef DDICT_LAUNCH_OPTION_TABLE_H
#define DDICT_LAUNCH_OPTION_TABLE_H

#include "sizing.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define SITE_TEXT 512 /* bytes of a path of the administrator's with the final 0 */

enum option_id {
#define ROW(id, ...) OPT_##id
#include "option_rows.h"
#undef ROW
    OPTS
};

/* Who said it; later ones win. */
enum said_by {
    BY_NOBODY,
    BY_DEFAULT, /* ours */
    BY_SITE,    /* ddict.conf, and words on the plugin's line in plugstack.conf */
    BY_VARIABLE,
    BY_OPTION,
    BY_STARTER, /* who starts ddictd has worked it out: bytes, not shares; absolute paths */
};

enum option_kind {
    KIND_FLAG, /* number is 1 */
    KIND_TEXT,
    KIND_CHOICE, /* one of the words in want */
    KIND_NUMBER, /* from low to high */
    KIND_SIZE,   /* number is bytes */
    KIND_AMOUNT, /* bytes, or a share */
    KIND_PORTS,  /* LOW-HIGH */
    KIND_PAGES,  /* number is that of hugepages_parse() */
};

struct setting {
    enum said_by by;
    const char *text; /* as it was said; borrowed from argv, the environment, or text_keep() */
    union {
        uint64_t number;
        struct amount amount;
        struct {
            uint32_t low, high;
        } ports;
    };
};

enum option_of {
    /* --ddict-NAME of srun, salloc and sbatch. With OF_UP it goes on to `ddict up` */
    OF_SRUN = 1,
    OF_UP = 2,     /* --NAME of `ddict up` */
    OF_RUN = 4,    /* --NAME of `ddict run` */
    OF_DDICTD = 8, /* --NAME of ddictd, which is told what was said */
    INTERNAL = 16, /* our programs say it to each other: in no help and no man page of users */
    ASKS = 32,     /* at srun it asks for a dictionary */
    ONCE = 64,     /* its variable is for one dictionary: programs that have it do not see it */
    PATH = 128,    /* ddictd gets it as an absolute path */
};

struct option_row {
    const char *name;     /* "mem" */
    const char *option;   /* "--mem" */
    const char *of_srun;  /* "--ddict-mem" */
    const char *variable; /* "DDICT_MEM"; NULL: none */
    const char *word;     /* of ddict.conf; NULL: none */
    const char *argument; /* as --help has it; NULL: none. Small words between | are completed */
    const char *bare;     /* the value of the option without one; NULL: it needs one */
    char letter;          /* -n */
    enum option_kind kind;
    const char *want;   /* what a wrong value is answered: "NAME=VALUE: want WANT" */
    uint64_t low, high; /* of a number */
    int (*is_good)(const char *text, enum said_by by); /* NULL: any text is */
    /* For values with a grammar of their own: 0, or -EINVAL with the sentence in why. */
    int (*judge)(const char *name, const char *text, char *why, size_t cap);
    unsigned of;              /* OF_* and the others */
    struct setting otherwise; /* our default */
    const char *help;         /* one line, without the variable, which is added */
    /* In ddictd's --help, where it is told less than the user may say; NULL: as above. */
    const char *told, *told_help;
};

extern const struct option_row option_rows[OPTS];

/* What was said of every option. */
struct settings {
    struct setting of[OPTS];
};

/* --- saying; each returns 0, or -EINVAL with one sentence in why, and s is unchanged then --- */

/* text is the value, NULL: none was given. It is read, and kept unless somebody of a higher rank said
 * something else. */
int settings_take(struct settings *s, enum option_id o, enum said_by by, const char *text,
                  char *why, size_t cap);
/* The options that argv begins with; optind is then the first word behind them. of: one of OF_*. */
int settings_take_argv(struct settings *s, unsigned of, enum said_by by, int argc, char **argv,
                       char *why, size_t cap);
/* The variables of the options of `of`, where nobody of a higher rank said something. env is as
 * getenv. */
int settings_take_variables(struct settings *s, unsigned of, const char *(*env)(const char *),
                            char *why, size_t cap);
/* A word of the administrator's, "mem=4G". where begins the sentence of a refusal
 * ("plugstack.conf"). */
int settings_take_word(struct settings *s, const char *word, const char *where, char *why,
                       size_t cap);
/* All was said: judge what depends on several, and fill in defaults. */
int settings_complete(struct settings *s, char *why, size_t cap);

/* What was worked out for ddictd. text NULL or "": nothing. */
void settings_put(struct settings *s, enum option_id o, uint64_t number);
void settings_put_text(struct settings *s, enum option_id o, const char *text);

/* --- asking --- */

static inline int is_said(const struct settings *s, enum option_id o) {
    return s->of[o].by != BY_NOBODY;
}
/* Of an option that is yes or no; s is complete. */
int is_yes(const struct settings *s, enum option_id o);
/* By the user, not by the site or by default. */
static inline int is_by_user(const struct settings *s, enum option_id o) {
    return s->of[o].by >= BY_VARIABLE;
}
static inline const char *text_of(const struct settings *s, enum option_id o) {
    return s->of[o].text;
}
/* Whether --persist says so. */
int is_read_only(const struct settings *s);
static inline uint64_t number_of(const struct settings *s, enum option_id o) {
    return s->of[o].number;
}
/* No starter has it, so ddictd reads its variable itself. */
static inline int is_ddictd_only(enum option_id o) {
    return (option_rows[o].of & (OF_SRUN | OF_UP | OF_RUN | OF_DDICTD)) == OF_DDICTD;
}
/* The deadlines of a start, milliseconds. */
struct start_times {
    int create_ms; /* for Slurm to start the managers' step */
    int ready_ms;  /* from then on */
    int elect_ms;  /* where the name is taken: until it is ready, or ours */
};
/* What was said as --start-timeout moves all of them; s need not be complete. */
void start_times(const struct settings *s, struct start_times *t);
/* What the user calls it: the variable that it was said by, else the option. */
const char *settings_name(const struct settings *s, enum option_id o);
/* The value as ddictd is told; buf, at least 24 bytes, is for numbers. NULL: it is a flag. */
const char *settings_write(const struct settings *s, enum option_id o, char *buf, size_t cap);

/* NODE/PID/TICKS of OPT_SCRIPT: a process, and when it began, as /proc/PID/stat has it. 0 or
 * -EINVAL. */
int script_parse(const char *text, char *node, size_t cap, pid_t *pid, uint64_t *began);

/* One line for each option of `of`. */
void option_help(FILE *f, unsigned of);

#endif
