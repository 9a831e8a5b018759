/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - find out which file gets the record, and which folders the results and the spill. */
#include "launch/record.h"

#include "launch/intake.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_NAME "ddict-%j.jsonl"

struct text {
    char *at;
    size_t len, cap;
};

static void add(struct text *t, const char *bytes, size_t n) {
    if (t->len + n < t->cap)
        memcpy(t->at + t->len, bytes, n);
    t->len += n;
}

/* %j, %s, %u and %%; the letter that is none of them, or 0. */
static char expand(struct text *t, const char *pattern, const struct options *o, const char *user) {
    for (; *pattern != '\0'; pattern++) {
        const char *value = NULL;

        if (*pattern != '%') {
            add(t, pattern, 1);
            continue;
        }
        switch (*++pattern) {
        case 'j':
            value = o->job != NULL && !o->local ? o->job : "0";
            break;
        case 's':
            value = o->step != NULL ? o->step : "job";
            break;
        case 'u':
            value = user;
            break;
        case '%':
            value = "%";
            break;
        default:
            return *pattern != '\0' ? *pattern : '%';
        }
        add(t, value, strlen(value));
    }
    return '\0';
}

int record_path(char *path, size_t cap, const struct options *o, const char *folder,
                const char *user, char *why, size_t why_cap) {
    const char *name = o->plugin ? "--ddict-log" : "--log",
               *dir = o->chdir != NULL ? o->chdir : folder, *pattern = o->log,
               *site = o->site.log_dir;
    struct text t = {.at = path, .cap = cap};
    int by_site = pattern == NULL && site[0] == '/';
    char wrong = '\0';

    path[0] = '\0';
    if (pattern == NULL && (o->job == NULL || o->local || strcmp(site, "none") == 0))
        return 0;
    if (pattern != NULL && strcmp(pattern, "none") == 0)
        return 0;
    if (by_site)
        wrong = expand(&t, site, o, user);
    else if (pattern == NULL || *pattern != '/')
        add(&t, dir, strlen(dir));
    if (t.len > 0)
        add(&t, "/", 1);
    if (wrong == '\0')
        wrong = expand(&t, pattern != NULL ? pattern : DEFAULT_NAME, o, user);
    add(&t, "", 1);
    if (wrong != '\0')
        snprintf(why, why_cap,
                 "%s=%.80s: %%%c is none of %%j (job), %%s (step), %%u (user) and %%%%",
                 by_site ? "log_dir" : name, by_site ? site : pattern, wrong);
    else if (t.len > cap)
        snprintf(why, why_cap, "%s=%.80s: the path is too long", by_site ? "log_dir" : name,
                 pattern != NULL ? pattern : DEFAULT_NAME);
    else if (pattern != NULL && (*pattern == '\0' || pattern[strlen(pattern) - 1] == '/'))
        snprintf(why, why_cap, "%s=%.80s: want the name of a file, or none", name, pattern);
    else
        return 0;
    path[0] = '\0';
    return -EINVAL;
}

/* A folder, absolute; "" for none given. */
static int folder_path(char *path, size_t cap, const char *name, const char *pattern,
                       const struct options *o, const char *folder, const char *user, char *why,
                       size_t why_cap) {
    const char *dir = o->chdir != NULL ? o->chdir : folder;
    struct text t = {.at = path, .cap = cap};
    char wrong;

    path[0] = '\0';
    if (pattern == NULL || *pattern == '\0')
        return 0;
    if (*pattern != '/') {
        add(&t, dir, strlen(dir));
        add(&t, "/", 1);
    }
    wrong = expand(&t, pattern, o, user);
    add(&t, "", 1);
    if (wrong != '\0')
        snprintf(why, why_cap,
                 "%s=%.80s: %%%c is none of %%j (job), %%s (step), %%u (user) and %%%%", name,
                 pattern, wrong);
    else if (t.len > cap)
        snprintf(why, why_cap, "%s=%.80s: the path is too long", name, pattern);
    else
        return 0;
    path[0] = '\0';
    return -EINVAL;
}

int results_path(char *path, size_t cap, const struct options *o, const char *folder,
                 const char *user, char *why, size_t why_cap) {
    const char *pattern = o->results != NULL && strcmp(o->results, "none") == 0 ? NULL : o->results;

    return folder_path(path, cap, o->plugin ? "--ddict-results" : "--results", pattern, o, folder,
                       user, why, why_cap);
}

int save_path(char *path, size_t cap, const char **prefix, const struct options *o,
              const char *folder, const char *user, char *why, size_t why_cap) {
    static char text[INTAKE_MAX];
    const char *name = o->plugin ? "--ddict-save" : "--save", *dir;
    int files;

    path[0] = '\0';
    *prefix = NULL;
    if (o->save == NULL || *o->save == '\0' || strcmp(o->save, "none") == 0)
        return 0;
    if (intake_save(name, o->save, &dir, text, sizeof text, &files, why, why_cap) < 0)
        return -EINVAL;
    if (files)
        *prefix = text;
    return folder_path(path, cap, name, dir, o, folder, user, why, why_cap);
}

int spill_path(char *path, size_t cap, uint64_t *size, const struct options *o, const char *user,
               char *why, size_t why_cap) {
    const char *name = o->plugin ? "--ddict-spill" : "--spill";
    struct text t = {.at = path, .cap = cap};
    char pattern[SPILL_TEXT], wrong;
    size_t len;

    path[0] = '\0';
    *size = 0;
    if (o->spill == NULL)
        return 0;
    if (ask_spill(name, o->spill, &len, size, why, why_cap) < 0)
        return -EINVAL;
    if (len == 0)
        return 0;
    memcpy(pattern, o->spill, len);
    pattern[len] = '\0';
    wrong = expand(&t, pattern, o, user);
    add(&t, "", 1);
    if (wrong == '\0' && t.len <= cap)
        return 0;
    path[0] = '\0';
    if (wrong != '\0')
        snprintf(why, why_cap,
                 "%s=%.80s: %%%c is none of %%j (job), %%s (step), %%u (user) and %%%%", name,
                 o->spill, wrong);
    else
        snprintf(why, why_cap, "%s=%.80s: the path is too long", name, o->spill);
    return -EINVAL;
}
