/* SPDX-License-Identifier: Apache-2.0 */
/* record_path.c - find out which file gets the record, and which folders the results and the spill.
 * */
#include "record_path.h"

#include "load_spec.h"
#include <base/persist_text.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_NAME "ddict-%j.jsonl"

struct text {
    char *at;
    size_t len, cap;
};

static void path_add(struct text *t, const char *bytes, size_t n) {
    if (t->len + n < t->cap)
        memcpy(t->at + t->len, bytes, n);
    t->len += n;
}

/* %j, %s, %u and %%; the letter that is none of them, or 0. */
static char pattern_expand(struct text *t, const char *pattern, const struct settings *s,
                           const char *user) {
    for (; *pattern != '\0'; pattern++) {
        const char *value = NULL;

        if (*pattern != '%') {
            path_add(t, pattern, 1);
            continue;
        }
        switch (*++pattern) {
        case 'j':
            value = is_said(s, OPT_JOBID) && !is_said(s, OPT_LOCAL) ? text_of(s, OPT_JOBID) : "0";
            break;
        case 's':
            value = is_said(s, OPT_STEP) ? text_of(s, OPT_STEP) : "job";
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
        path_add(t, value, strlen(value));
    }
    return '\0';
}

/* A relative path begins in folder; NULL: there is none. 0, or -EINVAL with why set, and path is
 * "". */
static int path_expand(char *path, size_t cap, const char *name, const char *pattern,
                       const char *folder, const struct settings *s, const char *user, char *why,
                       size_t why_cap) {
    struct text t = {.at = path, .cap = cap};
    char wrong;

    if (*pattern != '/' && folder) {
        path_add(&t, folder, strlen(folder));
        path_add(&t, "/", 1);
    }
    wrong = pattern_expand(&t, pattern, s, user);
    path_add(&t, "", 1);
    if (wrong == '\0' && t.len <= cap)
        return 0;
    path[0] = '\0';
    if (wrong != '\0')
        snprintf(why, why_cap,
                 "%s=%.80s: %%%c is none of %%j (job), %%s (step), %%u (user) and %%%%", name,
                 pattern, wrong);
    else
        snprintf(why, why_cap, "%s=%.80s: the path is too long", name, pattern);
    return -EINVAL;
}

static const char *folder_of(const struct settings *s, const char *folder) {
    return is_said(s, OPT_CHDIR) ? text_of(s, OPT_CHDIR) : folder;
}

/* "" and "none" are no folder. */
static int is_none(const struct settings *s, enum option_id o) {
    const char *text = text_of(s, o);

    return !text || *text == '\0' || strcmp(text, "none") == 0;
}

int record_path(char *path, size_t cap, const struct settings *s, const char *folder,
                const char *user, char *why, size_t why_cap) {
    const char *name = settings_name(s, OPT_RECORD), *pattern = text_of(s, OPT_RECORD),
               *site = is_said(s, OPT_RECORD_DIR) ? text_of(s, OPT_RECORD_DIR) : "";
    char in[4096];

    path[0] = '\0';
    if (pattern && strcmp(pattern, "none") == 0)
        return 0;
    if (pattern && (*pattern == '\0' || pattern[strlen(pattern) - 1] == '/')) {
        snprintf(why, why_cap, "%s=%.80s: want the name of a file, or none", name, pattern);
        return -EINVAL;
    }
    if (pattern)
        return path_expand(path, cap, name, pattern, folder_of(s, folder), s, user, why, why_cap);
    if (!is_said(s, OPT_JOBID) || is_said(s, OPT_LOCAL) || strcmp(site, "none") == 0)
        return 0;
    if (*site == '\0')
        return path_expand(path, cap, name, DEFAULT_NAME, folder_of(s, folder), s, user, why,
                           why_cap);
    if (path_expand(in, sizeof in, option_rows[OPT_RECORD_DIR].word, site, NULL, s, user, why,
                    why_cap) < 0)
        return -EINVAL;
    return path_expand(path, cap, option_rows[OPT_RECORD_DIR].word, DEFAULT_NAME, in, s, user, why,
                       why_cap);
}

int results_path(char *path, size_t cap, const struct settings *s, const char *folder,
                 const char *user, char *why, size_t why_cap) {
    path[0] = '\0';
    if (is_none(s, OPT_RESULTS))
        return 0;
    return path_expand(path, cap, settings_name(s, OPT_RESULTS), text_of(s, OPT_RESULTS),
                       folder_of(s, folder), s, user, why, why_cap);
}

int save_path(char *path, size_t cap, const char **prefix, const struct settings *s,
              const char *folder, const char *user, char *why, size_t why_cap) {
    static char text[INTAKE_MAX];
    const char *name = settings_name(s, OPT_SAVE), *dir;
    int files;

    path[0] = '\0';
    *prefix = NULL;
    if (is_none(s, OPT_SAVE))
        return 0;
    if (intake_save(name, text_of(s, OPT_SAVE), &dir, text, sizeof text, &files, why, why_cap) < 0)
        return -EINVAL;
    if (files)
        *prefix = text;
    return path_expand(path, cap, name, dir, folder_of(s, folder), s, user, why, why_cap);
}

int persist_path(char *path, size_t cap, const struct settings *s, const char *folder,
                 const char *user, char *why, size_t why_cap) {
    const char *name = settings_name(s, OPT_PERSIST), *text = text_of(s, OPT_PERSIST);
    char pattern[PERSIST_TEXT];
    struct persist_text p;
    size_t len;

    path[0] = '\0';
    if (is_none(s, OPT_PERSIST) || persist_text_parse(text, &p) < 0)
        return 0;
    snprintf(pattern, sizeof pattern, "%.*s", (int)p.dir_len, text);
    if (path_expand(path, cap, name, pattern, folder_of(s, folder), s, user, why, why_cap) < 0)
        return -EINVAL;
    len = strlen(path);
    if (!strchr(path, ',') && persist_text_words(path + len, cap - len, &p) < PERSIST_TEXT &&
        strlen(path) < PERSIST_TEXT)
        return 0;
    snprintf(why, why_cap, "%s=%.80s: the path is too long, or has a comma", name, pattern);
    return -EINVAL;
}

int spill_path(char *path, size_t cap, uint64_t *size, const struct settings *s, const char *user,
               char *why, size_t why_cap) {
    const char *name = settings_name(s, OPT_SPILL), *text = text_of(s, OPT_SPILL);
    char pattern[SPILL_TEXT];
    size_t len;

    path[0] = '\0';
    *size = 0;
    if (!text)
        return 0;
    if (ask_spill(name, text, &len, size, why, why_cap) < 0)
        return -EINVAL;
    if (len == 0)
        return 0;
    memcpy(pattern, text, len);
    pattern[len] = '\0';
    return path_expand(path, cap, name, pattern, NULL, s, user, why, why_cap);
}
