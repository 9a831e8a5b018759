/* SPDX-License-Identifier: Apache-2.0 */
/* load_spec.c - cut up what is to be put into a dictionary before its first user begins. */
#include "load_spec.h"

#include <base/size.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WORDS "prefix=P, set=NAME, as=KIND, on-error=stop|skip, threads=N or replace"

static int word_is_good(const char *word) {
    static const char *const names[] = {"prefix=", "set=", "as="};
    uint64_t n;
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(word, names[i], strlen(names[i])) == 0)
            return word[strlen(names[i])] != '\0';
    return strcmp(word, "replace") == 0 || strcmp(word, "on-error=stop") == 0 ||
           strcmp(word, "on-error=skip") == 0 ||
           (strncmp(word, "threads=", 8) == 0 && count_parse(word + 8, 1, 64, &n) == 0);
}

/* "SOURCE;WORD;WORD": the words go, and are the set's. 0, or -EINVAL. */
static int words_take(struct intake_set *set, char *source, const char *name, char *why,
                      size_t cap) {
    char *word = strchr(source, ';'), *save;

    *word++ = '\0';
    if (*word == '\0' || word[strlen(word) - 1] == ';' || strstr(word, ";;") || *word == ';') {
        snprintf(why, cap, "%s: an empty word behind %.60s: want " WORDS, name, source);
        return -EINVAL;
    }
    for (word = strtok_r(word, ";", &save); word; word = strtok_r(NULL, ";", &save)) {
        if (!word_is_good(word) || set->nwords == INTAKE_WORDS) {
            snprintf(why, cap, "%s: \"%.60s\" behind %.60s: want " WORDS, name, word, source);
            return -EINVAL;
        }
        set->words[set->nwords++] = word;
    }
    return 0;
}

int intake_sets(char *text, struct intake_set sets[INTAKE_SETS], const char *name, char *why,
                size_t cap) {
    char *at = text, *comma;
    int n = 0, open = 0;

    for (;; at = comma + 1) {
        int has_words;

        comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        if (*at == '\0' || *at == ';') {
            snprintf(why, cap, "%s: a source is empty", name);
            return -EINVAL;
        }
        if (!open) {
            if (n == INTAKE_SETS) {
                snprintf(why, cap, "%s: at most %d sets; `ddict load` in the job takes more", name,
                         INTAKE_SETS);
                return -EINVAL;
            }
            sets[n] = (struct intake_set){.sources = at};
            n++;
            open = 1;
        } else {
            at[-1] = ','; /* the same set */
        }
        has_words = strchr(at, ';') != NULL;
        if (has_words && words_take(&sets[n - 1], at, name, why, cap) < 0)
            return -EINVAL;
        open = !has_words;
        if (!comma)
            return n;
    }
}

static int length_judge(const char *name, const char *text, const char *verb, char *why,
                        size_t cap) {
    if (*text != '\0' && strlen(text) <= INTAKE_MAX)
        return 0;
    snprintf(why, cap, "%s=%.60s: want 1 to %d bytes; `ddict %s` in the job takes more", name, text,
             INTAKE_MAX, verb);
    return -EINVAL;
}

int intake_judge_load(const char *name, const char *text, char *why, size_t cap) {
    struct intake_set sets[INTAKE_SETS];
    char copy[INTAKE_MAX + 1];
    int n = length_judge(name, text, "load", why, cap);

    if (n < 0)
        return n;
    strcpy(copy, text);
    n = intake_sets(copy, sets, name, why, cap);
    return n < 0 ? n : 0;
}

int intake_judge_restore(const char *name, const char *text, char *why, size_t cap) {
    size_t n;

    if (length_judge(name, text, "restore", why, cap) < 0)
        return -EINVAL;
    for (;; text += n + 1) {
        n = strcspn(text, ",");
        if (n == 0 || (n == 1 && *text == '-')) {
            snprintf(why, cap, "%s: a path is empty", name);
            return -EINVAL;
        }
        if (text[n] == '\0')
            return 0;
    }
}

int intake_save(const char *name, const char *text, const char **dir, char *prefix,
                size_t prefix_cap, int *files, char *why, size_t cap) {
    const char *colon = strrchr(text, ':');
    size_t n;

    if (length_judge(name, text, "save", why, cap) < 0)
        return -EINVAL;
    if (*text == '/' || strncmp(text, "./", 2) == 0 || strncmp(text, "../", 3) == 0)
        colon = NULL;
    if (colon && strstr(text, "://")) {
        snprintf(why, cap, "%s=%.60s: want a folder; an address is only for %s", name, text,
                 strncmp(name, "--save", 6) == 0 ? "--load" : "--ddict-load");
        return -EINVAL;
    }
    *files = colon != NULL;
    *dir = colon ? colon + 1 : text;
    n = colon ? (size_t)(colon - text) : 0;
    prefix[0] = '\0';
    if (**dir == '\0')
        snprintf(why, cap, "%s=%.60s: want [PREFIX:]DIR, and DIR is empty", name, text);
    else if (n >= prefix_cap)
        snprintf(why, cap, "%s=%.60s: want a prefix of at most %zu bytes", name, text,
                 prefix_cap - 1);
    else {
        memcpy(prefix, text, n);
        prefix[n] = '\0';
        return 0;
    }
    return -EINVAL;
}
