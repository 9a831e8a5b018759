/* SPDX-License-Identifier: Apache-2.0 */
/* record_find.c - find records: in the working folder, in the site's record_dir, and in the folder
 * of a job that Slurm knows. */
#include "record_find.h"

#include <base/defaults.h>
#include <base/error.h>
#include <launch/command.h>
#include <launch/site.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

void paths_free(struct paths *p) {
    for (size_t i = 0; i < p->count; i++)
        free(p->path[i]);
    free(p->path);
    *p = (struct paths){0};
}

static int paths_add(struct paths *p, const char *path) {
    char **all = reallocarray(p->path, p->count + 1, sizeof *all);
    if (!all)
        return -ENOMEM;
    p->path = all;
    if (!(all[p->count] = strdup(path)))
        return -ENOMEM;
    p->count++;
    return 0;
}

struct found {
    struct timespec at;
    char *path; /* borrowed from paths */
};

static int found_order(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    if (x->at.tv_sec != y->at.tv_sec)
        return x->at.tv_sec < y->at.tv_sec ? -1 : 1;
    if (x->at.tv_nsec != y->at.tv_nsec)
        return x->at.tv_nsec < y->at.tv_nsec ? -1 : 1;
    return strverscmp(x->path, y->path);
}

static int by_age(struct paths *p) {
    struct found *f = calloc(p->count, sizeof *f);
    if (!f)
        return -ENOMEM;
    for (size_t i = 0; i < p->count; i++) {
        struct stat st;
        f[i].path = p->path[i];
        if (stat(p->path[i], &st) == 0)
            f[i].at = st.st_mtim;
    }
    qsort(f, p->count, sizeof *f, found_order);
    for (size_t i = 0; i < p->count; i++)
        p->path[i] = f[i].path;
    free(f);
    return 0;
}

static bool is_record(const char *name) {
    size_t n = strlen(name);
    struct stat st;
    return strncmp(name, "ddict-", 6) == 0 && n > 12 && strcmp(name + n - 6, ".jsonl") == 0 &&
           stat(name, &st) == 0 && S_ISREG(st.st_mode);
}

int records_here(struct paths *p) {
    DIR *d = opendir(".");
    struct dirent *e;
    int rc = 0;
    *p = (struct paths){0};
    if (!d)
        return dd_error(-errno, "the working folder: %s", strerror(errno));
    while (rc == 0 && (e = readdir(d)))
        if (is_record(e->d_name))
            rc = paths_add(p, e->d_name);
    closedir(d);
    if (rc == 0 && p->count == 0)
        return dd_error(-ENOENT, "no ddict-*.jsonl in this folder; name a file or a job");
    if (rc == 0)
        rc = by_age(p);
    if (rc < 0)
        paths_free(p);
    return rc < 0 ? dd_error(rc, "no memory") : 0;
}

bool is_job(const char *text) {
    size_t n = strspn(text, "0123456789"),
           m = text[n] == '_' ? strspn(text + n + 1, "0123456789") : 0;
    return n > 0 && n + m < 32 && (text[n] == 0 || (m > 0 && text[n + 1 + m] == 0));
}

/* Find the value of NAME= in the output of `scontrol show job`: it ends at the first character of
 * until. */
static bool field_of(const char *text, const char *name, const char *until, char *to, size_t cap) {
    char key[32];
    snprintf(key, sizeof key, "%s=", name);
    for (const char *at = text; (at = strstr(at, key)); at++) {
        if (at > text && !strchr(" \n\t", at[-1]))
            continue;
        at += strlen(key);
        size_t n = strcspn(at, until);
        if (n == 0 || n >= cap)
            return false;
        memcpy(to, at, n);
        to[n] = 0;
        return true;
    }
    return false;
}

struct job {
    char id[32], folder[PATH_MAX];
};

/* Ask Slurm for the job; false: it does not know the job, or there is no Slurm here. */
static bool job_ask(const char *job, struct job *out) {
    char scontrol[PATH_MAX], *text = NULL;
    char *argv[] = {scontrol, "show", "job", (char *)job, NULL}, **envp = NULL;
    bool known = false;
    if (command_find("scontrol", scontrol, sizeof scontrol) == 0 &&
        (envp = command_environment(environ, 0)) &&
        command_read(argv, envp, DD_SCONTROL_MS, &text) == 0)
        known = field_of(text, "JobId", " \n", out->id, sizeof out->id) &&
                field_of(text, "WorkDir", "\n", out->folder, sizeof out->folder);
    free(text);
    free(envp);
    return known;
}

/* Replace %u, %j, %s ("job") and %% in record_dir; false if it has another %, or the result does
 * not fit. */
static bool folder_of_site(const char *record_dir, const char *job, char *to, size_t cap) {
    const struct passwd *me = getpwuid(geteuid());
    size_t n = 0;
    for (const char *s = record_dir; *s != 0; s++) {
        char one[2] = {*s, 0};
        const char *part = *s != '%'         ? one
                           : *++s == '%'     ? "%"
                           : *s == 'j'       ? job
                           : *s == 's'       ? "job"
                           : *s == 'u' && me ? me->pw_name
                                             : NULL;
        if (!part || n + strlen(part) >= cap)
            return false;
        n += (size_t)snprintf(to + n, cap - n, "%s", part);
    }
    return n > 0;
}

/* Look for the record in folder ("": the working folder). True: it was added, or *rc is set. */
static bool record_in(const char *folder, const char *job, struct paths *p, int *rc) {
    char path[PATH_MAX + 64];
    struct stat st;
    snprintf(path, sizeof path, "%s%sddict-%s.jsonl", folder, *folder != 0 ? "/" : "", job);
    if (stat(path, &st) < 0)
        return false;
    *rc = paths_add(p, path) < 0 ? dd_error(-ENOMEM, "no memory") : 0;
    return true;
}

int record_of_job(const char *job, struct paths *p) {
    struct settings site = {0};
    struct job known;
    char why[ASK_WHY], folder[PATH_MAX], places[PATH_MAX + 64] = "";
    const char *id = job;
    bool asked = false, slurm = false;
    int rc = 0;
    if (strchr(job, '_')) {
        asked = true;
        if (!(slurm = job_ask(job, &known)))
            return dd_error(-ENOENT,
                            "%s: Slurm does not know this job (any more); its record has the job's "
                            "own number, as in ddict-12.jsonl",
                            job);
        id = known.id;
    }
    if (record_in("", id, p, &rc))
        return rc;
    if (site_read(&site, why, sizeof why) == 0 && is_said(&site, OPT_RECORD_DIR) &&
        strcmp(text_of(&site, OPT_RECORD_DIR), "none") != 0 &&
        folder_of_site(text_of(&site, OPT_RECORD_DIR), id, folder, sizeof folder)) {
        if (record_in(folder, id, p, &rc))
            return rc;
        snprintf(places, sizeof places, ", not in %s", folder);
    }
    if (!asked)
        slurm = job_ask(id, &known);
    if (slurm && record_in(known.folder, id, p, &rc))
        return rc;
    return dd_error(-ENOENT, "no ddict-%s.jsonl: not in this folder%s%s%s", id, places,
                    slurm ? ", not in the job's: " : "; Slurm does not know the job (any more)",
                    slurm ? known.folder : "");
}
